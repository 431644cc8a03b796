"""`npga.solve`: solutions, stopping, counting, going on, and what it must not do."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

import npga
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.solver import Record

STEPS = npga.Steps(alpha=0.3, beta=0.3, gamma=0.9)


def small(coupling="equality", proximable="zero", n=6, p=3):
    return random_problem(17, n, p, "quadratic", proximable, coupling)


def ring(n=6):
    return npga.Network.ring(n)


# ------------------------------------------------------------------ solutions


def scaled_columns(X):
    return X / np.linalg.norm(X, axis=0)


def parties(X, n, f, g, h):
    return npga.Problem([npga.Agent(A=block, f=f, g=g) for block in np.array_split(X, n, axis=1)], h)


@pytest.mark.parametrize("name", VERSIONS)
def test_ridge_is_scikit_learns(name):
    X, y = make_regression(20, 8, noise=1.0, random_state=0)
    X, y = scaled_columns(X), y / np.linalg.norm(y)
    problem = parties(X, 4, fn.SquaredNorm(0.5), fn.Zero(), fn.SquaredLoss(y, 1.0))
    network = ring(4).lazy()
    result = npga.solve(problem, network, npga.version(name, c=0.3) if name == "dlm" else name,
                        npga.Steps(alpha=0.8, beta=0.4, gamma=0.9), tol=1e-11)  # fmt: skip
    assert result.status is npga.Status.CONVERGED
    expected = Ridge(alpha=0.5, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    np.testing.assert_allclose(result.x, expected, atol=1e-8)


@pytest.mark.parametrize("name", VERSIONS)
def test_elastic_net_is_scikit_learns(name):
    X, y = make_regression(20, 10, n_informative=4, noise=1.0, random_state=1)
    X, y = scaled_columns(X), y / np.linalg.norm(y)
    l1, l2 = 0.003, 0.02
    problem = parties(X, 5, fn.SquaredNorm(l2), fn.L1(l1), fn.SquaredLoss(y, 1 / 20))
    result = npga.solve(problem, ring(5).lazy(), npga.version(name, c=3.0) if name == "dlm" else name,
                        npga.Steps(alpha=20.0, beta=0.02, gamma=0.9), tol=1e-11)  # fmt: skip
    assert result.status is npga.Status.CONVERGED
    model = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-15, max_iter=10**6)
    expected = model.fit(X, y).coef_
    assert 0 < np.count_nonzero(expected) < 10
    np.testing.assert_allclose(result.x, expected, atol=1e-8)


@pytest.mark.parametrize("pose", ["loss-in-h", "loss-at-an-agent"])
def test_logistic_regression_is_scikit_learns(pose):
    """Both poses of the paper's Experiment II."""
    X, y = make_classification(30, 8, random_state=2)
    X, labels = scaled_columns(X), 2.0 * y - 1.0
    agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1)) for block in np.array_split(X, 4, axis=1)]
    if pose == "loss-in-h":
        problem = npga.Problem(agents, fn.Logistic(labels, 1.0))
    else:
        agents.append(npga.Agent(A=-np.eye(30), f=fn.Logistic(labels, 1.0)))
        problem = npga.Problem(agents, fn.Equality(np.zeros(30)))
    result = npga.solve(problem, ring(problem.n), "exact-diffusion",
                        npga.Steps(alpha=2.0, beta=0.1, gamma=1.0), tol=1e-11, max_iters=200_000)  # fmt: skip
    assert result.status is npga.Status.CONVERGED
    model = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    np.testing.assert_allclose(result.x[:8], model.fit(X, y).coef_[0], atol=1e-8)


COUPLINGS = {
    # lam* and z* give the h whose subdifferential at z* holds lam*.
    "equality": lambda rng, z, lam: fn.Equality(z),
    "less-equal": lambda rng, z, lam: fn.LessEqual(z + np.where(lam > 0, 0.0, 1.0)),
    "squared-loss": lambda rng, z, lam: fn.SquaredLoss(z - lam / 0.5, 0.5),
    "ball": lambda rng, z, lam: fn.Ball(z - 0.7 * lam / np.linalg.norm(lam), 0.7),
}


