"""Quadratics with a matrix, dense or sparse: x.Qx/2 + q.x, and least squares."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from npga.errors import FunctionError
from npga.functions._base import Parametric, Value
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import (
    Array,
    Matrix,
    Parameter,
    SparseResolvent,
    Step,
    apply,
    dense,
    extreme_eigenvalues,
    matrix,
    parameter,
    positive,
    scalar,
)


class Quadratic(Parametric):
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

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.QUADRATIC, size, a=1.0, matrix=self.Q, vector=self.q),)


class LeastSquares(Parametric):
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

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.LEAST_SQUARES, size, a=self.weight, matrix=self.M, vector=self.b),)
