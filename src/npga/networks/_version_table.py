"""The version table: the rows of the paper's Table II, the two ancestors as presets, and how the table is printed.

A row holds everything that differs between versions; nothing elsewhere asks for a version by its name. Colours are Paul
Tol's "muted" set, which the colour-blind can tell apart. Versions that combine then adapt (CTA) are dashed with open
markers, those that adapt then combine (ATC) are solid with filled markers, and DCPA, which the paper compares with, is
thick and black.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from npga.errors import VersionError, nearest
from npga.networks._graphs import is_positive
from npga.networks._version import Look, Version

Coefficients = Sequence[float]
R = TypeVar("R")
ZERO, IDENTITY, W, W_SQUARED = (0.0,), (1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)
GAP = (1.0, -1.0)  # I - W
GAP_SQUARED = (1.0, -2.0, 1.0)  # (I - W)^2
HALF_GAP = (0.5, -0.5)  # (1/2)(I - W)
DASHES, DOTS = (0, (5, 2)), (0, (2, 2))


@dataclass(frozen=True)
class VersionRow:
    """One row of the version table.

    Parameters
    ----------
    matrices
        Coefficients of B^2, C and D, lowest power first; a function of c where the row has that constant.
    default_c
        The constant c where none is given; None if the row has none.
    title, reference, formulas, look, largest_c, paper_c, basis, times_beta, fixed
        As in `Version`; a row that fixes steps is a preset.
    tunes_c
        Whether c changes more than gamma does, so that tuning searches it.
    twin
        The row that this one equals up to gamma and c, or as a preset; empty if it stands for itself.
    """

    title: str
    reference: str
    matrices: tuple[Coefficients, Coefficients, Coefficients] | Callable[[float], tuple[Coefficients, ...]]
    formulas: tuple[str, str, str]
    look: Look
    default_c: float | None = None
    largest_c: float = math.inf
    paper_c: float = math.inf
    tunes_c: bool = False
    basis: str = "W"
    times_beta: bool = False
    fixed: dict[str, float] = field(default_factory=dict)
    twin: str = ""

    @property
    def is_preset(self) -> bool:
        """Whether it prescribes steps."""
        return bool(self.fixed)


_NPGA = "Alghunaim, Ryu, Yuan & Sayed 2020 (matrices); Li & Su 2024"
_TABLE: dict[str, VersionRow] = {
    "diging": VersionRow(
        "NPGA-DIGing",
        "Qu & Li 2018; Nedic, Olshevsky & Shi 2017",
        (GAP_SQUARED, (1.0, 0.0, -1.0), IDENTITY),
        ("(I - W)^2", "I - W^2", "I"),
        Look("DIGing", "#CC6677", DASHES, "o", filled=False),
    ),
    "extra": VersionRow(
        "NPGA-EXTRA",
        "Shi, Ling, Wu & Yin 2015",
        (HALF_GAP, HALF_GAP, IDENTITY),
        ("(1/2)(I - W)", "(1/2)(I - W)", "I"),
        Look("EXTRA", "#777777", DOTS, "v", filled=False),
    ),
    "dlm": VersionRow(
        "NPGA-DLM",
        "Ling, Shi, Wu & Ribeiro 2015",
        lambda c: ((0.0, c), (0.0, c), IDENTITY),
        ("c beta L", "c beta L", "I"),
        Look("DLM", "#88CCEE", DASHES, "s", filled=False),
        default_c=1.0,
        basis="L",
        times_beta=True,
        twin="extra",
        tunes_c=True,
    ),
    "p2d2": VersionRow(
        "NPGA-P2D2",
        "Alghunaim, Yuan & Sayed 2019",
        lambda c: ((c / 2, -c / 2), HALF_GAP, IDENTITY),
        ("(c/2)(I - W)", "(1/2)(I - W)", "I"),
        Look("P2D2", "#999933", DASHES, "^", filled=False),
        default_c=1.0,
        paper_c=1.0,
        twin="extra",
    ),
    "aug-dgm": VersionRow(
        "NPGA-Aug-DGM",
        "Xu, Zhu, Soh & Xie 2015",
        (GAP_SQUARED, ZERO, W_SQUARED),
        ("(I - W)^2", "0", "W^2"),
        Look("Aug-DGM", "#332288", "-", "o"),
    ),
    "atc-tracking": VersionRow(
        "NPGA-ATC tracking",
        "Di Lorenzo & Scutari 2016",
        (GAP_SQUARED, GAP, W),
        ("(I - W)^2", "I - W", "W"),
        Look("ATC tracking", "#117733", "-", "s"),
    ),
    "exact-diffusion": VersionRow(
        "NPGA-Exact diffusion",
        "Yuan, Ying, Zhao & Sayed 2019",
        (HALF_GAP, ZERO, (0.5, 0.5)),
        ("(1/2)(I - W)", "0", "(1/2)(I + W)"),
        Look("Exact diffusion", "#661100", "-", "<"),
        twin="nids",
    ),
    "nids": VersionRow(
        "NPGA-NIDS",
        "Li, Shi & Yan 2019",
        lambda c: ((c, -c), ZERO, (1.0 - c, c)),
        ("c(I - W)", "0", "I - c(I - W)"),
        Look("NIDS", "#882255", "-", "^"),
        default_c=0.5,
        largest_c=1.0,
        paper_c=0.5,
        tunes_c=True,
    ),
    "npga-i": VersionRow(
        "NPGA-I",
        _NPGA,
        (GAP, ZERO, W_SQUARED),
        ("I - W", "0", "W^2"),
        Look("NPGA-I", "#44AA99", "-", "D"),
    ),
    "npga-ii": VersionRow(
        "NPGA-II",
        _NPGA,
        (GAP, GAP, W),
        ("I - W", "I - W", "W"),
        Look("NPGA-II", "#AA4499", "-", "v"),
    ),
    "dcpa": VersionRow(
        "DCPA",
        "Alghunaim, Lyu, Yan & Sayed 2021",
        (HALF_GAP, HALF_GAP, IDENTITY),
        ("(1/2)(I - W)", "(1/2)(I - W)", "I"),
        Look("DCPA", "#000000", "-", "", width=2.8),
        fixed={"theta": 1.0},
        twin="p2d2",
    ),
    "dcda": VersionRow(
        "DCDA",
        "Alghunaim, Yuan & Sayed 2020",
        (HALF_GAP, ZERO, (0.5, 0.5)),
        ("(1/2)(I - W)", "0", "(1/2)(I + W)"),
        Look("DCDA", "#6699CC", "-", ">"),
        fixed={"theta": 0.0, "gamma": 1.0},
        twin="exact-diffusion",
    ),
}


def version_rows() -> dict[str, VersionRow]:
    """The version table itself, by name. A row that is put into it appears everywhere."""
    return _TABLE


def version(name: str | Version, c: float | None = None, *, chebyshev: int | None = None) -> Version:
    """One row of the version table.

    Parameters
    ----------
    name : str or Version
        "diging", "extra", "dlm", "p2d2", "aug-dgm", "atc-tracking", "exact-diffusion", "nids", "npga-i" or
        "npga-ii", or a preset: "dcpa" (P2D2 with c = 1 and theta = 1), "dcda" (exact diffusion with theta = 0
        and gamma = 1). Case, spaces, underscores and the prefix "npga-" do not matter. A Version is returned
        as it is.
    c : float, optional
        The tunable constant c > 0 of "p2d2" (default 1; Assumption 4 asks for c <= 1), "nids" (default 1/2)
        and "dlm" (default 1, so that B^2 = C = beta L).
    chebyshev : int, optional
        Replace the gossip matrix by its Chebyshev polynomial of this degree: so many rounds in place of each one, and
        fewer iterations.

    Returns
    -------
    Version
    """
    if not isinstance(name, str | Version):
        raise VersionError(f"a version of type {type(name).__name__} arrived; expected a name or a Version")
    if isinstance(name, str):
        found = _build(_canonical(name), c)
    elif c is None:
        found = name
    elif name.c is None or name.name not in _TABLE:
        raise VersionError(f"c = {c!r} arrived for version {name.name!r}, which has no constant c; leave it out")
    else:
        found = replace(_build(name.name, c), chebyshev=name.chebyshev)
    if chebyshev is not None and found.polynomials:  # explicit matrices say that they have none
        found = replace(found, chebyshev=chebyshev)
    return found


def _canonical(name: str) -> str:
    key = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if key in _TABLE:
        return key
    if key.removeprefix("npga-") in _TABLE:
        return key.removeprefix("npga-")
    raise VersionError(f"version {name!r} is unknown; {nearest(key, _TABLE)}")


def _build(name: str, c: float | None) -> Version:
    row = _TABLE[name]
    if callable(row.matrices):
        c = row.default_c if c is None else c
        if c is None or not is_positive(c):
            raise VersionError(f"c = {c!r} arrived for version {name!r}; expected a finite number c > 0")
        B2, C, D = row.matrices(float(c))
    else:
        if c is not None:
            tunable = ", ".join(key for key, other in _TABLE.items() if other.default_c is not None)
            raise VersionError(f"c = {c!r} arrived for version {name!r}, which has no c; only {tunable} have one")
        B2, C, D = row.matrices
    shared = {field.name for field in fields(row)} & {field.name for field in fields(Version)}
    facts = {name: getattr(row, name) for name in shared}
    return Version(name=name, B2=B2, C=C, D=D, c=None if c is None else float(c), **facts)


def versions(*, presets: bool = True) -> VersionTable:
    """The version table: the ten rows of the paper's Table II, then the two presets if wanted."""
    return VersionTable([version(name) for name, row in _TABLE.items() if presets or not row.is_preset])


