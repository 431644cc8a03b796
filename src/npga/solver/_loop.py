"""The loop: it alone counts, records, stops, reports and saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.problem import Problem, residual
from npga.solver._method import Iterate, Method
from npga.solver._result import Status
from npga.solver._stopping import Rule, Snapshot
from npga.solver._trace import Record, Trace, next_record

Array = NDArray[Any]
Callback = Callable[[Record, Any], bool | None]
Leap = Callable[[Any, int, int | None], tuple[Any, list[Record]]]

# Residuals below this part of the first one are lost in the rounding of the first iterates.
RESOLUTION = float(np.sqrt(np.finfo(np.float64).eps))


class Meter:
    """Measures states of one run.

    Parameters
    ----------
    problem
        The problem.
    x0
        Start, for the relative gap.
    reference
        Solution that the gap is measured to, or None.
    """

    def __init__(self, problem: Problem, x0: Array, reference: Array | None) -> None:
        self.problem, self.reference = problem, reference
        distance = 1.0 if reference is None else float(np.linalg.norm(x0 - reference))
        self._distance = distance or 1.0
        self._floor = (0.0, 0.0)
        self._increment = 0.0
        self._size = 0.0

    def memory(self) -> dict[str, float]:
        """What a checkpoint must hold so that a resumed run measures alike."""
        return {
            "distance": self._distance, "floor_x": self._floor[0], "floor_z": self._floor[1],
            "increment": self._increment, "size": self._size,
        }  # fmt: skip

    def restore(self, memory: dict[str, float]) -> None:
        """Take over the memory of an earlier run."""
        self._distance, self._increment, self._size = (memory[k] for k in ("distance", "increment", "size"))
        self._floor = (memory["floor_x"], memory["floor_z"])

    def measure(self, state: Iterate, seconds: float) -> Snapshot:
        """The snapshot of a state."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Snapshot(self._record(state), seconds, *self._growth(state))

    def leaps(self, tol: float | None, gap_tol: float | None, max_rounds: int | None) -> Leap | None:  # noqa: ARG002
        """What `run` may use to pass over several records at once; nothing here."""
        return None

    def _record(self, state: Iterate) -> Record:
        mean = state.lam.mean(axis=0)
        found = residual(self.problem, state.x, state.Ax, mean, self._floor)
        if self._floor == (0.0, 0.0):
            self._floor = (RESOLUTION * found.absolute[0], RESOLUTION * found.absolute[1])
        size = float(np.linalg.norm(state.lam))
        spread = float(np.linalg.norm(state.lam - mean))
        gap = np.nan
        if self.reference is not None:
            gap = float(np.linalg.norm(state.x - self.reference)) / self._distance
        problem = self.problem
        objective = float(problem.f(state.x) + problem.g(state.x))
        if not problem.h.is_indicator:
            objective += float(problem.h(state.Ax.sum(axis=0)))
        return Record(state.iteration, state.rounds, gap, found.kkt, spread / size if size else 0.0, objective)

    def _growth(self, state: Iterate) -> tuple[float, float]:
        """Increment and size of lam, relative to the largest of the first ten."""
        size = float(np.abs(state.lam).max(initial=0.0))
        increment = float(np.abs(state.lam - state.lam_prev).max(initial=0.0))
        return self._relative_growth(state.iteration, size, increment)

    def _relative_growth(self, iteration: int, size: float, increment: float) -> tuple[float, float]:
        if iteration <= 10 or self._increment == 0.0:
            self._increment = max(self._increment, increment)
            self._size = max(self._size, size)
        return increment / (self._increment or 1.0), size / (self._size or 1.0)


@dataclass
class Run:
    """A run in progress: what the loop returns and what a checkpoint holds."""

    state: Any
    trace: Trace = field(default_factory=Trace)
    status: Status = Status.MAX_ITERS
    seconds: float = 0.0


def run(
    method: Method,
    meter: Meter,
    begun: Run,
    *,
    max_iters: int,
    rules: Sequence[Rule],
    record_every: int | None = None,
    callback: Callback | None = None,
    observers: Sequence[Callable[[Run], None]] = (),
    leap: Leap | None = None,
) -> Run:
    """Advance `method` until a rule says stop.

    A state is measured, recorded and tested at the iterations that `next_record` names and at the last one; the
    callback is called with each record and may return True to stop. Ctrl-C ends the run at the last whole state.
    Where nobody wants to see every record at once, `leap(state, max_iters, record_every)` may pass over several: it
    returns a later state, at which alone a rule may fire, and the records before it.
    """
    clock = time.perf_counter() - begun.seconds
    current = begun
    try:
        while True:
            state = current.state
            if not len(current.trace) or current.trace[-1].iteration != state.iteration:
                current.seconds = time.perf_counter() - clock
                snapshot = meter.measure(state, current.seconds)
                current.trace.append(snapshot.record)
                current.status = next((s for rule in rules if (s := rule(snapshot))), Status.MAX_ITERS)
                for observe in observers:
                    observe(current)
                if callback is not None and callback(snapshot.record, state):
                    current.status = Status.INTERRUPTED
            if current.status is not Status.MAX_ITERS or state.iteration >= max_iters:
                return current
            if leap is not None and callback is None:
                current.state, passed = leap(state, max_iters, record_every)
                for record in passed:
                    current.trace.append(record)
                continue
            until = min(next_record(state.iteration, record_every), max_iters)
            current.state = method.advance(state, until - state.iteration)
    except KeyboardInterrupt:
        current.status = Status.INTERRUPTED
        return current
