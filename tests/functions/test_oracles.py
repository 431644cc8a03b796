"""Outside oracles: cvxpy, SciPy and scikit-learn, which share no code with the room."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_pinball_loss

from helpers.registry import PARITY, PSD, SINGULAR, TALL, THIN, WIDE, C, D, W, Y
from npga import functions as fn

B = np.arange(6.0)


def pinball(z, target, tau, weight):
    r = target - z
    return cp.sum(cp.multiply(weight, cp.maximum(cp.multiply(tau, r), cp.multiply(tau - 1.0, r))))


def squares(x, weight, center):
    return cp.sum(cp.multiply(weight, cp.square(x - center))) / 2.0


# (id, function, its cvxpy expression or None, its cvxpy constraints)
MODELS = [
    ("zero", fn.Zero(), lambda x: 0.0, None),
    ("linear", fn.Linear(C), lambda x: C @ x, None),
    ("squared-norm", fn.SquaredNorm(W, C), lambda x: squares(x, W, C), None),
    ("squared-loss", fn.SquaredLoss(C, 0.5), lambda x: squares(x, 0.5, C), None),
    ("quadratic", fn.Quadratic(PSD, C), lambda x: cp.quad_form(x, cp.psd_wrap(PSD)) / 2 + C @ x, None),
    ("quadratic-singular", fn.Quadratic(SINGULAR), lambda x: cp.sum_squares(WIDE @ x) / 2, None),
    ("quadratic-sparse", fn.Quadratic(sp.csc_array(PSD)), lambda x: cp.quad_form(x, cp.psd_wrap(PSD)) / 2, None),
    ("least-squares", fn.LeastSquares(TALL, B, 0.4), lambda x: 0.2 * cp.sum_squares(TALL @ x - B), None),
    ("least-squares-wide", fn.LeastSquares(WIDE, 1.0), lambda x: cp.sum_squares(WIDE @ x - 1.0) / 2, None),
    ("least-squares-sparse", fn.LeastSquares(THIN, 1.0), lambda x: cp.sum_squares(THIN.toarray() @ x - 1.0) / 2, None),
    ("logistic", fn.Logistic(Y, W), lambda x: cp.sum(cp.multiply(W, cp.logistic(cp.multiply(-Y, x)))), None),
    ("huber", fn.Huber(0.7, W, C), lambda x: cp.sum(cp.multiply(W, cp.huber(x - C, 0.7))) / 2, None),
    ("l1", fn.L1(W), lambda x: cp.norm1(cp.multiply(W, x)), None),
    ("l2", fn.L2(0.9), lambda x: 0.9 * cp.norm2(x), None),
    ("group-l2", fn.GroupL2([0.6, 1.1], PARITY), lambda x: 0.6 * cp.norm2(x[[2, 0]]) + 1.1 * cp.norm2(x[[1, 3]]), None),
    ("elastic-net", fn.ElasticNet(0.3, W), lambda x: 0.3 * cp.norm1(x) + squares(x, W, 0.0), None),
    ("box", fn.Box(-0.5, W), None, lambda x: [x >= -0.5, x <= W]),
    ("non-negative", fn.NonNegative(), None, lambda x: [x >= 0]),
    ("simplex", fn.Simplex(2.0), None, lambda x: [x >= 0, cp.sum(x) == 2.0]),
    ("equality", fn.Equality(C), None, lambda x: [x == C]),
    ("less-equal", fn.LessEqual(C), None, lambda x: [x <= C]),
    ("ball", fn.Ball(C, 0.8), None, lambda x: [cp.norm2(x - C) <= 0.8]),
    ("hinge", fn.Hinge(Y, W), lambda x: cp.sum(cp.multiply(W, cp.pos(1 - cp.multiply(Y, x)))), None),
    ("greater-equal", fn.GreaterEqual(C), None, lambda x: [x >= C]),
    ("entropy", fn.Entropy(W), lambda x: -cp.sum(cp.multiply(W, cp.entr(x))), None),
    ("l1-in-box", fn.L1(W) + fn.Box(-0.1, W), lambda x: cp.norm1(cp.multiply(W, x)), lambda x: [x >= -0.1, x <= W]),
    ("linear-in-box", fn.Linear(C) + fn.Box(0.0, 1.0), lambda x: C @ x, lambda x: [x >= 0, x <= 1]),
    ("simplex-linear", fn.Simplex() + fn.Linear(C), lambda x: C @ x, lambda x: [x >= 0, cp.sum(x) == 1]),
    ("l2-square", fn.L2() + fn.SquaredNorm(0.5, C), lambda x: cp.norm2(x) + squares(x, 0.5, C), None),
    ("quantile", fn.Quantile(C, 0.8, W), lambda x: pinball(x, C, 0.8, W), None),
]  # fmt: skip


@pytest.mark.parametrize(("f", "expression", "constraints"), [pytest.param(*m[1:], id=m[0]) for m in MODELS])
def test_prox_and_value_against_cvxpy(f, expression, constraints):
    x = np.random.default_rng(5).normal(size=D) * 2.0
    for t in (0.3, 2.5):
        u = cp.Variable(D)
        cost = 0.0 if expression is None else expression(u)
        problem = cp.Problem(cp.Minimize(t * cost + cp.sum_squares(u - x) / 2), constraints(u) if constraints else [])
        accuracy = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
        problem.solve(solver=cp.CLARABEL, **accuracy)
        np.testing.assert_allclose(f.prox(x, t), u.value, atol=2e-6)
    if expression is not None:
        x = x if np.isfinite(f(x)) else f.prox(x, 2.5)
        u.value = x
        value = cost if isinstance(cost, float) else cost.value
        np.testing.assert_allclose(f(x), value, rtol=1e-12, atol=1e-12)


SCALARS = [
    ("squared-norm", fn.SquaredNorm(0.7, 1.2)),
    ("logistic", fn.Logistic(-1.0, 0.7)),
    ("huber", fn.Huber(0.4, 2.0, -0.3)),
    ("l1", fn.L1(0.6)),
    ("l2", fn.L2(0.6)),
    ("elastic-net", fn.ElasticNet(0.6, 0.2)),
    ("hinge", fn.Hinge(-1.0, 0.8)),
    ("quantile", fn.Quantile(0.4, 0.2, 1.1)),
    ("linear", fn.Linear(-0.8)),
]


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in SCALARS])
@pytest.mark.parametrize("x", [-2.3, 0.17, 1.9])
def test_scalar_prox_against_brent(f, x):
    t = 0.9
    best = minimize_scalar(
        lambda u: float(f([u]) + (u - x) ** 2 / (2.0 * t)),
        bounds=(-9.0, 9.0),
        method="bounded",
        options={"xatol": 1e-11},
    )
    # Minimising values resolves the minimiser to the square root of the rounding unit only.
    np.testing.assert_allclose(f.prox([x], t)[0], best.x, atol=3e-8)


def simplex_by_bisection(x: np.ndarray, total: float) -> np.ndarray:
    low, high = x.min() - total, x.max()
    for _ in range(200):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if np.maximum(x - theta, 0.0).sum() > total else (low, theta)
    return np.maximum(x - high, 0.0)


@pytest.mark.parametrize("total", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("d", [1, 2, 17, 300])
def test_simplex_against_bisection(d, total):
    x = np.random.default_rng(d).normal(size=(4, d)) * [[0.01], [1.0], [10.0], [0.0]]
    expected = [simplex_by_bisection(row, total) for row in x]
    np.testing.assert_allclose(fn.Simplex(total).prox(x, 1.0), expected, rtol=1e-9, atol=1e-12)


def test_simplex_is_exact_far_from_the_origin():
    u = fn.Simplex().prox(np.array([1e9, 1e9 + 0.5, 1e9 - 3.0]), 1.0)
    np.testing.assert_allclose(u, [0.25, 0.75, 0.0], rtol=1e-15)


def test_logistic_gradient_against_scipy_expit():
    z = np.random.default_rng(0).normal(size=(5, D)) * 4.0
    np.testing.assert_allclose(fn.Logistic(Y, W).grad(z), -W * Y * expit(-Y * z), rtol=1e-14)


def test_logistic_gradient_vanishes_at_the_fit_of_scikit_learn():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), np.sign(rng.normal(size=60))
    model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    w = model.coef_[0]
    stationarity = X.T @ fn.Logistic(y, 2.0).grad(X @ w) + fn.SquaredNorm().grad(w)
    np.testing.assert_allclose(stationarity, 0.0, atol=1e-6)


def test_quantile_value_against_scikit_learn():
    z = np.random.default_rng(0).normal(size=D)
    expected = mean_pinball_loss(C, z, alpha=0.8, sample_weight=W) * W.sum()
    np.testing.assert_allclose(fn.Quantile(C, 0.8, W)(z), expected, rtol=1e-13)
