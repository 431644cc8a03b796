"""Every function of the room, with scalar and array parameters: whatever is listed here is put under all identities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from npga import functions as fn

D = 4
RNG = np.random.default_rng(20240607)
C = RNG.normal(size=D)
W = RNG.uniform(0.3, 2.0, size=D)
Y = np.array([1.0, -1.0, -1.0, 1.0])
TALL = RNG.normal(size=(6, D))
WIDE = RNG.normal(size=(2, D))
THIN = sp.random_array((7, D), density=0.6, rng=np.random.default_rng(3), format="coo")
PSD = TALL.T @ TALL / 6.0
SINGULAR = WIDE.T @ WIDE
PARITY = [np.array([2, 0]), np.array([1, 3])]


class Case(NamedTuple):
    id: str
    f: fn.Function
    dim: int = D


def square(x: np.ndarray) -> float:
    return float(x @ x)


def square_grad(x: np.ndarray) -> np.ndarray:
    return 2.0 * x


def square_prox(x: np.ndarray, t: float) -> np.ndarray:
    return x / (1.0 + 2.0 * t)


def shrink_all(x: np.ndarray, t: float | np.ndarray) -> np.ndarray:
    return np.sign(x) * np.maximum(np.abs(x) - t, 0.0)


ELEMENTWISE = [
    Case("zero", fn.Zero()),
    Case("linear-scalar", fn.Linear(0.7)),
    Case("linear", fn.Linear(C)),
    Case("linear-zero", fn.Linear(0.0)),
    Case("squared-norm", fn.SquaredNorm(0.8)),
    Case("squared-norm-arrays", fn.SquaredNorm(W, C)),
    Case("squared-loss-scalar", fn.SquaredLoss(1.5)),
    Case("squared-loss", fn.SquaredLoss(C, W)),
    Case("logistic", fn.Logistic(Y, 0.6)),
    Case("logistic-scalar", fn.Logistic(1.0)),
    Case("logistic-weights", fn.Logistic(Y, W)),
    Case("huber", fn.Huber(0.7)),
    Case("huber-arrays", fn.Huber(W, W[::-1], C)),
    Case("l1", fn.L1(0.5)),
    Case("l1-array", fn.L1(W)),
    Case("elastic-net", fn.ElasticNet(0.4, 0.9)),
    Case("elastic-net-arrays", fn.ElasticNet(W, W[::-1])),
    Case("elastic-net-lasso", fn.ElasticNet(0.4, 0.0)),
    Case("elastic-net-ridge", fn.ElasticNet(0.0, W)),
    Case("elastic-net-zero", fn.ElasticNet(0.0, 0.0)),
    Case("box", fn.Box(-0.5, 1.0)),
    Case("box-mixed", fn.Box([-np.inf, -1.0, 0.0, -2.0], [0.5, np.inf, 0.0, 3.0])),
    Case("box-point", fn.Box(C, C)),
    Case("box-everything", fn.Box(-np.inf, np.inf)),
    Case("non-negative", fn.NonNegative()),
    Case("equality-scalar", fn.Equality(0.3)),
    Case("equality", fn.Equality(C)),
    Case("less-equal-scalar", fn.LessEqual(-0.2)),
    Case("less-equal", fn.LessEqual(C)),
    Case("greater-equal-scalar", fn.GreaterEqual(-0.2)),
    Case("greater-equal", fn.GreaterEqual(C)),
    Case("neg-log", fn.NegLog(0.7)),
    Case("neg-log-array", fn.NegLog(W)),
    Case("entropy", fn.Entropy(0.7)),
    Case("entropy-array", fn.Entropy(W)),
    Case("hinge", fn.Hinge(Y, 0.7)),
    Case("hinge-weights", fn.Hinge(Y, W)),
    Case("hinge-scalar", fn.Hinge(-1.0)),
    Case("quantile", fn.Quantile(C, 0.8, 1.3)),
    Case("quantile-arrays", fn.Quantile(C, W / 3.0, W)),
]

JOINT = [
    Case("quadratic", fn.Quadratic(PSD, C)),
    Case("quadratic-no-q", fn.Quadratic(PSD)),
    Case("quadratic-singular", fn.Quadratic(SINGULAR, 0.3)),
    Case("quadratic-sparse", fn.Quadratic(sp.csr_matrix(PSD), C)),
    Case("least-squares-tall", fn.LeastSquares(TALL, np.arange(6.0), 0.5)),
    Case("least-squares-wide", fn.LeastSquares(WIDE, [1.0, -1.0])),
    Case("least-squares-sparse", fn.LeastSquares(THIN, np.arange(7.0), 0.5)),
    Case("least-squares-sparse-wide", fn.LeastSquares(sp.csc_array(WIDE), 0.5)),
    Case("l2", fn.L2(0.9)),
    Case("group-l2", fn.GroupL2(0.6, PARITY)),
    Case("group-l2-labels", fn.GroupL2([0.6, 1.2, 0.2], [5, 0, 5, 2])),
    Case("simplex", fn.Simplex()),
    Case("simplex-large", fn.Simplex(7.5)),
    Case("ball", fn.Ball(C, 0.8)),
    Case("ball-scalar", fn.Ball(0.0, 2.0)),
    Case("ball-point", fn.Ball(C, 0.0)),
]

CALCULUS = [
    Case("scaled-l2", 2.5 * fn.L2(0.4)),
    Case("scaled-logistic", fn.Scaled(fn.Logistic(Y), 3.0)),
    Case("scaled-simplex", fn.Scaled(fn.Simplex(), 3.0)),
    Case("scaled-quadratic", fn.Scaled(fn.Quadratic(PSD, C), 0.2)),
    Case("shifted-l1", fn.L1(W).shift(C)),
    Case("shifted-simplex", fn.Shifted(fn.Simplex(2.0), 0.5)),
    Case("shifted-least-squares", fn.Shifted(fn.LeastSquares(TALL), C)),
    Case("shifted-scaled", fn.Scaled(fn.Shifted(fn.L2(), C), 0.3)),
    Case("l1-in-box", fn.L1(0.5) + fn.Box(-1.0, W)),
    Case("linear-in-box", fn.Linear(C) + fn.Box(0.0, 1.0)),
    Case("square-and-linear", fn.SquaredNorm(0.8, C) + fn.Linear(W)),
    Case("squares", fn.SquaredNorm(W, C) + fn.SquaredLoss(0.3)),
    Case("logistic-and-square", fn.Logistic(Y) + fn.SquaredNorm(W)),
    Case("huber-in-orthant", fn.Huber(0.7) + fn.NonNegative() + fn.Linear(0.3)),
    Case("neg-log-bounded", fn.NegLog(W) + fn.Box(0.1, 2.0) + fn.Linear(C) + fn.SquaredNorm(0.3)),
    Case("l2-and-square", fn.L2(0.9) + fn.SquaredNorm(0.5, C)),
    Case("simplex-and-linear", fn.Simplex() + fn.Linear(C)),
    Case("entropy-on-an-orthant", fn.Entropy(0.4) + fn.LessEqual(0.5)),
    Case("quadratic-and-square", fn.Quadratic(PSD, C) + fn.SquaredNorm(0.5)),
    Case("scaled-sum", fn.Scaled(fn.L1(0.5) + fn.Box(-1.0, W), 2.0)),
    Case("shifted-sum", fn.Shifted(fn.Huber(0.5) + fn.Box(-1.0, W), C)),
    Case("smooth-sum", fn.Logistic(Y) + fn.LeastSquares(TALL)),
    Case("sum-separable", fn.SeparableSum([fn.L1(0.3), fn.Logistic([1.0, -1.0])], [2, 2])),
    Case("sum-smooth", fn.SeparableSum([fn.SquaredNorm(2.0), fn.Quadratic(PSD, C), fn.Huber(1.0)], [2, D, 1]), D + 3),
    Case("sum-mixed", fn.SeparableSum([fn.L2(), fn.Zero(), fn.Simplex()], [2, 1, 3]), 6),
    Case("sum-indicator", fn.SeparableSum([fn.Zero(), fn.Ball(0.0, 1.0)], [2, 2])),
    Case("sum-point", fn.SeparableSum([fn.Equality(1.0), fn.Ball(0.0, 0.0)], [1, 3])),
    Case("join", fn.join([fn.L1(0.1), fn.L1(0.7), fn.L2()], [1, 2, 3]), 6),
    Case("custom", fn.Custom(square, square_grad, square_prox, mu=2.0, L=2.0, is_quadratic=True)),
    Case(
        "custom-vectorized",
        fn.Custom(lambda x: np.abs(x).sum(axis=-1), prox=shrink_all, is_separable=True, vectorized=True),
    ),
    Case("custom-conjugate", fn.Custom(lambda x: np.abs(x).sum(), conj_prox=lambda x, t: np.clip(x, -1.0, 1.0))),
    Case("custom-smooth-only", fn.Custom(square, square_grad, mu=2.0, L=2.0)),
]

CASES = ELEMENTWISE + JOINT + CALCULUS


def every(cases: list[Case] = CASES) -> pytest.MarkDecorator:
    """Parametrise a test by `f` and `dim` over the given cases."""
    return pytest.mark.parametrize(("f", "dim"), [pytest.param(c.f, c.dim, id=c.id) for c in cases])


WITH_PROX = [case for case in CASES if case.f.has_prox]
BUILT_IN = [case for case in WITH_PROX if not case.id.startswith("custom")]
