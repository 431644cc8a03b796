"""The centralised reference against solvers that nobody here wrote."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import brentq
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, random_problem
from npga import functions as fn

TIGHT = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def vertical(X, parties, f, g, h):
    """A regression whose columns sit with different parties."""
    return npga.Problem([npga.Agent(A=block, f=f, g=g) for block in np.array_split(X, parties, axis=1)], h)


def test_ridge_is_scikit_learns():
    X, y = make_regression(40, 11, noise=2.0, random_state=0)
    problem = vertical(X, 4, fn.SquaredNorm(0.7), fn.Zero(), fn.SquaredLoss(y, 1.0))
    expected = Ridge(alpha=0.7, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    np.testing.assert_allclose(npga.reference(problem).x, expected, rtol=1e-9, atol=1e-9)


def test_elastic_net_is_scikit_learns():
    X, y = make_regression(30, 12, n_informative=4, noise=2.0, random_state=1)
    l1, l2 = 3.0, 0.5
    problem = vertical(X, 5, fn.SquaredNorm(l2), fn.L1(l1), fn.SquaredLoss(y, 1 / 30))
    model = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-14, max_iter=10**6)
    found = npga.reference(problem)
    np.testing.assert_allclose(found.x, model.fit(X, y).coef_, rtol=1e-8, atol=1e-8)
    assert found.kkt <= 1e-12


def test_logistic_regression_is_scikit_learns():
    X, y = make_classification(60, 9, random_state=2)
    labels = 2.0 * y - 1.0
    problem = vertical(X, 3, fn.SquaredNorm(0.5), fn.Zero(), fn.Logistic(labels, 1.0))
    model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    np.testing.assert_allclose(npga.reference(problem).x, model.fit(X, y).coef_[0], rtol=1e-8, atol=1e-9)


def test_basis_pursuit_is_cvxpys():
    """f = 0: no theorem covers it, and it still has a solution."""
    rng = np.random.default_rng(3)
    A, sparse_x = rng.standard_normal((8, 20)), np.zeros(20)
    sparse_x[[2, 11, 17]] = [1.0, -2.0, 0.5]
    problem = vertical(A, 5, fn.Zero(), fn.L1(1.0), fn.Equality(A @ sparse_x))
    x = cp.Variable(20)
    cp.Problem(cp.Minimize(cp.norm1(x)), [A @ x == A @ sparse_x]).solve(**TIGHT)
    found = npga.reference(problem)
    np.testing.assert_allclose(found.x, x.value, atol=1e-7)
    assert found.kkt <= 1e-12


def test_ball_constraint_is_cvxpys():
    rng = np.random.default_rng(4)
    A, y = rng.standard_normal((6, 9)), rng.standard_normal(6)
    problem = vertical(A, 3, fn.SquaredNorm(1.0), fn.Zero(), fn.Ball(y, 0.4))
    x = cp.Variable(9)
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x)), [cp.norm(A @ x - y) <= 0.4]).solve(solver=cp.CLARABEL)
    found = npga.reference(problem).x
    np.testing.assert_allclose(found, x.value, atol=1e-5)  # as far as the cone solver goes
    # The secular equation: x = A^T (A A^T + nu I)^{-1} y with nu such that |A x - y| = 0.4.
    gram = A @ A.T

    def excess(nu):
        return np.linalg.norm(nu * np.linalg.solve(gram + nu * np.eye(6), y)) - 0.4

    nu = brentq(excess, 1e-6, 1e6, xtol=1e-15, rtol=1e-15)
    np.testing.assert_allclose(found, A.T @ np.linalg.solve(gram + nu * np.eye(6), y), atol=1e-11)


def test_resource_sharing_with_boxes_is_cvxpys():
    rng = np.random.default_rng(5)
    cost, target = 0.5 + rng.random(10), rng.random(10)
    agents = [npga.Agent([[1.0]], fn.SquaredNorm(c, [t]), fn.Box(0.0, 0.6)) for c, t in zip(cost, target, strict=True)]
    problem = npga.Problem(agents, fn.LessEqual([3.0]))
    x = cp.Variable(10)
    objective = cp.Minimize(0.5 * cp.sum(cp.multiply(cost, cp.square(x - target))))
    cp.Problem(objective, [x >= 0, x <= 0.6, cp.sum(x) <= 3.0]).solve(**TIGHT)
    np.testing.assert_allclose(npga.reference(problem).x, x.value, atol=1e-7)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    smooth=st.sampled_from(sorted(set(SMOOTH) - {"linear", "zero", "logistic", "huber"})),
    proximable=st.sampled_from(sorted(PROXIMABLE)),
    coupling=st.sampled_from(sorted(COUPLING)),
    matrices=st.sampled_from(["dense", "mixed"]),
)
def test_residual_is_tiny_for_strongly_convex_problems(seed, smooth, proximable, coupling, matrices):
    problem = random_problem(seed, 5, 3, smooth, proximable, coupling, matrices)
    found = npga.reference(problem)
    assert found.kkt <= 1e-12
    assert problem.kkt(found.x, found.lam).kkt == found.kkt


def test_an_infeasible_problem_is_named():
    """The residual that comes back is the true one, and large; the objective is that of a minimum over nothing."""
    agent = npga.Agent(np.array([[1.0], [1.0]]), fn.SquaredNorm(1.0))
    problem = npga.Problem([agent], fn.Equality([1.0, 2.0]))
    found = npga.reference(problem, max_iters=2000)
    assert found.kkt > 1e-2
    assert found.status is npga.Status.INFEASIBLE
    assert "No point satisfies the coupling" in found.message
    assert found.objective == np.inf


def test_an_unbounded_problem_is_named():
    free = npga.Problem([npga.Agent([[1.0, -1.0]], fn.Linear([-1.0, 0.5]))], fn.Equality([0.0]))
    found = npga.reference(free, max_iters=20_000)
    assert found.status is npga.Status.UNBOUNDED
    assert found.objective == -np.inf


def test_gives_up_honestly():
    """Limits that are too small: the message says how far it came."""
    problem = random_problem(3, 5, 3, "zero", "l1", "equality")
    for limit, status in (({"max_iters": 0}, "max_iters"), ({"max_seconds": 0.0}, "max_seconds")):
        found = npga.reference(problem, **limit)
        assert found.status.value == status
        assert f"{found.kkt:.1e}" in found.message
        assert status in found.message


def test_progress_is_shown(capsys):
    problem = random_problem(3, 5, 3, "zero", "l1", "equality")
    found = npga.reference(problem, progress=True)
    assert found.status.ok
    assert "residual" in capsys.readouterr().out


def test_five_thousand_rows_take_newton_steps_alone():
    """What is not tight is eliminated: the matrix has the size of x."""
    X, y = make_classification(5000, 20, random_state=0)
    problem = vertical(X, 4, fn.SquaredNorm(0.5), fn.Zero(), fn.Logistic(2.0 * y - 1.0, 1.0))
    found = npga.reference(problem)
    assert found.status.ok
    assert found.iterations[0] == 0


def test_single_precision_data_are_solved_in_double():
    rng = np.random.default_rng(6)
    A = rng.standard_normal((4, 6)).astype(np.float32)
    problem = npga.Problem([npga.Agent(A, fn.SquaredNorm(1.0))], fn.SquaredLoss(np.ones(4), 1.0))
    found = npga.reference(problem)
    assert found.x.dtype == np.float64
    assert found.kkt <= 1e-12


def test_too_large_for_newton():
    rng = np.random.default_rng(7)
    A = sparse.random_array((30, 6000), density=0.05, rng=rng)
    blocks = [A[:, :3000], A[:, 3000:]]
    problem = npga.Problem([npga.Agent(B, fn.SquaredNorm(1.0)) for B in blocks], fn.SquaredLoss(np.ones(30), 1.0))
    dense = A.toarray()
    expected = dense.T @ np.linalg.solve(np.eye(30) + dense @ dense.T, np.ones(30))
    found = npga.reference(problem)
    np.testing.assert_allclose(found.x, expected, atol=1e-11)


@pytest.mark.parametrize("smooth", ["logistic", "huber", "linear", "zero"])
def test_merely_convex_problems(smooth):
    problem = random_problem(12, 5, 3, smooth, "box", "squared-loss")
    assert npga.reference(problem).kkt <= 1e-11
