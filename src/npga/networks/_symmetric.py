"""Symmetric matrices that live on a graph: read, checked and reduced to one number per link."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import InputError

FloatArray = npt.NDArray[np.float64]
TOLERANCE = 1e-10  # relative to the largest entry: below it, two entries are equal and one entry is zero


def first_asymmetric_pair(M: Any, tolerance: float) -> tuple[int, int] | None:
    """Find the first entry (i, j), i < j, of the sparse matrix `M` that differs from entry (j, i)."""
    gap = sparse.coo_array(sparse.triu(M - M.T, k=1))
    rows, cols = gap.coords
    worst = np.flatnonzero(np.abs(gap.data) > tolerance)
    if worst.size == 0:
        return None
    k = worst[np.lexsort((cols[worst], rows[worst]))[0]]
    return int(rows[k]), int(cols[k])


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
