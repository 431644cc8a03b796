"""What a result tells: from the start of the trace to the sign of the prices, and in a form that can be typed back."""

from __future__ import annotations

import time

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from npga import functions as fn
from npga.errors import InputError
from npga.solver import Limits

RING = npga.Network.ring(5)
PROBLEM = random_problem(7, 5, 3, "quadratic", "box", "less-equal")
GIVEN = {"version": "nids", "steps": npga.Steps(0.2, 0.2, 0.9)}
WAYS = {"default": {}, "search": {"version": "extra"}, "given": GIVEN, "centralised": {"method": "pga"}}


@pytest.mark.parametrize("way", WAYS)
def test_the_trace_begins_at_the_start_and_a_search_is_counted_apart(way):
    begun = time.perf_counter()
    result = npga.solve(PROBLEM, RING, **WAYS[way])
    assert 0.0 < result.seconds <= time.perf_counter() - begun
    first = result.trace[0]
    assert (first.iteration, first.round) == (0, 0)
    assert first.objective == pytest.approx(PROBLEM.f(np.zeros(PROBLEM.d)))
    assert result.trace[-1].iteration == result.iterations
    assert (result.search is not None) == (way == "search")
    if result.search is not None:
        assert f"took another {result.search.iterations} iterations and {result.search.rounds} rounds" in str(result)


@pytest.mark.parametrize("way", WAYS)
def test_limits_come_in_one_record_or_one_by_one(way):
    assert npga.solve(PROBLEM, RING, **WAYS[way], limits=Limits(max_iters=0)).iterations == 0
    for single in ({"tol": 1e-3}, {"max_iters": 5}, {"max_seconds": 1.0}):
        with pytest.raises(InputError, match=f"limits= was given beside {next(iter(single))}"):
            npga.solve(PROBLEM, RING, **WAYS[way], **single, limits=Limits(tol=1e-4))
    with pytest.raises(InputError, match="limits= was given beside max_rounds"):
        npga.solver.solve(PROBLEM, RING, **GIVEN, max_rounds=7, limits=Limits())


def test_steps_that_were_mended_can_be_typed_back_as_well():
    """Whose L is wrong gets steps that do not follow from the problem: they are printed in full."""
    steep = fn.Custom(value=lambda x: 500.0 * float(x @ x), grad=lambda x: 1000.0 * x, L=1.0)
    agents = [npga.Agent(np.ones((1, 1)), steep), npga.Agent(np.ones((1, 1)), fn.SquaredNorm(1.0))]
    problem, network = npga.Problem(agents, fn.Equality([1.0])), npga.Network.path(2)
    result = npga.solve(problem, network)
    words = result.message[result.message.index("version=") : result.message.index(". Whether")]
    typed = eval(f"dict({words})", {"npga": npga, "problem": problem})
    assert typed == {"version": result.version, "steps": result.steps}


def test_the_objective_at_a_converged_point_is_a_number():
    result = npga.solve(PROBLEM, RING)
    assert result.status.ok
    best = npga.reference(PROBLEM)
    assert PROBLEM.objective(result.x, tol=1e-6) == pytest.approx(best.objective, rel=1e-6)
    assert PROBLEM.objective(result.x + 1.0, tol=1e-6) == np.inf


def cost(h):
    agents = [npga.Agent(np.array([[1.0], [0.5]]), fn.SquaredNorm(1.0, center=c)) for c in (1.0, 2.0, 3.0)]
    return npga.Problem(agents, h)


@pytest.mark.parametrize(
    "make",
    [fn.Equality, fn.LessEqual, lambda b: fn.GreaterEqual(b + 6.0), lambda b: fn.SquaredLoss(b, 2.0)],
    ids=["=", "<=", ">=", "smooth"],
)
def test_one_more_unit_of_b_costs_minus_the_dual(make):
    b, moved = np.array([2.0, 1.0]), 1e-4
    values = [npga.reference(cost(make(b + sign * moved * np.array([1.0, 0.5])))).objective for sign in (-1.0, 1.0)]
    slope = (values[1] - values[0]) / (2.0 * moved)
    network = npga.Network.path(3)
    for result in (npga.solve(cost(make(b)), network, tol=1e-10), npga.solve(cost(make(b)), network, method="pga")):
        assert result.status.ok, result
        assert result.duals @ [1.0, 0.5] == pytest.approx(-slope, rel=1e-4, abs=1e-7)
        np.testing.assert_allclose(result.lam.mean(axis=0), result.duals, rtol=1e-4, atol=1e-6)


def test_single_precision_gives_the_same_bits_twice_and_says_what_it_resolves():
    agents = [npga.Agent(np.asarray(a.A, np.float32), a.f, a.g) for a in PROBLEM.agents]
    problem = npga.Problem(agents, PROBLEM.h)
    steps = npga.tuning.tied_steps(problem, 0.3)
    for path in ("compiled", "vectorised"):
        one, two = (npga.solve(problem, RING, "nids", steps, path=path, tol=1e-12) for _ in range(2))
        assert one.status.ok
        assert "float32 resolves" in one.message
        assert one.iterations == two.iterations
        np.testing.assert_array_equal(one.x, two.x)
