"""`npga.design`: versions whose polynomials are found by search.

The rows of the version table are points in the space of polynomials B^2(K), C(K), D(K). Each row that fits is tuned
first; from the best of them the coefficients are set free, together with the steps, and Nelder and Mead's method
descends on the spectral radius. What comes out best is run, and the length of the run to 1e-8 decides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version, version_rows
from npga.networks import version as find_version
from npga.problem import Problem, expect_p1
from npga.solver import Reference, show_progress
from npga.solver import reference as solve_centrally
from npga.theory import certify
from npga.tuning._certified_steps import design_certified
from npga.tuning._search import Budget, OutOfTimeError
from npga.tuning._space import DesignSpace, Pattern, StepSpace, patterns
from npga.tuning._spectral import (
    ACCURACY,
    FORBIDDEN,
    GRACE,
    Found,
    SpectralSearch,
    confirm,
    descend,
    descend_again,
    descents,
    longest_run,
    promised_rate,
    short_runs,
)
from npga.tuning._tune import best_degree
from npga.tuning._tuning_results import DesignedVersion, Trial, Trials

Array = NDArray[Any]

_BLANK = Version("designed", B2=[1, -1])
# Where a row is tuned: points that get a glance.
_GLANCES = 3
# In a pattern: rows to start from, and the first simplex; in the best patterns, further ones; evaluations of each.
_STARTS, _SIZE = 2, 0.2
_PATTERNS, _AGAIN, _DESCENT = 2, (0.3, 0.2, 0.3), 300
# Rows and winners that are run; simplices that descend on the length of the run, the first from each of them and the
# others from the best two; evaluations of each.
_RUNS, _FINALISTS, _NEARBY, _POLISH = 6, 2, (0.2, 0.1, 0.05), 200
_CHECKED = 20
# When time is short: until when rows are tuned, every pattern is tried, and the best of them are searched.
_ROWS_UNTIL, _PATTERNS_UNTIL, _SEARCH_UNTIL = 0.3, 0.55, 0.8


def design(
    problem: Problem,
    network: Network,
    degree: int = 2,
    rounds: int | None = None,
    *,
    per: str = "iteration",
    constraints: str = "stability",
    seed: int = 0,
    max_seconds: float | None = None,
    reference: Reference | None = None,
    certified: bool = False,
    progress: bool = False,
) -> DesignedVersion:
    """Find the polynomials B^2(W), C(W) and D(W), and steps, that solve a problem on a network fastest.

    The spectral radius of the iteration is minimised first, then the iterations of a run from zero to 1e-8.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom.
    degree
        Largest degree of the polynomials.
    rounds
        Most rounds of communication per iteration, deg D + max(deg C, deg B^2 - deg D, 0); the degree alone limits them
        by default, to 2 degree.
    per
        What shall be few: the "iteration" or the "round" of communication. For rounds, W may also be replaced by its
        Chebyshev polynomial of a degree that is chosen by the best row (``designed.chebyshev``, so many rounds in place
        of each one); `rounds`, where it is given, limits all of them.
    constraints
        "stability" asks only that the iteration converges; "assumption-4" also for Assumption 4 of the paper:
        0 <= C < I, 0 <= B^2 <= I with null spaces spanned by ones, D symmetric and doubly stochastic.
    seed
        The same seed gives the same version, unless the time runs out.
    max_seconds
        Time; then, and on Ctrl-C, the best so far is returned.
    reference
        A solution from `npga.reference`, so that it is not computed again.
    certified
        Minimise the rate that an instance certificate proves for every start instead; no Chebyshev polynomials are
        tried then, and `DesignedVersion.certificate` holds the proof.
    progress
        Show progress (a bar needs rich; a line every ten seconds where there is no terminal).

    Returns
    -------
    DesignedVersion
        To be run with ``npga.solve(problem, network, version=designed, steps=designed.steps)``.
    """
    most = 2 * _positive("degree", degree) if rounds is None else _positive("rounds", rounds)
    if per not in ("iteration", "round"):
        raise InputError(f"per is {per!r}; expected 'iteration' or 'round'")
    if constraints not in ("stability", "assumption-4"):
        raise InputError(f"constraints is {constraints!r}; expected 'stability' or 'assumption-4'")
    expect_p1(problem)
    problem.expect(network)
    if network.n < 2:
        raise InputError("the network has one node; a single agent mixes nothing, so there is nothing to design")
    begun, assumption_4, rng = time.perf_counter(), constraints == "assumption-4", np.random.default_rng(seed)
    if certified:
        with show_progress("designing a version", progress) as tell:
            spaces = [DesignSpace(problem, network, pattern, assumption_4) for pattern in patterns(degree, most)]
            rows = [row for row in _rows() if any(space.holds(row) for space in spaces)]
            budget = Budget(max_seconds, tell)
            return design_certified(problem, network, rows, spaces, per_round=per == "round", rng=rng, budget=budget)
    solution = solve_centrally(problem) if reference is None else reference
    with show_progress("designing a version", progress) as tell:
        budget = Budget(max_seconds, tell)
        search = _DesignSearch(
            problem, network, solution, assumption_4, degree, most, per_round=per == "round", budget=budget, rng=rng
        )
        return search.all_stages(rounds).conclude(begun)


def _rows() -> list[Version]:
    """Rows of the table to start from: twins differ in gamma alone.

    P2D2 is EXTRA, exact diffusion is NIDS, and DLM with W = I - L/tau is EXTRA.
    """
    return [find_version(name) for name, row in version_rows().items() if not row.twin]


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number, at least 1")
    return int(value)


@dataclass(eq=False)
class _DesignSearch:
    """The search: rows first, then patterns, then runs. Whatever time is left, all that was tried is in the trials."""

    problem: Problem
    network: Network
    solution: Reference
    assumption_4: bool
    degree: int
    rounds: int
    per_round: bool
    budget: Budget
    rng: np.random.Generator
    chebyshev: int = 1
    trials: Trials = field(default_factory=Trials)

    def __post_init__(self) -> None:
        self._rows: list[Trial] = []
        self._winners: dict[Pattern, Trial] = {}

    def all_stages(self, most: int | None) -> _DesignSearch:
        """What has been searched when all is done, or at Ctrl-C; `most` limits the rounds of Chebyshev polynomials."""
        chosen = self
        with suppress(KeyboardInterrupt):
            self.tune_rows()
            if self.per_round:
                chosen = self.deepened(most)
            counts = range(1, min(chosen.rounds, 2 * self.degree) + 1) if self.per_round else [self.rounds]
            chosen.search([pattern for count in counts for pattern in patterns(self.degree, count)])
            chosen.run()
        return chosen

    def deepened(self, most: int | None) -> _DesignSearch:
        """The search on the network of the Chebyshev polynomial with which the best row needs the fewest rounds."""
        if not self._rows:
            return self
        best = min(self._rows, key=self._price)
        searches = {1: self}

        def price(degree: int) -> float:
            other = searches[degree] = self._with(degree, most)
            other.tune_rows([best.version.name])
            return min(map(other._price, other._rows), default=math.inf)

        degree = best_degree(price, self._price(best), most)
        if degree == 1:
            return self
        chosen = searches[degree]
        chosen.tune_rows([row.name for row in _rows() if row.name != best.version.name])
        return chosen

    def _with(self, degree: int, most: int | None) -> _DesignSearch:
        """The same search with a Chebyshev polynomial, which is a search on another network."""
        mixed = replace(_BLANK, chebyshev=degree).mixed(self.network)
        rounds, rng = self.rounds if most is None else most // degree, np.random.default_rng(degree)
        return replace(self, network=mixed, chebyshev=degree, rng=rng, rounds=rounds, trials=Trials())

    def tune_rows(self, names: Sequence[str] | None = None) -> None:
        """Tune the rows that the search may start from, each in its part of the time."""
        gamma_max = 1.0 if self.assumption_4 else None
        own = [row for row in _rows() if names is None or row.name in names]
        rows = sorted((row for row in own if self._fits(row)), key=lambda row: row.rounds)
        for k, row in enumerate(rows, 1):
            if self._rows and self.budget.spent:
                break
            space = StepSpace(self.problem, self.network, row, gamma_max)
            job = self._job(row, space, self.budget.until(_ROWS_UNTIL * k / len(rows)))
            best = self._best_of(descents, job, space, self.rng, _GLANCES, ())
            if best is not None:
                self._rows.append(best)
        self._rows.sort(key=lambda row: row.rate)

    def search(self, every: list[Pattern]) -> None:
        """Set the coefficients free: in every pattern once, from the best rows that it holds; then in the best ones."""
        places: dict[Pattern, tuple[SpectralSearch, DesignSpace]] = {}
        for k, pattern in enumerate(every, 1):
            space = DesignSpace(self.problem, self.network, pattern, self.assumption_4)
            until = _ROWS_UNTIL + (_PATTERNS_UNTIL - _ROWS_UNTIL) * k / len(every)
            job = self._job(_BLANK, space, self.budget.until(until))
            places[pattern] = job, space
            for row in [row for row in self._rows if pattern.holds(Pattern.of(row.version))][:_STARTS]:
                self._descend(job, space, row, _SIZE)
        for size in _AGAIN:
            for pattern in sorted(self._winners, key=lambda pattern: self._price(self._winners[pattern]))[:_PATTERNS]:
                job, space = places[pattern]
                job.budget = self.budget.until(_SEARCH_UNTIL)
                self._descend(job, space, self._winners[pattern], size)

    def _descend(self, job: SpectralSearch, space: DesignSpace, start: Trial, size: float) -> None:
        """A descent on the radius; the pattern's winner is the best trial of all its descents."""
        point = space.encode(start.version, start.steps)
        best = self._best_of(descend, job.objective, point, size, _DESCENT, self.rng)
        old = self._winners.get(space.pattern)
        if best is not None and (old is None or best.rate < old.rate):
            self._winners[space.pattern] = best

    def _best_of(self, descent: Callable[..., object], *arguments: object) -> Trial | None:
        """The best trial that a descent makes before it ends or its time is over; a short run if it got no further."""
        before = len(self.trials)
        with suppress(OutOfTimeError):
            descent(*arguments)
        made = self.trials[before:]
        radii = [one for one in made if one.stage == "descent"]
        if radii:
            return min((one for one in radii if 0.0 < one.rate < 1.0), key=lambda one: one.rate, default=None)
        return next(iter(short_runs(made)), None)

    def run(self) -> None:
        """Run the best rows and winners, and descend on the length of the run."""
        # Rows that break Assumption 4 where it is asked for are scaled to keep it, so their rates say less.
        candidates = sorted(
            [*self._rows, *self._winners.values()], key=lambda one: (not self._allowed(one), self._price(one))
        )
        found: dict[int, Found] = {}
        lengths = []
        with suppress(OutOfTimeError):
            for k, trial in enumerate(candidates[:_RUNS]):
                space = DesignSpace(self.problem, self.network, Pattern.of(trial.version), self.assumption_4)
                lengths.append(partial(self._length, self._job(_BLANK, space), longest_run(trial.rate)))
                point = space.encode(trial.version, trial.steps)
                found[k] = lengths[k](point), point
            for turn, size in enumerate(_NEARBY):
                for k in sorted(found, key=lambda k: found[k][0])[: _FINALISTS if turn else _RUNS]:
                    found[k] = descend_again(lengths[k], found[k], (size,), _POLISH, self.rng)

    def _length(self, job: SpectralSearch, limit: int, point: Array) -> float:
        """Logarithm of what a run to the target accuracy costs."""
        if job.space.excess(point) == math.inf:
            return FORBIDDEN
        return job.run(point, limit) + self._log_cost(job.space.decode(point)[0])

    def _job(self, version: Version, space: StepSpace | DesignSpace, budget: Budget | None = None) -> SpectralSearch:
        budget = self.budget if budget is None else budget
        return SpectralSearch(self.problem, self.network, version, self.solution, space, budget, self.trials)

    def _log_cost(self, version: Version) -> float:
        """Logarithm of what an iteration costs."""
        return math.log10(self.chebyshev * version.rounds) if self.per_round else 0.0

    def _price(self, trial: Trial) -> float:
        """Logarithm of the cost of a digit at the trial's rate."""
        return self._log_cost(trial.version) - math.log10(-math.log10(trial.rate))

    def _fits(self, version: Version) -> bool:
        pattern = Pattern.of(version)
        return pattern.rounds <= self.rounds and max(pattern) <= self.degree

    def conclude(self, begun: float) -> DesignedVersion:
        """The best trial that holds up: radius again with another start vector, a run, and Assumption 4 if asked."""
        ran = [one for one in self.trials if one.stage == "run" and math.isfinite(one.iterations)]
        stable = [one for one in self.trials if one.stage == "descent" and 0.0 < one.rate < 1.0]
        ran.sort(key=lambda one: self._log_cost(one.version) + math.log10(max(one.iterations, 1.0)))
        stable.sort(key=self._price)
        if self.budget.spent:  # a little more, to confirm the best of them
            self.budget = self.budget.grace(GRACE)
        for trials in (ran, stable, short_runs(self.trials)):
            for trial in islice(filter(self._allowed, trials), _CHECKED):
                job = self._job(trial.version, StepSpace(self.problem, self.network, trial.version))
                try:
                    check, run = confirm(job, trial)
                except OutOfTimeError:
                    return self._version(trial, promised_rate(trial), trial.iterations, begun)
                if check.radius < 1.0 and math.isfinite(run.iterations):
                    return self._version(trial, check.radius, run.iterations, begun)
        raise InputError(
            f"no stable version was found in {len(self.trials)} trials; allow more time or more rounds, or use "
            "network.lazy()"
        )

    def _allowed(self, trial: Trial) -> bool:
        if not self.assumption_4:
            return True
        # Rows that were tuned on the way need not satisfy Assumption 4; spectra are quicker than a certificate.
        values = trial.version.spectra(self.network)
        if values.B2.max() > 1.0 + 1e-12 or values.C.max() >= 1.0 or values.C.min() < -1e-12:
            return False
        return certify(self.problem, self.network, trial.version, trial.steps).holds(4)

    def _version(self, trial: Trial, radius: float, measured: float, begun: float) -> DesignedVersion:
        covered = certify(self.problem, self.network, trial.version, trial.steps).covered
        place = "lies within a theorem" if covered else "lies outside every theorem"
        kept = ", satisfies Assumption 4" if self.assumption_4 else ""
        return DesignedVersion.of(
            replace(trial.version, chebyshev=self.chebyshev),
            steps=trial.steps,
            rate=radius,
            trials=self.trials,
            message=f"With its steps it {place}{kept}. Spectral radius {radius:.6g}; "
            + (
                f"a run reached {ACCURACY:g} in {measured:.0f} iterations of "
                f"{self.chebyshev * trial.version.rounds} rounds."
                if math.isfinite(measured)
                else "the time was over before a run could confirm it."
            ),
            seconds=time.perf_counter() - begun,
            measured=measured,
        )
