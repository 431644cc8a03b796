"""General convex quadratic, dense or sparse."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from npga.errors import FunctionError
from npga.functions._base import Array, Function, Step, Value
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import (
    Matrix,
    Parameter,
    SparseResolvent,
    apply,
    cast,
    dense,
    extreme_eigenvalues,
    matrix,
    parameter,
    show,
)


class Quadratic(Function):
    """Convex quadratic, f(x) = x.Qx/2 + q.x.

    The prox solves (I + t Q) u = x - t q: through the eigenvectors of a dense Q, computed once, and through
    one sparse factorisation per step t of a sparse Q, the most recent of which are kept.

    Parameters
    ----------
    Q
        Symmetric positive semidefinite matrix, a dense array or a SciPy sparse matrix.
    q
        A vector, or one number for all coordinates.
    """

    Q: Matrix
    q: Parameter

    def __init__(self, Q: Any, q: npt.ArrayLike = 0.0) -> None:
        self._set(Q=matrix("Quadratic", "Q", Q), q=parameter("Quadratic", "q", q))
        if self.Q.shape[0] != self.Q.shape[1] or (not isinstance(self.q, float) and self.q.size != self.Q.shape[0]):
            raise FunctionError(
                f"Quadratic: Q has shape {self.Q.shape} and q has shape {np.shape(self.q)}; "
                "expected a square matrix and a vector of the same length"
            )
        eps = float(np.finfo(self.Q.dtype).eps)
        asymmetry, size = float(abs(self.Q - self.Q.T).max()), float(abs(self.Q).max())
        if asymmetry > 10.0 * eps * size:
            raise FunctionError(
                f"Quadratic: Q differs from its transpose by {asymmetry:.3g}; expected a symmetric matrix; "
                "pass (Q + Q.T)/2, which has the same value"
            )
        least, most = extreme_eigenvalues(self.Q)
        noise = self.Q.shape[0] * eps * max(abs(least), abs(most))
        if least < -max(noise, 1e-12 * size):
            raise FunctionError(
                f"Quadratic: Q has smallest eigenvalue {least:.3g}; expected a positive semidefinite matrix, "
                f"so that f is convex; add {-least:.3g} or more to its diagonal"
            )
        # Below the rounding error of the eigenvalues, strong convexity cannot be told from its absence.
        self._set(_mu=least if least > noise else 0.0, _L=max(most, 0.0))

    @property
    def dim(self) -> int | None:
        """Order of Q."""
        return int(self.Q.shape[0])

    @property
    def mu(self) -> float:
        """Smallest eigenvalue of Q; 0 when it cannot be told from 0."""
        return float(self.__dict__["_mu"])

    @property
    def L(self) -> float:
        """Largest eigenvalue of Q."""
        return float(self.__dict__["_L"])

    is_quadratic = True

    @property
    def is_zero(self) -> bool:
        """Whether Q and q are zero."""
        return self.L == 0.0 and not np.any(self.q)

    def _value(self, x: Array) -> Value:
        return (x * (0.5 * apply(self.Q, x) + self.q)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return apply(self.Q, x) + self.q

    def _prox(self, x: Array, t: Step) -> Array:
        r = x - t * self.q
        if sp.issparse(self.Q):
            return self._sparse_resolvent(r, t)
        eigenvalues, V = self._eigen
        return ((r @ V) / (1.0 + t * eigenvalues)) @ V.T

    def _hess(self, x: Array) -> Array:  # noqa: ARG002
        return dense(self.Q)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # The prox is affine with symmetric linear part: its rows are the resolvent of the unit vectors.
        identity = np.eye(x.size, dtype=x.dtype)
        return self._prox(identity + t * self.q, t)

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        eigenvalues, V = np.linalg.eigh(self.Q)
        return np.maximum(eigenvalues, 0.0), V

    @cached_property
    def _sparse_resolvent(self) -> SparseResolvent:
        return SparseResolvent(self.Q)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.QUADRATIC, size, a=1.0, matrix=self.Q, vector=self.q)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Copy whose Q and q have type `dtype`."""
        return Quadratic(cast(self.Q, dtype), cast(self.q, dtype))

    def __repr__(self) -> str:
        return f"Quadratic(Q={show(self.Q)}, q={show(self.q)})"
