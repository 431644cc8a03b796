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
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from npga import functions as fn
from npga.networks import Network, Version
from npga.problem import Agent, Problem
from npga.steps import Steps
from npga.theory._feedback import Channel, Curvature, Setting, setting, square, states
from npga.theory._matrix_inequality import SHARES, Proof, RateSearch, holds, is_bounded_below, remembering
from npga.theory._multipliers import Multiplier, slow_values

Array = NDArray[Any]

STATES = 2500
# A radius closer to one than this is one.
_ONE = 1e-9
# Slopes that are tried as a curvature of h*, relative to what the prox adds to it.
_SLOPES, _ENDS = (0.0, 0.1, 1.0, 10.0, math.inf), (0.0, math.inf)
# Linear iterations whose radius is computed at most in the search for an unstable one.
_FLIPS = 24
# What a sketch of a rate looks at.
_FEW, _SWEEPS = 14, 20


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
        loops = [remembering(loop, every, t) for loop in at.loops()]
        both = list(zip(loops, self.P, strict=True))
        return (
            bool(np.all(t >= 0.0))
            and any(all(is_bounded_below(at, loop, every, t, P, share) for loop, P in both) for share in SHARES)
            and all(holds(at, loop, every, t, self.rate, P) for loop, P in both)
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
    found = RateSearch(at)
    radius, worst = slowest(at, found.radius)
    blank = InstanceCertificate("unknown", "", radius=radius, size=size, _of=(problem, network, version, steps))
    if radius > 1.0 + _ONE:
        return _refuted(blank, at, worst)
    if radius >= 1.0 - _ONE:
        words = f"the class has a member with radius 1 ({words_for(at, worst)}): it does not converge linearly"
        return replace(blank, reason=words)
    proof = found.best_rate(radius)
    if proof is not None:
        return _proved(blank, proof)
    radius, worst = unstable(at, radius, worst)
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
    found = RateSearch(at, frequencies=_FEW)
    radius = found.radius
    if radius < min(cutoff, 1.0):
        radius = slowest(at, radius, _ENDS)[0]
    if radius >= min(cutoff, 1.0 - _ONE):
        return radius if radius < 1.0 - _ONE else 1.0 + radius
    rate = found.on_few_frequencies(radius, _SWEEPS)
    return 1.0 + radius if rate is None else rate


def slowest_member(problem: Problem, network: Network, version: Version, steps: Steps) -> float:
    """Largest radius among linear members of the class, least and most curvature: no certified rate is below it."""
    at = setting(problem, network, version, steps)
    return math.inf if _obstacle(at) else slowest(at, _radius(at, at.least), _ENDS)[0]


def _obstacle(at: Setting) -> str:
    for one in at.channels:
        if one.role == "f" and not np.isfinite(one.limit).all():
            return "an f_i states no Lipschitz constant L, so its class has no bound on curvature"
    if at.n > 1 and np.linalg.eigvalsh(at.E.T @ at.B2 @ at.E)[0] <= 1e-12 * np.abs(at.B2).max():
        return "B^2 is not positive off the consensus direction, so that z = B y has directions which never move"
    return ""


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
            "a quadratic function of the errors plus multiples of the functions or their conjugates shrinks by rate^2 "
            "in every iteration"
        )
    return replace(
        blank, standing="proved", reason=words, rate=proof.rate, constant=proof.constant, multipliers=multipliers,
        P=proof.P, _weights=proof.weights,
    )  # fmt: skip


# ------------------------------------------------------------------ linear members of the class


def slowest(at: Setting, radius: float, slopes: tuple[float, ...] = _SLOPES) -> tuple[float, Curvature]:
    """Largest radius among the linear iterations in which each kind of function has its least or most curvature.

    `radius` is that of the least curvature of all of them. What is returned is the rate of a problem of the class, so
    that no rate below it can be proved, and if it is above one the steps are refuted.
    """
    best = (radius, at.least)
    for curvature in extremes(at, slopes):
        best = max(best, (_radius(at, curvature), curvature), key=lambda one: one[0])
    return best


def unstable(at: Setting, radius: float, curvature: Curvature) -> tuple[float, Curvature]:
    """Change the curvature of one coordinate or agent after the other, until the radius is above one."""
    best = (radius, curvature)
    for changed in itertools.islice(flips(at, curvature), _FLIPS):
        best = max(best, (_radius(at, changed), changed), key=lambda one: one[0])
        if best[0] > 1.0 + _ONE:
            break
    return best


def _radius(at: Setting, curvature: Curvature) -> float:
    return max(float(np.abs(slow_values(loop.F)).max(initial=0.0)) for loop in at.loops(curvature))


def extremes(at: Setting, between: tuple[float, ...]) -> Iterator[Curvature]:
    """Curvatures in which all channels of a role are at one end, and h* at a few slopes between."""
    for slopes in itertools.product(*(between if one.role == "h" else _ENDS for one in at.channels)):
        if any(slopes):
            found = at.least
            for one, slope in zip(at.channels, slopes, strict=True):
                found = _bent(found, one, np.minimum(slope, one.limit))
            yield found


