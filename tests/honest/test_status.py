"""What a run says is true: "converged" in every row and agent, and not denied where x is right."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from npga import functions as fn
from suite import CASES

CENTRALISED = {"method": "pga"}
WAYS = [{}, CENTRALISED]


def relative(x, star):
    return np.linalg.norm(np.asarray(x) - star) / np.linalg.norm(star)


def scaled_rows(large):
    """Two agents, two rows in units that differ by `large`; x* = (1/large, 1) / 2 for both."""
    agents = [npga.Agent(np.diag([large, 1.0]), fn.SquaredNorm(1.0)) for _ in range(2)]
    return npga.Problem(agents, fn.Equality([1.0, 1.0]))


@pytest.mark.parametrize("large", [1e3, 1e6, 1e9])
def test_a_row_in_small_units_is_not_missed(large):
    problem = scaled_rows(large)
    missed = np.tile([0.5 / large, 0.0], 2)
    assert problem.kkt(missed, np.zeros(2)).kkt > 0.1
    assert problem.kkt(missed, [-0.5 / large**2, 0.0]).kkt > 0.1  # the first row is solved, the second not at all
    star = np.tile([0.5 / large, 0.5], 2)
    assert problem.kkt(star, [-0.5 / large**2, -0.5]).kkt < 1e-9
    for way in WAYS:
        result = npga.solve(problem, npga.Network.path(2), **way, max_iters=20_000, max_seconds=20.0)
        if result.status.ok:
            np.testing.assert_allclose(result.x, star, rtol=1e-5)


def test_an_agent_in_small_units_is_not_missed():
    """Two agents share a resource; one counts in units that are a million times larger."""
    units = np.array([1.0, 1e-6])
    agents = [npga.Agent(np.array([[1.0 / u]]), fn.SquaredNorm(1.0 / u**2, center=u)) for u in units]
    problem = npga.Problem(agents, fn.Equality([1.0]))
    star = 0.5 * units
    assert problem.kkt(star, [0.5]).kkt < 1e-12
    for wrong in (star * [1.0, 1.01], star * [1.01, 1.0]):
        assert problem.kkt(wrong, [0.5]).kkt > 1e-3


@pytest.mark.parametrize("name", ["quantile-bare-linnerud-complete3", "quantile-bare-wine-alcohol-ring4"])
def test_without_costs_of_its_own_a_problem_is_solved_all_the_same(name):
    """f = g = 0: the forces on an agent are the single terms of A_i^T lam, which cancel at a solution."""
    instance = CASES[name].build()
    answer = instance.solve()
    found = instance.problem.kkt(answer.x, answer.lam)
    assert found.kkt < 1e-12
    assert instance.problem.kkt(1.001 * answer.x, answer.lam).kkt > 1e-5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", [0.0, 1.0, 1e-6])
def test_a_solution_at_the_origin_is_found(way, start):
    problems = [
        npga.Problem([npga.Agent(np.eye(2), fn.SquaredNorm(1.0)) for _ in range(3)], fn.Equality(np.zeros(2))),
        npga.Problem(  # opposing wishes that cancel in sum; lam* is not zero
            [npga.Agent(np.eye(2), fn.SquaredNorm(1.0, center=1.0)) for _ in range(3)], fn.Equality(np.zeros(2))
        ),
        npga.Problem([npga.Agent(np.eye(2), fn.Zero(), fn.L1(1.0)) for _ in range(3)], fn.SquaredLoss([0.1, -0.2])),
    ]
    for problem in problems:
        result = npga.solve(problem, npga.Network.complete(3), x0=np.full(problem.d, start), **way, max_seconds=20.0)
        assert result.status.ok, result
        assert np.abs(result.x).max() < 1e-5 * max(start, 1e-3)


def test_a_multiplier_that_is_wrong_where_it_does_not_act_does_not_matter():
    """Ridge with many rows: lam has thousands of entries, of which x feels a few."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    agents = [npga.Agent(A[:, [j]], fn.SquaredNorm(0.1)) for j in range(4)]
    problem = npga.Problem(agents, fn.SquaredLoss(y, 1.0 / 300))
    star = npga.reference(problem)
    idle = rng.standard_normal(300)
    idle -= A @ np.linalg.lstsq(A, idle, rcond=None)[0]
    idle *= 0.1 * np.linalg.norm(star.lam) / np.linalg.norm(idle)
    assert problem.kkt(star.x, star.lam + idle).kkt < 1e-12
    assert problem.kkt(1.0001 * star.x, star.lam).kkt > 1e-5


