"""Steps with the best rate that is proved for every start: an instance certificate minimised.

No certified rate is below the radius of a linear member of the class (g = 0, or g that fixes x, for instance). So
simplices descend first on the largest of these radii (`npga.theory.slowest_member`), which is smooth and cheap, from
the best of a sample and from the steps of the theorems, and then on a sketch of the certified rate itself
(`npga.theory.sketch_rate`). The best points are certified in full, and the first whose proof passes its check is taken.
The rate is that of the whole class, so no solution is needed. Where one is known, runs decide among steps whose
certified iterations are within `_WORTH` of the least: a simplex descends on the length of a run to the solution, where
no linear member of the class is slower than that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import Reference
from npga.steps import Steps
from npga.theory import STATES, Certificate, certify, sketch_rate, slowest_member, states
from npga.tuning._search import Budget, Measured, OutOfTimeError, measure
from npga.tuning._space import DesignSpace, SearchSpace, StepSpace
from npga.tuning._spectral import ACCURACY, FORBIDDEN, Found, descend, descend_again, slowness
from npga.tuning._tuning_results import DesignedVersion, Trial, Trials, Tuning

Array = NDArray[Any]

# A sample around a cautious point, and how wide it is; simplices from the best of it, their size and evaluations, those
# from the winner, and those on the sketch of the certified rate.
_SAMPLES, _WIDE = 16, 0.8
_STARTS, _SIZE, _DESCENT = 2, 0.5, 60
_AGAIN = (0.3, 0.15, 0.3)
_FINE, _SKETCHES = (0.2, 0.1), 15
# Certificates that are computed in full at most; how many times the least certified iterations a faster run may cost.
_CHECKED, _WORTH = 6, 1.25
# Evaluations of a descent on runs, and what a member costs that is slower than it may be, in powers of ten.
_RUNS, _STEEP = 45, 5.0
# Iterations of a run at most; where `slowness` is above this, nothing converges.
_CONFIRMED, _UNSTABLE = 200_000, 9.0
# Places between the best certified rate and the fastest run that are sketched.
_BETWEEN = (0.25, 0.5, 0.75, 1.0)


def tune_certified(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int = 0,
    gamma_max: float | None = None,
    budget: Budget,
    star: Reference | None = None,
) -> Tuning:
    """Minimise the certified rate over alpha, beta, gamma, theta and c.

    With `star`, the fastest run to it of steps whose certified iterations are within 25 % of the least.
    """
    begun = time.perf_counter()
    space = StepSpace(problem, network, version, gamma_max)
    rng = np.random.default_rng(seed)
    job = CertifiedSearch(problem, network, space, budget, star)
    points = [space.middle, *(space.middle + _WIDE * rng.standard_normal((_SAMPLES, len(space.middle))))]
    known = certify(problem, network, version)
    if known.steps is not None:
        points.append(space.encode(known.steps))
    job.search(points, rng)
    best, cert = proved(problem, network, job.sketched, version.name, len(job.trials))
    words, measured = _words(cert), math.nan
    if star is not None:
        best, cert, measured = job.fastest(best, cert)
        words = f"{_words(cert)} A run reached {ACCURACY:g} in {measured:.0f} iterations."
    spent = time.perf_counter() - begun
    return Tuning(
        best.version, best.steps, network, "certified", cert.instance.rate, job.trials, words, spent, measured, cert
    )


class CertifiedSearch:
    """The search for steps, or for a version and steps, whose certified rate is best.

    Parameters
    ----------
    problem, network
        What is tuned; small enough for an instance certificate.
    space
        Where to search.
    budget
        Time and progress.
    star
        A solution for runs to end at, where they are to decide among steps of about the same certified rate.
    """

    def __init__(
        self, problem: Problem, network: Network, space: SearchSpace, budget: Budget, star: Reference | None = None
    ) -> None:
        if states(problem) > STATES:
            raise InputError(
                f"certified steps need dense matrices of {states(problem):,} states, and the limit is {STATES:,}; use "
                "method='theorem', whose steps are certified too"
            )
        self.problem, self.network, self.space, self.budget, self.star = problem, network, space, budget, star
        self.trials = Trials()

    def members(self, point: Array) -> float:
        """-log10(1 - radius) of the slowest linear member of the class: a lower bound on what `sketch` finds."""
        return self._value(point, "members", slowest_member)

    def sketch(self, point: Array) -> float:
        """-log10(1 - rate) of the rate that can be proved; larger where none can."""
        # Members of the class that are far slower than the best steps so far need no multipliers.
        cutoff = 1.0 - 0.5 * (1.0 - min((one.rate for one in self.sketched), default=1.0))
        return self._value(point, "certified", partial(sketch_rate, cutoff=cutoff))

    def _value(self, point: Array, stage: str, rate_of: Callable[[Problem, Network, Version, Steps], float]) -> float:
        if self.budget.spent:
            raise OutOfTimeError
        excess = self.space.excess(point)
        if excess == math.inf:
            return FORBIDDEN
        version, steps = self.space.decode(point)
        rate = rate_of(self.problem, self.network, version, steps)
        self.trials.append(Trial(stage, version, steps, rate=rate))
        value = slowness(rate) + excess
        self.budget.tell("certified", len(self.trials), value)
        return value

    def length(self, point: Array, most: float) -> float:
        """Logarithm of the iterations of a run to `star`; more where `members` is above `most`."""
        slow = self.members(point)
        if not slow < _UNSTABLE:
            return slow
        excess = _STEEP * max(slow - most, 0.0)
        return math.log10(max(self._run(*self.space.decode(point)).expected, 1.0)) + excess

    def _run(self, version: Version, steps: Steps) -> Measured:
        assert self.star is not None
        return measure(self.problem, self.network, version, steps, self.star.x, ACCURACY, _CONFIRMED)

    @property
    def sketched(self) -> list[Trial]:
        """Trials of the certified rate itself that have one, the best first."""
        found = [one for one in self.trials if one.stage == "certified" and one.rate < 1.0]
        return sorted(found, key=lambda one: one.rate)

    def search(self, points: Sequence[Array], rng: np.random.Generator, again: tuple[float, ...] = _AGAIN) -> None:
        """Look at the points, and descend from the best of them, then again with simplices of these sizes."""
        with suppress(OutOfTimeError, KeyboardInterrupt):
            found: list[Found] = sorted(((self.members(point), point) for point in points), key=lambda one: one[0])
            ends = [descend(self.members, point, _SIZE, _DESCENT, rng) for _, point in found[:_STARTS]]
            ends.append(descend_again(self.members, min(ends, key=lambda one: one[0]), again, _DESCENT, rng))
            # Where the slowest members tell little, what can be proved may be best elsewhere.
            starts = [*dict.fromkeys(map(tuple, (one[1] for one in reversed(ends)))), *(tuple(p) for p in points[:1])]
            sketches: list[Found] = [(self.sketch(np.array(point)), np.array(point)) for point in starts]
            best = descend_again(self.sketch, min(sketches, key=lambda one: one[0]), _FINE, _SKETCHES, rng)
            if self.star is not None:
                slow, point = min(ends, key=lambda one: one[0])
                length = partial(self.length, most=slow + math.log10(_WORTH))
                fast = descend_again(length, (math.inf, point), _FINE, _RUNS, rng)
                for share in _BETWEEN:
                    self.sketch(best[1] + share * (fast[1] - best[1]))

    def fastest(self, best: Trial, cert: Certificate) -> tuple[Trial, Certificate, float]:
        """The shortest run at steps that are proved with at most `_WORTH` times the certified iterations of the best.

        A sketch is rough, so that somewhat slower ones are tried too.
        """
        shortest = self._run(best.version, best.steps).iterations
        worth = [one for one in self.sketched if 1.2 * _WORTH * (1.0 - one.rate) >= 1.0 - best.rate]
        runs = [(self._run(one.version, one.steps).iterations, one) for one in worth]
        faster = sorted((pair for pair in runs if pair[0] < shortest), key=lambda pair: pair[0])
        for run, one in faster[:_CHECKED]:
            found = certify(self.problem, self.network, one.version, one.steps)
            if _WORTH * (1.0 - found.instance.rate) >= 1.0 - cert.instance.rate and found.instance.P:
                return one, found, run
        return best, cert, shortest


def proved(
    problem: Problem, network: Network, hopeful: Sequence[Trial], name: str, tried: int
) -> tuple[Trial, Certificate]:
    """The first trial whose proof passes its check, and its certificate; trials of about the same rate count once."""
    distinct: list[Trial] = []
    for one in hopeful:
        if all(abs(math.log((1.0 - one.rate) / (1.0 - other.rate))) > 0.02 for other in distinct):
            distinct.append(one)
    for one in distinct[:_CHECKED]:
        cert = certify(problem, network, one.version, one.steps)
        if cert.instance.standing == "proved":
            return one, cert
    raise InputError(
        f"no steps of {name} could be certified in {tried} trials; allow more time, use network.lazy(), or another "
        "version"
    )


def design_certified(
    problem: Problem,
    network: Network,
    rows: Sequence[Version],
    spaces: Sequence[DesignSpace],
    *,
    per_round: bool,
    rng: np.random.Generator,
    budget: Budget,
) -> DesignedVersion:
    """The version and steps with the best certified rate: rows first, then the spaces that hold the best of them."""
    begun, everything = time.perf_counter(), Trials()
    best: Trial | None = None
    hopeful: list[Trial] = []

    def price(trial: Trial) -> float:
        return slowness(trial.rate) + (math.log10(trial.version.rounds) if per_round else 0.0)

    places: list[StepSpace | DesignSpace] = [*(StepSpace(problem, network, row) for row in rows), *spaces]
    for place in places:
        job = CertifiedSearch(problem, network, place, budget)
        if isinstance(place, StepSpace):
            job.search([place.middle, *(place.middle + _WIDE * rng.standard_normal((4, len(place.middle))))], rng, ())
        elif best is not None and place.holds(best.version):
            job.search([place.encode(best.version, best.steps)], rng)
        for trial in job.trials:
            everything.append(trial)
        hopeful += job.sketched
        best = min(hopeful, key=price, default=None)
    hopeful.sort(key=price)
    trial, cert = proved(problem, network, hopeful, "a designed version", len(everything))
    return DesignedVersion.of(
        trial.version, steps=trial.steps, rate=cert.instance.rate, trials=everything, message=_words(cert),
        seconds=time.perf_counter() - begun, certificate=cert,
    )  # fmt: skip


def _words(cert: Certificate) -> str:
    return (
        f"Proved for every start and all functions of the class: rate {cert.instance.rate:.6g}, "
        f"{cert.instance.iterations(1e-6):,.0f} iterations for six digits with its constant."
    )
