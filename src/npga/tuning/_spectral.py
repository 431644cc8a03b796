"""Steps from the spectral radius: the best asymptotic rate, then the best run among those that come near it.

The radius has a kink wherever two eigenvalues change places, and its minima lie on such kinks, where a simplex (Nelder
and Mead's method) collapses before it has arrived. A new simplex with random directions moves on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import Reference
from npga.solver import reference as solve_centrally
from npga.steps import Steps
from npga.theory import certify
from npga.tuning._radius import Linearisation, Rate, rate
from npga.tuning._search import Budget, Measured, OutOfTimeError, halve, measure, trial_runs
from npga.tuning._space import SearchSpace, StepSpace
from npga.tuning._tuning_results import Trial, Trials, Tuning

Array = NDArray[Any]
Found = tuple[float, Array]

# A sample, its first runs; how many of it get a glance, how far apart; evaluations of a glance and of a descent.
_SAMPLES, _FIRST, _STARTS, _APART = 96, 60, 4, 0.2
_GLANCE, _DESCENT, _AGAIN = 30, 45, (0.2, 0.3)
# Runs: radii that they begin near, by how much beta is smaller there, other places, and how many are polished.
_RUNS, _RETREAT, _LIKELY, _FINALISTS = 2, 0.8, 48, 7
# Runs that a simplex may make, and sizes: the first from each finalist, then all of them in turn from the winner.
_POLISH, _SIZES = 50, (0.3, 0.1, 0.2, 0.05)
# A run may take so many times as long as the shortest so far.
_PATIENCE, _LONGEST = 3.0, 100_000
# A gain that matters, as a logarithm (2 %), and how often all sizes may take their turn.
_GAIN, _TURNS = 0.01, 4
# Part of the time after which the radius must be good enough; the rest is for runs.
_DESCENTS = 0.4
ACCURACY = 1e-8
# The residual of a solution that runs may be measured against; to how many times a larger one they are measured.
EXACT, _ROUGH = 1e-11, 1e4
_CHECKED, _CONFIRMED = 5, 200_000
# Part of the time that is allowed on top to confirm what was found in it; how far a start is that tests stability.
GRACE, _AFAR = 0.1, 10.0
# Accuracy of a radius that is only compared with others.
_SKETCH = 1e-3
# Logarithms worse than those of any radius, and of any run that ends.
FORBIDDEN, _FAILED = 30.0, 6.0


def tune_spectral(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int = 0,
    solution: Reference | None = None,
    gamma_max: float | None = None,
    budget: Budget,
) -> Tuning:
    """Minimise the spectral radius over alpha, beta, gamma, theta and c, then choose by real runs."""
    begun = time.perf_counter()
    solution = solve_centrally(problem) if solution is None else solution
    space = StepSpace(problem, network, version, gamma_max)
    job = SpectralSearch(problem, network, version, solution, space, budget)
    with suppress(OutOfTimeError, KeyboardInterrupt):  # what was found so far is in the trials
        job.search(space, seed)
    return _conclude(job, begun)


def _conclude(job: SpectralSearch, begun: float) -> Tuning:
    """The best trial that holds up: its radius with another start vector, and its run."""
    candidates = _candidates(job.trials)
    if job.budget.spent:  # a little more, to confirm the best of them
        job.budget = job.budget.grace(GRACE)

    def tuning(best: Trial, radius: float, message: str, measured: float) -> Tuning:
        covered = certify(job.problem, job.network, best.version, best.steps).covered
        place = "These steps lie within a theorem." if covered else "These steps lie outside every theorem."
        words, spent = f"{place} {message}", time.perf_counter() - begun
        return Tuning(best.version, best.steps, job.network, "spectral", radius, job.trials, words, spent, measured)

    try:
        for best in candidates:
            check, run = confirm(job, best)
            if check.radius < 1.0 and math.isfinite(run.iterations):
                return tuning(best, check.radius, _message(job, best, check, run.iterations), run.iterations)
    except OutOfTimeError:
        best = candidates[0]
        return tuning(best, promised_rate(best), "The time was over before they could be confirmed.", best.iterations)
    raise InputError(
        f"no stable steps were found for {job.version.name} in {len(job.trials)} trials; allow more time, use "
        "network.lazy(), or method='theorem'"
    )


class SpectralSearch:
    """The search for one version, linearised at a centralised solution; everything that is tried goes into `trials`."""

    def __init__(
        self,
        problem: Problem,
        network: Network,
        version: Version,
        solution: Reference,
        space: SearchSpace,
        budget: Budget,
        trials: Trials | None = None,
    ) -> None:
        self.problem, self.network, self.version = problem, network, version
        self.solution, self.space, self.budget = solution, space, budget
        # What a run can be measured to: not to the last digits of a solution that is not exact.
        self.accuracy = ACCURACY if solution.kkt <= EXACT else max(ACCURACY, _ROUGH * solution.kkt)
        self.linearisation = Linearisation(problem, solution.x, solution.lam)
        # The curvature of g and h at a solution does not depend on the steps: one linearised problem serves sketches.
        k = problem.curvature or 1.0
        self._linear = self.linearisation.at(Steps(0.5 / k, 0.5 * k / (problem.sigma**2 or 1.0)))
        self.trials = Trials() if trials is None else trials
        self._cutoff = math.inf
        self._near: Rate | None = None

    def rate(self, version: Version, steps: Steps, seed: int = 0) -> Rate:
        """Spectral radius of the iteration with these steps."""
        return rate(self.linearisation.at(steps), self.network, version, steps, seed, check=self.budget.check)

    def objective(self, point: Array) -> float:
        """-log10(1 - radius), which is the logarithm of the iterations per digit; grows beyond the stable region."""
        if self.budget.spent:
            raise OutOfTimeError
        excess = self.space.excess(point)
        if excess == math.inf:
            return FORBIDDEN
        version, steps = self.space.decode(point)
        found = self._sketch(version, steps)
        value = slowness(found.radius) + excess
        self.budget.tell("descent", len(self.trials), value)
        return value

    def _sketch(self, version: Version, steps: Steps) -> Rate:
        """The radius roughly, starting from the slow modes of the best steps so far."""
        linear = self._linear
        best = math.inf if self._near is None else self._near.radius
        check = self.budget.check
        found = rate(linear, self.network, version, steps, 0, self._cutoff, self._near, _SKETCH, check)
        work = found.iterations
        if found.radius < min(best, 1.0):
            # Too good to be believed before another start vector, free of the old modes, has seen it.
            again = rate(linear, self.network, version, steps, 1, tolerance=_SKETCH, check=check)
            work += again.iterations
            found = max(found, again, key=lambda one: one.radius)
            if found.converged and found.radius < min(best, 1.0):
                self._near = found
                # A simplex compares points near the best one; those that are far slower need no second digit.
                self._cutoff = 1.0 - 0.5 * (1.0 - found.radius)
        self.trials.append(Trial("descent", version, steps, rate=found.radius, work=work))
        self.budget.spend(work)
        return found

    def run(self, point: Array, limit: int) -> float:
        """Logarithm of the iterations to the target accuracy that a run takes, or would if it went on as it did."""
        if self.budget.spent:
            raise OutOfTimeError
        version, steps = self.space.decode(point)
        check = self.budget.check
        found = measure(self.problem, self.network, version, steps, self.solution.x, self.accuracy, limit, check=check)
        self.trials.append(Trial("run", version, steps, iterations=found.score, work=found.work))
        self.budget.spend(found.work)
        self.budget.tell("run", len(self.trials), found.iterations)
        return min(math.log10(max(found.expected, 1.0)), _FAILED)

    def search(self, space: StepSpace, seed: int) -> None:
        """Descend on the radius, then on the length of real runs.

        Runs begin where part of a run promises most: at the smallest radii, a little below them in beta (functions with
        kinks diverge where their linearisation does not), and at points that no seed changes.
        """
        rng = np.random.default_rng(seed)
        radii = self._smallest_radii(space, rng)
        limit = longest_run(1.0 - 10.0 ** -min(radii[0][0], 12.0))
        retreat, shortest = np.log(_RETREAT) * (np.array(space.names) == "b"), math.inf
        places = [*(point + k * retreat for _, point in radii[:_RUNS] for k in range(3)), *space.likely(_LIKELY)]

        def length(point: Array) -> float:
            nonlocal shortest, limit
            value = self.run(point, limit) + space.excess(point)
            if value < shortest:
                shortest, limit = value, int(min(_PATIENCE * 10.0**value + 500, _LONGEST))
            return value

        glance = limit // 8
        first = sorted(((self.run(point, glance), point) for point in places), key=lambda pair: pair[0])
        begin = spread([point for _, point in first], np.ptp(space.bounds, axis=1), _FINALISTS, _APART)
        # Turned alike for every seed, so that luck in these first simplices is shared.
        turns = map(np.random.default_rng, range(len(begin)))
        polished = [descend(length, point, _SIZES[0], _POLISH, turn) for point, turn in zip(begin, turns, strict=True)]
        best, *others = sorted(polished, key=lambda pair: pair[0])
        # They lie in one narrow valley more often than not, which their differences point along.
        along = descend(length, best[1], _SIZES[1], _POLISH, rng, [best[1] - point for _, point in others])
        settle(length, min(best, along, key=lambda pair: pair[0]), _SIZES, _POLISH, rng)

    def _smallest_radii(self, space: StepSpace, rng: np.random.Generator) -> list[Found]:
        """What the descents find, or have found when their part of the time is over."""
        whole = self.budget
        self.budget = whole.until(_DESCENTS)
        try:
            return descents(self, space, rng)
        except OutOfTimeError:
            known = _stable(self.trials) or short_runs(self.trials)
            if not known:
                raise
            return [(slowness(trial.rate), space.encode(trial.steps, trial.version.c)) for trial in known[:_RUNS]]
        finally:
            self.budget = whole


def longest_run(radius: float) -> int:
    """Iterations after which a run that should contract at this rate is given up."""
    return int(min(4.0 * math.log(ACCURACY) / math.log(radius) + 500, _LONGEST))


def descents(
    job: SpectralSearch,
    space: StepSpace,
    rng: np.random.Generator,
    starts: int = _STARTS,
    again: tuple[float, ...] = _AGAIN,
) -> list[Found]:
    """Sample by short runs and descend on the radius from the best of them; slowness and point, best first.

    The best `starts` points that lie apart get a glance, two of them a descent, and the better one a new simplex of
    each size in `again`.
    """
    points = [space.middle, *space.sample(_SAMPLES, rng)]
    runners = trial_runs(job.problem, job.network, space, points)
    ranked = [runner.point for runner in halve(runners, _FIRST, job.trials, job.budget, "sample")]
    low, high = space.bounds.T
    begin = spread([ranked[0], space.middle, *ranked[1:]], high - low, starts, _APART)
    first = [descend(job.objective, point, 0.4, _GLANCE, rng) for point in begin]
    first.sort(key=lambda pair: pair[0])
    best = [descend(job.objective, point, 0.3, _DESCENT, rng) for _, point in first[:2]]
    best.sort(key=lambda pair: pair[0])
    best[0] = descend_again(job.objective, best[0], again, _DESCENT, rng)
    return best


def slowness(radius: float) -> float:
    """-log10(1 - radius) below one, and larger than any of these beyond."""
    if radius < 1.0:
        return -math.log10(max(1.0 - radius, 1e-12))
    return 12.0 + math.log10(min(radius, 1e12))


def _candidates(trials: Trials) -> list[Trial]:
    """Trials by what they promise: measured runs first, then radii, then short runs; a few of each."""
    ran = sorted((t for t in trials if math.isfinite(t.iterations)), key=lambda t: t.iterations)
    return [*ran[:_CHECKED], *_stable(trials)[:_CHECKED], *short_runs(trials)[:_CHECKED]]


def _stable(trials: Trials) -> list[Trial]:
    """Trials with a radius below one, the smallest first."""
    return sorted((t for t in trials if t.stage == "descent" and t.rate < 1.0), key=lambda t: t.rate)


def promised_rate(trial: Trial) -> float:
    """The rate of a trial that could not be confirmed: its radius, or what its run amounts to."""
    return trial.rate if math.isfinite(trial.rate) else ACCURACY ** (1.0 / max(trial.iterations, 1.0))


def short_runs(trials: Iterable[Trial]) -> list[Trial]:
    """Sampled steps that made progress, the ones that ran longest first."""
    ran = [trial for trial in trials if trial.stage == "sample" and 0.0 < trial.rate < 1.0]
    return sorted(ran, key=lambda trial: (-trial.work, trial.rate))


def confirm(job: SpectralSearch, trial: Trial) -> tuple[Rate, Measured]:
    """Compute a radius again with another start vector, and run; both are added to the table."""
    check = job.rate(trial.version, trial.steps, seed=1)
    star, check_time = job.solution.x, job.budget.check
    run = measure(
        job.problem, job.network, trial.version, trial.steps, star, job.accuracy, _CONFIRMED, check=check_time
    )
    work = check.iterations + run.work
    job.trials.append(Trial("confirm", trial.version, trial.steps, check.radius, run.iterations, work))
    return check, run


def _arrives_from_afar(job: SpectralSearch, trial: Trial, measured: float) -> bool:
    """Whether a run from a start ten times as far as the solution is from zero arrives too, in ten times as long."""
    problem, solution, rng = job.problem, job.solution, np.random.default_rng(0)
    x, lam = (rng.standard_normal(np.shape(values)) for values in (solution.x, solution.lam))
    far = tuple(
        (_AFAR * values * (np.linalg.norm(at) or 1.0) / (np.linalg.norm(values) or 1.0)).astype(problem.dtype)
        for values, at in ((x, solution.x), (lam, solution.lam))
    )
    begun = (far[0], np.tile(far[1], (problem.n, 1)))
    limit = int(min(10 * measured + 500, _CONFIRMED))
    found = measure(
        problem, job.network, trial.version, trial.steps, solution.x, job.accuracy, limit, begun, job.budget.check
    )
    return math.isfinite(found.iterations)


def _message(job: SpectralSearch, trial: Trial, check: Rate, measured: float) -> str:
    near = ""
    try:
        if not job.linearisation.exact and not _arrives_from_afar(job, trial, measured):
            near = (
                " From a start ten times as far away a run did not arrive: they may be stable near the solution only."
            )
    except OutOfTimeError:
        near = " There was no time to try a start that is further away."
    how = "exact" if job.linearisation.exact else "linearised at the solution"
    sure = "" if check.converged else ", an estimate that had not settled"
    return (
        f"Spectral radius {check.radius:.6g} ({how}{sure}); a run reached {job.accuracy:g} in {measured:.0f} "
        f"iterations.{near}"
    )


def descend(
    function: Callable[[Array], float],
    start: Array,
    size: float,
    limit: int,
    rng: np.random.Generator,
    edges: Sequence[Array] = (),
) -> Found:
    """Smallest value and its point, from a simplex of the given size that is turned at random.

    Values are logarithms, of which a thousandth does not matter. `edges` are added to some of the simplex's own;
    `limit` is one of evaluations.
    """
    n = len(start)
    turn = size * np.linalg.qr(rng.standard_normal((n, n)))[0]
    for k, edge in enumerate(edges[: n - 1]):
        turn[k] += edge
    options = {
        "maxfev": limit,
        "initial_simplex": start + np.vstack([np.zeros(n), turn]),
        "xatol": 1e-2,
        "fatol": 1e-3,
        "adaptive": n > 5,
    }
    found = minimize(function, start, method="Nelder-Mead", options=options)
    return float(found.fun), np.asarray(found.x)


def descend_again(
    function: Callable[[Array], float], best: Found, sizes: tuple[float, ...], limit: int, rng: np.random.Generator
) -> Found:
    """Go on from the best point with a new simplex of each size."""
    for size in sizes:
        best = min(best, descend(function, best[1], size, limit, rng), key=lambda pair: pair[0])
    return best


def settle(
    function: Callable[[Array], float], best: Found, sizes: tuple[float, ...], limit: int, rng: np.random.Generator
) -> Found:
    """Go on from the best point with new simplices of these sizes in turn, until none of them gains what matters."""
    idle = 0
    for turn in range(_TURNS * len(sizes)):
        before = best[0]
        best = descend_again(function, best, (sizes[turn % len(sizes)],), limit, rng)
        idle = 0 if best[0] < before - _GAIN else idle + 1
        if idle == len(sizes):
            break
    return best


def spread(points: list[Array], widths: Array, count: int, distance: float) -> list[Array]:
    """The first points of a list that lie apart: by this part of the widths in some coordinate."""
    chosen: list[Array] = []
    for point in points:
        if len(chosen) < count and all(np.abs((point - one) / widths).max() > distance for one in chosen):
            chosen.append(point)
    return chosen
