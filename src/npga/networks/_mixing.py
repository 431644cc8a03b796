"""Mixing weights: one number w_ij per link, from which W = I - sum of w_ij (e_i - e_j)(e_i - e_j)^T follows.

Built this way W is exactly symmetric, has the graph's sparsity, and its rows sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from npga.errors import MissingExtraError, NetworkError, nearest
from npga.networks._graphs import Topology, is_positive
from npga.networks._spectrum import (
    TOLERANCE,
    entries_on_edges,
    extremes,
    read_symmetric,
    require_row_sums,
    weighted_laplacian,
)

FloatArray = npt.NDArray[np.float64]
SMALLEST_WEIGHT = 1e-8  # a link that the fastest mixing would leave idle keeps this much


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
    smallest, largest = extremes(_unit_laplacian(topology))
    return np.full(len(topology.edges), 2.0 / (smallest + largest) if topology.n > 1 else 1.0)


def _fastest(topology: Topology, _: float) -> FloatArray:
    # Xiao & Boyd 2004, problem (17): minimise s subject to -s I <= W - 11^T/n <= s I over the link weights.
    try:
        cp: Any = import_module("cvxpy")
    except ImportError:
        raise MissingExtraError("cvxpy", "cvxpy", "mixing='fastest' (a semidefinite program)") from None
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


def _unit_laplacian(topology: Topology) -> Any:
    return weighted_laplacian(topology.n, topology.edges, np.ones(len(topology.edges)))


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
