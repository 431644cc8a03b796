"""Instance certificates: linear convergence from every start at the steps that are used, proved by a matrix.

Theorems know A through its norm and W through its ends. Here A, W, the steps and every quadratic part count as they
are, and only what is not affine is known by its class: f_i by mu_i and l_i, g and h by being convex (and by their mu
and L). The certificate is a rate rho, a matrix P and multipliers t for which the matrix inequality (*) of
`_matrix_inequality` holds; docs/theory/instances.md has the proof that

    |xi_k| <= constant rho^k |xi_0|        for every start and all functions of the class,

with xi = (x - x*, lam - lam*, z - z*), z = B y, and |xi|^2 = sum_i |x_i|^2/alpha_i + |lam|^2/beta + |z|^2/beta.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.steps import Steps
from npga.theory._feedback import Curvature, Setting, setting, states
from npga.theory._matrix_inequality import constant, holds, is_positive, riccati, supply
from npga.theory._members import example_of, extremes, flips, words_for
from npga.theory._multipliers import Multiplier, MultiplierSearch, slow_values

Array = NDArray[Any]

STATES = 1500
# Parts of 1 - radius that are tried as 1 - rate, and how often what lies between the last two is halved.
_PARTS, _HALVINGS = (0.95, 0.7, 0.45, 0.25, 0.1, 0.03, 0.01, 0.003), 3
# By how much (*) is to hold while the rate is searched, and at the end: the more, the better the constant.
_MARGINS, _BETTER = (1e-5, 1e-8), (1e-2, 1e-3, 1e-4)
# A radius closer to one than this is one.
_ONE = 1e-9
# Slopes that are tried as a curvature of h*, relative to what the prox adds to it.
_SLOPES, _ENDS = (0.0, 0.1, 1.0, 10.0, math.inf), (0.0, math.inf)
# Linear iterations whose radius is computed at most in the search for an unstable one.
_FLIPS = 24
# What a sketch of a rate looks at.
_FEW, _SWEEPS = 14, 12


@dataclass(frozen=True)
class InstanceCertificate:
    """What can be proved about one problem, network, version and steps, for every start and all functions of the class.

    Attributes
    ----------
    standing
        "proved": `verify()` has checked the matrix inequality with a bound on rounding. "numerical": the inequality
        holds at a grid of frequencies, and no P was found that passes the check. "refuted": the class has a member for
        which the iteration with these steps is unstable; `example` is it. "unknown": none of these.
    rate
        Contraction per iteration; nan unless proved or numerical.
    constant
        |xi_k| <= constant rate^k |xi_0|; infinite unless proved.
    reason
        A sentence.
    multipliers
        Weight of each quadratic form in the proof.
    radius
        The largest spectral radius that was seen among linear iterations of the class: no rate below it can be proved.
    size
        Number of states N.
    P
        The matrices of the proof, one for each piece that the coupling space is split into.
    example
        A problem of the same class, with solution zero, on which a run with these steps diverges; None unless refuted.
    """

    standing: str
    reason: str
    rate: float = math.nan
    constant: float = math.inf
    multipliers: dict[str, float] = field(default_factory=dict)
    radius: float = math.nan
    size: int = 0
    P: tuple[Array, ...] = field(default=(), repr=False)
    example: Problem | None = field(default=None, repr=False)
    _of: tuple[Problem, Network, Version, Steps] | None = field(default=None, repr=False)
    _weights: tuple[tuple[Multiplier, float], ...] = field(default=(), repr=False)

    def verify(self) -> bool:
        """Assemble the system anew and check P > 0 and the matrix inequality, from P, weights and rate alone."""
        if self._of is None or not self.P or not self.rate < 1.0:
            return False
        at = setting(*self._of)
        every, t = [one for one, _ in self._weights], np.array([weight for _, weight in self._weights])
        return bool(np.all(t >= 0.0)) and all(
            is_positive(P, 0.0) and holds(at, loop, every, t, self.rate, P)
            for loop, P in zip(at.loops(), self.P, strict=True)
        )

    def iterations(self, accuracy: float = 1e-6) -> float:
        """Iterations after which |xi| is at most `accuracy` times what it was; infinite unless proved."""
        if not self.constant < math.inf:
            return math.inf
        return float(max(math.ceil(math.log(accuracy / self.constant) / math.log(self.rate)), 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON; None for what is infinite or undefined."""
        numbers = {"rate": self.rate, "constant": self.constant, "radius": self.radius}
        return {
            "standing": self.standing,
            "reason": self.reason,
            **{key: value if math.isfinite(value) else None for key, value in numbers.items()},
            "size": self.size,
            "multipliers": dict(self.multipliers),
        }


