"""Eigenvalues of weighted Laplacians, dense for small networks and by Lanczos for large ones.

Everything is said of K = sum over links of w_ij (e_i - e_j)(e_i - e_j)^T, which is I - W for the mixing
weights and L for unit weights. K 1 = 0 always, so the vector of ones is deflated instead of searched for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError

FloatArray = npt.NDArray[np.float64]
DENSE_LIMIT = 3000  # largest network whose whole spectrum is computed: 72 MB, a few seconds
LANCZOS_FROM = 400  # from here on two Lanczos runs beat one dense eigen-solve


def weighted_laplacian(n: int, edges: npt.NDArray[np.int64], weights: FloatArray) -> Any:
    """Sparse K with (K u)_i = sum over neighbours j of w_ij (u_i - u_j)."""
    i, j = edges[:, 0], edges[:, 1]
    diagonal = np.bincount(i, weights, minlength=n) + np.bincount(j, weights, minlength=n)
    rows = np.concatenate([i, j, np.arange(n)])
    cols = np.concatenate([j, i, np.arange(n)])
    return sparse.csr_array((np.concatenate([-weights, -weights, diagonal]), (rows, cols)), shape=(n, n))


def full_spectrum(K: Any) -> FloatArray:
    """All eigenvalues of a positive semi-definite K, ascending; the first is exactly 0 (vector of ones)."""
    n = K.shape[0]
    if n > DENSE_LIMIT:
        raise NetworkError(
            f"the whole spectrum was asked for on {n} agents, and it is computed up to {DENSE_LIMIT}; use "
            "extreme_eigenvalues() or laplacian_extremes() instead"
        )
    values: FloatArray = np.linalg.eigvalsh(K.toarray())
    values[0] = 0.0
    values.flags.writeable = False
    return values


def extremes(K: Any) -> tuple[float, float]:
    """Smallest and largest eigenvalue of K on the vectors orthogonal to ones; (0, 0) for a lone agent."""
    n = K.shape[0]
    if n == 1:
        return 0.0, 0.0
    bound = float(np.max(np.abs(K).sum(axis=1)))  # Gershgorin: |eigenvalue| <= bound
    if n < LANCZOS_FROM:
        shift = 2.0 * bound + 1.0
        values = np.linalg.eigvalsh(K.toarray() + shift / n)  # ones now owns the top eigenvalue
        return float(values[0]), float(values[-2])
    return bound - _largest(_reflected(K, bound), K, 0.0, bound), _largest(K, K, bound, bound)


def _reflected(K: Any, bound: float) -> Any:
    """Return bound (I - 11^T/n) - K, whose top eigenvalue is bound minus the smallest of K off ones."""
    from scipy.sparse.linalg import LinearOperator

    n = K.shape[0]

    def apply(u: FloatArray) -> FloatArray:
        u = u.reshape(n)
        return np.asarray(bound * (u - u.mean()) - K @ u)

    return LinearOperator((n, n), matvec=apply, dtype=np.float64)


def _largest(operator: Any, K: Any, target: float, bound: float) -> float:
    """Largest eigenvalue of `operator` by Lanczos from a fixed start, so that equal inputs give equal bits.

    Eigenvalues crowd together at the end of the spectrum of rings, paths and grids, and Lanczos stalls there.
    Such graphs have small separators, so a factorisation of K near `target` is cheap: invert instead.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n = K.shape[0]
    start = np.cos(np.arange(n) * np.sqrt(2.0)) + 0.1  # no symmetry that could hide an eigenvector
    try:
        return float(eigsh(operator, k=1, which="LA", v0=start, tol=1e-11, maxiter=200)[0][0])
    except ArpackNoConvergence:
        pass
    margin = 1e-7 * bound
    near = target - margin if target == 0.0 else target + margin
    values = eigsh(sparse.csc_array(K), k=2, sigma=near, which="LM", v0=start, tol=1e-12)[0]
    return bound - float(values.max()) if target == 0.0 else float(values.max())
