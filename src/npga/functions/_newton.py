"""Roots of increasing scalar functions, many at once: the engine of every prox without a closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npga.functions._base import Array

# Newton needs about 20 steps in the worst case met here; what is left after 60 is bisected.
NEWTON_STEPS = 60


def increasing_root(
    residual: Callable[[Array], tuple[Array, Array, Array]], lower: Array, upper: Array, start: Array
) -> Array:
    """Solve F(v) = 0 in every coordinate by Newton's method kept inside a shrinking bracket.

    A coordinate is finished when |F| is at most the rounding error of its own evaluation, or when the next
    step would not change v. Bisection takes over where Newton leaves the bracket or is slow; it ends
    because a bracket between two neighbouring floats has no midpoint.

    Parameters
    ----------
    residual
        v -> (F(v), F'(v), rounding error of F(v)), with F' > 0.
    lower, upper
        Bracket: F(lower) <= 0 <= F(upper).
    start
        First guess inside the bracket.
    """
    v, eps, step = start, np.finfo(start.dtype).eps, 0
    while True:
        F, slope, noise = residual(v)
        lower = np.where(F < 0.0, v, lower)
        upper = np.where(F > 0.0, v, upper)
        middle = lower + 0.5 * (upper - lower)
        newton = v - F / slope
        inside = (lower <= newton) & (newton <= upper)
        following = np.where(inside & (step < NEWTON_STEPS), newton, middle)
        finished = (np.abs(F) <= noise) | np.isnan(F) | (np.abs(following - v) <= eps * np.abs(v))
        if np.all(finished):
            return v
        v, step = np.where(finished, v, following), step + 1
