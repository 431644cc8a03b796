"""Indicators of closed convex sets: intervals coordinate by coordinate, the Euclidean ball, the simplex.

The prox of an indicator is the projection, for every t. For intervals it is clip(x, lo, hi), and
prox_{t f*}(x) = x - clip(x, t lo, t hi): for the point b this is x - t b, and for x <= b it is max(x - t b, 0).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from npga.functions._base import Elementwise, Parametric, Value
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._norms import norm, quotient
from npga.functions._parameters import Array, Parameter, Step, nonnegative, parameter, positive, require, scalar


class Indicator(Parametric):
    """Base of the indicators of closed convex sets: 0 on the set, infinity off it.

    A point belongs to the set when each inequality ``left <= bound`` that defines it holds up to
    ``TOLERANCE * (1 + |bound|)``, so that projections, which are rounded, belong. In float32 the tolerance is
    16 units of rounding, about 2e-6.
    """

    TOLERANCE: ClassVar[float] = 1e-9

    is_indicator = True

    def _member(self, x: Array, slack: float) -> Array | np.bool:
        """Whether each inequality holds up to slack times (1 + |bound|)."""
        raise NotImplementedError

    def _value(self, x: Array) -> Value:
        return self._value_within(x, self.TOLERANCE)

    def _value_within(self, x: Array, tol: float) -> Value:
        member = self._member(x, max(tol, 16.0 * float(np.finfo(x.dtype).eps)))
        return np.where(member, x.dtype.type(0.0), x.dtype.type(np.inf))[()]


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

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        lo, hi = self._bounds
        return (KernelForm(Kind.INTERVAL, size, a=lo, b=hi),)


class Box(_Interval):
    """Indicator of the box lo <= x <= hi.

    Parameters
    ----------
    lo, hi
        Bounds: numbers or vectors; lo may be -inf and hi may be +inf.
    """

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

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return 0.0, np.inf


class _OneBound(_Interval):
    """An interval that one vector or number b defines."""

    _shifted = ("b",)

    b: Parameter

    def __init__(self, b: npt.ArrayLike) -> None:
        self._store(b=parameter(type(self).__name__, "b", b))


class Equality(_OneBound):
    """Indicator of the point b: the coupling constraint z = b.

    Parameters
    ----------
    b
        The point: a vector, or one number for all coordinates.
    """

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return self.b, self.b


class LessEqual(_OneBound):
    """Indicator of the orthant z <= b: the coupling constraint of a shared budget.

    Parameters
    ----------
    b
        Upper bound: a vector, or one number for all coordinates.
    """

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return -np.inf, self.b


class GreaterEqual(_OneBound):
    """Indicator of the orthant z >= b: the coupling constraint of a demand that must be met.

    Parameters
    ----------
    b
        Lower bound: a vector, or one number for all coordinates.
    """

    @property
    def _bounds(self) -> tuple[Parameter, Parameter]:
        return self.b, np.inf


class Ball(Indicator):
    """Indicator of the ball |z - center| <= radius.

    The conjugate is f*(y) = center.y + radius |y|.

    Parameters
    ----------
    center
        A vector, or one number for all coordinates.
    radius
        Number that is not negative; 0 leaves the center alone.
    """

    center: Parameter
    radius: float

    def __init__(self, center: npt.ArrayLike, radius: float) -> None:
        self._set(
            center=parameter("Ball", "center", center),
            radius=scalar("Ball", "radius", nonnegative("Ball", "radius", radius)),
        )

    @property
    def dim(self) -> int | None:
        """Length of the center, or None when it is one number."""
        return None if isinstance(self.center, float) else self.center.size

    @property
    def is_point(self) -> bool:
        """Whether the radius is zero."""
        return self.radius == 0.0

    def _member(self, x: Array, slack: float) -> Array | np.bool:
        # x - c is rounded relative to c, so c belongs to the size of the bound.
        size = 1.0 + self.radius + float(np.max(np.abs(self.center)))
        return np.asarray(norm(x - self.center)[..., 0] <= self.radius + slack * size)

    def _prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        r = x - self.center
        shrink = np.minimum(quotient(self.radius, norm(r)), 1.0)
        return np.where(shrink < 1.0, self.center + shrink * r, x)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        u = x - t * self.center
        return u * np.maximum(1.0 - quotient(t * self.radius, norm(u)), 0.0)

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        # Outside: (radius/|r|) times the projection onto the tangent plane, orthogonal to r.
        r = x - self.center
        length = norm(r)
        identity = np.eye(x.size, dtype=r.dtype)
        if length[0] <= self.radius:
            return identity
        normal = r / length
        return self.radius / length * (identity - np.outer(normal, normal))

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.BALL, size, a=self.radius, c=self.center),)


class Simplex(Indicator):
    """Indicator of the simplex x >= 0, sum_j x_j = total.

    The projection is max(x - theta, 0), theta such that the sum is right: with x sorted in decreasing order
    and theta_k = (x_1 + ... + x_k - total)/k, it is theta_k for the last k with x_k > theta_k (Held, Wolfe
    and Crowder, 1974).

    Parameters
    ----------
    total
        Positive number; 1 gives probabilities.
    """

    total: float

    def __init__(self, total: float = 1.0) -> None:
        self._set(total=scalar("Simplex", "total", positive("Simplex", "total", total)))

    def _member(self, x: Array, slack: float) -> Array | np.bool:
        sums = np.abs(x.sum(axis=-1) - self.total) <= slack * (1.0 + self.total)
        return np.asarray(sums & (x >= -slack).all(axis=-1))

    def _prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        shifted, theta = self._threshold(x)
        return np.asarray(np.maximum(shifted - theta, 0.0))

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        # On the support S the projection subtracts the mean: I_S - 1_S 1_S^T/|S|.
        shifted, theta = self._threshold(x)
        support = (shifted > theta).astype(x.dtype)
        return np.asarray(np.diag(support) - np.outer(support, support) / support.sum())

    def _threshold(self, x: Array) -> tuple[Array, Array]:
        # Adding a constant to all coordinates changes nothing; a maximum of 0 keeps the sums of the support
        # as small as `total`, and exact far from the origin.
        shifted = x - x.max(axis=-1, keepdims=True)
        descending = -np.sort(-shifted, axis=-1)
        counts = np.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        thetas = (np.cumsum(descending, axis=-1) - self.total) / counts
        support = np.count_nonzero(descending > thetas, axis=-1, keepdims=True)
        return shifted, np.take_along_axis(thetas, support - 1, axis=-1)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.SIMPLEX, size, a=self.total),)
