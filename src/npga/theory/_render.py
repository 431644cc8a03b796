"""A certificate as text, rich tables, HTML and LaTeX."""

from __future__ import annotations

import html as escaping
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npga.theory._record import Theorem
from npga.theory._theorems import OURS

if TYPE_CHECKING:
    from rich.console import Group

    from npga.theory._certificate import Certificate

_WORDS = {True: "holds", False: "fails", None: "unknown"}
_APPLIES = {True: "yes", False: "no", None: "unknown"}
_ASSUMPTIONS = ("", "assumption", "state", "margin", "reason")
_THEOREMS = ("theorem", "applies", "standing", "alpha <", "beta <=", "gamma <", "1 - delta", "iterations", "reason")
_WIDTH = 70  # of a reason, in characters
Row = tuple[str, ...]


def credit(theorem: Theorem) -> str:
    """Standing of a theorem, and that it is ours where it is."""
    return f"{theorem.standing}, ours" if theorem.source == OURS else theorem.standing


def refusal(certificate: Certificate) -> str:
    """Why no theorem applies, in one line: the reason of the theorem that lacks the fewest assumptions."""
    state = certificate.assumptions

    def lacking(theorem: Theorem) -> int:
        return sum(not state[key].holds for key in theorem.rule.needs)

    nearest = min(certificate.theorems.values(), key=lacking)
    where = "at these steps" if certificate.steps_given else "at any steps"
    remedy = f"; {certificate.suggestions[0]}" if certificate.suggestions else ""
    return (
        f"{certificate.version.title}: no theorem applies {where}. Theorem {nearest.key} comes closest: "
        f"{nearest.reason}{remedy}"
    )


def assumption_rows(certificate: Certificate) -> list[Row]:
    """One row for each assumption."""
    return [
        (a.key, a.statement, _WORDS[a.holds], _number(a.margin), a.reason) for a in certificate.assumptions.values()
    ]


def theorem_rows(certificate: Certificate) -> list[Row]:
    """One row for each theorem."""
    return [
        (
            t.key,
            _APPLIES[t.applies],
            credit(t),
            *(_number(t.bounds[name]) for name in ("alpha", "beta", "gamma")),
            _number(t.gap),
            f"{t.iterations(1e-6):,}" if t.applies else "",
            t.reason,
        )
        for t in certificate.theorems.values()
    ]


def steps_line(certificate: Certificate) -> str:
    """The steps that were examined."""
    if certificate.steps is None:
        return "steps: none are inside the bounds of a theorem"
    s = certificate.steps
    origin = "given" if certificate.steps_given else "minimise the rate"
    return f"steps ({origin}): alpha = {s.alpha:.6g}, beta = {s.beta:.6g}, gamma = {s.gamma:.6g}, theta = {s.theta:g}"


def text(certificate: Certificate) -> str:
    """Plain text, for ``print``."""
    parts = [certificate.verdict, steps_line(certificate), "", *_table(_ASSUMPTIONS, assumption_rows(certificate)), ""]
    parts += _table(_THEOREMS, theorem_rows(certificate))
    parts.append(
        "iterations: until the bound on |x - x*| has shrunk by 1e-6; 4+ is this project's own and allows gamma = 1"
    )
    parts += [f"what would help: {suggestion}" for suggestion in certificate.suggestions]
    return "\n".join(parts)


def rich_tables(certificate: Certificate) -> Group:
    """Two tables for the terminal; rich calls this, so it is installed."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    colours = {"holds": "green", "yes": "green", "fails": "red", "no": "red", "unknown": "yellow"}
    tables: list[Text | Table] = [Text(certificate.verdict, style="bold"), Text(steps_line(certificate))]
    for header, rows in ((_ASSUMPTIONS, assumption_rows(certificate)), (_THEOREMS, theorem_rows(certificate))):
        table = Table(*header)
        for row in rows:
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
        tables.append(table)
    tables += [Text(f"what would help: {suggestion}") for suggestion in certificate.suggestions]
    return Group(*tables)


def html(certificate: Certificate) -> str:
    """Two HTML tables, for notebooks."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escaping.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    parts = [f"<p><b>{escaping.escape(certificate.verdict)}</b></p><p>{escaping.escape(steps_line(certificate))}</p>"]
    for header, rows in ((_ASSUMPTIONS, assumption_rows(certificate)), (_THEOREMS, theorem_rows(certificate))):
        body = "".join(line(row, "td") for row in rows)
        parts.append(f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>")
    parts += [f"<p>What would help: {escaping.escape(s)}</p>" for s in certificate.suggestions]
    return "".join(parts)


def latex(certificate: Certificate) -> str:
    """A LaTeX array of the theorems: bounds on the steps and rate, for papers and notebooks."""
    lines = [
        r"$$\begin{array}{llllll}",
        r"\text{theorem} & \text{applies} & \alpha < & \beta \le & \gamma < & 1 - \delta \\ \hline",
    ]
    for t in certificate.theorems.values():
        cells = [rf"\text{{{t.key}}}", rf"\text{{{_APPLIES[t.applies]}}}"]
        cells += [_tex(t.bounds[name]) for name in ("alpha", "beta", "gamma")] + [_tex(t.gap)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\end{array}$$"])


def _number(value: float) -> str:
    return "" if math.isnan(value) or math.isinf(value) else f"{value:.4g}"


def _tex(value: float) -> str:
    if math.isnan(value):
        return r"\text{--}"
    if math.isinf(value):
        return r"\infty"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _table(header: Row, rows: list[Row]) -> list[str]:
    """Aligned columns, the last one wrapped."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header) - 1)]
    lines = []
    for row in [header, tuple("-" * w for w in [*widths, _WIDTH]), *rows]:
        start = "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], _WIDTH) or [""]
        lines.append(f"{start}  {wrapped[0]}".rstrip())
        lines += [" " * (len(start) + 2) + more for more in wrapped[1:]]
    return lines
