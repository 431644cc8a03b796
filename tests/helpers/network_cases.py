"""Graphs and versions that the tests of this folder share."""

import numpy as np
from hypothesis import strategies as st

from npga.networks import Network, version

# Rounds column of the paper's Table II, copied by hand: the code derives it and must agree.
PAPER_ROUNDS = {
    "diging": 2,
    "extra": 1,
    "dlm": 1,
    "p2d2": 1,
    "aug-dgm": 2,
    "atc-tracking": 2,
    "exact-diffusion": 1,
    "nids": 1,
    "npga-i": 2,
    "npga-ii": 2,
}
TEN = tuple(PAPER_ROUNDS)


def table_formulas(name, W, L, beta, c):
    """B^2, C and D of the paper's Table II in dense numpy, typed again from the paper."""
    identity, zero = np.eye(len(W)), np.zeros_like(W)
    gap = identity - W
    c = np.nan if c is None else c  # rows without c must not use it
    return {
        "diging": (gap @ gap, identity - W @ W, identity),
        "extra": (gap / 2, gap / 2, identity),
        "dlm": (c * beta * L, c * beta * L, identity),
        "p2d2": (c / 2 * gap, gap / 2, identity),
        "aug-dgm": (gap @ gap, zero, W @ W),
        "atc-tracking": (gap @ gap, gap, W),
        "exact-diffusion": (gap / 2, zero, (identity + W) / 2),
        "nids": (c * gap, zero, identity - c * gap),
        "npga-i": (gap, zero, W @ W),
        "npga-ii": (gap, gap, W),
        "dcpa": (gap / 2, gap / 2, identity),
        "dcda": (gap / 2, zero, (identity + W) / 2),
    }[name]


def row(name):
    """A table row, with a c that is not its default where there is one."""
    return version(name, c=0.3 if name in ("dlm", "p2d2", "nids") else None)


@st.composite
def connected_edges(draw, largest=12):
    """Edges of a random connected graph: a random tree and some more links."""
    n = draw(st.integers(1, largest))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    return n, tree + draw(st.lists(pair, max_size=2 * n))


@st.composite
def networks(draw, largest=12):
    """A random network with one of the cheap mixings, lazy or not."""
    n, edges = draw(connected_edges(largest))
    mixing = draw(st.sampled_from(["laplacian", "metropolis", "best-constant"]))
    network = Network.from_edges(edges, n, mixing, c=draw(st.floats(0.1, 3.0)))
    return network.lazy() if draw(st.booleans()) else network
