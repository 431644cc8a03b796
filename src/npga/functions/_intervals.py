"""Indicators of products of intervals, lo <= x <= hi coordinate by coordinate.

The prox is the projection clip(x, lo, hi) for every t, and prox_{t f*}(x) = x - clip(x, t lo, t hi): for
the point b this is x - t b, and for x <= b it is max(x - t b, 0).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Indicator, Step
from npga.functions._elementwise import Elementwise
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, parameter, require


class _Interval(Indicator, Elementwise):
    """Indicator of lo <= x <= hi, given the two bounds."""

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        raise NotImplementedError

    @property
    def is_point(self) -> bool:
        """Whether every interval is a single number."""
        lo, hi = self._bounds
        return bool(np.all(np.equal(lo, hi)))

    def _member(self, x: Array, slack: float) -> Array | np.bool:
        lo, hi = self._bounds
        member = (x >= lo - slack * (1.0 + np.abs(lo))) & (x <= hi + slack * (1.0 + np.abs(hi)))
        return np.asarray(member.all(axis=-1))

    def _prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.clip(x, *self._bounds)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        lo, hi = self._bounds
        return np.asarray(x - np.clip(x, t * lo, t * hi))

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        lo, hi = self._bounds
        return ((lo < x) & (x < hi)).astype(x.dtype)

    def _kernel(self, size: int) -> KernelForm:
        lo, hi = self._bounds
        return KernelForm(Kind.INTERVAL, size, a=lo, b=hi)


class Box(_Interval):
    """Indicator of the box lo <= x <= hi.

    Parameters
    ----------
    lo, hi
        Bounds: numbers or vectors; lo may be -inf and hi may be +inf.
    """

    kind = "box"
    names = ("lo", "hi")
    _shifted = ("lo", "hi")

    lo: Parameter
    hi: Parameter

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike) -> None:
        self._store(lo=parameter("Box", "lo", lo, finite=False), hi=parameter("Box", "hi", hi, finite=False))
        low, high = np.asarray(self.lo), np.asarray(self.hi)
        require("Box", "lo", low, low < np.inf, "a number below +inf, so that the box is not empty")
        require("Box", "hi", high, high > -np.inf, "a number above -inf, so that the box is not empty")
        low, high = np.broadcast_arrays(low, high)
        require("Box", "lo", low, low <= high, "lo <= hi in every coordinate; swap or widen the bounds")

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return self.lo, self.hi


class NonNegative(_Interval):
    """Indicator of the orthant x >= 0."""

    kind = "non_negative"

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return 0.0, np.inf


class Equality(_Interval):
    """Indicator of the point b: the coupling constraint z = b.

    Parameters
    ----------
    b
        The point: a vector, or one number for all coordinates.
    """

    kind = "equality"
    names = ("b",)
    _shifted = ("b",)

    b: Parameter

    def __init__(self, b: npt.ArrayLike) -> None:
        self._store(b=parameter("Equality", "b", b))

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return self.b, self.b


class LessEqual(_Interval):
    """Indicator of the orthant z <= b: the coupling constraint of a shared budget.

    Parameters
    ----------
    b
        Upper bound: a vector, or one number for all coordinates.
    """

    kind = "less_equal"
    names = ("b",)
    _shifted = ("b",)

    b: Parameter

    def __init__(self, b: npt.ArrayLike) -> None:
        self._store(b=parameter("LessEqual", "b", b))

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return -np.inf, self.b


class GreaterEqual(_Interval):
    """Indicator of the orthant z >= b: the coupling constraint of a demand that must be met.

    Parameters
    ----------
    b
        Lower bound: a vector, or one number for all coordinates.
    """

    kind = "greater_equal"
    names = ("b",)
    _shifted = ("b",)

    b: Parameter

    def __init__(self, b: npt.ArrayLike) -> None:
        self._store(b=parameter("GreaterEqual", "b", b))

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return self.b, np.inf
