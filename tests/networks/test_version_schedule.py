"""One iteration's messages: what is computed, how many are sent, explicit matrices included."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.network_cases import PAPER_ROUNDS, TEN, networks, row
from npga.errors import VersionError
from npga.networks import MatrixVersion, Network, Version, version
from npga.networks import drive as drive_requests

NETWORK = Network.erdos_renyi(13, 0.3, seed=0)
W, IDENTITY = NETWORK.W.toarray(), np.eye(13)
GAMMA, BETA = 0.7, 0.2


class DenseAnswers:
    """Answers requests with dense matrices and counts the messages."""

    def __init__(self, kernels):
        self.kernels, self.sent, self.last = kernels, 0, None

    def run(self, exchange):
        try:
            u, op = next(exchange)
            while True:
                if u is not None:
                    self.sent, self.last = self.sent + 1, u
                u, op = exchange.send(self.kernels[op] @ self.last)
        except StopIteration as done:
            return done.value


def drive(generator, answer):
    """Run a generator whose requests are answered by `answer(u, op)`, with the last u for a request without one."""
    sent = []

    def remember(u, op):
        if u is not None:
            sent.append(u)
        return answer(sent[-1], op)

    return drive_requests(generator, remember)


def dense_kernels(chosen, network, beta=BETA):
    """K_op for every op of the schedule, as dense matrices."""
    if isinstance(chosen, MatrixVersion):
        B2, C, D = (matrix.toarray() for matrix in chosen.matrices(network))
        return {"B2": B2, "C": C, "D": np.eye(network.n) - D}
    gossip = np.eye(network.n) - network.W.toarray() if chosen.basis == "W" else network.laplacian.toarray()
    return {"gossip": gossip}


def check(chosen, network, seed=0, tolerance=1e-12):
    """Two iterations' worth of mixing equal the explicit products and cost `rounds` messages each."""
    rng = np.random.default_rng(seed)
    v, dlam = rng.normal(size=(2, network.n, 3))
    originals = v.copy(), dlam.copy()
    B2, C, D = (matrix.toarray() for matrix in chosen.matrices(network, BETA))
    scale = 1 + sum(np.abs(matrix).sum() for matrix in (B2, C, D))
    schedule = chosen.schedule(BETA)
    assert schedule.rounds == chosen.rounds
    answers = DenseAnswers(dense_kernels(chosen, network))
    mixed, kept = answers.run(schedule.combine(v))
    np.testing.assert_allclose(mixed, D @ v, atol=tolerance * scale)
    assert len(kept) == schedule.kept_size
    correction = answers.run(schedule.correction(dlam, v, kept, GAMMA))
    np.testing.assert_allclose(correction, C @ dlam + GAMMA * B2 @ v, atol=tolerance * scale)
    assert answers.sent == chosen.rounds
    np.testing.assert_array_equal(v, originals[0])
    np.testing.assert_array_equal(dlam, originals[1])


@pytest.mark.parametrize("name", TEN)
@pytest.mark.parametrize("network", [NETWORK, NETWORK.lazy(), Network.star(6), Network.complete(1)])
def test_rows_of_the_table(name, network):
    check(row(name), network)
    assert row(name).rounds == PAPER_ROUNDS[name]


coefficients = st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=1, max_size=5)


@given(networks(8), coefficients, coefficients, coefficients, st.integers(0, 1000))
def test_random_polynomials(network, b, c, d, seed):
    for values, total in ((b, 0.0), (c, 0.0), (d, 1.0)):
        values[0] += total - sum(values)
    if not np.any(b[1:]):
        return
    mine = Version("mine", b, c, d)
    degrees = [max((j for j, t in enumerate(values) if t), default=0) for values in (b, c, d)]
    assert mine.rounds == degrees[2] + max(degrees[1], degrees[0] - degrees[2], 0)
    check(mine, network, seed, tolerance=1e-11)


def random_kernel(network, rng):
    """A random matrix with the graph's sparsity whose rows sum to zero."""
    weights = rng.normal(size=len(network.edges))
    E = np.zeros((len(network.edges), network.n))
    rows = np.arange(len(network.edges))
    E[rows, network.edges[:, 0]], E[rows, network.edges[:, 1]] = 1, -1
    return E.T @ (weights[:, None] * E)


