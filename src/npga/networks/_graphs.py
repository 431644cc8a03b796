"""Topologies: read from what the user has, or generated, and hop distances on them.

networkx graphs, edge lists and adjacency matrices become one sorted array of edges. Random graphs depend on nothing but
their seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError

IntArray = npt.NDArray[np.int64]
MAX_DRAWS = 1000
_SOURCES = 256  # agents from which ways are searched at once


class Topology(NamedTuple):
    """Agents 0..n-1, links (i, j) with i < j in lexicographic order, and what the user calls each agent."""

    n: int
    edges: IntArray
    labels: tuple[Hashable, ...]


def read_graph(graph: Any, n: int | None = None, connected: bool = True) -> Topology:
    """Topology of a networkx graph, a square array or sparse matrix, or an iterable of pairs."""
    if not connected:
        pairs = graph.edges if callable(getattr(graph, "is_directed", None)) else graph
        links = _as_pairs(pairs)
        size = len(graph) if n is None and pairs is not graph else n
        return checked_topology(size or int(links.max(initial=-1)) + 1, links, connected=False)
    if callable(getattr(graph, "is_directed", None)):
        return _from_networkx(graph)
    # Two pairs in an array could pass for an adjacency matrix ([[0, 1], [1, 2]]), so a square array is always that.
    pairs = isinstance(graph, np.ndarray) and graph.ndim == 2 and graph.shape[1] == 2 != graph.shape[0]
    if (sparse.issparse(graph) or isinstance(graph, np.ndarray)) and not pairs:
        return from_adjacency(graph)
    if isinstance(graph, Iterable) and not isinstance(graph, str):
        return from_edges(graph, n)
    raise NetworkError(
        f"a graph of type {type(graph).__name__} arrived; expected a networkx Graph, pairs of agents, or a "
        "symmetric adjacency matrix: convert it to one of them"
    )


def from_edges(edges: Iterable[Any], n: int | None = None) -> Topology:
    """Topology of pairs of integers; duplicates count once and self-loops are ignored.

    Pairs that are counted from 1 leave agent 0 without a link, so they can mean nothing else: the labels are 1 to n.
    """
    pairs = _as_pairs(edges)
    largest = int(pairs.max()) if pairs.size else -1
    if pairs.size and pairs.min() == 1 and n in (None, largest):
        return checked_topology(largest, pairs - 1, tuple(range(1, largest + 1)))
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


def first_asymmetric_pair(M: Any, tolerance: float) -> tuple[int, int] | None:
    """Find the first entry (i, j), i < j, of the sparse matrix `M` that differs from entry (j, i)."""
    gap = sparse.coo_array(sparse.triu(M - M.T, k=1))
    rows, cols = gap.coords
    worst = np.flatnonzero(np.abs(gap.data) > tolerance)
    if worst.size == 0:
        return None
    k = worst[np.lexsort((cols[worst], rows[worst]))[0]]
    return int(rows[k]), int(cols[k])


def _from_networkx(graph: Any) -> Topology:
    if graph.is_directed():
        raise NetworkError(
            f"a directed graph ({type(graph).__name__}) arrived; links must work both ways: pass graph.to_undirected()"
        )
    labels = tuple(graph.nodes())
    index = {label: i for i, label in enumerate(labels)}
    pairs = np.array([(index[a], index[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    return checked_topology(len(labels), pairs, labels)


def checked_topology(
    n: int, pairs: IntArray, labels: tuple[Hashable, ...] | None = None, connected: bool = True
) -> Topology:
    """Sort the links, drop duplicates and self-loops, and refuse graphs on which nobody can agree."""
    if n < 1:
        raise NetworkError(f"a network of {n} agents arrived; expected at least one agent")
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keys = np.unique((low * n + high)[low < high])
    edges = np.column_stack(np.divmod(keys, n)).astype(np.int64).reshape(-1, 2)
    topology = Topology(int(n), edges, tuple(range(n)) if labels is None else labels)
    count, membership = components(n, edges) if connected else (1, np.zeros(n, dtype=np.int64))
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


def path_edges(n: int) -> IntArray:
    """Links 0-1-2-...-(n-1)."""
    nodes = np.arange(require_size(n) - 1, dtype=np.int64)
    return np.column_stack([nodes, nodes + 1])


def ring_edges(n: int) -> IntArray:
    """Close the path into a cycle; two agents share one link, a lone agent has none."""
    closing = [[0, n - 1]] if n > 2 else []
    return np.concatenate([path_edges(n), np.array(closing, dtype=np.int64).reshape(-1, 2)])


def grid_edges(rows: int, cols: int) -> IntArray:
    """Agent r * cols + c sits in row r and column c and talks to the agents beside, above and below it."""
    count = require_size(rows, "rows") * require_size(cols, "cols")
    node = np.arange(count, dtype=np.int64).reshape(rows, cols)
    beside = np.column_stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    below = np.column_stack([node[:-1].ravel(), node[1:].ravel()])
    return np.concatenate([beside, below])


def star_edges(n: int) -> IntArray:
    """Link agent 0 with everyone."""
    leaves = np.arange(1, require_size(n), dtype=np.int64)
    return np.column_stack([np.zeros_like(leaves), leaves])


def complete_edges(n: int) -> IntArray:
    """Link everyone with everyone."""
    return np.column_stack(np.triu_indices(require_size(n), k=1)).astype(np.int64)


def erdos_renyi_edges(n: int, p: float, seed: int) -> IntArray:
    """One draw of G(n, p) in O(n + m): the gaps between links in the list of pairs are geometric."""
    pairs = n * (n - 1) // 2
    rng = np.random.default_rng(seed)
    block = int(pairs * p + 6.0 * math.sqrt(pairs * p) + 16)
    chosen = np.empty(0, dtype=np.int64)
    last = -1
    while last < pairs:
        # A gap longer than the list ends the draw; the cap keeps the running sum far from overflow.
        gaps = np.minimum(rng.geometric(p, size=block), pairs + 1)
        chosen = np.concatenate([chosen, last + np.cumsum(gaps)])
        last = int(chosen[-1])
    chosen = chosen[chosen < pairs]
    # Pair number k lies in the row of the largest i whose first pair (i, i + 1) has a number <= k.
    rows = np.arange(n, dtype=np.int64)
    first = rows * n - rows * (rows + 1) // 2
    i = np.searchsorted(first, chosen, side="right") - 1
    return np.column_stack([i, chosen - first[i] + i + 1])


def random_geometric_edges(n: int, radius: float, seed: int) -> IntArray:
    """Link points drawn uniformly in the unit square that lie within `radius` of each other."""
    import networkx as nx

    graph = nx.random_geometric_graph(n, radius, seed=seed)
    return np.array(list(graph.edges()), dtype=np.int64).reshape(-1, 2)


def barabasi_albert_edges(n: int, m: int, seed: int) -> IntArray:
    """Preferential attachment: each new agent links to `m` others, popular ones first; always connected."""
    import networkx as nx

    require_seed(seed)
    if not 1 <= m < require_size(n):
        raise NetworkError(f"barabasi_albert(n={n}, m={m}) arrived; expected 1 <= m < n")
    return np.array(list(nx.barabasi_albert_graph(n, m, seed=seed).edges()), dtype=np.int64).reshape(-1, 2)


def connected_erdos_renyi(n: int, p: float, seed: int) -> tuple[IntArray, int]:
    """Edges of the first connected draw of G(n, p), and its seed."""
    n = require_size(n)
    if not 0.0 < p <= 1.0:
        raise NetworkError(f"p = {p!r} arrived; expected a probability with 0 < p <= 1")
    needed = f"a connected graph needs p above about ln(n)/n = {math.log(n) / n:.3g}: raise p"
    return _first_connected(lambda s: erdos_renyi_edges(n, p, s), n, seed, f"G(n={n}, p={p:g})", needed)


def connected_geometric(n: int, radius: float, seed: int) -> tuple[IntArray, int]:
    """Edges of the first connected random geometric graph, and its seed."""
    n = require_size(n)
    if not radius > 0.0:
        raise NetworkError(f"radius = {radius!r} arrived; expected a positive number (the square has side 1)")
    enough = math.sqrt(math.log(n) / (math.pi * n))
    needed = f"a connected graph needs a radius above about sqrt(ln(n)/(pi n)) = {enough:.3g}: raise it"
    what = f"random_geometric(n={n}, radius={radius:g})"
    return _first_connected(lambda s: random_geometric_edges(n, radius, s), n, seed, what, needed)


def _first_connected(draw: Callable[[int], IntArray], n: int, seed: int, what: str, hint: str) -> tuple[IntArray, int]:
    """Edges of the first connected draw among `seed`, `seed + 1`, ... and the seed that gave them."""
    require_seed(seed)
    for used in range(seed, seed + MAX_DRAWS):
        edges = draw(used)
        if len(edges) >= n - 1 and components(n, edges)[0] == 1:
            return edges, used
    raise NetworkError(
        f"none of {MAX_DRAWS} draws of {what} (seeds {seed} to {seed + MAX_DRAWS - 1}) is connected; {hint}"
    )


def require_size(n: int, what: str = "n") -> int:
    """Return `n` as an int, refusing what is not a positive whole number."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise NetworkError(f"{what} = {n!r} arrived; expected a whole number of agents, at least 1")
    return int(n)


def require_seed(seed: int) -> None:
    """Refuse a seed that would not give the same graph twice."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise NetworkError(f"seed = {seed!r} arrived; expected a whole number >= 0, so that the draw can be repeated")


def is_positive(value: object) -> bool:
    """Whether `value` is a finite real number above zero; booleans are not numbers here."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value) and float(value) > 0


def diameter(links: Any) -> int:
    """Diameter of a connected graph given as a symmetric sparse matrix, from shortest ways, some agents at a time."""
    from scipy.sparse import csgraph

    n = links.shape[0]
    blocks = np.array_split(np.arange(n), -(-n // _SOURCES))
    return int(max(csgraph.shortest_path(links, method="D", unweighted=True, indices=own).max() for own in blocks))
