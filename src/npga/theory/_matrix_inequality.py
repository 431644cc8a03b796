"""The matrix inequality of an instance certificate: its solution P, the check of it, the constant, and the best rate.

If P, positive or made so by `pairs`, and weights t >= 0 of the forms s of `_multipliers` satisfy, for all xi and w,

    |F xi + G w|_P^2 - rho^2 |xi|_P^2 + sum_c t_c s_c(xi, w) <= 0,                                                  (*)

then V = |xi|_P^2 + 2 sum_c t_c psi_c shrinks by rho^2 in every iteration (docs/theory/instances.md). A doubling
iteration for a Riccati equation gives P, and `holds` checks (*) by itself, so that nothing before it need be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lu_factor, lu_solve

from npga.theory._feedback import Loop, Setting, norm_bound
from npga.theory._multipliers import FREQUENCIES, Forms, Multiplier, MultiplierSearch, joined, signals

Array = NDArray[Any]
Found = TypeVar("Found")

_EPS = float(np.finfo(np.float64).eps)
# Doubling has converged long before, or does not; what is larger has no bound.
_DOUBLINGS, _HUGE = 24, 1e12
# Parts of 1 - radius that are tried as 1 - rate, and how often what lies between the last two is halved.
_PARTS, _HALVINGS = (0.95, 0.7, 0.45, 0.25, 0.1, 0.03, 0.01, 0.003), 3
# A rate with this part of 1 - radius needs no conjugate multipliers.
_ENOUGH = 0.9
# The same for a sketch.
_ROUGH_PARTS, _ROUGH_HALVINGS = (0.85, 0.6, 0.3, 0.1, 0.03, 0.003), 1
# How often frequencies are added where weights fail between those that were looked at, and slower rates are tried where
# weights were found and no P.
_REFINED, _ROUNDS = 4, 4
# By how much (*) is to hold: the more, the better the constant.
_MARGINS = (1e-2, 1e-3, 1e-5, 1e-8)
# Parts of what `pairs` may add to P that are tried.
SHARES = (0.7, 0.6, 0.8, 0.5, 0.9, 0.4, 1.0, 0.2, 0.0)


def remembering(loop: Loop, every: Sequence[Multiplier], t: Array) -> Loop:
    """The loop with the w of the iteration before as states, for the channels whose conjugate multipliers have weight.

    They begin at zero.
    """
    roles = {one.role for one, weight in zip(every, t, strict=True) if one.kind == "conjugate" and weight > 0.0}
    mine = [np.arange(loop.inputs)[loop.columns(one)] for one in loop.channels if one.role in roles]
    if not mine:
        return loop
    kept = np.concatenate(mine)
    F = np.pad(loop.F, (0, kept.size))
    return replace(loop, F=F, G=np.vstack([loop.G, np.eye(loop.inputs)[kept]]), kept=kept)


def supply(at: Setting, loop: Loop, every: Sequence[Multiplier], t: Array, rho: float) -> Array:
    """sum_c t_c s_c as a matrix in (xi, w)."""
    size = loop.states + loop.inputs
    if not loop.inputs:
        return np.zeros((size, size))
    Y = signals(loop)
    found: Array = Y.T @ (Forms(at, loop, every).total(t, rho) @ Y)
    return 0.5 * (found + found.T)


def riccati(loop: Loop, S: Array, rho: float, margin: float) -> Array | None:
    """The least P for which (*) holds with `margin` to spare, by structure-preserving doubling; None if it fails.

    P = A^T P (I + G P)^-1 A + H with A, G and H of the linear system whose w is the worst one.
    """
    N, m = loop.states, loop.inputs
    A, H, G = loop.F / rho, S[:N, :N] / rho**2 + margin * np.eye(N), np.zeros((N, N))
    try:
        if m:
            cross, B = S[N:, :N] / rho**2, loop.G / rho
            left = cho_solve(cho_factor(-S[N:, N:] / rho**2 - margin * np.eye(m)), np.hstack([cross, B.T]))
            A, H, G = A + B @ left[:, :N], H + cross.T @ left[:, :N], -B @ left[:, N:]
        for _ in range(_DOUBLINGS):
            factor = lu_factor(np.eye(N) + G @ H)
            WA = lu_solve(factor, A)
            more = A.T @ (H @ WA)
            G = G + A @ lu_solve(factor, G) @ A.T
            G, A, H = 0.5 * (G + G.T), A @ WA, H + 0.5 * (more + more.T)
            size = np.linalg.norm(H)
            if not size < _HUGE:
                return None
            if np.linalg.norm(more) <= 1e-14 * size:
                found: Array = 0.5 * (H + H.T)
                return found
    except (LinAlgError, ValueError):
        return None
    return None


def holds(at: Setting, loop: Loop, every: Sequence[Multiplier], t: Array, rho: float, P: Array) -> bool:
    """Whether (*) is true for sure: Cholesky of the matrix, shifted by a bound on every rounding on the way to it.

    The computed matrix differs from the exact one by at most `error` in norm: the products, the assembly of F and G
    (`Loop.rounding`) and the coefficients of the forms.
    """
    N, m = loop.states, loop.inputs
    FG = np.hstack([loop.F, loop.G])
    M = -(FG.T @ (P @ FG)) - supply(at, loop, every, t, rho)
    M[:N, :N] += rho**2 * P
    size_P, size_FG, moved = norm_bound(P), norm_bound(FG), loop.rounding
    error = (2 * N + 8) * _EPS * size_P * (size_FG**2 + 1.0) + size_P * (2.0 * size_FG * moved + moved**2)
    if m:
        total, Y = Forms(at, loop, every).total(t, rho), signals(loop)
        size_Y = norm_bound(Y)
        error += norm_bound(total) * ((2 * N + 2 * m + 16) * _EPS * size_Y**2 + 2.0 * size_Y * moved + moved**2)
    return np.array_equal(P, P.T) and is_positive(0.5 * (M + M.T), 1.1 * error)


def is_positive(M: Array, shift: float) -> bool:
    """Whether M - shift I is positive semidefinite for sure.

    Rump (2006): Cholesky ends although a bound on its own rounding has been taken off the diagonal as well.
    """
    n = M.shape[0]
    if not n:
        return True
    own = 1.1 * (n + 3) * _EPS * (float(np.abs(np.diag(M)).sum()) + n * abs(shift)) + n * 1e-300
    try:
        cho_factor(M - (shift + own) * np.eye(n))
    except (LinAlgError, ValueError):
        return False
    return True


def pairs(at: Setting, loop: Loop, every: Sequence[Multiplier], t: Array, share: float) -> Array:
    """A matrix Q with V >= |xi|_{P + Q}^2, so that P + Q and not P has to be positive.

    V has 2 t phi(u) of delayed or descent multipliers and 2 t' phi*(w_before) of conjugate ones, and for all u and w
    phi(u) + phi*(w) >= <u, w>. So Q is 2 c <u, M w_before> with M of the conjugate multiplier and c at most the smaller
    one of the weights, here `share` of it. All directions of R^p belong to one function: all loops take one share.
    """

    def total(one: Multiplier, *kinds: str) -> float:
        same = [(other.role, other.group) == (one.role, one.group) and other.kind in kinds for other in every]
        return float(t[same].sum())

    Q, place = np.zeros_like(loop.F), np.zeros(loop.inputs, np.intp)
    place[loop.kept] = loop.states - loop.kept.size + np.arange(loop.kept.size)
    for channel in loop.channels:
        u, w = channel.rows + (loop.d if channel.role == "h" else 0), place[loop.columns(channel)]
        for one, weight in zip(every, t, strict=True):
            if one.role == channel.role and one.kind == "conjugate" and weight > 0.0:
                part = min(1.0, total(one, "delayed", "descent") / total(one, "conjugate"))
                M = share * (1.0 - 1e-9) * part * weight * joined(at, channel, one, loop.q).toarray()
                Q[np.ix_(u, w)] += M
                Q[np.ix_(w, u)] += M.T
    return Q


def is_bounded_below(at: Setting, loop: Loop, every: Sequence[Multiplier], t: Array, P: Array, share: float) -> bool:
    """Whether P + Q is positive for sure, Q of `pairs`."""
    M = P + pairs(at, loop, every, t, share) if loop.kept.size else P
    return is_positive(M, 8.0 * _EPS * norm_bound(M))


def constant(at: Setting, loops: Sequence[Loop], weights: Any, P: Sequence[Array], share: float) -> float:
    """K with |xi_k| <= K rho^k |xi_0|: V_0, with what phi adds to it in the first iteration, over the least of V."""
    every, t = [one for one, _ in weights], np.array([weight for _, weight in weights])
    least = most = None
    for loop, one in zip(loops, P, strict=True):
        own = one.shape[0] - loop.kept.size
        if own:
            # |xi|_P^2 is least where the states that are kept are chosen for it, and they begin at zero.
            below = one + pairs(at, loop, every, t, share) if loop.kept.size else one
            low = 1.0 / float(np.linalg.eigvalsh(np.linalg.inv(below)[:own, :own])[-1])
            while low > 0.0 and not is_positive(below - np.diag(np.repeat([low, 0.0], [own, loop.kept.size])), 0.0):
                low *= 0.99
            least = low if least is None else min(least, low)
            most = max(float(np.linalg.eigvalsh(one[:own, :own])[-1]) * (1.0 + 1e-9), most or 0.0)
    if least is None or most is None:
        return 1.0
    # 2 t <w, rho^2 M u> <= 2 t rho^2 |w| |u| in the first iteration, where |w| is at most that of the prox's argument.
    # Groups of one kind are disjoint, so the largest of their weights counts.
    reach = max((_reach(at, loop) for loop in loops), default=0.0)
    f = at.channel("f")
    bounds = {
        "static": 0.0,
        "conjugate": 0.0,
        "delayed": 2.0 * reach,
        "descent": 0.0 if f is None else float(f.limit.max()),
    }
    extra: dict[tuple[str, str, str], float] = {}
    for one, t in weights:
        key = (one.role, one.kind, one.across)
        extra[key] = max(extra.get(key, 0.0), t * bounds[one.kind])
    return math.sqrt((most + sum(extra.values())) / least) if least > 0.0 else math.inf


def _reach(at: Setting, loop: Loop) -> float:
    """A bound on |w| / |xi| for w of g and of h: arguments of their proxes, which are Lipschitz in xi.

    x - H x - w_f has norm at most max(1, |I - H|, |H| + limit) |x|, and v is (I - C) lam - z + A (x+ + theta (x+ - x)).
    """
    size = float(np.linalg.norm(at.A, 2)) if at.A.size else 0.0
    most = float(np.linalg.norm(at.least.H, 2)) if at.least.H.size else 0.0
    f = at.channel("f")
    most += 0.0 if f is None else float(f.limit.max())
    x = max(1.0, most) + 1.0 + size
    v = 2.0 + float(np.linalg.norm(at.C, 2)) + size * ((1.0 + at.theta) * x + at.theta)
    return max(x, float(np.linalg.norm(at.D, 2)) * v) if loop.inputs else 0.0


# ------------------------------------------------------------------ the best rate


@dataclass(frozen=True)
class Proof:
    """What was found: rate, weights of the multipliers, P and the constant."""

    rate: float
    weights: tuple[tuple[Multiplier, float], ...]
    P: tuple[Array, ...]
    constant: float


class RateSearch:
    """The search for the best rate that can be proved, with so many frequencies apart from resonances."""

    def __init__(self, at: Setting, frequencies: int = FREQUENCIES) -> None:
        self.at = at
        self.multipliers = MultiplierSearch(at, frequencies)
        self.on_grid: float | None = None

    @property
    def radius(self) -> float:
        """Spectral radius of F."""
        return self.multipliers.radius

    def on_few_frequencies(self, radius: float, sweeps: int) -> float | None:
        """About the best rate above this radius for which there are multipliers, without P."""
        return self._best(
            radius,
            lambda rho: None if self.multipliers.at_rate(rho, sweeps) is None else rho,
            _ROUGH_PARTS,
            _ROUGH_HALVINGS,
        )

    def best_rate(self, radius: float) -> Proof | None:
        """The best rate above this radius that could be proved.

        Weights come first, for they are cheap, and P for the best rates that have some; where no P is found, again for
        slower ones. Conjugate multipliers, which need more states, are used where they prove more than the others.
        """
        conjugate = any(one.kind == "conjugate" for one in self.multipliers.every)
        for _ in range(_ROUNDS):
            found: dict[float, Array] = {}
            self._best(radius, partial(self._add, found, conjugate=False), _PARTS, _HALVINGS)
            if conjugate and 1.0 - min(found, default=1.0) < _ENOUGH * (1.0 - radius):
                self._best(radius, partial(self._add, found, conjugate=True), _PARTS, _HALVINGS)
            if not found:
                return None
            self.on_grid = min(found) if self.on_grid is None else self.on_grid
            proof = next((one for one in (self.solve(rho, found[rho]) for rho in sorted(found)) if one), None)
            if proof is not None:
                return proof
            radius = 0.5 * (1.0 + max(found))
        return None

    def _add(self, found: dict[float, Array], rho: float, conjugate: bool) -> Array | None:
        """Weights for this rate, which are kept; those of a better rate if there are some."""
        if min(found, default=1.0) <= rho:
            return found[min(found)]
        t = self.refined(rho, conjugate)
        if t is not None:
            found[rho] = t
        return t

    def _best(
        self, radius: float, attempt: Callable[[float], Found | None], parts: tuple[float, ...], halvings: int
    ) -> Found | None:
        """What the attempt finds at the best rate: the first of the parts that succeeds, then between it and the last.

        An attempt gets a rate, 1 - part (1 - radius), and returns None where it fails.
        """
        before, found = 1.0, None
        for part in parts:
            found = attempt(1.0 - part * (1.0 - radius))
            if found is not None:
                break
            before = part
        for _ in range(halvings if found is not None and before < 1.0 and self.multipliers.every else 0):
            middle = math.sqrt(before * part)
            better = attempt(1.0 - middle * (1.0 - radius))
            before, part, found = (middle, part, found) if better is None else (before, middle, better)
        return found

    def refined(self, rho: float, conjugate: bool) -> Array | None:
        """The weights, after frequencies were added where they failed between those that had been looked at."""
        t = self.multipliers.at_rate(rho, conjugate=conjugate)
        for _ in range(_REFINED):
            if t is None or not self.multipliers.refine(rho, t):
                break
            t = self.multipliers.at_rate(rho, conjugate=conjugate)
        return t

    def solve(self, rho: float, t: Array) -> Proof | None:
        """P for these weights that passes the check, with the first of the margins for which there is one."""
        every = self.multipliers.every
        loops = [remembering(loop, every, t) for loop in self.multipliers.loops]
        forms = [supply(self.at, loop, every, t, rho) for loop in loops]
        for margin in _MARGINS:
            P: list[Array] = []
            shares = list(SHARES if any(loop.kept.size for loop in loops) else (0.0,))
            # The last loop, of directions off the range of A, is far smaller: where it fails, the first is not tried.
            for loop, S in reversed(list(zip(loops, forms, strict=True))):
                one = riccati(loop, S, rho, margin)
                if one is not None:
                    P.insert(0, one)
                    shares = [share for share in shares if is_bounded_below(self.at, loop, every, t, one, share)]
                if one is None or not shares or not holds(self.at, loop, every, t, rho, one):
                    break
            else:
                weights = tuple(zip(every, t.tolist(), strict=True))
                return Proof(rho, weights, tuple(P), constant(self.at, loops, weights, P, shares[0]))
        return None