# Columns: is C there (None, another matrix, or a multiple of B2), is D there, rounds.
CASES = [
    (None, False, 1),
    ("own", False, 2),
    ("multiple", False, 1),
    (None, True, 1),
    ("own", True, 2),
    ("multiple", True, 2),
]


@pytest.mark.parametrize(("C", "D", "rounds"), CASES)
@given(network=networks(8), seed=st.integers(0, 1000))
def test_explicit_matrices(C, D, rounds, network, seed):
    rng = np.random.default_rng(seed)
    if len(network.edges) < 2:  # with one link every C is a multiple of B2
        return
    B2 = random_kernel(network, rng)
    given_C = {None: None, "own": random_kernel(network, rng), "multiple": -1.5 * B2}[C]
    given_D = np.eye(network.n) - random_kernel(network, rng) if D else None
    mine = Version.from_matrices("mine", B2, given_C, given_D)
    assert mine.rounds == rounds
    assert mine.family == ("ATC" if D else "CTA")
    check(mine, network, seed)
    expected = (B2, np.zeros_like(B2) if C is None else given_C, np.eye(network.n) if given_D is None else given_D)
    spectra = mine.spectra(network)
    assert not spectra.joint
    assert spectra.consensus is None
    for found, matrix, values in zip(mine.matrices(network), expected, (spectra.B2, spectra.C, spectra.D), strict=True):
        np.testing.assert_allclose(found.toarray(), matrix, atol=1e-12)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=1e-11)


ONE_HOP = ("extra", "dlm", "p2d2", "exact-diffusion", "nids", "npga-ii")  # no square of W: explicit forms exist
POLYNOMIAL = {name: row(name) for name in TEN}
EXPLICIT = {f"explicit-{name}": Version.from_matrices(name, *row(name).matrices(NETWORK, BETA)) for name in ONE_HOP}


@pytest.mark.parametrize("chosen", [*POLYNOMIAL.values(), *EXPLICIT.values()], ids=[*POLYNOMIAL, *EXPLICIT])
def test_edge_differences_answer_the_requests(chosen):
    weights = {op: chosen.edge_weights(NETWORK, op) for op in chosen.schedule(BETA).ops}
    v, dlam = np.random.default_rng(1).normal(size=(2, 13, 4))
    B2, C, D = (matrix.toarray() for matrix in chosen.matrices(NETWORK, BETA))

    def answer(u, op):
        return NETWORK.differences(u, weights[op])

    schedule = chosen.schedule(BETA)
    mixed, kept = drive(schedule.combine(v), answer)
    np.testing.assert_allclose(mixed, D @ v, atol=1e-13)
    found = drive(schedule.correction(dlam, v, kept, GAMMA), answer)
    np.testing.assert_allclose(found, C @ dlam + GAMMA * B2 @ v, atol=1e-12)
    agreed = np.ones((13, 4)) * 0.1
    mixed, kept = drive(schedule.combine(agreed), answer)
    np.testing.assert_array_equal(mixed, agreed)
    assert not drive(schedule.correction(agreed, agreed, kept, GAMMA), answer).any()


@pytest.mark.parametrize("name", TEN)
def test_agents_one_by_one_get_the_same_bits(name):
    """Thirteen generators, each seeing only its own rows and its neighbours' messages."""
    chosen, n = row(name), NETWORK.n
    schedule = chosen.schedule(BETA)
    weights = chosen.edge_weights(NETWORK, "gossip")
    v, dlam = np.random.default_rng(2).normal(size=(2, n, 4))
    link = {tuple(edge): w for edge, w in zip(NETWORK.edges.tolist(), weights.tolist(), strict=True)}

    def lockstep(exchanges):
        messages, results = [next(exchange, None) for exchange in exchanges], []
        while len(results) < n:
            results = []
            replies = []
            for i in range(n):
                total = np.zeros(4)
                for j in NETWORK.neighbors(i).tolist():
                    total += link[min(i, j), max(i, j)] * (messages[i][0] - messages[j][0])
                replies.append(total)
            for i, exchange in enumerate(exchanges):
                try:
                    messages[i] = exchange.send(replies[i])
                except StopIteration as done:
                    results.append(done.value)
        return results

    def together(u, op):
        return NETWORK.differences(u, weights)

    mixed, kept = drive(schedule.combine(v), together)
    if schedule.kept_size:
        alone = lockstep([schedule.combine(v[i]) for i in range(n)])
        for i in range(n):
            np.testing.assert_array_equal(alone[i][0], mixed[i])
    if schedule.rounds > schedule.kept_size:
        found = drive(schedule.correction(dlam, v, kept, GAMMA), together)
        own = [tuple(power[i] for power in kept) for i in range(n)]
        alone = lockstep([schedule.correction(dlam[i], v[i], own[i], GAMMA) for i in range(n)])
        for i in range(n):
            np.testing.assert_array_equal(alone[i], found[i])


