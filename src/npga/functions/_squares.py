"""Linear functions and squares in every coordinate: `Zero`, `Linear`, `SquaredNorm` and, as a loss, `SquaredLoss`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from npga.functions._base import Elementwise
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Array, Parameter, Step, parameter, positive


class _Flat(Elementwise):
    """A function without curvature."""

    L = 0.0
    is_quadratic = True

    def _hess(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.ones_like(x)


class Zero(_Flat):
    """The zero function, f(x) = 0.

    The conjugate is the indicator of the origin.
    """

    _shifted = ()

    is_zero = True

    def _terms(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _grad(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return x.copy()

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.zeros_like(x)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.ZERO, size),)


class Linear(_Flat):
    """Linear function, f(x) = c.x.

    The conjugate is the indicator of the point c.

    Parameters
    ----------
    c
        Cost of each coordinate: a vector, or one number for all.
    """

    _scaled = ("c",)

    c: Parameter

    def __init__(self, c: npt.ArrayLike) -> None:
        self._store(c=parameter("Linear", "c", c))

    @property
    def is_zero(self) -> bool:
        """Whether all costs are zero."""
        return not np.any(self.c)

    def _terms(self, x: Array) -> Array:
        return self.c * x

    def _grad(self, x: Array) -> Array:
        return np.zeros_like(x) + self.c

    def _prox(self, x: Array, t: Step) -> Array:
        return x - t * self.c

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.zeros_like(x) + self.c

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.LINEAR, size, a=self.c),)


class _Square(Elementwise):
    """f(x) = sum_j (w_j/2) (x_j - c_j)^2, with conjugate f*(y) = sum_j y_j^2 / (2 w_j) + c_j y_j."""

    weight: Parameter
    _scaled = ("weight",)
    _shifted: ClassVar[tuple[str, ...]]

    @property
    def _center(self) -> Parameter:
        found: Parameter = getattr(self, *self._shifted)
        return found

    @property
    def mu(self) -> float:
        """Smallest weight."""
        return float(np.min(self.weight))

    @property
    def L(self) -> float:
        """Largest weight."""
        return float(np.max(self.weight))

    is_quadratic = True

    def _terms(self, x: Array) -> Array:
        return 0.5 * self.weight * np.square(x - self._center)

    def _grad(self, x: Array) -> Array:
        return self.weight * (x - self._center)

    def _prox(self, x: Array, t: Step) -> Array:
        # Written as a correction of x, so that rounding is relative to the distance travelled.
        s = t * self.weight
        return x - s / (1.0 + s) * (x - self._center)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        return (x - t * self._center) / (1.0 + t / self.weight)

    def _hess(self, x: Array) -> Array:
        return np.zeros_like(x) + self.weight

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return np.zeros_like(x) + 1.0 / (1.0 + t * self.weight)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.SQUARE, size, a=self.weight, c=self._center),)


class SquaredNorm(_Square):
    """Squared Euclidean norm, f(x) = sum_j (w_j/2) (x_j - c_j)^2.

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    center
        Minimiser c: a number or a vector.
    """

    _shifted = ("center",)

    center: Parameter

    def __init__(self, weight: npt.ArrayLike = 1.0, center: npt.ArrayLike = 0.0) -> None:
        self._store(
            weight=positive("SquaredNorm", "weight", weight),
            center=parameter("SquaredNorm", "center", center),
        )


class SquaredLoss(_Square):
    """Squared loss, f(z) = sum_j (w_j/2) (z_j - target_j)^2.

    Parameters
    ----------
    target
        Observations: a vector, or one number for all.
    weight
        Positive number, or one per observation.
    """

    _shifted = ("target",)

    target: Parameter

    def __init__(self, target: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        self._store(
            target=parameter("SquaredLoss", "target", target),
            weight=positive("SquaredLoss", "weight", weight),
        )
