"""Symmetric matrices that live on a graph: read and checked, reduced to one number per link, and their eigenvalues.

Eigenvalues are those of K = sum over links of w_ij (e_i - e_j)(e_i - e_j)^T, which is I - W for the mixing weights and
L for unit weights. K 1 = 0 always, so the vector of ones is deflated instead of searched for. Small networks are
solved densely, large ones by Lanczos.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import InputError, NetworkError

FloatArray = npt.NDArray[np.float64]
TOLERANCE = 1e-10  # relative to the largest entry: below it, two entries are equal and one entry is zero
DENSE_LIMIT = 3000  # largest network whose whole spectrum is computed: 72 MB, a few seconds
LANCZOS_FROM = 400  # from here on two Lanczos runs beat one dense eigen-solve


def read_symmetric(matrix: Any, what: str, error: type[InputError]) -> Any:
    """Read `matrix` as a CSR array, exactly symmetric: the upper triangle mirrored, rounding dust removed."""
    try:
        dense = None if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"{what} of type {type(matrix).__name__} arrived; expected a square array of numbers") from None
    shape = matrix.shape if dense is None else dense.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise error(f"{what} must be a square matrix, and shape {tuple(shape)} arrived")
    M = sparse.csr_array(matrix if dense is None else dense, dtype=np.float64)
    if not np.all(np.isfinite(M.data)):
        raise error(f"{what} holds NaN or infinite entries; every entry must be a finite number")
    scale = float(np.max(np.abs(M.data), initial=0.0))
    pair = first_asymmetric_pair(M, TOLERANCE * scale)
    if pair is not None:
        i, j = pair
        raise error(
            f"{what} is not symmetric: entry ({i}, {j}) is {M[i, j]:.6g} and entry ({j}, {i}) is "
            f"{M[j, i]:.6g}; expected equal entries: use (M + M.T)/2 if that is what you mean"
        )
    upper = sparse.csr_array(sparse.triu(M, k=1))
    upper.data[np.abs(upper.data) <= TOLERANCE * scale] = 0.0
    upper.eliminate_zeros()
    return sparse.csr_array(upper + upper.T + sparse.diags_array(M.diagonal()))


def first_asymmetric_pair(M: Any, tolerance: float) -> tuple[int, int] | None:
    """Find the first entry (i, j), i < j, of the sparse matrix `M` that differs from entry (j, i)."""
    gap = sparse.coo_array(sparse.triu(M - M.T, k=1))
    rows, cols = gap.coords
    worst = np.flatnonzero(np.abs(gap.data) > tolerance)
    if worst.size == 0:
        return None
    k = worst[np.lexsort((cols[worst], rows[worst]))[0]]
    return int(rows[k]), int(cols[k])


def require_row_sums(M: Any, total: float, what: str, error: type[InputError]) -> None:
    """Refuse a matrix with a row that does not sum to `total`: the vector of ones must be an eigenvector."""
    sums = np.asarray(M.sum(axis=1)).ravel()
    slack = TOLERANCE * max(1.0, float(np.max(np.abs(M.data), initial=0.0)))
    bad = np.flatnonzero(np.abs(sums - total) > slack)
    if bad.size:
        i = int(bad[0])
        raise error(
            f"row {i} of {what} sums to {sums[i]:.12g}; expected {total:g} in every row, because agents that "
            "agree must stay where they are"
        )


def entries_on_edges(M: Any, edges: npt.NDArray[np.int64], what: str, error: type[InputError]) -> FloatArray:
    """Entry of `M` on every link, refusing entries between agents that share none."""
    n = M.shape[0]
    upper = sparse.coo_array(sparse.triu(M, k=1))
    rows, cols = (axis.astype(np.int64) for axis in upper.coords)
    found, wanted = rows * n + cols, edges[:, 0] * n + edges[:, 1]
    position = np.minimum(np.searchsorted(wanted, found), max(len(wanted) - 1, 0))
    off_graph = np.flatnonzero(wanted[position] != found) if len(wanted) else np.arange(len(found))
    if off_graph.size:
        i, j = int(rows[off_graph[0]]), int(cols[off_graph[0]])
        raise error(
            f"{what} has the entry {M[i, j]:.6g} at ({i}, {j}), and agents {i} and {j} share no link; "
            "expected zero there: add the link to the graph or remove the entry"
        )
    entries = np.zeros(len(edges))
    entries[position] = upper.data
    return entries


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
