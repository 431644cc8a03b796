"""The spaces that a search moves in: the steps of one version, or the coefficients of B^2, C and D beside the steps.

Steps are written free of units: alpha = a / k and beta = b / (alpha sigma^2), where k is the curvature of the problem
(`Problem.curvature`) and sigma the largest singular value of the A_i. Then a and b are of order one at the limits of
stability, whatever the data are measured in. DLM's constant multiplies beta L, so it is written c / (beta tau) with
tau = largest degree + 1, as in W = I - L/tau. a, b, gamma and c are searched on a logarithmic scale, theta on a linear
one.

Versions are designed with K = I - W and kappa its largest eigenvalue as

    B^2 = sum_{j>=1} b_j (K/kappa)^j,      C = sum_{j>=1} c_j (K/kappa)^j,      D = I + sum_{j>=1} d_j (K/kappa)^j,

so B^2 1 = 0, C 1 = 0 and D 1 = 1 by construction. gamma only multiplies B^2 and stays one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.steps import Steps

Array = NDArray[Any]

_BOX = {"a": (1e-2, 4.0), "b": (1e-4, 8.0), "gamma": (3e-2, 8.0), "c": (3e-2, 3.0)}
_THETA = (0.0, 2.0)
# Where good steps often lie.
_OFTEN = {"a": (1e-2, 1.0), "b": (0.2, 2.0), "gamma": (0.3, 6.0), "theta": (0.0, 1.2), "c": (0.2, 1.5)}
_COEFFICIENT = (-32.0, 32.0)
# Assumption 4 asks for C < I, and for null spaces that are spanned by ones alone.
_STRICT = 1e-6


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
        Largest gamma; 1 keeps to the theorems' box, where c is at most the paper's too (1/2 for NIDS). None: that of
        the space.
    """

    problem: Problem
    network: Network
    version: Version
    gamma_max: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The free coordinates."""
        free = [name for name in ("gamma", "theta") if name not in self.version.fixed]
        return ("a", "b", *free, *(["c"] if self.version.tunes_c else []))

    @property
    def bounds(self) -> Array:
        """Lower and upper bounds of the coordinates, one row each, as they are searched (logarithms, but theta)."""
        rows = []
        for name in self.names:
            low, high = _THETA if name == "theta" else _BOX[name]
            if name == "gamma" and self.gamma_max is not None:
                high = min(high, self.gamma_max)
            if name == "c" and self.gamma_max is not None and self.gamma_max <= 1.0:
                high = min(high, self.version.paper_c)
            rows.append((low, high) if name == "theta" else (np.log(low), np.log(high)))
        return np.array(rows)

    def decode(self, point: Array) -> tuple[Version, Steps]:
        """The version and the steps at a point; coordinates outside the bounds are taken at the bounds."""
        low, high = self.bounds.T
        inside = np.clip(point, low, high)
        values = {n: float(v if n == "theta" else np.exp(v)) for n, v in zip(self.names, inside, strict=True)}
        alpha, beta = _with_units(self.problem, values["a"], values["b"])
        steps = {"gamma": values.get("gamma", 1.0), "theta": values.get("theta", 0.0)} | dict(self.version.fixed)
        c = values.get("c")
        version = self.version if c is None else find_version(self.version.name, c=c * self._unit(beta))
        return version, Steps(alpha, beta, **steps)

    def _unit(self, beta: float) -> float:
        """What the version's constant is measured in."""
        return 1.0 / (beta * float(self.network.degrees.max() + 1)) if self.version.times_beta else 1.0

    def encode(self, steps: Steps, c: float | None = None) -> Array:
        """The point of given steps."""
        a, b = _without_units(self.problem, steps)
        own = ((self.version.c if c is None else c) or 1.0) / self._unit(steps.beta)
        return self._point({"a": a, "b": b, "gamma": steps.gamma, "theta": steps.theta, "c": own})

    @property
    def middle(self) -> Array:
        """A cautious point: alpha = 1/(2 k), alpha beta sigma^2 = 1/4, gamma = 0.9, theta = 0, c = 1/2."""
        return self._point({"a": 0.5, "b": 0.25, "gamma": 0.9, "theta": 0.0, "c": 0.5})

    def likely(self, count: int) -> list[Array]:
        """Points where good steps often lie, the same for everybody: a sample, and the steps of an automatic run.

        These are a = 1/(1 + 0.55 r), b = r a, gamma = 1.9, theta = 0.6, where r = beta sigma^2 / k is what such a run
        finds on the way; a few values stand for it.
        """
        tied = [(1.0 / (1.0 + 0.55 * r), r) for r in (1.0, 10.0, 100.0)]
        brisk = [self._point({"a": a, "b": r * a, "gamma": 1.9, "theta": 0.6, "c": 0.5}) for a, r in tied]
        low, high = (self._point({name: ends[k] for name, ends in _OFTEN.items()}) for k in (0, 1))
        low, high = (np.clip(end, *self.bounds.T) for end in (low, high))
        return [*brisk, *(low + (high - low) * _hypercube(count, len(low), np.random.default_rng(0)))]

    def _point(self, values: dict[str, float]) -> Array:
        return np.array([values[n] if n == "theta" else np.log(values[n]) for n in self.names])

    def excess(self, point: Array) -> float:
        """How far a point lies outside the bounds; keeps a descent from wandering along a clipped coordinate."""
        return _outside(point, *self.bounds.T)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Points spread over the space (a Latin hypercube), one row each."""
        low, high = self.bounds.T
        return np.asarray(low + _hypercube(count, len(low), rng) * (high - low))


def _hypercube(count: int, dimension: int, rng: np.random.Generator) -> Array:
    """A Latin hypercube: points in [0, 1]^dimension, of which each slice of width 1/count has one."""
    cells = np.array([rng.permutation(count) for _ in range(dimension)]).T
    return np.asarray((cells + rng.random(cells.shape)) / count)


def _with_units(problem: Problem, a: float, b: float) -> tuple[float, float]:
    """alpha and beta from a and b."""
    alpha = a / (problem.curvature or 1.0)
    return alpha, b / (alpha * (problem.sigma**2 or 1.0))


def _without_units(problem: Problem, steps: Steps) -> tuple[float, float]:
    """a and b from alpha and beta."""
    return steps.alpha * (problem.curvature or 1.0), steps.alpha * steps.beta * (problem.sigma**2 or 1.0)


def _outside(point: Array, low: Array, high: Array) -> float:
    return float(np.maximum(low - point, 0.0).sum() + np.maximum(point - high, 0.0).sum())


# ------------------------------------------------------------------ versions that are designed


class Pattern(NamedTuple):
    """Degrees of D, C and B^2."""

    D: int
    C: int
    B2: int

    @property
    def rounds(self) -> int:
        """Rounds of communication per iteration."""
        return self.D + max(self.C, self.B2 - self.D, 0)

    def holds(self, other: Pattern) -> bool:
        """Whether every version of the other pattern is one of this."""
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))

    @classmethod
    def of(cls, version: Version) -> Pattern:
        """The smallest pattern that holds a version."""
        b, c, d = version.kernel_polynomials(1.0)
        return cls(len(d) - 1, len(c) - 1, len(b) - 1)


def patterns(degree: int, rounds: int) -> list[Pattern]:
    """The largest patterns of at most this degree and this number of rounds."""
    every = [Pattern(s, min(degree, rounds - s), min(degree, rounds)) for s in range(min(degree, rounds) + 1)]
    return [one for one in every if not any(other != one and other.holds(one) for other in every)]


@dataclass(frozen=True)
class DesignSpace:
    """Coordinates (log a, log b, theta, b_1.., c_1.., d_1..) of versions with given degrees.

    Parameters
    ----------
    problem, network
        They fix the units and the spectrum of K.
    pattern
        Degrees of D, C and B^2.
    assumption_4
        Keep to Assumption 4: scale B^2 and C down to B^2 <= I and C < I, and D towards I until its diagonal is not
        negative; forbid what scaling cannot mend.
    """

    problem: Problem
    network: Network
    pattern: Pattern
    assumption_4: bool = False

    @cached_property
    def _kernel(self) -> Array:
        """Eigenvalues of K / kappa off the consensus direction."""
        values: Array = (1.0 - self.network.spectrum[:-1]) / self._kappa
        return values

    @cached_property
    def _kappa(self) -> float:
        return float(1.0 - self.network.spectrum[0])

    def _bounds(self) -> tuple[Array, Array]:
        ends = [np.log(_BOX["a"]), np.log(_BOX["b"]), _THETA, *[_COEFFICIENT] * sum(self.pattern)]
        low, high = np.array(ends).T
        return low, high

    def holds(self, version: Version) -> bool:
        """Whether the version is a point of this space."""
        return self.pattern.holds(Pattern.of(version))

    def excess(self, point: Array) -> float:
        """How far a point lies outside the bounds; inf where Assumption 4 is asked for and cannot be had."""
        outside = _outside(point, *self._bounds())
        b, c, d = self._coefficients(point)
        if not b.any():
            return math.inf
        if self.assumption_4:
            lowest = [self._on_spectrum(b).min(initial=1.0)] + (
                [self._on_spectrum(c).min(initial=1.0)] if c.any() else []
            )
            if min(lowest) < _STRICT or self._off_diagonal(d) < 0.0:
                return math.inf
            _, scaled_c, scaled_d = self._admissible(b, c, d)
            shrunk = np.abs(scaled_c - c).sum() + np.abs(scaled_d - d).sum()
            outside += float(shrunk) + max(float(self._on_spectrum(b).max(initial=0.0)) - 1.0, 0.0)
        return outside

    def decode(self, point: Array) -> tuple[Version, Steps]:
        """The version and the steps at a point; coordinates outside the bounds are taken at the bounds."""
        inside = np.clip(point, *self._bounds())
        alpha, beta = _with_units(self.problem, math.exp(inside[0]), math.exp(inside[1]))
        b, c, d = self._coefficients(inside)
        if self.assumption_4:
            b, c, d = self._admissible(b, c, d)
        B2, C, D = (self._in_powers_of_w(v, constant) for v, constant in ((b, 0), (c, 0), (d, 1)))
        return Version("designed", B2=B2, C=C, D=D), Steps(alpha, beta, 1.0, float(inside[2]))

    def encode(self, version: Version, steps: Steps) -> Array:
        """The point of a version of no larger degrees, with its gamma put into B^2."""
        head = [*map(math.log, _without_units(self.problem, steps)), steps.theta]
        found = version.kernel_polynomials(steps.beta)
        kernel = (tuple(steps.gamma * v for v in found.b), found.c, found.d)
        sizes = (self.pattern.B2, self.pattern.C, self.pattern.D)
        for polynomial, size in zip(kernel, sizes, strict=True):
            scaled = [v * self._kappa**j for j, v in enumerate(polynomial)][1:]
            head += [*scaled, *[0.0] * (size - len(scaled))]
        return np.array(head)

    def _coefficients(self, point: Array) -> tuple[Array, Array, Array]:
        b, c, d = np.split(point[3:], np.cumsum([self.pattern.B2, self.pattern.C]))
        return b, c, d

    def _on_spectrum(self, coefficients: Array) -> Array:
        """sum_{j>=1} v_j t^j at the eigenvalues t of K / kappa off consensus."""
        return np.asarray(np.polynomial.polynomial.polyval(self._kernel, np.r_[0.0, coefficients]))

    def _matrix(self, d: Array) -> Array:
        """D - I as a dense matrix."""
        K = (np.eye(self.network.n) - self.network.W.toarray()) / self._kappa
        power, total = np.eye(self.network.n), np.zeros((self.network.n, self.network.n))
        for value in d:
            power = power @ K
            total += value * power
        return total

    def _off_diagonal(self, d: Array) -> float:
        """Smallest off-diagonal entry of D, with rounding allowed for."""
        total = self._matrix(d)
        np.fill_diagonal(total, 0.0)
        return float(total.min() + 1e-14)

    def _admissible(self, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array]:
        b = b / max(float(self._on_spectrum(b).max(initial=0.0)), 1.0)
        c = c * min((1.0 - _STRICT) / max(float(self._on_spectrum(c).max(initial=0.0)), _STRICT), 1.0)
        down = -float(np.diag(self._matrix(d)).min())
        # A diagonal entry of zero is allowed; rounding must not make it negative.
        return b, c, d * min((1.0 - 1e-12) / max(down, _STRICT), 1.0)

    def _in_powers_of_w(self, coefficients: Array, constant: int) -> list[float]:
        """Substitute K = I - W exactly: K^j = sum_i binom(j, i) (-W)^i."""
        terms = [Fraction(constant), *(Fraction(v) / Fraction(self._kappa) ** j for j, v in enumerate(coefficients, 1))]
        return [
            float(sum((math.comb(j, i) * terms[j] for j in range(i, len(terms))), Fraction(0)) * (-1) ** i)
            for i in range(len(terms))
        ]
