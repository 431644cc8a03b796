"""What one theorem says of a set-up, and the certificate of all: an object, text, rich tables, HTML and LaTeX."""

from __future__ import annotations

import html as escaping
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from npga.errors import InputError
from npga.networks import Network, Version, html_table
from npga.pages import Section, table_section, text_section
from npga.problem import Problem
from npga.steps import Steps
from npga.theory._assumptions import Assumption
from npga.theory._feedback import states
from npga.theory._instance import InstanceCertificate, certify_instance, linearised_rate
from npga.theory._theorems import Theorem

if TYPE_CHECKING:
    from rich.console import Group

_WORDS = {True: "holds", False: "fails", None: "unknown"}
_APPLIES = {True: "yes", False: "no", None: "unknown"}
_ASSUMPTIONS = ("", "assumption", "state", "margin", "reason")
_THEOREMS = ("theorem", "applies", "standing", "alpha <", "beta <=", "gamma <", "1 - delta", "iterations", "reason")
# States up to which a verdict does not wait to be asked for the instance, and up to which the linearised rate is known.
_QUICK, _LINEARISED = 40, 1500
_NO_STEPS = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}
_WIDTH = 70  # of a reason, in characters
Row = tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """Whether a theorem covers the set-up, with which bounds and which rate.

    Attributes
    ----------
    theorem
        The theorem: its number `key`, the assumptions that it `needs`, its formulas.
    applies
        True, False, or None when an assumption cannot be told.
    standing
        Whose proof it is: "paper", or "ours: proof in docs/theory".
    bounds
        Upper bounds on alpha (not attained), beta (attained) and gamma (not attained), at the theta and, where they
        depend on them, at the alpha and beta of `steps`. All 0 when no step is allowed. Where each agent has an alpha
        of its own, the bound on alpha is one for each agent too: theirs, scaled together.
    gap
        1 - delta, without cancellation; nan unless the theorem applies.
    constant
        The number K with |x_k - x*| <= K delta^(k/2) |xi_0|, where xi_0 is the error of the start in the norm
        |xi|^2 = |x - x*|^2 + (alpha/beta) |lam - lam*|^2 + (alpha/(beta gamma)) |y - y*|^2, z = B y.
    exact
        Whether eigenvalues are exact; otherwise they are bounds, on the side that makes the promise weaker.
    steps
        The steps examined; None if there are none inside the bounds.
    reason
        A sentence.
    """

    theorem: Theorem
    applies: bool | None
    standing: str
    bounds: dict[str, Any] = field(default_factory=lambda: dict(_NO_STEPS))
    gap: float = math.nan
    constant: float = math.nan
    exact: bool = True
    steps: Steps | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Number of the theorem."""
        return self.theorem.key

    @property
    def rate(self) -> float:
        """The number delta with |x_k - x*|^2 = O(delta^k); nan unless the theorem applies."""
        return 1.0 - self.gap

    def iterations(self, accuracy: float) -> int:
        """Iterations after which |x_k - x*| <= accuracy |xi_0| is sure: the least k with K delta^(k/2) <= accuracy.

        `constant` says what K and xi_0 are.
        """
        if not 0.0 < accuracy < 1.0:
            raise InputError(f"accuracy = {accuracy!r} arrived; expected a factor between 0 and 1, such as 1e-6")
        if not self.applies:
            raise InputError(f"Theorem {self.key} does not apply, so it predicts nothing: {self.reason}")
        if self.gap >= 1.0:
            return 1
        return max(math.ceil(2.0 * math.log(accuracy / self.constant) / math.log1p(-self.gap)), 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text; None for what is not a finite number."""
        return {
            "applies": self.applies,
            "standing": self.standing,
            "needs": list(self.theorem.needs),
            "bounds": {name: finite(value) for name, value in self.bounds.items()},
            "rate": finite(self.rate),
            "gap": finite(self.gap),
            "constant": finite(self.constant),
            "exact": self.exact,
            "iterations_to_1e-6": self.iterations(1e-6) if self.applies else None,
            "steps": None if self.steps is None else steps_dict(self.steps),
            "reason": self.reason,
        }


def finite(value: Any) -> Any:
    """The number, or None if it is infinite or undefined: JSON has no word for these. A list for several."""
    if isinstance(value, tuple):
        return [finite(entry) for entry in value]
    return value if math.isfinite(value) else None


def steps_dict(steps: Steps) -> dict[str, Any]:
    """The four steps by name; a list where each agent has an alpha of its own."""
    return {"alpha": finite(steps.alpha), "beta": steps.beta, "gamma": steps.gamma, "theta": steps.theta}


