"""A call always returns: within its limits, on Ctrl-C, and whatever the functions do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import npga
from npga import functions as fn
from suite import CASES

RING = npga.Network.ring(4)
LIMIT = 5.0


def timed(problem, network, **options):
    """The result, and the processor time, which does not depend on what else a machine does."""
    begun = time.process_time()
    result = npga.solve(problem, network, **options)
    return result, time.process_time() - begun


def with_first(f, g=None, h=None):
    """Four agents, the first with another cost."""
    others = [npga.Agent(np.ones((1, 1)), fn.SquaredNorm(1.0, center=1.0)) for _ in range(3)]
    return npga.Problem([npga.Agent(np.ones((1, 1)), f, g or fn.Zero()), *others], h or fn.Equality([2.0]))


WILD = {
    "a gradient that is not a number": with_first(
        fn.Custom(lambda x: 0.0, grad=lambda x: np.full_like(x, np.nan), L=1.0)
    ),
    "a gradient that turns into no number": with_first(
        fn.Custom(lambda x: 0.0, grad=lambda x: np.where(np.abs(x) > 0.1, np.nan, 1.0), L=1.0)
    ),
    "a log barrier left from outside": with_first(
        fn.Custom(
            lambda x: float(-np.log(x).sum()) if (x > 0).all() else np.inf,
            grad=lambda x: -1.0 / np.where(x > 0, x, np.nan), L=1.0,
        )
    ),
    "a log barrier without a start": with_first(
        fn.Custom(lambda x: float(-np.log(x).sum()), grad=lambda x: -1.0 / x, L=1.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WILD)
@pytest.mark.parametrize("options", [{}, {"method": "pga"}, {"version": "nids", "steps": npga.Steps(0.3, 0.3, 0.9)}])
def test_functions_that_go_wrong_end_the_call_and_not_as_converged(name, options):
    with np.errstate(all="ignore"):
        result, seconds = timed(WILD[name], RING, **options, max_seconds=LIMIT)
    assert seconds < 60.0
    if result.status.ok:  # then it must be a solution in numbers
        assert np.isfinite(result.x).all()
        assert result.problem.kkt(result.x, result.lam).kkt <= 1e-8
    else:
        assert result.message


@pytest.mark.parametrize("options", [{}, {"method": "pga"}])
def test_a_smoothness_constant_that_is_far_too_small(options):
    """L declared 1,000 times too small: whatever comes out, it is not a false "converged"."""
    steep = fn.Custom(lambda x: float(500.0 * (x - 1.0) @ (x - 1.0)), grad=lambda x: 1000.0 * (x - 1.0), L=1.0)
    problem = with_first(steep)
    with np.errstate(all="ignore"):
        result, seconds = timed(problem, RING, **options, max_seconds=LIMIT)
    assert seconds < 60.0
    if result.status.ok:
        honest = with_first(fn.SquaredNorm(1000.0, center=1.0))
        np.testing.assert_allclose(result.x, npga.reference(honest).x, rtol=1e-4)


@pytest.mark.parametrize("limit", [0.0, 0.5, 1.5])
@pytest.mark.parametrize(
    "options",
    [{}, {"method": "pga"}, {"version": "extra"}, {"version": "nids", "steps": npga.Steps(1e-3, 1e-6, 0.9)}],
)
def test_a_time_limit_holds_search_included(limit, options):
    problem = CASES["ridge-digits-ba13"].build()
    npga.solve(problem.problem, problem.network, "nids", npga.Steps(1e-3, 1e-6, 0.9), max_iters=2)  # load the core
    begun = time.perf_counter()
    limits = {"tol": 1e-300, "max_seconds": limit, "max_iters": 10**9}
    result, seconds = timed(problem.problem, problem.network, **options, **limits)
    assert result.status is npga.Status.MAX_SECONDS
    assert seconds < 10.0 * limit + 10.0
    assert limit <= result.seconds <= time.perf_counter() - begun


def test_the_limit_of_iterations_holds():
    instance = CASES["lp-wide-er10"].build()
    for limit in (0, 1, 17, 500):
        result = npga.solve(instance.problem, instance.network, max_iters=limit, tol=1e-300)
        assert result.iterations <= limit
        assert result.status in (npga.Status.MAX_ITERS, npga.Status.CONVERGED)


@pytest.mark.parametrize(
    "options", ["", ", method='pga'", ", version='extra'", ", version='nids', steps=npga.Steps(1e-4, 1e-7, 0.9)"]
)
def test_ctrl_c_returns_what_there_is(options):
    """Pressed after three seconds of processor time, when everything is prepared."""
    code = f"""
        import os, signal, threading, time, npga, numpy as np
        from npga import functions as fn
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off
        rng = np.random.default_rng(0)
        agents = [npga.Agent(rng.standard_normal((2000, 40)), fn.SquaredNorm(1e-6)) for _ in range(20)]
        problem = npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(2000), 1.0))
        network = npga.Network.ring(20)
        npga.solve(problem, network, tol=1e-300, max_iters=1)
        def press():
            begun = time.process_time()
            while time.process_time() < begun + 3.0:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press, daemon=True).start()
        result = npga.solve(problem, network, tol=1e-300, max_iters=10**8{options})
        print(result.status.value, np.isfinite(result.x).all())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True).stdout
    assert out.split() == ["interrupted", "True"]


def test_ctrl_c_returns_what_there_is_while_trials_and_the_run_are_prepared(monkeypatch):
    instance, start, calls = CASES["lp-wide-er10"].build(), npga.Problem.start, []

    def solved(press=None):
        def pressed(self, *where):
            calls.append(None)
            if len(calls) == press:
                raise KeyboardInterrupt
            return start(self, *where)

        calls.clear()
        monkeypatch.setattr(npga.Problem, "start", pressed)
        return npga.solve(instance.problem, instance.network, "extra", max_iters=2000)

    assert solved().status is not npga.Status.INTERRUPTED
    last = len(calls)  # the first call checks the arguments, the second makes the first trial, the last one the run
    for press in (3, 20, last - 1, last):
        result = solved(press)
        assert result.status is npga.Status.INTERRUPTED
        assert np.isfinite(result.x).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["lp-small-er10", "lp-equal-er10"])
def test_a_trial_that_diverges_never_crashes_the_call(name, seed):
    instance = CASES[name].build(seed)
    result, seconds = timed(instance.problem, instance.network, seed=seed, max_seconds=10.0)
    assert seconds < 100.0
    if result.status.ok:
        assert instance.objective(result.x) == pytest.approx(instance.solve().objective, rel=1e-5, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_300_buses_return_and_are_solved_with_every_seed(seed):
    instance = CASES["dispatch-300-buses"].build()
    result, seconds = timed(instance.problem, instance.network, seed=seed, max_seconds=60.0)
    assert seconds < 300.0
    assert result.status.ok, result
    answer = instance.solve()
    assert np.linalg.norm(result.x - answer.x) < 1e-5 * np.linalg.norm(answer.x)
