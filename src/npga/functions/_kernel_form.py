"""How a function is told to a compiled kernel: the name of a formula, and its numbers.

A class states its own form in `Function.kernel`; multiples, translates and sums derive theirs. A kernel that does not
know a kind must say so and leave the function to the vectorised path.

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
