"""One set-up as a linear system in feedback with the few parts of it that are not affine.

Errors from a solution, in the units sqrt(alpha) for x and sqrt(beta) for lam and z = B y, follow

    x+   = Pg ((I - H) x - A^T lam - w_f - w_g),      v+ = (I - C) lam - z + A (x+ + theta (x+ - x)),
    lam+ = Ph (D v+ - w_h),                           z+ = z + gamma B^2 v+,

where A stands for sqrt(alpha beta) A. A quadratic f, g or h is in H, Pg and Ph exactly. Any other one leaves its least
curvature there, and what is left of it is a channel: w is a gradient at u (u = x for f, x+ for g, lam+ for h*) of a
convex function phi whose curvature is at most `limit`. With xi = (x, lam, zeta), z = E zeta on the range of B,

    xi+ = F xi + G w.

Where A does not reach all directions of R^p and h treats them alike, R^p is split: one loop lives on the range of A,
and a second one, of one coordinate, stands for every direction off it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, helmert

from npga.functions import Function
from npga.networks import Network, Version
from npga.problem import Problem, dense_block
from npga.steps import Steps

Array = NDArray[Any]

# Singular values of A below this part of the largest count as zero.
_RANK = 1e-12
# Entries of A up to which its rank is found in passing.
_SMALL_A = 50_000


@dataclass(frozen=True)
class Curvature:
    """Quadratic parts of f, g and h*, in scaled units: everything that a linear iteration needs."""

    H: Array  # Hessian of f, d x d
    Pg: Array  # Jacobian of the prox of g, d x d
    Ph: Any  # Jacobian of the prox of h*, p x p, or a number where it is one for all directions


@dataclass(frozen=True)
class Channel:
    """A part that is not affine: coordinates, and the most that its curvature can be beyond the least."""

    role: str  # "f", "g" or "h"
    rows: NDArray[np.intp]  # coordinates of x (f, g) or of lam (h) that it acts on
    limit: Array  # largest slope for each of them, infinite if there is none
    # For each of them the number of the convex function that it belongs to: one for each coordinate where the function
    # is separable, else one for each agent. h has one for all.
    groups: NDArray[np.intp]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.rows.size)


@dataclass(frozen=True)
class Loop:
    """xi+ = F xi + G w, on some directions of R^p."""

    F: Array
    G: Array
    A: Array  # sqrt(alpha beta) A on its directions, q x d
    d: int  # coordinates of x
    n: int  # agents
    q: int  # directions of R^p that the loop has; zeta has what is left of the states
    channels: tuple[Channel, ...]  # in the order of the columns of G
    rounding: float  # bound on the norm of the error of [F G], from the rounding of its assembly
    # Inputs whose value in the iteration before is a state too; these states are the last ones.
    kept: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    @property
    def states(self) -> int:
        """N."""
        return int(self.F.shape[0])

    @property
    def inputs(self) -> int:
        """m."""
        return int(self.G.shape[1])

    def columns(self, channel: Channel) -> slice:
        """Where its w is."""
        begin = sum(other.size for other in takewhile(lambda other: other is not channel, self.channels))
        return slice(begin, begin + channel.size)


@dataclass(frozen=True)
class Setting:
    """Everything known exactly, dense and in scaled units."""

    A: Array  # sqrt(alpha beta) A, p x d
    owner: NDArray[np.intp]  # whose column each of A is
    B2: Array  # gamma B^2
    C: Array
    D: Array
    theta: float
    mixing: Array  # a symmetric matrix with entries that are not negative and rows that add up to one
    least: Curvature  # the curvature that is always there
    channels: tuple[Channel, ...]  # what is left, for the directions of R^p undivided
    directions: Array | None  # an orthonormal basis of the range of A if R^p is split
    pinned: bool  # whether h* is linear, so that directions off the range of A keep the mean of lam for ever
    E: Array = field(repr=False)  # an orthonormal basis of the vectors of R^n that add up to zero

    @property
    def n(self) -> int:
        """Agents."""
        return int(self.C.shape[0])

    @property
    def p(self) -> int:
        """Directions of the coupling space."""
        return int(self.A.shape[0])

    def channel(self, role: str) -> Channel | None:
        """The channel of f, g or h, if there is one."""
        return next((one for one in self.channels if one.role == role), None)

    def loops(self, curvature: Curvature | None = None) -> tuple[Loop, ...]:
        """The system, in one or two pieces; with a curvature given, the linear iteration that it makes."""
        at = self.least if curvature is None else curvature
        channels = self.channels if curvature is None else ()
        if self.directions is None:
            return (_loop(self, self.A, at, channels),)
        U = self.directions
        on = _loop(self, U.T @ self.A, at, _narrowed(channels, self.n * U.shape[1]))
        # What of A the basis misses, and by how much it is not orthonormal.
        missed = norm_bound(self.A - U @ (U.T @ self.A)) + 8.0 * self.p * np.finfo(np.float64).eps * norm_bound(self.A)
        moved = 4.0 * (1.0 + self.theta) * missed * (1.0 + norm_bound(np.hstack([on.F, on.G])))
        on = replace(on, rounding=on.rounding + moved)
        here = tuple(one for one in channels if one.role == "h")
        empty = Curvature(np.zeros((0, 0)), np.zeros((0, 0)), at.Ph)
        off = _loop(self, np.zeros((1, 0)), empty, _narrowed(here, self.n))
        off = replace(off, rounding=off.rounding + moved)
        if self.pinned:
            off = _without_mean(off)
        return on, off


def states(problem: Problem) -> int:
    """Number of states N = d + (2 n - 1) q, q <= p the directions that A reaches where h allows a split.

    Where A is too large for its rank to be found in passing, q is the most that the rank can be.
    """
    q = problem.p
    if _alike(problem.h):
        q = min(q, problem.d)
        if 0 < problem.p * problem.d <= _SMALL_A:
            directions = _range(np.hstack([dense_block(block) for block in problem.A.blocks]))
            q = q if directions is None else directions.shape[1]
    return int(problem.d + (2 * problem.n - 1) * q)


def setting(problem: Problem, network: Network, version: Version, steps: Steps) -> Setting:
    """Read a set-up."""
    n, p, t = problem.n, problem.p, steps.beta / problem.n
    alpha = np.array(steps.per_agent(n))
    owner = np.repeat(np.arange(n), problem.sizes)
    A = np.hstack([np.sqrt(a * steps.beta) * dense_block(b) for a, b in zip(alpha, problem.A.blocks, strict=True)])
    B2, C, D = (np.asarray(M.toarray(), np.float64) for M in version.matrices(network, beta=steps.beta))
    H, Pg, channels = _agents(problem, alpha, owner)
    Ph, h = _coupling(problem.h, t, n, p)
    return Setting(
        A=A, owner=owner, B2=steps.gamma * B2, C=C, D=D, theta=steps.theta, mixing=_mixing(network),
        least=Curvature(H, Pg, Ph), channels=(*channels, *h),
        directions=_range(A) if _alike(problem.h) else None,
        pinned=problem.h.is_point, E=np.ascontiguousarray(helmert(n).T),
    )  # fmt: skip


def _agents(problem: Problem, alpha: Array, owner: NDArray[np.intp]) -> tuple[Array, Array, list[Channel]]:
    """Least curvature of f and prox of g, and the channels of what is left."""
    H, Pg = [], []
    left: dict[str, list[tuple[Array, float, bool]]] = {"f": [], "g": []}
    for i, (agent, a) in enumerate(zip(problem.agents, alpha, strict=True)):
        rows = np.flatnonzero(owner == i)
        if not rows.size:
            continue
        f, g, eye = agent.f, agent.g, np.eye(rows.size)
        if f.is_quadratic and f.has_hess:
            H.append(a * square(f.hess(np.zeros(rows.size))))
        else:
            H.append(a * f.mu * eye)
            left["f"].append((rows, a * (f.L - f.mu), f.is_separable))
        if _is_linear(g) and g.has_prox_jac:
            Pg.append(square(g.prox_jac(np.zeros(rows.size), a)))
        else:
            Pg.append(eye / (1.0 + a * g.mu))
            left["g"].append((rows, a * (g.L - g.mu), g.is_separable))
    channels = [_channel(role, parts) for role, parts in left.items() if parts]
    return block_diag(*H, np.zeros((0, 0))), block_diag(*Pg, np.zeros((0, 0))), channels


def _channel(role: str, parts: list[tuple[Array, float, bool]]) -> Channel:
    groups: list[Array] = []
    count = 0
    for rows, _, separable in parts:
        groups.append(count + (np.arange(rows.size) if separable else np.zeros(rows.size, np.intp)))
        count += rows.size if separable else 1
    limit = np.concatenate([np.full(rows.size, limit) for rows, limit, _ in parts])
    return Channel(role, np.concatenate([rows for rows, _, _ in parts]), limit, np.concatenate(groups))


def _coupling(h: Function, t: float, n: int, p: int) -> tuple[Any, list[Channel]]:
    """Jacobian of the prox of t h*, and the channel of what is left of h*; h* is 1/l_h-strong and 1/mu_h-smooth."""
    if _is_linear(h) and h.has_prox_jac:
        Q = square(h.conj_prox_jac(np.zeros(p), t))
        return (float(Q[0, 0]) if np.array_equal(Q, Q[0, 0] * np.eye(p)) else Q), []
    strong = t / h.L
    limit = np.full(n * p, (t / h.mu if h.mu > 0.0 else np.inf) - strong)
    return 1.0 / (1.0 + strong), [Channel("h", np.arange(n * p), limit, np.zeros(n * p, np.intp))]


def _alike(h: Function) -> bool:
    """Whether all directions of R^p are alike to what is known of h."""
    if not (_is_linear(h) and h.has_prox_jac) or h.is_point:
        return True
    return h.dim is None or isinstance(_coupling(h, 1.0, 1, h.dim)[0], float)


def _is_linear(function: Function) -> bool:
    """Whether the prox is affine."""
    return function.is_zero or function.is_quadratic or function.is_point


def square(jacobian: Array) -> Array:
    """A diagonal or a matrix as a matrix."""
    return np.diag(jacobian) if jacobian.ndim == 1 else np.asarray(jacobian, np.float64)


def _range(A: Array) -> Array | None:
    """An orthonormal basis of the range of A, or None if it is everything."""
    if not A.shape[1]:
        return np.zeros((A.shape[0], 0))
    U, values, _ = np.linalg.svd(A, full_matrices=False)
    rank = int(np.sum(values > _RANK * values[0]))
    return None if rank == A.shape[0] else U[:, :rank]


def _mixing(network: Network) -> Array:
    """W, moved towards I until no entry of its diagonal is negative; links of negative weight are left out."""
    W = np.asarray(network.W.toarray(), np.float64)
    off = np.clip(W - np.diag(np.diag(W)), 0.0, None)
    most = off.sum(axis=1).max(initial=0.0)
    off /= max(most, 1.0)
    return off + np.diag(1.0 - off.sum(axis=1))


def _narrowed(channels: tuple[Channel, ...], duals: int) -> tuple[Channel, ...]:
    """The same channels where lam has fewer coordinates; h treats them all alike."""
    return tuple(
        one
        if one.role != "h"
        else Channel("h", np.arange(duals), np.full(duals, one.limit[0]), np.zeros(duals, np.intp))
        for one in channels
    )


def _loop(at: Setting, A: Array, curvature: Curvature, channels: tuple[Channel, ...]) -> Loop:
    """Assemble F and G, and once more with absolute values, which bounds the rounding."""
    q, d = A.shape
    FG = _assemble(at, A, curvature, channels, absolute=False)
    # Fewer than d + 2 n + 12 roundings go into an entry, each relative to what the absolute values add up to.
    size = norm_bound(_assemble(at, A, curvature, channels, absolute=True))
    rounding = (d + 2 * at.n + 12) * np.finfo(np.float64).eps * size
    N = FG.shape[0]
    return Loop(FG[:, :N], FG[:, N:], A, d, at.n, q, channels, float(rounding))


def _assemble(at: Setting, A: Array, here: Curvature, channels: tuple[Channel, ...], absolute: bool) -> Array:
    """[F G] as one matrix; with `absolute` every factor by its absolute value and every difference as a sum."""
    size, minus = (np.abs, 1.0) if absolute else (np.asarray, -1.0)
    n, (q, d) = at.n, A.shape
    duals, rest = n * q, at.E.shape[1] * q
    N, m = d + duals + rest, sum(one.size for one in channels)
    owners = np.zeros((duals, d))
    for j in range(d):
        owners[at.owner[j] * q : (at.owner[j] + 1) * q, j] = A[:, j]
    Ablk, H, Pg, E = size(owners), size(here.H), size(here.Pg), size(at.E)
    I_q, I_d = np.eye(q), np.eye(d)
    start = np.zeros((d, N + m))  # what the prox of g is applied to
    start[:, :d], start[:, d : d + duals] = I_d + minus * H, minus * Ablk.T
    column, h_column = N, None
    for one in channels:
        if one.role == "h":
            h_column = column
        else:
            start[one.rows, column + np.arange(one.size)] = minus
        column += one.size
    x = Pg @ start
    v = (1.0 + at.theta) * (Ablk @ x)
    v[:, :d] += minus * at.theta * Ablk
    v[:, d : d + duals] += np.kron(np.eye(n) + minus * size(at.C), I_q)
    v[:, d + duals : N] += minus * np.kron(E, I_q)
    lam = _across_agents(size(at.D), v)
    if h_column is not None:
        lam[:, h_column : h_column + duals] += minus * np.eye(duals)
    lam = here.Ph * lam if np.ndim(here.Ph) == 0 else np.kron(np.eye(n), size(here.Ph)) @ lam
    zeta = _across_agents(E.T @ size(at.B2), v)
    zeta[:, d + duals : N] += np.eye(rest)
    return np.vstack([x, lam, zeta])


def _across_agents(M: Array, v: Array) -> Array:
    """(M (x) I) v: M acts on the agents and leaves the directions of R^p alone."""
    found: Array = M @ v.reshape(M.shape[1], -1)
    return found.reshape(-1, v.shape[1])


def _without_mean(loop: Loop) -> Loop:
    """The same with lam in the vectors that add up to zero over agents: h* is linear and the mean never moves."""
    T = block_diag(helmert(loop.n).T, np.eye(loop.states - loop.n))
    F = T.T @ loop.F @ T
    return replace(loop, F=F, G=np.zeros((F.shape[0], 0)), rounding=4.0 * loop.n * loop.rounding)


def norm_bound(M: Any) -> float:
    """An upper bound on the spectral norm: sqrt(|M|_1 |M|_inf), rounded up."""
    if not min(M.shape):
        return 0.0
    M = abs(M)
    return float(np.sqrt(M.sum(axis=0).max() * M.sum(axis=1).max()) * (1.0 + 1e-10))
