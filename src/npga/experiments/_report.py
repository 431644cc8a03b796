"""From the tables of an experiment the verdict, the summary, the figures and what a report shows; nothing is run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import InputError
from npga.experiments._figures import (
    GAP_COLUMNS,
    RATIO_COLUMNS,
    Row,
    advantages,
    draw_bands,
    draw_gaps,
    draw_ratios,
    family_of,
    gap_curves,
    gap_rows,
    look_of,
    ratio_rows,
)
from npga.experiments._protocol import CENTRAL, LEVELS
from npga.experiments._tables import read_json, read_tables, write_rows
from npga.files import write_text
from npga.pages import (
    Section,
    curve_section,
    fact_section,
    line_style,
    provenance_section,
    table_section,
    text_section,
)

Cells = tuple[list[str], list[list[str]]]

CLEARLY = 1.5


@dataclass(frozen=True)
class Report:
    """What a reproduction found.

    Parameters
    ----------
    folder
        Where everything is.
    runs
        Summary rows by experiment.
    verdicts
        Whether the paper's conclusion holds, by experiment.
    missed
        Tuned runs that did not come within the target of their experiment, as sentences; empty when all did.
    files
        Tables, figures and texts that belong to the report.
    """

    folder: Path
    runs: dict[str, list[Row]]
    verdicts: dict[str, str]
    missed: list[str]
    files: list[Path]


def draw(folder: str | Path, names: Sequence[str] | None = None, *, figures: bool = True) -> Report:
    """Make the summaries and figures of a folder again from its tables.

    Parameters
    ----------
    folder
        What `reproduce` wrote.
    names
        Experiments; all that the folder holds by default.
    figures
        Draw figures (needs matplotlib).
    """
    folder = Path(folder)
    if names is None:
        names = [path.parent.name for path in sorted(folder.glob("*/summary.csv"))]
    if not names:
        raise InputError(f"{folder} holds no tables; expected a folder that `npga reproduce` wrote")
    report = Report(folder, {}, {}, [], [folder / "settings.json"])
    for name in names:
        _one(report, name, figures=figures)
    return report


def _one(report: Report, name: str, *, figures: bool) -> None:
    folder = report.folder / name
    runs, points, about = read_tables(folder)
    report.runs[name] = runs
    report.verdicts[name] = verdict(runs)
    report.missed.extend(_missed(runs, about["target"]))
    write_text(folder / "summary.md", _text(runs, about, report.verdicts[name]))
    report.files.extend(folder / file for file in ("curves.csv", "summary.csv", "summary.md", "choices.json"))
    title, lines = about["title"], advantages(runs)
    write_rows(folder / "gap.csv", GAP_COLUMNS, gap_rows(points))
    write_rows(folder / "advantage.csv", RATIO_COLUMNS, ratio_rows(lines))
    report.files.extend(folder / file for file in ("gap.csv", "advantage.csv"))
    if figures:
        report.files.extend(draw_gaps(points, title, folder / "gap"))
        if len(about["draws"]) > 1:
            report.files.extend(draw_bands(points, title, folder / "bands"))
            report.files.extend(draw_ratios(lines, title, folder / "advantage") if lines else [])


def folder_sections(folder: str | Path) -> list[Section]:
    """What a report shows of what `reproduce` wrote: for each experiment verdict, gaps on their way, and tables.

    Parameters
    ----------
    folder
        The folder of `reproduce`, or that of one experiment in it.
    """
    folder = Path(folder)
    tables = [folder / "summary.csv"] if (folder / "summary.csv").exists() else sorted(folder.glob("*/summary.csv"))
    if not tables:
        raise InputError(f"{folder} holds no tables; expected a folder that `npga reproduce` wrote")
    settings = [path for path in (folder / "settings.json", folder.parent / "settings.json") if path.exists()]
    parts = [part for table in tables for part in _experiment_sections(table.parent)]
    about = read_json(settings[0]) if settings else None
    return [*parts, provenance_section(about)]


def _experiment_sections(folder: Path) -> list[Section]:
    runs, points, about = read_tables(folder)
    title, draws = about["title"], len(about["draws"])
    counts = [("round", "communication rounds"), ("iteration", "iterations")]
    # a line for each count, since medians over draws have a grid of their own
    lines = [
        {"name": look_of(curve.version).label, "x": {"count": curve.x}, "y": {count: curve.gap}}
        | line_style(look_of(curve.version).color, look_of(curve.version).dashes)
        for count, _ in counts
        for curve in gap_curves(points, count)
        if count == "iteration" or curve.version != CENTRAL
    ]
    note = "Medians over the draws." if draws > 1 else "One draw."
    parts = [
        text_section(title, verdict(runs)),
        curve_section(
            f"{title}: gap on its way", [("count", "count")], counts, lines, note=note, words="against",
        ),
        table_section(f"{title}: tuned steps", *tuned_cells(runs), note),
        table_section(f"{title}: what was tuned", *steps_cells(runs), note),
    ]  # fmt: skip
    found = advantages(runs)
    if found:
        parts.append(table_section(f"{title}: times fewer than DCPA, to a gap of 1e-8", *advantage_cells(found)))
    return [*parts, fact_section(f"{title}: choices", list(about["choices"].items()))]


def _missed(runs: Sequence[Row], target: float) -> list[str]:
    return [
        f"{row['experiment']} draw {row['repetition']}: {row['version']} ended at a gap of {row['gap']:.1e} "
        f"({row['status']}), above {target:g}"
        for row in runs
        if row["setting"] == "tuned" and row["chosen"] and not (row["gap"] is not None and row["gap"] <= target)
    ]


def _tuner(runs: Sequence[Row]) -> str:
    """The methods of `npga.tune` that were used; one, unless the table was put together by hand."""
    return ", ".join(sorted({row["tuning_method"] for row in runs if row["setting"] == "tuned"}))


def _text(runs: Sequence[Row], about: dict[str, Any], said: str) -> str:
    draws = about["draws"]
    some = "" if len(draws) == 1 else f" Numbers are medians over {len(draws)} draws of rows and network."
    parts = [
        f"# {about['title']}",
        f"Theorems that the paper has in mind: {about['theorems']}.{some}",
        "## Tuned steps",
        f"Every version was tuned with the same method ({_tuner(runs)}) and budget on W and on W' = (I + W)/2 (DLM, "
        "made of L, has no such choice); the faster one is shown. DCPA is the slice c = 1, theta = 1 of P2D2, "
        "so that P2D2 cannot lose to it except by the tuner's fault.",
        markdown_table(*tuned_cells(runs)),
        said,
        "### What was tuned",
        markdown_table(*steps_cells(runs)),
    ]
    lines = advantages(runs)
    if lines:
        parts += ["### Times fewer than DCPA, to a gap of 1e-8", markdown_table(*advantage_cells(lines))]
    parts += [
        "## Certified steps",
        "Steps inside the best theorem that applies; the runs are of limited length and apart from those above.",
        markdown_table(*_certified_cells(runs)),
        "## Choices",
        "```json\n" + json.dumps(about["choices"], indent=1) + "\n```",
        "Every draw (rows, rank, condition number, seeds, links) is in choices.json.",
    ]
    return "\n\n".join(parts) + "\n"


def verdict(runs: Sequence[Row]) -> str:
    """Sentences on the paper's "certain versions of NPGA", much faster than DCPA in iterations and in rounds."""
    table = advantages(runs)
    draws = len({row["repetition"] for row in runs})
    if not table or any(len(line["iterations"]) < draws for line in table):
        return "DCPA or another version did not run, or did not reach 1e-8 in every draw: there is nothing to compare."
    both = np.array([np.minimum(line["iterations"], line["rounds"]) for line in table])
    clear = int((both.max(axis=0) >= CLEARLY).sum())
    best = table[int(np.argmax(np.median(both, axis=1)))]
    wins = int((np.minimum(best["iterations"], best["rounds"]) > 1.0).sum())
    return (
        f"In {clear} of {draws} draw{'s' if draws > 1 else ''} some version needs at least {CLEARLY:g} times fewer "
        f"iterations and rounds than DCPA. The best one over the draws is {look_of(best['version']).label}: "
        f"{np.median(best['iterations']):.2f} times fewer iterations and {np.median(best['rounds']):.2f} times fewer "
        f"rounds (median), better in both in {wins} of {draws}."
    )


