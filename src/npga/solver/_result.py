"""How a run ended, what was recorded on its way, and everything it found."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.extras import load
from npga.networks import Network, Version
from npga.problem import Problem, residual
from npga.steps import Steps

if TYPE_CHECKING:
    from npga.pages import Section
    from npga.solver._loop import Iterate
    from npga.solver._obstacles import Obstacle

Array = NDArray[Any]


class Status(enum.Enum):
    """Why the loop stopped. `Status.message` says what to try next."""

    CONVERGED = "converged"
    MAX_ITERS = "max_iters"
    MAX_ROUNDS = "max_rounds"
    MAX_SECONDS = "max_seconds"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NO_SADDLE_POINT = "no_saddle_point"

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
    Status.INFEASIBLE: "No point satisfies the coupling: loosen it, or the limits of the agents.",
    Status.UNBOUNDED: "The objective falls without bound: bound the variables.",
    Status.NO_SADDLE_POINT: "There is no saddle point: add a small quadratic cost, or loosen the coupling.",
}


@dataclass(frozen=True)
class Record:
    """One line of the trace.

    Parameters
    ----------
    iteration, round
        Work done so far.
    gap
        |x - x*| / |x0 - x*|, nan without a reference.
    kkt
        Scale-free residual of the optimality conditions at (x, mean of lam).
    consensus
        |lam_i - mean| over all agents, relative to the size of lam.
    objective
        f + g + h; f + g alone when h is an indicator, whose violation is part of `kkt`.
    """

    iteration: int
    round: int
    gap: float
    kkt: float
    consensus: float
    objective: float


COLUMNS = tuple(item.name for item in fields(Record))


@dataclass
class AgentTrace:
    """What was measured of every agent at the records of a run.

    Parameters
    ----------
    iterations, seconds
        When.
    stationarity
        By which part of its size a natural step at the mean of lam would move each agent (see `npga.problem.residual`).
    consensus
        |lam_i - mean| relative to |lam|; the squares add up to the square of the trace's consensus.
    """

    iterations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stationarity: list[Array] = field(default_factory=list)
    consensus: list[Array] = field(default_factory=list)

    def add(self, problem: Problem, state: Any, seconds: float) -> None:
        """Measure a state."""
        residuals, spread = _agents(problem, state)
        self.iterations.append(int(state.iteration))
        self.seconds.append(seconds)
        self.stationarity.append(residuals)
        self.consensus.append(spread)


def _agents(problem: Problem, state: Any) -> tuple[Array, Array]:
    mean, nothing = state.lam.mean(axis=0), np.zeros(problem.n)
    size = float(np.linalg.norm(state.lam))
    spread = np.linalg.norm(state.lam - mean, axis=1) / size if size and len(state.lam) == problem.n else nothing
    fits = state.x.shape == (problem.d,) and state.lam_is_dual
    with np.errstate(over="ignore", invalid="ignore"):
        return (residual(problem, state.x, problem.A.apply(state.x), mean).agents if fits else nothing), spread


class Trace:
    """The recorded lines of a run, column by column.

    ``trace["kkt"]`` and ``trace.kkt`` are arrays, ``trace[-1]`` is the last record, ``trace.to_pandas()`` a data
    frame, ``trace.plot()`` a figure.

    Attributes
    ----------
    agents : AgentTrace or None
        What was measured of every agent, for a run with ``trace="agents"``.
    """

    def __init__(self, records: list[Record] | None = None) -> None:
        self._records = list(records or [])
        self.agents: AgentTrace | None = None

    def append(self, *records: Record) -> None:
        """Add lines."""
        self._records.extend(records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            if key not in COLUMNS:
                raise InputError(f"the trace has no column {key!r}; expected one of {', '.join(COLUMNS)}")
            return np.array([getattr(record, key) for record in self._records])
        return self._records[key]

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in COLUMNS:
            column: NDArray[Any] = self[name]
            return column
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"Trace({len(self)} records of {', '.join(COLUMNS)})"

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {name: self[name] for name in COLUMNS}

    def to_pandas(self) -> Any:
        """The columns as a pandas DataFrame."""
        return load("pandas", "pandas", "Trace.to_pandas()").DataFrame(self.to_dict())

    def plot(self, path: str | PathLike[str] | None = None, *, by: str = "iterations") -> Any:
        """Draw the residuals (needs Matplotlib), save the figure if a path is given, and return it.

        Parameters
        ----------
        path
            File to write.
        by
            "iterations" or "rounds".
        """
        from npga.solver._showing import plot_trace

        return plot_trace(self, {"iterations": self.iteration, "rounds": self.round}, by, path)


@dataclass(frozen=True)
class Work:
    """What the agents compute, counted over all of them together: one gradient is that of the whole f, and so on.

    Parameters
    ----------
    gradients
        Evaluations of grad f.
    products
        Products with A or its transpose.
    proxes
        Evaluations of the prox of g or of h*.
    """

    gradients: int = 0
    products: int = 0
    proxes: int = 0

    def times(self, count: int) -> Work:
        """So many times this."""
        return Work(count * self.gradients, count * self.products, count * self.proxes)

    def __add__(self, other: Work) -> Work:
        return Work(self.gradients + other.gradients, self.products + other.products, self.proxes + other.proxes)


@dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Parameters
    ----------
    x, lam
        Final primal (d,) and dual (n, p) iterates; a method with one dual vector has it in every row.
    blocks
        The per-agent parts of x.
    status, message
        Why it stopped, and a sentence that says what to try next for this very run.
    iterations, rounds, messages, floats_sent
        Work and traffic: in one round every agent sends one p-vector to each neighbour.
    inner_iterations
        Spent on sub-problems inside the iterations, by methods that have some.
    work
        Gradients, products and proximal steps, those of inner iterations included.
    seconds
        Wall time.
    trace
        What was recorded on the way.
    version, steps, method
        What ran; `version` is None for methods that are not NPGA.
    path, path_reason
        The implementation that ran, "vectorised" or "compiled"; and why it was not compiled, unless that was asked for.
    state
        Where the run stood; `npga.solve(..., start=result)` goes on from it.
    problem, network
        What was solved, and where.
    obstacle
        Why there is no solution, with the coupling rows and agents involved, where the run has shown that.
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
    inner_iterations: int
    work: Work
    seconds: float
    trace: Trace
    method: str
    steps: Steps | None
    version: Version | None
    path: str
    state: Iterate = field(repr=False)
    problem: Problem = field(repr=False)
    network: Network = field(repr=False)
    obstacle: Obstacle | None = field(repr=False, default=None)
    path_reason: str = field(repr=False, default="")

    @property
    def kkt(self) -> float:
        """Residual of the optimality conditions at the end."""
        return float(self.trace[-1].kkt)

    @cached_property
    def duals(self) -> Array:
        """Prices of the coupling, shape (p,): the mean of lam, or grad h(sum_i A_i x_i) where that fits better.

        The sign is that of lam in dh(sum_i A_i x_i): where the coupling is sum_i A_i x_i = b or <= b, one more unit of
        b_k changes the optimal cost by ``-duals[k]``, and for <= the duals are not negative.
        """
        return self.problem.kkt(self._blocks_joined(), self.lam).lam

    @cached_property
    def duals_are_unique(self) -> bool | None:
        """Whether no other prices go with this x; None where finding out is too much work.

        Other prices exist where a change y of lam moves no agent, A_i^T y = 0 in all coordinates that g_i leaves free,
        and is nonzero only in rows where h leaves lam free: where the active part of [A_1, ..., A_n] has not full row
        rank.
        """
        return self.problem.duals_are_unique(self._blocks_joined(), self.duals)

    @property
    def error_bound(self) -> float:
        """A number that |x - x*| does not exceed; infinity where none is known. See `npga.Problem.error_bound`."""
        return self.problem.error_bound(self._blocks_joined(), self.lam)

    def _blocks_joined(self) -> Array:
        return np.concatenate([np.ravel(block) for block in self.blocks])

    def plot(self, path: str | PathLike[str] | None = None, *, by: str = "iterations") -> Any:
        """Draw the residuals (needs Matplotlib), save the figure if a path is given, and return it.

        Parameters
        ----------
        path
            File to write.
        by
            "iterations", "rounds", "floats_sent" or "seconds".
        """
        from npga.solver._showing import plot_trace, spent

        return plot_trace(self.trace, spent(self)[0], by, path)

    def sections(self) -> list[Section]:
        """What a report shows of this run, as plain data that JSON can hold (see `npga.pages`)."""
        from npga.solver._showing import run_sections

        return run_sections(self)

    def page(self) -> tuple[str, str, list[Section]]:
        """Title, summary and sections of its report."""
        return f"{self.method} on {self.problem.n} agents", str(self), self.sections()

    def report(self, path: str | PathLike[str] = "run.html") -> Path:
        """Write everything about the run as one HTML file that opens offline, and return its path.

        With ``solve(..., trace="agents")`` the network has a slider over the run.

        Parameters
        ----------
        path
            The file.
        """
        from npga.pages import write_page

        return write_page(path, *self.page())

    def __str__(self) -> str:
        last = self.trace[-1]
        gap = "" if np.isnan(last.gap) else f", gap {last.gap:.1e}"
        return (
            f"{self.method}: {self.status.value} after {self.iterations} iterations, {self.rounds} rounds, "
            f"{self.messages} messages; kkt {last.kkt:.1e}{gap}. {self.message}"
        )
