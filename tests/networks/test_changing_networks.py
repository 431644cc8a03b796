"""Networks that change, links that fail, messages that are compressed: the invariant, the counts, and convergence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import npga
from helpers.families import VERSIONS, random_problem, tame_steps
from npga.errors import InputError, NetworkError
from npga.networks import ChangingNetwork, Compressor
from npga.solver import local_agents, method_for, run_agents

N = 8
PROBLEM = random_problem(1, N, 3, "quadratic", "l1", "squared-loss")
STAR = npga.reference(PROBLEM).x
RING = npga.Network.ring(N)
# Neither half is connected, both together are a ring.
EVEN, ODD = [(i, i + 1) for i in range(0, N, 2)], [(i, (i + 1) % N) for i in range(1, N, 2)]
MATCHINGS = npga.Network.sequence([EVEN, ODD], N)
UNSTEADY = {
    "matchings": MATCHINGS,
    "random graphs": npga.Network.sequence([npga.Network.erdos_renyi(N, 0.4, seed=seed) for seed in range(5)]),
    "function": npga.Network.sequence(lambda k: EVEN if k % 3 else ODD, N, window=3),
    "ring and star": npga.Network.sequence([RING, npga.Network.star(N)]),
    "independent losses": RING.lossy(0.3, seed=1),
    "bursts": RING.lossy(0.3, burst=6.0, seed=1),
    "top-k": RING.compressed("top-k", 2),
    "random-k": RING.compressed("random-k", 2, seed=3),
    "bits": RING.compressed("bits", 5),
}


def version(name):
    return npga.version(name, 0.2) if name == "dlm" else npga.version(name)


def gap(result):
    return np.linalg.norm(result.x - STAR) / np.linalg.norm(STAR)


def literal(problem, sequence, chosen, steps, iterations):
    """The z-form of the chapter's first lines with dense matrices of each iteration's graph, and z before its end."""
    lam, z = np.zeros((problem.n, problem.p)), np.zeros((problem.n, problem.p))
    x, before = np.zeros(problem.d), z
    Ax = problem.A.apply(x)
    for k in range(iterations):
        B2, C, D = (m.toarray() for m in chosen.matrices(sequence.at(k), steps.beta))
        new = problem.g.prox(x - steps.alpha * (problem.f.grad(x) + problem.A.adjoint(lam)), steps.alpha)
        image = problem.A.apply(new)
        v = lam - C @ lam - z + steps.beta * (image + steps.theta * (image - Ax))
        lam, before, z = problem.h.conj_prox(D @ v, steps.beta / problem.n), z, z + steps.gamma * B2 @ v
        x, Ax = new, image
    return x, lam, before


@pytest.mark.parametrize("name", VERSIONS)
def test_no_stale_product_is_used(name):
    steps = tame_steps(PROBLEM, gamma=0.3, theta=0.4)
    for label in ("matchings", "random graphs", "function", "ring and star"):
        found = npga.solve(PROBLEM, UNSTEADY[label], version(name), steps, max_iters=60, tol=None)
        x, lam, z = literal(PROBLEM, UNSTEADY[label], version(name), steps, 60)
        for mine, theirs in ((found.x, x), (found.lam, lam), (found.state.u, z)):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("label", sorted(UNSTEADY))
def test_the_sum_over_agents_stays_zero(label, name):
    method = method_for(PROBLEM, UNSTEADY[label], version(name), tame_steps(PROBLEM, gamma=0.3))
    assert method.path == "vectorised"
    assert "no kernel" in method.path_reason
    state = method.start(np.zeros(PROBLEM.d), np.zeros((N, PROBLEM.p)))
    for _ in range(37):
        state = method.advance(state, 1)
        np.testing.assert_allclose(state.u.sum(axis=0), 0.0, atol=1e-12)
    assert np.abs(state.u).max() > 1e-3


def test_explicit_matrices_on_links_that_fail():
    W, steps = RING.W.toarray(), tame_steps(PROBLEM, gamma=0.3)
    for B2, C, D in ((1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)):
        gap_matrix = np.eye(N) - W
        mine = npga.Version.from_matrices(
            "mine", B2 * gap_matrix / 2, C * gap_matrix / 4, np.eye(N) - D * gap_matrix / 2
        )
        lossy = RING.lossy(0.3, seed=1)
        result = npga.solve(PROBLEM, lossy, mine, steps, max_iters=4000, tol=1e-9)
        assert result.status.ok
        assert gap(result) < 1e-7
        assert result.rounds == (1 + C) * result.iterations
        np.testing.assert_allclose(result.state.u.sum(axis=0), 0.0, atol=1e-12)
        twin = npga.Version("twin", [B2 / 2, -B2 / 2], [C / 4, -C / 4], [1 - D / 2, D / 2])
        other = npga.solve(PROBLEM, lossy, twin, steps, max_iters=4000, tol=1e-9)
        np.testing.assert_allclose(result.lam, other.lam, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["nids", "extra", "npga-i", "npga-ii", "atc-tracking", "diging"])
@pytest.mark.parametrize("label", sorted(UNSTEADY))
def test_runs_converge(label, name):
    steps = tame_steps(PROBLEM, gamma=0.1 if label == "random-k" else 0.3)
    result = npga.solve(PROBLEM, UNSTEADY[label], name, steps, max_iters=4000, tol=1e-9)
    assert result.status.ok
    assert gap(result) < 1e-7


@pytest.mark.parametrize("name", ["diging", "atc-tracking", "npga-ii"])
@pytest.mark.parametrize("label", ["ring and star", "matchings"])
def test_rows_with_C_converge_with_gamma_one(label, name):
    """Adding up C (lam - lam_prev) + gamma B^2 v instead diverges for the first two, and for all on ring and star."""
    result = npga.solve(PROBLEM, UNSTEADY[label], name, tame_steps(PROBLEM, gamma=1.0), max_iters=4000, tol=1e-9)
    assert result.status.ok
    assert gap(result) < 1e-7


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize(
    "same",
    [
        npga.Network.sequence([RING, npga.Network.ring(N)]),
        npga.Network.sequence(lambda k: RING, N, window=1),
        RING.lossy(0.0),
        RING.compressed("top-k", 3),  # all of the three numbers
    ],
    ids=["list", "function", "no losses", "all numbers"],
)
def test_what_does_not_change_is_the_steady_network(name, same):
    steps = tame_steps(PROBLEM, gamma=0.5, theta=0.7)
    plain = npga.solve(PROBLEM, RING, version(name), steps, max_iters=50, tol=None, path="vectorised")
    found = npga.solve(PROBLEM, same, version(name), steps, max_iters=50, tol=None)
    # c + (u - c) is u up to rounding, and so is what the z-form adds up where C is not zero; elsewhere the same bits.
    has_C = any(version(name).polynomials["C"])
    if same.has_fixed_links or has_C:
        for field in ("x", "lam", "lam_prev", "v"):
            np.testing.assert_allclose(getattr(plain.state, field), getattr(found.state, field), rtol=0, atol=1e-12)
    else:
        for field in ("x", "lam", "lam_prev", "v", "u"):
            np.testing.assert_array_equal(getattr(plain.state, field), getattr(found.state, field))
    b, c, d = (len(polynomial) - 1 for polynomial in version(name).kernel_polynomials(1.0))
    rounds = version(name).rounds if same.has_fixed_links else c + max(b, d)
    assert (found.rounds, found.messages) == (50 * rounds, 50 * rounds * 2 * N)
    assert has_C or found.rounds == plain.rounds


@pytest.mark.parametrize("name", ["diging", "atc-tracking", "npga-ii"])
def test_pairs_that_average_tell_z_nothing_of_lam(name):
    """(I - W) W = 0 where W is a projection: then B^2 (I - C) = 0; with another weight all is well."""
    problem = random_problem(2, N, 3, "squared-norm", "zero", "equality")
    star, steps = npga.reference(problem).x, npga.Steps(0.3, 0.3 / problem.sigma**2, 1.0)
    for c, vanishes in ((1.0, True), (2.0, False)):
        sequence = npga.Network.sequence([EVEN, ODD], N, c=c)
        B2, C, _ = (matrix.toarray() for matrix in version(name).matrices(sequence.at(0)))
        assert bool(np.abs(B2 @ (np.eye(N) - C)).max() < 1e-15) is vanishes
    result = npga.solve(problem, sequence, name, steps, max_iters=20_000, tol=None, reference=star, gap_tol=1e-8)
    assert result.trace.gap[-1] <= 1e-8


def test_counts():
    steps = tame_steps(PROBLEM, gamma=0.3)

    def count(network, name, iterations=10):
        result = npga.solve(PROBLEM, network, name, steps, max_iters=iterations, tol=None)
        return result.rounds, result.messages, result.floats_sent

    assert count(MATCHINGS, "nids") == (10, 10 * 2 * 4, 10 * 2 * 4 * 3)
    # C lam takes a round, D v and B^2 v two.
    assert count(MATCHINGS, "atc-tracking") == (30, 30 * 2 * 4, 30 * 2 * 4 * 3)
    assert count(UNSTEADY["ring and star"], "extra", 5) == (10, 2 * (6 * N + 4 * (N - 1)), 6 * (6 * N + 4 * (N - 1)))
    # What is lost was sent.
    assert count(RING.lossy(0.5), "nids") == (10, 10 * 2 * N, 10 * 2 * N * 3)
    assert count(RING.compressed("top-k", 1), "nids") == (10, 10 * 2 * N, 10 * 2 * N * 2)
    assert count(RING.compressed("random-k", 2), "nids")[2] == 10 * 2 * N * 2
    assert count(RING.compressed("bits", 8), "npga-i")[2] == 20 * 2 * N * (1 + 3 * 8 / 64)


def test_a_resumed_run_has_the_same_bits(tmp_path):
    steps = tame_steps(PROBLEM, gamma=0.3)
    for k, network in enumerate(UNSTEADY.values()):
        whole = npga.solve(PROBLEM, network, "atc-tracking", steps, max_iters=60, tol=None)
        file = tmp_path / f"{k}.npz"
        npga.solve(PROBLEM, network, "atc-tracking", steps, max_iters=23, tol=None, checkpoint=file)
        again = npga.solve(
            PROBLEM, network, "atc-tracking", steps, max_iters=60, tol=None, checkpoint=file, resume=True
        )
        np.testing.assert_array_equal(whole.x, again.x)
        assert whole.messages == again.messages


@pytest.mark.parametrize(
    "label", ["matchings", "random graphs", "function", "ring and star", "independent losses", "bursts"]
)
@pytest.mark.parametrize("name", ["nids", "npga-ii", "extra", "dlm", "diging", "atc-tracking"])
def test_single_agents_hear_the_same_messages(name, label):
    steps, network = tame_steps(PROBLEM, gamma=0.3), UNSTEADY[label]
    agents = local_agents(PROBLEM, network, version(name), steps)
    traffic = run_agents(agents, network, 40)
    whole = npga.solve(PROBLEM, network, version(name), steps, max_iters=40, tol=None)
    np.testing.assert_array_equal(np.concatenate([agent.x for agent in agents]), whole.x)
    assert (traffic.rounds, traffic.messages, traffic.floats_sent) == (whole.rounds, whole.messages, whole.floats_sent)


def test_a_sequence_is_written_as_a_table_of_weights():
    for label in ("matchings", "random graphs", "ring and star"):
        network = UNSTEADY[label]
        assert (
            ChangingNetwork.from_weights(N, network.edges[::-1, ::-1], [row[::-1] for row in network.table]) == network
        )
    with pytest.raises(NetworkError, match="function arrived"):
        _ = UNSTEADY["function"].table
    with pytest.raises(NetworkError, match=r"eigenvalues from -1\.4 to 0\.6"):
        ChangingNetwork.from_weights(N, RING.edges, [np.full(N, 0.6)])
    with pytest.raises(NetworkError, match="not connected"):
        ChangingNetwork.from_weights(N, EVEN, [np.full(len(EVEN), 0.3)])


def test_failures_have_the_share_and_the_length_that_were_asked_for():
    wide = npga.Network.complete(30)
    for burst in (None, 1.0, 8.0):
        lossy = wide.lossy(0.2, burst, seed=2)
        up = np.array([lossy.up(k) for k in range(1500)])
        assert (~up).mean() == pytest.approx(0.2, abs=0.01)
        ends = (~up[:-1] & up[1:]).sum()
        assert (~up).sum() / ends == pytest.approx(burst or 1.25, rel=0.05)
        np.testing.assert_array_equal(lossy.up(7), up[7])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(lossy)).up(900), up[900])


@pytest.mark.parametrize(("kind", "size", "factor"), [("top-k", 3, 0.8), ("random-k", 3, 1.0), ("bits", 4, 0.3)])
def test_compressors_shrink_what_is_left(kind, size, factor):
    compress, left = Compressor(kind, size), np.random.default_rng(0).standard_normal((5, 8))
    first = np.linalg.norm(left)
    for k in range(40):
        sent = compress(left, k)
        if kind != "bits":
            assert (np.count_nonzero(sent, axis=1) <= size).all()
        new = left - sent
        assert (np.linalg.norm(new, axis=1) <= factor * np.linalg.norm(left, axis=1) + 1e-300).all()
        left = new
    assert np.linalg.norm(left) < 1e-3 * first
    np.testing.assert_array_equal(compress(np.zeros((2, 8)), 0), 0.0)


def test_as_a_network_it_is_the_average():
    np.testing.assert_allclose(MATCHINGS.W.toarray(), (MATCHINGS.at(0).W + MATCHINGS.at(1).W).toarray() / 2)
    assert len(MATCHINGS.edges) == N
    assert MATCHINGS.nominal.is_steady
    assert MATCHINGS.fingerprint() != MATCHINGS.nominal.fingerprint() != RING.lossy(0.1).fingerprint()
    assert MATCHINGS.nominal != MATCHINGS
    assert npga.Network.sequence([EVEN, ODD], N) == MATCHINGS
    assert RING.lossy(0.1) != RING
    assert RING.lossy(0.1, seed=1) != RING.lossy(0.1, seed=2)
    assert hash(RING.lossy(0.1)) == hash(RING.lossy(0.1))
    tuned = npga.tune(PROBLEM, MATCHINGS.nominal, "nids", "theorem")
    assert npga.solve(PROBLEM, MATCHINGS, steps=tuned, tol=1e-6).status.ok


def test_what_has_no_meaning_is_refused():
    steps = npga.Steps(0.1, 0.1)
    for network in UNSTEADY.values():
        for call in (
            lambda network: npga.solve(PROBLEM, network),
            lambda network: npga.certify(PROBLEM, network, "nids"),
            lambda network: npga.tune(PROBLEM, network, "nids"),
            lambda network: npga.solve(PROBLEM, network, method="pga"),
            lambda network: npga.solve(PROBLEM, network, "nids", steps, path="compiled"),
            lambda network: npga.solve(PROBLEM, network, "nids", steps, max_iters=3).certificate,
        ):
            with pytest.raises(InputError, match=network.kind):
                call(network)
    mine = npga.Version.from_matrices("mine", np.eye(N) - RING.W.toarray())
    for chosen, why in (
        (npga.version("nids", chebyshev=2), "spectrum of one network"),
        (mine, "matrices of one network"),
    ):
        with pytest.raises(NetworkError, match=why):
            npga.solve(PROBLEM, MATCHINGS, chosen, steps)
        with pytest.raises(NetworkError, match=why):
            local_agents(PROBLEM, MATCHINGS, chosen, steps)
    with pytest.raises(InputError, match="compressed messages"):
        local_agents(PROBLEM, UNSTEADY["bits"], npga.version("nids"), steps)
    with pytest.raises(NetworkError, match="not connected"):
        npga.Network.sequence([EVEN], N)
    with pytest.raises(NetworkError, match="window"):
        npga.Network.sequence(lambda k: RING)
    with pytest.raises(NetworkError, match="empty"):
        npga.Network.sequence([])
    with pytest.raises(NetworkError, match="steady networks of 8"):
        npga.Network.sequence([RING, npga.Network.ring(5)], N)
    with pytest.raises(NetworkError, match="drop"):
        RING.lossy(1.0)
    with pytest.raises(NetworkError, match="burst"):
        RING.lossy(0.9, burst=2.0)
    with pytest.raises(NetworkError, match="expected a steady one"):
        MATCHINGS.lossy(0.1)
    with pytest.raises(NetworkError, match="copies"):
        RING.lossy(0.1).compressed("top-k", 1)
    with pytest.raises(NetworkError, match="did you mean 'top-k'"):
        RING.compressed("topk", 1)
    with pytest.raises(NetworkError, match="bits"):
        RING.compressed("bits", 1)


def test_what_belongs_to_the_graphs_of_a_sequence_is_refused_for_all_of_them():
    with pytest.raises(NetworkError, match="make each one of its sequence lazy"):
        MATCHINGS.lazy()
    with pytest.raises(NetworkError, match="c > 0"):
        npga.Network.sequence([EVEN, ODD], N, c=-1.0)
