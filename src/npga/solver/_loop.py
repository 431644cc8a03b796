"""The loop, which alone counts, records, stops, reports and saves; and what it asks of a method."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.networks import Network, Version
from npga.problem import Problem, Residual, residual
from npga.solver._obstacles import Obstacle, Watch
from npga.solver._result import Record, Status, Trace, Work
from npga.solver._stopping import Limits, Snapshot, is_resolved, next_record
from npga.steps import Steps

if TYPE_CHECKING:
    from npga.solver._result import Result

Array = NDArray[Any]


# ------------------------------------------------------------------ what runs


@dataclass(frozen=True)
class Iterate:
    """What the loop reads of any method's state; a method that remembers more adds fields.

    For all agents together x is (d,) and the dual arrays are (n, p), or (1, p) for a method with one dual vector; for
    one agent they are (d_i,) and (p,).

    Parameters
    ----------
    x, lam
        Primal and dual iterates.
    lam_prev
        The dual iterate before; zero at the start.
    iteration, rounds
        What has been done so far.
    inner
        Iterations spent on sub-problems inside, by methods that have some.
    """

    lam_is_dual: ClassVar[bool] = True  # rows are multipliers of the coupling

    x: Array
    lam: Array
    lam_prev: Array
    iteration: int = field(default=0, kw_only=True)
    rounds: int = field(default=0, kw_only=True)
    inner: int = field(default=0, kw_only=True)

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, for a checkpoint; those of a tuple are numbered."""
        found: dict[str, Array] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):
                found |= {f"{item.name}{j}": array for j, array in enumerate(value)}
            elif isinstance(value, np.ndarray):
                found[item.name] = value
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], iteration: int, rounds: int, inner: int = 0) -> Self:
        """The state that `arrays` was taken from."""
        named: dict[str, Any] = {}
        for item in fields(cls):
            if item.name in arrays:
                named[item.name] = arrays[item.name]
            elif item.name not in ("iteration", "rounds", "inner"):
                count = sum(name.rstrip("0123456789") == item.name for name in arrays)
                named[item.name] = tuple(arrays[f"{item.name}{j}"] for j in range(count))
        return cls(**named, iteration=iteration, rounds=rounds, inner=inner)


S = TypeVar("S", bound=Iterate)


