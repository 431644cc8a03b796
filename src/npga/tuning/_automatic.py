"""`npga.solve`: one call, with or without a version, with or without steps.

When no steps are given it chooses, runs, watches, and adapts. A short search (successive halving over a few versions
and steps, from theory-guided bounds) finds a start. Then the run goes on in legs that double. After each leg three
other sets of steps near the present ones run side by side with these for a while, and are taken over if they get
clearly further in the same number of iterations; a change keeps x, lam and the consensus multiplier. If a leg diverges,
the run goes back to where the leg began and takes smaller steps, down to the certified ones where a theorem gives some.
What was spent on steps that were not taken is counted apart from the run, in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import ConsensusProblem, Problem
from npga.solver import Limits, Method, Npga, Record, Result, Run, Status, Trace, conclude
from npga.solver import solve as solve_with
from npga.steps import Steps
from npga.theory import Certificate, certify
from npga.tuning._search import Budget, TrialRun, halve
from npga.tuning._space import StepSpace
from npga.tuning._tuning_results import Trials

Array = NDArray[Any]

# Both send one vector per iteration, and both meet Assumption 4 with the plain mixing matrix.
_VERSIONS = ("nids", "extra")
_SAMPLES = 11
_FIRST = 40
_LEG = 400
# How far the steps tried after a leg are from the present ones (deviation of logarithms), the part of a leg that they
# run, and how much better they must be.
_NEAR = (0.25, 0.6, 1.5)
_SHARE = 8
_BETTER = 0.5


class Options(TypedDict, total=False):
    """Keyword arguments of `npga.solver.solve`."""

    max_iters: int
    tol: float | None
    reference: ArrayLike | None
    x0: ArrayLike | None
    lam0: ArrayLike | None
    start: Result | None
    gap_tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    record_every: int | None
    callback: Callable[[Record, Any], bool | None] | None
    progress: bool
    checkpoint: str | Path | None
    checkpoint_seconds: float
    resume: bool
    path: str


@dataclass(frozen=True)
class Search:
    """What was spent on choosing steps, apart from the run itself.

    Parameters
    ----------
    trials
        All trials, those that became part of the run included.
    iterations, rounds
        Spent on steps that were not taken.
    changes
        What was changed on the way, in order.
    """

    trials: Trials
    iterations: int
    rounds: int
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Solution(Result):
    """A result, with its certificate and what was spent on choosing steps.

    Parameters
    ----------
    search
        Trials that were made because no steps were given; None when they were.
    """

    search: Search | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """Which theorem covers the version and the steps that ran, with which rate, or why none does."""
        if self.version is None:
            raise InputError(f"{self.method} is not a version of NPGA; there is no certificate for it")
        return certify(self.problem, self.network, self.version, self.steps)


def solve(
    problem: Problem | ConsensusProblem,
    network: Network,
    version: str | Version | None = None,
    steps: Steps | None = None,
    *,
    method: str | Method[Any] = "npga",
    seed: int = 0,
    **options: Unpack[Options],
) -> Solution:
    """Solve a constraint-coupled problem on a network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom; node i of the network is agent i of the problem. A `ConsensusProblem` is
        solved by PUDA, and the result's x is an n x m array, a row for each agent.
    version
        Name of a version or preset (see `npga.versions()`), or a `Version` of your own. Chosen when not given.
    steps
        Step sizes. When not given they are found by a short search and watched on the way; the result says what was
        tried, what it cost, and which steps ran last.
    method
        A name of the table `npga.methods()`, or a `Method` of your own; it chooses its steps where none are given.
    seed
        Of that search; the same seed gives the same bits.
    **options
        When to stop: ``tol=1e-8`` (scale-free residual of the optimality conditions), ``max_iters=100_000``,
        ``max_rounds``, ``max_seconds``, ``gap_tol`` with ``reference``. Where to start: ``x0``, ``lam0``, or ``start``,
        an earlier result. What to see: ``record_every``, ``callback``, ``progress``. Going on after an interruption:
        ``checkpoint``, ``checkpoint_seconds``, ``resume`` (with given steps). ``path``: "auto", "compiled" or
        "vectorised". They are described one by one at `npga.solver.solve`.

    Returns
    -------
    Solution
        x, lam, status, trace, counts, and on demand the certificate.
    """
    if method != "npga" or isinstance(problem, ConsensusProblem):
        return _solution(solve_with(problem, network, version, steps, method=method, **options), None)
    if steps is not None:
        if version is None:
            raise InputError("steps were given without a version; steps belong to one: pass version= as well")
        return _solution(solve_with(problem, network, version, steps, **options), None)
    result, journey = solve_automatically(problem, network, version, seed, dict(options))
    return _solution(result, journey)


def _solution(result: Result, journey: Journey | None) -> Solution:
    values = {item.name: getattr(result, item.name) for item in fields(Result)}
    if journey is None:
        return Solution(**values)
    search = Search(journey.trials, journey.iterations, journey.rounds, tuple(journey.changes))
    assert result.steps is not None
    s = result.steps
    values["message"] = (
        f"{result.message} Steps were chosen: {result.method} with alpha = {s.alpha:.3g}, beta = {s.beta:.3g}, gamma = "
        f"{s.gamma:.3g}, theta = {s.theta:.3g}, after {len(search.trials)} trials; steps that were not "
        f"taken cost another {search.iterations} iterations and {search.rounds} rounds; changed {len(search.changes)} "
        "times on the way."
    )
    return Solution(**values, search=search)


@dataclass
class Journey:
    """A run that may change its steps on the way.

    Parameters
    ----------
    problem, network
        Where it runs.
    tol, max_iters
        When it ends.
    seed
        Of everything that is drawn.
    """

    problem: Problem
    network: Network
    tol: float
    max_iters: int
    seed: int

    def __post_init__(self) -> None:
        self.trials = Trials()
        self.budget = Budget(None, None)
        self.rng = np.random.default_rng(self.seed)
        self.changes: list[str] = []
        self.iterations = self.rounds = 0  # spent on steps that were not taken

    def begin(self, versions: list[Version], start: tuple[Array, ...] | None) -> Result:
        """The winner of a short search, as a result to go on from."""
        runners = []
        for version in versions:
            space = StepSpace(self.problem, self.network, version)
            points = [space.middle, *space.sample(_SAMPLES, self.rng)]
            runners += [TrialRun(self.problem, self.network, space, point, start, self.max_iters) for point in points]
        winner = halve(runners, _FIRST, self.trials, self.budget, "sample")[0]
        if not math.isfinite(winner.kkt):  # nothing in the box is stable: begin with caution
            winner = self._cautious(StepSpace(self.problem, self.network, versions[0]), start)
        self._count([r for r in runners if r is not winner])
        return conclude(winner.method, Run(winner.state))

    def _count(self, losers: list[TrialRun]) -> None:
        self.iterations += sum(r.state.iteration for r in losers)
        self.rounds += sum(r.state.rounds for r in losers)

    def _cautious(self, space: StepSpace, start: tuple[Array, ...] | None) -> TrialRun:
        point = space.middle.copy()
        while True:
            runner = TrialRun(self.problem, self.network, space, point, start, self.max_iters)
            runner.run(_FIRST)
            if math.isfinite(runner.kkt):
                return runner
            point[:2] -= math.log(4.0)  # alpha, then alpha beta sigma^2

    def explore(self, current: Result, kkt: float, leg: int, left: int) -> Result:
        """Run the present steps and some near them side by side from here; where the best of them got to."""
        assert current.version is not None
        assert current.steps is not None
        space = StepSpace(self.problem, self.network, current.version)
        here = space.encode(current.steps, current.version.c)
        method = Npga(self.problem, self.network, current.version, current.steps)
        start = (current.x, current.lam, method.memory(current.state))
        points = [here, *(here + scale * self.rng.standard_normal(len(here)) for scale in _NEAR)]
        runners = [TrialRun(self.problem, self.network, space, point, start, left) for point in points]
        for runner in runners:
            halve([runner], max(leg // _SHARE, 20), self.trials, self.budget, "leg")
        incumbent, rival = runners[0], min(runners[1:], key=lambda r: r.kkt)
        best = rival if rival.kkt < _BETTER * incumbent.kkt else incumbent
        if best is rival:
            self.changes.append(f"changed steps at residual {kkt:.0e}")
        self._count([r for r in runners if r is not best])
        return conclude(best.method, Run(best.state))

    def retreat(self, safe: Result) -> Result:
        """Smaller steps from the last safe point: half of alpha, beta and gamma, in the end certified ones."""
        assert safe.version is not None
        assert safe.steps is not None
        steps = safe.steps
        fallback = certify(self.problem, self.network, safe.version).steps if len(self.changes) > 4 else None
        smaller = fallback or Steps(0.5 * steps.alpha, 0.5 * steps.beta, min(0.5 * steps.gamma, 0.9), steps.theta)
        self.changes.append("took smaller steps after growth")
        old = Npga(self.problem, self.network, safe.version, steps)
        new = Npga(self.problem, self.network, safe.version, smaller)
        return conclude(new, Run(new.start(safe.x, safe.lam, old.memory(safe.state))))


def solve_automatically(
    problem: Problem, network: Network, version: str | Version | None, seed: int, options: dict[str, Any]
) -> tuple[Result, Journey]:
    """Solve without steps; see the module."""
    for name in ("checkpoint", "resume"):
        if options.get(name):
            raise InputError(f"{name}= needs steps; find them with npga.tune(...) and pass version= and steps=")
    # Everything that solve checks is checked before the first trial; the callback sees the start.
    limits, others = Limits.split(options)
    nothing = {"limits": replace(limits, max_iters=0), "progress": False}
    checked = solve_with(problem, network, version or _VERSIONS[0], Steps(1.0, 1.0), **(others | nothing))
    journey = Journey(problem, network, limits.tol or 0.0, limits.max_iters, seed)
    versions = [find_version(name) for name in ([version] if version is not None else _VERSIONS)]
    current = journey.begin(versions, _start(problem, options))
    legs = _Legs(problem, limits, others, list(checked.trace))
    legs.count(current)
    leg = _LEG
    while True:
        left = max(journey.max_iters - legs.iterations, 0)
        ended = legs.run(current, min(leg, left))
        if ended.status is Status.DIVERGED:
            current = journey.retreat(current)
            continue
        current = ended
        if ended.status is not Status.MAX_ITERS or legs.iterations >= journey.max_iters:
            return legs.whole(ended), journey
        current = journey.explore(ended, ended.kkt, leg, journey.max_iters - legs.iterations)
        legs.count(current)
        leg = min(2 * leg, 20_000)


def _start(problem: Problem, options: dict[str, Any]) -> tuple[Array, ...] | None:
    """x, lam and the memory z / beta to start from, or None for zero."""
    earlier = options.get("start")
    if isinstance(earlier, Result) and earlier.version is not None and earlier.steps is not None:
        method = Npga(earlier.problem, earlier.network, earlier.version, earlier.steps)
        return earlier.x, earlier.lam, method.memory(earlier.state)
    if options.get("x0") is None and options.get("lam0") is None:
        return None
    return problem.start(options.get("x0"), options.get("lam0"))


class _Legs:
    """The legs of a journey, put together as one run."""

    def __init__(self, problem: Problem, limits: Limits, options: dict[str, Any], records: list[Record]) -> None:
        self._limits = limits
        self._options = {k: v for k, v in options.items() if k not in ("x0", "lam0", "start", "callback")}
        self._callback = options.get("callback")
        self._records = records
        self.iterations = self.rounds = 0
        self.seconds = 0.0
        star = options.get("reference")
        self._star = None if star is None else problem.join(star, "reference")
        x0 = _start(problem, options)
        self._x0 = np.zeros(problem.d) if x0 is None else x0[0]

    def count(self, part: Result) -> None:
        """Count a part of the run that the search has already made."""
        self.iterations += part.iterations
        self.rounds += part.rounds

    def run(self, current: Result, iterations: int) -> Result:
        """One leg; a leg that diverged leaves no trace."""
        scale = self._scale(current.x)

        def shifted(record: Record) -> Record:
            gap = record.gap * scale
            return replace(
                record, iteration=record.iteration + self.iterations, round=record.round + self.rounds, gap=gap
            )

        callback = None
        if self._callback is not None:
            callback = lambda record, state: self._callback(shifted(record), state)  # noqa: E731
        left = self._limits.left(self.iterations, self.rounds, self.seconds, scale)
        assert current.version is not None
        assert current.steps is not None
        ended = solve_with(
            current.problem, current.network, current.version, current.steps,
            start=current, limits=replace(left, max_iters=iterations), callback=callback, **self._options,
        )  # fmt: skip
        if ended.status is not Status.DIVERGED:
            self._records += [r for r in map(shifted, ended.trace) if r.iteration > self._records[-1].iteration]
            self.count(ended)
        self.seconds += ended.seconds
        return ended

    def _scale(self, x: Array) -> float:
        """|x - x*| / |x0 - x*|: legs measure their gap from where they begin."""
        if self._star is None:
            return 1.0
        whole = float(np.linalg.norm(self._x0 - self._star)) or 1.0
        return (float(np.linalg.norm(x - self._star)) or 1.0) / whole

    def whole(self, ended: Result) -> Result:
        """All legs as one result."""
        edges = 2 * len(ended.network.edges)
        return replace(
            ended,
            trace=Trace(self._records),
            iterations=self.iterations,
            rounds=self.rounds,
            messages=edges * self.rounds,
            floats_sent=edges * self.rounds * ended.problem.p,
            seconds=self.seconds,
        )
