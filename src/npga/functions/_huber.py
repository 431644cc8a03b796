"""Huber loss: quadratic near its center, linear far from it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise, largest
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, parameter, positive


class Huber(Elementwise):
    """Huber loss, f(x) = sum_j w_j huber(x_j - c_j).

    huber(r) is r^2/2 for |r| <= delta and delta |r| - delta^2/2 beyond. The conjugate is
    f*(y) = sum_j y_j^2 / (2 w_j) + c_j y_j on |y_j| <= w_j delta_j.

    Parameters
    ----------
    delta
        Distance at which the loss turns linear: a positive number, or one per coordinate.
    weight
        Positive number, or one per coordinate.
    center
        Minimiser c: a number or a vector.
    """

    kind = "huber"
    names = ("delta", "weight", "center")
    _scaled = ("weight",)
    _shifted = ("center",)

    delta: Parameter
    weight: Parameter
    center: Parameter

    def __init__(self, delta: npt.ArrayLike, weight: npt.ArrayLike = 1.0, center: npt.ArrayLike = 0.0) -> None:
        self._store(
            delta=positive("Huber", "delta", delta),
            weight=positive("Huber", "weight", weight),
            center=parameter("Huber", "center", center),
        )

    @property
    def L(self) -> float:
        """Largest weight."""
        return largest(self.weight)

    def _terms(self, x: Array) -> Array:
        # With q the part of |r| up to delta: q^2/2 + delta (|r| - q), one expression for both branches.
        r = np.abs(x - self.center)
        q = np.minimum(r, self.delta)
        return self.weight * (0.5 * np.square(q) + self.delta * (r - q))

    def _grad(self, x: Array) -> Array:
        return self.weight * np.clip(x - self.center, -self.delta, self.delta)

    def _prox(self, x: Array, t: Step) -> Array:
        # u = x - s clip(u - c, -delta, delta), and u - c = (x - c)/(1 + s) inside.
        s = t * self.weight
        return x - s * np.clip((x - self.center) / (1.0 + s), -self.delta, self.delta)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        limit = self.weight * self.delta
        return np.clip((x - t * self.center) / (1.0 + t / self.weight), -limit, limit)

    def _hess(self, x: Array) -> Array:
        return self.weight * (np.abs(x - self.center) <= self.delta).astype(x.dtype)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        s = t * self.weight
        inside = (np.abs(x - self.center) <= (1.0 + s) * self.delta).astype(x.dtype)
        return 1.0 - s / (1.0 + s) * inside

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.HUBER, size, a=self.weight, b=self.delta, c=self.center)
