"""The linear rate that a run settles into: the spectral radius of the iteration, linearised at a solution.

**The linearised iteration is NPGA on another problem.** At a solution (x*, lam*) let H be the Hessian of f, P the
Jacobian of prox_{alpha g} and Q that of prox_{(beta/n) h*}. Deviations from the fixed point follow the same recursion
with

    grad f  ->  x -> H x,        prox_{alpha g}  ->  x -> P x,        prox_{(beta/n) h*}  ->  lam -> Q lam,

which is NPGA for quadratic f, g and h with solution zero. P and Q are symmetric with eigenvalues in [0, 1]; in their
eigenbases (a rotation of each x_i and of the coupling space) g and h are sums over coordinates, so the linearised
problem is one of the function family and runs in the compiled path. With f quadratic, g = 0 and h an equality it is the
problem itself, moved to the origin.

**Its spectral radius.** The matrix J of that iteration is never formed. A Krylov space is built for J^m, a stretch of m
iterations of the solver on the linearised problem: if the slowest modes lose a good part of themselves in it, those
that decay quickly are gone, so a few vectors suffice, and each costs one compiled call. When the space is full it is
cut down to its slowest half and grows again (Stewart's Krylov-Schur method), so that no slow mode found is lost. The
state is (x, lam, z), z = B y; a start with y = 0 keeps z in the range of B, which is the subspace that a run can reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from npga import functions as fn
from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Agent, Problem, dense_block
from npga.solver import method_for
from npga.steps import Steps

Array = NDArray[Any]

# Eigenvalues 0 and 1 of P and Q belong to indicators and zero functions, limits of quadratics with weights at these
# bounds.
_LARGE = 1e30
# Ritz values are looked at when the Krylov space has these dimensions; the last is where it is full.
_LOOKS = (8, 12, 16, 20, 24, 32, 40)
# With this dimension it can be told whether the stretch is too short.
_FEW = 24
_SHORTEST, _LONGEST = 8, 1 << 11
_SETTLE = 4
# Iterations after which the caller's clock is looked at.
_PIECE = 256
# How often the space is filled at most, and with a start from nearby steps.
_FILLINGS, _FEWER = 12, 6
# How often the stretch is changed at most, and how many times too long it may be: rounding shows in a longer one.
_STAGES, _TOO_LONG = 8, 8
# No better part of a Ritz value of J^m can be known in double precision.
_ROUNDING = 1e-12
# Squares must not overflow. Compared so that nan counts too.
_HUGE = 1e150


# ------------------------------------------------------------------ the linearised iteration


class Linearisation:
    """Derivatives of a problem at its solution.

    Parameters
    ----------
    problem
        The problem.
    x, lam
        A solution (d,) and its dual (p,), as `npga.reference` gives them.
    """

    def __init__(self, problem: Problem, x: Array, lam: Array) -> None:
        for i, agent in enumerate(problem.agents):
            _need(agent.f.has_hess, f"f of agent {i}", "hess=")
            _need(agent.g.has_prox_jac, f"g of agent {i}", "prox_jac=")
        _need(problem.h.has_prox_jac, "h", "prox_jac")
        self.problem = problem
        self.x, self.lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
        self._blocks = problem.split(self.x)
        pull = problem.A.adjoint(np.broadcast_to(self.lam, (problem.n, problem.p)))
        self._forces = problem.split(problem.f.grad(self.x) + pull)
        self._hessians = [agent.f.hess(own) for agent, own in zip(problem.agents, self._blocks, strict=True)]
        self._total = problem.A.apply(self.x).sum(axis=0)

    @property
    def exact(self) -> bool:
        """Whether the linearised iteration is the iteration itself, at every point."""
        problem = self.problem
        smooth = problem.f.is_quadratic and (problem.g.is_zero or problem.g.is_quadratic)
        return bool(smooth and (problem.h.is_point or problem.h.is_quadratic))

    def at(self, steps: Steps) -> Problem:
        """The linearised problem for these steps; its solution is zero."""
        t = steps.beta / self.problem.n
        q, rotation = _eigen(self.problem.h.conj_prox_jac(self.lam + t * self._total, t))
        parts = [self._part(i, steps.alpha, rotation) for i in range(self.problem.n)]
        # g is (w/2)|x|^2, of one class for all agents, so that they join to one function; zero if nobody's is curved.
        flat = fn.ElasticNet(0.0, 0.0) if any(w.any() for _, _, w in parts) else fn.Zero()
        agents = [
            Agent(A, f, fn.ElasticNet(0.0, w) if w.any() else flat, own.name)
            for own, (A, f, w) in zip(self.problem.agents, parts, strict=True)
        ]
        # prox of t h* for h = (w/2)|z|^2 is a division by 1 + t/w.
        weight = t * np.clip(q, 1.0 / _LARGE, None) / np.clip(1.0 - q, 1.0 / _LARGE, None)
        return Problem(agents, fn.SquaredLoss(np.zeros(self.problem.p), weight))

    def _part(self, i: int, alpha: float, rotation: Array | None) -> tuple[Any, fn.Function, Array]:
        """A and f of an agent, and the weights w of its g, in coordinates in which the Jacobians are diagonal."""
        agent, x = self.problem.agents[i], self._blocks[i]
        A, H = agent.A, self._hessians[i]
        if not x.size:
            return A, agent.f, x
        share, turn = _eigen(agent.g.prox_jac(x - alpha * self._forces[i], alpha))
        if rotation is not None:
            A = rotation.T @ dense_block(A)
        if turn is not None:
            A, H = dense_block(A) @ turn, turn.T @ (np.diag(H) if H.ndim == 1 else H) @ turn
        # prox of alpha g for g = (w/2)|x|^2 is a division by 1 + alpha w.
        weights = (1.0 - share) / np.clip(share, 1.0 / _LARGE, None) / alpha
        return A, _quadratic(H), np.clip(weights, 0.0, _LARGE)


def _need(available: bool, owner: str, derivative: str) -> None:
    if not available:
        raise InputError(
            f"the spectral rate needs second derivatives, which {owner} does not have; use method='search', or give "
            f"its fn.Custom {derivative}..."
        )


def _quadratic(H: Array) -> fn.Function:
    """x.Hx/2; curvature that vanishes stays exactly zero."""
    if H.ndim == 2:
        return fn.Quadratic(0.5 * (H + H.T))
    if (H > 0.0).all():
        return fn.SquaredNorm(H)
    return fn.Zero() if not H.any() else fn.Quadratic(np.diag(H))


def _eigen(jacobian: Array) -> tuple[Array, Array | None]:
    """Eigenvalues within [0, 1] and, for a matrix, its eigenvectors."""
    if jacobian.ndim == 1:
        return np.clip(jacobian, 0.0, 1.0), None
    values, vectors = np.linalg.eigh(0.5 * (jacobian + jacobian.T))
    # Rounding must not turn the eigenvalue 1 of a free direction into one that decays.
    values = np.where(np.abs(values - np.round(values)) < 1e-12, np.round(values), values)
    return np.clip(values, 0.0, 1.0), vectors


# ------------------------------------------------------------------ its spectral radius


@dataclass(frozen=True)
class Rate:
    """A spectral radius and how it was obtained.

    Parameters
    ----------
    radius
        Contraction per iteration; below one means stable.
    converged
        Whether the Ritz value settled; otherwise `radius` is the best estimate.
    iterations
        Work: iterations of the linearised problem.
    stretch
        Iterations m between two Krylov vectors.
    slow
        The modes that decide the rate, summed: a good start for nearby steps; None when they were not found.
    """

    radius: float
    converged: bool
    iterations: int
    stretch: int = _SHORTEST
    slow: Array | None = field(default=None, repr=False, compare=False)


def rate(
    linear: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    seed: int = 0,
    cutoff: float = np.inf,
    near: Rate | None = None,
    tolerance: float = 1e-7,
    check: Callable[[], None] = lambda: None,
) -> Rate:
    """Spectral radius of NPGA on a linearised problem (see `Linearisation.at`).

    Parameters
    ----------
    linear, network, version, steps
        What is iterated.
    seed
        Of the start vector.
    cutoff
        The computation ends early when the Ritz values of a space of some size exceed this: a caller who looks for less
        need not know by how much.
    near
        The rate of nearby steps. Starting from its slow modes saves work, and what settles slowly is left at its
        estimate sooner.
    tolerance
        Of 1 - radius, relative: the largest Ritz value counts when its residual times its condition number, which says
        how far it is from an eigenvalue, is below this. That there is no larger eigenvalue is likely, not certain: the
        start may hold hardly anything of one. Where many modes are equally slow no single one settles; then it also
        counts when two fillings of the space agree.
    check
        Called every now and then; it may raise to end the computation.
    """
    stretch, size = _stretch(linear, network, version, steps, check)
    start = np.random.default_rng(seed).standard_normal(size) / np.sqrt(size)
    start[linear.d + linear.n * linear.p :] = 0.0  # y = 0
    m, longest, fillings = _SHORTEST, _LONGEST, _FILLINGS
    if near is not None and near.slow is not None and near.radius < 1.0:
        start, m, fillings = start + near.slow, near.stretch, _FEWER
        longest = min(4 * _length(near.radius), _LONGEST)
    # Fast modes must be gone from the start, or a slow one that it holds little of is overlooked.
    begun = stretch(start, _SETTLE * m)
    work = _SETTLE * m
    for stage in range(_STAGES):
        limits = _KrylovLimits(tolerance, min(cutoff, 10.0 ** (1 / m)), fillings, longest if stage < _STAGES - 1 else m)
        look = _krylov_schur(partial(stretch, m=m), begun, m, limits)
        work += m * look.products
        fit = min(_length(look.radius), longest)
        if not look.unfit:
            break
        if fit < m:
            begun = stretch(start, _SETTLE * fit)
            work += _SETTLE * fit
        else:
            begun = begun / np.linalg.norm(begun) + look.slow
        m = fit
    settled = look.settled and not look.unfit
    return Rate(look.radius, settled, work, m, look.slow if settled else None)


def _length(radius: float) -> int:
    """A stretch that is long enough for the slowest mode to lose a good part of itself, within reason."""
    change = max(abs(np.log(max(radius, 1e-3))), 1e-7)
    return int(np.clip(0.5 / change, _SHORTEST, _LONGEST))


def _stretch(
    linear: Problem, network: Network, version: Version, steps: Steps, check: Callable[[], None]
) -> tuple[Callable[..., Array], int]:
    """u -> J^m u for u = (x, lam, z) flattened, and the length of u."""
    method = method_for(linear, network, version, steps)
    d, dual = linear.d, linear.n * linear.p
    shape = (linear.n, linear.p)

    def apply(u: Array, m: int) -> Array:
        lam, z = u[d : d + dual].reshape(shape), u[d + dual :].reshape(shape)
        with np.errstate(over="ignore", invalid="ignore"):  # an unstable iteration overflows, and the caller sees it
            state = method.start(u[:d].copy(), lam.copy(), z / steps.beta)
            for done in range(0, m, _PIECE):
                check()
                state = method.advance(state, min(_PIECE, m - done))
            z = steps.beta * method.memory(state)
            z -= z.mean(axis=0)  # rounding must not leave the range of B, where J has the eigenvalue one
        return np.concatenate([state.x, state.lam.ravel(), z.ravel()])

    return apply, d + 2 * dual


@dataclass(frozen=True)
class _KrylovLimits:
    """When to stop: see `rate`."""

    tolerance: float
    cutoff: float
    fillings: int
    longest: int


@dataclass(frozen=True)
class _KrylovLook:
    """What a Krylov space of J^m shows."""

    radius: float  # the largest Ritz value as one of J
    settled: bool  # whether that is good enough
    unfit: bool  # whether the stretch is much too short or too long for it
    products: int  # with J^m so far
    slow: Array | None = None  # the modes that come near the slowest, summed


def _krylov_schur(apply: Callable[[Array], Array], start: Array, m: int, limits: _KrylovLimits) -> _KrylovLook:
    """Largest modulus among the eigenvalues of `apply`, which is J^m, as a radius of J.

    With orthonormal rows V and H of size (k + 1, k) throughout J^m V_k^T = V_{k+1}^T H.
    """
    if not np.abs(start).max() < _HUGE:
        return _overflow(m, 0)
    norm = np.linalg.norm(start)
    if norm == 0.0:
        return _KrylovLook(0.0, True, False, 0)
    full = min(_LOOKS[-1], start.size)
    V, H = np.zeros((full + 1, start.size)), np.zeros((full + 1, full))
    V[0] = start / norm
    products, kept, before = 0, 0, np.nan
    for filling in range(1, limits.fillings + 1):
        for k in range(kept + 1, full + 1):
            y, products = apply(V[k - 1]), products + 1
            if not np.abs(y).max() < _HUGE:
                return _overflow(m, products)
            y, size = _orthogonal(y, V[:k], H[: k + 1, k - 1])
            closed = k == start.size or size <= max(1e-14 * np.abs(H[:k, k - 1]).max(), 1e-290)
            if closed or k in _LOOKS or k == full:
                values, vectors = np.linalg.eig(H[:k, :k])
                top = int(np.abs(values).argmax())
                radius = float(abs(values[top]) ** (1.0 / m))
                part = max(limits.tolerance * min(m * abs(1.0 - radius), 1.0), _ROUNDING)
                short = 2 * m <= min(_length(radius), limits.longest)
                settled = closed or (not short and _error(values, vectors, H[k, :k], top) <= part)
                if k == full and not settled:
                    settled = abs(radius - before) <= limits.tolerance * abs(1.0 - radius)
                over = k >= _FEW and radius > limits.cutoff
                long = m >= _TOO_LONG * _length(radius)
                last = k == full and filling == limits.fillings
                if long or settled or over or last or (k >= _FEW and short):
                    unfit = long or (short and not (settled or over or last))
                    return _KrylovLook(radius, bool(settled), unfit, products, _slow(values, vectors) @ V[:k])
            V[k] = y / size
        before = radius
        try:
            V, H, kept = _cut(V, H, np.abs(values))
        except linalg.LinAlgError:  # values too close to one another to be told apart
            break
    return _KrylovLook(radius, False, False, products)


def _orthogonal(y: Array, V: Array, column: Array) -> tuple[Array, float]:
    """What y holds beyond the rows of V, and its length; coefficients and length are the next column of H."""
    for _ in range(2):  # twice is enough
        h = V @ y
        column[:-1] += h
        y = y - h @ V
    column[-1] = size = float(np.linalg.norm(y))
    return y, size


def _overflow(m: int, products: int) -> _KrylovLook:
    return _KrylovLook(np.inf, True, m > _SHORTEST, products)


def _error(values: Array, vectors: Array, residual: Array, which: int) -> float:
    """Bound to first order on the error of a Ritz value, as a part of it: residual times condition number."""
    unit = np.zeros(values.size)
    unit[which] = 1.0
    try:
        dual = np.linalg.solve(vectors.T, unit)
    except np.linalg.LinAlgError:  # a defective value
        return np.inf
    size = abs(values[which])
    return float(abs(residual @ vectors[:, which]) * np.linalg.norm(dual) / size) if size else np.inf


def _cut(V: Array, H: Array, moduli: Array) -> tuple[Array, Array, int]:
    """Keep about the slowest half of a full space: its Schur vectors, and the vector that the space was to grow by."""
    full = H.shape[1]
    sizes = np.sort(moduli)[::-1]
    among = np.arange(full // 2 - full // 8, full // 2 + full // 8 + 1)
    after = among[np.argmax(sizes[among - 1] - sizes[among])]  # a clear gap, or rounding would decide who stays
    bound = 0.5 * (sizes[after - 1] + sizes[after])
    T, Z, kept = linalg.schur(H[:full], sort=lambda real, imaginary: np.hypot(real, imaginary) > bound)
    smaller, shorter = np.zeros_like(V), np.zeros_like(H)
    smaller[:kept], smaller[kept] = Z[:, :kept].T @ V[:full], V[full]
    shorter[:kept, :kept], shorter[kept, :kept] = T[:kept, :kept], H[full] @ Z[:, :kept]
    return smaller, shorter, kept


def _slow(values: Array, vectors: Array) -> Array:
    """Sum of the Ritz vectors that come near the slowest, of length one."""
    total: Array = np.real(vectors[:, np.abs(values) >= 0.5 * np.abs(values).max()]).sum(axis=1)
    return total / (np.linalg.norm(total) or 1.0)
