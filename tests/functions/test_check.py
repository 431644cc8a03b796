"""`check` must fail on wrong functions, each for the right reason."""

from __future__ import annotations

import numpy as np
import pytest

from npga import functions as fn
from npga.errors import FunctionError

DIAGONAL = np.array([1.0, 2.0, 8.0])


def value(x):
    return float(x @ (DIAGONAL * x)) / 2.0


def grad(x):
    return DIAGONAL * x


def prox(x, t):
    return x / (1.0 + t * DIAGONAL)


RIGHT = {
    "value": value,
    "grad": grad,
    "prox": prox,
    "mu": 1.0,
    "L": 8.0,
    "is_quadratic": True,
    "is_separable": True,
    "dim": 3,
}


def failed(f: fn.Function, **options: int) -> set[str]:
    return {finding.name for finding in fn.check(f, **options).findings if not finding.ok}


def test_the_right_function_passes():
    report = fn.check(fn.Custom(**RIGHT))
    assert report.ok
    assert report.failures == []
    report.raise_if_failed()


def coupled_prox(x, t):
    return prox(x, t) + 0.01 * np.roll(x, 1)


WRONG = [
    ("gradient-sign", {"grad": lambda x: -DIAGONAL * x}, "gradient"),
    ("gradient-factor", {"grad": lambda x: 1.00001 * DIAGONAL * x}, "gradient"),
    ("gradient-one-coordinate", {"grad": lambda x: DIAGONAL * x + np.array([0.0, 0.0, 1e-3])}, "gradient"),
    ("gradient-nan", {"grad": lambda x: np.nan * x}, "gradient"),
    ("gradient-shape", {"grad": lambda x: x[:2]}, "gradient"),
    ("gradient-raises", {"grad": lambda x: x / undefined}, "gradient"),  # noqa: F821
    ("prox-factor", {"prox": lambda x, t: 1.001 * prox(x, t)}, "prox inequality"),
    ("prox-ignores-t", {"prox": lambda x, t: prox(x, 1.0)}, "prox inequality"),
    ("prox-of-conjugate", {"prox": lambda x, t: x - prox(x, t)}, "prox inequality"),
    ("prox-against-gradient", {"prox": lambda x, t: prox(x, 1.000001 * t)}, "prox equation"),
    ("prox-expands", {"prox": lambda x, t: 1.5 * x}, "firmness"),
    ("prox-couples", {"prox": coupled_prox}, "is_separable"),
    ("conjugate", {"conj_prox": lambda x, t: x}, "Moreau"),
    ("mu-too-large", {"mu": 1.05}, "mu"),
    ("mu-without-gradient", {"mu": 1.5, "grad": None}, "mu"),
    ("L-too-small", {"L": 7.9}, "L"),
    ("L-without-gradient", {"L": 6.0, "grad": None}, "L"),
    ("indicator", {"is_indicator": True}, "is_indicator"),
    ("zero", {"is_zero": True, "mu": 0.0}, "is_zero"),
    ("point", {"is_point": True}, "is_point"),
    ("hessian", {"hess": lambda x: 1.001 * DIAGONAL}, "Hessian"),
    ("prox-jacobian", {"prox_jac": lambda x, t: np.eye(3)}, "prox Jacobian"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "finding"), [pytest.param(*case[1:], id=case[0]) for case in WRONG])
def test_a_wrong_piece_is_found(changes, finding):
    report = fn.check(fn.Custom(**(RIGHT | changes)))
    assert not report.ok
    assert finding in {f.name for f in report.findings if not f.ok}, str(report)
    with pytest.raises(FunctionError, match="not what it claims to be"):
        report.raise_if_failed()


def test_wrong_facts_alone_are_found_alone():
    assert failed(fn.Custom(**(RIGHT | {"mu": 1.05}))) == {"mu"}
    assert failed(fn.Custom(**(RIGHT | {"L": 7.9}))) == {"L"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda x: -x @ x, id="concave"),
        pytest.param(lambda x: np.sin(x).sum(), id="sine"),
        pytest.param(lambda x: np.sqrt(np.abs(x)).sum(), id="root"),
        pytest.param(lambda x: 0.0 if np.all(np.abs(x) <= 1) or np.all(x > 2) else np.inf, id="domain"),
    ],
)
def test_functions_that_are_not_convex_are_found(value):
    assert "convexity" in failed(fn.Custom(value), dim=1, samples=60)


