"""Trial runs: how many iterations a set of steps really needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import method_for
from npga.steps import Steps

Array = NDArray[Any]


# A run goes on for three digits beyond its target, to see whether a slow mode hides below it.
_BEYOND = 1e-3


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
    """

    iterations: float
    beyond: float
    rate: float
    work: int

    @property
    def score(self) -> float:
        """Iterations to the target, and a penalty when three more digits take more than half as many again.

        Infinite when these digits were never reached.
        """
        if not math.isfinite(self.beyond):
            return self.beyond
        return self.iterations + 0.2 * max(self.beyond - 1.5 * self.iterations, 0.0)


def measure(
    problem: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    star: Array,
    accuracy: float = 1e-8,
    limit: int = 20_000,
) -> Measured:
    """Run until the gap to x* is well below `accuracy`, `limit` iterations are used up, or the run is hopeless."""
    method = method_for(problem, network, version, steps)
    state = method.start(np.zeros(problem.d, problem.dtype), np.zeros((problem.n, problem.p), problem.dtype))
    scale = float(np.linalg.norm(star)) or 1.0
    seen, gaps = [0], [float(np.linalg.norm(state.x - star)) / scale]
    target = max(_BEYOND * accuracy, 1e-12)
    while gaps[-1] > target and state.iteration < limit and gaps[-1] < 1e6:
        state = method.advance(state, min(1 + state.iteration // 50, limit - state.iteration))
        seen.append(state.iteration)
        gaps.append(float(np.linalg.norm(state.x - star)) / scale)
    return Measured(_crossing(seen, gaps, accuracy), _crossing(seen, gaps, target), _slope(seen, gaps), state.iteration)


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
