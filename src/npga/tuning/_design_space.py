"""The space that versions are designed in: coefficients of B^2, C and D, and the steps.

With K = I - W and kappa its largest eigenvalue,

    B^2 = sum_{j>=1} b_j (K/kappa)^j,      C = sum_{j>=1} c_j (K/kappa)^j,      D = I + sum_{j>=1} d_j (K/kappa)^j,

so B^2 1 = 0, C 1 = 0 and D 1 = 1 by construction. gamma only multiplies B^2 and stays one. alpha and beta are free of
units, as in `StepSpace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.steps import Steps

Array = NDArray[Any]

_LOG_A, _LOG_B, _THETA = (math.log(1e-2), math.log(4.0)), (math.log(1e-4), math.log(8.0)), (0.0, 2.0)
_COEFFICIENT = (-32.0, 32.0)
# Assumption 4 asks for C < I, and for null spaces that are spanned by ones alone.
_STRICT = 1e-6


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
        low, high = np.array([_LOG_A, _LOG_B, _THETA, *[_COEFFICIENT] * sum(self.pattern)]).T
        return low, high

    def holds(self, version: Version) -> bool:
        """Whether the version is a point of this space."""
        b, c, d = version.kernel_polynomials(1.0)
        return self.pattern.holds(Pattern(len(d) - 1, len(c) - 1, len(b) - 1))

    def excess(self, point: Array) -> float:
        """How far a point lies outside the bounds; inf where Assumption 4 is asked for and cannot be had."""
        low, high = self._bounds()
        outside = float(np.maximum(low - point, 0.0).sum() + np.maximum(point - high, 0.0).sum())
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
        alpha = math.exp(inside[0]) / (self.problem.curvature or 1.0)
        beta = math.exp(inside[1]) / (alpha * (self.problem.sigma**2 or 1.0))
        b, c, d = self._coefficients(inside)
        if self.assumption_4:
            b, c, d = self._admissible(b, c, d)
        B2, C, D = (self._in_powers_of_w(v, constant) for v, constant in ((b, 0), (c, 0), (d, 1)))
        return Version("designed", B2=B2, C=C, D=D), Steps(alpha, beta, 1.0, float(inside[2]))

    def encode(self, version: Version, steps: Steps) -> Array:
        """The point of a version of no larger degrees, with its gamma put into B^2."""
        alpha = steps.alpha
        head = [
            math.log(alpha * (self.problem.curvature or 1.0)),
            math.log(alpha * steps.beta * (self.problem.sigma**2 or 1.0)),
            steps.theta,
        ]
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