class Method(ABC, Generic[S]):
    """A method that solves P1 iteration by iteration: a start and a way to advance.

    The loop meters every method alike. A new one states the attributes, writes `start` and `_iterate` (or `advance`),
    and gets a row in the table of `npga.solver.methods`.

    Attributes
    ----------
    name : str
        What results and messages call it.
    problem, network
        What it solves, and where.
    steps, version
        Its step sizes, and its version if it is NPGA.
    path, path_reason : str
        The implementation: "vectorised" (NumPy) or "compiled"; and why it is not compiled, if nobody asked for that.
    rounds : int
        Communication rounds per iteration.
    vectors : int
        Vectors of length p that an agent sends to each neighbour in one round.
    work, inner_work : Work
        What is computed in an iteration, and in each inner one.
    kind : type
        Class of its states.
    """

    name: str
    problem: Problem
    network: Network
    steps: Steps | None = None
    version: Version | None = None
    path: str = "vectorised"
    path_reason: str = ""
    rounds: int = 0
    vectors: int = 1
    work: Work = Work(gradients=1, products=2, proxes=2)
    inner_work: Work = Work()
    kind: type[S]

    @abstractmethod
    def start(self, x0: Array, lam0: Array) -> S:
        """The state before the first iteration, from x0 of shape (d,) and lam0 of shape (n, p)."""

    def advance(self, state: S, iterations: int) -> S:
        """The state some iterations later, or the first one that is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(iterations):
                state = self._iterate(state)
                if not np.isfinite(state.lam.sum()):
                    break
        return state

    def _iterate(self, state: S) -> S:
        """The state one iteration later."""
        raise NotImplementedError(f"{self.name} has neither _iterate nor an advance of its own")

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return {
            "method": self.name,
            "problem": self.problem.fingerprint,
            "network": self.network.fingerprint(),
            "steps": None if self.steps is None else asdict(self.steps),
        }

    @property
    def width(self) -> int:
        """Numbers that an agent sends to each neighbour in one round."""
        return self.vectors * self.problem.p

    def traffic(self, state: S) -> tuple[int, int]:
        """Messages and numbers that were sent up to a state."""
        messages = 2 * len(self.network.edges) * state.rounds
        return messages, messages * self.width

    def point(self, x: ArrayLike, name: str) -> Array:
        """x as its states hold it, checked: what a start or a reference becomes."""
        return self.problem.join(x, name)

    def solution(self, state: S) -> Array:
        """What a result gives as x."""
        return state.x

    def blame(self) -> str:
        """What to reduce when the iterates diverge, as a sentence."""
        return Status.DIVERGED.message

    def go_on(self, earlier: Result) -> S:
        """The state to go on from after an earlier result: its own where nothing has changed, else from x and lam."""
        if isinstance(earlier.state, self.kind) and self._ran(earlier):
            return replace(earlier.state, iteration=0, rounds=0, inner=0)
        return self.start(self.problem.join(earlier.x, "start.x"), self.problem.dual(earlier.lam, "start.lam"))

    def _ran(self, earlier: Result) -> bool:
        """Whether an earlier result comes from this very method on this problem and network."""
        same = earlier.method == self.name and earlier.steps == self.steps
        same = same and (earlier.network is self.network or earlier.network.fingerprint() == self.network.fingerprint())
        return same and (earlier.problem is self.problem or earlier.problem.fingerprint == self.problem.fingerprint)

    def meter(self, x0: Array, reference: Array | None) -> Meter[S]:
        """What measures its states, from a start and perhaps a solution."""
        return Meter(self.problem, x0, reference)


# ------------------------------------------------------------------ what is measured

Callback = Callable[[Record, Any], bool | None]
Leap = Callable[[S, int], tuple[S, list[Record]]]


@dataclass
class Yardstick:
    """What a run is measured against, all of it found in its first iterations.

    Parameters
    ----------
    distance
        |x0 - x*|, for the gap.
    energy
        Of the first step: the least that residuals are measured against.
    increment, size
        Largest change of lam, and largest lam, in the first ten records.
    """

    distance: float = 1.0
    energy: float = 0.0
    increment: float = 0.0
    size: float = 0.0

    def begin(self, energy: float) -> None:
        """Remember the first energy that is not zero."""
        if self.energy == 0.0 and np.isfinite(energy):
            self.energy = energy

    def growth(self, iteration: int, size: float, increment: float) -> tuple[float, float]:
        """Increment and size of lam, relative to the first ones."""
        if iteration <= 10 or self.increment == 0.0:
            self.increment = max(self.increment, increment)
            self.size = max(self.size, size)
        return increment / (self.increment or 1.0), size / (self.size or 1.0)


class Meter(Generic[S]):
    """Measures states of one run.

    Parameters
    ----------
    problem
        The problem.
    x0
        Start, for the relative gap.
    reference
        Solution that the gap is measured to, or None.

    Attributes
    ----------
    yardstick : Yardstick
        What it remembers; a checkpoint must hold it so that a resumed run measures alike.
    """

    def __init__(self, problem: Problem, x0: Array, reference: Array | None) -> None:
        self.problem, self.reference = problem, reference
        distance = 1.0 if reference is None else float(np.linalg.norm(x0 - reference))
        self.yardstick = Yardstick(distance or 1.0)

    def measure(self, state: S, seconds: float) -> Snapshot:
        """The snapshot of a state."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Snapshot(self._record(state), seconds, *self._growth(state))

    def overall(self, state: S) -> float:
        """The root mean square of all relative moves (see `Residual`); nan where it is no number."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._residual(state, self.problem.A.apply(state.x)).overall

    def _residual(self, state: S, Ax: Array) -> Residual:
        return residual(self.problem, state.x, Ax, state.lam.mean(axis=0), self.yardstick.energy)

    def leaps(self, limits: Limits, record_every: int | None) -> Leap[S] | None:  # noqa: ARG002
        """What may pass over several records at once, or None; nothing here.

        A leap takes a state to a later one, before which no limit is reached at any record, and returns the records
        between the two; it ends at the first record that is not before a given iteration. The limits that a kernel
        knows come from `Limits.packed`.
        """
        return None

    def _record(self, state: S) -> Record:
        problem, unit = self.problem, self.yardstick
        mean, Ax = state.lam.mean(axis=0), problem.A.apply(state.x)
        found = self._residual(state, Ax)
        unit.begin(found.energy)
        size = float(np.linalg.norm(state.lam))
        spread = float(np.linalg.norm(state.lam - mean))
        gap = np.nan
        if self.reference is not None:
            gap = float(np.linalg.norm(state.x - self.reference)) / unit.distance
        objective = float(problem.f(state.x) + problem.g(state.x))
        if not problem.h.is_indicator:
            objective += float(problem.h(Ax.sum(axis=0)))
        return Record(state.iteration, state.rounds, gap, found.kkt, spread / size if size else 0.0, objective)

    def _growth(self, state: S) -> tuple[float, float]:
        size = float(np.abs(state.lam).max(initial=0.0))
        increment = float(np.abs(state.lam - state.lam_prev).max(initial=0.0))
        return self.yardstick.growth(state.iteration, size, increment)


# ------------------------------------------------------------------ the loop


@dataclass
class Run(Generic[S]):
    """A run in progress: what the loop returns and what a checkpoint holds."""

    state: S
    trace: Trace = field(default_factory=Trace)
    status: Status = Status.MAX_ITERS
    seconds: float = 0.0
    obstacle: Obstacle | None = None


# Control returns to Python this often within a stretch of iterations, for the clock and for Ctrl-C.
_PIECE_SECONDS = 0.1


def run(
    method: Method[S],
    meter: Meter[S],
    begun: Run[S],
    limits: Limits,
    *,
    record_every: int | None = None,
    callback: Callback | None = None,
    observers: Sequence[Callable[[Run[Any]], None]] = (),
) -> Run[S]:
    """Advance `method` until a limit is reached.

    A state is measured, recorded and tested at the iterations that `next_record` names and at the last one; the
    callback is called with each record and may return True to stop. Ctrl-C ends the run at the last whole state.
    Where nobody wants to see every record at once, the meter may leap over several (see `Meter.leaps`). At every
    doubling of its iterations the run is asked what stands in its way (see `Watch`).
    """
    clock = time.perf_counter() - begun.seconds
    current, watch = begun, Watch(method.problem, begun.state.iteration)
    leap = meter.leaps(limits, record_every) if callback is None else None
    piece = 1
    try:
        while True:
            state = current.state
            if not len(current.trace) or current.trace[-1].iteration != state.iteration:
                current.seconds = time.perf_counter() - clock
                snapshot = meter.measure(state, current.seconds)
                current.trace.append(snapshot.record)
                current.status = limits.verdict(snapshot) or Status.MAX_ITERS
                if current.status is Status.MAX_ITERS and watch.is_due(state.iteration):
                    _ask(watch, current, limits)
                for observe in observers:
                    observe(current)
                if callback is not None and callback(snapshot.record, state):
                    current.status = Status.INTERRUPTED
            if current.status is not Status.MAX_ITERS or state.iteration >= limits.max_iters:
                return current
            if leap is not None:
                current.state, passed = leap(state, watch.due)
                current.trace.append(*passed)
                continue
            until = min(next_record(state.iteration, record_every), limits.max_iters)
            deadline = np.inf if limits.max_seconds is None else clock + limits.max_seconds
            del state  # its arrays are large, and a stretch needs the latest ones only
            piece = _stretch(method, current, until, deadline, piece)
    except KeyboardInterrupt:
        current.status = Status.INTERRUPTED
        return current


def _stretch(method: Method[S], current: Run[S], until: int, deadline: float, piece: int) -> int:
    """Advance to an iteration, in pieces after which the clock is looked at; returns the length of the next one."""
    while current.state.iteration < until:
        before, begun = current.state.iteration, time.perf_counter()
        count = min(piece, until - before)
        current.state = method.advance(current.state, count)
        now = time.perf_counter()
        if now >= deadline or current.state.iteration < before + count:
            break
        piece = max(1, int(count * min(_PIECE_SECONDS / max(now - begun, 1e-9), 16.0)))
    return piece


def _ask(watch: Watch, current: Run[S], limits: Limits) -> None:
    """Stop the run where there is no solution, or where its numbers have no more digits to give."""
    if limits.tol is not None and is_resolved(current.trace, current.state.x.dtype):
        current.status = Status.CONVERGED
        return
    current.obstacle = watch.look(current.state.iteration, current.state.x, current.state.lam.mean(axis=0))
    if current.obstacle is not None:
        current.status = current.obstacle.status
