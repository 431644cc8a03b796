"""Sums with `+`: closed forms, rules of the prox, refusals; logarithms at the ends of their range."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from helpers.registry import PSD, C, D, W, Y
from npga import functions as fn
from npga.errors import FunctionError

X = np.random.default_rng(1).normal(size=(7, D)) * 3.0


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (fn.L1(0.5) + fn.SquaredNorm(W), fn.ElasticNet(0.5, W)),
        (fn.SquaredNorm(2.0) + fn.ElasticNet(W, 0.3) + fn.L1(1.0), fn.ElasticNet(W + 1.0, 2.3)),
        (fn.L1(0.5) + fn.L1(W), fn.L1(W + 0.5)),
        (fn.Linear(C) + fn.Linear(1.0), fn.Linear(C + 1.0)),
        (fn.NonNegative() + fn.LessEqual(W), fn.Box(0.0, W)),
        (fn.Box(-1.0, 2.0) + fn.GreaterEqual(0.5), fn.Box(0.5, 2.0)),
        (fn.Zero() + fn.L2(), fn.L2()),
        (sum([fn.L1(1.0), fn.L1(2.0), fn.Zero()]), fn.L1(3.0)),
        (fn.Zero() + fn.Zero(), fn.Zero()),
    ],
    ids=lambda f: repr(f)[:30],
)
def test_closed_forms(made, expected):
    assert type(made) is type(expected)
    np.testing.assert_allclose(made(X), expected(X), rtol=1e-14)
    np.testing.assert_allclose(made.prox(X, 0.7), expected.prox(X, 0.7), rtol=1e-14, atol=1e-14)


def test_sums_are_flat_whatever_the_brackets():
    f = (fn.Huber(1.0) + fn.Linear(C)) + (fn.Box(-1.0, 1.0) + fn.Linear(1.0))
    assert [type(part).__name__ for part in f.parts] == ["Huber", "Linear", "Box"]
    same = fn.Huber(1.0) + (fn.Linear(C + 1.0) + fn.Box(-1.0, 1.0))
    np.testing.assert_array_equal(f.prox(X, 0.3), same.prox(X, 0.3))


def test_a_square_is_completed():
    # (w/2)|x - c|^2 + q.x and its minimiser c - q/w.
    f = fn.SquaredNorm(W, C) + fn.Linear(Y)
    np.testing.assert_allclose(f.prox(X, 1e12), np.broadcast_to(C - Y / W, X.shape), rtol=1e-9)
    np.testing.assert_allclose(f.grad(X), W * (X - C) + Y)
    assert (f.mu, f.L) == (W.min(), W.max())
    assert f.is_quadratic


def test_facts_of_sums():
    f = fn.Logistic(Y) + fn.SquaredNorm(0.5)
    assert (f.mu, f.L) == (0.5, 0.75)
    assert f.has_grad
    assert f.has_prox
    assert f.is_separable
    boxed = fn.Box(0.0, 1.0) + fn.SquaredNorm(0.5)
    assert (boxed.mu, boxed.L) == (0.5, np.inf)
    assert not boxed.has_grad
    smooth = fn.Quadratic(PSD) + fn.SquaredNorm(W)
    assert smooth.has_grad
    assert not smooth.has_prox
    with pytest.raises(FunctionError, match="has no prox"):
        smooth.prox(X, 1.0)


def test_multiples_and_translates_of_sums_are_sums():
    f = fn.Huber(1.0) + fn.Box(-1.0, 1.0)
    assert isinstance(2.0 * f, fn.Sum)
    np.testing.assert_allclose((2.0 * f).prox(X, 0.4), f.prox(X, 0.8))
    np.testing.assert_allclose(f.shift(C).prox(X, 0.4), C + f.prox(X - C, 0.4))
    with pytest.raises(TypeError):
        f + 1.0
    with pytest.raises(TypeError):
        1.0 + f


def exact(x: float, s: float, kind: str) -> float:
    """The prox with 60 digits: v (v - x) = s, or v + s (1 + ln v) = x by bisection in ln v."""
    with localcontext() as context:
        context.prec = 60
        big, step = Decimal(x), Decimal(s)
        if kind == "NegLog":
            return float((big + (big * big + 4 * step).sqrt()) / 2)
        low, high = Decimal(-100_000), Decimal(100_000)
        for _ in range(260):
            v = (low + high) / 2
            low, high = (v, high) if min(v, Decimal(2000)).exp() + step * (1 + v) < big else (low, v)
        return float(((low + high) / 2).exp())


@pytest.mark.parametrize("kind", ["NegLog", "Entropy"])
@pytest.mark.parametrize("t", [1e-8, 1e-3, 1.0, 30.0, 1e8])
@pytest.mark.parametrize("x", [-1e4, -37.2, -1.0, 0.0, 0.4, 19.0, 1e4])
def test_logarithms_have_machine_precision(kind, x, t):
    f = getattr(fn, kind)()
    # The logarithm of u/s is x/s - 1 - ln s - u/s, and its rounding error a relative error of u.
    rtol = 1e-15 if kind == "NegLog" else 4e-16 * (4.0 + min(abs(x / t), 750.0) + abs(np.log(t)))
    np.testing.assert_allclose(f.prox([x], t)[0], exact(x, t, kind), rtol=rtol, atol=1e-300)
    assert np.isfinite(f.prox_jac([x], t)[0])
    assert np.isfinite(f.conj_prox([x], t)[0])


def test_logarithms_outside_their_domain_are_infinite_and_silent():
    assert fn.NegLog()([1.0, 0.0]) == np.inf
    assert fn.NegLog()([1.0, -1.0]) == np.inf
    assert fn.Entropy()([1.0, 0.0]) == 0.0
    assert fn.Entropy()([1.0, -1e-3]) == np.inf
    assert fn.NegLog(2.0)([np.e, 1.0]) == pytest.approx(-2.0)
    assert fn.Entropy(2.0)([np.e, 1.0]) == pytest.approx(2.0 * np.e)
    for f in (fn.NegLog(), fn.Entropy()):
        assert not f.has_grad
        assert np.isnan(f.prox([np.nan], 1.0)).all()


def test_a_barrier_is_no_f():
    import npga

    with pytest.raises(FunctionError, match="has no gradient"):
        fn.NegLog().grad([1.0])
    with pytest.raises(npga.errors.ProblemError, match="has no gradient; the role f needs a gradient"):
        npga.Problem([npga.Agent(np.eye(1), fn.NegLog())], fn.Equality(0.0))
