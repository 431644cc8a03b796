"""`npga.compare`: anything against anything, tuned alike and counted by the same meters.

Each entry is tuned on each draw: versions of NPGA by `npga.tune`, other methods by a pattern search over the steps that
they have, on real runs, both within the same budget of iterations. Where `npga.tune` finds nothing stable within it,
the pattern search follows, from classical steps. The run that counts then goes to a hundredth of the tolerance, so that
"iterations to tol" can be the last time above it, not the first dip below.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npga.errors import InputError, NpgaError, nearest
from npga.networks import Network, Version, version_rows
from npga.networks import version as find_version
from npga.problem import ConsensusProblem, Problem
from npga.solver import METHODS, MethodRow, Reference, Result, Trace, show_progress
from npga.solver import reference as solve_centrally
from npga.solver import solve as solve_with
from npga.steps import Steps
from npga.tuning._automatic import solve as solve_untuned
from npga.tuning._comparison import Comparison, Store
from npga.tuning._search import Budget
from npga.tuning._tune import tune

AnyProblem = Problem | ConsensusProblem
Draw = Callable[[int], tuple[AnyProblem, Network]]

# Factors by which the pattern search changes a step, large ones first.
_FACTORS = (4.0, 2.0, 1.3)
# While no run has reached the tolerance, so many share the budget.
_TRIALS = 8
# Inner iterations that a run may take for each one of `max_iters`.
_INNER = 10
# A curve is kept in about so many points.
_POINTS = 400


@dataclass(frozen=True)
class Entry:
    """One line of a comparison.

    Parameters
    ----------
    label
        What tables and figures call it.
    method
        A name of `npga.methods()`.
    version
        The version of the recursion, where the method has one.
    steps
        Steps to run with, or None to tune them.
    """

    label: str
    method: str = "npga"
    version: Version | None = None
    steps: Steps | None = None


def compare(
    problem: AnyProblem | Draw,
    network: Network | None = None,
    methods: Sequence[str | Version | Entry] = ("nids", "extra", "npga-i", "dcpa", "pga"),
    *,
    seeds: int | Sequence[int] = 1,
    budget: int = 100_000,
    max_seconds: float | None = None,
    tol: float = 1e-8,
    max_iters: int = 100_000,
    store: str | Path | None = None,
    progress: bool = False,
) -> Comparison:
    """Run methods on the same problems, each tuned alike, and count all of them by the same meters.

    Parameters
    ----------
    problem, network
        What to solve, and where; or a function ``draw(seed) -> (problem, network)``, without a network. On a
        `ConsensusProblem` versions are those of PUDA.
    methods
        Names of versions ("nids", "extra", "dcpa", ...) or of methods ("pga", "tracking-admm", ...), `Version` objects
        (such as ``npga.version("nids", chebyshev=3)``), or `Entry` objects with a label and steps of their own. "npga"
        is `npga.solve` as it comes, which is not tuned.
    seeds
        How many draws, or their seeds; a fixed problem is one draw, and the seed is the tuner's.
    budget
        Iterations for tuning each method on each draw, inner ones included; what was tuned before they run out counts.
    max_seconds
        Time for each tuning beside that; none by default, because with it results depend on the machine.
    tol
        Accuracy: |x - x*|/|x0 - x*| where f is strongly convex, the residual of the optimality conditions elsewhere.
    max_iters
        Limit for every run; inner iterations may be ten times as many.
    store
        File of JSON lines to which each result is written when it is there; what it holds already is not run again, so
        that an interrupted comparison goes on where it was.
    progress
        Show progress.

    Returns
    -------
    Comparison
        Tables (text, LaTeX, HTML, pandas) and figures. A method that cannot solve a problem has a line that says why.
    """
    entries = [_entry(item) for item in methods]
    labels = [entry.label for entry in entries]
    if len(set(labels)) < len(labels):
        raise InputError(f"methods {labels} hold a label twice; give one of them another: npga.tuning.Entry(label=...)")
    if not 0.0 < tol < 1.0:
        raise InputError(f"tol is {tol!r}; expected a number between 0 and 1")
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1000:
        raise InputError(f"budget is {budget!r}; expected iterations for each tuning, at least 1000")
    limits = _Limits(budget, max_seconds, tol, max_iters)
    kept = Store(None if store is None else Path(store))
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    jobs = [(seed, entry) for seed in numbers for entry in entries]
    rows: list[dict[str, Any]] = []
    case: _Case | None = None
    with show_progress("comparing", progress) as tell:
        for at, (seed, entry) in enumerate(jobs):
            case = _Case.make(problem, network, seed, case)
            key = f"{case.p1.fingerprint} {case.network.fingerprint()} {seed} {entry!r} {limits!r}"
            row = kept.rows.get(key)
            if row is None:
                row = case.run(entry, limits)
                kept.put(key, row)
            rows.append(row)
            if tell:
                tell((at + 1) / len(jobs), f"draw {seed}, {entry.label}: {row['status']}")
    return Comparison(tuple(rows), tuple(labels), tol)


def _entry(item: str | Version | Entry) -> Entry:
    if isinstance(item, Entry):
        return item
    if isinstance(item, Version):
        extra = "" if item.chebyshev == 1 else f", {item.chebyshev} rounds"
        return Entry(f"{item.name}{extra}", version=item)
    if item == "npga":
        return Entry(item)
    if item in METHODS:
        row = METHODS[item]
        return Entry(item, item, None if row.version is None else find_version(row.version))
    known = [*version_rows(), *METHODS]
    if item not in known:
        raise InputError(f"methods holds {item!r}; {nearest(str(item), known)}")
    return Entry(item, version=find_version(item))


@dataclass(frozen=True)
class _Limits:
    """What tuning and running may take."""

    budget: int
    max_seconds: float | None
    tol: float
    max_iters: int


# ------------------------------------------------------------------ one draw


@dataclass(frozen=True)
class _Case:
    """A problem, its network, and its solution."""

    problem: AnyProblem
    network: Network
    reference: Reference
    seed: int

    @property
    def p1(self) -> Problem:
        """The problem, or the P1 that a consensus problem is."""
        return self.problem if isinstance(self.problem, Problem) else self.problem.p1

    @staticmethod
    def make(problem: AnyProblem | Draw, network: Network | None, seed: int, last: _Case | None) -> _Case:
        if last is not None and last.seed == seed:
            return last
        if isinstance(problem, AnyProblem):
            if network is None:
                raise InputError("a problem arrived without a network; expected both, or a function draw(seed)")
            if last is not None:
                return replace(last, seed=seed)
        else:
            problem, network = problem(seed)
        problem.expect(network)
        return _Case(problem, network, solve_centrally(problem if isinstance(problem, Problem) else problem.p1), seed)

    @property
    def column(self) -> str:
        """What "accurate to tol" looks at."""
        return "gap" if self.p1.mu > 0.0 else "kkt"

    def run(self, entry: Entry, limits: _Limits) -> dict[str, Any]:
        """Tune an entry and run it; the row of the table."""
        tol, max_iters = limits.tol, limits.max_iters
        head: dict[str, Any] = {"draw": self.seed, "method": entry.label}
        begun = time.perf_counter()
        try:
            tuned = self._tuned(entry, limits)
        except NpgaError as refused:
            return head | {"status": "refused", "why": str(refused), "curve": []}
        tuning_seconds = time.perf_counter() - begun
        inside = METHODS[entry.method].inside != "nothing"  # then iterations are few and dear: all are recorded at once
        short = self.solve(tuned, tol / 100.0, max_iters, _INNER * max_iters, record_every=1 if inside else None)
        if not short.trace[self.column][-1] <= tol:
            inner = f" and {short.inner_iterations:,} inner ones" if short.inner_iterations else ""
            why = f"after {short.iterations:,} iterations{inner} its error is {short.trace[self.column][-1]:.1e}"
            diverged = short.status.value == "diverged"
            return head | {"status": "diverged" if diverged else "limit", "why": why, "curve": []}
        every = max(1, short.iterations // 2000)
        result = short if inside else self.solve(tuned, tol / 100.0, max_iters, record_every=every)
        at = last_above(result.trace, self.column, tol)
        there = result
        if result.inner_iterations:  # their share of the whole is not known: run again, to that iteration
            there = self.solve(tuned, tol / 1e6, max(int(result.trace.iteration[at]), 1))
        return head | self._row(tuned, result, there, at) | {"tuning_seconds": tuning_seconds}

    def solve(
        self, entry: Entry, tol: float, max_iters: int, work: int | None = None, record_every: int | None = None
    ) -> Result:
        """A run of an entry to an accuracy; a method that iterates inside stops when all of that exceeds `work`."""
        options: dict[str, Any] = {"record_every": record_every}
        if work is not None and METHODS[entry.method].inside != "nothing":
            options["callback"] = lambda _, state: state.iteration + state.inner > work
        options |= (
            {"gap_tol": tol, "tol": None, "reference": self.reference.x} if self.column == "gap" else {"tol": tol}
        )
        where, how = (self.problem, self.network), (entry.version, entry.steps)
        if entry == Entry(entry.label):
            return solve_untuned(*where, max_iters=max_iters, **options)
        result = solve_with(*where, *how, method=entry.method, max_iters=max_iters, **options)
        if result.status.value == "interrupted" and (
            work is None or result.iterations + result.inner_iterations <= work
        ):
            raise KeyboardInterrupt
        return result

    def _row(self, entry: Entry, result: Result, there: Result, at: int) -> dict[str, Any]:
        """The line of a run whose error stays below the tolerance from record `at` on; `there` has the counts."""
        share = result.trace.iteration[at] / max(there.iterations, 1)
        per = result.floats_sent / max(result.rounds, 1)
        thinned = np.unique(np.linspace(0, len(result.trace) - 1, _POINTS).round().astype(int))
        curve = [
            [int(result.trace.iteration[k]), int(result.trace.round[k]), float(result.trace[self.column][k])]
            for k in thinned
        ]
        spent = {"inner_iterations": there.inner_iterations, **asdict(there.work), "messages": there.messages}
        counted = {name: round(share * value) for name, value in spent.items()}
        steps = {} if result.steps is None else asdict(result.steps)
        return {
            "status": "converged",
            "iterations": int(result.trace.iteration[at]),
            "rounds": int(result.trace.round[at]),
            **counted,
            "floats_sent": int(per * result.trace.round[at]),
            "floats_per_round": per,
            "seconds": share * there.seconds,
            "path": result.path,
            "c": None if entry.version is None else entry.version.c,
            **steps,
            "curve": curve,
        }

    # ---------------------------------------------------------------- tuning

    def _tuned(self, entry: Entry, limits: _Limits) -> Entry:
        if entry.steps is not None or entry == Entry(entry.label):
            return entry
        if isinstance(self.problem, ConsensusProblem) and entry.method == "npga":
            entry = replace(entry, method="puda")
        within: dict[str, Any] = {"max_work": limits.budget, "max_seconds": limits.max_seconds, "seed": self.seed}
        row = METHODS[entry.method]
        if not isinstance(self.problem, row.problem):
            raise InputError(f"{row.name} solves {row.solves}; this is a {type(self.problem).__name__}")
        if entry.method == "npga":
            assert entry.version is not None
            try:
                found = tune(self.p1, self.network, entry.version, reference=self.reference, **within)
            except InputError:  # nothing stable within the budget
                return replace(entry, steps=self._pattern_search(entry, row, self._classical(entry.version), limits))
            return replace(entry, version=found.version, steps=found.steps)
        if entry.method == "pga":  # NPGA of a lone agent that knows everything
            found = tune(self.p1.gathered, Network.from_W(np.ones((1, 1))), "extra", **within)
            return replace(entry, steps=replace(found.steps, gamma=Steps.gamma))
        why = row.refuses(self.problem) if row.refuses else None
        if why is not None:
            raise InputError(f"{row.name} cannot solve this problem: {why}")
        first = None if row.choose is None else row.choose(self.problem, self.network, entry.version)
        if first is None:
            return entry
        return replace(entry, steps=self._pattern_search(entry, row, first, limits))

    def _classical(self, version: Version) -> Steps:
        """alpha = 1/l and beta = l/(2 sigma^2), the limits of gradient descent and of Condat and Vu for one agent."""
        l = self.p1.l if 0.0 < self.p1.l < math.inf else 1.0  # noqa: E741
        return replace(Steps(1.0 / l, 0.5 * l / (self.p1.sigma or 1.0) ** 2), **version.fixed)

    def _pattern_search(self, entry: Entry, row: MethodRow, steps: Steps, limits: _Limits) -> Steps:
        """Change one step at a time by a factor while that needs fewer rounds (iterations, where there are none)."""
        budget = Budget(limits.max_seconds, None, work=limits.budget)
        free = [name for name in row.free if entry.version is None or name not in entry.version.fixed]
        best = self._price(replace(entry, steps=steps), limits, budget)
        for factor in _FACTORS:
            improved = True
            while improved:
                improved = False
                for candidate in _neighbours(steps, free, factor):
                    if budget.spent:
                        return steps
                    price = self._price(replace(entry, steps=candidate), limits, budget, best)
                    if price < best:
                        steps, best, improved = candidate, price, True
        return steps

    def _price(self, entry: Entry, limits: _Limits, budget: Budget, best: _Price | None = None) -> _Price:
        """What a run takes to tol, or how near it comes within a share of the budget while none has come there."""
        limit = cap = limits.budget // _TRIALS
        if best is not None and best.spent < math.inf:
            limit, cap = 2 * best.iterations + 10, 2 * best.work
        result = self.solve(entry, limits.tol / 10.0, min(limits.max_iters, limit), work=cap)
        work = result.iterations + result.inner_iterations
        budget.spend(work)
        errors = result.trace[self.column]
        if not (errors <= limits.tol).any():
            return _Price(math.inf, float(errors[-1]) if math.isfinite(errors[-1]) else math.inf)
        at = last_above(result.trace, self.column, limits.tol)
        spent = result.trace.round[at] or result.trace.iteration[at]
        return _Price(float(spent), 0.0, int(result.trace.iteration[at]), work)


class _Price(NamedTuple):
    """Rounds (or iterations) to the tolerance; the error of a run that does not come there; iterations, inner too."""

    spent: float
    error: float
    iterations: int = 0
    work: int = 0


def _neighbours(steps: Steps, free: Sequence[str], factor: float) -> Iterator[Steps]:
    for name in free:
        if name == "theta":
            yield from (replace(steps, theta=value) for value in (0.0, 0.5, 1.0) if value != steps.theta)
        else:
            value = float(getattr(steps, name))
            yield replace(steps, **{name: value * factor})
            yield replace(steps, **{name: value / factor})


def last_above(trace: Trace, column: str, tol: float) -> int:
    """Index of the first record after the last one that is above `tol`; the last record if it is above itself."""
    above = np.flatnonzero(~(trace[column] <= tol))
    return 0 if not above.size else min(int(above[-1]) + 1, len(trace) - 1)