def tuned_cells(runs: Sequence[Row]) -> Cells:
    """Iterations and rounds to each accuracy, and the three rates; medians over draws."""
    header = ["version", "family", "W", "rounds/iter"]
    header += [f"{count} to {level}" for count in ("iter", "rounds") for level in LEVELS]
    header += ["rate measured", "rate predicted", "rate certified"]
    lines = []
    for name, rows in _chosen(runs).items():
        cells = [look_of(name).label, family_of(name), _mixings(rows), str(rows[0]["rounds_per_iteration"])]
        cells += [_median(rows, f"{count}_{level}") for count in ("iterations", "rounds") for level in LEVELS]
        cells += [_rate(rows, "rate_measured"), _rate(rows, "rate_predicted")]
        own = [row for row in runs if row["setting"] == "certified" and row["version"] == name]
        cells.append(_rate(own, "rate_certified") if own else "no theorem")
        lines.append(cells)
    return header, lines


def steps_cells(runs: Sequence[Row]) -> Cells:
    """What each version was allowed to tune and what came out; medians over draws, and W against W'."""
    header = ["version", "alpha", "beta", "gamma", "theta", "c", "iter on W", "iter on W'", "tuning iterations"]
    lines = []
    for name, rows in _chosen(runs).items():
        tried = [row for row in runs if row["setting"] == "tuned" and row["version"] == name]
        cells = [
            look_of(name).label,
            *(_median(rows, step, "{:.3g}") for step in ("alpha", "beta", "gamma", "theta", "c")),
        ]
        for mixing in (("W", "L", "none"), ("W'",)):
            part = [row for row in tried if row["mixing"] in mixing]
            cells.append(_median([row if row["status"] == "converged" else {} for row in part], "iterations"))
        work: dict[int, int] = {}
        for row in tried:
            work[row["repetition"]] = work.get(row["repetition"], 0) + (row["tuning_work"] or 0)
        cells.append(_median([{"sum": total} for total in work.values()], "sum"))
        lines.append(cells)
    return header, lines