@pytest.mark.parametrize("name", ["ridge-diabetes-complete3", "dispatch-30-buses", "share-needs-florentine"])
@pytest.mark.parametrize("way", WAYS)
def test_single_precision_ends_where_it_can(name, way):
    instance = CASES[name].build()
    agents = [npga.Agent(np.asarray(a.A, np.float32), a.f, a.g) for a in instance.problem.agents]
    problem = npga.Problem(agents, instance.problem.h)
    assert problem.dtype == np.float32
    result = npga.solve(problem, instance.network, **way, max_seconds=30.0)
    assert result.status.ok, result
    assert result.iterations < 100_000
    assert "float32" in result.message
    assert relative(result.x, instance.solve().x) < 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_the_error_bound_holds(seed):
    rng = np.random.default_rng(seed)
    A = [rng.standard_normal((5, 2)) for _ in range(4)]
    center = [rng.standard_normal(2) for _ in range(4)]
    smooth = npga.Problem(
        [npga.Agent(a, fn.SquaredNorm(0.5), fn.L1(0.1)) for a in A], fn.Logistic(np.sign(rng.standard_normal(5)))
    )
    equal = npga.Problem(
        [npga.Agent(a[:3], fn.SquaredNorm(1.0 + i, center=c)) for i, (a, c) in enumerate(zip(A, center, strict=True))],
        fn.Equality(rng.standard_normal(3)),
    )
    for problem in (smooth, equal):
        star = npga.reference(problem)
        for size in (1.0, 1e-3, 1e-6):
            x = star.x + size * rng.standard_normal(problem.d)
            lam = star.lam + size * rng.standard_normal(problem.p)
            error = np.linalg.norm(x - star.x)
            assert error <= problem.error_bound(x, lam) * (1 + 1e-9) <= 1e4 * max(error, size)
    hard = npga.Problem([npga.Agent(a, fn.SquaredNorm(1.0), fn.Box(0.0, 1.0)) for a in A], fn.Equality(np.zeros(5)))
    assert hard.error_bound(np.zeros(8), np.zeros(5)) == np.inf


def test_prices_have_one_sign_and_say_whether_they_are_unique():
    def cost(b):
        agents = [npga.Agent(np.ones((1, 1)), fn.SquaredNorm(1.0, center=c), fn.Box(0.0, 3.0)) for c in (1.0, 2.0, 2.5)]
        problem = npga.Problem(agents, fn.LessEqual([b]))
        return problem, npga.solve(problem, npga.Network.complete(3), method="pga", tol=1e-12)

    (problem, here), (_, there) = cost(4.0), cost(4.001)
    slope = (there.problem.f(there.x) - problem.f(here.x)) / 0.001
    np.testing.assert_allclose(here.duals, [-slope], rtol=1e-3)
    assert here.duals[0] > 0.0
    assert here.duals_are_unique
    doubled = npga.Problem(
        [npga.Agent(np.ones((2, 1)), fn.SquaredNorm(1.0, center=c)) for c in (1.0, 2.0)], fn.Equality([1.0, 1.0])
    )
    assert npga.solve(doubled, npga.Network.path(2), method="pga").duals_are_unique is False
    ball = npga.Problem([npga.Agent(np.ones((1, 1)), fn.SquaredNorm(1.0))], fn.Ball([2.0], 0.5))
    assert npga.solve(ball, npga.Network.complete(1), method="pga").duals_are_unique
    tight = CASES["opf-39-tight"].build()
    answer = tight.solve()
    assert tight.problem.duals_are_unique(answer.x, answer.lam) is False
