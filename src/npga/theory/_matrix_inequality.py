"""The matrix inequality of an instance certificate: its multipliers, its solution P, and the check of it.

For channels w = grad phi(u) with phi convex, of curvature at most kappa, least at zero, a multiplier is a quadratic
form s of one step with s >= phi(u+) - rho^2 phi(u), or s >= 0:

    static    2 <w, M u>  - (2/kappa) |w|_M^2                                  M = I, or I - W, I - 11^T/n across agents
    delayed   2 <w, u+ - rho^2 M u> - ((1 - rho^2)/kappa) |w|^2                M = I, or W, 11^T/n across agents (g, h)
    descent   2 <w, x+ - rho^2 x> - ((1 - rho^2)/kappa) |w|^2 + kappa |x+ - x|^2                                   (f)

If P > 0 and numbers t >= 0 satisfy, for all xi and w,

    |F xi + G w|_P^2 - rho^2 |xi|_P^2 + sum_c t_c s_c(xi, w) <= 0,                                                  (*)

then V = |xi|_P^2 + 2 sum_c t_c phi_c shrinks by rho^2 in every iteration (docs/theory/instances.md). For given t a P
exists exactly if sum_c t_c s_c is negative on |z| = rho (Kalman, Yakubovich, Popov), which cuts can decide; a doubling
iteration for a Riccati equation then gives P, and `holds` checks (*) by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lu_factor, lu_solve
from scipy.optimize import linprog

from npga.theory._feedback import Loop, Setting, norm_bound

Array = NDArray[Any]

_EPS = float(np.finfo(np.float64).eps)
# More groups than this share their multipliers.
_GROUPS = 40
# Frequencies that are looked at, apart from those of so many slow modes; vectors that one of them adds in a sweep.
_SPREAD, _SLOW, _TOP = 28, 24, 3
# A margin below this is none.
_MARGIN = 1e-9
# Doubling has converged long before, or does not; what is larger has no bound.
_DOUBLINGS, _HUGE = 30, 1e12


@dataclass(frozen=True)
class Multiplier:
    """One quadratic form s.

    Parameters
    ----------
    role, kind
        "f", "g" or "h"; "static", "delayed" or "descent".
    group
        Number of the convex function among those of the role; None for all of them.
    across
        How agents are joined, for h: "each", "neighbours" or "mean".
    """

    role: str
    kind: str
    group: int | None = None
    across: str = "each"

    @property
    def name(self) -> str:
        """In words."""
        group = "" if self.group is None else f" {self.group}"
        return f"{self.role}{group} {self.kind}" + ("" if self.across == "each" else f" ({self.across})")


def multipliers(at: Setting) -> list[Multiplier]:
    """All that may be combined for this set-up."""
    found: list[Multiplier] = []
    for one in at.channels:
        if one.role == "h":
            ways = ("each", "neighbours", "mean") if at.n > 1 else ("each",)
            found += [Multiplier("h", kind, None, way) for kind in ("static", "delayed") for way in ways]
            continue
        count = int(one.groups.max()) + 1
        groups = list(range(count)) if count <= _GROUPS else [None]
        second = "descent" if one.role == "f" else "delayed"
        found += [Multiplier(one.role, kind, group) for kind in ("static", second) for group in groups]
    return found


def form(at: Setting, loop: Loop, one: Multiplier, rho: float) -> Any:
    """Matrix of s in the signals (x, x+, lam, lam+, w), sparse and symmetric."""
    d, duals, m = loop.d, loop.n * loop.q, loop.inputs
    size = 2 * d + 2 * duals + m
    channel = next((c for c in loop.channels if c.role == one.role), None)
    if channel is None:
        return sparse.csr_array((size, size))
    w = 2 * d + 2 * duals + loop.columns(channel).start + np.arange(channel.size)
    begin = 2 * d if one.role == "h" else 0
    span = duals if one.role == "h" else d
    now, new = begin + channel.rows, begin + span + channel.rows
    keep = np.ones(channel.size) if one.group is None else (channel.groups == one.group).astype(float)
    inverse = keep / channel.limit
    M = _across(at, one.across, loop.q) if one.role == "h" else None
    if one.kind == "static":
        u = now if one.role == "f" else new
        weight = sparse.diags_array(keep) if M is None or one.across == "each" else sparse.eye_array(duals) - M
        return _sym(size, (w, u, weight), (w, w, -weight @ sparse.diags_array(1.0 / channel.limit)))
    old = sparse.diags_array(keep) if M is None else M
    parts = [(w, new, sparse.diags_array(keep)), (w, now, -(rho**2) * old)]
    parts.append((w, w, sparse.diags_array(-0.5 * (1.0 - rho**2) * inverse)))
    if one.kind == "descent":
        curve = sparse.diags_array(0.5 * keep * channel.limit)
        parts += [(new, new, curve), (now, now, curve), (new, now, -2.0 * curve)]
    return _sym(size, *parts)


def _across(at: Setting, way: str, q: int) -> Any:
    M = {"each": np.eye(at.n), "neighbours": at.mixing, "mean": np.full((at.n, at.n), 1.0 / at.n)}[way]
    return sparse.kron(sparse.csr_array(M), sparse.eye_array(q), format="csr")


def _sym(size: int, *parts: tuple[Array, Array, Any]) -> Any:
    """Sum of K + K^T, K having the given blocks at rows and columns."""
    total = sparse.csr_array((size, size))
    for rows, columns, block in parts:
        block = sparse.coo_array(block)
        total = total + sparse.csr_array((block.data, (rows[block.row], columns[block.col])), shape=(size, size))
    return sparse.csr_array(total + total.T)


def combine(forms: Sequence[Any], t: Array) -> Any:
    """sum_c t_c s_c."""
    total = forms[0] * float(t[0])
    for weight, one in zip(t[1:], forms[1:], strict=True):
        if weight:
            total = total + float(weight) * one
    return sparse.csr_array(total)


def signals(loop: Loop) -> Array:
    """(x, x+, lam, lam+, w) as a matrix applied to (xi, w)."""
    d, duals, N, m = loop.d, loop.n * loop.q, loop.states, loop.inputs
    now, new = np.eye(N, N + m), np.hstack([loop.F, loop.G])
    pick = np.eye(m, N + m, N)
    return np.vstack([now[:d], new[:d], now[d : d + duals], new[d : d + duals], pick])


# ------------------------------------------------------------------ multipliers by cuts


class MultiplierSearch:
    """Numbers t >= 0 with sum_c t_c s_c < 0 on |z| = rho, by Kelley's cutting planes.

    t maximises the margin over the vectors seen so far, and the most violated ones are added. The vectors are kept from
    one rho to the next.

    Parameters
    ----------
    at
        The set-up.
    """

    def __init__(self, at: Setting) -> None:
        self.at, self.loops, self.every = at, at.loops(), multipliers(at)
        self._eigen = [np.linalg.eig(loop.F) for loop in self.loops]
        self.radius = max((float(np.abs(values).max(initial=0.0)) for values, _ in self._eigen), default=0.0)
        self._inputs = [np.linalg.solve(V, loop.G) for (_, V), loop in zip(self._eigen, self.loops, strict=True)]
        self.grid = self._angles()
        self._cuts: list[tuple[int, int, Array]] = []

    def _angles(self) -> Array:
        """A spread of frequencies, and those at which a loop resonates."""
        spread = np.concatenate([[0.0, np.pi], np.geomspace(max(1.0 - self.radius, 1e-5) / 4.0, 3.1, _SPREAD)])
        near = [np.abs(np.angle(values[np.argsort(-np.abs(values))][:_SLOW])) for values, _ in self._eigen]
        return np.unique(np.round(np.concatenate([spread, *near]), 5))

    def _response(self, i: int, z: complex) -> Array:
        """Signals that w = z^k I makes in loop i."""
        loop, (values, V) = self.loops[i], self._eigen[i]
        d, duals = loop.d, loop.n * loop.q
        X = V[: d + duals] @ (self._inputs[i] / (z - values)[:, None])
        return np.vstack([X[:d], z * X[:d], X[d:], z * X[d:], np.eye(loop.inputs)])

    def at_rate(self, rho: float, sweeps: int = 40) -> Array | None:
        """The numbers t for this rate, or None if none were found."""
        if not self.every:
            return np.zeros(0)
        forms = [[form(self.at, loop, one, rho) for one in self.every] for loop in self.loops]
        z = rho * np.exp(1j * self.grid)
        responses = [
            [self._response(i, point) for point in z] if loop.inputs else [] for i, loop in enumerate(self.loops)
        ]
        rows = [_values(forms[i], responses[i][k] @ a) for i, k, a in self._cuts]
        t = np.full(len(self.every), 1.0 / len(self.every))
        for _ in range(sweeps):
            if rows:
                t, margin = _best(np.array(rows))
                if margin <= _MARGIN:
                    return None
            worst = -math.inf
            for i, place in enumerate(responses):
                total = combine(forms[i], t)
                for k, y in enumerate(place):
                    value, vectors = np.linalg.eigh(_hermitian(y, total))
                    worst = max(worst, float(value[-1]))
                    for j in range(max(value.size - _TOP, 0), value.size):
                        if value[j] > 0.0:
                            self._cuts.append((i, k, vectors[:, j]))
                            rows.append(_values(forms[i], y @ vectors[:, j]))
            if worst < 0.0:
                return t
        return None


def _hermitian(y: Array, total: Any) -> Array:
    found: Array = y.conj().T @ (total @ y)
    return 0.5 * (found + found.conj().T)


def _values(forms: Sequence[Any], y: Array) -> list[float]:
    return [float(np.real(np.vdot(y, one @ y))) for one in forms]


def _best(rows: Array) -> tuple[Array, float]:
    """t >= 0 of sum one, and the largest tau with rows t + tau |row| <= 0."""
    k = rows.shape[1]
    length = np.abs(rows).max(axis=1, keepdims=True)
    left = np.hstack([rows / np.where(length > 0.0, length, 1.0), np.ones((len(rows), 1))])
    found = linprog(
        np.r_[np.zeros(k), -1.0], A_ub=left, b_ub=np.zeros(len(rows)), A_eq=np.r_[np.ones(k), 0.0][None],
        b_eq=[1.0], bounds=[(0.0, None)] * k + [(None, 1.0)],
    )  # fmt: skip
    return (np.maximum(found.x[:k], 0.0), float(found.x[k])) if found.status == 0 else (np.zeros(k), -1.0)


# ------------------------------------------------------------------ P, and the check of it


def supply(at: Setting, loop: Loop, every: Sequence[Multiplier], t: Array, rho: float) -> Array:
    """sum_c t_c s_c as a matrix in (xi, w)."""
    size = loop.states + loop.inputs
    if not loop.inputs:
        return np.zeros((size, size))
    Y = signals(loop)
    found: Array = Y.T @ (combine([form(at, loop, one, rho) for one in every], t) @ Y)
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
        total, Y = combine([form(at, loop, one, rho) for one in every], t), signals(loop)
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


def constant(at: Setting, loops: Sequence[Loop], weights: Any, P: Sequence[Array]) -> float:
    """K with |xi_k| <= K rho^k |xi_0|: V_0, with what phi adds to it in the first iteration, over the least of P."""
    least = most = None
    for one in P:
        if one.size:
            values = np.linalg.eigvalsh(one)
            low = float(values[0])
            while low > 0.0 and not is_positive(one, low):
                low *= 0.99
            least = low if least is None else min(least, low)
            most = max(float(values[-1]) * (1.0 + 1e-9), most or 0.0)
    if least is None or most is None:
        return 1.0
    # 2 t <w, rho^2 M u> <= 2 t rho^2 |w| |u| in the first iteration, where |w| is at most that of the prox's argument.
    # Groups of one kind are disjoint, so the largest of their weights counts.
    reach = max((_reach(at, loop) for loop in loops), default=0.0)
    f = at.channel("f")
    bounds = {"static": 0.0, "delayed": 2.0 * reach, "descent": 0.0 if f is None else float(f.limit.max())}
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