def _bent(found: Curvature, one: Channel, more: Array) -> Curvature:
    """The curvature with so much more in the coordinates of a channel."""
    if one.role == "h":
        return replace(found, Ph=1.0 / (1.0 / found.Ph + float(more[0])))
    rows = np.ix_(one.rows, one.rows)
    if one.role == "f":
        H = found.H.copy()
        H[rows] += np.diag(more)
        return replace(found, H=H)
    Pg = found.Pg.copy()
    Pg[rows] = np.diag(1.0 / (1.0 / np.diag(Pg)[one.rows] + more))
    return replace(found, Pg=Pg)


def flips(at: Setting, start: Curvature) -> Iterator[Curvature]:
    """The same with one convex function of f or g at its other end."""
    for one in at.channels:
        if one.role != "h":
            base = replace(start, H=at.least.H) if one.role == "f" else replace(start, Pg=at.least.Pg)
            for group in range(int(one.groups.max()) + 1):
                yield _bent(base, one, np.where(_raised(at, start, one) ^ (one.groups == group), one.limit, 0.0))


def _raised(at: Setting, curvature: Curvature, one: Channel) -> Array:
    """Where f or g has more than its least curvature."""
    here, least = (np.diag(M.H if one.role == "f" else M.Pg)[one.rows] for M in (curvature, at.least))
    return np.asarray(~np.isclose(here, least))


def words_for(at: Setting, curvature: Curvature) -> str:
    """A curvature, by what is least and what is most in it."""
    said = []
    for one in at.channels:
        if one.role == "h":
            said.append(f"prox of h* with slope {curvature.Ph:.3g}")
            continue
        count = int(_raised(at, curvature, one).sum())
        said.append(f"{one.role} with its most curvature in {count} of {one.size} coordinates")
    return ", ".join(said) or "the set-up itself, which is affine"


def example_of(problem: Problem, steps: Steps, curvature: Curvature) -> Problem:
    """The quadratic problem with this curvature and solution zero."""
    agents, begin = [], 0
    for agent, alpha in zip(problem.agents, steps.per_agent(problem.n), strict=True):
        size = int(agent.A.shape[1])
        rows = slice(begin, begin + size)
        begin += size
        if not size:
            agents.append(Agent(agent.A, fn.Zero()))
            continue
        # An infinite slope is that of a point; a very large one is as good in a run.
        values, V = np.linalg.eigh(curvature.Pg[rows, rows])
        slope = (V * (1.0 / np.maximum(values, 1e-9) - 1.0) / alpha) @ V.T
        agents.append(
            Agent(agent.A, fn.Quadratic(curvature.H[rows, rows] / alpha), fn.Quadratic(0.5 * (slope + slope.T)))
        )
    return Problem(agents, _coupling_of(problem, curvature.Ph, steps.beta / problem.n))


def _coupling_of(problem: Problem, Ph: Any, t: float) -> fn.Function:
    """The quadratic h whose t h* has a prox with this Jacobian: h'' = t Ph (I - Ph)^-1."""
    if np.ndim(Ph) == 0:
        if Ph >= 1.0:
            return fn.Equality(np.zeros(problem.p))
        return fn.SquaredLoss(np.zeros(problem.p), t * Ph / (1.0 - Ph)) if Ph > 0.0 else fn.Zero()
    values, V = np.linalg.eigh(Ph)
    K = (V * (t * values / np.maximum(1.0 - values, 1e-12))) @ V.T
    return fn.Quadratic(0.5 * (K + K.T))


def linearised_rate(
    problem: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    x: Array,
    lam: Array,
    *,
    limit: float = math.inf,
) -> float:
    """Spectral radius of the member with the derivatives at a solution: the rate near it. nan where they are not known.

    It promises nothing from further away, unless the iteration is affine. nan also beyond `limit` states: where h bends
    its rows differently, none of them splits off.
    """
    known = all(a.f.has_hess and a.g.has_prox_jac for a in problem.agents if a.A.shape[1]) and problem.h.has_prox_jac
    if not known:
        return math.nan
    at = setting(problem, network, version, steps)
    alpha, t = steps.per_agent(problem.n), steps.beta / problem.n
    force = problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(lam, (problem.n, problem.p)))
    every = zip(problem.agents, problem.split(x), problem.split(force), alpha, strict=True)
    places = [place for place in every if place[1].size]
    H = block_diag(*(a * square(agent.f.hess(u)) for agent, u, _, a in places), np.zeros((0, 0)))
    Pg = block_diag(*(square(agent.g.prox_jac(u - a * w, a)) for agent, u, w, a in places), np.zeros((0, 0)))
    Ph: Any = square(problem.h.conj_prox_jac(lam + t * problem.A.apply(x).sum(axis=0), t))
    if np.array_equal(Ph, Ph[0, 0] * np.eye(problem.p)):
        Ph = float(Ph[0, 0])
    elif problem.d + (2 * problem.n - 1) * problem.p > limit:
        return math.nan
    else:
        at = replace(at, directions=None)
    loops = at.loops(Curvature(H, Pg, Ph))
    return max(float(np.abs(np.linalg.eigvals(loop.F)).max(initial=0.0)) for loop in loops)
