"""Scaled probability simplex."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Array, Function, Indicator, Step
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import positive, scalar, show


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

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.SIMPLEX, size, a=self.total)

    def astype(self, dtype: npt.DTypeLike) -> Function:  # noqa: ARG002
        """Return the function itself: a number has no array type."""
        return self

    def __repr__(self) -> str:
        return f"Simplex(total={show(self.total)})"
