"""The certificate: what was checked, what follows, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npga.errors import InputError
from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory import _render
from npga.theory._assumptions import Assumption
from npga.theory._record import Theorem, finite, steps_dict

if TYPE_CHECKING:
    from rich.console import Group


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
        The state of each theorem, by its number: "1" to "4", and "4+", this project's own.
    best
        The theorem that applies with the best rate, complete proofs first; None when none applies.
    steps
        The steps examined; without given steps, those of `best`, or None.
    steps_given
        Whether the steps were given.
    suggestions
        Changes that bring the set-up under a theorem, each tried and found to work; empty when a theorem applies.
    """

    version: Version
    network: Network
    assumptions: dict[str, Assumption]
    theorems: dict[str, Theorem]
    best: Theorem | None
    steps: Steps | None
    steps_given: bool
    suggestions: tuple[str, ...]

    @property
    def covered(self) -> bool:
        """Whether a theorem applies, its proof complete or not."""
        return self.best is not None

    def holds(self, number: int) -> bool:
        """Whether an assumption is known to hold in all its parts: `holds(4)` asks for "4.i" to "4.iv"."""
        parts = [a.holds for key, a in self.assumptions.items() if key.split(".")[0] == str(number)]
        if not parts:
            raise InputError(f"assumption {number!r} arrived; expected a number from 1 to 10")
        return all(parts)

    @property
    def verdict(self) -> str:
        """One line."""
        if self.best is None:
            return _render.refusal(self)
        rate = f"delta = 1 - {self.best.gap:.3g}" if self.best.gap < 1e-3 else f"delta = {self.best.rate:.6g}"
        weaker = "" if self.best.exact else " (eigenvalues bounded, not exact)"
        return (
            f"{self.version.title}: linear convergence by Theorem {self.best.key} ({_render.credit(self.best)}), "
            f"{rate}, about {self.best.iterations(1e-6):,} iterations for six digits{weaker}"
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
        }

    def __str__(self) -> str:
        return _render.text(self)

    def __repr__(self) -> str:
        return f"Certificate({self.verdict!r})"

    def __rich__(self) -> Group:
        return _render.rich_tables(self)

    def _repr_html_(self) -> str:
        return _render.html(self)

    def _repr_latex_(self) -> str:
        return _render.latex(self)
