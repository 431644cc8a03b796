"""The paper's figures, from rows of the tables: gap against iterations and rounds on a log scale, bands and ratios.

Versions are told apart by colour, by dashes and by markers, so that one of them may be lost: as their rows of the
version table say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from npga import extras
from npga.experiments._protocol import BASELINE, CENTRAL
from npga.networks import Look, version_rows
from npga.networks import version as find_version

Array = NDArray[np.float64]
Row = dict[str, Any]

CENTRAL_LOOK = Look("PGA, centralised", "#444444", (0, (1, 1)), width=2.0)
GAP_COLUMNS = ("version", "against", "count", "gap", "low", "high")
RATIO_COLUMNS = ("version", "draw", "iterations", "rounds")
LEVEL = "1e-8"  # the gap to which versions are compared with DCPA
_GRID, _KEPT = 400, 60  # points of a median curve, and of them in the file beside its figure
_STRIP = 0.022  # part of the height that one letter of a label takes
_FONT = 8.5
_ACROSS = 4


def draw_gaps(points: Sequence[Row], title: str, stem: Path) -> list[Path]:
    """Draw both panels from the rows of curves.csv; returns the PNG and the PDF, `stem` with their endings."""
    plt = pyplot()
    draws = len({row["repetition"] for row in points})
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 5.2), sharey=True, layout="constrained")
    for axis, against, words in zip(axes, ("iteration", "round"), ("iterations", "communication rounds"), strict=True):
        shown = [curve for curve in gap_curves(points, against) if against == "iteration" or curve.version != CENTRAL]
        _panel(axis, shown, words)
    axes[0].set_ylabel(r"optimality gap  $\|x_k - x^\star\| \, / \, \|x_0 - x^\star\|$")
    note = "" if draws == 1 else f" (median of {draws} draws)"
    figure.suptitle(title + note, fontsize=11)
    return save(figure, stem)


def draw_bands(points: Sequence[Row], title: str, stem: Path) -> list[Path]:
    """Draw a small panel for each version: its median over draws, the quartiles around it, and DCPA's median."""
    plt = pyplot()
    found = {curve.version: curve for curve in gap_curves(points, "iteration")}
    rival = found.get(BASELINE)
    shown = [curve for name, curve in found.items() if name != BASELINE]
    rows = -(-len(shown) // _ACROSS)
    figure, axes = plt.subplots(
        rows, min(_ACROSS, len(shown)), figsize=(11.0, 0.5 + 2.1 * rows), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, curve in zip(axes.flat, shown, strict=False):
        if rival is not None:
            axis.plot(rival.x, rival.gap, color="black", linewidth=1.0)
        style = look_of(curve.version)
        axis.fill_between(curve.x, curve.low, curve.high, color=style.color, alpha=0.3, linewidth=0)
        axis.plot(curve.x, curve.gap, color=style.color, linewidth=1.8)
        axis.set_yscale("log")
        axis.set_title(look_of(curve.version).label, fontsize=_FONT + 1, color=style.color, loc="left", pad=3)
        _bare(axis, "y")
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    axes[0, 0].set_xlim(0.0, _right(list(found.values())))
    figure.supylabel("optimality gap", fontsize=10)
    figure.supxlabel("iterations", fontsize=10)
    draws = len({row["repetition"] for row in points})
    figure.suptitle(f"{title}: median of {draws} draws with quartiles, each beside DCPA (black)", fontsize=11)
    return save(figure, stem)


def draw_ratios(table: Iterable[Row], title: str, stem: Path) -> list[Path]:
    """Draw how many times fewer iterations and rounds than DCPA each row of `advantages` needs, a dot for each draw."""
    plt = pyplot()
    rows = list(table)
    names = [row["version"] for row in rows]
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 0.6 + 0.42 * len(names)), sharey=True, layout="constrained")
    for axis, count in zip(axes, ("iterations", "rounds"), strict=True):
        for height, row in enumerate(reversed(rows)):
            style, ratios = look_of(row["version"]), np.array(row[count])
            shift = np.linspace(-0.22, 0.22, len(ratios))
            axis.plot(ratios, height + shift, style.marker or "o", color=style.color, markersize=4, alpha=0.75,
                      markerfacecolor=style.color if style.filled else "white")  # fmt: skip
            middle = float(np.median(ratios))
            axis.plot([middle, middle], [height - 0.36, height + 0.36], color="black", linewidth=2.2)
        axis.axvline(1.0, color="0.4", linewidth=1.0)
        axis.set_xscale("log")
        ticks = [0.25, 0.5, 1, 2, 4, 8, 16]
        values = np.concatenate([row[count] for row in rows])
        inside = [t for t in ticks if values.min() / 1.5 <= t <= values.max() * 1.5]
        axis.set_xticks(inside, [f"{t:g}x" for t in inside])
        axis.set_xlabel(f"{count} of DCPA / {count} of the version, to a gap of 1e-8")
        _bare(axis, "x")
    axes[0].set_yticks(range(len(names)), [look_of(name).label for name in reversed(names)])
    figure.suptitle(f"{title}: right of 1x is better than DCPA (bar: median)", fontsize=11)
    return save(figure, stem)


