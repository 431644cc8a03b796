"""Barriers and entropies: -ln x and x ln x in every coordinate.

Their derivatives are unbounded at the edge of the domain, so neither has the Lipschitz gradient that the role f needs;
the prox is in closed form, and they are g or h.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import wrightomega, xlogy

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, positive


class NegLog(Elementwise):
    """Logarithmic barrier, f(x) = -sum_j w_j ln x_j on x > 0: proportional fairness in network utility.

    The conjugate is f*(y) = -sum_j w_j (1 + ln(-y_j/w_j)) on y < 0.

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    kind = "neg_log"
    names = ("weight",)
    _scaled = ("weight",)

    weight: Parameter

    def __init__(self, weight: npt.ArrayLike = 1.0) -> None:
        self._store(weight=positive("NegLog", "weight", weight))

    def _terms(self, x: Array) -> Array:
        inside = x > 0.0
        return np.where(inside, -self.weight * np.log(np.where(inside, x, 1.0)), np.inf).astype(x.dtype, copy=False)

    def _prox(self, x: Array, t: Step) -> Array:
        return _positive_root(x, t * self.weight)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # v (v - x) = t w with v < 0: the mirror image of the prox.
        return -_positive_root(-x, t * self.weight)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # u - s/u = x gives u'(1 + s/u^2) = 1.
        s = t * self.weight
        u = _positive_root(x, s)
        return np.asarray(u / (u + s / u))

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.NEG_LOG, size, a=self.weight)


def _positive_root(x: Array, s: Step) -> Array:
    """u > 0 with u (u - x) = s: (x + sqrt(x^2 + 4 s))/2, written without cancellation for x < 0."""
    far = np.abs(x) + np.hypot(x, 2.0 * np.sqrt(s))
    return np.asarray(np.where(x >= 0.0, 0.5 * far, 2.0 * s / far), dtype=x.dtype)


class Entropy(Elementwise):
    """Negative entropy, f(x) = sum_j w_j x_j ln x_j on x >= 0, with 0 ln 0 = 0.

    The conjugate is f*(y) = sum_j w_j exp(y_j/w_j - 1).

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    kind = "entropy"
    names = ("weight",)
    _scaled = ("weight",)

    weight: Parameter

    def __init__(self, weight: npt.ArrayLike = 1.0) -> None:
        self._store(weight=positive("Entropy", "weight", weight))

    def _terms(self, x: Array) -> Array:
        inside = x >= 0.0
        kept = np.where(inside, x, 1.0)
        return np.where(inside, self.weight * xlogy(kept, kept), np.inf).astype(x.dtype, copy=False)

    def _prox(self, x: Array, t: Step) -> Array:
        s = t * self.weight
        return np.asarray(s * _omega(x, s), dtype=x.dtype)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # With s = w/t and y of the prox of f/t at x/t: v = x - w y, and v = w (1 + ln(s y)) where that would cancel.
        s = self.weight / t
        y = _omega(x / t, s)
        logarithm = np.log(np.where(y > 1.0, s * y, 1.0))
        return np.asarray(np.where(y > 1.0, self.weight * (1.0 + logarithm), x - self.weight * y), dtype=x.dtype)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # u'(1 + s/u) = 1, so u' = y/(1 + y).
        y = _omega(x, t * self.weight)
        return np.asarray(y / (1.0 + y), dtype=x.dtype)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.ENTROPY, size, a=self.weight)


def _omega(x: Array, s: Step) -> Array:
    """y > 0 with y + ln y = x/s - 1 - ln s, Wright's omega function: u = s y solves u + s (ln u + 1) = x."""
    return np.asarray(wrightomega(np.asarray(x / s - 1.0 - np.log(s), dtype=np.float64)), dtype=x.dtype)