@pytest.mark.parametrize("name", TEN)
def test_float32_stays_float32(name):
    schedule = row(name).schedule(BETA)
    weights = row(name).edge_weights(NETWORK)
    v = np.ones((13, 2), dtype=np.float32)
    mixed, kept = drive(schedule.combine(v), lambda u, op: NETWORK.differences(u, weights))
    found = drive(schedule.correction(v, v, kept, np.float64(0.5)), lambda u, op: NETWORK.differences(u, weights))
    assert mixed.dtype == found.dtype == np.float32


@pytest.mark.parametrize("name", TEN)
def test_a_zero_step_still_sends(name):
    chosen = row(name)
    C = chosen.matrices(NETWORK, BETA).C.toarray()
    answers = DenseAnswers(dense_kernels(chosen, NETWORK))
    v, dlam = np.random.default_rng(3).normal(size=(2, 13, 2))
    schedule = chosen.schedule(BETA)
    _, kept = answers.run(schedule.combine(v))
    found = answers.run(schedule.correction(dlam, v, kept, 0.0))
    np.testing.assert_allclose(found, C @ dlam, atol=1e-13)
    assert answers.sent == chosen.rounds


def test_schedules_and_explicit_versions_print_and_pickle():
    assert repr(version("diging").schedule()) == "PolynomialSchedule(rounds=2, ops=('gossip',))"
    mine = Version.from_matrices("mine", IDENTITY - W, D=W)
    assert repr(mine) == "Version('mine', B2='B2 (given)', C='0', D='D (given)', rounds=1)"
    copy = pickle.loads(pickle.dumps(mine))
    assert copy == mine
    assert hash(copy) == hash(mine)
    assert mine != Version.from_matrices("mine", IDENTITY - W)
    assert mine != version("nids")
    assert version(mine) is mine
    with pytest.raises(ValueError, match="read-only"):
        mine.B2.data[0] = 1.0


def test_a_lone_agent_may_have_no_matrices():
    mine = Version.from_matrices("mine", np.zeros((1, 1)))
    check(mine, Network.complete(1))


def asymmetric(matrix):
    changed = matrix.copy()
    i, j = NETWORK.edges[0]
    changed[i, j] += 0.1
    return changed


REFUSALS = {
    "asymmetric": (lambda: Version.from_matrices("m", asymmetric(IDENTITY - W)), "B2 is not symmetric"),
    "B2 rows": (lambda: Version.from_matrices("m", W), "row 0 of B2 sums to 1"),
    "C rows": (lambda: Version.from_matrices("m", IDENTITY - W, C=W), "row 0 of C sums to 1"),
    "D rows": (lambda: Version.from_matrices("m", IDENTITY - W, D=0 * W), "row 0 of D sums to 0"),
    "shapes": (lambda: Version.from_matrices("m", IDENTITY - W, D=np.eye(3)), r"\(13, 13\) and D has shape \(3, 3\)"),
    "square": (lambda: Version.from_matrices("m", W[:3]), "square"),
    "zero": (lambda: Version.from_matrices("m", 0 * W), "never agree"),
    "nan": (lambda: Version.from_matrices("m", np.nan * W), "NaN"),
    "two hops": (
        lambda: Version.from_matrices("m", IDENTITY - W, D=W @ W).matrices(NETWORK),
        "D has the entry .* share no link",
    ),
    "other network": (
        lambda: Version.from_matrices("m", IDENTITY - W).matrices(Network.ring(4)),
        "13 x 13 matrices and the network 4 agents",
    ),
    "op": (lambda: Version.from_matrices("m", IDENTITY - W).edge_weights(NETWORK, "gossip"), "one of B2, C, D"),
    "polynomials": (lambda: Version.from_matrices("m", IDENTITY - W).polynomials, "explicit matrices"),
    "kernel": (lambda: Version.from_matrices("m", IDENTITY - W).kernel_polynomials(), "explicit matrices"),
}


@pytest.mark.parametrize(("build", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_what_arrived(build, message):
    with pytest.raises(VersionError, match=message):
        build()
