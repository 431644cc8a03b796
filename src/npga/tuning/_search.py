"""Steps from trial runs alone: no reference solution, any problem.

Successive halving: many sets of steps run a little, the better part of them runs on, twice as long each time. What is
compared is the residual of the optimality conditions that each has reached. A second round samples around the winner.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem, residual
from npga.solver import State, method_for
from npga.tuning._budget import Budget
from npga.tuning._space import Space
from npga.tuning._tuning import Trial, Trials, Tuning

Array = NDArray[Any]

_SAMPLES = 48
_AROUND = 24
_FIRST = 60
_DIGITS = 1e-10


class Runner:
    """One set of steps that can be run on.

    Parameters
    ----------
    problem, network
        Where it runs.
    point, space
        Its place in the search space.
    start
        Method-independent start: x, lam and z / beta; zero by default.
    limit
        Iterations that it may run in all.
    """

    def __init__(
        self,
        problem: Problem,
        network: Network,
        space: Space,
        point: Array,
        start: tuple[Array, ...] | None = None,
        limit: int = 10**9,
    ) -> None:
        self.problem, self.point, self._limit = problem, point, limit
        self.version, self.steps = space.decode(point)
        self.method = method_for(problem, network, self.version, self.steps)
        zero = (np.zeros(problem.d, problem.dtype), np.zeros((problem.n, problem.p), problem.dtype))
        self.state: State = self.method.start(*(zero if start is None else start))
        self.kkt = self.first = self._kkt()

    def _kkt(self) -> float:
        state = self.state
        with np.errstate(over="ignore", invalid="ignore"):
            found = residual(self.problem, state.x, state.Ax, state.lam.mean(axis=0)).kkt
        return found if math.isfinite(found) else math.inf

    def run(self, iterations: int) -> int:
        """Go on for some iterations; returns how many were run."""
        if not math.isfinite(self.kkt) or self.kkt <= _DIGITS:
            return 0
        before = self.state.iteration
        self.state = self.method.advance(self.state, min(iterations, self._limit - before))
        self.kkt = self._kkt()
        return self.state.iteration - before

    @property
    def score(self) -> float:
        """Residual that would be reached if the observed decrease went on; smaller is better."""
        if self.state.iteration == 0 or self.kkt > _DIGITS:
            return self.kkt
        return _DIGITS * self.state.iteration * 1e-6  # all there: the fewer iterations the better

    @property
    def rate(self) -> float:
        """Mean contraction of the residual per iteration so far."""
        if not math.isfinite(self.kkt) or self.state.iteration == 0:
            return math.nan
        return float((max(self.kkt, 1e-16) / (self.first or 1.0)) ** (1.0 / self.state.iteration))


def halve(runners: list[Runner], first: int, trials: Trials, budget: Budget, stage: str) -> list[Runner]:
    """Run all, keep the better third, run these twice as long, until one is left; returns all, best first."""
    length = first
    left: list[Runner] = []
    while True:
        for runner in runners:
            work = runner.run(length)
            trials.append(Trial(stage, runner.version, runner.steps, rate=runner.rate, work=work))
        runners = sorted(runners, key=lambda r: r.score)
        budget.tell(stage, len(trials), runners[0].kkt)
        if len(runners) == 1 or budget.spent or runners[0].kkt <= _DIGITS:
            return runners + left
        keep = max(len(runners) // 3, 1)
        runners, left, length = runners[:keep], runners[keep:] + left, 2 * length


def tune_search(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int = 0,
    gamma_max: float | None = None,
    budget: Budget,
) -> Tuning:
    """Choose steps by trial runs, in two rounds of successive halving."""
    begun = time.perf_counter()
    space = Space(problem, network, version) if gamma_max is None else Space(problem, network, version, gamma_max)
    rng, trials = np.random.default_rng(seed), Trials()
    points = [space.middle, *space.sample(_SAMPLES, rng)]
    runners = [Runner(problem, network, space, u) for u in points]
    winner: Runner | None = None
    try:
        winner = halve(runners, _FIRST, trials, budget, "sample")[0]
        for spread in (0.5, 0.2):
            if budget.spent:
                break
            near = winner.point + spread * rng.standard_normal((_AROUND, len(winner.point)))
            again = [Runner(problem, network, space, u) for u in (winner.point, *near)]
            winner = halve(again, 2 * _FIRST, trials, budget, "around")[0]
    except KeyboardInterrupt:
        winner = winner or min(runners, key=lambda r: r.score)
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
