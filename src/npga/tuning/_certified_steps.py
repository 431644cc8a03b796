"""Steps with the best rate that is proved for every start: an instance certificate minimised.

No certified rate is below the radius of a linear member of the class (g = 0, or g that fixes x, for instance). So
simplices descend first on the largest of these radii (`npga.theory.slowest_member`), which is smooth and cheap, from
the best of a sample and from the steps of the theorems, and then on a sketch of the certified rate itself
(`npga.theory.sketch_rate`). The best points are certified in full, and the first whose proof passes its check is taken.
The rate is that of the whole class, so no solution is needed; where one is known, it chooses among steps whose
certified rates are about equal: those that are fastest near it.
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
from npga.theory import STATES, Certificate, certify, linearised_rate, sketch_rate, slowest_member, states
from npga.tuning._search import Budget, OutOfTimeError, measure
from npga.tuning._space import DesignSpace, SearchSpace, StepSpace
from npga.tuning._spectral import ACCURACY, FORBIDDEN, Found, descend, descend_again, slowness
from npga.tuning._tuning_results import DesignedVersion, Trial, Trials, Tuning

Array = NDArray[Any]

# A sample around a cautious point, and how wide it is; simplices from the best of it, their size and evaluations, those
# from the winner, and those on the sketch of the certified rate.
_SAMPLES, _WIDE = 16, 0.8
_STARTS, _SIZE, _DESCENT = 2, 0.5, 35
_AGAIN = (0.3, 0.15)
_FINE, _SKETCHES = (0.2, 0.1), 15
# Certificates that are computed in full at most; certified iterations that a faster run may cost.
_CHECKED, _WORTH = 6, 1.15
_CONFIRMED = 200_000


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

    Among steps whose certified iterations are within 15 % of the least, those that are fastest near `star`.
    """
    begun = time.perf_counter()
    space = StepSpace(problem, network, version, gamma_max)
    rng = np.random.default_rng(seed)
    job = CertifiedSearch(problem, network, space, budget)
    points = [space.middle, *(space.middle + _WIDE * rng.standard_normal((_SAMPLES, len(space.middle))))]
    known = certify(problem, network, version)
    if known.steps is not None:
        points.append(space.encode(known.steps))
    job.search(points, rng)
    hopeful = _preferred(problem, network, job.sketched, star)
    best, cert = proved(problem, network, hopeful, version.name, len(job.trials))
    words, measured = _words(cert), math.nan
    if star is not None:
        measured = measure(problem, network, best.version, best.steps, star.x, ACCURACY, _CONFIRMED).iterations
        words += f" A run reached {ACCURACY:g} in {measured:.0f} iterations."
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
    """

    def __init__(self, problem: Problem, network: Network, space: SearchSpace, budget: Budget) -> None:
        if states(problem) > STATES:
            raise InputError(
                f"certified steps need dense matrices of {states(problem):,} states, and the limit is {STATES:,}; use "
                "method='theorem', whose steps are certified too"
            )
        self.problem, self.network, self.space, self.budget = problem, network, space, budget
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
            descend_again(self.sketch, min(sketches, key=lambda one: one[0]), _FINE, _SKETCHES, rng)


def _preferred(problem: Problem, network: Network, found: list[Trial], star: Reference | None) -> list[Trial]:
    """The trials as they are to be tried: about the best certified rate first, and of these the fastest at `star`."""
    if star is None or not found:
        return found
    worth = [one for one in found if _WORTH * (1.0 - one.rate) >= 1.0 - found[0].rate]

    def near(trial: Trial) -> float:
        rate = linearised_rate(problem, network, trial.version, trial.steps, star.x, star.lam)
        return rate if math.isfinite(rate) else trial.rate

    return sorted(worth, key=near) + [one for one in found if one not in worth]


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
