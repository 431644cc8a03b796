"""How a run ended, and everything it found."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._state import State
from npga.solver._trace import Trace
from npga.steps import Steps

Array = NDArray[Any]


class Status(enum.Enum):
    """Why the loop stopped. `Status.message` says what to try next."""

    CONVERGED = "converged"
    MAX_ITERS = "max_iters"
    MAX_ROUNDS = "max_rounds"
    MAX_SECONDS = "max_seconds"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def message(self) -> str:
        """One sentence with the next thing to try."""
        return _MESSAGES[self]

    @property
    def ok(self) -> bool:
        """Whether the tolerance was met."""
        return self is Status.CONVERGED


_MESSAGES = {
    Status.CONVERGED: "The tolerance is met.",
    Status.MAX_ITERS: "The iterations are used up: raise max_iters, go on with start=result, or change the steps.",
    Status.MAX_ROUNDS: "The communication rounds are used up: raise max_rounds, or go on with start=result.",
    Status.MAX_SECONDS: "The time is used up: raise max_seconds, or go on with start=result.",
    Status.DIVERGED: "The iterates grow without bound: reduce the steps.",
    Status.INTERRUPTED: "The run was interrupted: go on with start=result.",
}


@dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Parameters
    ----------
    x, lam
        Final primal (d,) and dual (n, p) iterates.
    blocks
        The per-agent parts of x.
    status, message
        Why it stopped, and a sentence that says what to try next for this very run.
    iterations, rounds, messages, floats_sent
        Work and traffic: in one round every agent sends one p-vector to each neighbour.
    seconds
        Wall time.
    trace
        What was recorded on the way.
    version, steps, method
        What ran; `version` is None for methods that are not NPGA.
    path
        The implementation that ran: "vectorised" or "compiled".
    state
        Where the run stood; `npga.solve(..., start=result)` goes on from it.
    problem, network
        What was solved, and where.
    """

    x: Array
    lam: Array
    blocks: list[Array]
    status: Status
    message: str
    iterations: int
    rounds: int
    messages: int
    floats_sent: int
    seconds: float
    trace: Trace
    method: str
    steps: Steps | None
    version: Version | None
    path: str
    state: State = field(repr=False)
    problem: Problem = field(repr=False)
    network: Network = field(repr=False)

    @property
    def kkt(self) -> float:
        """Residual of the optimality conditions at the end."""
        return float(self.trace[-1].kkt)

    def __str__(self) -> str:
        last = self.trace[-1]
        gap = "" if np.isnan(last.gap) else f", gap {last.gap:.1e}"
        return (
            f"{self.method}: {self.status.value} after {self.iterations} iterations, {self.rounds} rounds, "
            f"{self.messages} messages; kkt {last.kkt:.1e}{gap}. {self.message}"
        )
