"""Least squares, dense or sparse."""

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
    positive,
    scalar,
    show,
)


class LeastSquares(Function):
    """Least squares, f(x) = (w/2) |M x - b|^2.

    Parameters
    ----------
    M
        Matrix, a dense array or a SciPy sparse matrix; it may be tall or wide.
    b
        Right-hand side: a vector, or one number for all rows.
    weight
        Positive number.
    """

    M: Matrix
    b: Parameter
    weight: float

    def __init__(self, M: Any, b: npt.ArrayLike = 0.0, weight: float = 1.0) -> None:
        self._set(
            M=matrix("LeastSquares", "M", M),
            b=parameter("LeastSquares", "b", b),
            weight=scalar("LeastSquares", "weight", positive("LeastSquares", "weight", weight)),
        )
        if not isinstance(self.b, float) and self.b.size != self.M.shape[0]:
            raise FunctionError(
                f"LeastSquares: b has {self.b.size} entries and M has shape {self.M.shape}; "
                "expected one entry per row of M"
            )

    @property
    def dim(self) -> int | None:
        """Number of columns of M."""
        return int(self.M.shape[1])

    @property
    def mu(self) -> float:
        """Weight times the smallest eigenvalue of M^T M; 0 when M is wide or rank deficient."""
        return self._curvature[0]

    @property
    def L(self) -> float:
        """Weight times the largest eigenvalue of M^T M."""
        return self._curvature[1]

    is_quadratic = True

    @property
    def is_zero(self) -> bool:
        """Whether M and b are zero."""
        return self.L == 0.0 and not np.any(self.b)

    def _value(self, x: Array) -> Value:
        return 0.5 * self.weight * np.square(self._residual(x)).sum(axis=-1)

    def _grad(self, x: Array) -> Array:
        return self.weight * apply(self.M.T, self._residual(x))

    def _prox(self, x: Array, t: Step) -> Array:
        # u = x - s M^T (I + s M M^T)^-1 (M x - b) with s = t w; dense M through its singular values M = U S
        # V^T.
        s = t * self.weight
        residual = self._residual(x)
        if sp.issparse(self.M):
            if self.M.shape[0] <= self.M.shape[1]:
                return x - s * apply(self.M.T, self._sparse_resolvent(residual, s))
            return x - s * self._sparse_resolvent(apply(self.M.T, residual), s)
        U, S, Vt = self._svd
        return x - ((residual @ U) * (s * S / (1.0 + s * np.square(S)))) @ Vt

    def _hess(self, x: Array) -> Array:  # noqa: ARG002
        return self.weight * dense(self.M.T @ self.M)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # The prox is affine with a symmetric linear part; the constant is its value at the origin.
        origin = np.zeros((1, x.size), dtype=x.dtype)
        return self._prox(np.eye(x.size, dtype=x.dtype), t) - self._prox(origin, t)

    def _residual(self, x: Array) -> Array:
        return apply(self.M, x) - self.b

    @cached_property
    def _curvature(self) -> tuple[float, float]:
        rows, columns = self.M.shape
        if sp.issparse(self.M):
            gram = self.M @ self.M.T if rows < columns else self.M.T @ self.M
            least, most = extreme_eigenvalues(gram)
            noise = min(rows, columns) * float(np.finfo(self.M.dtype).eps) * most
        else:
            S = np.linalg.svd(self.M.astype(np.float64), compute_uv=False)
            least, most = float(S[-1]) ** 2, float(S[0]) ** 2
            noise = (max(rows, columns) * float(np.finfo(self.M.dtype).eps)) ** 2 * most
        full_rank = rows >= columns and least > noise
        return (self.weight * least if full_rank else 0.0), self.weight * most

    @cached_property
    def _svd(self) -> tuple[Array, Array, Array]:
        U, S, Vt = np.linalg.svd(self.M, full_matrices=False)
        return U, S, Vt

    @cached_property
    def _sparse_resolvent(self) -> SparseResolvent:
        wide = self.M.shape[0] <= self.M.shape[1]
        return SparseResolvent(self.M @ self.M.T if wide else self.M.T @ self.M)

    def _kernel(self, size: int) -> KernelForm:
        return KernelForm(Kind.LEAST_SQUARES, size, a=self.weight, matrix=self.M, vector=self.b)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Copy whose M and b have type `dtype`."""
        return LeastSquares(cast(self.M, dtype), cast(self.b, dtype), self.weight)

    def __repr__(self) -> str:
        return f"LeastSquares(M={show(self.M)}, b={show(self.b)}, weight={show(self.weight)})"