@settings(max_examples=40, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 10**6), coupling=st.sampled_from(sorted(COUPLINGS)), name=st.sampled_from(VERSIONS))
def test_finds_a_saddle_point_known_by_construction(seed, coupling, name):
    """x* and lam* first; f_i gets the linear term that makes them optimal with g = |.|_1."""
    rng = np.random.default_rng(seed)
    n, p = 5, 3
    lam = rng.standard_normal(p)
    if coupling == "less-equal":
        lam = np.maximum(lam, 0.0)
    agents, blocks, z = [], [], np.zeros(p)
    for _ in range(n):
        d = int(rng.integers(1, 4))
        A = rng.standard_normal((p, d))
        A /= np.linalg.norm(A, 2)
        x = rng.standard_normal(d) * (rng.random(d) < 0.6)
        subgradient = 0.2 * np.where(x != 0, np.sign(x), rng.uniform(-0.9, 0.9, d))
        agents.append(npga.Agent(A, fn.Quadratic(np.eye(d), -x - A.T @ lam - subgradient), fn.L1(0.2)))
        blocks.append(x)
        z = z + A @ x
    problem = npga.Problem(agents, COUPLINGS[coupling](rng, z, lam))
    star = np.concatenate(blocks)
    assert problem.kkt(star, lam).kkt < 1e-12
    # The dual is well conditioned where the columns of the variables that are not at the kink span the coupling space.
    active = np.hstack([a.A for a in agents])[:, star != 0]
    assume(active.shape[1] >= p and np.linalg.svd(active, compute_uv=False)[-1] > 0.5)
    network = npga.Network.erdos_renyi(n, 0.6, seed=seed % 1000).lazy()
    version = npga.version(name, c=0.2) if name == "dlm" else name
    result = npga.solve(problem, network, version, npga.Steps(0.7, 0.35, 0.9), tol=1e-10, max_iters=20_000)
    assert result.status.ok, str(result)
    np.testing.assert_allclose(result.x, star, atol=1e-7)


# ------------------------------------------------------------------ exactness over long runs


def test_no_drift_in_a_hundred_thousand_iterations():
    problem = random_problem(2, 5, 3, "quadratic", "zero", "equality")
    star = npga.reference(problem)
    assert star.kkt < 1e-13
    result = npga.solve(problem, ring(5), "extra", STEPS, max_iters=100_000, tol=None, reference=star.x)
    late = result.trace["gap"][result.trace["iteration"] > 5_000]
    assert late.max() < 1e-12
    assert late[-1] < 1e-13


def test_same_arguments_same_bits():
    problem = small("ball", "l1")
    runs = [npga.solve(problem, npga.Network.erdos_renyi(6, 0.5, seed=4), "nids", STEPS) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].lam, runs[1].lam)


def test_changes_none_of_its_arguments():
    problem, network = small("squared-loss", "l1"), ring()
    x0, lam0 = np.ones(problem.d), np.ones((6, 3))
    reference = np.zeros(problem.d)
    before = copy.deepcopy((problem.agents, network.W.toarray(), x0, lam0, reference))
    pickled = pickle.dumps((problem.agents, problem.h))
    npga.solve(problem, network, "aug-dgm", STEPS, x0=x0, lam0=lam0, reference=reference, max_iters=50)
    np.testing.assert_array_equal(x0, before[2])
    np.testing.assert_array_equal(lam0, before[3])
    np.testing.assert_array_equal(reference, before[4])
    np.testing.assert_array_equal(network.W.toarray(), before[1])
    assert pickle.dumps((problem.agents, problem.h)) == pickled


def test_result_does_not_change_when_the_run_goes_on():
    problem = small()
    first = npga.solve(problem, ring(), "extra", STEPS, max_iters=20, tol=None)
    x = first.x.copy()
    npga.solve(problem, ring(), "extra", STEPS, max_iters=20, tol=None, start=first)
    np.testing.assert_array_equal(first.x, x)


