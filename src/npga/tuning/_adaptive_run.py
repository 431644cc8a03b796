"""NPGA that finds its steps on the way, as a method of the one loop.

The decisions are those of `npga.tuning._adaptive_steps`; here they meet a run in one process. A run is a row of legs.
Within a leg the steps stay as they are and NPGA runs as it always does, compiled where it can be. A few of its states
are kept as samples. When a leg is over, a combination of the samples is tried for one iteration, which counts whether
it is taken or not, and beta may change; x, lam and the consensus multiplier zeta = z/beta stay.

Two things are watched that theory takes for granted. The slope of each grad f_i between the two states of a sample is
compared with the L_i that f_i states, and the larger one counts from then on: who understates it, or does not know it,
is mended. And a leg in which r^2 grows a thousandfold, or is no longer a number, is taken back to its start and run
again with smaller alpha, a few times; then the run ends as diverged.

All that a run knows is in its state, so the loop's limits, records, interruptions and checkpoints hold for it as for
every other method.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version, drive
from npga.problem import Problem
from npga.solver import Meter, Method, Npga, Result, State, method_for
from npga.steps import Steps
from npga.tuning import _adaptive_steps as decisions
from npga.tuning._adaptive_steps import LEG_FIELDS, LegSample

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[Any]

# A slope must exceed the stated L_i by this before it counts: rounding shows where moves are small.
_STEEPER = 1.01


@dataclass(frozen=True)
class Leg:
    """What a leg of an automatic run was, and how it ended.

    Parameters
    ----------
    iteration
        Where it ended.
    beta
        Its beta.
    extrapolated
        Whether the run went on from a combination of its samples.
    retreated
        Whether it grew and was taken back.
    """

    iteration: int
    beta: float
    extrapolated: bool
    retreated: bool


@dataclass(frozen=True)
class AdaptiveState(State):
    """A state of NPGA, and where the run is in its leg.

    Parameters
    ----------
    begun
        x, lam and z/beta where the leg began.
    samples
        The fields of the samples so far, one after the other.
    place
        Number of the leg, the iteration in which it began, beta, caution, retreats so far, first beta.
    curvature, seen
        The L_i that count in this leg, and those that will in the next.
    history
        A row for each leg that is over: the fields of `Leg`.
    """

    begun: tuple[Array, ...] = ()
    samples: tuple[Array, ...] = ()
    place: Array = field(default_factory=lambda: np.zeros(6))
    curvature: Array = field(default_factory=lambda: np.zeros(0))
    seen: Array = field(default_factory=lambda: np.zeros(0))
    history: Array = field(default_factory=lambda: np.zeros((0, 4)))

    def taken(self) -> list[LegSample]:
        """The samples so far."""
        return [LegSample(*self.samples[k : k + LEG_FIELDS]) for k in range(0, len(self.samples), LEG_FIELDS)]

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The legs that are over."""
        return tuple(Leg(int(k), float(b), bool(e), bool(r)) for k, b, e, r in self.history)


