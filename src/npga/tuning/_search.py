"""Steps from trial runs alone: no reference solution, any problem.

Successive halving: many sets of steps run a little, the better part of them runs on, twice as long each time. What is
compared is the residual of the optimality conditions that each has reached. A second round samples around the winner.
Beside it, what all searches share: time and progress, and runs that are measured against a solution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import Limits, Meter, Npga, State, Tell, method_for
from npga.steps import Steps
from npga.tuning._space import StepSpace
from npga.tuning._tuning_results import Trial, Trials, Tuning

Array = NDArray[Any]

_SAMPLES = 48
_AROUND = 24
_FIRST = 60
_DIGITS = 1e-10
# A run that is below its target is watched for at least so many iterations more; the clock is looked at after these.
_CALM, _PIECE = 20, 500
# A run goes on for three digits beyond its target, to see whether a slow mode hides below it.
_BEYOND = 1e-3


def search_steps(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int = 0,
    gamma_max: float | None = None,
    budget: Budget,
) -> Tuning:
    """Choose steps by trial runs."""
    begun = time.perf_counter()
    trials, winner = best_trial(problem, network, version, seed=seed, gamma_max=gamma_max, budget=budget)
    if not winner.kkt < (winner.first or 1.0):  # a start at the solution leaves no progress to make
        raise InputError(
            f"no steps that make progress were found for {version.name} in {len(trials)} trials; allow more time, or "
            "use network.lazy()"
        )
    return Tuning(
        winner.version,
        winner.steps,
        network,
        "search",
        winner.rate,
        trials,
        f"Chosen by {len(trials)} trial runs ({trials.work} iterations); the last one went from a residual of "
        f"{winner.first:.1e} to {winner.kkt:.1e}. Nothing is proved about these steps.",
        time.perf_counter() - begun,
    )


def best_trial(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int,
    gamma_max: float | None = None,
    budget: Budget,
    samples: int = _SAMPLES,
    around: int = _AROUND,
) -> tuple[Trials, TrialRun]:
    """All trials, and the best one: successive halving over the space of steps, then twice around the winner."""
    space = StepSpace(problem, network, version, gamma_max)
    rng, trials = np.random.default_rng(seed), Trials()
    runners = trial_runs(problem, network, space, [space.middle])
    winner: TrialRun | None = None
    try:
        runners += trial_runs(problem, network, space, space.sample(samples, rng), runners[0].first)
        winner = halve(runners, _FIRST, trials, budget, "sample")[0]
        for spread in (0.5, 0.2):
            if budget.spent:
                break
            near = winner.point + spread * rng.standard_normal((around, len(winner.point)))
            again = trial_runs(problem, network, space, (winner.point, *near), winner.first)
            winner = min(winner, halve(again, 2 * _FIRST, trials, budget, "around")[0], key=lambda r: r.score)
    except KeyboardInterrupt:
        winner, budget.interrupted = winner or min(runners, key=lambda r: r.score), True
    return trials, winner


class TrialRun:
    """One set of steps, a point of the search space, that can be run on from zero; `first` is the residual there."""

    def __init__(
        self, problem: Problem, network: Network, space: StepSpace, point: Array, first: float | None = None
    ) -> None:
        self.point = point
        self.version, self.steps = space.decode(point)
        self.method = method_for(problem, network, self.version, self.steps)
        self.state: State = self.method.start(*problem.start())
        self._meter = self.method.meter(self.state.x, None)
        self.kkt = self.first = self._kkt() if first is None else first

    def _kkt(self) -> float:
        found = self._meter.overall(self.state)
        return found if math.isfinite(found) else math.inf

    def run(self, iterations: int) -> int:
        """Go on for some iterations; returns how many were run."""
        if not math.isfinite(self.kkt) or self.kkt <= _DIGITS:
            return 0
        before = self.state.iteration
        self.state = self.method.advance(self.state, iterations)
        self.kkt = self._kkt()
        return self.state.iteration - before

    @property
    def score(self) -> float:
        """The residual, and below the least that counts the fewer iterations; smaller is better."""
        if self.state.iteration == 0 or self.kkt > _DIGITS:
            return self.kkt
        return _DIGITS * self.state.iteration * 1e-6  # all there: the fewer iterations the better

    @property
    def rate(self) -> float:
        """Mean contraction of the residual per iteration so far."""
        if not math.isfinite(self.kkt) or self.state.iteration == 0:
            return math.nan
        return float((max(self.kkt, 1e-16) / (self.first or 1.0)) ** (1.0 / self.state.iteration))


def trial_runs(
    problem: Problem, network: Network, space: StepSpace, points: Iterable[Array], first: float | None = None
) -> list[TrialRun]:
    """A run for each point; all start alike, so that where they do is measured once."""
    runs: list[TrialRun] = []
    for point in points:
        runs.append(TrialRun(problem, network, space, point, first))
        first = runs[0].first
    return runs


def halve(runners: list[TrialRun], first: int, trials: Trials, budget: Budget, stage: str) -> list[TrialRun]:
    """Run all, keep the better third, run these twice as long, until one is left; returns all, best first."""
    length = first
    left: list[TrialRun] = []
    while True:
        for runner in runners:
            if budget.spent and len(trials):
                break
            work = runner.run(length)
            budget.spend(work)
            trials.append(Trial(stage, runner.version, runner.steps, rate=runner.rate, work=work))
        runners = sorted(runners, key=lambda r: r.score)
        budget.tell(stage, len(trials), runners[0].kkt)
        if len(runners) == 1 or budget.spent or runners[0].kkt <= _DIGITS:
            return runners + left
        keep = max(len(runners) // 3, 1)
        runners, left, length = runners[:keep], runners[keep:] + left, 2 * length


@dataclass(frozen=True)
class Measured:
    """A trial run from zero.

    Parameters
    ----------
    iterations
        Where |x - x*| / |x*| crossed the target, interpolated; inf if it never did.
    beyond
        Where it crossed a thousandth of the target.
    rate
        Contraction per iteration over the last two thirds of the run, by regression; nan for short runs.
    work
        Iterations that were run.
    done
        Part of the digits, down to a thousandth of the target, that it had in the end.
    """

    iterations: float
    beyond: float
    rate: float
    work: int
    done: float

    @property
    def score(self) -> float:
        """Iterations to the target, and a penalty when three more digits take more than half as many again.

        Infinite when these digits were never reached.
        """
        if not math.isfinite(self.beyond):
            return self.beyond
        return self.iterations + 0.2 * max(self.beyond - 1.5 * self.iterations, 0.0)

    @property
    def expected(self) -> float:
        """The score, or for a run that did not get there what it would take if it went on as it did."""
        if math.isfinite(self.score):
            return self.score
        return self.work / min(self.done, 1.0) if self.done > 0.0 else math.inf


def measure(
    problem: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    star: Array,
    accuracy: float = 1e-8,
    limit: int = 20_000,
    start: tuple[Array, Array] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Measured:
    """Run until the gap to x* is well below `accuracy`, `limit` iterations are used up, or the run is hopeless.

    It goes on for a quarter as many iterations, to see whether the gap rises again: what counts is the last iteration
    above a target. `start` is x and lam, zero by default; `check` may raise to end the run.
    """
    method = method_for(problem, network, version, steps)
    state = method.start(*(problem.start() if start is None else start))
    scale = float(np.linalg.norm(star)) or 1.0
    meter = method.meter(state.x, star)
    unit = meter.yardstick.distance / scale
    seen, gaps = [0], [float(np.linalg.norm(state.x - star)) / scale]
    target, above = max(_BEYOND * accuracy, 1e-12), 0
    while state.iteration < limit and gaps[-1] < 1e6 and state.iteration <= 1.25 * above + _CALM:
        check()
        met = gaps[-1] <= target
        until = int(1.25 * above + _CALM) + 1 if met else state.iteration + max(state.iteration, _PIECE)
        stop = None if met else target / unit
        state, found = _observe(method, meter, state, Limits(None, stop, min(until, limit), growth=math.inf))
        for iteration, gap in found:
            seen.append(iteration)
            gaps.append(gap * unit)
            if not gaps[-1] <= target:
                above = iteration
    done = math.log(max(gaps[-1], target)) / math.log(target) if math.isfinite(gaps[-1]) else 0.0
    crossings = _crossing(seen, gaps, accuracy), _crossing(seen, gaps, target)
    return Measured(*crossings, _slope(seen, gaps), state.iteration, done)


def _observe(method: Npga, meter: Meter[State], state: State, limits: Limits) -> tuple[State, list[tuple[int, float]]]:
    """Go on, and the gaps on the way: after 20 iterations, then at each, later at every 32nd part of those done.

    The compiled core records many of them in one call.
    """
    every = max((1 << state.iteration.bit_length()) // 64, 1) if state.iteration else _CALM
    leap = meter.leaps(limits, every)
    if leap is None:
        state = method.advance(state, min(every, limits.max_iters - state.iteration))
        return state, [(state.iteration, float(np.linalg.norm(state.x - meter.reference)) / meter.yardstick.distance)]
    state, passed = leap(state, min(limits.max_iters, 1 << state.iteration.bit_length()))
    return state, [(record.iteration, record.gap) for record in (*passed, meter.measure(state, 0.0).record)]


def _crossing(seen: list[int], gaps: list[float], target: float) -> float:
    """The iteration where the gap came below the target for good, between two observations by interpolation."""
    above = [k for k, gap in enumerate(gaps) if not gap <= target]
    last = above[-1] if above else -1
    if last < 0:
        return 0.0
    if last == len(gaps) - 1:
        return math.inf
    before, after = math.log(gaps[last]), math.log(max(gaps[last + 1], 1e-300))
    share = (before - math.log(target)) / (before - after)
    return seen[last] + share * (seen[last + 1] - seen[last])


def _slope(seen: list[int], gaps: list[float]) -> float:
    """Contraction per iteration by regression over the last two thirds of the run."""
    tail = [(k, math.log(g)) for k, g in zip(seen, gaps, strict=True) if 0.0 < g < math.inf and k >= seen[-1] / 3]
    if len(tail) < 8:
        return math.nan
    k, log_gap = np.array(tail).T
    return float(np.exp(np.polyfit(k, log_gap, 1)[0]))


class OutOfTimeError(Exception):
    """Ends an evaluation; what was found so far is in the trials."""


class Budget:
    """Whether there are seconds and iterations of work left (None: no limit), and who is told about progress."""

    interrupted = False  # by Ctrl-C

    def __init__(
        self, seconds: float | None, tell: Tell | None, begun: float | None = None, work: int | None = None
    ) -> None:
        self._seconds, self._tell, self._work = seconds, tell, work
        self._begun = time.perf_counter() if begun is None else begun

    @property
    def spent(self) -> bool:
        """Whether the time or the work is over."""
        late = self._seconds is not None and time.perf_counter() - self._begun >= self._seconds
        return late or (self._work is not None and self._work <= 0)

    def check(self) -> None:
        """Raise OutOfTimeError when it is spent; called from within long evaluations, which spend when they end."""
        if self.spent:
            raise OutOfTimeError

    def grace(self, share: float) -> Budget:
        """What is allowed beyond it: this share of its time, from now on."""
        return Budget(None if self._seconds is None else max(share * self._seconds, 0.2), None)

    def spend(self, iterations: int) -> None:
        """Count iterations."""
        if self._work is not None:
            self._work -= iterations

    def until(self, share: float) -> Budget:
        """A budget that ends when this share of the time is over."""
        return Budget(None if self._seconds is None else share * self._seconds, self._tell, self._begun, self._work)

    def tell(self, stage: str, done: int, best: float) -> None:
        """Report progress: the stage, trials so far, and the best value."""
        if self._tell is not None:
            self._tell(None, f"{stage}, {done} trials, now {best:.4g}")