def test_single_precision():
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((3, 2)).astype(np.float32) for _ in range(5)]
    problem = npga.Problem([npga.Agent(a, fn.SquaredNorm(1.0)) for a in A], fn.SquaredLoss(np.ones(3), 1.0))
    result = npga.solve(problem, ring(5), "extra", npga.Steps(0.3, 0.1, 0.9), tol=1e-5)
    assert result.x.dtype == result.lam.dtype == np.float32
    assert result.status.ok
    np.testing.assert_allclose(result.x, npga.reference(problem).x, atol=1e-4)


# ------------------------------------------------------------------ special networks and agents


@pytest.mark.parametrize("name", VERSIONS)
def test_a_relay_takes_part_without_variables(name):
    """The middle of a path owns nothing; the ends still agree through it."""
    p = 2
    ends = [npga.Agent(np.eye(p), fn.SquaredNorm(1.0, np.full(p, c))) for c in (1.0, 3.0)]
    relay = npga.Agent(np.zeros((p, 0)), fn.Zero())
    problem = npga.Problem([ends[0], relay, ends[1]], fn.Equality([2.0, 6.0]))
    version = npga.version(name, c=0.3) if name == "dlm" else name
    result = npga.solve(problem, npga.Network.path(3).lazy(), version, npga.Steps(0.5, 0.4, 0.8))
    assert result.status.ok
    # min |x - 1|^2/2 + |y - 3|^2/2 with x + y = b: both move by (b - 4)/2.
    np.testing.assert_allclose(result.x, [0.0, 2.0, 2.0, 4.0], atol=1e-6)
    assert [b.size for b in result.blocks] == [2, 0, 2]


def test_a_lone_agent_sends_nothing():
    problem = npga.Problem([npga.Agent(np.eye(2), fn.SquaredNorm(1.0))], fn.Equality([1.0, -1.0]))
    result = npga.solve(problem, npga.Network.complete(1), "extra", npga.Steps(0.5, 0.5))
    np.testing.assert_allclose(result.x, [1.0, -1.0], atol=1e-7)
    assert result.messages == result.floats_sent == 0


def test_f_may_be_zero():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((4, 8))
    x = np.zeros(8)
    x[[1, 6]] = [1.0, -2.0]
    problem = parties(A / np.linalg.norm(A, 2), 4, fn.Zero(), fn.L1(1.0), fn.Equality(A @ x / np.linalg.norm(A, 2)))
    result = npga.solve(problem, ring(4), "extra", npga.Steps(1.0, 0.5, 0.9, 1.0), max_iters=200_000, tol=1e-10)
    assert result.status.ok
    np.testing.assert_allclose(result.x, npga.reference(problem).x, atol=1e-7)


# ------------------------------------------------------------------ stopping and counting


def test_tolerance_met_means_the_true_residual_is_met():
    problem = small("ball")
    result = npga.solve(problem, ring(), "extra", STEPS, tol=1e-7)
    assert result.status is npga.Status.CONVERGED
    assert problem.kkt(result.x, result.lam).kkt <= 1e-7
    assert result.kkt <= 1e-7


def test_default_grid_stops_at_the_first_record_after_the_tolerance_is_met():
    problem = small("ball")
    exact = npga.solve(problem, ring(), "extra", STEPS, record_every=1).iterations
    grown = npga.solve(problem, ring(), "extra", STEPS)
    assert grown.trace["iteration"][-2] < exact <= grown.iterations <= 1.1 * exact


