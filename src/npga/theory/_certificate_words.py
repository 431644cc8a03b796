"""How a certificate is worded: its verdict, the steps, the cells of its tables."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from npga.theory._feedback import states

if TYPE_CHECKING:
    from npga.theory._certificate import Certificate, Coverage

ASSUMPTIONS = ("", "assumption", "state", "margin", "reason")
THEOREMS = ("theorem", "applies", "standing", "alpha <", "beta <=", "gamma <", "1 - delta", "iterations", "reason")
# Below the theorems, in print and in a report.
NOTE = (
    "iterations: until |x - x*| is at most 1e-6 times the error of the start, constant included (npga's docs, Theory)"
)
APPLIES = {True: "yes", False: "no", None: "unknown"}
_WORDS = {True: "holds", False: "fails", None: "unknown"}
# States up to which a verdict does not wait to be asked for the instance.
_QUICK = 40
_WIDTH = 70  # of a reason, in characters
Row = tuple[str, ...]


def theorem_words(certificate: Certificate) -> str:
    """What a theorem promises, or why none applies."""
    best = certificate.best
    if best is None:
        return _refusal(certificate)
    rate = f"delta = 1 - {best.gap:.3g}" if best.gap < 1e-3 else f"delta = {best.rate:.6g}"
    weaker = "" if best.exact else " (eigenvalues bounded, not exact)"
    return (
        f"{certificate.version.title}: linear convergence by Theorem {best.key} ({best.standing}), "
        f"{rate}, at most {best.iterations(1e-6):,} iterations for six digits{weaker}"
    )


def instance_words(certificate: Certificate, *, report: bool = False) -> list[str]:
    """What the instance and the linearisation add to the verdict; who reads a report cannot ask for more."""
    words = []
    problem = certificate.problem
    if certificate.steps is not None and problem is not None:
        if "instance" in certificate.__dict__ or states(problem) <= _QUICK:
            found = certificate.instance
            said = found.reason
            if found.standing == "proved":
                said = (
                    f"rate {found.rate:.6g} from every start, for this A and W and all functions of the class, at most "
                    f"{found.iterations(1e-6):,.0f} iterations for six digits"
                )
                said += f". The proof: {found.reason}" if report else ""
            words.append(f"instance {found.standing}: {said}")
        elif report:
            words.append("a proof for this very instance was not looked for")
        else:
            words.append(f"instance not asked for yet ({states(problem):,} states; cert.instance)")
    if not math.isnan(certificate.linearised):
        words.append(f"linearised: rate {certificate.linearised:.6g} near the solution, no promise elsewhere")
    return words


def _refusal(certificate: Certificate) -> str:
    """Why no theorem applies, in one line: the reason of the theorem that lacks the fewest assumptions."""
    state = certificate.assumptions

    def lacking(coverage: Coverage) -> int:
        return sum(not state[key].holds for key in coverage.theorem.needs)

    nearest = min(certificate.theorems.values(), key=lacking)
    where = "at these steps" if certificate.steps_given else "at any steps"
    remedy = f"; {certificate.suggestions[0]}" if certificate.suggestions else ""
    return (
        f"{certificate.version.title}: no theorem applies {where}. Theorem {nearest.key} comes closest: "
        f"{nearest.reason}{remedy}"
    )


def tables(certificate: Certificate) -> tuple[tuple[Row, list[Row]], tuple[Row, list[Row]]]:
    """Header and rows of the assumptions and of the theorems."""
    assumptions = [
        (a.key, a.statement, _WORDS[a.holds], _number(a.margin), a.reason) for a in certificate.assumptions.values()
    ]
    theorems = [
        (
            t.key,
            APPLIES[t.applies],
            t.standing,
            *(_number(t.bounds[name]) for name in ("alpha", "beta", "gamma")),
            _number(t.gap),
            f"{t.iterations(1e-6):,}" if t.applies else "",
            t.reason,
        )
        for t in certificate.theorems.values()
    ]
    return (ASSUMPTIONS, list(assumptions)), (THEOREMS, list(theorems))


def steps_line(certificate: Certificate, *, report: bool = False) -> str:
    """The steps that were examined; in a report the range of alpha where each agent has its own."""
    if certificate.steps is None:
        return "steps: none are inside the bounds of a theorem"
    origin = "given" if certificate.steps_given else "minimise the rate"
    alpha = certificate.steps.alpha
    if not isinstance(alpha, tuple):
        words = repr(alpha)
    else:
        words = f"{_number(alpha)}, one for each agent" if report else repr(list(alpha))
    # All digits: a bound that is attained must not be passed when the numbers are typed in again.
    others = (f"{name} = {getattr(certificate.steps, name)!r}" for name in ("beta", "gamma", "theta"))
    return f"steps ({origin}): {', '.join([f'alpha = {words}', *others])}"


def report_lines(certificate: Certificate) -> list[str | tuple[str, str]]:
    """The paragraphs of a report: the verdict in parts, the steps, and what is not said in these."""
    said = [theorem_words(certificate), *(f"What would help as well: {line}" for line in certificate.suggestions[1:])]
    said += instance_words(certificate, report=True)
    said.append(steps_line(certificate, report=True))
    lines: list[str | tuple[str, str]] = [f"{line[:1].upper()}{line[1:]}." for line in said]
    if certificate.steps is not None and isinstance(certificate.steps.alpha, tuple):
        lines.append(("alpha of each agent", ", ".join(map(repr, certificate.steps.alpha))))
    return lines


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{_number(min(value))} to {_number(max(value))}"
    return "" if math.isnan(value) or math.isinf(value) else f"{value:.4g}"


def tex(value: Any) -> str:
    """A bound or a gap in LaTeX."""
    if isinstance(value, tuple):
        return rf"{tex(min(value))} \text{{ to }} {tex(max(value))}"
    if math.isnan(value):
        return r"\text{--}"
    if math.isinf(value):
        return r"\infty"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def aligned(header: Row, rows: list[Row]) -> list[str]:
    """Aligned columns, the last one wrapped."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header) - 1)]
    lines = []
    for row in [header, tuple("-" * w for w in [*widths, _WIDTH]), *rows]:
        start = "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], _WIDTH) or [""]
        lines.append(f"{start}  {wrapped[0]}".rstrip())
        lines += [" " * (len(start) + 2) + more for more in wrapped[1:]]
    return lines
