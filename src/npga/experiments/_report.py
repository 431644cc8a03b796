"""From saved tables to the summary and the figures; nothing is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npga.errors import InputError
from npga.experiments import _markdown as markdown
from npga.experiments._figures import draw_bands, draw_gaps, draw_ratios
from npga.experiments._tables import read_table, write_text
from npga.experiments._verdict import advantages, verdict

Row = dict[str, Any]


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
    runs = read_table(folder / "summary.csv")
    about = json.loads((folder / "choices.json").read_text(encoding="utf-8"))
    report.runs[name] = runs
    report.verdicts[name] = verdict(runs)
    report.missed.extend(_missed(runs, about["target"]))
    write_text(folder / "summary.md", _text(runs, about, report.verdicts[name]))
    report.files.extend(folder / file for file in ("curves.csv", "summary.csv", "summary.md", "choices.json"))
    if figures:
        points, title = read_table(folder / "curves.csv"), about["title"]
        report.files.extend(draw_gaps(points, title, folder / "gap"))
        lines = advantages(runs)
        if len(about["draws"]) > 1:
            report.files.extend(draw_bands(points, title, folder / "bands"))
            report.files.extend(draw_ratios(lines, title, folder / "advantage") if lines else [])


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
        "made of L, has no such choice); the faster one is shown. DCPA is one point of P2D2's grid (c = 1, theta = 1), "
        "so that P2D2 cannot lose to it except by the tuner's fault.",
        markdown.tuned_table(runs),
        said,
        "### What was tuned",
        markdown.steps_table(runs),
    ]
    lines = advantages(runs)
    if lines:
        parts += ["### Times fewer than DCPA, to a gap of 1e-8", markdown.advantage_table(lines)]
    parts += [
        "## Certified steps",
        "Steps inside the best theorem that applies; the runs are of limited length and apart from those above.",
        markdown.certified_table(runs),
        "## Choices",
        "```json\n" + json.dumps(about["choices"], indent=1) + "\n```",
        "Every draw (rows, rank, condition number, seeds, links) is in choices.json.",
    ]
    return "\n\n".join(parts) + "\n"
