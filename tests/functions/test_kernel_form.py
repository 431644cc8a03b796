"""The forms that classes state for kernels mean what their formulas say, whatever was scaled, shifted and joined."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.registry import BUILT_IN, ELEMENTWISE, C, D, every
from npga import functions as fn
from npga.errors import FunctionError
from npga.functions import KernelForm, Kind


def evaluate(forms: tuple[KernelForm, ...], x: np.ndarray) -> float:
    total, start = 0.0, 0
    for form in forms:
        total += form.value(x[start : start + form.size])
        start += form.size
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


@pytest.mark.parametrize(
    ("form", "needs"),
    [
        (KernelForm(Kind.KINKED, 2, a=2.0, b=-1.0), "a <= b"),  # max(2 x, -x), but a prox with its bounds exchanged
        (KernelForm(Kind.LOGISTIC, 2, a=0.5, b=1.0), "a = -1 or"),
        (KernelForm(Kind.SQUARE, 2, a=-1.0), "a >= 0"),
        (KernelForm(Kind.NEG_LOG, 2, a=0.0), "a > 0"),
        (KernelForm(Kind.GROUPS, 3, a=1.0, groups=(np.array([0, 1]),)), "every coordinate in one group"),
        (KernelForm(Kind.GROUPS, 2, a=np.array([1.0, 2.0]), groups=(np.arange(2),)), "one a >= 0 for each group"),
        (KernelForm(Kind.QUADRATIC, 2, a=1.0, matrix=np.array([[1.0, 1.0], [0.0, 1.0]])), "symmetric"),
        (KernelForm(Kind.BENT, 2, inner=KernelForm(Kind.NORM, 2, a=1.0), lo=0.0), "sums over coordinates only"),
    ],
)
def test_numbers_for_which_a_kernel_would_have_another_prox_have_no_value(form, needs):
    with pytest.raises(FunctionError, match=needs):
        form.value(np.ones(form.size))