def _panel(axis: Any, shown: Sequence[GapCurve], words: str) -> None:
    least = min(float(curve.gap.min()) for curve in shown)
    floor = 10.0 ** math.floor(math.log10(least) + 0.3)
    top = max(1.0, *(float(curve.gap.max()) for curve in shown)) * 2.0
    for curve in shown:
        _line(axis, curve)
    axis.set_yscale("log")
    axis.set_xlim(0.0, _right(shown))
    strip = _STRIP * max(len(_words(curve, axis.get_xlim()[1])) for curve in shown)
    axis.set_ylim(top * (floor / top) ** (1.0 / (1.0 - strip)), top)
    exponents = range(0, round(math.log10(floor)) - 1, -2)
    axis.set_yticks([10.0**e for e in exponents])
    axis.axhline(floor, color="0.75", linewidth=0.8)
    axis.set_xlabel(words)
    _bare(axis, "y")
    axis.figure.canvas.draw()
    _labels(axis, shown, floor)


def _right(shown: Sequence[GapCurve]) -> float:
    """The end of the axis: all curves, but one that is very slow does not squeeze the others."""
    ends = np.array([float(curve.x[-1]) for curve in shown])
    return float(min(1.03 * ends.max(), 6.0 * np.median(ends)))


def _line(axis: Any, curve: GapCurve) -> None:
    style = look_of(curve.version)
    axis.plot(
        curve.x, curve.gap, color=style.color, linestyle=style.dashes, linewidth=style.width, marker=style.marker,
        markersize=4.5, markevery=_marks(curve), markerfacecolor=style.color if style.filled else "white",
        zorder=2 if curve.version == BASELINE else 3,
    )  # fmt: skip


def _marks(curve: GapCurve) -> list[int]:
    """Places of the markers: evenly down the log scale, a little apart from one version to the next."""
    order = [*version_rows(), CENTRAL].index(curve.version)
    levels = 10.0 ** -(np.arange(0.0, 16.0, 2.0) + 0.5 + 0.13 * order)
    below = [np.flatnonzero(curve.gap <= level) for level in levels]
    return [int(places[0]) for places in below if places.size]


def _labels(axis: Any, shown: Sequence[GapCurve], floor: float) -> None:
    """Names under the ends of the lines, moved apart and joined to them by thin lines."""
    ordered = sorted(shown, key=lambda curve: float(curve.x[-1]))
    to_pixels, to_data = axis.transData, axis.transData.inverted()
    limit = axis.get_xlim()[1]
    ends = np.array([to_pixels.transform((min(curve.x[-1], limit), floor))[0] for curve in ordered])
    room = 1.25 * _FONT * axis.figure.dpi / 72.0
    left, right = (to_pixels.transform((end, floor))[0] for end in axis.get_xlim())
    places = spread(ends, room, left + room / 2, right)
    height = to_pixels.transform((0.0, floor))[1]
    for curve, place in zip(ordered, places, strict=True):
        style = look_of(curve.version)
        x, y = to_data.transform((place, height - 16.0))
        if curve.x[-1] <= limit:
            axis.plot([curve.x[-1], x], [curve.gap[-1], y], color=style.color, linewidth=0.7, zorder=1)
        axis.text(
            x, to_data.transform((place, height - 19.0))[1], _words(curve, limit), rotation=90, va="top",
            ha="center", fontsize=_FONT, color=style.color, fontweight="bold" if curve.version == BASELINE else None,
        )  # fmt: skip


def _words(curve: GapCurve, limit: float) -> str:
    """The label of a curve; one that ends beyond the axis says where."""
    name = look_of(curve.version).label
    return name if curve.x[-1] <= limit else f"{name} → {curve.x[-1]:,.0f}"


def spread(wanted: Array, room: float, left: float, right: float) -> Array:
    """Places at least `room` apart, in the order given and as near as possible to those wanted.

    Least squares subject to q_{k+1} - q_k >= room is isotonic regression of wanted_k - k room.
    """
    offsets = room * np.arange(len(wanted))
    level = isotonic_regression(wanted - offsets).x
    last = right - offsets[-1] if len(wanted) else right
    return np.asarray(np.clip(level, left, max(left, last)) + offsets)


