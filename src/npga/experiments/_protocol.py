"""How the versions are compared, the same for every version: tuned, run, certified, measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.experiments._definitions import Experiment, Instance
from npga.networks import Network, Version, version_rows
from npga.networks import version as find_version
from npga.problem import Agent, Problem
from npga.solver import Record, Reference, Result, solve
from npga.theory import Certificate, certify
from npga.tuning import Tuning, tune

Array = NDArray[np.float64]
Row = dict[str, Any]

# The eight versions of the paper's figures, and the method that they are compared with.
PAPER_VERSIONS = ("diging", "dlm", "p2d2", "aug-dgm", "atc-tracking", "nids", "npga-i", "npga-ii", "dcpa")
CENTRAL = "pga-central"
ALL_VERSIONS = (*PAPER_VERSIONS, *(name for name in version_rows() if name not in PAPER_VERSIONS), CENTRAL)
BASELINE = "dcpa"
LEVELS = ("1e-4", "1e-8", "1e-12")
# The regression leaves out the start, which is not linear yet, and the end, which is rounding.
FIT_FROM, FIT_TO = 1e-3, 1e-10


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The same rules for every version.

    Parameters
    ----------
    versions
        Names; see `npga.versions()`. "pga-central" is the primal-dual gradient method in one place.
    tuning
        Method of `npga.tune`: "spectral" or "search"; None takes the experiment's own.
    starts
        From how many seeds to tune; the steps whose run is shortest are kept. None takes the experiment's own.
    tuning_seed
        The first seed of the tuner.
    within_theorems
        Keep gamma <= 1, as every theorem asks, and NIDS's c <= 1/2; otherwise both are free and often end above.
    accuracy
        Relative distance to x* at which a tuned run ends.
    max_iters
        Limit of a tuned run.
    records
        About how many points of a curve are kept.
    certified_iters
        Length of a run at the certified steps, which are far too small to finish; 0 leaves these runs out.
    """

    versions: tuple[str, ...] = PAPER_VERSIONS
    tuning: str | None = None
    starts: int | None = None
    tuning_seed: int = 0
    within_theorems: bool = False
    accuracy: float = 1e-12
    max_iters: int = 200_000
    records: int = 400
    certified_iters: int = 2_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", tuple(_canonical(self.versions)))
        if not self.versions:
            raise InputError(f"no version arrived; expected at least one of {', '.join(ALL_VERSIONS)}")
        if not 0.0 < self.accuracy < 1.0:
            raise InputError(f"accuracy is {self.accuracy}; expected a number between 0 and 1, such as 1e-12")
        for name, least in (("max_iters", 1), ("records", 2), ("certified_iters", 0), ("starts", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; expected a whole number >= {least}")

    def tuner(self, own: tuple[str, int]) -> tuple[str, range]:
        """Method and seeds, given those of the experiment."""
        method = own[0] if self.tuning is None else self.tuning
        starts = (own[1] if self.tuning is None else 1) if self.starts is None else self.starts
        return method, range(self.tuning_seed, self.tuning_seed + starts)


def _canonical(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name if name == CENTRAL else find_version(name).name for name in names))


@dataclass(frozen=True)
class Measurement:
    """What one version leaves behind on one draw: a summary row for each run, and the recorded points of all."""

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
def built(experiment: Experiment, repetition: int) -> Instance:
    """The instance, built once for all versions that a process runs on it."""
    return experiment.build(repetition)


def measure(experiment: Experiment, repetition: int, name: str, protocol: Protocol) -> Measurement:
    """Tune, run and certify one version.

    The tuned run is made on W and, where the matrices are polynomials in W, on W' = (I + W)/2 as well, with the same
    tuner; the one that needs fewer iterations is marked as chosen.
    """
    place = place_of(built(experiment, repetition), name)
    label = {"experiment": experiment.name, "repetition": repetition, "version": name}
    found = Measurement()
    for mixing, network in place.mixings.items():
        found.add(label | {"setting": "tuned", "mixing": mixing}, *_tuned(place, network, protocol, experiment.tuning))
    best = min(found.runs, key=_work)["mixing"]
    certified = _certified(place, protocol) if protocol.certified_iters else None
    if certified is not None:
        mixing, summary, result = certified
        found.add(label | {"setting": "certified", "mixing": mixing}, summary, result)
    for row in (*found.runs, *found.points):
        row["chosen"] = int(row["setting"] == "certified" or row["mixing"] == best)
    return found


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


class StopAtRounding:
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
    floor = StopAtRounding()
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


def _promise(certificate: Certificate) -> float:
    """The smallest rate first."""
    return 1.0 if certificate.best is None else -certificate.best.gap


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


def reached(counts: Array, gap: Array, level: float) -> int | None:
    """The first recorded count from which on the gap stays at or below `level`; None if it does not."""
    above = np.flatnonzero(~(gap <= level))
    first = int(above[-1]) + 1 if above.size else 0
    return int(counts[first]) if first < len(counts) else None


def measured_rate(iterations: Array, gap: Array) -> float:
    """Factor per iteration by least squares of ln(gap) between 1e-3 and 1e-10; nan with fewer than three points.

    The points are those from the first at or below 1e-3 to the last at or above 1e-10.
    """
    low, high = np.flatnonzero(gap <= FIT_FROM), np.flatnonzero(gap >= FIT_TO)
    if not low.size or high[-1] - low[0] < 2:
        return float("nan")
    part = slice(int(low[0]), int(high[-1]) + 1)
    k = iterations[part] - iterations[part].mean()
    return float(np.exp(k @ np.log(gap[part]) / (k @ k)))
