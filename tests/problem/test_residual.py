"""The residual against its formula, written out agent by agent and row by row, and against a change of units."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from npga import functions as fn
from npga.problem import FORCES, LEAST, dense_block

KINDS = [
    ("squared-norm", "l1", "equality"),
    ("quadratic", "box", "less-equal"),
    ("linear", "non-negative", "equality"),
    ("zero", "zero", "quantile"),
    ("zero", "l2", "squared-loss"),
    ("logistic", "group-l2", "ball"),
    ("least-squares", "simplex", "logistic"),
    ("huber", "elastic-net", "hinge"),
]


def written_out(problem, x, lam, rows):
    """The formulas of `npga.problem._residual` at (x, lam); `rows` are lists of rows that h takes together."""
    norm, n, L_h = np.linalg.norm, problem.n, problem.h.L
    A, x = [dense_block(agent.A) for agent in problem.agents], problem.split(x)
    grad = [agent.f.grad(part) for agent, part in zip(problem.agents, x, strict=True)]
    K = [np.sqrt(sum(norm(A[i][k]) ** 2 * lam[k] ** 2 for k in range(problem.p))) for i in range(n)]
    F = [max(norm(grad[i]), norm(A[i].T @ lam), K[i]) for i in range(n)]
    curvature = [
        agent.f.L or (L_h * norm(A[i], 2) ** 2 if np.isfinite(L_h) else 0.0) for i, agent in enumerate(problem.agents)
    ]
    energy = max(c * norm(x[i]) ** 2 if c else norm(x[i]) * F[i] for i, c in enumerate(curvature))
    s = [1.0 / c if c else energy / F[i] ** 2 if energy * F[i] else 1.0 for i, c in enumerate(curvature)]
    worst = 0.0
    for i, agent in enumerate(problem.agents):
        ahead = agent.g.prox(x[i] - s[i] * (grad[i] + A[i].T @ lam), s[i])
        sizes = norm(x[i]), norm(ahead), FORCES * s[i] * norm(grad[i]), FORCES * s[i] * K[i]
        counts = max(1.0, agent.f.L / agent.f.mu / 1e3) if agent.f.mu else 1.0
        worst = max(worst, counts * norm(ahead - x[i]) / max(*sizes, LEAST * np.sqrt(s[i] * energy)))
    terms = np.array([A[i] @ x[i] for i in range(n)])
    t = np.array([max(norm(A[i][k]) ** 2 * s[i] for i in range(n)) for k in range(problem.p)])
    for block in rows:
        t[block] = t[block].max()
    z = terms.sum(axis=0)
    ahead = problem.h.prox(z + t * lam, t)
    for block in rows:
        force = 0.0 if problem.h.is_indicator else FORCES * t[block[0]] * norm(lam[block])
        sizes = norm(terms[:, block], axis=1).max(), norm(ahead[block]), force, LEAST * np.sqrt(t[block[0]] * energy)
        worst = max(worst, norm(ahead[block] - z[block]) / max(sizes))
    return worst


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
def test_the_residual_is_its_formula(kind, size):
    problem = random_problem(4, 5, 3, *kind, matrices="mixed")
    rng = np.random.default_rng(1)
    x, lam = size * rng.standard_normal(problem.d), rng.standard_normal(problem.p)
    together = [[0, 1, 2]] if kind[2] == "ball" else [[0], [1], [2]]
    expected = written_out(problem, x, lam, together)
    if problem.h.has_grad and np.isfinite(problem.h.L):  # grad h(z) is a multiplier as well
        expected = min(expected, written_out(problem, x, problem.h.grad(problem.A.apply(x).sum(axis=0)), together))
    found = problem.kkt(x, lam)
    assert found.kkt == pytest.approx(expected, rel=1e-9)
    assert found.kkt == max(found.stationarity, found.coupling)


@pytest.mark.parametrize("f", ["squared-norm", "linear", "curved"])
def test_coordinates_of_different_units_count_as_agents(f):
    """An agent whose columns or curvatures are far apart is measured as the agents that its coordinates would be."""
    rng = np.random.default_rng(2)
    A, x, lam = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal(3)
    unit, weight = np.array([1.0, 1e9, 1.0, 1e-4]), np.array([1.0, 2.0, 1.0, 1e6])
    A, x = A / unit, unit * x

    def cost(j):
        if f == "squared-norm":
            return fn.SquaredNorm(1.0 / unit[j] ** 2)
        return fn.Linear(np.atleast_1d(1.0 / unit[j])) if f == "linear" else fn.SquaredNorm(weight[j] / unit[j] ** 2)

    others = [npga.Agent(rng.standard_normal((3, 2)), fn.SquaredNorm(1.0), fn.L1(0.1)) for _ in range(2)]
    parts = [
        npga.Agent(A[:, j], cost(j), fn.Box(0.5 * x[j], 2.0 * abs(x[j]))) for j in (slice(k, k + 1) for k in range(4))
    ]
    one = npga.Agent(A, cost(slice(0, 4)), fn.Box(0.5 * x, 2.0 * np.abs(x)))
    h, point = fn.Equality(rng.standard_normal(3)), np.concatenate([x, rng.standard_normal(4)])
    together, split = (npga.Problem([*own, *others], h).kkt(point, lam) for own in ([one], parts))
    assert together.stationarity == pytest.approx(split.stationarity, rel=1e-12)
    assert together.agents[0] == pytest.approx(split.agents[:4].max(), rel=1e-12)
    assert together.energy == pytest.approx(split.energy, rel=1e-12)


@pytest.mark.parametrize("hard", [True, False])
def test_units_do_not_matter(hard):
    """Cost in units of `money`, agent i's variables in units of `u[i]`, row k in units of `v[k]`."""
    rng = np.random.default_rng(0)
    A, c, b = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 2)), rng.standard_normal(3)
    x, lam = rng.standard_normal((4, 2)), rng.standard_normal(3)

    def at(money, u, v):
        agents = [
            npga.Agent(v[:, None] * A[i] / u[i], fn.SquaredNorm((1.0 + i) * money / u[i] ** 2, center=u[i] * c[i]))
            for i in range(4)
        ]
        problem = npga.Problem(agents, fn.Equality(v * b) if hard else fn.Quantile(v * b, 0.5, money))
        # A loss that adds up rows has one unit for all of them.
        return problem.kkt(list(u[:, None] * x), money * lam / v).kkt

    first = at(1.0, np.ones(4), np.ones(3))
    assert first > 0.1
    for money, u in ((1e7, np.ones(4)), (1.0, np.array([1.0, 1e6, 1e-6, 1e3])), (1e-6, np.full(4, 1e-4))):
        assert at(money, u, np.ones(3)) == pytest.approx(first, rel=1e-6)
    if hard:
        assert at(1.0, np.ones(4), np.array([1e9, 1.0, 1e-9])) == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize("role", ["g", "h"])
def test_a_move_that_is_no_number_is_not_taken_for_none(role):
    lost = fn.Custom(value=lambda x: 0.0, prox=lambda x, t: np.full_like(x, np.nan))
    agents = [npga.Agent(np.eye(2), fn.SquaredNorm(1.0), lost if role == "g" else fn.Zero()) for _ in range(3)]
    problem = npga.Problem(agents, lost if role == "h" else fn.Equality(np.zeros(2)))
    found = problem.kkt([np.ones(2)] * 3, np.ones(2))
    assert np.isnan(found.kkt)
    assert np.isnan(found.overall)