def test_limits():
    problem = small()
    kwargs = {"tol": None}
    assert npga.solve(problem, ring(), "extra", STEPS, max_iters=7, **kwargs).iterations == 7
    result = npga.solve(problem, ring(), "diging", npga.Steps(0.1, 0.05, 0.5), max_rounds=20, record_every=1, **kwargs)
    assert (result.status, result.rounds, result.iterations) == (npga.Status.MAX_ROUNDS, 20, 10)
    result = npga.solve(problem, ring(), "extra", STEPS, max_seconds=0.05, max_iters=10**9, **kwargs)
    assert result.status is npga.Status.MAX_SECONDS
    star = npga.reference(problem).x
    result = npga.solve(problem, ring(), "extra", STEPS, reference=star, gap_tol=1e-3, record_every=1, **kwargs)
    assert result.status is npga.Status.CONVERGED
    assert result.trace["gap"][-1] <= 1e-3 < result.trace["gap"][-2]


def test_counts():
    problem, network = small(), ring()
    result = npga.solve(problem, network, "diging", npga.Steps(0.1, 0.05, 0.5), max_iters=30, tol=None)
    assert result.rounds == 60
    assert result.messages == 60 * 12
    assert result.floats_sent == 60 * 12 * 3


@pytest.mark.parametrize(
    ("steps", "culprit"),
    [
        (npga.Steps(30.0, 0.1, 0.5), "alpha"),
        (npga.Steps(0.3, 50.0, 0.5), "beta"),
        (npga.Steps(0.05, 0.05, 30.0), "gamma"),
    ],
)
def test_divergence_is_seen_early_and_names_the_step(steps, culprit):
    result = npga.solve(small(), ring(), "extra", steps, max_iters=100_000)
    assert result.status is npga.Status.DIVERGED
    assert result.iterations < 300
    assert f"reduce {culprit}" in result.message


@pytest.mark.parametrize("beta", [1e-9, 1e-6, 1e-3])
def test_tiny_steps_are_slow_and_not_divergent(beta):
    result = npga.solve(small(), ring(), "extra", npga.Steps(0.3, beta, 0.9), max_iters=3000)
    assert result.status is npga.Status.MAX_ITERS


def test_a_solution_at_the_origin_is_recognised():
    agents = [npga.Agent(np.eye(2), fn.SquaredNorm(1.0)) for _ in range(3)]
    problem = npga.Problem(agents, fn.Equality(np.zeros(2)))
    assert npga.solve(problem, npga.Network.complete(3), "extra", STEPS).iterations == 0
    result = npga.solve(problem, npga.Network.complete(3), "extra", STEPS, x0=np.ones(6))
    assert result.status.ok
    assert np.abs(result.x).max() < 1e-10


def test_residual_does_not_depend_on_units():
    """x in millimetres, rows of A in other units, cost in cents: the residual stays."""
    rng = np.random.default_rng(5)
    A, b = [rng.standard_normal((3, 2)) for _ in range(4)], rng.standard_normal(3)
    x, lam = rng.standard_normal(8), rng.standard_normal(3)

    def pose(length, row, cost):
        agents = [npga.Agent(row * a / length, fn.SquaredNorm(cost / length**2), fn.L1(0.1 * cost / length)) for a in A]
        problem = npga.Problem(agents, fn.SquaredLoss(row * b, 0.7 * cost / row**2))
        return problem.kkt(length * x, cost / row * lam).kkt

    base = pose(1.0, 1.0, 1.0)
    assert base > 0.01
    for units in [(1e3, 1.0, 1.0), (1.0, 1e-4, 1.0), (1.0, 1.0, 100.0), (1e-3, 1e2, 1e5)]:
        np.testing.assert_allclose(pose(*units), base, rtol=1e-9)


# ------------------------------------------------------------------ trace and callback


def test_trace_columns_and_pandas():
    problem = small("squared-loss")
    star = npga.reference(problem)
    result = npga.solve(problem, ring(), "extra", STEPS, reference=star.x, record_every=10, max_iters=50, tol=None)
    assert result.trace["iteration"].tolist() == [0, 10, 20, 30, 40, 50]
    frame = result.trace.to_pandas()
    assert list(frame.columns) == ["iteration", "round", "gap", "kkt", "consensus", "objective"]
    assert frame["gap"][0] == pytest.approx(1.0, rel=1e-14)
    assert result.trace[-1].objective == pytest.approx(problem.objective(result.x))
    final = npga.solve(problem, ring(), "extra", STEPS, tol=1e-12).trace[-1]
    assert final.objective == pytest.approx(star.objective, abs=1e-9)
    with pytest.raises(ValueError, match="no column 'gaps'"):
        result.trace["gaps"]


