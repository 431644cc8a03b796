"""The two affine functions: 0 and c.x."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Step
from npga.functions._elementwise import Elementwise, filled
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Parameter, parameter


class Zero(Elementwise):
    """The zero function, f(x) = 0.

    The conjugate is the indicator of the origin.
    """

    kind = "zero"
    _shifted = ()

    L = 0.0
    is_zero = True
    is_quadratic = True

    def _terms(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _grad(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return x.copy()

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.zeros_like(x)

    def _hess(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.ones_like(x)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.ZERO, size)


class Linear(Elementwise):
    """Linear function, f(x) = c.x.

    The conjugate is the indicator of the point c.

    Parameters
    ----------
    c
        Cost of each coordinate: a vector, or one number for all.
    """

    kind = "linear"
    names = ("c",)
    _scaled = ("c",)

    c: Parameter

    def __init__(self, c: npt.ArrayLike) -> None:
        self._store(c=parameter("Linear", "c", c))

    L = 0.0
    is_quadratic = True

    @property
    def is_zero(self) -> bool:
        """Whether all costs are zero."""
        return not np.any(self.c)

    def _terms(self, x: Array) -> Array:
        return self.c * x

    def _grad(self, x: Array) -> Array:
        return filled(self.c, x)

    def _prox(self, x: Array, t: Step) -> Array:
        return x - t * self.c

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return filled(self.c, x)

    def _hess(self, x: Array) -> Array:
        return np.zeros_like(x)

    def _prox_jac(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return np.ones_like(x)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.LINEAR, size, a=self.c)
