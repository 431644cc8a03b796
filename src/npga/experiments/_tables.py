"""The tables of an experiment as CSV files, and its choices as JSON: written whole, and read back as they were."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from npga.errors import InputError
from npga.experiments._figures import Row
from npga.experiments._protocol import LEVELS
from npga.files import write_text

LABELS = ("experiment", "repetition", "version", "setting", "mixing", "chosen")
CURVE_COLUMNS = (*LABELS, "iteration", "round", "gap", "kkt", "consensus", "objective")
SUMMARY_COLUMNS = (
    *LABELS, "status", "iterations", "rounds", "rounds_per_iteration", "gap",
    *(f"{count}_{level}" for level in LEVELS for count in ("iterations", "rounds")),
    "rate_measured", "rate_predicted", "rate_certified", "theorem", "standing", "certified_iterations_1e-10",
    "alpha", "beta", "gamma", "theta", "c", "tuning_method", "tuning_work", "tuning_message",
)  # fmt: skip
_TEXT = {
    "experiment", "version", "setting", "mixing", "status", "theorem", "standing", "tuning_method", "tuning_message",
    "against",
}  # fmt: skip
# What choices.json holds.
_ABOUT = {"title": str, "theorems": str, "target": (int, float), "choices": dict, "draws": dict}


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows; a number is written with the digits that give it back, what is missing or nan as an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_text(path, text.getvalue())


def read_rows(path: Path, columns: Sequence[str] = ()) -> list[Row]:
    """Read rows back, numbers as numbers and empty cells as None; with columns, all have these, and labels."""
    with _read(path) as text:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"no column {', '.join(missing)}")
        stored: list[dict[Any, Any]] = list(reader)
        for number, row in enumerate(stored, 1):
            if None in row or None in row.values():
                raise ValueError(f"row {number} has too {'many' if None in row else 'few'} cells")
            if columns and not all(row[name] for name in LABELS):
                raise ValueError(f"row {number} does not say what it is about")
        if columns and not stored:
            raise ValueError("no row")
        return [{name: _value(name, cell) for name, cell in row.items()} for row in stored]


def read_tables(folder: Path) -> tuple[list[Row], list[Row], dict[str, Any]]:
    """Summary, curves and choices of one experiment."""
    runs, points = (
        read_rows(folder / f"{name}.csv", columns)
        for name, columns in (("summary", SUMMARY_COLUMNS), ("curves", CURVE_COLUMNS))
    )
    return runs, points, read_json(folder / "choices.json", _ABOUT)


def read_json(path: Path, parts: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """What a JSON file holds, with these parts."""
    with _read(path) as text:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError(f"{type(found).__name__} instead of named parts")
        for name, kind in parts.items():
            if not isinstance(found[name], kind):
                raise ValueError(f"{name} is {found[name]!r}")
        return found


@contextmanager
def _read(path: Path) -> Iterator[str]:
    """The text of a file that `reproduce` wrote; an error in the block says that it is broken."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a table that `npga reproduce` wrote")
    try:
        yield path.read_text(encoding="utf-8")
    except (AttributeError, KeyError, OSError, TypeError, ValueError, csv.Error) as error:
        what = "cannot be read as what `npga reproduce` wrote"
        remedy = "run it again with the same --out, which keeps what is finished, and the tables are written anew"
        raise InputError(f"{path} {what}: {type(error).__name__}: {error}; {remedy}") from error


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _value(name: str, cell: str) -> Any:
    if cell == "":
        return None
    if name in _TEXT:
        return cell
    return int(cell) if cell.isdigit() else float(cell)  # a float is written with its point or exponent