def test_a_quartic_is_not_quadratic():
    f = fn.Custom(lambda x: np.sum(x**4), lambda x: 4.0 * x**3, is_quadratic=True)
    assert "is_quadratic" in failed(f, dim=2)


def test_a_norm_is_not_separable():
    assert "is_separable" in failed(fn.Custom(np.linalg.norm, is_separable=True), dim=3)


def test_a_callable_that_is_not_vectorized_is_found():
    f = fn.Custom(lambda x: np.abs(x).sum(), vectorized=True)
    assert "stacking" in failed(f, dim=2)


def test_a_projection_off_its_set_is_found():
    f = fn.Custom(lambda x: 0.0 if np.all(x >= 0) else np.inf, prox=lambda x, t: np.maximum(x, -0.1), is_indicator=True)
    assert "prox inequality" in failed(f, dim=2)


def test_a_projection_into_the_interior_is_found():
    f = fn.Custom(lambda x: 0.0 if np.all(x >= 0) else np.inf, prox=lambda x, t: np.maximum(x, 0.1), is_indicator=True)
    assert "prox inequality" in failed(f, dim=2)


def test_a_function_without_a_domain_is_found():
    assert "domain" in failed(fn.Custom(lambda x: np.inf), dim=2)


def test_a_value_that_raises_is_reported():
    report = fn.check(fn.Custom(lambda x: x.no_such_thing), dim=2)
    assert not report.ok
    assert "AttributeError" in report.failures[0]


def test_functions_that_write_into_their_argument_are_found():
    class Rude(fn.Zero):
        def _value(self, x):
            x += 1.0
            return np.zeros(x.shape[:-1])[()]

    assert "arguments" in failed(Rude(), dim=2)


class Tent(fn.Elementwise):
    """max(-x, 2 x)."""

    def __init__(self):
        self._store()

    def _terms(self, x):
        return np.maximum(-x, 2.0 * x)

    def _prox(self, x, t):
        return x - np.clip(x, -t, 2.0 * t)


def told_as(*forms):
    """A tent that names these forms to kernels."""
    return type("Told", (Tent,), {"kernel": lambda self, size: forms})()


def test_a_kernel_is_compared_with_the_class():
    report = fn.check(told_as(fn.KernelForm(fn.Kind.KINKED, 3, a=-1.0, b=2.0)), dim=3)
    assert report.ok, str(report)
    assert next(finding for finding in report.findings if finding.name == "kernel").error == 0.0


@pytest.mark.parametrize(
    ("forms", "word"),
    [
        pytest.param([(fn.Kind.KINKED, 3, -1.0, 2.001)], "another function than value", id="slope"),
        pytest.param([(fn.Kind.ELASTIC, 3, 1.0, 0.0)], "another function than value", id="kind"),
        pytest.param([(fn.Kind.KINKED, 2, -1.0, 2.0), (fn.Kind.ZERO, 1)], "another function than value", id="part"),
        pytest.param([(fn.Kind.KINKED, 3, 2.0, -1.0)], "expected a <= b", id="order"),
        pytest.param([(fn.Kind.KINKED, 2, -1.0, 2.0)], r"of \[2\] coordinates; expected 3", id="size"),
    ],
)
def test_a_kernel_that_is_another_function_is_found(forms, word):
    report = fn.check(told_as(*(fn.KernelForm(*form) for form in forms)), dim=3)
    assert [finding.name for finding in report.findings if not finding.ok] == ["kernel"], str(report)
    with pytest.raises(FunctionError, match=word):
        report.raise_if_failed()


def test_the_report_is_a_readable_table():
    text = str(fn.check(fn.Custom(**(RIGHT | {"L": 7.0}))))
    assert "1 check failed" in text
    assert "L is smaller than the curvature found" in text
    assert "gradient" in text
    assert "all checks passed" in str(fn.check(fn.L1(), dim=2))


def test_check_is_reproducible():
    assert fn.check(fn.L2(), dim=3, seed=4) == fn.check(fn.L2(), dim=3, seed=4)


@pytest.mark.parametrize("options", [{"dim": 7}, {"samples": 1}, {"dim": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(FunctionError, match="check of"):
        fn.check(fn.Equality([1.0, 2.0]), **options)
