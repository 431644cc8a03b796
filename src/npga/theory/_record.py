"""The state of one theorem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npga.errors import InputError
from npga.steps import Steps

if TYPE_CHECKING:
    from npga.theory._theorems import Rule

_NO_STEPS = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}


@dataclass(frozen=True)
class Theorem:
    """Whether a theorem covers the set-up, with which bounds and which rate.

    Attributes
    ----------
    rule
        The theorem: its number `key`, the assumptions that it `needs`, its `source`.
    applies
        True, False, or None when an assumption cannot be told.
    standing
        "proved", or "proof incomplete" (Theorems 4 and 4+ with theta > 0 and g != 0).
    bounds
        Upper bounds on alpha (not attained), beta (attained) and gamma (not attained, except in "4+"), at the theta
        and, where they depend on them, at the alpha and beta of `steps`. All 0 when no step is allowed.
    gap
        1 - delta, without cancellation; nan unless the theorem applies.
    exact
        Whether eigenvalues are exact; otherwise they are bounds, on the side that makes the promise weaker.
    steps
        The steps examined; None if there are none inside the bounds.
    reason
        A sentence.
    """

    rule: Rule
    applies: bool | None
    standing: str
    bounds: dict[str, float] = field(default_factory=lambda: dict(_NO_STEPS))
    gap: float = math.nan
    exact: bool = True
    steps: Steps | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Number of the theorem."""
        return self.rule.key

    @property
    def source(self) -> str:
        """Whose theorem it is: the paper's, or this project's own."""
        return self.rule.source

    @property
    def rate(self) -> float:
        """The number delta with |x_k - x*|^2 = O(delta^k); nan unless the theorem applies."""
        return 1.0 - self.gap

    def iterations(self, accuracy: float) -> int:
        """Iterations after which the bound on |x_k - x*| has shrunk by the factor `accuracy`.

        The least k with delta^(k/2) <= accuracy. The constant in front, which depends on the start, is left out.
        """
        if not 0.0 < accuracy < 1.0:
            raise InputError(f"accuracy = {accuracy!r} arrived; expected a factor between 0 and 1, such as 1e-6")
        if not self.applies:
            raise InputError(f"Theorem {self.key} does not apply, so it predicts nothing: {self.reason}")
        return max(math.ceil(2.0 * math.log(accuracy) / math.log1p(-self.gap)), 1) if self.gap < 1.0 else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text; None for what is not a finite number."""
        return {
            "applies": self.applies,
            "standing": self.standing,
            "source": self.source,
            "needs": list(self.rule.needs),
            "bounds": {name: finite(value) for name, value in self.bounds.items()},
            "rate": finite(self.rate),
            "gap": finite(self.gap),
            "exact": self.exact,
            "iterations_to_1e-6": self.iterations(1e-6) if self.applies else None,
            "steps": None if self.steps is None else steps_dict(self.steps),
            "reason": self.reason,
        }


def finite(value: float) -> float | None:
    """The number, or None if it is infinite or undefined: JSON has no word for these."""
    return value if math.isfinite(value) else None


def steps_dict(steps: Steps) -> dict[str, float]:
    """The four numbers by name."""
    return {"alpha": steps.alpha, "beta": steps.beta, "gamma": steps.gamma, "theta": steps.theta}
