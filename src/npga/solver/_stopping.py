"""Stopping rules: each looks at one snapshot of a run and says why to stop, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npga.errors import InputError
from npga.solver._result import Status
from npga.solver._trace import Record


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


Rule = Callable[[Snapshot], Status | None]


def residual_below(tol: float) -> Rule:
    """Converged when the residual of the optimality conditions is at most `tol`."""
    return lambda snapshot: Status.CONVERGED if snapshot.record.kkt <= tol else None


def gap_below(tol: float) -> Rule:
    """Converged when the gap to the reference is at most `tol`."""
    return lambda snapshot: Status.CONVERGED if snapshot.record.gap <= tol else None


def rounds_reached(limit: int) -> Rule:
    """Stop when another iteration could not be paid for."""
    return lambda snapshot: Status.MAX_ROUNDS if snapshot.record.round >= limit else None


def seconds_passed(limit: float) -> Rule:
    """Stop after `limit` seconds."""
    return lambda snapshot: Status.MAX_SECONDS if snapshot.seconds >= limit else None


# A run that converges has increments that level off; only one that is hopeless lets them grow eight orders of
# magnitude beyond its first ones while lam itself has left its start far behind.
GROWTH = 1e8
SIZE = 1e4


def diverging(snapshot: Snapshot) -> Status | None:
    """Stop when the increments of lam explode or are no longer numbers."""
    finite = math.isfinite(snapshot.growth) and math.isfinite(snapshot.size)
    hopeless = not finite or (snapshot.growth > GROWTH and snapshot.size > SIZE)
    return Status.DIVERGED if hopeless else None


def rules(
    tol: float | None, gap_tol: float | None, max_rounds: int | None, max_seconds: float | None
) -> Sequence[Rule]:
    """The rules of `npga.solve`, in the order in which they are asked."""
    for name, value in (
        ("tol", tol),
        ("gap_tol", gap_tol),
        ("max_rounds", max_rounds),
        ("max_seconds", max_seconds),
    ):
        if value is not None and not (isinstance(value, (int, float)) and value >= 0):
            raise InputError(f"{name} is {value!r}; expected a number >= 0, or None to switch it off")
    chosen: list[Rule] = [diverging]
    if tol is not None:
        chosen.append(residual_below(tol))
    if gap_tol is not None:
        chosen.append(gap_below(gap_tol))
    if max_rounds is not None:
        chosen.append(rounds_reached(max_rounds))
    if max_seconds is not None:
        chosen.append(seconds_passed(max_seconds))
    return chosen
