"""Euclidean ball."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Function, Indicator, Step
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._norms import norm, quotient
from npga.functions._parameters import Parameter, cast, nonnegative, parameter, scalar, show


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

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.BALL, size, a=self.radius, c=self.center)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Copy whose center has type `dtype`."""
        return Ball(cast(self.center, dtype), self.radius)

    def __repr__(self) -> str:
        return f"Ball(center={show(self.center)}, radius={show(self.radius)})"
