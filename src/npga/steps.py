"""Step sizes, in the paper's letters: what theory promises and the solver uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from npga.errors import InputError


@dataclass(frozen=True)
class Steps:
    """The four numbers that NPGA needs.

    Parameters
    ----------
    alpha
        Primal step, > 0.
    beta
        Dual step, > 0.
    gamma
        Step of the consensus multiplier, > 0.
    theta
        Extrapolation of x, >= 0.
    """

    alpha: float
    beta: float
    gamma: float = 1.0
    theta: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            least = ">= 0" if item.name == "theta" else "> 0"
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise InputError(f"step {item.name} is {value!r}; expected a number {least}") from None
            if not math.isfinite(number) or number < 0 or (number == 0 and item.name != "theta"):
                raise InputError(f"step {item.name} is {number}; expected a finite number {least}")
            object.__setattr__(self, item.name, number)


def with_fixed(steps: Steps, fixed: Mapping[str, float], owner: str) -> Steps:
    """The steps with those that a version prescribes put in; a contradiction is refused, the defaults are not one.

    Parameters
    ----------
    steps
        Step sizes as they arrived.
    fixed
        Steps that the version prescribes, such as {"theta": 1.0}.
    owner
        Name of the version, for the message.
    """
    for name, value in fixed.items():
        given = getattr(steps, name)
        if given not in (value, getattr(Steps, name, value)):
            raise InputError(
                f"{owner} fixes {name} = {value:g}, but {given:g} arrived; leave it out, or use the version that the "
                "preset is made of"
            )
    return replace(steps, **fixed)
