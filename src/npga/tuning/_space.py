"""The space that step sizes are searched in.

Steps are written free of units: alpha = a / k and beta = b / (alpha sigma^2), where k is the curvature of the problem
(`Problem.curvature`) and sigma the largest singular value of the A_i. Then a and b are of order one at the limits of
stability, whatever the data are measured in. DLM's constant multiplies beta L, so it is written c / (beta tau) with
tau = largest degree + 1, as in W = I - L/tau. a, b, gamma and c are searched on a logarithmic scale, theta on a linear
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.steps import Steps

Array = NDArray[Any]

_BOX = {"a": (1e-2, 4.0), "b": (1e-4, 8.0), "gamma": (3e-2, 8.0), "c": (3e-2, 3.0)}
_THETA = (0.0, 2.0)


class SearchSpace(Protocol):
    """Coordinates in which a search moves."""

    def decode(self, point: Array) -> tuple[Version, Steps]:
        """The version and the steps at a point."""

    def excess(self, point: Array) -> float:
        """How far a point lies outside the space; inf where nothing may be tried."""


@dataclass(frozen=True)
class StepSpace:
    """Unit-free coordinates of the steps of one version on one problem and network.

    Parameters
    ----------
    problem, network, version
        They fix the units, and which constants are free: presets fix some steps, NIDS and DLM have a constant c.
        (That of P2D2 only rescales gamma, so it stays as it is.)
    gamma_max
        Largest gamma; 1 keeps to the theorems' box, where c is at most the paper's too (1/2 for NIDS).
    """

    problem: Problem
    network: Network
    version: Version
    gamma_max: float = _BOX["gamma"][1]

    @property
    def names(self) -> tuple[str, ...]:
        """The free coordinates."""
        free = [name for name in ("gamma", "theta") if name not in self.version.fixed]
        return ("a", "b", *free, *(["c"] if self.tunes_c else []))

    @property
    def tunes_c(self) -> bool:
        """Whether the version has a constant that changes more than gamma does."""
        return self.version.tunes_c

    @property
    def bounds(self) -> Array:
        """Lower and upper bounds of the coordinates, one row each, as they are searched (logarithms, but theta)."""
        rows = []
        for name in self.names:
            low, high = _THETA if name == "theta" else _BOX[name]
            if name == "gamma":
                high = min(high, self.gamma_max)
            if name == "c" and self.gamma_max <= 1.0:
                high = min(high, self.version.paper_c)
            rows.append((low, high) if name == "theta" else (np.log(low), np.log(high)))
        return np.array(rows)

    def decode(self, point: Array) -> tuple[Version, Steps]:
        """The version and the steps at a point; coordinates outside the bounds are taken at the bounds."""
        low, high = self.bounds.T
        inside = np.clip(point, low, high)
        values = {n: float(v if n == "theta" else np.exp(v)) for n, v in zip(self.names, inside, strict=True)}
        alpha = values["a"] / (self.problem.curvature or 1.0)
        beta = values["b"] / (alpha * (self.problem.sigma**2 or 1.0))
        steps = {"gamma": values.get("gamma", 1.0), "theta": values.get("theta", 0.0)} | dict(self.version.fixed)
        return self._with_c(values.get("c"), beta), Steps(alpha, beta, **steps)

    def _with_c(self, c: float | None, beta: float) -> Version:
        if c is None:
            return self.version
        return find_version(self.version.name, c=c * self._unit(beta))

    def _unit(self, beta: float) -> float:
        """What the version's constant is measured in."""
        return 1.0 / (beta * float(self.network.degrees.max() + 1)) if self.version.times_beta else 1.0

    def encode(self, steps: Steps, c: float | None = None) -> Array:
        """The point of given steps."""
        alpha = steps.alpha
        values = {
            "a": alpha * (self.problem.curvature or 1.0),
            "b": alpha * steps.beta * (self.problem.sigma**2 or 1.0),
            "gamma": steps.gamma,
            "theta": steps.theta,
            "c": ((self.version.c if c is None else c) or 1.0) / self._unit(steps.beta),
        }
        return np.array([values[n] if n == "theta" else np.log(values[n]) for n in self.names])

    @property
    def middle(self) -> Array:
        """A cautious point: alpha = 1/(2 k), alpha beta sigma^2 = 1/4, gamma = 0.9, theta = 0, c = 1/2."""
        values = {"a": 0.5, "b": 0.25, "gamma": 0.9, "theta": 0.0, "c": 0.5}
        return np.array([values[n] if n == "theta" else np.log(values[n]) for n in self.names])

    def excess(self, point: Array) -> float:
        """How far a point lies outside the bounds; keeps a descent from wandering along a clipped coordinate."""
        low, high = self.bounds.T
        return float(np.maximum(low - point, 0.0).sum() + np.maximum(point - high, 0.0).sum())

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Points spread over the space (a Latin hypercube), one row each."""
        low, high = self.bounds.T
        cells = np.array([rng.permutation(count) for _ in self.names]).T
        spread: Array = low + (cells + rng.random(cells.shape)) / count * (high - low)
        return spread
