"""How a function is told to a compiled kernel: the name of a formula, and its numbers.

A class states its own form in `Function.kernel`; multiples, translates and sums derive theirs. A kernel that does not
know a kind must say so and leave the function to the vectorised path. `KernelForm.value` is what a form means, for
`npga.functions.check`; compiled runs have these formulas once more, fast, with gradients and prox.

Sums over coordinates, phi(x) with r = x - c and the letters a, b, c one number per coordinate or one for all:

    ZERO       0
    LINEAR     a r
    SQUARE     (a/2) r^2 + b
    ELASTIC    a |r| + (b/2) r^2
    HUBER      a r^2/2 for |r| <= b, a (b |r| - b^2/2) beyond
    KINKED     max(a r, b r),  a <= b
    INTERVAL   0 for a <= x <= b, else infinity
    LOGISTIC   b ln(1 + exp(-a r)),  a = -1 or +1
    NEG_LOG    -a ln r for r > 0, else infinity
    ENTROPY    a r ln r for r >= 0, else infinity

    The prox u = c + v of the last two, with s = t a and y = x - c: v (v - y) = s, v > 0, and v + s (1 + ln v) = y.

Functions of all coordinates together, r = x - c, `a` a number:

    NORM       a |r|
    GROUPS     sum_G a_G |r_G|,  `groups` the index arrays G, `a` the weight of its group at each coordinate
    BALL       0 for |r| <= a, else infinity
    SIMPLEX    0 for r >= 0, sum(r) = a, else infinity

Functions with a matrix K and a vector v (a number: the same in all rows), r = x - c:

    QUADRATIC        a (r.K r/2 + v.r)
    LEAST_SQUARES    (a/2) |K r - v|^2

A function of any kind plus a quadratic, cut off at bounds (`inner` is its form, `tilt` q, `ridge` d, `lo`, `hi`):

    BENT       inner(x) + sum_j (q_j x_j + (d_j/2) x_j^2 + b_j) for lo <= x <= hi, else infinity

    Its prox is clip(prox_{s inner}((x - t q)/(1 + t d)), lo, hi), s = t/(1 + t d); finite bounds, and numbers d that
    differ, go with sums over coordinates only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from npga.errors import FunctionError
from npga.functions._parameters import Array, Matrix, Parameter


class Kind(IntEnum):
    """Names of the formulas; see `npga.functions.KernelForm`. Radial ones begin at 16, those with a matrix at 32."""

    ZERO = 0
    LINEAR = 1
    SQUARE = 2
    ELASTIC = 3
    HUBER = 4
    KINKED = 5
    INTERVAL = 6
    LOGISTIC = 7
    NEG_LOG = 8
    ENTROPY = 9
    NORM = 16
    GROUPS = 17
    BALL = 18
    SIMPLEX = 19
    QUADRATIC = 32
    LEAST_SQUARES = 33
    BENT = 48

    @property
    def is_separable(self) -> bool:
        """Whether the formula is a sum over coordinates."""
        return self < Kind.NORM

    @property
    def has_matrix(self) -> bool:
        """Whether the formula holds a matrix and a vector."""
        return self in (Kind.QUADRATIC, Kind.LEAST_SQUARES)


# Which of a and b a factor w > 0 multiplies: both slopes of a kink, but not the threshold of a Huber loss. Indicators
# stay as they are.
_SCALED = {
    Kind.LINEAR: "a",
    Kind.SQUARE: "ab",
    Kind.ELASTIC: "ab",
    Kind.HUBER: "a",
    Kind.KINKED: "ab",
    Kind.LOGISTIC: "b",
    Kind.NEG_LOG: "a",
    Kind.ENTROPY: "a",
    Kind.NORM: "a",
    Kind.GROUPS: "a",
    Kind.QUADRATIC: "a",
    Kind.LEAST_SQUARES: "a",
}


@dataclass(frozen=True, eq=False)
class KernelForm:
    """One formula on a run of coordinates.

    Parameters
    ----------
    kind
        Which formula.
    size
        Number of coordinates.
    a, b, c
        Its numbers: one for all coordinates, or one for each.
    groups
        Index arrays of a GROUPS form.
    matrix, vector
        K and v of a form with a matrix.
    inner, tilt, ridge, lo, hi
        What a BENT form is made of.
    """

    kind: Kind
    size: int
    a: Parameter = 0.0
    b: Parameter = 0.0
    c: Parameter = 0.0
    groups: tuple[Array, ...] = ()
    matrix: Matrix = None
    vector: Parameter = 0.0
    inner: KernelForm | None = None
    tilt: Parameter = 0.0
    ridge: Parameter = 0.0
    lo: Parameter = -np.inf
    hi: Parameter = np.inf

    def __post_init__(self) -> None:
        if self.kind not in Kind.__members__.values():
            known = ", ".join(Kind.__members__)
            raise FunctionError(f"the kernel form {self.kind!r} is unknown; expected one of {known}")
        for name in ("a", "b", "c"):
            shape = np.shape(getattr(self, name))
            if shape not in ((), (self.size,)):
                raise FunctionError(
                    f"{name} of the kernel form {Kind(self.kind).name} has shape {shape}; "
                    f"expected a number or {self.size} of them"
                )

    def scaled(self, weight: float) -> KernelForm:
        """Form of the multiple, weight times the function."""
        if self.inner is not None:
            bend: dict[str, Any] = {"tilt": weight * self.tilt, "ridge": weight * self.ridge, "b": weight * self.b}
            return replace(self, inner=self.inner.scaled(weight), **bend)
        return replace(self, **{letter: weight * getattr(self, letter) for letter in _SCALED.get(self.kind, "")})

    def shifted(self, center: Parameter) -> KernelForm:
        """Form of the translate, x -> f(x - center)."""
        if self.inner is not None:
            # q (x - c) + (d/2)(x - c)^2 = (q - d c) x + (d/2) x^2 + (d/2) c^2 - q c
            constant = self.b + 0.5 * self.ridge * center * center - self.tilt * center
            bend: dict[str, Any] = {
                "tilt": self.tilt - self.ridge * center,
                "lo": self.lo + center,
                "hi": self.hi + center,
            }
            return replace(self, inner=self.inner.shifted(center), b=constant, **bend)
        letters = "ab" if self.kind == Kind.INTERVAL else "c"
        return replace(self, **{letter: center + getattr(self, letter) for letter in letters})

    def value(self, x: Array) -> float:
        """The formula at one point of `size` coordinates; raises if its numbers are not such as the formula needs."""
        needs, met = _NEEDS[self.kind]
        if not np.all(met(self)):
            raise FunctionError(
                f"the kernel form {Kind(self.kind).name} has numbers for which its formula does not hold; "
                f"expected {needs}"
            )
        argument = x if self.kind in (Kind.INTERVAL, Kind.BENT) else x - self.c
        return float(np.sum(_FORMULAS[self.kind](argument, self)))


_Needs = tuple[str, Callable[[KernelForm], Any]]
_NOTHING: _Needs = ("any numbers", lambda _: True)
_POSITIVE: _Needs = ("a > 0", lambda f: np.greater(f.a, 0.0))
_NOT_NEGATIVE: _Needs = ("a >= 0", lambda f: np.greater_equal(f.a, 0.0))
_BOTH: _Needs = ("a >= 0 and b >= 0", lambda f: np.minimum(f.a, f.b) >= 0.0)
_ORDERED: _Needs = ("a <= b", lambda f: np.less_equal(f.a, f.b))


def _is_grouped(form: KernelForm) -> bool:
    weights = np.broadcast_to(form.a, form.size)
    members = np.sort(np.concatenate(form.groups)) if form.groups else np.arange(0)
    even = all(G.size and weights[G[0]] >= 0.0 and np.all(weights[G] == weights[G[0]]) for G in form.groups)
    return even and np.array_equal(members, np.arange(form.size))


def _is_symmetric(form: KernelForm) -> bool:
    K = form.matrix
    return bool(K.shape == K.T.shape and abs(K - K.T).max() <= 1e-12 * abs(K).max() and np.all(_NOT_NEGATIVE[1](form)))


def _is_bent(form: KernelForm) -> bool:
    ordered = np.all(np.greater_equal(form.ridge, 0.0)) and np.all(np.less_equal(form.lo, form.hi))
    plain = np.ptp(form.ridge) == 0.0 and np.all(np.isneginf(form.lo)) and np.all(np.isposinf(form.hi))
    return form.inner is not None and bool(ordered and (plain or form.inner.kind.is_separable))


# What a formula needs of its numbers so that the gradient and the prox of a kernel belong to it; a >= 0 unless it is
# named here. Two slopes in the wrong order, for one, have the same maximum and another prox.
_NEEDS: dict[Kind, _Needs] = dict.fromkeys(Kind, _NOT_NEGATIVE) | {
    Kind.ZERO: _NOTHING,
    Kind.LINEAR: _NOTHING,
    Kind.ELASTIC: _BOTH,
    Kind.HUBER: _BOTH,
    Kind.KINKED: _ORDERED,
    Kind.INTERVAL: _ORDERED,
    Kind.LOGISTIC: ("a = -1 or +1, and b >= 0", lambda f: np.equal(np.abs(f.a), 1.0) & np.greater_equal(f.b, 0.0)),
    Kind.NEG_LOG: _POSITIVE,
    Kind.ENTROPY: _POSITIVE,
    Kind.GROUPS: ("every coordinate in one group, and one a >= 0 for each group", _is_grouped),
    Kind.QUADRATIC: ("a >= 0 and a symmetric matrix", _is_symmetric),
    Kind.BENT: ("ridge >= 0, lo <= hi, and bounds or unequal ridges on sums over coordinates only", _is_bent),
}

_SLACK = 1e-9  # as that of the indicators of this room: projections, which are rounded, belong to the set


def _within(x: Parameter, lo: Parameter, hi: Parameter) -> float:
    """0 if lo <= x <= hi up to rounding, else infinity."""
    x = np.asarray(x)
    inside = (x >= lo - _SLACK * (1.0 + np.abs(lo))) & (x <= hi + _SLACK * (1.0 + np.abs(hi)))
    return 0.0 if np.all(inside) else np.inf


def _huber(r: Array, f: KernelForm) -> Array:
    return np.asarray(f.a * np.where(np.abs(r) <= f.b, r * r / 2.0, f.b * (np.abs(r) - f.b / 2.0)))


def _log(r: Array) -> Array:
    """The logarithm where r > 0, else 0."""
    return np.asarray(np.log(np.where(r > 0.0, r, 1.0)))


def _grouped(r: Array, f: KernelForm) -> float:
    weights = np.broadcast_to(f.a, f.size)
    return float(sum(weights[G[0]] * np.linalg.norm(r[G]) for G in f.groups))


def _bent(x: Array, f: KernelForm) -> Any:
    inner = 0.0 if f.inner is None else f.inner.value(x)
    return inner + np.sum(f.tilt * x + f.ridge / 2.0 * x * x + f.b) + _within(x, f.lo, f.hi)


# The formulas of this module's docstring, each as written there.
_FORMULAS: dict[Kind, Callable[[Array, KernelForm], Any]] = {
    Kind.ZERO: lambda _, __: 0.0,
    Kind.LINEAR: lambda r, f: f.a * r,
    Kind.SQUARE: lambda r, f: f.a / 2.0 * r * r + f.b,
    Kind.ELASTIC: lambda r, f: f.a * np.abs(r) + f.b / 2.0 * r * r,
    Kind.HUBER: _huber,
    Kind.KINKED: lambda r, f: np.maximum(f.a * r, f.b * r),
    Kind.INTERVAL: lambda x, f: _within(x, f.a, f.b),
    Kind.LOGISTIC: lambda r, f: f.b * np.logaddexp(0.0, -f.a * r),
    Kind.NEG_LOG: lambda r, f: np.where(r > 0.0, -f.a * _log(r), np.inf),
    Kind.ENTROPY: lambda r, f: np.where(r >= 0.0, f.a * r * _log(r), np.inf),
    Kind.NORM: lambda r, f: f.a * np.linalg.norm(r),
    Kind.GROUPS: _grouped,
    Kind.BALL: lambda r, f: _within(float(np.linalg.norm(r)), -np.inf, f.a),
    Kind.SIMPLEX: lambda r, f: _within(r, 0.0, np.inf) + _within(np.sum(r), f.a, f.a),
    Kind.QUADRATIC: lambda r, f: f.a * (r @ (f.matrix @ r) / 2.0 + np.sum(f.vector * r)),
    Kind.LEAST_SQUARES: lambda r, f: f.a / 2.0 * np.sum((f.matrix @ r - f.vector) ** 2),
    Kind.BENT: _bent,
}
