"""When a run is looked at, and why it stops.

`Limits` is the one record of what a run may do: the rules below read it, kernels get its fields by name through
`Limits.packed`, and a run that is made of several pieces passes on what is `left` of it. A new rule is a field of
`Limits` and an entry of its `rules`; where a kernel does not know the field, the run does without that kernel's
leaps, so that no rule is met late.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.solver._result import Record, Status, Trace


@dataclass(frozen=True)
class Snapshot:
    """What a stopping rule may look at.

    Parameters
    ----------
    record
        The line of the trace.
    seconds
        Wall time so far.
    growth
        Size of the last dual increment relative to the largest of the first ones; nan when not finite.
    size
        Size of the dual variable relative to the start's; nan when not finite.
    """

    record: Record
    seconds: float
    growth: float
    size: float


@dataclass(frozen=True)
class Rule:
    """One reason to stop.

    Parameters
    ----------
    limits
        The fields of `Limits` that it reads; the rule is off where one of them is None.
    status
        How the run ends.
    fires
        Whether it ends here.
    """

    limits: tuple[str, ...]
    status: Status
    fires: Callable[[Snapshot, Any], bool]


def _diverging(at: Snapshot, to: Limits) -> bool:
    finite = math.isfinite(at.growth) and math.isfinite(at.size)
    return not finite or (at.growth > to.growth and at.size > to.size)


@dataclass(frozen=True)
class Limits:
    """How far a run may go; None switches a limit off.

    Parameters
    ----------
    tol
        Converged when the residual of the optimality conditions is at most this.
    gap_tol
        Converged when the gap to the reference is at most this.
    max_iters, max_rounds, max_seconds
        Iterations, communication rounds and wall time.
    growth, size
        A run that converges has increments of lam that level off. It is given up when they have grown to `growth`
        times the first ones while lam itself has grown to `size` times its start, or when they are not numbers.
    """

    tol: float | None = 1e-8
    gap_tol: float | None = None
    max_iters: int = 100_000
    max_rounds: int | None = None
    max_seconds: float | None = None
    growth: float = 1e8
    size: float = 1e4

    # In the order in which they are asked.
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(("growth", "size"), Status.DIVERGED, _diverging),
        Rule(("tol",), Status.CONVERGED, lambda at, to: at.record.kkt <= to.tol),
        Rule(("gap_tol",), Status.CONVERGED, lambda at, to: at.record.gap <= to.gap_tol),
        Rule(("max_rounds",), Status.MAX_ROUNDS, lambda at, to: at.record.round >= to.max_rounds),
        Rule(("max_seconds",), Status.MAX_SECONDS, lambda at, to: at.seconds >= to.max_seconds),
        Rule(("max_iters",), Status.MAX_ITERS, lambda at, to: at.record.iteration >= to.max_iters),
    )

    def __post_init__(self) -> None:
        whole_number("max_iters", self.max_iters, 0)
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not (isinstance(value, (int, float)) and value >= 0):
                raise InputError(f"{item.name} is {value!r}; expected a number >= 0, or None to switch it off")

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The limits among keyword arguments, one by one or all in `limits`, and the arguments that are none."""
        names = {item.name for item in fields(cls)}
        own = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        whole = others.pop("limits", None)
        if whole is None:
            return cls(**own), others
        refuse_both(own)
        return whole, others

    @property
    def active(self) -> tuple[str, ...]:
        """The fields that are not switched off."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) is not None)

    @cached_property
    def _asked(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if set(self.active).issuperset(rule.limits))

    def verdict(self, snapshot: Snapshot) -> Status | None:
        """Why the run stops here, or None if it goes on."""
        return next((rule.status for rule in self._asked if rule.fires(snapshot, self)), None)

    def packed(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """The named fields as an array for a kernel that tests them, -1 for what is off; None where one is missing.

        A kernel that does not know every active field must not run past a record: it would stop late.
        """
        if not set(names) >= set(self.active):
            return None
        values = (getattr(self, name) for name in names)
        return np.array([-1.0 if value is None else float(value) for value in values])

    def left(self, iterations: int = 0, rounds: int = 0, seconds: float = 0.0, scale: float = 1.0) -> Self:
        """What remains after some work, for a piece of the run whose gap is measured in units of `scale`."""
        return replace(
            self,
            max_iters=max(self.max_iters - iterations, 0),
            max_rounds=None if self.max_rounds is None else max(self.max_rounds - rounds, 0),
            max_seconds=None if self.max_seconds is None else max(self.max_seconds - seconds, 0.0),
            gap_tol=None if self.gap_tol is None else self.gap_tol / scale,
        )


# The root of float32's precision: half of the digits are right.
_SINGLE = float(np.sqrt(np.finfo(np.float32).eps))


def is_resolved(trace: Trace, dtype: np.dtype[Any]) -> bool:
    """Whether single precision has given what it can: a residual of 3e-4 or less that no longer falls.

    It falls as long as the second half of the run has halved it. Double precision goes on: there a tolerance that
    cannot be met is the caller's.
    """
    if np.dtype(dtype).itemsize >= 8 or not trace[-1].kkt <= _SINGLE:
        return False
    kkt, earlier = trace.kkt, trace.iteration <= trace[-1].iteration // 2
    return bool(kkt[~earlier].min(initial=np.inf) > 0.5 * kkt[earlier].min(initial=np.inf))


def refuse_both(names: Collection[str]) -> None:
    """Refuse limits that are given one by one beside `limits`, which would not count."""
    if names:
        raise InputError(f"limits= was given beside {', '.join(names)}; expected one of them: put all into Limits(...)")


def whole_number(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} is {value!r}; expected a whole number >= {least}")


# Recorded iterations: the distance grows by a tenth of the iteration, up to this much.
_LONGEST = 2000
_GRID = [0]
while _GRID[-1] < 10 * _LONGEST:
    _GRID.append(_GRID[-1] + max(1, _GRID[-1] // 10))


def next_record(iteration: int, every: int | None) -> int:
    """The next iteration that is recorded and tested for stopping.

    By default the distance grows with the iteration by a tenth, so that measuring costs a few percent of the run and
    a stop comes at most ten percent late; with `every` it is constant. The grid is the same wherever a run
    was interrupted.
    """
    if every is not None:
        return (iteration // every + 1) * every
    if iteration < _GRID[-1]:
        return _GRID[bisect_right(_GRID, iteration)]
    return iteration + _LONGEST - (iteration - _GRID[-1]) % _LONGEST
