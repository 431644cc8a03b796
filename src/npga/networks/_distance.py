"""Hop distances: the exact diameter with as few searches as possible."""

from __future__ import annotations

from typing import Any

import numpy as np


def diameter(links: Any) -> int:
    """Diameter of a connected graph given as a symmetric sparse matrix.

    A search from v gives ecc(v) and, for every u at distance d, max(ecc(v) - d, d) <= ecc(u) <= ecc(v) + d
    (Takes & Kosters 2011). Agents whose upper bound cannot beat the largest eccentricity seen are dropped, so
    irregular graphs need a handful of searches; a ring, where nobody differs, needs one per agent.
    """
    from scipy.sparse import csgraph

    n = links.shape[0]
    lower, upper = np.zeros(n), np.full(n, np.inf)
    best, farthest_first = 0.0, True
    while (candidates := np.flatnonzero(upper > best)).size:
        pick = np.argmax(upper[candidates]) if farthest_first else np.argmin(lower[candidates])
        farthest_first = not farthest_first
        v = candidates[pick]
        distance = csgraph.dijkstra(links, directed=False, unweighted=True, indices=v)
        eccentricity = distance.max()
        best = max(best, eccentricity)
        lower = np.maximum(lower, np.maximum(eccentricity - distance, distance))
        upper = np.minimum(upper, eccentricity + distance)
        upper[v] = eccentricity
    return int(best)
