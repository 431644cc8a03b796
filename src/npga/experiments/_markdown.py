"""Summary tables in Markdown, from the rows of summary.csv."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npga.experiments._style import family_of, label_of
from npga.experiments._unit import LEVELS

Row = dict[str, Any]


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *lines))


def tuned_table(runs: Sequence[Row]) -> str:
    """Iterations and rounds to each accuracy, and the three rates; medians over draws."""
    certified = {row["version"]: row for row in runs if row["setting"] == "certified"}
    header = ["version", "family", "W", "rounds/iter"]
    header += [f"{count} to {level}" for count in ("iter", "rounds") for level in LEVELS]
    header += ["rate measured", "rate predicted", "rate certified"]
    lines = []
    for name, rows in _chosen(runs).items():
        cells = [label_of(name), family_of(name), _mixings(rows), str(rows[0]["rounds_per_iteration"])]
        cells += [_median(rows, f"{count}_{level}") for count in ("iterations", "rounds") for level in LEVELS]
        cells += [_rate(rows, "rate_measured"), _rate(rows, "rate_predicted")]
        own = [row for row in runs if row["setting"] == "certified" and row["version"] == name]
        cells.append(_rate(own, "rate_certified") if name in certified else "no theorem")
        lines.append(cells)
    return table(header, lines)


def steps_table(runs: Sequence[Row]) -> str:
    """What each version was allowed to tune and what came out; medians over draws, and W against W'."""
    header = ["version", "alpha", "beta", "gamma", "theta", "c", "iter on W", "iter on W'", "tuning iterations"]
    lines = []
    for name, rows in _chosen(runs).items():
        tried = [row for row in runs if row["setting"] == "tuned" and row["version"] == name]
        cells = [label_of(name), *(_median(rows, step, "{:.3g}") for step in ("alpha", "beta", "gamma", "theta", "c"))]
        for mixing in (("W", "L", "none"), ("W'",)):
            part = [row for row in tried if row["mixing"] in mixing]
            cells.append(_median([row if row["status"] == "converged" else {} for row in part], "iterations"))
        cells.append(_median([{"sum": _total(tried, draw)} for draw in {row["repetition"] for row in tried}], "sum"))
        lines.append(cells)
    return table(header, lines)


def certified_table(runs: Sequence[Row]) -> str:
    """The runs at the certified steps: what is promised, and how far a run of limited length came."""
    header = ["version", "W", "theorem", "standing", "rate certified", "iter promised to 1e-10", "iter run", "gap then"]
    lines = []
    for name in dict.fromkeys(row["version"] for row in runs):
        rows = [row for row in runs if row["setting"] == "certified" and row["version"] == name]
        if not rows:
            lines.append([label_of(name), "", "none", "", "", "", "", ""])
            continue
        theorems = ", ".join(sorted({str(row["theorem"]) for row in rows}))
        standings = ", ".join(sorted({str(row["standing"]) for row in rows}))
        promised = _median(rows, "certified_iterations_1e-10", "{:.2g}")
        cells = [label_of(name), _mixings(rows), theorems, standings, _rate(rows, "rate_certified"), promised]
        lines.append([*cells, _median(rows, "iterations"), _median(rows, "gap", "{:.2e}")])
    return table(header, lines)


def advantage_table(lines: Iterable[Row]) -> str:
    """Times fewer iterations and rounds than DCPA: median, least and largest over draws, and draws won."""
    header = ["version", "family"]
    header += [f"{count}: {what}" for count in ("iter", "rounds") for what in ("median", "least", "largest", "won")]
    rows = []
    for line in lines:
        cells = [label_of(line["version"]), family_of(line["version"])]
        for count in ("iterations", "rounds"):
            ratios = np.array(line[count])
            cells += [f"{value:.2f}" for value in (np.median(ratios), ratios.min(), ratios.max())]
            cells.append(f"{int((ratios > 1.0).sum())}/{len(ratios)}")
        rows.append(cells)
    return table(header, rows)


def _chosen(runs: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in runs:
        if row["setting"] == "tuned" and row["chosen"]:
            found.setdefault(row["version"], []).append(row)
    return found


def _total(rows: Sequence[Row], draw: int) -> int:
    return sum(row["tuning_work"] or 0 for row in rows if row["repetition"] == draw)


def _median(rows: Sequence[Row], column: str, form: str = "{:.0f}") -> str:
    """The median over draws; a dash when a draw has no value."""
    values = [row.get(column) for row in rows]
    if not values or any(value is None for value in values):
        return "-"
    return form.format(float(np.median(np.array(values, dtype=np.float64))))


def _rate(rows: Sequence[Row], column: str) -> str:
    """A rate, as 1 - gap where five digits would round it to one."""
    values = [row[column] for row in rows if row[column] is not None]
    if not values:
        return "-"
    middle = float(np.median(values))
    return f"1 - {1.0 - middle:.1e}" if middle > 0.99995 else f"{middle:.5f}"


def _mixings(rows: Sequence[Row]) -> str:
    """Which mixing matrix was chosen, with counts when the draws differ."""
    names = [row["mixing"] for row in rows]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return names[0] if len(counts) == 1 else ", ".join(f"{name} ({count})" for name, count in counts.items())