def certify_instance(
    problem: Problem, network: Network, version: Version, steps: Steps, *, limit: int = STATES
) -> InstanceCertificate:
    """Look for a proof that these steps converge linearly from every start, or for a member of the class where not.

    Parameters
    ----------
    problem, network, version, steps
        The set-up; `version` without a name left to look up, `steps` with those that it fixes.
    limit
        Largest number of states; dense matrices of this size are factorised some hundred times.
    """
    size = states(problem)
    if size > limit:
        return InstanceCertificate("unknown", f"too large: {size:,} states, and the limit is {limit:,}", size=size)
    at = setting(problem, network, version, steps)
    obstacle = _obstacle(at)
    if obstacle:
        return InstanceCertificate("unknown", obstacle, size=size)
    found = InstanceSearch(at)
    radius, worst = found.slowest()
    blank = InstanceCertificate("unknown", "", radius=radius, size=size, _of=(problem, network, version, steps))
    if radius > 1.0 + _ONE:
        return _refuted(blank, at, worst)
    if radius >= 1.0 - _ONE:
        words = f"the class has a member with radius 1 ({words_for(at, worst)}): it does not converge linearly"
        return replace(blank, reason=words)
    proof = found.best_rate(radius)
    if proof is not None:
        return _proved(blank, proof)
    radius, worst = found.unstable(radius, worst)
    if radius > 1.0 + _ONE:
        return _refuted(replace(blank, radius=radius), at, worst)
    if found.on_grid is not None:
        words = "the inequality holds at a grid of frequencies; no matrix P that passes the check was found"
        return replace(blank, standing="numerical", reason=words, rate=found.on_grid)
    words = f"no multipliers were found, and no unstable member of the class either (largest radius {radius:.6g})"
    return replace(blank, reason=words, radius=radius)


def sketch_rate(problem: Problem, network: Network, version: Version, steps: Steps, cutoff: float = 1.0) -> float:
    """About the rate that `certify_instance` would prove, from few frequencies and without P; 1 + radius if none.

    Parameters
    ----------
    problem, network, version, steps
        The set-up.
    cutoff
        A member of the class that is slower than this ends the search, and its radius is returned.
    """
    at = setting(problem, network, version, steps)
    if _obstacle(at):
        return math.inf
    found = InstanceSearch(at, frequencies=_FEW)
    radius = found.multipliers.radius
    if radius < min(cutoff, 1.0):
        radius = found.slowest(_ENDS)[0]
    if radius >= min(cutoff, 1.0 - _ONE):
        return radius if radius < 1.0 - _ONE else 1.0 + radius
    for part in _PARTS:
        rho = 1.0 - part * (1.0 - radius)
        if found.multipliers.at_rate(rho, _SWEEPS) is not None:
            return rho
    return 1.0 + radius


def _obstacle(at: Setting) -> str:
    for one in at.channels:
        if one.role == "f" and not np.isfinite(one.limit).all():
            return "an f_i states no Lipschitz constant L, so its class has no bound on curvature"
    if at.n > 1 and np.linalg.eigvalsh(at.E.T @ at.B2 @ at.E)[0] <= 1e-12 * np.abs(at.B2).max():
        return "B^2 is not positive off the consensus direction, so that z = B y has directions which never move"
    return ""


# ------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Proof:
    """What was found: rate, weights of the multipliers, P and the constant."""

    rate: float
    weights: tuple[tuple[Multiplier, float], ...]
    P: tuple[Array, ...]
    constant: float


