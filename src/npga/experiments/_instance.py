"""One draw of an experiment: the problem, the network, the solution, and every fact worth recording."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network
from npga.problem import Problem
from npga.solver import Reference

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    """What one repetition of an experiment runs on.

    Parameters
    ----------
    problem, network
        P1 and the graph.
    reference
        x* and lam*, from a centralised method.
    facts
        Rows drawn, rank, condition number, seeds, links, parameters, accuracy of x*: plain numbers and text.
    """

    problem: Problem
    network: Network
    reference: Reference
    facts: dict[str, Any]

    @property
    def solution(self) -> Array:
        """The point x* that gaps are measured to."""
        return self.reference.x


def seed_of(seed: int, *axes: str | int) -> int:
    """A 32-bit seed for one named axis, such as ("ridge", "network", 3).

    It is a digest, so that neighbouring repetitions share nothing: a network that is redrawn with seed + 1 until it is
    connected does not run into the draw of the next repetition.
    """
    text = "/".join(str(part) for part in (seed, *axes))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def draw_rows(X: Array, samples: int, seed: int, *, full_rank: bool) -> tuple[NDArray[np.int64], int]:
    """Ascending row numbers of a draw without replacement, and how many draws it took to reach full row rank.

    Parameters
    ----------
    X
        The table to draw from, with its column of ones.
    samples
        Number of rows p.
    seed
        Seed of the draw.
    full_rank
        Whether to draw again until the rows are linearly independent.
    """
    if not 1 <= samples <= len(X):
        raise InputError(f"{samples} samples were asked for; expected between 1 and the {len(X)} rows of the table")
    rng = np.random.default_rng(seed)
    for draw in range(1, 1001):
        rows = np.sort(rng.choice(len(X), samples, replace=False))
        if not full_rank or np.linalg.matrix_rank(X[rows]) == samples:
            return rows, draw
    raise InputError(
        f"none of 1000 draws of {samples} rows has full row rank; expected at most {X.shape[1]} samples, the number of "
        "columns"
    )


def with_intercept(X: Array) -> Array:
    """The table with a last column of ones: the paper's X = [X_raw, 1]."""
    return np.column_stack([X, np.ones(len(X))])


def divide(X: Array, sizes: Sequence[int]) -> list[Array]:
    """X = [X_1, ..., X_n] by numbers of columns."""
    return [np.ascontiguousarray(block) for block in np.split(X, np.cumsum(sizes)[:-1], axis=1)]


def matrix_facts(X: Array) -> dict[str, Any]:
    """Rank, and condition number over the singular values that are not zero."""
    values = np.linalg.svd(X, compute_uv=False)
    rank = int(np.linalg.matrix_rank(X))
    return {"shape": list(X.shape), "rank": rank, "condition_number": float(values[0] / values[rank - 1])}


def network_facts(network: Network) -> dict[str, Any]:
    """What is needed to make the network again, and its spectrum's ends."""
    least, second = network.extreme_eigenvalues()
    return {
        "agents": network.n,
        "links": len(network.edges),
        "edges": network.edges.tolist(),
        "mixing": network.mixing,
        "tau": network.tau,
        "network_seed_used": network.seed,
        "smallest_eigenvalue_of_W": least,
        "second_eigenvalue_of_W": second,
    }
