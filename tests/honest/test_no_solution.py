"""Problems without a solution are recognised, named, and never called converged; solvable ones are never accused."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from npga import functions as fn
from npga.solver import find_obstacle

STATUS = npga.Status
RING = npga.Network.ring(4)
ONE = np.ones((1, 1))


def four(A, f, g=None, h=None):
    return npga.Problem([npga.Agent(A, f, fn.Zero() if g is None else g) for _ in range(4)], h)


def square(weight=1.0, center=0.0):
    return fn.SquaredNorm(weight, center=center)


def drawn(seed, *shape):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


INFEASIBLE = {
    "more than all can give": (four(ONE, square(), fn.Box(0.0, 1.0), fn.Equality([5.0])), (0,)),
    "more than the budget": (four(ONE, square(), fn.Box(1.0, 2.0), fn.LessEqual([3.0])), (0,)),
    "rows that contradict": (four(np.ones((2, 1)), square(), None, fn.Equality([5.0, 4.0])), (0, 1)),
    "a linear program": (four(drawn(0, 2, 2), fn.Linear([1.0, 2.0]), fn.Box(0.0, 1.0), fn.Equality([50.0, 1.0])), None),
    "one row of two, in other units": (
        four(np.diag([1e6, 1.0]), square(), fn.Box(0.0, 1e-6), fn.Equality([1.0, 1.0])), (1,),
    ),
    "shares of the wrong total": (four(np.eye(3), square(), fn.Simplex(1.0), fn.Equality(np.ones(3))), (0, 1, 2)),
    "a ball out of reach": (four(np.eye(3), square(), fn.Box(0.0, 1.0), fn.Ball(-np.ones(3), 1.0)), (0, 1, 2)),
}  # fmt: skip
UNBOUNDED = {
    "a linear program": four(np.array([[1.0, -1.0]]), fn.Linear([-2.0, 1.0]), fn.NonNegative(), fn.Equality([1.0])),
    "costs without bounds": npga.Problem(
        [npga.Agent(ONE, fn.Linear([float(i)])) for i in range(4)], fn.Equality([1.0])
    ),
    "a flat direction of a quadratic": four(
        np.array([[1.0, 0.0]]), fn.Quadratic(np.diag([1.0, 0.0]), [0.0, -1.0]), None, fn.Equality([1.0])
    ),
}
NO_SADDLE_POINT = {
    "classes that a plane separates": npga.Problem(
        [npga.Agent(drawn(i, 6, 1), fn.Zero()) for i in range(4)], fn.Logistic(np.ones(6), 1.0 / 6.0)
    ),
    "a ball that is only touched": four(
        np.array([[1.0], [0.0]]), square(center=1.0), None, fn.Ball([0.0, 1.0], 1.0)
    ),
}  # fmt: skip
SOLVABLE = {
    "all at their limits": four(ONE, square(), fn.Box(0.0, 1.0), fn.Equality([4.0])),
    "a hinge that reaches zero": npga.Problem(
        [npga.Agent(drawn(i, 6, 1), fn.Zero()) for i in range(4)], fn.Hinge(np.ones(6), 1.0 / 6.0)
    ),
    "a ball that is cut": four(np.array([[1.0], [0.5]]), square(center=1.0), None, fn.Ball([0.0, 1.0], 1.0)),
    "a minimiser far away": four(ONE, square(1e-3, center=1e6), fn.Box(0.0, 1e7), fn.Equality([1e6])),
}
WAYS = {"default": {}, "centralised": {"method": "pga"}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INFEASIBLE)
def test_a_coupling_that_cannot_be_met_is_proved_impossible(name, way):
    problem, rows = INFEASIBLE[name]
    result = npga.solve(problem, RING, **WAYS[way], max_seconds=30.0)
    assert result.status is STATUS.INFEASIBLE, result
    assert rows is None or result.obstacle.rows == rows
    assert result.obstacle.agents == (0, 1, 2, 3)
    assert "No point satisfies the coupling" in result.message
    # The certificate: no reachable sum comes nearer than a gap to what h allows, along its direction.
    y, rng = result.obstacle.direction, np.random.default_rng(0)
    reached, allowed = [], []
    for _ in range(200):
        x = problem.g.prox(rng.standard_normal(problem.d) * 10.0 ** rng.uniform(-3, 3), 1.0)
        reached.append(float(y @ problem.A.apply(x).sum(axis=0)))
        allowed.append(float(y @ problem.h.prox(rng.standard_normal(problem.p) * 10.0 ** rng.uniform(-3, 3), 1.0)))
    scale = max(np.abs(reached + allowed))
    assert min(reached) > max(allowed) - 1e-5 * scale


@pytest.mark.parametrize("way", ["centralised", "default"])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_an_objective_without_bound_is_named(name, way):
    problem = UNBOUNDED[name]
    result = npga.solve(problem, RING, **WAYS[way], max_seconds=30.0)
    assert result.status is STATUS.UNBOUNDED, result
    assert "falls without bound" in result.message
    d = result.obstacle.direction
    far = [float(problem.f(result.x + length * d)) for length in (1e3, 1e4, 1e5)]
    assert far[0] > far[1] > far[2]
    np.testing.assert_allclose(problem.g.prox(result.x + 1e5 * d, 1.0), result.x + 1e5 * d, atol=1.0)
    assert np.abs(problem.A.apply(d).sum(axis=0)).max() < 1e-4


@pytest.mark.parametrize("way", ["centralised", "default"])
@pytest.mark.parametrize("name", NO_SADDLE_POINT)
def test_a_missing_saddle_point_is_named(name, way):
    result = npga.solve(NO_SADDLE_POINT[name], RING, **WAYS[way], max_seconds=30.0)
    if result.status is STATUS.CONVERGED:  # an infimum of 0 may be met to the last digit, or to the tolerance
        assert 0.0 <= result.problem.objective(result.x) < (1e-30 if way == "centralised" else 1e-7)
    else:
        assert result.status is STATUS.NO_SADDLE_POINT, result


def test_relays_do_not_stand_in_the_way():
    """An agent without variables belongs to no group of coordinates."""
    ends = [npga.Agent(ONE, square(), fn.Box(0.0, 1.0)) for _ in range(2)]
    relays = [npga.Agent(np.zeros((1, 0)), fn.Zero()), npga.Agent(np.zeros((1, 0)), fn.Zero(), fn.L2(1.0))]
    result = npga.solve(npga.Problem([ends[0], relays[0], ends[1], relays[1]], fn.Equality([5.0])), RING)
    assert result.status is STATUS.INFEASIBLE


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e8])
def test_an_objective_without_bound_is_named_in_all_units(scale):
    problem = four(np.array([[1.0, -1.0]]), fn.Linear([-2.0 * scale, scale]), fn.NonNegative(), fn.Equality([1.0]))
    assert npga.solve(problem, RING).status is STATUS.UNBOUNDED


def test_a_direction_that_meets_a_bound_is_no_accusation():
    agents = [npga.Agent(ONE, fn.Linear([cost]), fn.Box(0.0, 1.0)) for cost in (-1.0, 1.0)]
    problem, lam = npga.Problem(agents, fn.Equality([1.0])), np.zeros(1)
    assert find_obstacle(problem, (np.array([0.2, 0.8]), lam), (np.array([0.4, 0.6]), lam)) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SOLVABLE)
def test_a_solvable_problem_is_not_accused(name, way):
    result = npga.solve(SOLVABLE[name], RING, **WAYS[way], max_seconds=30.0)
    assert result.obstacle is None
    assert result.status in (STATUS.CONVERGED, STATUS.MAX_ITERS), result
