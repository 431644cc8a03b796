"""The forms that classes state for kernels mean what their formulas say, whatever was scaled, shifted and joined."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.registry import BUILT_IN, ELEMENTWISE, C, D, every
from npga import functions as fn
from npga.errors import FunctionError
from npga.functions import KernelForm, Kind


def _huber(r, a, b):
    return a * np.where(np.abs(r) <= b, r**2 / 2, b * np.abs(r) - b**2 / 2)


def _interval(x, form):
    slack = 1e-9
    inside = (x >= form.a - slack * (1 + np.abs(form.a))) & (x <= form.b + slack * (1 + np.abs(form.b)))
    return np.where(inside, 0.0, np.inf)


# The formulas of the module's docstring, one line each.
FORMULAS = {
    Kind.ZERO: lambda r, f: 0.0 * r,
    Kind.LINEAR: lambda r, f: f.a * r,
    Kind.SQUARE: lambda r, f: f.a / 2 * r**2 + f.b,
    Kind.ELASTIC: lambda r, f: f.a * np.abs(r) + f.b / 2 * r**2,
    Kind.HUBER: lambda r, f: _huber(r, f.a, f.b),
    Kind.KINKED: lambda r, f: np.maximum(f.a * r, f.b * r),
    Kind.INTERVAL: _interval,
    Kind.LOGISTIC: lambda r, f: f.b * np.logaddexp(0.0, -f.a * r),
    Kind.NEG_LOG: lambda r, f: np.where(r > 0.0, -f.a * np.log(np.abs(r) + (r == 0.0)), np.inf),
    Kind.ENTROPY: lambda r, f: np.where(r >= 0.0, f.a * r * np.log(np.abs(r) + (r == 0.0)), np.inf),
    Kind.NORM: lambda r, f: f.a * np.linalg.norm(r),
    Kind.GROUPS: lambda r, f: sum(f.a[G[0]] * np.linalg.norm(r[G]) for G in f.groups),
    Kind.BALL: lambda r, f: 0.0 if np.linalg.norm(r) <= f.a + 1e-8 else np.inf,
    Kind.SIMPLEX: lambda r, f: 0.0 if (r >= -1e-9).all() and abs(r.sum() - f.a) <= 1e-8 else np.inf,
    Kind.QUADRATIC: lambda r, f: f.a * (r @ (f.matrix @ r) / 2 + np.sum(f.vector * r)),
    Kind.LEAST_SQUARES: lambda r, f: f.a / 2 * np.sum((f.matrix @ r - f.vector) ** 2),
    Kind.BENT: lambda x, f: evaluate((f.inner,), x) + np.sum(f.tilt * x + f.ridge / 2 * x**2 + f.b) + _outside(x, f),
}


def _outside(x, f):
    inside = (x >= f.lo - 1e-9 * (1 + np.abs(f.lo))) & (x <= f.hi + 1e-9 * (1 + np.abs(f.hi)))
    return 0.0 if np.all(inside) else np.inf


def evaluate(forms: tuple[KernelForm, ...], x: np.ndarray) -> float:
    total, start = 0.0, 0
    for form in forms:
        own = x[start : start + form.size]
        start += form.size
        argument = own if form.kind is Kind.INTERVAL else own - form.c
        total += np.sum(FORMULAS[form.kind](argument, form))
    assert start == len(x)
    return total


@every(BUILT_IN)
def test_every_class_states_its_form(f, dim):
    rng = np.random.default_rng(3)
    forms = f.kernel(dim)
    for scale in (0.3, 1.0, 10.0):
        for x in (scale * rng.normal(size=dim), f.prox(scale * rng.normal(size=dim), 0.7)):
            np.testing.assert_allclose(evaluate(forms, x), f(x), rtol=1e-12, atol=1e-12)


@every(BUILT_IN)
def test_multiples_and_translates_derive_theirs(f, dim):
    c = np.linspace(-1.0, 2.0, dim)
    x = c + f.prox(np.random.default_rng(4).normal(size=dim), 0.7)
    for made in (fn.Shifted(fn.Scaled(f, 2.5), c), fn.Scaled(fn.Shifted(f, c), 2.5)):
        np.testing.assert_allclose(evaluate(made.kernel(dim), x), 2.5 * f(x - c), rtol=1e-10, atol=1e-10)
    lifted = fn.Shifted(f, 0.25).kernel(dim)
    np.testing.assert_allclose(evaluate(lifted, x - c + 0.25), f(x - c), rtol=1e-10, atol=1e-10)


@every(ELEMENTWISE)
def test_elementwise_forms_are_separable(f, dim):
    (form,) = f.kernel(dim)
    assert form.kind.is_separable
    assert not form.kind.has_matrix


def test_every_kind_is_stated_by_a_class():
    stated = {form.kind for case in BUILT_IN for form in case.f.kernel(case.dim)}
    assert stated == set(Kind)


def test_a_sum_with_a_part_that_has_no_form_has_none():
    custom = fn.Custom(lambda x: x @ x)
    assert custom.kernel(3) is None
    assert fn.SeparableSum([fn.L1(), custom], [2, 3]).kernel(5) is None
    assert fn.Scaled(fn.Shifted(custom, 1.0), 2.0).kernel(3) is None


def test_unknown_kinds_and_wrong_lengths_are_refused():
    with pytest.raises(FunctionError, match=r"kernel form 99 is unknown; expected one of ZERO, LINEAR"):
        KernelForm(99, D)
    with pytest.raises(FunctionError, match=r"a of the kernel form SQUARE has shape \(4,\); expected a number or 3"):
        KernelForm(Kind.SQUARE, 3, a=C)