def test_callback_sees_each_record_and_may_stop():
    seen: list[Record] = []

    def callback(record, state):
        seen.append(record)
        return record.iteration == 5

    result = npga.solve(small(), ring(), "extra", STEPS, record_every=1, callback=callback)
    assert [r.iteration for r in seen] == [0, 1, 2, 3, 4, 5]
    assert result.status is npga.Status.INTERRUPTED


def test_interrupt_returns_the_last_whole_state():
    def callback(record, state):
        if record.iteration == 8:
            raise KeyboardInterrupt

    problem = small()
    result = npga.solve(problem, ring(), "extra", STEPS, record_every=1, callback=callback)
    assert (result.status, result.iterations) == (npga.Status.INTERRUPTED, 8)
    full = npga.solve(problem, ring(), "extra", STEPS, record_every=1, start=result, tol=1e-10)
    assert full.status.ok


def test_progress_bar_shows_the_residual(capsys):
    npga.solve(small(), ring(), "extra", STEPS, progress=True)
    assert "kkt" in capsys.readouterr().out


# ------------------------------------------------------------------ going on


@pytest.mark.parametrize("name", ["extra", "aug-dgm", "atc-tracking"])
def test_start_from_a_result_goes_on_with_the_same_bits(name):
    problem, network = small("ball", "l1"), ring().lazy()
    half = npga.solve(problem, network, name, STEPS, max_iters=40, tol=None)
    rest = npga.solve(problem, network, name, STEPS, max_iters=60, tol=None, start=half)
    whole = npga.solve(problem, network, name, STEPS, max_iters=100, tol=None)
    np.testing.assert_array_equal(rest.x, whole.x)
    np.testing.assert_array_equal(rest.lam, whole.lam)


@pytest.mark.parametrize(("first", "then"), [("extra", "nids"), ("diging", "extra"), ("nids", "aug-dgm")])
def test_start_under_other_steps_keeps_what_was_found(first, then):
    """From a solution, another version with other steps has nothing left to do."""
    problem, network = small("squared-loss", "l1"), ring().lazy()
    solved = npga.solve(problem, network, first, STEPS, tol=1e-13, max_iters=50_000)
    assert solved.status.ok
    other = npga.solve(problem, network, then, npga.Steps(0.2, 0.4, 0.6, 0.5), max_iters=20, tol=None, start=solved)
    assert other.trace["kkt"].max() < 1e-11


def test_start_with_a_changed_coupling_is_a_warm_start():
    problem, network = small("squared-loss"), ring()
    solved = npga.solve(problem, network, "extra", STEPS, tol=1e-10)
    moved = npga.Problem(problem.agents, fn.SquaredLoss(problem.h.target + 1e-4, 0.7))
    cold = npga.solve(moved, network, "extra", STEPS, tol=1e-8, record_every=1)
    warm = npga.solve(moved, network, "extra", STEPS, tol=1e-8, record_every=1, start=solved)
    assert warm.status.ok
    assert warm.iterations < cold.iterations
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-6)


@pytest.mark.parametrize("name", ["extra", "npga-ii"])
def test_resume_from_a_checkpoint_with_the_same_bits(tmp_path, name):
    problem, network = small("ball", "l1"), ring().lazy()
    file = tmp_path / "run.npz"
    npga.solve(problem, network, name, STEPS, max_iters=123, tol=None, checkpoint=file)
    rest = npga.solve(problem, network, name, STEPS, max_iters=400, tol=None, checkpoint=file, resume=True)
    whole = npga.solve(problem, network, name, STEPS, max_iters=400, tol=None)
    np.testing.assert_array_equal(rest.x, whole.x)
    np.testing.assert_array_equal(rest.lam, whole.lam)
    assert (rest.iterations, rest.rounds) == (whole.iterations, whole.rounds)
    assert set(whole.trace["iteration"]) <= set(rest.trace["iteration"])


