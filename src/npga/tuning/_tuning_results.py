"""What tuning found: steps, rate, trials, and how it compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from npga import extras
from npga.errors import InputError
from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory import Certificate


@dataclass(frozen=True)
class Trial:
    """One set of steps that was tried.

    Parameters
    ----------
    stage
        "sample", "descent", "run" or the name of the theorem.
    version, steps
        What was tried.
    rate
        Contraction per iteration that was predicted, nan when it was not computed.
    iterations
        Iterations to the target accuracy that were measured, nan when it was not run; inf when it diverged.
    work
        Iterations that the trial cost.
    """

    stage: str
    version: Version
    steps: Steps
    rate: float = math.nan
    iterations: float = math.nan
    work: int = 0

    def row(self) -> dict[str, Any]:
        """The trial as a line of a table."""
        steps = self.steps
        return {
            "stage": self.stage, "version": self.version.name, "c": self.version.c, "alpha": steps.alpha,
            "beta": steps.beta, "gamma": steps.gamma, "theta": steps.theta, "rate": self.rate,
            "iterations": self.iterations, "work": self.work,
        }  # fmt: skip


class Trials(list[Trial]):
    """A table of trials, in the order in which they were made."""

    def __repr__(self) -> str:
        return f"Trials({len(self)}, {self.work} iterations of work)"

    @property
    def work(self) -> int:
        """Iterations that all trials cost together."""
        return sum(trial.work for trial in self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table, one dictionary per line."""
        return [trial.row() for trial in self]

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return extras.load("pandas", "pandas", "Trials.to_pandas()").DataFrame(self.to_dicts())


class TunedSteps(Steps):
    """Steps that remember the version, and with it the constant c, that they were tuned for.

    ``npga.solve(problem, network, "nids", tuned.steps)`` runs with that c, not with the default of the table.
    """

    # Beside the numbers, not among them: who writes steps down writes four.
    __slots__ = ("version",)
    version: Version

    @classmethod
    def of(cls, steps: Steps, version: Version) -> TunedSteps:
        """The same numbers, and whose they are."""
        found = cls(steps.alpha, steps.beta, steps.gamma, steps.theta)
        object.__setattr__(found, "version", version)
        return found

    def __repr__(self) -> str:
        return super().__repr__().replace("TunedSteps(", "Steps(", 1)


@dataclass(frozen=True)
class Tuning:
    """The steps that tuning recommends.

    Parameters
    ----------
    version, steps, network
        What to run; the version's constant c is tuned where it has one.
    method
        "theorem", "spectral", "search" or "certified".
    rate
        Contraction of |x - x*| per iteration: proved ("theorem", "certified"), the spectral radius ("spectral"), or
        measured over the last trial ("search").
    trials
        What was tried.
    message
        What is known about these steps, in a sentence or two.
    seconds
        Wall time.
    measured
        Iterations to the target accuracy of the confirming run; nan without one.
    certificate
        The certificate whose instance is proved, where certified steps were asked for.
    """

    version: Version
    steps: Steps
    network: Network = field(repr=False)
    method: str
    rate: float
    trials: Trials = field(repr=False)
    message: str
    seconds: float
    measured: float = math.nan
    certificate: Certificate | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", TunedSteps.of(self.steps, self.version))

    @property
    def work(self) -> int:
        """Iterations spent on trials."""
        return self.trials.work

    def iterations(self, accuracy: float) -> float:
        """Iterations that shrink the error by `accuracy` at this rate."""
        if not 0.0 < accuracy < 1.0:
            raise InputError(f"accuracy is {accuracy!r}; expected a factor between 0 and 1, such as 1e-8")
        if not 0.0 < self.rate < 1.0:
            return math.inf if self.rate >= 1.0 else 1.0
        return math.log(accuracy) / math.log(self.rate)

    def __str__(self) -> str:
        s, c = self.steps, "" if self.version.c is None else f", c = {self.version.c:.4g}"
        return (
            f"{self.version.name} by {self.method}: alpha = {s.alpha:.4g}, beta = {s.beta:.4g}, gamma = {s.gamma:.4g}, "
            f"theta = {s.theta:.4g}{c}; {self.iterations(0.1):.4g} iterations per digit. {self.message}"
        )


@dataclass(frozen=True, repr=False)
class DesignedVersion(Version):
    """A version found by `npga.design`, and what is known about it.

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
    certificate
        The certificate whose instance is proved, where that was asked for.
    """

    steps: Steps | None = field(default=None, compare=False)
    rate: float = field(default=math.nan, compare=False)
    trials: Trials = field(default_factory=Trials, compare=False)
    message: str = field(default="", compare=False)
    seconds: float = field(default=math.nan, compare=False)
    measured: float = field(default=math.nan, compare=False)
    certificate: Certificate | None = field(default=None, compare=False)

    @classmethod
    def of(cls, version: Version, **facts: Any) -> DesignedVersion:
        """A version under the name of a designed one, with what is known about it."""
        values: dict[str, Any] = {item.name: getattr(version, item.name) for item in fields(Version)}
        values |= {"name": "designed", "title": "designed", "reference": "", "formulas": None, "c": None}
        return cls(**values, **facts)

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


@dataclass(frozen=True)
class Ranking(Sequence[Tuning]):
    """Tunings of several versions, best first.

    Parameters
    ----------
    tunings
        The tunings.
    costs
        Their costs per digit, in the unit of `by`.
    by
        "iterations", "rounds" or "seconds" (a cost model).
    """

    tunings: tuple[Tuning, ...]
    costs: tuple[float, ...]
    by: str

    def __len__(self) -> int:
        return len(self.tunings)

    def __getitem__(self, key: Any) -> Any:
        return self.tunings[key]

    @property
    def best(self) -> Tuning:
        """The cheapest."""
        return self.tunings[0]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table, one dictionary per line."""
        return [
            {
                "version": t.version.name, "chebyshev": t.version.chebyshev, "c": t.version.c,
                "rounds": t.version.rounds, "rate": t.rate,
                "iterations_per_digit": t.iterations(0.1), "rounds_per_digit": t.version.rounds * t.iterations(0.1),
                f"cost_per_digit_{self.by}": cost, "alpha": t.steps.alpha, "beta": t.steps.beta,
                "gamma": t.steps.gamma, "theta": t.steps.theta,
            }
            for t, cost in zip(self.tunings, self.costs, strict=True)
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{'version':<16} {'rounds':>6} {'iterations':>11} {'rounds per':>10} {'cost':>10}",
                 f"{'':<16} {'':>6} {'per digit':>11} {'digit':>10} {self.by:>10}"]  # fmt: skip
        for t, cost in zip(self.tunings, self.costs, strict=True):
            a_digit = t.iterations(0.1)
            rounds, degree = t.version.rounds, t.version.chebyshev
            name = t.version.name if degree == 1 else f"{t.version.name}:{degree}"
            lines.append(f"{name:<16} {rounds:>6} {a_digit:>11.4g} {rounds * a_digit:>10.4g} {cost:>10.4g}")
        return "\n".join(lines)
