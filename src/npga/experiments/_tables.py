"""Tables as CSV files: the same rows give the same bytes, and what is read is what was written."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from npga.errors import InputError
from npga.experiments._unit import LEVELS

Row = dict[str, Any]

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


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows; a number is written with the digits that give it back, what is missing or nan as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_text(path, text.getvalue())


def read_table(path: Path) -> list[Row]:
    """Read rows back, numbers as numbers and empty cells as None."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a table that `npga reproduce` wrote")
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing, so that an interruption leaves no half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


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