@dataclass(frozen=True, repr=False)
class Certificate:
    """What is promised about a problem, a network, a version and steps. ``print`` shows it as a table.

    Attributes
    ----------
    version, network
        What was examined.
    assumptions
        The state of each numbered assumption, by its number: "1", "2", "3", "4.i" to "4.iv", "5" to "10".
    theorems
        What each theorem says of the set-up, by its number: "1" to "4", and "1+", "3+" and "4+", which are ours.
    best
        The theorem that applies with the best rate; None when none applies.
    steps
        The steps examined; without given steps, those of `best`, or None.
    steps_given
        Whether the steps were given.
    suggest
        The call that finds the suggestions.
    problem
        The problem that was examined.
    linearised
        Spectral radius at a solution, the rate near it; nan until `at_solution` has been told one.
    """

    version: Version
    network: Network
    assumptions: dict[str, Assumption]
    theorems: dict[str, Coverage]
    best: Coverage | None
    steps: Steps | None
    steps_given: bool
    suggest: Callable[[], tuple[str, ...]] = field(compare=False)
    problem: Problem | None = field(default=None, compare=False)
    linearised: float = field(default=math.nan, compare=False)

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """Changes that bring the set-up under a theorem, each tried and found to work; empty when a theorem applies."""
        return self.suggest()

    @cached_property
    def instance(self) -> InstanceCertificate:
        """What can be proved at these steps for this A and this W, for every start; computed when it is asked for.

        Seconds for a few hundred states, minutes for two thousand, which is why `certify` does not wait for it.
        """
        if self.steps is None or self.problem is None:
            return InstanceCertificate("unknown", "there are no steps to examine: pass steps=")
        return certify_instance(self.problem, self.network, self.version, self.steps)

    def at_solution(self, x: ArrayLike, lam: ArrayLike) -> Certificate:
        """The same with the linearised rate at a solution x and its dual lam, of shape (p,)."""
        if self.steps is None or self.problem is None or states(self.problem) > _LINEARISED:
            return self
        x, lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
        rate = linearised_rate(self.problem, self.network, self.version, self.steps, x, lam, limit=_LINEARISED)
        found = replace(self, linearised=rate)
        kept = ("instance", "suggestions")  # what was computed already
        found.__dict__.update((name, self.__dict__[name]) for name in kept if name in self.__dict__)
        return found

    @property
    def covered(self) -> bool:
        """Whether a theorem applies."""
        return self.best is not None

    def holds(self, number: int) -> bool:
        """Whether an assumption is known to hold in all its parts: `holds(4)` asks for "4.i" to "4.iv"."""
        parts = [a.holds for key, a in self.assumptions.items() if key.split(".")[0] == str(number)]
        if not parts:
            raise InputError(f"assumption {number!r} arrived; expected a number from 1 to 10")
        return all(parts)

    @property
    def verdict(self) -> str:
        """One line: what a theorem promises, then this instance, then the linearisation, as far as they are known.

        The instance is asked for where that takes a moment only, or where it was asked for before.
        """
        return "; ".join([self._theorem_words(), *_instance_words(self)])

    def _theorem_words(self) -> str:
        if self.best is None:
            return _refusal(self)
        rate = f"delta = 1 - {self.best.gap:.3g}" if self.best.gap < 1e-3 else f"delta = {self.best.rate:.6g}"
        weaker = "" if self.best.exact else " (eigenvalues bounded, not exact)"
        return (
            f"{self.version.title}: linear convergence by Theorem {self.best.key} ({self.best.standing}), "
            f"{rate}, at most {self.best.iterations(1e-6):,} iterations for six digits{weaker}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, text and lists, ready for JSON; None for what is infinite or undefined."""
        return {
            "version": self.version.name,
            "c": self.version.c,
            "network": {"n": self.network.n, "mixing": self.network.mixing, "lazy": self.network.is_lazy},
            "verdict": self.verdict,
            "covered": self.covered,
            "best": None if self.best is None else self.best.key,
            "steps": None if self.steps is None else steps_dict(self.steps),
            "steps_given": self.steps_given,
            "assumptions": {
                key: {"statement": a.statement, "holds": a.holds, "margin": finite(a.margin), "reason": a.reason}
                for key, a in self.assumptions.items()
            },
            "theorems": {key: theorem.to_dict() for key, theorem in self.theorems.items()},
            "suggestions": list(self.suggestions),
            # Only if it was asked for before: it takes its time.
            "instance": self.instance.to_dict() if "instance" in self.__dict__ else None,
            "linearised": finite(self.linearised),
        }

    def sections(self) -> list[Section]:
        """What a report shows of it, as plain data that JSON can hold (see `npga.pages`)."""
        said = [self.verdict, _steps_line(self), *(f"What would help: {line}" for line in self.suggestions)]
        if "instance" in self.__dict__:  # only if it was asked for before: it takes its time
            said.append(f"This instance: {self.instance.standing}. {self.instance.reason}")
        assumptions, theorems = _tables(self)
        return [
            text_section("Certificate", *said),
            table_section("Theorems", *theorems),
            table_section("Assumptions", *assumptions),
        ]

    def __str__(self) -> str:
        parts = [self.verdict, _steps_line(self), ""]
        for header, rows in _tables(self):
            parts += [*_aligned(header, rows), ""]
        parts[-1] = (
            "iterations: until |x - x*| is at most 1e-6 times the error of the start, constant included (docs/theory)"
        )
        return "\n".join([*parts, *(f"what would help: {suggestion}" for suggestion in self.suggestions)])

    def __repr__(self) -> str:
        return f"Certificate({self._theorem_words()!r})"

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        colours = {"holds": "green", "yes": "green", "fails": "red", "no": "red", "unknown": "yellow"}
        shown: list[Text | Table] = [Text(self.verdict, style="bold"), Text(_steps_line(self))]
        for header, rows in _tables(self):
            table = Table(*header)
            for row in rows:
                table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
            shown.append(table)
        return Group(*shown, *(Text(f"what would help: {suggestion}") for suggestion in self.suggestions))

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escaping.escape(self.verdict)}</b></p><p>{escaping.escape(_steps_line(self))}</p>"]
        parts += [html_table(header, rows) for header, rows in _tables(self)]
        return "".join([*parts, *(f"<p>What would help: {escaping.escape(s)}</p>" for s in self.suggestions)])

    def _repr_latex_(self) -> str:
        """A LaTeX array of the theorems: bounds on the steps and rate, for papers and notebooks."""
        lines = [
            r"$$\begin{array}{llllll}",
            r"\text{theorem} & \text{applies} & \alpha < & \beta \le & \gamma < & 1 - \delta \\ \hline",
        ]
        for t in self.theorems.values():
            cells = [rf"\text{{{t.key}}}", rf"\text{{{_APPLIES[t.applies]}}}"]
            cells += [_tex(t.bounds[name]) for name in ("alpha", "beta", "gamma")] + [_tex(t.gap)]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\end{array}$$"])


