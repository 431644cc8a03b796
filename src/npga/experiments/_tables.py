"""Tables as CSV files, and what is read off them: curves with bands, and whether the paper's conclusion holds.

The same rows give the same bytes, and what is read is what was written.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.experiments._protocol import BASELINE, CENTRAL, LEVELS
from npga.files import write_text
from npga.networks import Look
from npga.networks import version as find_version

Array = NDArray[np.float64]
Row = dict[str, Any]

CENTRAL_LOOK = Look("PGA, centralised", "#444444", (0, (1, 1)), width=2.0)

LABELS = ("experiment", "repetition", "version", "setting", "mixing", "chosen")
CURVE_COLUMNS = (*LABELS, "iteration", "round", "gap", "kkt", "consensus", "objective")
SUMMARY_COLUMNS = (
    *LABELS,
    "status",
    "iterations",
    "rounds",
    "rounds_per_iteration",
    "gap",
    *(f"{count}_{level}" for level in LEVELS for count in ("iterations", "rounds")),
    "rate_measured",
    "rate_predicted",
    "rate_certified",
    "theorem",
    "standing",
    "certified_iterations_1e-10",
    "alpha",
    "beta",
    "gamma",
    "theta",
    "c",
    "tuning_method",
    "tuning_work",
    "tuning_message",
)
_TEXT = {
    "experiment",
    "version",
    "setting",
    "mixing",
    "status",
    "theorem",
    "standing",
    "tuning_method",
    "tuning_message",
}
_WHOLE = {
    "repetition",
    "chosen",
    "iteration",
    "round",
    "iterations",
    "rounds",
    "rounds_per_iteration",
    "tuning_method",
    "tuning_work",
} | {f"{count}_{level}" for level in LEVELS for count in ("iterations", "rounds")}
GRID = 400
LEVEL = "1e-8"
CLEARLY = 1.5


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows; a number is written with the digits that give it back, what is missing or nan as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_text(path, text.getvalue())


def read_rows(path: Path) -> list[Row]:
    """Read rows back, numbers as numbers and empty cells as None."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a table that `npga reproduce` wrote")
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _value(name: str, cell: str) -> Any:
    if cell == "":
        return None
    if name in _TEXT:
        return cell
    return int(cell) if name in _WHOLE else float(cell)


@dataclass(frozen=True)
class GapCurve:
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


def gap_curves(points: Iterable[Row], against: str) -> list[GapCurve]:
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


def _merge(name: str, draws: list[tuple[list[float], list[float]]]) -> GapCurve:
    if len(draws) == 1:
        return GapCurve(name, np.array(draws[0][0], dtype=np.float64), np.array(draws[0][1]))
    longest = max(x[-1] for x, _ in draws)
    grid = np.linspace(0.0, longest, GRID)
    # A run that has ended stays where it ended; all end alike, at the largest of the last gaps.
    last = max(gap[-1] for _, gap in draws)
    logs = np.array([np.interp(grid, x, np.log10(np.maximum(gap, last))) for x, gap in draws])
    low, middle, high = 10.0 ** np.percentile(logs, (25, 50, 75), axis=0)
    stop = int(np.argmax(middle <= 1.0001 * last)) + 1
    return GapCurve(name, grid[:stop], middle[:stop], low[:stop], high[:stop])


def advantages(runs: Sequence[Row]) -> list[Row]:
    """For each version but DCPA: iterations and rounds of DCPA divided by its own, one number for each draw.

    Parameters
    ----------
    runs
        Rows of summary.csv.
    """
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


def verdict(runs: Sequence[Row]) -> str:
    """Sentences on "certain ATC versions are significantly faster than DCPA in iterations and in rounds"."""
    table = advantages(runs)
    atc = [line for line in table if family_of(line["version"]) == "ATC"]
    draws = len({row["repetition"] for row in runs})
    if not atc or any(len(line["iterations"]) < draws for line in atc):
        return "DCPA or an ATC version did not run, or did not reach 1e-8 in every draw: there is nothing to compare."
    both = np.array([np.minimum(line["iterations"], line["rounds"]) for line in atc])
    clear = int((both.max(axis=0) >= CLEARLY).sum())
    best = atc[int(np.argmax(np.median(both, axis=1)))]
    wins = int((np.minimum(best["iterations"], best["rounds"]) > 1.0).sum())
    return (
        f"In {clear} of {draws} draw{'s' if draws > 1 else ''} some ATC version needs at least {CLEARLY:g} times fewer "
        f"iterations and rounds than DCPA. The best one over the draws is {look_of(best['version']).label}: "
        f"{np.median(best['iterations']):.2f} times fewer iterations and {np.median(best['rounds']):.2f} times fewer "
        f"rounds (median), better in both in {wins} of {draws}."
    )


def look_of(name: str) -> Look:
    """Label, colour, dashes and marker of a version, from its row; of the method without a network."""
    return CENTRAL_LOOK if name == CENTRAL else find_version(name).look


def family_of(name: str) -> str:
    """Either "CTA" or "ATC"; "central" for the method without a network."""
    return "central" if name == CENTRAL else find_version(name).family
