"""Descent without gradients: Nelder and Mead's method, made anew until it has nothing to gain.

The spectral radius has a kink wherever two eigenvalues change places, and its minima lie on such kinks, where a simplex
collapses before it has arrived. A new simplex with random directions moves on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[Any]
Found = tuple[float, Array]


def descend(
    function: Callable[[Array], float], start: Array, size: float, limit: int, rng: np.random.Generator
) -> Found:
    """Smallest value and its point, from a simplex of the given size that is turned at random.

    Parameters
    ----------
    function
        What is minimised; its values are logarithms, of which a thousandth does not matter.
    start, size
        First corner and length of the edges from it.
    limit
        Evaluations.
    rng
        Turns the simplex.
    """
    n = len(start)
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    options = {
        "maxfev": limit,
        "initial_simplex": start + size * np.vstack([np.zeros(n), turn]),
        "xatol": 1e-2,
        "fatol": 1e-3,
        "adaptive": n > 5,
    }
    found = minimize(function, start, method="Nelder-Mead", options=options)
    return float(found.fun), np.asarray(found.x)


def descend_again(
    function: Callable[[Array], float], best: Found, sizes: tuple[float, ...], limit: int, rng: np.random.Generator
) -> Found:
    """Go on from the best point with a new simplex of each size."""
    for size in sizes:
        best = min(best, descend(function, best[1], size, limit, rng), key=lambda pair: pair[0])
    return best


def spread(points: list[Array], widths: Array, count: int, distance: float) -> list[Array]:
    """The first points of a list that lie apart: by this part of the widths in some coordinate."""
    chosen: list[Array] = []
    for point in points:
        if len(chosen) < count and all(np.abs((point - one) / widths).max() > distance for one in chosen):
            chosen.append(point)
    return chosen
