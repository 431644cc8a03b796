"""`npga.design`: versions whose polynomials are found by search.

The rows of the version table are points in the space of polynomials B^2(K), C(K), D(K). Each row that fits is tuned
first; from the best of them the coefficients are set free, together with the steps, and Nelder and Mead's method
descends on the spectral radius.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.solver import Reference
from npga.solver import reference as solve_centrally
from npga.steps import Steps
from npga.theory import certify
from npga.tuning._budget import Budget
from npga.tuning._descent import descend, descend_again
from npga.tuning._design_space import DesignSpace, Pattern, patterns
from npga.tuning._progress import progress as show_progress
from npga.tuning._space import Space
from npga.tuning._spectral import ACCURACY, OutOfTimeError, Spectral, confirm, descents
from npga.tuning._tuning import Trial, Trials

Array = NDArray[Any]

# Rows that differ in more than gamma: P2D2 is EXTRA, exact diffusion is NIDS, and DLM with W = I - L/tau is EXTRA.
_ROWS = ("extra", "nids", "diging", "atc-tracking", "aug-dgm", "npga-i", "npga-ii")
_STARTS = 2
_SIZE, _AGAIN, _DESCENT = 0.2, (0.3, 0.2, 0.3, 0.15, 0.3, 0.1), 100
_CHECKED = 20


@dataclass(frozen=True, repr=False)
class DesignedVersion(Version):
    """A version found by `design`, and what is known about it.

    Parameters
    ----------
    steps
        The steps it was designed with.
    rate
        Spectral radius of the iteration: contraction of |x - x*| per iteration.
    trials
        What was tried.
    message
        What is known about it, in a sentence or two.
    seconds
        Wall time of the search.
    measured
        Iterations to a relative accuracy of 1e-8 of the confirming run.
    """

    steps: Steps | None = field(default=None, compare=False)
    rate: float = field(default=math.nan, compare=False)
    trials: Trials = field(default_factory=Trials, compare=False)
    message: str = field(default="", compare=False)
    seconds: float = field(default=math.nan, compare=False)
    measured: float = field(default=math.nan, compare=False)

    @property
    def work(self) -> int:
        """Iterations spent on trials."""
        return self.trials.work

    def iterations(self, accuracy: float) -> float:
        """Iterations that shrink the error by `accuracy` at this rate."""
        return math.log(accuracy) / math.log(self.rate)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, rate={self.rate:.6g}, {self.steps})".replace(
            "Version(", "DesignedVersion(", 1
        )


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
    progress: bool = False,
) -> DesignedVersion:
    """Find the polynomials B^2(W), C(W) and D(W), and steps, with the best linear rate on a problem and network.

    Parameters
    ----------
    problem, network
        What to solve, and who talks to whom.
    degree
        Largest degree of the polynomials.
    rounds
        Most rounds of communication an iteration, deg D + max(deg C, deg B^2 - deg D, 0); the degree alone limits them
        by default, to 2 degree.
    per
        What to minimise: the spectral radius per "iteration" or per "round" of communication.
    constraints
        "stability" asks only that the iteration converges; "assumption-4" also for Assumption 4 of the paper:
        0 <= C < I, 0 <= B^2 <= I with null spaces spanned by ones, D symmetric and doubly stochastic.
    seed
        The same seed gives the same version, unless the time runs out.
    max_seconds
        Time; then, and on Ctrl-C, the best so far is returned.
    reference
        A solution from `npga.reference`, so that it is not computed again.
    progress
        Show progress (needs rich).

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
    if network.n != problem.n:
        raise InputError(
            f"the network has {network.n} nodes and the problem {problem.n} agents; expected equal numbers"
        )
    if network.n < 2:
        raise InputError("the network has one node; a single agent mixes nothing, so there is nothing to design")
    begun = time.perf_counter()
    solution = solve_centrally(problem) if reference is None else reference
    with show_progress("designing a version", progress) as observe:
        drawing = _Drawing(
            problem, network, solution, constraints == "assumption-4", Budget(max_seconds, observe), seed
        )
        counts = range(1, min(most, 2 * degree) + 1) if per == "round" else [most]
        try:
            drawing.tune_rows(degree, most)
            for count in counts:
                for pattern in patterns(degree, count):
                    drawing.search(pattern)
        except (OutOfTimeError, KeyboardInterrupt):
            pass
        return drawing.conclude(per, degree, most, begun)


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number, at least 1")
    return int(value)


