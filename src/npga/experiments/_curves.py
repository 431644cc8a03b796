"""Curves out of the table, and their median with a band over draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = dict[str, Any]
GRID = 400


@dataclass(frozen=True)
class Curve:
    """The gap of one version against a count of work.

    Parameters
    ----------
    version
        Its name.
    x, gap
        Counts and relative distances to x*; the median when there are several draws.
    low, high
        The band: first and third quartile over draws; None with one draw.
    """

    version: str
    x: Array
    gap: Array
    low: Array | None = None
    high: Array | None = None


def curves(points: Iterable[Row], against: str) -> list[Curve]:
    """The chosen tuned curve of every version, in the order of the table.

    Parameters
    ----------
    points
        Rows of curves.csv.
    against
        "iteration" or "round".
    """
    found: dict[str, dict[int, tuple[list[float], list[float]]]] = {}
    for row in points:
        if row["setting"] == "tuned" and row["chosen"]:
            x, gap = found.setdefault(row["version"], {}).setdefault(row["repetition"], ([], []))
            x.append(row[against])
            gap.append(row["gap"])
    return [_merge(name, list(draws.values())) for name, draws in found.items()]


def _merge(name: str, draws: list[tuple[list[float], list[float]]]) -> Curve:
    if len(draws) == 1:
        return Curve(name, np.array(draws[0][0], dtype=np.float64), np.array(draws[0][1]))
    longest = max(x[-1] for x, _ in draws)
    grid = np.linspace(0.0, longest, GRID)
    # A run that has ended stays where it ended; all end alike, at the largest of the last gaps.
    last = max(gap[-1] for _, gap in draws)
    logs = np.array([np.interp(grid, x, np.log10(np.maximum(gap, last))) for x, gap in draws])
    low, middle, high = 10.0 ** np.percentile(logs, (25, 50, 75), axis=0)
    stop = int(np.argmax(middle <= 1.0001 * last)) + 1
    return Curve(name, grid[:stop], middle[:stop], low[:stop], high[:stop])
