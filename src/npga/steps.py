"""Step sizes, in the paper's letters: what theory promises and the solver uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npga.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Steps:
    """The numbers that NPGA needs.

    Parameters
    ----------
    alpha
        Primal step, > 0: one number, or one for each agent, kept as a tuple.
    beta
        Dual step, > 0.
    gamma
        Step of the consensus multiplier, > 0.
    theta
        Extrapolation of x, >= 0.
    """

    # float | tuple[float, ...]: who cannot use a tuple asks `single_alpha`, who can `per_agent` or `per_coordinate`.
    alpha: Any
    beta: float
    gamma: float = 1.0
    theta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "gamma", "theta"):
            value = getattr(self, name)
            several = name == "alpha" and isinstance(value, Iterable) and not isinstance(value, str | bytes)
            if several and getattr(value, "ndim", 1) > 0:  # an array of dimension 0 is a number
                checked: Any = tuple(_number(name, entry) for entry in value)
            else:
                checked = _number(name, value)
            if checked == ():
                raise InputError("step alpha is empty; expected a number > 0, or one for each agent")
            object.__setattr__(self, name, checked)

    def per_agent(self, n: int) -> tuple[float, ...]:
        """alpha of each of n agents; a number counts for all of them."""
        if not isinstance(self.alpha, tuple):
            return (self.alpha,) * n
        if len(self.alpha) != n:
            raise InputError(
                f"step alpha holds {len(self.alpha)} numbers and there are {n} agents; expected one number, or one for "
                "each agent"
            )
        return self.alpha

    def per_coordinate(self, sizes: Sequence[int]) -> float | NDArray[Any]:
        """alpha of each coordinate of the concatenated x, whose blocks have these sizes; one number stays a number."""
        import numpy as np

        own = self.per_agent(len(sizes))
        return np.repeat(own, sizes) if isinstance(self.alpha, tuple) else float(self.alpha)

    def single_alpha(self, purpose: str) -> float:
        """alpha as one number, for what needs one; agents that differ are refused in the name of `purpose`."""
        values = set(self.alpha) if isinstance(self.alpha, tuple) else {self.alpha}
        if len(values) > 1:
            raise InputError(
                f"{purpose}: an alpha for each agent arrived ({min(values):g} to {max(values):g}), and per-agent alpha "
                "is not covered yet; expected one number"
            )
        return float(values.pop())

    def text(self, digits: int = 3) -> str:
        """The steps in one line, with so many digits."""
        alpha = (
            f"{self.alpha:.{digits}g}"
            if not isinstance(self.alpha, tuple)
            else (f"{min(self.alpha):.{digits}g} to {max(self.alpha):.{digits}g} (one for each agent)")
        )
        others = (f"{name} = {getattr(self, name):.{digits}g}" for name in ("beta", "gamma", "theta"))
        return ", ".join([f"alpha = {alpha}", *others])


def _number(name: str, value: Any) -> float:
    least = ">= 0" if name == "theta" else "> 0"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"step {name} is {value!r}; expected a number {least}") from None
    if not math.isfinite(number) or number < 0 or (number == 0 and name != "theta"):
        raise InputError(f"step {name} is {number}; expected a finite number {least}")
    return number


def with_fixed(steps: Steps, fixed: Mapping[str, float], owner: str) -> Steps:
    """The steps with those that a version prescribes put in; a contradiction is refused, the defaults are not one."""
    for name, value in fixed.items():
        given = getattr(steps, name)
        if given not in (value, getattr(Steps, name, value)):
            raise InputError(
                f"{owner} fixes {name} = {value:g}, but {given} arrived; leave it out, or use the version that the "
                "preset is made of"
            )
    return replace(steps, **fixed)
