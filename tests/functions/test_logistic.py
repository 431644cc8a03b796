"""The logistic prox, which has no closed form, and the root finder behind it, at the ends of their range."""

from __future__ import annotations

from decimal import Decimal, localcontext

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from npga import functions as fn
from npga.functions._logarithms import NEWTON_STEPS, increasing_root


def exact_prox(x: float, s: float) -> float:
    """Root of v - x = s/(1 + exp(v)) by bisection with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        low, high = Decimal(x), Decimal(x) + Decimal(s)
        for _ in range(220):
            v = (low + high) / 2
            # exp(v) beyond 1e500 does not change the sum in 60 digits of the answer.
            slope = Decimal(s) / (1 + min(v, Decimal(1200)).exp())
            low, high = (v, high) if v - Decimal(x) < slope else (low, v)
        return float((low + high) / 2)


@pytest.mark.parametrize("t", [1e-8, 1e-3, 1.0, 30.0, 1e8])
@pytest.mark.parametrize("x", [-1e4, -37.2, -1.0, 0.0, 0.4, 19.0, 1e4])
def test_prox_has_machine_precision(x, t):
    f = fn.Logistic(1.0)
    expected = exact_prox(x, t)
    # The sum x + (step) is rounded relative to its larger term.
    np.testing.assert_allclose(f.prox([x], t)[0], expected, rtol=4e-16, atol=8e-16 * max(abs(x), abs(expected)))
    np.testing.assert_allclose(fn.Logistic(-1.0).prox([-x], t)[0], -f.prox([x], t)[0], rtol=1e-15)


@settings(max_examples=200, deadline=None)
@given(x=st.floats(-1e4, 1e4), log_t=st.floats(-8.0, 8.0), weight=st.floats(1e-3, 1e3))
def test_prox_solves_its_equation(x, log_t, weight):
    f, t = fn.Logistic(1.0, weight), 10.0**log_t
    u = f.prox([x], t)
    slope = t * f.grad(u)
    assert abs(u + slope - x)[0] <= 1e-14 * (abs(x) + abs(u[0]) + abs(slope[0]) + 1.0)


@settings(max_examples=100, deadline=None)
@given(x=st.floats(-1e4, 1e4), log_t=st.floats(-8.0, 8.0))
def test_conjugate_prox_stays_in_the_domain_of_the_conjugate(x, log_t):
    q = fn.Logistic(1.0, 0.3).conj_prox([x], 10.0**log_t)
    assert -0.3 <= q[0] <= 0.0


def test_extreme_arguments_are_exact_and_silent():
    f = fn.Logistic([1.0, 1.0, -1.0, -1.0])
    z = np.array([-1e4, 1e4, -1e4, 1e4])
    assert f(z) == 2e4
    np.testing.assert_array_equal(f.grad(z), [-1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(f.hess(z), 0.0)
    np.testing.assert_array_equal(f.prox(z, 1.0), [-9999.0, 1e4, -1e4, 9999.0])


def test_prox_in_single_precision():
    x = np.linspace(-30.0, 30.0, 61, dtype=np.float32)
    u = fn.Logistic(1.0).prox(x, 5.0)
    assert u.dtype == np.float32
    np.testing.assert_allclose(u, fn.Logistic(1.0).prox(x.astype(float), 5.0), rtol=2e-6, atol=2e-6)


def test_nan_is_answered_with_nan():
    u = fn.Logistic(1.0).prox([np.nan, 0.0], 1.0)
    assert np.isnan(u[0])
    assert np.isfinite(u[1])


def test_bisection_takes_over_where_newton_cycles():
    # Newton on sign(v) |v|^(1/2) jumps from v to -v for ever.
    calls = []

    def residual(v):
        calls.append(v)
        root = np.sqrt(np.abs(v - 0.3))
        return np.sign(v - 0.3) * root, 0.5 / np.maximum(root, 1e-300), np.zeros_like(v)

    root = increasing_root(residual, np.array([-1.0]), np.array([2.0]), np.array([1.0]))
    np.testing.assert_allclose(root, 0.3, rtol=1e-15)
    assert NEWTON_STEPS < len(calls) < NEWTON_STEPS + 70


def test_newton_alone_is_enough_for_smooth_functions():
    calls = []

    def residual(v):
        calls.append(v)
        return v**3 + v - 10.0, 3.0 * v**2 + 1.0, 1e-14 * np.ones_like(v)

    root = increasing_root(residual, np.array([0.0]), np.array([10.0]), np.array([5.0]))
    np.testing.assert_allclose(root, 2.0, rtol=1e-15)
    assert len(calls) < 12