class AdaptiveNpga(Method[AdaptiveState]):
    """NPGA with steps that follow the run.

    Parameters
    ----------
    problem, network
        What to solve, and where.
    version
        What `tied_version` returns.
    path
        As in `npga.solver.solve`.
    """

    kind = AdaptiveState

    def __init__(self, problem: Problem, network: Network, version: Version, path: str = "auto") -> None:
        problem.expect(network)
        self.problem, self.network = problem, network
        self.version: Version = version
        self.name = version.name
        self._asked = path
        self._norms = problem.A.norms
        self._curvature = decisions.declared_curvature(problem)
        self._first = decisions.first_beta(decisions.first_facts(problem, network, self._curvature))
        self._current: tuple[Steps, Npga] | None = None
        inner = self._npga(self._curvature, self._first, 1.0)
        self.path, self.path_reason, self.rounds = inner.path, inner.path_reason, inner.rounds

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "automatic", "version": f"{self.version!r}"}

    def _npga(self, curvature: Array, beta: float, caution: float) -> Npga:
        """NPGA with the steps of a leg; that of the last one is kept."""
        alpha = decisions.tied_alpha(curvature, self._norms, beta, caution)
        steps = Steps(tuple(alpha.tolist()), beta, decisions.GAMMA, decisions.THETA)
        if self._current is None or self._current[0] != steps:
            self._current = steps, method_for(self.problem, self.network, self.version, steps, self._asked)
        return self._current[1]

    def at(self, state: AdaptiveState) -> Npga:
        """NPGA as it runs at a state."""
        _, _, beta, caution, *_ = state.place.tolist()
        return self._npga(state.curvature, beta, caution)

    def blame(self) -> str:
        """What to look at when the iterates diverge, as a sentence."""
        return (
            "The iterates grow without bound, whatever the steps: check that gradients are finite and that their L "
            "holds (npga.functions.check), and that the problem has a solution."
        )

    def meter(self, x0: Array, reference: Array | None) -> Meter[AdaptiveState]:
        """What measures its states: lam may grow as far as beta does, and growth that means harm is taken back here."""
        return _PatientMeter(self.problem, x0, reference)

    # -------------------------------------------------------------- start

    def start(self, x0: Array, lam0: Array) -> AdaptiveState:
        """The state before the first iteration."""
        state = self._npga(self._curvature, self._first, 1.0).start(x0, lam0)
        place = np.array([0, 0, self._first, 1.0, 0, self._first])
        return self._begin(state, np.zeros_like(lam0), place, self._curvature, np.zeros((0, 4)))

    def go_on(self, earlier: Result) -> AdaptiveState:
        """The state of an earlier result: that run goes on where nothing else has changed.

        Where something has, legs begin short again, since the samples of a short leg are enough near a solution, and
        beta lies halfway (in logarithms) between that of the end, which suits the last digits, and that of a new run.
        """
        if earlier.steps is None or earlier.version is None:
            return super().go_on(earlier)
        x, lam = self.problem.join(earlier.x, "start.x"), self.problem.dual(earlier.lam, "start.lam")
        old = Npga(earlier.problem, earlier.network, earlier.version, earlier.steps)
        zeta, beta = old.memory(earlier.state), float(np.sqrt(earlier.steps.beta * self._first))
        before, nothing = earlier.state, np.zeros((0, 4))
        if isinstance(before, AdaptiveState) and self._is_same(earlier) and np.array_equal(before.x, x):
            begun = before.place - [0, before.iteration, 0, 0, 0, 0]
            return replace(before, iteration=0, rounds=0, place=begun, history=nothing)
        state = self._npga(self._curvature, beta, 1.0).start(x, lam, zeta)
        return self._begin(state, zeta, np.array([0, 0, beta, 1.0, 0, beta]), self._curvature, nothing)

    def _is_same(self, earlier: Result) -> bool:
        """Whether an earlier run had the same problem, network and version."""
        mine, other = self.problem, earlier.problem
        return (
            (mine is other or mine.fingerprint == other.fingerprint)
            and self.network.fingerprint() == earlier.network.fingerprint()
            and f"{self.version!r}" == f"{earlier.version!r}"
        )

    def _begin(self, core: State, zeta: Array, place: Array, curvature: Array, history: Array) -> AdaptiveState:
        """A state at the start of a leg."""
        return AdaptiveState(
            **core_fields(core),
            begun=(core.x, core.lam, zeta),
            place=place,
            curvature=curvature,
            seen=curvature,
            history=history,
        )

    # -------------------------------------------------------------- legs

    def advance(self, state: AdaptiveState, iterations: int) -> AdaptiveState:
        """The state `iterations` later; decisions between legs are part of the way."""
        target = state.iteration + iterations
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while state.iteration < target:
                marks = decisions.leg_marks(int(state.place[0]))
                if len(state.samples) == LEG_FIELDS * len(marks):
                    state = self._decide(state, marks)
                    continue
                before = state.iteration
                state = self._stride(state, marks, target)
                if self._grows(state):
                    if state.place[4] >= decisions.RETREATS:
                        return state
                    state = self._retreat(state)
                elif state.iteration == before:
                    return state
        return state

    def _stride(self, state: AdaptiveState, marks: Array, target: int) -> AdaptiveState:
        """Go on to the next sample, or to the target if that comes first."""
        method, mark = self.at(state), int(state.place[1] + marks[len(state.samples) // LEG_FIELDS])
        if target < mark:
            return replace(state, **core_fields(method.advance(_plain(state), target - state.iteration)))
        before = method.advance(_plain(state), mark - 1 - state.iteration)
        core = method.advance(before, 1)
        samples = (*state.samples, *_sample(method, before, core))
        seen = steeper_slopes(self.problem, state.seen, before.x, core.x)
        return replace(state, **core_fields(core), samples=samples, seen=seen)

    def _grows(self, state: AdaptiveState) -> bool:
        """Whether the leg must be taken back: the last change of lam alone is far more than r^2 was at its start."""
        change = float(np.square(state.lam - state.lam_prev, dtype=np.float64).sum())
        if not (np.isfinite(change) and np.isfinite(state.x).all()):
            return True
        if not state.samples:
            return False
        first = decisions.move_products(state.taken()[:1], self._alpha(state), state.place[2])[0, 0]
        return bool(change > decisions.ALARM * state.place[2] * first)

    def _alpha(self, state: AdaptiveState) -> Array:
        return np.repeat(self.at(state).steps.per_agent(self.problem.n), self.problem.sizes)

    def _retreat(self, state: AdaptiveState) -> AdaptiveState:
        """Back to where the leg began, with smaller steps."""
        number, _, beta, caution, retreats, first = state.place.tolist()
        if not (state.seen > 2.0 * state.curvature).any():
            caution *= decisions.SMALLER
        x, lam, zeta = state.begun
        core = self._npga(state.seen, beta, caution).start(x, lam, zeta)
        place = np.array([number, state.iteration, beta, caution, retreats + 1, first])
        return self._begin(_count(core, state), zeta, place, state.seen, _noted(state, False, True))

    def _decide(self, state: AdaptiveState, marks: Array) -> AdaptiveState:
        """The leg is over: try a combination of its samples, choose beta, begin the next one."""
        number, _, beta, caution, retreats, first = state.place.tolist()
        method, samples, alpha = self.at(state), state.taken(), self._alpha(state)
        norms = np.repeat(self._norms, self.problem.sizes)
        sums = decisions.leg_sums(state.begun[:2], samples, marks, alpha, norms, beta)
        core, taken = self._extrapolate(method, state, samples, decisions.combination(sums.gram), alpha)
        zeta, after = method.memory(core), decisions.next_beta(sums, beta, int(number), first)
        if after != beta or (state.seen != state.curvature).any():
            core = _count(self._npga(state.seen, after, caution).start(core.x, core.lam, zeta), core)
        place = np.array([number + 1, core.iteration, after, caution, retreats, first])
        return self._begin(core, zeta, place, state.seen, _noted(state, taken, False))

    def _extrapolate(
        self, method: Npga, state: AdaptiveState, samples: Sequence[LegSample], weights: Array | None, alpha: Array
    ) -> tuple[State, bool]:
        """One iteration from the combination of the samples, if it gets further; else the state as it was."""
        core = _plain(state)
        if weights is None:
            return core, False
        x, lam, z = (
            np.tensordot(weights, [getattr(sample, name) for sample in samples], 1).astype(core.x.dtype)
            for name in ("x", "lam", "z")
        )
        before = method.start(x, lam, z / method.steps.beta)
        tried = method.advance(before, 1)
        pair = _sample(method, before, tried), samples[-1]
        after, last = (decisions.move_products([one], alpha, method.steps.beta)[0, 0] for one in pair)
        better = decisions.is_better(after, last)
        counted = replace(core, iteration=core.iteration + 1, rounds=core.rounds + self.rounds)
        return (_count(tried, counted) if better else counted), better


class _PatientMeter(Meter[AdaptiveState]):
    """Calls a run diverged where it is no longer finite, and not before."""

    def _growth(self, state: AdaptiveState) -> tuple[float, float]:
        return (0.0, 0.0) if np.isfinite(state.lam).all() and np.isfinite(state.x).all() else (np.nan, np.nan)


def steeper_slopes(problem: Problem, seen: Array, x: Array, after: Array) -> Array:
    """The L_i, raised to the slopes of grad f_i between two points that rounding can tell apart."""
    owner = np.repeat(np.arange(problem.n), problem.sizes)

    def by_agent(values: Array) -> Array:
        return np.sqrt(np.bincount(owner, np.square(values, dtype=np.float64), problem.n))

    moved, size = by_agent(after - x), by_agent(x)
    apart = moved > np.sqrt(np.finfo(x.dtype).eps) * size
    slope = np.divide(by_agent(problem.f.grad(after) - problem.f.grad(x)), moved, out=np.zeros_like(moved), where=apart)
    return np.where(np.isfinite(slope) & (slope > _STEEPER * seen), slope, seen)


def _plain(state: AdaptiveState) -> State:
    """The state as NPGA knows it."""
    return State(**core_fields(state))


def core_fields(state: State) -> dict[str, Any]:
    """What NPGA knows of a state, by name."""
    return {item.name: getattr(state, item.name) for item in fields(State)}


def _count(core: State, like: State) -> State:
    """A state with the work of another one."""
    return replace(core, iteration=like.iteration, rounds=like.rounds)


def _sample(method: Npga, before: State, after: State) -> LegSample:
    """The sample of one iteration."""
    nothing = np.zeros_like(after.lam)
    Kv = drive(method.schedule.correction(nothing, after.v, after.kept, 1.0), method.exchange)
    z = after.u + method.steps.gamma * Kv
    # Only differences between agents matter; without the mean they keep their digits.
    v = after.v - after.v.mean(axis=0)
    return LegSample(after.x, after.lam, z, after.x - before.x, after.lam - before.lam, v, Kv)


def _noted(state: AdaptiveState, extrapolated: bool, retreated: bool) -> Array:
    """The history with the present leg."""
    return np.vstack([state.history, [state.iteration, state.place[2], extrapolated, retreated]])
