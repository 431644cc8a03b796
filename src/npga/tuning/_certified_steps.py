"""Steps with the best rate that is proved for every start: an instance certificate minimised.

The objective is a sketch of the certified rate (`npga.theory.sketch_rate`), a fraction of a second for a few hundred
states. Simplices descend on it from the best of a sample and from the steps of the theorems; the best points are then
certified in full, and the first whose proof passes its check is taken. No solution is needed: the rate is that of the
whole class.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.theory import STATES, Certificate, certify, sketch_rate, states
from npga.tuning._search import Budget, OutOfTimeError, measure
from npga.tuning._space import DesignSpace, SearchSpace, StepSpace
from npga.tuning._spectral import ACCURACY, FORBIDDEN, Found, descend, slowness
from npga.tuning._tuning_results import DesignedVersion, Trial, Trials, Tuning

Array = NDArray[Any]

# A sample around a cautious point, and how wide it is; simplices from the best of it, their size and evaluations.
_SAMPLES, _WIDE = 16, 0.8
_STARTS, _SIZE, _DESCENT = 2, 0.5, 35
_AGAIN = (0.4, 0.2, 0.1)
# Certificates that are computed in full at most.
_CHECKED = 6
_CONFIRMED = 200_000


def tune_certified(
    problem: Problem,
    network: Network,
    version: Version,
    *,
    seed: int = 0,
    gamma_max: float | None = None,
    budget: Budget,
    star: Array | None = None,
) -> Tuning:
    """Minimise the certified rate over alpha, beta, gamma, theta and c."""
    begun = time.perf_counter()
    space = StepSpace(problem, network, version, gamma_max)
    rng = np.random.default_rng(seed)
    job = CertifiedSearch(problem, network, space, budget)
    points = [space.middle, *(space.middle + _WIDE * rng.standard_normal((_SAMPLES, len(space.middle))))]
    known = certify(problem, network, version)
    if known.steps is not None:
        points.append(space.encode(known.steps))
    job.search(points, rng)
    hopeful = sorted((one for one in job.trials if one.rate < 1.0), key=lambda one: one.rate)
    best, cert = proved(problem, network, hopeful, version.name, len(job.trials))
    words, measured = _words(cert), math.nan
    if star is not None:
        measured = measure(problem, network, best.version, best.steps, star, ACCURACY, _CONFIRMED).iterations
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
        self._best = 1.0

    def objective(self, point: Array) -> float:
        """-log10(1 - rate) of the rate that can be proved; larger where none can."""
        if self.budget.spent:
            raise OutOfTimeError
        excess = self.space.excess(point)
        if excess == math.inf:
            return FORBIDDEN
        version, steps = self.space.decode(point)
        # Members of the class that are far slower than the best steps so far need no multipliers.
        rate = sketch_rate(self.problem, self.network, version, steps, 1.0 - 0.5 * (1.0 - self._best))
        self.trials.append(Trial("certified", version, steps, rate=rate))
        self._best = min(self._best, rate)
        value = slowness(rate) + excess
        self.budget.tell("certified", len(self.trials), value)
        return value

    def search(self, points: Sequence[Array], rng: np.random.Generator, again: tuple[float, ...] = _AGAIN) -> None:
        """Look at the points, and descend from the best of them, then again with simplices of these sizes."""
        with suppress(OutOfTimeError, KeyboardInterrupt):
            found: list[Found] = sorted(((self.objective(point), point) for point in points), key=lambda one: one[0])
            first = [descend(self.objective, point, _SIZE, _DESCENT, rng) for _, point in found[:_STARTS]]
            best = min(first, key=lambda one: one[0])
            for size in again:
                best = min(best, descend(self.objective, best[1], size, _DESCENT, rng), key=lambda one: one[0])


def proved(
    problem: Problem, network: Network, hopeful: Sequence[Trial], name: str, tried: int
) -> tuple[Trial, Certificate]:
    """The first trial whose proof passes its check, and its certificate; trials of about the same rate count once."""
    distinct: list[Trial] = []
    for one in hopeful:
        if not distinct or 1.0 - one.rate < 0.98 * (1.0 - distinct[-1].rate):
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
            best = trial if trial.rate < 1.0 and (best is None or price(trial) < price(best)) else best
    hopeful = sorted((one for one in everything if one.rate < 1.0), key=price)
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