class _Drawing:
    """The search: rows first, then patterns."""

    def __init__(
        self, problem: Problem, network: Network, solution: Reference, assumption_4: bool, budget: Budget, seed: int
    ) -> None:
        self.problem, self.network, self.solution = problem, network, solution
        self.assumption_4, self.budget = assumption_4, budget
        self.trials, self._rng = Trials(), np.random.default_rng(seed)
        self._rows: list[tuple[float, Version, Steps]] = []

    def tune_rows(self, degree: int, rounds: int) -> None:
        """Tune the rows that the search may start from."""
        gamma_max = {"gamma_max": 1.0} if self.assumption_4 else {}
        for row in map(find_version, _ROWS):
            if row.rounds > rounds or max(_pattern(row)) > degree:
                continue
            space = Space(self.problem, self.network, row, **gamma_max)
            for value, point in descents(self._job(row, space), space, self._rng)[:1]:
                self._rows.append((value, *space.decode(point)))

    def search(self, pattern: Pattern) -> None:
        """Set the coefficients of a pattern free, starting from the best rows that it holds."""
        space = DesignSpace(self.problem, self.network, pattern, self.assumption_4)
        job = self._job(Version("designed", B2=[1, -1]), space)
        rows = sorted((row for row in self._rows if pattern.holds(_pattern(row[1]))), key=lambda row: row[0])
        for _, row, steps in rows[:_STARTS]:
            best = descend(job.objective, space.encode(row, steps), _SIZE, _DESCENT, self._rng)
            descend_again(job.objective, best, _AGAIN, _DESCENT, self._rng)

    def _job(self, version: Version, space: Space | DesignSpace) -> Spectral:
        return Spectral(self.problem, self.network, version, self.solution, space, self.budget, self.trials)

    def conclude(self, per: str, degree: int, most: int, begun: float) -> DesignedVersion:
        """The best trial that holds up: radius again with another start vector, a run, and Assumption 4 if asked."""

        def price(trial: Trial) -> float:
            return (trial.version.rounds if per == "round" else 1) / -math.log(trial.rate)

        def fits(trial: Trial) -> bool:
            pattern = _pattern(trial.version)
            return (
                trial.stage == "descent"
                and 0.0 < trial.rate < 1.0
                and pattern.rounds <= most
                and max(pattern) <= degree
            )

        checked = 0
        for trial in sorted(filter(fits, self.trials), key=price):
            if checked == _CHECKED:
                break
            if self.assumption_4 and not self._allowed(trial):
                continue
            checked += 1
            check, run = confirm(self._job(trial.version, Space(self.problem, self.network, trial.version)), trial)
            if check.radius < 1.0 and math.isfinite(run.iterations):
                return self._version(trial, check.radius, run.iterations, begun)
        raise InputError(
            f"no stable version was found in {len(self.trials)} trials; allow more time or more rounds, or use "
            "network.lazy()"
        )

    def _allowed(self, trial: Trial) -> bool:
        # Rows that were tuned on the way need not satisfy Assumption 4; spectra are quicker than a certificate.
        values = trial.version.spectra(self.network)
        if values.B2.max() > 1.0 + 1e-12 or values.C.max() >= 1.0 or values.C.min() < -1e-12:
            return False
        found = certify(self.problem, self.network, trial.version, trial.steps).assumptions
        return all(found[key].holds for key in ("4.i", "4.ii", "4.iii", "4.iv"))

    def _version(self, trial: Trial, radius: float, measured: float, begun: float) -> DesignedVersion:
        covered = certify(self.problem, self.network, trial.version, trial.steps).covered
        place = "lies within a theorem" if covered else "lies outside every theorem"
        kept = ", satisfies Assumption 4" if self.assumption_4 else ""
        values: dict[str, Any] = {f.name: getattr(trial.version, f.name) for f in fields(Version)}
        values |= {"name": "designed", "title": "designed", "reference": "", "formulas": None, "c": None}
        return DesignedVersion(
            **values,
            steps=trial.steps,
            rate=radius,
            trials=self.trials,
            message=f"With its steps it {place}{kept}. Spectral radius {radius:.6g}; a run reached {ACCURACY:g} in "
            f"{measured:.0f} iterations of {trial.version.rounds} rounds.",
            seconds=time.perf_counter() - begun,
            measured=measured,
        )


def _pattern(version: Version) -> Pattern:
    b, c, d = version.kernel_polynomials(1.0)
    return Pattern(len(d) - 1, len(c) - 1, len(b) - 1)