def _instance_words(certificate: Certificate) -> list[str]:
    """What the instance and the linearisation add to the verdict."""
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
            words.append(f"instance {found.standing}: {said}")
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


def _tables(certificate: Certificate) -> tuple[tuple[Row, list[Row]], tuple[Row, list[Row]]]:
    """Header and rows of the assumptions and of the theorems."""
    assumptions = [
        (a.key, a.statement, _WORDS[a.holds], _number(a.margin), a.reason) for a in certificate.assumptions.values()
    ]
    theorems = [
        (
            t.key,
            _APPLIES[t.applies],
            t.standing,
            *(_number(t.bounds[name]) for name in ("alpha", "beta", "gamma")),
            _number(t.gap),
            f"{t.iterations(1e-6):,}" if t.applies else "",
            t.reason,
        )
        for t in certificate.theorems.values()
    ]
    return (_ASSUMPTIONS, list(assumptions)), (_THEOREMS, list(theorems))


def _steps_line(certificate: Certificate) -> str:
    """The steps that were examined."""
    if certificate.steps is None:
        return "steps: none are inside the bounds of a theorem"
    origin = "given" if certificate.steps_given else "minimise the rate"
    # All digits: a bound that is attained must not be passed when the numbers are typed in again.
    numbers = ", ".join(f"{name} = {value!r}" for name, value in steps_dict(certificate.steps).items())
    return f"steps ({origin}): {numbers}"


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{_number(min(value))} to {_number(max(value))}"
    return "" if math.isnan(value) or math.isinf(value) else f"{value:.4g}"


def _tex(value: Any) -> str:
    if isinstance(value, tuple):
        return rf"{_tex(min(value))} \text{{ to }} {_tex(max(value))}"
    if math.isnan(value):
        return r"\text{--}"
    if math.isinf(value):
        return r"\infty"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _aligned(header: Row, rows: list[Row]) -> list[str]:
    """Aligned columns, the last one wrapped."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header) - 1)]
    lines = []
    for row in [header, tuple("-" * w for w in [*widths, _WIDTH]), *rows]:
        start = "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], _WIDTH) or [""]
        lines.append(f"{start}  {wrapped[0]}".rstrip())
        lines += [" " * (len(start) + 2) + more for more in wrapped[1:]]
    return lines
