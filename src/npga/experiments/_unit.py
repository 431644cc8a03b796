"""One unit of work: one version on one repetition of one experiment, tuned and at its certified steps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from npga.errors import InputError
from npga.experiments._experiment import Experiment
from npga.experiments._instance import Instance
from npga.experiments._measures import measured_rate, reached
from npga.experiments._protocol import CENTRAL, Protocol
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Agent, Problem
from npga.solver import Record, Reference, Result, solve
from npga.theory import Certificate, certify
from npga.tuning import Tuning, tune

LEVELS = ("1e-4", "1e-8", "1e-12")
Row = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """What a unit leaves behind.

    Parameters
    ----------
    runs
        One summary row for each run.
    points
        The recorded points of all runs.
    """

    runs: list[Row] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)

    def add(self, label: Row, summary: Row, result: Result) -> None:
        """Add a run."""
        self.runs.append(label | _outcome(result) | summary)
        self.points.extend(label | asdict(record) for record in result.trace)


@dataclass(frozen=True)
class Place:
    """Where a version runs: the problem, its solution, and the networks to try."""

    problem: Problem
    reference: Reference
    version: Version
    mixings: dict[str, Network]


@lru_cache(maxsize=4)
def build(experiment: Experiment, repetition: int) -> Instance:
    """The instance, built once for all versions that a process runs on it."""
    return experiment.build(repetition)


def run_unit(experiment: Experiment, repetition: int, name: str, protocol: Protocol) -> Unit:
    """Tune, run and certify one version.

    The tuned run is made on W and, where the matrices are polynomials in W, on W' = (I + W)/2 as well, with the same
    tuner; the one that needs fewer iterations is marked as chosen.
    """
    place = place_of(build(experiment, repetition), name)
    label = {"experiment": experiment.name, "repetition": repetition, "version": name}
    unit = Unit()
    for mixing, network in place.mixings.items():
        unit.add(label | {"setting": "tuned", "mixing": mixing}, *_tuned(place, network, protocol, experiment.tuning))
    best = min(unit.runs, key=_work)["mixing"]
    certified = _certified(place, protocol) if protocol.certified_iters else None
    if certified is not None:
        mixing, summary, result = certified
        unit.add(label | {"setting": "certified", "mixing": mixing}, summary, result)
    for row in (*unit.runs, *unit.points):
        row["chosen"] = int(row["setting"] == "certified" or row["mixing"] == best)
    return unit


def place_of(instance: Instance, name: str) -> Place:
    """The networks that a version is tried on; the centralised method is one agent without neighbours."""
    if name == CENTRAL:
        A = np.hstack([agent.A for agent in instance.problem.agents])
        alone = Problem([Agent(A=A, f=instance.problem.f, g=instance.problem.g)], instance.problem.h)
        # Without neighbours every version is the same: v = lam + beta A xhat, lam = prox(v).
        return Place(alone, instance.reference, find_version("extra"), {"none": Network.complete(1)})
    version, network = find_version(name), instance.network
    mixings = {"L": network} if version.basis == "L" else {"W": network, "W'": network.lazy()}
    return Place(instance.problem, instance.reference, version, mixings)


class Floor:
    """Stops a run that rounding has stopped: below 1e-9, a third of the run has passed without the gap halving."""

    def __init__(self) -> None:
        self.best, self.since, self.met = np.inf, 0, False

    def __call__(self, record: Record, _: object) -> bool:
        """Whether to stop."""
        if record.gap < 0.5 * self.best:
            self.best, self.since = record.gap, record.iteration
        self.met = record.gap < 1e-9 and 2 * record.iteration > 3 * self.since + 200
        return self.met


def _tuned(place: Place, network: Network, protocol: Protocol, own: tuple[str, int]) -> tuple[Row, Result]:
    """The shortest run among those at the steps that the tuner finds from each of its seeds."""
    method, seeds = protocol.tuner(own)
    found, failures = [], []
    for seed in seeds:
        try:
            tuning = tune(
                place.problem,
                network,
                place.version,
                method,
                seed=seed,
                reference=place.reference,
                within_theorems=protocol.within_theorems,
            )
        except InputError as failure:
            failures.append(failure)
            continue
        found.append((tuning, *_run(place, network, tuning, protocol)))
    if not found:
        raise failures[0]
    tuning, status, result = min(found, key=lambda item: _work(_outcome(item[2]) | item[1]))
    summary = {
        "rate_predicted": tuning.rate,
        "tuning_method": method,
        "tuning_work": sum(item[0].work for item in found),
        "tuning_message": tuning.message + (f" From {len(failures)} seeds nothing was found." if failures else ""),
    }
    return summary | status, result


def _run(place: Place, network: Network, tuning: Tuning, protocol: Protocol) -> tuple[Row, Result]:
    """Run until the accuracy is met or rounding stops the run, and say which."""
    expected = min(tuning.iterations(protocol.accuracy), protocol.max_iters)
    floor = Floor()
    result = solve(
        place.problem,
        network,
        tuning.version,
        tuning.steps,
        tol=None,
        gap_tol=protocol.accuracy,
        reference=place.reference.x,
        max_iters=protocol.max_iters,
        callback=floor,
        record_every=max(1, round(expected / protocol.records)),
    )
    return ({"status": "rounding"} if floor.met else {}), result


def _certified(place: Place, protocol: Protocol) -> tuple[str, Row, Result] | None:
    """A short run at the steps of the theorem that promises most, if there is one."""
    found = {mixing: certify(place.problem, network, place.version) for mixing, network in place.mixings.items()}
    covered = [mixing for mixing, certificate in found.items() if certificate.best is not None]
    if not covered:
        return None
    mixing = min(covered, key=lambda key: _promise(found[key]))
    theorem = found[mixing].best
    if theorem is None or theorem.steps is None:
        return None
    result = solve(
        place.problem, place.mixings[mixing], place.version, theorem.steps, tol=None, gap_tol=protocol.accuracy,
        reference=place.reference.x, max_iters=protocol.certified_iters,
        record_every=max(1, protocol.certified_iters // protocol.records),
    )  # fmt: skip
    summary = {
        "theorem": theorem.key,
        "standing": theorem.standing,
        "rate_certified": float(np.sqrt(theorem.rate)),
        "certified_iterations_1e-10": theorem.iterations(1e-10),
    }
    return mixing, summary, result


def _promise(certificate: Certificate) -> tuple[bool, float]:
    """Complete proofs first, then the smallest rate."""
    theorem = certificate.best
    if theorem is None:
        return True, 1.0
    return theorem.standing != "proved", -theorem.gap


def _work(row: Row) -> tuple[bool, int]:
    """Runs that got down to rounding first, then the fewest iterations to the last common accuracy."""
    done = row["status"] in ("converged", "rounding")
    return not done, row["iterations_1e-8"] if done else row["iterations"]


def _outcome(result: Result) -> Row:
    trace = result.trace
    iterations, rounds, gap = trace["iteration"], trace["round"], trace["gap"]
    if result.network.n == 1:
        rounds = np.zeros_like(rounds)
    row: Row = {
        "status": result.status.value,
        "iterations": result.iterations,
        "rounds": int(rounds[-1]),
        "rounds_per_iteration": 0 if result.network.n == 1 or result.version is None else result.version.rounds,
        "gap": float(gap[-1]),
        "rate_measured": measured_rate(iterations, gap),
        "c": None if result.version is None else result.version.c,
        **({} if result.steps is None else asdict(result.steps)),
    }
    for level in LEVELS:
        row[f"iterations_{level}"] = reached(iterations, gap, float(level))
        row[f"rounds_{level}"] = reached(rounds, gap, float(level))
    return row
