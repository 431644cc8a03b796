"""The version table as text, HTML and dictionaries."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any, overload

from npga.networks._rows import ALL_ROWS, ROWS, version
from npga.networks._version import Version


def versions(*, presets: bool = True) -> VersionTable:
    """Return the version table: the ten rows of the paper's Table II, then the two presets if wanted."""
    return VersionTable([version(name) for name in (ALL_ROWS if presets else ROWS)])


class VersionTable(Sequence[Version]):
    """A sequence of versions that prints as a table."""

    _COLUMNS = ("name", "family", "B^2", "C", "D", "rounds", "reference")

    def __init__(self, rows: Sequence[Version]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Version: ...
    @overload
    def __getitem__(self, index: slice) -> VersionTable: ...
    def __getitem__(self, index: int | slice) -> Version | VersionTable:
        return VersionTable(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Version]:
        return iter(self._rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per row, ready for pandas.DataFrame or json."""
        return [
            {
                "name": row.name,
                "family": row.family,
                **row.formula,
                "rounds": row.rounds,
                "c": row.c,
                "fixed": dict(row.fixed),
                "reference": row.reference,
            }
            for row in self._rows
        ]

    def _cells(self) -> list[tuple[str, ...]]:
        return [(row.name, row.family, *row.formula.values(), str(row.rounds), row.reference) for row in self._rows]

    def _notes(self) -> list[str]:
        notes = [f"c of {row.name}: {row.c:g} (any c > 0)" for row in self._rows if row.c is not None]
        for row in self._rows:
            if row.fixed:
                steps = ", ".join(f"{step} = {value:g}" for step, value in row.fixed.items())
                notes.append(f"{row.name} fixes {steps}")
        return notes

    def __repr__(self) -> str:
        lines = [self._COLUMNS, *self._cells()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self._COLUMNS))]
        text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        text.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join(text + self._notes())

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(cells, "td") for cells in self._cells())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<table><thead>{line(self._COLUMNS, 'th')}</thead><tbody>{body}</tbody></table>{notes}"
