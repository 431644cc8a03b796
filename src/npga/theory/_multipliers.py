"""Multipliers of an instance certificate: quadratic forms that functions of a class cannot make negative, and weights.

For channels w = grad phi(u) with phi convex, of curvature at most kappa, least at zero, a multiplier is a quadratic
form s of one step with s >= 2 psi+ - 2 rho^2 psi for psi = phi(u) or its conjugate phi*(w), or s >= 0:

    static     2 <w, M u> - (2/kappa) |w|_M^2                                      M = I, or I - W, I - 11^T/n (h)
    delayed    2 <w, u+ - rho^2 M u> - ((1 - rho^2)/kappa) |w|^2                   M = I, or W, 11^T/n (h)     (g, h)
    conjugate  2 <u, w - rho^2 M w_before> - ((1 - rho^2)/kappa) |w|^2             M = I, or W, 11^T/n (h)
    descent    2 <w, x+ - rho^2 x> - ((1 - rho^2)/kappa) |w|^2 + kappa |x+ - x|^2                               (f)

w_before, the w of the iteration before, is a state of its own in P.

The matrix inequality has a solution P for weights t >= 0 exactly if the radius of F is below rho and sum_c t_c s_c is
negative on |z| = rho (Kalman, Yakubovich, Popov). Eliminating lam and z there leaves n x n and d x d matrices:

    K = (I + gamma B^2/(z - 1))^-1,     R = (z I - Ph D K (I - C))^-1,     a = (1 + theta) z - theta,
    lam = a Ph R D K A x - Ph R w_h,
    (z I - Pg (I - H) + a Pg A^T (Ph R D K) A) x = Pg (A^T Ph R w_h - w_f - w_g).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import ArpackError, eigs

from npga.theory._feedback import Channel, Loop, Setting

Array = NDArray[Any]

# More groups than this share their multipliers.
_GROUPS = 40
# Frequencies that are looked at, apart from those of slow modes, at most so many; vectors that one of them adds.
FREQUENCIES, _SLOW, _TOP = 28, 24, 3
# A margin below this is none.
_MARGIN = 1e-9
# Beyond these sizes eigenvalues come from Krylov spaces: of F, so many, and of a form in the inputs, of this dimension.
_DENSE_F, _FEW, _DENSE_W, _KRYLOV = 700, 6, 400, 60


@dataclass(frozen=True)
class Multiplier:
    """One quadratic form s."""

    role: str  # "f", "g" or "h"
    kind: str  # "static", "delayed", "conjugate" or "descent"
    group: int | None = None  # number of the convex function among those of the role; None for all of them
    across: str = "each"  # how agents are joined, for h: "each", "neighbours" or "mean"

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
            found += [Multiplier("h", kind, None, way) for kind in ("static", "delayed", "conjugate") for way in ways]
            continue
        count = int(one.groups.max()) + 1
        groups = list(range(count)) if count <= _GROUPS else [None]
        kinds = ("static", "descent" if one.role == "f" else "delayed", "conjugate")
        found += [Multiplier(one.role, kind, group) for kind in kinds for group in groups]
    return found


class Forms:
    """Forms of multipliers for one loop, s = base + rho^2 part, as entries in (x, x+, lam, lam+, w, w_before)."""

    def __init__(self, at: Setting, loop: Loop, every: Sequence[Multiplier]) -> None:
        self.size, self.count = 2 * (loop.d + loop.n * loop.q + loop.inputs), len(every)
        entries = [(k, *entry) for k, one in enumerate(every) for entry in _entries(at, loop, one)]
        blank = np.zeros(0)
        which = [np.full(block.data.size, k) for k, _, _, block, _ in entries]
        rows = [r[block.row] for _, r, _, block, _ in entries]
        columns = [c[block.col] for _, _, c, block, _ in entries]
        base = [block.data * constant for _, _, _, block, (constant, _) in entries]
        part = [block.data * factor for _, _, _, block, (_, factor) in entries]
        self._which, self._rows, self._columns = (
            np.concatenate([blank, *values]).astype(np.intp) for values in (which, rows, columns)
        )
        self._base, self._part = (np.concatenate([blank, *values]) for values in (base, part))

    def total(self, t: Array, rho: float) -> Any:
        """sum_c t_c s_c as a sparse symmetric matrix."""
        data = t[self._which] * (self._base + rho**2 * self._part) if self.count else self._base
        half = sparse.csr_array((data, (self._rows, self._columns)), shape=(self.size, self.size))
        return sparse.csr_array(half + half.T)

    def values(self, y: Array, rho: float) -> Array:
        """The value of each form at one vector of signals."""
        products = 2.0 * np.real(np.conj(y[self._rows]) * y[self._columns]) * (self._base + rho**2 * self._part)
        return np.bincount(self._which, products, self.count)


Entry = tuple[Array, Array, Any, tuple[float, float]]


def _entries(at: Setting, loop: Loop, one: Multiplier) -> Iterator[Entry]:
    """Blocks K of a form K + K^T: rows, columns, block, and its factor constant + rho^2 times factor."""
    d, duals = loop.d, loop.n * loop.q
    channel = next((c for c in loop.channels if c.role == one.role), None)
    if channel is None:
        return
    w = 2 * d + 2 * duals + loop.columns(channel).start + np.arange(channel.size)
    begin, span = (2 * d, duals) if one.role == "h" else (0, d)
    now, new = begin + channel.rows, begin + span + channel.rows
    keep = _members(channel, one)
    mine, M = _diagonal(keep), joined(at, channel, one, loop.q)
    if one.kind == "static":
        if one.across != "each":
            M = sparse.coo_array(sparse.eye_array(duals) - M)
        yield w, now if one.role == "f" else new, M, (1.0, 0.0)
        yield w, w, sparse.coo_array(M @ sparse.diags_array(1.0 / channel.limit)), (-1.0, 0.0)
        return
    if one.kind == "conjugate":
        at_w = now if one.role == "f" else new
        yield w, at_w, mine, (1.0, 0.0)
        yield w + loop.inputs, at_w, M, (0.0, -1.0)
    else:
        yield w, new, mine, (1.0, 0.0)
        yield w, now, M, (0.0, -1.0)
    yield w, w, _diagonal(keep / channel.limit), (-0.5, 0.5)
    if one.kind == "descent":
        curve = _diagonal(0.5 * keep * channel.limit)
        for rows, columns, factor in ((new, new, 1.0), (now, now, 1.0), (new, now, -2.0)):
            yield rows, columns, curve, (factor, 0.0)


def _diagonal(values: Array) -> Any:
    here = np.flatnonzero(values)
    return sparse.coo_array((values[here], (here, here)), shape=(values.size, values.size))


def _members(channel: Channel, one: Multiplier) -> Array:
    """One for the coordinates of a channel that the multiplier is about, else zero."""
    return np.ones(channel.size) if one.group is None else (channel.groups == one.group).astype(float)


def joined(at: Setting, channel: Channel, one: Multiplier, q: int) -> Any:
    """M of a multiplier in the coordinates of its channel: I, or W or 11^T/n on the agents, each of q coordinates."""
    if one.across == "each":
        return _diagonal(_members(channel, one))
    M = at.mixing if one.across == "neighbours" else np.full((at.n, at.n), 1.0 / at.n)
    return sparse.coo_array(sparse.kron(sparse.coo_array(M), sparse.eye_array(q)))


def signals(loop: Loop) -> Array:
    """(x, x+, lam, lam+, w, w_before) as a matrix applied to (xi, w)."""
    d, duals, N, m = loop.d, loop.n * loop.q, loop.states, loop.inputs
    now, new = np.eye(N, N + m), np.hstack([loop.F, loop.G])
    pick, before = np.eye(m, N + m, N), np.zeros((m, N + m))
    before[loop.kept, N - loop.kept.size + np.arange(loop.kept.size)] = 1.0
    return np.vstack([now[:d], new[:d], now[d : d + duals], new[d : d + duals], pick, before])


# ------------------------------------------------------------------ responses on a circle


class Responses:
    """Signals that w = z^k e makes in one loop, through n x n and d x d matrices."""

    def __init__(self, at: Setting, loop: Loop) -> None:
        self.at, self.loop, self.owner = at, loop, at.owner[: loop.d]
        self.has_h = any(one.role == "h" for one in loop.channels)
        Ph = at.least.Ph
        # Directions of R^p in which the prox of h* has one slope: the Gram matrix of A in each of them.
        if np.ndim(Ph) == 0:
            self._slopes = [(float(Ph), loop.A.T @ loop.A)]
        else:
            values, U = np.linalg.eigh(Ph)
            rows = U.T @ loop.A
            self._slopes = [(float(v), np.outer(row, row)) for v, row in zip(values, rows, strict=True)]

    def at_point(self, z: complex) -> Response:
        """The response at one point of the complex plane."""
        at, loop = self.at, self.loop
        n, eye = at.n, np.eye(at.n)
        K = np.linalg.inv(eye + at.B2 / (z - 1.0))
        a = (1.0 + at.theta) * z - at.theta
        H, Pg = (at.least.H, at.least.Pg) if loop.d else (np.zeros((0, 0)), np.zeros((0, 0)))
        S = z * np.eye(loop.d) - Pg @ (np.eye(loop.d) - H)
        R = T = np.zeros((n, n), complex)
        for slope, gram in self._slopes:
            R = slope * np.linalg.inv(z * eye - slope * at.D @ K @ (eye - at.C))
            T = a * R @ at.D @ K
            S += Pg @ (T[np.ix_(self.owner, self.owner)] * gram)
        return Response(loop, self.owner, z, np.linalg.solve(S, Pg.astype(complex)), T, R, self.has_h)


@dataclass(frozen=True)
class Response:
    """x = inverse (A^T R w_h - w_f - w_g), lam = T A x - R w_h at one z; R and T act on agents."""

    loop: Loop
    owner: Any
    z: complex
    inverse: Array
    T: Array
    R: Array
    has_h: bool

    def apply(self, w: Array) -> Array:
        """Signals (x, x+, lam, lam+, w, w_before) of the columns of w."""
        loop, columns = self.loop, w.shape[1]
        d, n, q = loop.d, loop.n, loop.q
        start, forced = np.zeros((d, columns), complex), np.zeros((n, q, columns), complex)
        for one in loop.channels:
            mine = w[loop.columns(one)]
            if one.role == "h":
                forced = np.tensordot(self.R, mine.reshape(n, q, columns), 1)
            else:
                start[one.rows] -= mine
        if self.has_h:
            start += np.einsum("qd,dqc->dc", loop.A, forced[self.owner])
        x = self.inverse @ start
        lam = np.zeros((n * q, columns), complex)
        if self.has_h:
            Ax = np.zeros((n, q, columns), complex)
            np.add.at(Ax, self.owner, loop.A.T[:, :, None] * x[:, None, :])
            lam = (np.tensordot(self.T, Ax, 1) - forced).reshape(n * q, columns)
        return np.vstack([x, self.z * x, lam, self.z * lam, w, w / self.z])

    def adjoint(self, y: Array) -> Array:
        """The adjoint of `apply`, for one vector of signals."""
        loop, c = self.loop, np.conj
        d, n, q = loop.d, loop.n, loop.q
        x, lam = y[:d] + c(self.z) * y[d : 2 * d], y[2 * d :][: n * q] + c(self.z) * y[2 * d + n * q :][: n * q]
        given, before = np.split(y[2 * (d + n * q) :], 2)
        w: Array = given + before / c(self.z)
        forced = np.zeros((n, q), complex)
        if self.has_h:
            mine = lam.reshape(n, q)
            x = x + np.einsum("qd,dq->d", loop.A, (c(self.T).T @ mine)[self.owner])
            forced = -mine
        start = c(self.inverse).T @ x
        for one in loop.channels:
            if one.role == "h":
                np.add.at(forced, self.owner, loop.A.T * start[:, None])
                w[loop.columns(one)] += (c(self.R).T @ forced).ravel()
            else:
                w[loop.columns(one)] -= start[one.rows]
        return w

    def top(self, total: Any) -> tuple[Array, Array]:
        """The largest eigenvalues of the form `total` in w, and their vectors."""
        m = self.loop.inputs
        V = np.eye(m, dtype=complex) if m <= _DENSE_W else self._krylov(total)
        y = self.apply(V)
        found: Array = y.conj().T @ (total @ y)
        values, vectors = np.linalg.eigh(0.5 * (found + found.conj().T))
        return values[-_TOP:], V @ vectors[:, -_TOP:]

    def _krylov(self, total: Any) -> Array:
        """An orthonormal basis of a Krylov space of the form.

        Eigenvalues come in clusters, one value for each direction of R^p, so that the space knows the largest of them
        long before single vectors have converged. Those are not needed.
        """
        m = self.loop.inputs
        V = np.zeros((m, _KRYLOV), complex)
        w = np.cos(np.arange(m)).astype(complex)
        for k in range(_KRYLOV):
            for _ in range(2):
                w = w - V[:, :k] @ (V[:, :k].conj().T @ w)
            V[:, k] = w / np.linalg.norm(w)
            w = self.adjoint(total @ self.apply(V[:, [k]])[:, 0])
        return V


def slow_values(F: Array) -> Array:
    """The eigenvalues of F, or the largest of them where F is large: it is sparse then, n x n blocks times I and A."""
    if F.shape[0] > _DENSE_F:
        start = np.cos(np.arange(F.shape[0]))
        with suppress(ArpackError):
            return np.asarray(eigs(sparse.csr_array(F), _FEW, ncv=40, v0=start, tol=1e-10, return_eigenvectors=False))
    return np.linalg.eigvals(F)


# ------------------------------------------------------------------ weights by cuts


class MultiplierSearch:
    """Weights t >= 0 with sum_c t_c s_c < 0 on |z| = rho, by Kelley's cutting planes.

    t maximises the margin over the vectors seen so far, and the most violated ones are added. The vectors are kept from
    one rho to the next. `spread` frequencies are looked at, apart from those of the slowest modes.
    """

    def __init__(self, at: Setting, spread: int = FREQUENCIES) -> None:
        self.at, self.loops, self.every = at, at.loops(), multipliers(at)
        values = [slow_values(loop.F) for loop in self.loops]
        self.radius = max(float(np.abs(own).max(initial=0.0)) for own in values)
        line = np.geomspace(min(max(1.0 - self.radius, 1e-5) / 4.0, 1.0), 3.1, spread)
        near = [np.abs(np.angle(own[np.argsort(-np.abs(own))][: min(_SLOW, spread)])) for own in values]
        self.grid = np.unique(np.round(np.concatenate([[0.0, np.pi], line, *near]), 5))
        self._responses = [Responses(at, loop) for loop in self.loops]
        self._forms = [Forms(at, loop, self.every) for loop in self.loops]
        self._cuts: list[tuple[int, int, Array]] = []

    def at_rate(self, rho: float, sweeps: int = 40, conjugate: bool = True) -> Array | None:
        """The weights for this rate, those of conjugate multipliers zero unless allowed; None if none were found."""
        if not self.every:
            return np.zeros(0)
        z = rho * np.exp(1j * self.grid)
        places = [
            [own.at_point(point) for point in z] if loop.inputs else []
            for own, loop in zip(self._responses, self.loops, strict=True)
        ]
        rows = [self._forms[i].values(places[i][k].apply(a)[:, 0], rho) for i, k, a in self._cuts]
        free = np.array([conjugate or one.kind != "conjugate" for one in self.every])
        t: Array = free / free.sum()
        for _ in range(sweeps):
            if rows:
                t[free], margin = _best(np.array(rows)[:, free])
                if margin <= _MARGIN:
                    return None
            worst = -math.inf
            for i, place in enumerate(places):
                total = self._forms[i].total(t, rho)
                for k, response in enumerate(place):
                    values, vectors = response.top(total)
                    worst = max(worst, float(values.max()))
                    for j in np.flatnonzero(values > 0.0):
                        self._cuts.append((i, k, vectors[:, [j]]))
                        rows.append(self._forms[i].values(response.apply(vectors[:, [j]])[:, 0], rho))
            if worst < 0.0:
                return t
        return None

    def refine(self, rho: float, t: Array) -> bool:
        """Add the frequencies halfway between neighbours at which these weights fail; False if there is none."""
        ordered = np.sort(self.grid)
        failing: set[float] = set()
        for own, loop, forms in zip(self._responses, self.loops, self._forms, strict=True):
            total = forms.total(t, rho)
            for angle in 0.5 * (ordered[1:] + ordered[:-1]) if loop.inputs else ():
                if own.at_point(rho * np.exp(1j * angle)).top(total)[0].max() >= 0.0:
                    failing.add(float(angle))
        self.grid = np.concatenate([self.grid, sorted(failing)])
        return bool(failing)


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