class Listing(Sequence[R]):
    """A sequence of rows that prints as a table; `to_dicts` gives its columns by name.

    Parameters
    ----------
    rows
        The rows.
    """

    _COLUMNS: tuple[str, ...] = ()

    def __init__(self, rows: Sequence[R]) -> None:
        self._rows = tuple(rows)

    def __getitem__(self, index: Any) -> Any:
        return type(self)(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per row, ready for pandas.DataFrame or json."""
        return [{name: getattr(row, name) for name in self._COLUMNS} for row in self._rows]

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(row.values()) for row in self.to_dicts()]

    def _notes(self) -> list[str]:
        return []

    def __repr__(self) -> str:
        return "\n".join(text_table(self._COLUMNS, self._cells()) + self._notes())

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return html_table(self._COLUMNS, self._cells()) + notes


def text_table(head: Sequence[str], body: Iterable[Sequence[str]], *, right: bool = False) -> list[str]:
    """The lines of a table; its columns, but for the first, to the right if wanted."""
    lines = [head, *body]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [str.ljust] + [str.rjust if right else str.ljust] * (len(widths) - 1)
    text = [
        "  ".join(put(cell, w) for put, cell, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines
    ]
    return [text[0], "  ".join("-" * w for w in widths), *text[1:]]


def html_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table as HTML."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = "".join(line(cells, "td") for cells in body)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{rows}</tbody></table>"


class VersionTable(Listing[Version]):
    """A sequence of versions that prints as a table."""

    _COLUMNS = ("name", "family", "B^2", "C", "D", "rounds", "reference")

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