def _certified_cells(runs: Sequence[Row]) -> Cells:
    """The runs at the certified steps: what is promised, and how far a run of limited length came."""
    header = ["version", "W", "theorem", "standing", "rate certified", "iter promised to 1e-10", "iter run", "gap then"]
    lines = []
    for name in dict.fromkeys(row["version"] for row in runs):
        rows = [row for row in runs if row["setting"] == "certified" and row["version"] == name]
        if not rows:
            lines.append([look_of(name).label, "", "none", "", "", "", "", ""])
            continue
        theorems = ", ".join(sorted({str(row["theorem"]) for row in rows}))
        standings = ", ".join(sorted({str(row["standing"]) for row in rows}))
        promised = _median(rows, "certified_iterations_1e-10", "{:.2g}")
        cells = [look_of(name).label, _mixings(rows), theorems, standings, _rate(rows, "rate_certified"), promised]
        lines.append([*cells, _median(rows, "iterations"), _median(rows, "gap", "{:.2e}")])
    return header, lines


def advantage_cells(lines: Iterable[Row]) -> Cells:
    """Times fewer iterations and rounds than DCPA: median, least and largest over draws, and draws won."""
    header = ["version", "family"]
    header += [f"{count}: {what}" for count in ("iter", "rounds") for what in ("median", "least", "largest", "won")]
    rows = []
    for line in lines:
        cells = [look_of(line["version"]).label, family_of(line["version"])]
        for count in ("iterations", "rounds"):
            ratios = np.array(line[count])
            cells += [f"{value:.2f}" for value in (np.median(ratios), ratios.min(), ratios.max())]
            cells.append(f"{int((ratios > 1.0).sum())}/{len(ratios)}")
        rows.append(cells)
    return header, rows


def _chosen(runs: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in runs:
        if row["setting"] == "tuned" and row["chosen"]:
            found.setdefault(row["version"], []).append(row)
    return found


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


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *lines))
