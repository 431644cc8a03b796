"""The exchange on all links at once: E^T (w * (E u)) with the signed incidence matrix E."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array = npt.NDArray[Any]


class Incidence:
    """Signed incidence matrix E (m x n): row (i, j), i < j, holds +1 at i and -1 at j.

    (E^T (w * (E u)))_i = sum over neighbours j of w_ij (u_i - u_j). Written with differences it is exactly
    zero on agents that agree, so rounding cannot accumulate over iterations as it does with a product by
    I - W. Links are sorted, so CSR adds the terms of agent i in ascending order of its neighbours: one agent
    that adds w_ij (u_i - u_j) in that order gets the same bits.
    """

    def __init__(self, n: int, edges: npt.NDArray[np.int64]) -> None:
        self._n = n
        self._edges = edges
        self._cast: dict[np.dtype[Any], tuple[Any, Any]] = {}

    def apply(self, u: Array, weights: Array | None) -> Array:
        """E^T (w * (E u)) along the first axis; float32 stays float32, everything else becomes float64."""
        u = np.asarray(u)
        dtype = u.dtype if u.dtype == np.float32 else np.dtype(np.float64)
        E, E_transposed = self._matrices(dtype)
        gaps = E @ np.ascontiguousarray(u, dtype=dtype).reshape(self._n, -1)
        if weights is not None:
            gaps *= weights.astype(dtype, copy=False)[:, np.newaxis]
        return np.asarray(E_transposed @ gaps).reshape(u.shape)

    def _matrices(self, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        if dtype not in self._cast:
            m = len(self._edges)
            signs = np.tile(np.array([1, -1], dtype=dtype), m)
            E = sparse.csr_array((signs, self._edges.ravel(), 2 * np.arange(m + 1)), shape=(m, self._n))
            self._cast[dtype] = (E, sparse.csr_array(E.T))
        return self._cast[dtype]
