"""Measurements by kernels are those of NumPy, and leaps over several records change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, random_problem, tame_steps, uneven
from npga import functions as fn
from npga.solver import method_for
from npga.solver._result import COLUMNS


def solved(problem, path, **options):
    network, steps = npga.Network.ring(problem.n), tame_steps(problem, gamma=0.6, theta=0.3)
    return npga.solve(problem, network, "extra", steps, path=path, **options)


def assert_same(a, b):
    assert (a.status, a.iterations, a.rounds, len(a.trace)) == (b.status, b.iterations, b.rounds, len(b.trace))
    for name in COLUMNS:
        # Residuals are differences of numbers of order one.
        np.testing.assert_allclose(b.trace[name], a.trace[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("coupling", sorted(COUPLING))
@pytest.mark.parametrize("smooth", sorted(SMOOTH))
def test_traces_agree(smooth, coupling):
    proximable = sorted(PROXIMABLE)[(len(smooth) + len(coupling)) % len(PROXIMABLE)]
    problem = random_problem(4, 6, 4, smooth, proximable, coupling)
    star = np.ones(problem.d)
    runs = [solved(problem, path, max_iters=150, reference=star, tol=1e-6) for path in ("vectorised", "compiled")]
    assert_same(*runs)


@pytest.mark.parametrize("coupling", sorted(COUPLING))
@pytest.mark.parametrize("smooth", sorted(SMOOTH))
def test_the_mean_square_of_all_moves_is_that_of_numpy(smooth, coupling):
    proximable = sorted(PROXIMABLE)[(len(smooth) + len(coupling)) % len(PROXIMABLE)]
    problem = random_problem(4, 6, 4, smooth, proximable, coupling)
    steps, run = tame_steps(problem, gamma=0.6, theta=0.3), {}
    for path in ("vectorised", "compiled"):
        method = method_for(problem, npga.Network.ring(6), npga.version("extra"), steps, path)
        state = method.start(np.ones(problem.d), problem.start()[1])
        meter, run[path] = method.meter(state.x, None), []
        for _ in range(4):
            run[path].append(meter.overall(state))
            state = method.advance(state, 25)
        run[path].append(meter.overall(replace(state, x=np.full_like(state.x, np.nan))))
    np.testing.assert_allclose(run["compiled"], run["vectorised"], rtol=1e-9, atol=1e-12)
    assert run["compiled"][0] > 0.0 or smooth == coupling == "zero"
    assert np.isnan(run["compiled"][-1])


@pytest.mark.parametrize("kind", [("squared-norm", "l1", "squared-loss"), ("linear", "box", "equality")], ids="-".join)
def test_traces_agree_where_coordinates_are_measured_by_themselves(kind):
    problem = uneven(random_problem(4, 6, 4, *kind))
    assert len(problem.units.curvature) > problem.n
    assert_same(*(solved(problem, path, max_iters=150, tol=None) for path in ("vectorised", "compiled")))


@pytest.mark.parametrize(
    "stop",
    [
        {"tol": 1e-9},
        {"tol": None, "max_iters": 3333},
        {"tol": None, "max_rounds": 2500},
        {"tol": None, "gap_tol": 1e-5},
        {"tol": 1e-9, "record_every": 37},
    ],
    ids=["tol", "iterations", "rounds", "gap", "every"],
)
def test_leaps_stop_where_single_records_do(stop):
    problem = random_problem(3, proximable="l1", coupling="squared-loss")
    star = npga.reference(problem).x
    leaping = solved(problem, "compiled", reference=star, **stop)
    stepping = solved(problem, "compiled", reference=star, callback=lambda *_: None, **stop)
    assert leaping.iterations > 150
    assert leaping.status == stepping.status
    for name in COLUMNS:
        np.testing.assert_allclose(leaping.trace[name], stepping.trace[name], rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(leaping.lam, stepping.lam)


def test_leaps_really_pass_over_records(monkeypatch):
    from npga.solver import _compiled
    from npga.solver._compiled import CompiledMeter

    rows = []
    sweep = CompiledMeter._sweep
    monkeypatch.setattr(_compiled, "_LEAP_SECONDS", 1e6)  # however slow the machine is
    monkeypatch.setattr(CompiledMeter, "_sweep", lambda *a: rows.append(len(a[3])) or sweep(*a))
    problem = random_problem(3, proximable="l1", coupling="squared-loss")
    result = solved(problem, "compiled", tol=None, max_iters=20_000)
    assert sum(rows) > 0.5 * len(result.trace) > 5 * len(rows)


def test_divergence_is_seen_inside_a_leap():
    problem = random_problem(8, coupling="squared-loss")
    steps = npga.Steps(alpha=0.5, beta=9.0, gamma=1.0)
    runs = [
        npga.solve(problem, npga.Network.ring(6), "extra", steps, path=path, tol=None, max_iters=10**5)
        for path in ("vectorised", "compiled")
    ]
    assert runs[0].status is npga.Status.DIVERGED
    assert runs[0].status is runs[1].status
    assert runs[0].iterations == runs[1].iterations


def test_a_resumed_run_has_the_bits_of_one_that_was_never_interrupted(tmp_path):
    problem = random_problem(3, proximable="l1", coupling="squared-loss")
    file = tmp_path / "run.npz"
    whole = solved(problem, "compiled", tol=None, max_iters=900)
    solved(problem, "compiled", tol=None, max_iters=411, checkpoint=file)
    resumed = solved(problem, "compiled", tol=None, max_iters=900, checkpoint=file, resume=True)
    np.testing.assert_array_equal(whole.lam, resumed.lam)
    np.testing.assert_array_equal(whole.x, resumed.x)


def test_relays_alone_and_no_curvature_anywhere():
    agents = [npga.Agent(np.eye(2), fn.Linear([1.0, -1.0]), fn.Box(0.0, 1.0)), npga.Agent(np.zeros((2, 0)), fn.Zero())]
    problem = npga.Problem(agents, fn.LessEqual(0.5))
    assert problem.curvature == 0.0
    assert_same(*(solved(problem, path, max_iters=200) for path in ("vectorised", "compiled")))


@pytest.mark.parametrize("path", ["vectorised", "compiled"])
def test_a_coordinate_that_no_row_reads_and_that_is_no_number_is_not_lost(path):
    """Forces and sums are finite: the move alone tells."""
    A = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]]))
    agents = [npga.Agent(A, fn.Linear(0.5), fn.Box(-1.0, 1.0)) for _ in range(3)]
    problem = npga.Problem(agents, fn.SquaredLoss(np.ones(2)))
    method = method_for(problem, npga.Network.ring(3), npga.version("nids"), npga.Steps(0.1, 0.1), path)
    state = method.start(np.ones(6), np.zeros((3, 2)))
    lost = replace(state, x=np.array([1.0, np.nan, 1.0, 1.0, 1.0, 1.0]))
    assert np.isnan(method.meter(state.x, None).measure(lost, 0.0).record.kkt)