class InstanceSearch:
    """The search for the best rate that can be proved, and for the slowest member of the class.

    Parameters
    ----------
    at
        The set-up.
    frequencies
        How many are looked at, apart from resonances.
    """

    def __init__(self, at: Setting, frequencies: int | None = None) -> None:
        self.at = at
        self.multipliers = MultiplierSearch(at) if frequencies is None else MultiplierSearch(at, frequencies)
        self.on_grid: float | None = None

    def slowest(self, slopes: tuple[float, ...] = _SLOPES) -> tuple[float, Curvature]:
        """Largest radius among the linear iterations in which each kind of function has its least or most curvature."""
        best = (self.multipliers.radius, self.at.least)
        for curvature in extremes(self.at, slopes):
            radius = self._radius(curvature)
            if radius > best[0]:
                best = (radius, curvature)
        return best

    def unstable(self, radius: float, curvature: Curvature) -> tuple[float, Curvature]:
        """Change the curvature of one coordinate or agent after the other while the radius grows."""
        best = (radius, curvature)
        for changed in itertools.islice(flips(self.at, curvature), _FLIPS):
            radius = self._radius(changed)
            if radius > best[0]:
                best = (radius, changed)
            if radius > 1.0 + _ONE:
                break
        return best

    def _radius(self, curvature: Curvature) -> float:
        loops = self.at.loops(curvature)
        return max(float(np.abs(slow_values(loop.F)).max(initial=0.0)) for loop in loops)

    def best_rate(self, radius: float, halvings: int = _HALVINGS) -> Proof | None:
        """The best rate above this radius that could be proved."""
        before, proof = 1.0, None
        for part in _PARTS:
            proof = self.prove(1.0 - part * (1.0 - radius))
            if proof is not None:
                break
            before = part
        if proof is None:
            return None
        for _ in range(halvings if before < 1.0 and self.multipliers.every else 0):
            middle = math.sqrt(before * part)
            better = self.prove(1.0 - middle * (1.0 - radius))
            before, part = (before, middle) if better is not None else (middle, part)
            proof = better or proof
        better = self._solve(proof.rate, np.array([t for _, t in proof.weights]), _BETTER)
        return proof if better is None or better.constant > proof.constant else better

    def prove(self, rho: float) -> Proof | None:
        """A proof of this rate, or None."""
        t = self.multipliers.at_rate(rho)
        if t is None:
            return None
        self.on_grid = rho if self.on_grid is None else min(self.on_grid, rho)
        return self._solve(rho, t, _MARGINS)

    def _solve(self, rho: float, t: Array, margins: tuple[float, ...]) -> Proof | None:
        """P for these weights that passes the check, with the first of the margins for which there is one."""
        every, loops = self.multipliers.every, self.multipliers.loops
        forms = [supply(self.at, loop, every, t, rho) for loop in loops]
        for margin in margins:
            P = [riccati(loop, S, rho, margin) for loop, S in zip(loops, forms, strict=True)]
            sure = [one for one in P if one is not None]
            if len(sure) == len(loops) and all(
                is_positive(one, 0.0) and holds(self.at, loop, every, t, rho, one)
                for loop, one in zip(loops, sure, strict=True)
            ):
                weights = tuple(zip(every, t.tolist(), strict=True))
                return Proof(rho, weights, tuple(sure), constant(self.at, loops, weights, sure))
        return None


def _refuted(blank: InstanceCertificate, at: Setting, worst: Curvature) -> InstanceCertificate:
    assert blank._of is not None
    problem, _, _, steps = blank._of
    words = (
        f"the iteration is unstable at an admissible curvature ({words_for(at, worst)}): radius {blank.radius:.6g}. "
        "A run from elsewhere may diverge"
    )
    return replace(blank, standing="refuted", reason=words, example=example_of(problem, steps, worst))


def _proved(blank: InstanceCertificate, proof: Proof) -> InstanceCertificate:
    multipliers = {one.name: t for one, t in proof.weights if t > 0.0}
    words = "a quadratic function of the errors shrinks by rate^2 in every iteration"
    if any(one.kind != "static" and t > 0.0 for one, t in proof.weights):
        words = (
            "a quadratic function of the errors plus multiples of the functions shrinks by rate^2 in every iteration"
        )
    return replace(
        blank, standing="proved", reason=words, rate=proof.rate, constant=proof.constant, multipliers=multipliers,
        P=proof.P, _weights=proof.weights,
    )  # fmt: skip
