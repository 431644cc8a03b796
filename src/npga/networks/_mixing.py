"""Mixing weights, one number w_ij per link, and the symmetric matrices that they make.

    K = sum over links of w_ij (e_i - e_j)(e_i - e_j)^T,      (K u)_i = sum over neighbours j of w_ij (u_i - u_j),

is I - W for the mixing weights and L for unit weights. Built this way it is exactly symmetric, has the graph's
sparsity, and K 1 = 0, so that in its eigenvalues the vector of ones is deflated instead of searched for: small networks
are solved densely, large ones by Lanczos.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import InputError, NetworkError, nearest
from npga.extras import load
from npga.networks._graphs import Topology, first_asymmetric_pair, is_positive

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
TOLERANCE = 1e-10  # relative to the largest entry: below it, two entries are equal and one entry is zero
SMALLEST_WEIGHT = 1e-8  # a link that the fastest mixing would leave idle keeps this much
DENSE_LIMIT = 3000  # largest network whose whole spectrum is computed: 72 MB, a few seconds
LANCZOS_FROM = 400  # from here on two Lanczos runs beat one dense eigen-solve


# ------------------------------------------------------------------ weights by name


def named_weights(mixing: str, topology: Topology, c: float) -> FloatArray:
    """Weights of one of the named mixings."""
    rule = RULES.get(mixing)
    if rule is None:
        raise NetworkError(f"mixing={mixing!r} arrived; {nearest(mixing, RULES)}, or pass a symmetric matrix W")
    if not is_positive(c):
        raise NetworkError(f"c = {c!r} arrived; tau = max degree + c needs a finite number c > 0")
    return rule(topology, float(c))


def degrees(topology: Topology) -> npt.NDArray[np.int64]:
    """Count the neighbours of every agent."""
    return np.bincount(topology.edges.ravel(), minlength=topology.n).astype(np.int64)


def laplacian_tau(topology: Topology, c: float) -> float:
    """Largest degree plus c (Remark 1 of the paper)."""
    return float(degrees(topology).max()) + c


def _laplacian(topology: Topology, c: float) -> FloatArray:
    return np.full(len(topology.edges), 1.0 / laplacian_tau(topology, c))


def _metropolis(topology: Topology, _: float) -> FloatArray:
    largest = degrees(topology)[topology.edges].max(axis=1, initial=0)
    return np.asarray(1.0 / (1.0 + largest))


def _best_constant(topology: Topology, _: float) -> FloatArray:
    # Xiao & Boyd 2004, section 4.1: balances the two ends of the spectrum of I - w L.
    ones = np.ones(len(topology.edges))
    smallest, largest = extremes(weighted_laplacian(topology.n, topology.edges, ones))
    return 2.0 / (smallest + largest) * ones if topology.n > 1 else ones


def _fastest(topology: Topology, _: float) -> FloatArray:
    # Xiao & Boyd 2004, problem (17): minimise s subject to -s I <= W - 11^T/n <= s I over the link weights.
    cp = load("cvxpy", "cvxpy", "mixing='fastest' (a semidefinite program)")
    n, m = topology.n, len(topology.edges)
    if m == 0:
        return np.empty(0)
    E = np.zeros((m, n))
    E[np.arange(m), topology.edges[:, 0]], E[np.arange(m), topology.edges[:, 1]] = 1.0, -1.0
    w, s = cp.Variable(m), cp.Variable()
    deviation = np.eye(n) - 1.0 / n - E.T @ cp.diag(w) @ E
    program = cp.Problem(cp.Minimize(s), [deviation << s * np.eye(n), deviation >> -s * np.eye(n)])
    program.solve(solver=cp.CLARABEL)
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise NetworkError(
            f"the semidefinite program of mixing='fastest' ended with status {program.status!r} on {n} "
            f"agents and {m} links; use mixing='best-constant' or 'metropolis'"
        )
    weights = np.asarray(w.value, dtype=np.float64)
    return np.where(np.abs(weights) < SMALLEST_WEIGHT, SMALLEST_WEIGHT, weights)


RULES: dict[str, Callable[[Topology, float], FloatArray]] = {
    "laplacian": _laplacian,
    "metropolis": _metropolis,
    "best-constant": _best_constant,
    "fastest": _fastest,
}


# ------------------------------------------------------------------ weights of a given matrix


def matrix_weights(matrix: Any, topology: Topology) -> FloatArray:
    """Weights of the user's own W, refused unless it is a mixing matrix of this graph."""
    W = read_symmetric(matrix, "W", NetworkError)
    if W.shape[0] != topology.n:
        raise NetworkError(f"W has shape {W.shape} and the graph {topology.n} agents; expected one row per agent")
    require_row_sums(W, 1.0, "W", NetworkError)
    weights = entries_on_edges(W, topology.edges, "W", NetworkError)
    idle = np.flatnonzero(weights == 0.0)
    if idle.size:
        i, j = topology.edges[idle[0]].tolist()
        raise NetworkError(
            f"W is zero at ({i}, {j}), and agents {i} and {j} share a link; expected a non-zero weight: "
            "remove the link from the graph, or pass graph=None to read the graph off W"
        )
    _require_consensus(topology, weights, W.diagonal())
    return weights


def _require_consensus(topology: Topology, weights: FloatArray, diagonal: FloatArray) -> None:
    """Refuse W unless null(I - W) = span(1) and -I < W <= I.

    Positive entries on the links and the diagonal of a connected graph imply both (Perron-Frobenius, and
    Gershgorin: every eigenvalue is at least 2 min w_ii - 1), so that case costs no eigen-solve.
    """
    if weights.min(initial=1.0) > 0 and diagonal.min() > 0:
        return
    smallest, largest = extremes(weighted_laplacian(topology.n, topology.edges, weights))
    if weights.min(initial=1.0) < 0 and smallest <= TOLERANCE:
        raise NetworkError(
            f"W has the eigenvalue {1.0 - smallest:.12g} off the vector of ones; expected all others below "
            "1, so that null(I - W) = span(1) and the agents agree: use fewer or smaller negative weights"
        )
    if largest >= 2.0 - TOLERANCE:
        raise NetworkError(
            f"W has the eigenvalue {1.0 - largest:.12g}; expected more than -1, or averaging never settles: "
            "use (I + W)/2 instead"
        )


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


# ------------------------------------------------------------------ products and eigenvalues


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


def read_only(matrix: Any) -> Any:
    """The array or sparse matrix, which nobody can write to any more."""
    (matrix.data if sparse.issparse(matrix) else matrix).flags.writeable = False
    return matrix


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
    values = np.linalg.eigvalsh(K.toarray())
    values[0] = 0.0
    found: FloatArray = read_only(values)
    return found


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
