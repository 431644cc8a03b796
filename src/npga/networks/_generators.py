"""Edges of the usual graphs, as arrays of pairs; random ones depend on nothing but their seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from npga.errors import NetworkError
from npga.networks._graph import components

IntArray = npt.NDArray[np.int64]
MAX_DRAWS = 1000


def path_edges(n: int) -> IntArray:
    """Links 0-1-2-...-(n-1)."""
    nodes = np.arange(n - 1, dtype=np.int64)
    return np.column_stack([nodes, nodes + 1])


def ring_edges(n: int) -> IntArray:
    """Close the path into a cycle; two agents share one link, a lone agent has none."""
    closing = [[0, n - 1]] if n > 2 else []
    return np.concatenate([path_edges(n), np.array(closing, dtype=np.int64).reshape(-1, 2)])


def grid_edges(rows: int, cols: int) -> IntArray:
    """Agent r * cols + c sits in row r and column c and talks to the agents beside, above and below it."""
    node = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    beside = np.column_stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    below = np.column_stack([node[:-1].ravel(), node[1:].ravel()])
    return np.concatenate([beside, below])


def star_edges(n: int) -> IntArray:
    """Link agent 0 with everyone."""
    leaves = np.arange(1, n, dtype=np.int64)
    return np.column_stack([np.zeros_like(leaves), leaves])


def complete_edges(n: int) -> IntArray:
    """Link everyone with everyone."""
    return np.column_stack(np.triu_indices(n, k=1)).astype(np.int64)


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
    if not 1 <= m < n:
        raise NetworkError(f"barabasi_albert(n={n}, m={m}) arrived; expected 1 <= m < n")
    return np.array(list(nx.barabasi_albert_graph(n, m, seed=seed).edges()), dtype=np.int64).reshape(-1, 2)


def connected_erdos_renyi(n: int, p: float, seed: int) -> tuple[IntArray, int]:
    """Edges of the first connected draw of G(n, p), and its seed."""
    if not 0.0 < p <= 1.0:
        raise NetworkError(f"p = {p!r} arrived; expected a probability with 0 < p <= 1")
    needed = f"a connected graph needs p above about ln(n)/n = {math.log(n) / n:.3g}: raise p"
    return _first_connected(lambda s: erdos_renyi_edges(n, p, s), n, seed, f"G(n={n}, p={p:g})", needed)


def connected_geometric(n: int, radius: float, seed: int) -> tuple[IntArray, int]:
    """Edges of the first connected random geometric graph, and its seed."""
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
