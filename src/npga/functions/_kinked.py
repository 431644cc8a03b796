"""Piecewise linear functions with one kink per coordinate: absolute value, hinge, pinball.

All are f(x) = sum_j max(a_j (x_j - c_j), b_j (x_j - c_j)) with slopes a <= b on the two sides of the kink
c. Their conjugate is f*(y) = c.y on a <= y <= b, whence

    prox_{t f*}(x) = clip(x - t c, a, b),        prox_{t f}(x) = x - clip(x - c, t a, t b).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, parameter, positive, require, signs


class _Kinked(Elementwise):
    """sum_j max(a_j (x_j - c_j), b_j (x_j - c_j)), given its slopes (a, b) and its kink c."""

    # Set once by the constructor of each class.
    _left: Parameter
    _right: Parameter
    _kink: Parameter

    def _terms(self, x: Array) -> Array:
        r = x - self._kink
        return np.maximum(self._left * r, self._right * r)

    def _prox(self, x: Array, t: Step) -> Array:
        return x - np.clip(x - self._kink, t * self._left, t * self._right)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        return np.clip(x - t * self._kink, self._left, self._right)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        r = x - self._kink
        return ((r < t * self._left) | (r > t * self._right)).astype(x.dtype)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.KINKED, size, a=self._left, b=self._right, c=self._kink)


class L1(_Kinked):
    """Weighted absolute values, f(x) = sum_j w_j |x_j|.

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    kind = "l1"
    names = ("weight",)
    _scaled = ("weight",)

    weight: Parameter

    def __init__(self, weight: npt.ArrayLike = 1.0) -> None:
        self._store(weight=positive("L1", "weight", weight))
        self._set(_left=-self.weight, _right=self.weight, _kink=0.0)


class Hinge(_Kinked):
    """Hinge loss of support vector machines, f(z) = sum_j w_j max(0, 1 - y_j z_j).

    Parameters
    ----------
    labels
        Classes y, each -1 or +1.
    weight
        Positive number, or one per label.
    """

    kind = "hinge"
    names = ("labels", "weight")
    _scaled = ("weight",)

    labels: Parameter
    weight: Parameter

    def __init__(self, labels: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        self._store(labels=signs("Hinge", "labels", labels), weight=positive("Hinge", "weight", weight))
        # The kink is at z = 1/y = y; the slope is -w y on the side of the wrong class and 0 on the other.
        half = 0.5 * self.weight
        self._set(_left=-half * (self.labels + 1.0), _right=-half * (self.labels - 1.0), _kink=self.labels)


class Quantile(_Kinked):
    """Pinball loss of quantile regression, f(z) = sum_j w_j max(tau_j r_j, (tau_j - 1) r_j), r = target - z.

    Parameters
    ----------
    target
        Observations: a vector, or one number for all.
    tau
        Level of the quantile, strictly between 0 and 1; 0.5 gives half the absolute error.
    weight
        Positive number, or one per observation.
    """

    kind = "quantile"
    names = ("target", "tau", "weight")
    _scaled = ("weight",)
    _shifted = ("target",)

    target: Parameter
    tau: Parameter
    weight: Parameter

    def __init__(self, target: npt.ArrayLike, tau: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        level = positive("Quantile", "tau", tau)
        require("Quantile", "tau", np.asarray(level), np.asarray(level) < 1.0, "a level strictly between 0 and 1")
        self._store(
            target=parameter("Quantile", "target", target),
            tau=level,
            weight=positive("Quantile", "weight", weight),
        )
        self._set(_left=-self.weight * self.tau, _right=self.weight * (1.0 - self.tau), _kink=self.target)
