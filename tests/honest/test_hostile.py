"""Random problems in hostile units: every call ends within its limits, and what it says is true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers.hostile_problems import HOPELESS, KINDS, SOLVABLE, hostile
from npga import functions as fn

# Units and curvatures go from 2^-spread to 2^spread: 1, ten, a thousand, a million, a thousand million.
SPREADS = (0, 3, 10, 20, 30)
NO_SOLUTION = ("infeasible", "unbounded", "no_saddle_point")
DRAWN = given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    spread=st.sampled_from(SPREADS),
    way=st.sampled_from(["default", "default", "pga"]),
)


def tells_the_truth(seed, kind, spread, way):
    instance = hostile(seed, kind, spread)
    options = {"method": "pga"} if way == "pga" else {}
    result = npga.solve(instance.problem, instance.network, **options, max_iters=4000)
    assert result.iterations <= 4000
    said = result.status.value
    if said == "converged":
        assert instance.truth == "solvable", result
        assert instance.error(result.x) < 1e-5, result
    if said in NO_SOLUTION:
        assert instance.truth == said, result


@settings(max_examples=60)
@DRAWN
def test_what_is_said_of_hostile_problems_is_true(seed, kind, spread, way):
    tells_the_truth(seed, kind, spread, way)


@pytest.mark.slow
@settings(max_examples=500)
@DRAWN
def test_what_is_said_of_five_hundred_hostile_problems_is_true(seed, kind, spread, way):
    tells_the_truth(seed, kind, spread, way)


@pytest.mark.parametrize("kind", KINDS)
def test_in_plain_units_the_truth_is_found(kind):
    for seed in range(4):
        instance = hostile(seed, kind, 0)
        result = npga.solve(instance.problem, instance.network, max_iters=20_000)
        assert result.status.value == ("converged" if kind in SOLVABLE else instance.truth), result


@pytest.mark.parametrize("kind", SOLVABLE)
def test_others_find_the_constructed_solutions(kind):
    cp = pytest.importorskip("cvxpy")
    for seed in range(6):
        instance = hostile(seed, kind, 0)
        problem, h = instance.problem, instance.problem.h
        x = [cp.Variable(size) for size in problem.sizes]
        z = sum(agent.A @ part for agent, part in zip(problem.agents, x, strict=True))
        cost, constraints = 0.0, []
        for agent, part in zip(problem.agents, x, strict=True):
            if kind == "linear":
                cost += agent.f.c @ part
            else:
                cost += 0.5 * cp.sum(cp.multiply(agent.f.weight, cp.square(part - agent.f.center)))
            if isinstance(agent.g, fn.Box):
                constraints += [part >= agent.g.lo, part <= agent.g.hi]
        if kind == "smooth":
            cost += 0.5 * cp.sum(cp.multiply(h.weight, cp.square(z - h.target)))
        else:
            constraints.append(z == h.b if isinstance(h, fn.Equality) else z <= h.b)
        cp.Problem(cp.Minimize(cost), constraints).solve(solver="CLARABEL")
        assert instance.error(np.concatenate([part.value for part in x])) < 1e-4


@pytest.mark.parametrize("kind", HOPELESS)
@pytest.mark.parametrize("spread", [0, 30])
def test_others_find_no_solution_either(kind, spread):
    for seed in range(10):
        instance = hostile(seed, kind, spread)
        assert instance.confirmed() == instance.truth
