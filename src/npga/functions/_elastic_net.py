"""Elastic net: absolute values plus squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise, filled, largest, smallest
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, nonnegative


class ElasticNet(Elementwise):
    """Elastic net, f(x) = sum_j l1_j |x_j| + (l2_j/2) x_j^2.

    It has a gradient when l1 is zero, and is then a weighted square.

    Parameters
    ----------
    l1, l2
        Weights of the two terms: numbers that are not negative, or one per coordinate.
    """

    kind = "elastic_net"
    names = ("l1", "l2")
    _scaled = ("l1", "l2")

    l1: Parameter
    l2: Parameter

    def __init__(self, l1: npt.ArrayLike, l2: npt.ArrayLike) -> None:
        self._store(l1=nonnegative("ElasticNet", "l1", l1), l2=nonnegative("ElasticNet", "l2", l2))

    @property
    def mu(self) -> float:
        """Smallest l2."""
        return smallest(self.l2)

    @property
    def L(self) -> float:
        """Largest l2 when l1 is zero, else infinite."""
        return largest(self.l2) if self.has_grad else np.inf

    @property
    def has_grad(self) -> bool:
        """Whether l1 is zero."""
        return not np.any(self.l1)

    @property
    def has_hess(self) -> bool:
        """Whether l1 is zero."""
        return self.has_grad

    @property
    def is_quadratic(self) -> bool:
        """Whether l1 is zero."""
        return self.has_grad

    @property
    def is_zero(self) -> bool:
        """Whether both weights are zero."""
        return self.has_grad and not np.any(self.l2)

    def _terms(self, x: Array) -> Array:
        return self.l1 * np.abs(x) + 0.5 * self.l2 * np.square(x)

    def _grad(self, x: Array) -> Array:
        return self.l2 * x

    def _prox(self, x: Array, t: Step) -> Array:
        clipped = np.clip(x, -t * self.l1, t * self.l1)
        return np.asarray((x - clipped) / (1.0 + t * self.l2))

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # f*(y) = max(|y| - l1, 0)^2 / (2 l2): what |x| exceeds l1 by shrinks by l2/(t + l2).
        clipped = np.clip(x, -self.l1, self.l1)
        return np.asarray(clipped + self.l2 / (t + self.l2) * (x - clipped))

    def _hess(self, x: Array) -> Array:
        return filled(self.l2, x)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return (np.abs(x) > t * self.l1).astype(x.dtype) / (1.0 + t * self.l2)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.ELASTIC, size, a=self.l1, b=self.l2)
