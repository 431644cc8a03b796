"""Reading a topology: networkx graphs, edge lists and adjacency matrices become one sorted edge array."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError
from npga.networks._symmetric import first_asymmetric_pair

IntArray = npt.NDArray[np.int64]


class Topology(NamedTuple):
    """Agents 0..n-1, links (i, j) with i < j in lexicographic order, and what the user calls each agent."""

    n: int
    edges: IntArray
    labels: tuple[Hashable, ...]


def read_graph(graph: Any, n: int | None = None) -> Topology:
    """Topology of a networkx graph, a square array or sparse matrix, or an iterable of pairs."""
    if callable(getattr(graph, "is_directed", None)):
        return _from_networkx(graph)
    # An array of pairs could pass for an adjacency matrix ([[0, 1], [1, 2]]), so arrays mean one thing only.
    if sparse.issparse(graph) or isinstance(graph, np.ndarray):
        return from_adjacency(graph)
    if isinstance(graph, Iterable) and not isinstance(graph, str):
        return from_edges(graph, n)
    raise NetworkError(
        f"a graph of type {type(graph).__name__} arrived; expected a networkx Graph, pairs of agents, or a "
        "symmetric adjacency matrix: convert it to one of them"
    )


def from_edges(edges: Iterable[Any], n: int | None = None) -> Topology:
    """Topology of pairs of integers; duplicates count once and self-loops are ignored."""
    pairs = _as_pairs(edges)
    largest = int(pairs.max()) if pairs.size else -1
    n = largest + 1 if n is None else n
    if pairs.size and pairs.min() < 0:
        raise NetworkError(f"agent {int(pairs.min())} arrived in an edge; number the agents from 0 to n - 1")
    if largest >= n:
        raise NetworkError(f"agent {largest} arrived in an edge, but n = {n}; expected agents 0 to {n - 1}")
    return checked_topology(n, pairs)


def _as_pairs(edges: Iterable[Any]) -> IntArray:
    items = edges if isinstance(edges, np.ndarray) else list(edges)
    if len(items) == 0:
        return np.empty((0, 2), dtype=np.int64)
    try:
        pairs = np.asarray(items)
    except ValueError:
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise NetworkError(
            f"an edge list must hold pairs, and one entry is {items[0]!r}; write [(0, 1), (1, 2), ...], or "
            "pass an adjacency matrix as a numpy array to Network.from_adjacency"
        )
    if not np.issubdtype(pairs.dtype, np.integer):
        raise NetworkError(
            f"agents in an edge list must be integers, and {pairs[0, 0]!r} arrived; to use other labels pass "
            "networkx.Graph(edges)"
        )
    return pairs.astype(np.int64)


def from_adjacency(matrix: Any) -> Topology:
    """Topology of a symmetric matrix; the values are ignored beyond zero or not, and so is the diagonal."""
    A = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise NetworkError(
            f"an array given as a graph is an adjacency matrix and must be square, and shape {A.shape} arrived; "
            "for an array of pairs use Network.from_edges"
        )
    A = sparse.csr_array(A)
    if np.isnan(A.data).any():
        raise NetworkError("the adjacency matrix holds NaN; expected zero (no link) or a number (a link)")
    pattern = sparse.coo_array(A != 0)
    pair = first_asymmetric_pair(sparse.csr_array(pattern, dtype=np.float64), tolerance=0.0)
    if pair is not None:
        i, j = pair
        raise NetworkError(
            f"the adjacency matrix is not symmetric: entries ({i}, {j}) and ({j}, {i}) differ in being zero; "
            "links must work both ways: use (A + A.T) to keep every link"
        )
    rows, cols = pattern.coords
    return checked_topology(A.shape[0], np.column_stack([rows, cols]).astype(np.int64))


def _from_networkx(graph: Any) -> Topology:
    if graph.is_directed():
        raise NetworkError(
            f"a directed graph ({type(graph).__name__}) arrived; links must work both ways: pass graph.to_undirected()"
        )
    labels = tuple(graph.nodes())
    index = {label: i for i, label in enumerate(labels)}
    pairs = np.array([(index[a], index[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    return checked_topology(len(labels), pairs, labels)


def checked_topology(n: int, pairs: IntArray, labels: tuple[Hashable, ...] | None = None) -> Topology:
    """Sort the links, drop duplicates and self-loops, and refuse graphs on which nobody can agree."""
    if n < 1:
        raise NetworkError(f"a network of {n} agents arrived; expected at least one agent")
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keys = np.unique((low * n + high)[low < high])
    edges = np.column_stack(np.divmod(keys, n)).astype(np.int64).reshape(-1, 2)
    topology = Topology(n, edges, tuple(range(n)) if labels is None else labels)
    count, membership = components(n, edges)
    if count > 1:
        raise NetworkError(
            f"the graph is not connected: its {n} agents fall into {count} components, "
            f"{_describe(count, membership, topology.labels)}; add links between them, or keep one component"
        )
    return topology


def components(n: int, edges: IntArray) -> tuple[int, IntArray]:
    """Count the connected components and give the component of every agent."""
    from scipy.sparse import csgraph

    links = sparse.csr_array((np.ones(len(edges), dtype=np.int8), (edges[:, 0], edges[:, 1])), shape=(n, n))
    count, membership = csgraph.connected_components(links, directed=False)
    return int(count), np.asarray(membership, dtype=np.int64)


def _describe(count: int, membership: IntArray, labels: tuple[Hashable, ...], shown: int = 4) -> str:
    parts = []
    for k in range(min(count, shown)):
        members = np.flatnonzero(membership == k)
        names = ", ".join(str(labels[i]) for i in members[:6])
        parts.append(f"{{{names}, ... {len(members)} agents}}" if len(members) > 6 else f"{{{names}}}")
    return ", ".join(parts) + (f" and {count - shown} more" if count > shown else "")