def test_checkpoints_are_written_on_the_way_and_atomically(tmp_path):
    file = tmp_path / "run.npz"

    def callback(record, state):
        if record.iteration > 30:
            raise RuntimeError("the power went off")

    with pytest.raises(RuntimeError, match="power"):
        npga.solve(
            small(), ring(), "extra", STEPS, checkpoint=file, checkpoint_seconds=0.0, callback=callback, tol=None
        )
    assert [f.name for f in tmp_path.iterdir()] == ["run.npz"]
    result = npga.solve(small(), ring(), "extra", STEPS, checkpoint=file, resume=True)
    whole = npga.solve(small(), ring(), "extra", STEPS)
    np.testing.assert_array_equal(result.x, whole.x)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    problem, file = small(), tmp_path / "run.npz"
    npga.solve(problem, ring(), "extra", STEPS, max_iters=5, checkpoint=file)
    with pytest.raises(ValueError, match="belongs to a run with steps"):
        npga.solve(problem, ring(), "extra", npga.Steps(0.1, 0.1), checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="belongs to a run with version"):
        npga.solve(problem, ring(), "nids", STEPS, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="belongs to a run with network"):
        npga.solve(problem, ring().lazy(), "extra", STEPS, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="belongs to a run with problem"):
        npga.solve(small("ball"), ring(), "extra", STEPS, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="no checkpoint at"):
        npga.solve(problem, ring(), "extra", STEPS, checkpoint=tmp_path / "none.npz", resume=True)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"version": "exta"}, "did you mean 'extra'"),
        ({"network": npga.Network.ring(5)}, "network has 5 nodes and the problem 6 agents"),
        ({"x0": np.zeros(3)}, r"x0 has shape \(3,\)"),
        ({"x0": [np.zeros(1)] * 6}, "block of agent"),
        ({"lam0": np.zeros((3, 6))}, r"lam0 has shape \(3, 6\)"),
        ({"lam0": np.full((6, 3), np.nan)}, "lam0 holds nan"),
        ({"reference": np.zeros(2)}, r"reference has shape \(2,\)"),
        ({"gap_tol": 1e-3}, "without a reference"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"tol": float("nan")}, "tol is nan"),
        ({"max_iters": 2.5}, "max_iters is 2.5"),
        ({"max_iters": -1}, "max_iters is -1"),
        ({"record_every": 0}, "record_every is 0"),
        ({"steps": (0.1, 0.1)}, "steps is a tuple"),
        ({"version": "dcpa", "steps": npga.Steps(0.1, 0.1, 0.5, 0.5)}, "dcpa fixes theta = 1"),
        ({"resume": True}, "needs the file"),
        ({"problem": 3}, "problem is a int"),
        ({"network": None}, "network is a NoneType"),
        ({"start": 7}, "start is 7"),
    ],
)
def test_bad_input_is_refused_before_the_first_iteration(kwargs, message):
    calls = []
    arguments = {"problem": small(), "network": ring(), "version": "extra", "steps": STEPS} | kwargs
    with pytest.raises(ValueError, match=message):
        npga.solve(**arguments, callback=lambda *_: calls.append(1))
    assert not calls


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 0.0), ("beta", -1.0), ("gamma", np.nan), ("theta", -0.1), ("alpha", np.inf), ("beta", "fast")],
)
def test_bad_steps(name, value):
    with pytest.raises(ValueError, match=f"step {name} is"):
        npga.Steps(**({"alpha": 0.1, "beta": 0.1} | {name: value}))


def test_result_prints_a_sentence():
    text = str(npga.solve(small(), ring(), "extra", STEPS, max_iters=3))
    assert "extra: max_iters after 3 iterations, 3 rounds, 36 messages" in text
    assert "raise max_iters" in text
