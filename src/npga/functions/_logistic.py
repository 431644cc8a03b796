"""Logistic loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise, increasing_root, largest
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, positive, signs


class Logistic(Elementwise):
    """Logistic loss, f(z) = sum_j w_j ln(1 + exp(-y_j z_j)).

    Parameters
    ----------
    labels
        Classes y, each -1 or +1.
    weight
        Positive number, or one per label.
    """

    kind = "logistic"
    names = ("labels", "weight")
    _scaled = ("weight",)

    labels: Parameter
    weight: Parameter

    def __init__(self, labels: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        self._store(labels=signs("Logistic", "labels", labels), weight=positive("Logistic", "weight", weight))

    @property
    def L(self) -> float:
        """A quarter of the largest weight: sigma(v) sigma(-v) <= 1/4."""
        return largest(self.weight) / 4.0

    def _terms(self, x: Array) -> Array:
        return self.weight * np.logaddexp(0.0, -self.labels * x)

    def _grad(self, x: Array) -> Array:
        return np.asarray(-self.weight * self.labels * expit(-self.labels * x))

    def _prox(self, x: Array, t: Step) -> Array:
        # With v = y u and a = y x the prox solves F(v) = v - a - s sigma(-v) = 0, s = t w, and 0 < sigma <
        # 1 puts the root in [a, a + s]. F is convex on v <= 0 and concave on v >= 0, so Newton started from
        # the point of the bracket nearest to 0 approaches the root from one side and never leaves the
        # bracket.
        a = self.labels * x
        s = np.broadcast_to(t * self.weight, a.shape).astype(a.dtype, copy=False)
        eps = 2.0 * np.finfo(a.dtype).eps

        def residual(v: Array) -> tuple[Array, Array, Array]:
            p = expit(-v)
            return v - a - s * p, 1.0 + s * p * expit(v), eps * (np.abs(v) + np.abs(a) + s * p)

        lower, upper = a, a + s
        return self.labels * increasing_root(residual, lower, upper, np.clip(np.zeros_like(a), lower, upper))

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # Moreau's x - t u with u = prox_{f/t}(x/t) equals f'(u); the gradient does not cancel when t is
        # large.
        return self._grad(self._prox(x / t, 1.0 / t))

    def _hess(self, x: Array) -> Array:
        return np.asarray(self.weight * expit(x) * expit(-x))

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return 1.0 / (1.0 + t * self._hess(self._prox(x, t)))

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.LOGISTIC, size, a=self.labels, b=self.weight)
