"""What is read off a curve: when it reached an accuracy, and how fast it fell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The regression leaves out the start, which is not linear yet, and the end, which is rounding.
FIT_FROM, FIT_TO = 1e-3, 1e-10


def reached(counts: Array, gap: Array, level: float) -> int | None:
    """The first recorded count from which on the gap stays at or below `level`; None if it does not.

    Parameters
    ----------
    counts
        Recorded iterations or rounds, ascending.
    gap
        Relative distances to x*.
    level
        The accuracy, such as 1e-8.
    """
    above = np.flatnonzero(~(gap <= level))
    first = int(above[-1]) + 1 if above.size else 0
    return int(counts[first]) if first < len(counts) else None


def measured_rate(iterations: Array, gap: Array) -> float:
    """Factor per iteration by least squares of ln(gap) between 1e-3 and 1e-10; nan with fewer than three points.

    The points are those from the first at or below 1e-3 to the last at or above 1e-10.
    """
    low, high = np.flatnonzero(gap <= FIT_FROM), np.flatnonzero(gap >= FIT_TO)
    if not low.size or high[-1] - low[0] < 2:
        return float("nan")
    part = slice(int(low[0]), int(high[-1]) + 1)
    k = iterations[part] - iterations[part].mean()
    return float(np.exp(k @ np.log(gap[part]) / (k @ k)))
