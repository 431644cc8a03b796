"""What one theorem says of a set-up, and the certificate of all: an object, text, rich tables, HTML and LaTeX."""

from __future__ import annotations

import html as escaping
import math
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
from npga.theory._certificate_words import (
    APPLIES,
    NOTE,
    aligned,
    instance_words,
    report_lines,
    steps_line,
    tables,
    tex,
    theorem_words,
)
from npga.theory._feedback import states
from npga.theory._instance import InstanceCertificate, certify_instance, linearised_rate
from npga.theory._theorems import Theorem

if TYPE_CHECKING:
    from rich.console import Group

# States up to which the linearised rate is known.
_LINEARISED = 1500
_NO_STEPS = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}


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
        Whose proof it is: "paper", or "ours: proof in npga's docs".
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
        return "; ".join([theorem_words(self), *instance_words(self)])

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
        assumptions, theorems = tables(self)
        return [
            text_section("Certificate", *report_lines(self)),
            table_section("Theorems", *theorems, NOTE),
            table_section("Assumptions", *assumptions),
        ]

    def __str__(self) -> str:
        parts = [self.verdict, steps_line(self), ""]
        for header, rows in tables(self):
            parts += [*aligned(header, rows), ""]
        parts[-1] = NOTE
        return "\n".join([*parts, *(f"what would help: {suggestion}" for suggestion in self.suggestions)])

    def __repr__(self) -> str:
        return f"Certificate({theorem_words(self)!r})"

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        colours = {"holds": "green", "yes": "green", "fails": "red", "no": "red", "unknown": "yellow"}
        shown: list[Text | Table] = [Text(self.verdict, style="bold"), Text(steps_line(self))]
        for header, rows in tables(self):
            table = Table(*header)
            for row in rows:
                table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
            shown.append(table)
        return Group(*shown, *(Text(f"what would help: {suggestion}") for suggestion in self.suggestions))

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escaping.escape(self.verdict)}</b></p><p>{escaping.escape(steps_line(self))}</p>"]
        parts += [html_table(header, rows) for header, rows in tables(self)]
        return "".join([*parts, *(f"<p>What would help: {escaping.escape(s)}</p>" for s in self.suggestions)])

    def _repr_latex_(self) -> str:
        """A LaTeX array of the theorems: bounds on the steps and rate, for papers and notebooks."""
        lines = [
            r"$$\begin{array}{llllll}",
            r"\text{theorem} & \text{applies} & \alpha < & \beta \le & \gamma < & 1 - \delta \\ \hline",
        ]
        for t in self.theorems.values():
            cells = [rf"\text{{{t.key}}}", rf"\text{{{APPLIES[t.applies]}}}"]
            cells += [tex(t.bounds[name]) for name in ("alpha", "beta", "gamma")] + [tex(t.gap)]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\end{array}$$"])
