"""Matrices inside functions, dense or sparse: products along the last axis, extreme eigenvalues, resolvents."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from npga.functions._base import Array, Step
from npga.functions._parameters import Matrix

# Up to this size all eigenvalues are computed; above it Lanczos finds the two extreme ones.
DENSE_LIMIT = 1500
# Restarts of about 20 products each, after which another way is taken.
LANCZOS_RESTARTS = 300
# How many factorisations, one per step t, a function keeps.
CACHE_SIZE = 8


def apply(matrix: Matrix, x: Array) -> Array:
    """Multiply each point of a stack by the matrix."""
    if not sp.issparse(matrix):
        return np.asarray(x @ matrix.T)
    rows = x.reshape(-1, x.shape[-1])
    return np.asarray((matrix @ rows.T).T.reshape(*x.shape[:-1], matrix.shape[0]))


def dense(matrix: Matrix) -> Array:
    """Return the matrix as a dense array."""
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def extreme_eigenvalues(matrix: Matrix) -> tuple[float, float]:
    """Smallest and largest eigenvalue of a symmetric matrix, in float64.

    Lanczos values are moved outwards by their residual, so that they bound the eigenvalue that they approximate.
    """
    if matrix.shape[0] <= DENSE_LIMIT or not sp.issparse(matrix):
        values = np.linalg.eigvalsh(dense(matrix).astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    return _lanczos(matrix, "SA"), _lanczos(matrix, "LA")


def _lanczos(matrix: Matrix, which: str) -> float:
    matrix = sp.csc_array(matrix, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    outwards = 1.0 if which == "LA" else -1.0
    size = float(abs(matrix).sum(axis=1).max())
    try:
        values, vectors = spla.eigsh(matrix, k=1, which=which, v0=start, tol=1e-10, maxiter=LANCZOS_RESTARTS)
    except spla.ArpackNoConvergence:
        if which == "LA":
            return size  # Gershgorin: no eigenvalue exceeds the largest row sum of absolute values
        # Eigenvalues that crowd near 0, as those of a Laplacian do: spread them by inverting just below 0.
        values, vectors = spla.eigsh(matrix, k=1, sigma=-1e-8 * size, which="LM", v0=start)
    value, vector = float(values[0]), vectors[:, 0]
    return value + outwards * float(np.linalg.norm(matrix @ vector - value * vector))


class SparseResolvent:
    """(I + s K)^-1 for a sparse symmetric positive semidefinite K, with one LU factorisation kept per recent s."""

    def __init__(self, K: Matrix) -> None:
        # SuperLU works in float64; so do the factors, whatever the type of K.
        self._K = sp.csc_array(K, dtype=np.float64)
        self._factors: OrderedDict[float, Any] = OrderedDict()

    def __call__(self, x: Array, s: Step) -> Array:
        """Apply the resolvent to each point of a stack, with one s for all or one per point."""
        if isinstance(s, float):
            rows = x.reshape(-1, x.shape[-1])
            return np.asarray(self._factor(s).solve(rows.T.astype(np.float64)).T.reshape(x.shape).astype(x.dtype))
        steps = np.broadcast_to(s, (*x.shape[:-1], 1))[..., 0]
        out = np.empty_like(x)
        for value in np.unique(steps):
            chosen = steps == value
            out[chosen] = self(x[chosen], float(value))
        return out

    def _factor(self, s: float) -> Any:
        if s in self._factors:
            self._factors.move_to_end(s)
        else:
            identity = sp.eye_array(self._K.shape[0], format="csc")
            self._factors[s] = spla.splu(sp.csc_array(identity + s * self._K))
            if len(self._factors) > CACHE_SIZE:
                self._factors.popitem(last=False)
        return self._factors[s]

    def __getstate__(self) -> dict[str, Any]:
        # SuperLU factors cannot be pickled; they are made again on demand.
        return {"_K": self._K, "_factors": OrderedDict()}