def _bare(axis: Any, grid: str) -> None:
    """Two spines, a faint grid along one axis, and no small ticks."""
    axis.minorticks_off()
    axis.grid(axis=grid, color="0.9", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Any, stem: Path) -> list[Path]:
    """Write a figure as PNG and PDF without the date, so that the same table gives the same file."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for ending, options in ((".png", {"dpi": 130}), (".pdf", {"metadata": {"CreationDate": None}})):
        path = stem.with_name(stem.name + ending)
        figure.savefig(path, **options)
        files.append(path)
    pyplot().close(figure)
    return files


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into files."""
    extras.load("matplotlib", "plot", "drawing figures").use("agg")
    return extras.load("matplotlib.pyplot", "plot", "drawing figures")


@dataclass(frozen=True)
class GapCurve:
    """The gap of one version against a count x of work: the median, with the quartiles, if there are several draws."""

    version: str
    x: Array
    gap: Array
    low: Array | None = None
    high: Array | None = None


def gap_curves(points: Iterable[Row], against: str) -> list[GapCurve]:
    """The chosen tuned curve of every version, against "iteration" or "round", in the order of curves.csv."""
    found: dict[str, dict[int, tuple[list[float], list[float]]]] = {}
    for row in points:
        if row["setting"] == "tuned" and row["chosen"]:
            x, gap = found.setdefault(row["version"], {}).setdefault(row["repetition"], ([], []))
            x.append(row[against])
            gap.append(row["gap"])
    return [_merge(name, list(draws.values())) for name, draws in found.items()]


def _merge(name: str, draws: list[tuple[list[float], list[float]]]) -> GapCurve:
    if len(draws) == 1:
        return GapCurve(name, np.array(draws[0][0], dtype=np.float64), np.array(draws[0][1]))
    longest = max(x[-1] for x, _ in draws)
    grid = np.linspace(0.0, longest, _GRID)
    # A run that has ended stays where it ended; all end alike, at the largest of the last gaps.
    last = max(gap[-1] for _, gap in draws)
    logs = np.array([np.interp(grid, x, np.log10(np.maximum(gap, last))) for x, gap in draws])
    low, middle, high = 10.0 ** np.percentile(logs, (25, 50, 75), axis=0)
    stop = int(np.argmax(middle <= 1.0001 * last)) + 1
    return GapCurve(name, grid[:stop], middle[:stop], low[:stop], high[:stop])


def advantages(runs: Sequence[Row]) -> list[Row]:
    """For each version but DCPA: iterations and rounds of DCPA divided by its own, one number for each draw."""
    chosen = [row for row in runs if row["setting"] == "tuned" and row["chosen"] and row[f"rounds_{LEVEL}"] is not None]
    base = {row["repetition"]: row for row in chosen if row["version"] == BASELINE}
    table: dict[str, Row] = {}
    for row in chosen:
        if row["version"] in (BASELINE, CENTRAL) or row["repetition"] not in base:
            continue
        line = table.setdefault(row["version"], {"version": row["version"], "iterations": [], "rounds": []})
        for count in ("iterations", "rounds"):
            line[count].append(base[row["repetition"]][f"{count}_{LEVEL}"] / row[f"{count}_{LEVEL}"])
    return list(table.values())


def gap_rows(points: Sequence[Row]) -> Iterator[Row]:
    """What a figure of gaps shows: medians over draws, and the quartiles around them."""
    for against in ("iteration", "round"):
        for curve in gap_curves(points, against):
            bands = [np.full(len(curve.x), np.nan) if band is None else band for band in (curve.low, curve.high)]
            keep = np.unique(np.linspace(0, len(curve.x) - 1, _KEPT).round().astype(int))
            for values in zip(*(column[keep] for column in (curve.x, curve.gap, *bands)), strict=True):
                numbers = [float(f"{value:.6g}") for value in values]
                yield dict(zip(GAP_COLUMNS, (curve.version, against, *numbers), strict=True))


def ratio_rows(lines: Iterable[Row]) -> Iterator[Row]:
    """What a figure of ratios shows, draw by draw."""
    for line in lines:
        for draw, ratios in enumerate(zip(line["iterations"], line["rounds"], strict=True)):
            yield dict(zip(RATIO_COLUMNS, (line["version"], draw, *ratios), strict=True))


def look_of(name: str) -> Look:
    """Label, colour, dashes and marker of a version, from its row; of the method without a network."""
    return CENTRAL_LOOK if name == CENTRAL else find_version(name).look


def family_of(name: str) -> str:
    """Either "CTA" or "ATC"; "central" for the method without a network."""
    return "central" if name == CENTRAL else find_version(name).family
