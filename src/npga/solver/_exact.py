"""The recursion with exact gradients of the dual: equation (da2), and PUDA for problem P2.

NPGA replaces the dual gradient A x*(lam) by A x+ after one proximal gradient step. With the exact one,

    x*(lam)_i = argmin f_i(x_i) + g_i(x_i) + <lam_i, A_i x_i>,

it is equation (da2) of Li and Su (2024), `dual-exact`. For problem P2, min sum_i phi_i(x) + g(x), the same lines with
-grad phi_i(x_i) in place of A_i x_i and the prox of g in place of that of h* are PUDA (Alghunaim, Ryu, Yuan and Sayed
2020; equation (puda)), whose rows of Table I are DIGing, EXTRA, DLM, P2D2, Aug-DGM, ATC tracking, exact diffusion and
NIDS. In each case the recursion of `npga.solver` runs, with another way to its local vectors.

Every agent's own problem, solved to a tolerance: what exact dual methods and ADMM do inside an iteration.

    minimise over x_i   f_i(x_i) + g_i(x_i) + <l_i, A_i x_i> + (c_i/2) |A_i x_i - r_i|^2        for i = 1, ..., n

with numbers c_i >= 0 that stay and vectors l_i, r_i that change from call to call. Two closed forms are used where they
exist,

    g = 0, f quadratic                  (H_i + c_i A_i^T A_i) x_i = A_i^T (c_i r_i - l_i) - grad f_i(0)
    c = 0, f quadratic and diagonal     x_i = prox_{g_i/H_i}(-(A_i^T l_i + grad f_i(0))/H_i),      H_i the diagonal

and everything else is solved by the accelerated proximal gradient method (Nesterov's momentum, restarted by the
gradient test of O'Donoghue and Candes 2015), all agents side by side with steps of their own, from the last solution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from npga.errors import NpgaError
from npga.functions import Function
from npga.networks import Network, Version, drive
from npga.problem import LEAST, ConsensusProblem, Problem, dense_block
from npga.solver._loop import Meter
from npga.solver._recursion import Npga, State, iterate
from npga.solver._result import Record, Work
from npga.steps import Steps

Array = NDArray[Any]

# Largest block whose normal equations are factorised.
_FACTORISED = 2000


# ------------------------------------------------------------------ equation (da2)


def needs_curvature(problem: Problem) -> str | None:
    """Why the dual of a problem has no gradient."""
    for i, agent in enumerate(problem.agents):
        strong = agent.f.mu > 0.0 or (agent.g.mu > 0.0 and not agent.g.is_indicator)
        if problem.sizes[i] and not strong:
            return f"f + g of {problem.title(i)} is not strongly convex, so the dual has no gradient there"
    return None


def dual_steps(problem: Problem) -> Steps:
    """beta = 1/L of the dual, whose i-th term is |A_i|^2/mu_i-smooth; alpha is not used."""
    mu = np.array([a.f.mu + (a.g.mu if np.isfinite(a.g.mu) else 0.0) for a in problem.agents])
    norms = problem.A.norms**2
    smooth = max((float(s / m) for s, m in zip(norms, mu, strict=True) if s > 0.0), default=1.0)
    return Steps(alpha=1.0, beta=1.0 / smooth, gamma=1.0)


class DualExact(Npga):
    """NPGA with the sub-problems solved to tolerance, in closed form where there is one; alpha is not used."""

    work, inner_work = Work(products=2, proxes=2), Work(gradients=1, proxes=1)

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        super().__init__(problem, network, version, steps)
        self.name = f"dual-exact {version.name}"
        self._own = Subproblems(problem)

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "dual-exact"}

    def _iterate(self, state: State) -> State:
        inner = 0

        def local() -> tuple[Array, Array]:
            nonlocal inner
            x, inner = self._own.solve(state.lam, None, state.x)
            return x, self.problem.A.apply(x)

        after = drive(iterate(self.problem, self.steps, self.schedule, state, local), self.exchange)
        return replace(after, inner=state.inner + inner)


# ------------------------------------------------------------------ PUDA


@dataclass(frozen=True)
class _Common:
    """The common term g of P2 where the recursion looks for the coupling function h."""

    g: Function

    def conj_prox(self, x: Array, t: float) -> Array:
        return self.g.prox(x, t)


@dataclass(frozen=True)
class _OwnKnowledge:
    h: Any
    n: int


def puda_steps(problem: ConsensusProblem, network: Network, version: Version) -> Steps:
    """A step below the classical limits: 1/L where C = 0, else (1 + lambda_min(W))/(2 L); gamma = 1, theta = 0."""
    L = problem.L if 0.0 < problem.L < np.inf else 1.0
    least = float(network.extreme_eigenvalues()[0])
    has_C = any(abs(c) > 0.0 for c in version.polynomials["C"])
    return Steps(alpha=1.0, beta=(0.5 * (1.0 + least) if has_C else 1.0) / L)


class Puda(Npga):
    """A row of Table I for problem P2; the step is beta, alpha is not used, and x is an n x m array.

    Parameters
    ----------
    consensus, network, version
        What to solve, where, and which row.
    steps
        beta, and gamma and theta, which are 1 and 0 in the published methods.
    """

    work = Work(gradients=1, proxes=1)

    def __init__(self, consensus: ConsensusProblem, network: Network, version: Version, steps: Steps) -> None:
        super().__init__(consensus.p1, network, version, steps)
        self.name = f"puda {version.name}"
        self.consensus = consensus
        self._own: Any = _OwnKnowledge(_Common(consensus.g), consensus.n)

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "puda"}

    def start(self, x0: Array, lam0: Array, z_over_beta: Array | None = None) -> State:  # noqa: ARG002
        """All agents start from their own copy of x."""
        X = x0.reshape(self.consensus.n, self.consensus.m)
        zero = np.zeros_like(X)
        return State(x0, X, zero, zero, v=zero, u=zero, kept=(zero,) * self.schedule.kept_size)

    def _iterate(self, state: State) -> State:
        def local() -> tuple[Array, Array]:
            return state.x, -self.consensus.gradients(state.lam)

        after = drive(iterate(self._own, self.steps, self.schedule, state, local), self.exchange)
        return replace(after, x=after.lam.ravel())

    @property
    def width(self) -> int:
        """Numbers that an agent sends to each neighbour in one round."""
        return self.consensus.m

    def point(self, x: ArrayLike, name: str) -> Array:
        """The n copies end to end, from them or from one point for all."""
        values = np.asarray(x, np.float64)
        if values.shape == (self.consensus.m,):
            values = np.tile(values, (self.consensus.n, 1))
        return self.problem.join(values.ravel(), name)

    def solution(self, state: State) -> Array:
        """The copies, one row for each agent."""
        return state.lam

    def go_on(self, earlier: Any) -> State:
        """From the copies of an earlier result."""
        return self.start(np.asarray(earlier.x, np.float64).ravel(), np.zeros(0))

    def meter(self, x0: Array, reference: Array | None) -> Meter[State]:
        """Residual of P2 in place of that of P1."""
        return ConsensusMeter(self, x0, reference)

    def blame(self) -> str:
        """The only step."""
        return (
            f"The iterates grow without bound: reduce beta (now {self.steps.beta:.3g}; gradients are "
            f"{self.consensus.L:.3g}-Lipschitz), or try network.lazy()."
        )


class ConsensusMeter(Meter[State]):
    """Measures states of PUDA: stationarity of the mean of all copies, and how far they are from it."""

    def __init__(self, method: Puda, x0: Array, reference: Array | None) -> None:
        super().__init__(method.problem, x0, reference)
        self._consensus = method.consensus

    def _record(self, state: State) -> Record:
        problem, unit = self._consensus, self.yardstick
        X = state.lam
        stationarity, spread, moved = problem.residual(X, LEAST * float(np.sqrt(unit.energy)))
        unit.begin(moved**2)
        gap = np.nan
        if self.reference is not None:
            gap = float(np.linalg.norm(state.x - self.reference)) / unit.distance
        objective = problem.objective(X.mean(axis=0)) if np.isfinite(X).all() else np.nan
        return Record(state.iteration, state.rounds, gap, max(stationarity, spread), spread, objective)


# ------------------------------------------------------------------ every agent's own problem


class Subproblems:
    """The agents' own problems of one run.

    Parameters
    ----------
    problem
        Whose f_i, g_i and A_i they are.
    c
        The numbers c_i, one for all agents or one for each.
    tol
        A block is solved when its proximal gradient step is below `tol` times the largest of the terms that it is
        the sum of.
    max_inner
        Inner iterations after which a block that is not solved is an error.
    """

    def __init__(self, problem: Problem, c: ArrayLike = 0.0, tol: float = 1e-13, max_inner: int = 100_000) -> None:
        self.problem = problem
        self.c = np.broadcast_to(np.asarray(c, np.float64), problem.n)
        self._tol, self._max_inner = max(tol, 4.0 * float(np.finfo(problem.dtype).eps)), max_inner
        self._agents = np.repeat(np.arange(problem.n), problem.sizes)
        self._constant = problem.f.grad(np.zeros(problem.d, problem.dtype))
        self._diagonal = self._factors = None
        if problem.f.is_quadratic and problem.g.is_zero and problem.sizes.max(initial=0) <= _FACTORISED:
            self._factors = [self._factor(i) for i in range(problem.n)]
        elif problem.f.is_quadratic and not self.c.any():
            self._diagonal = self._positive_diagonal()
        L = np.array([agent.f.L for agent in problem.agents]) + self.c * problem.A.norms**2
        self._L = np.where(L > 0.0, L, 1.0)
        mu = np.array([agent.f.mu + _finite_mu(agent.g) for agent in problem.agents])
        root = np.sqrt(np.clip(mu / self._L, 0.0, 1.0))
        self._momentum = np.where(root > 0.0, (1.0 - root) / (1.0 + root), np.nan)

    def solve(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        """The solutions for these l (n x p) and r (None where c = 0), from x; and the inner iterations it took."""
        if self._factors is not None:
            return self._by_factors(linear, target), 0
        if self._diagonal is not None:
            H = self._diagonal
            force = self._constant + self.problem.A.adjoint(linear)
            return self.problem.g.prox(-force / H, 1.0 / H), 0
        return self._accelerated(linear, target, x)

    # ---------------------------------------------------------------- closed forms

    def _factor(self, i: int) -> Any:
        agent, size = self.problem.agents[i], int(self.problem.sizes[i])
        if not size:
            return None
        H = np.asarray(agent.f.hess(np.zeros(size)))
        A = dense_block(agent.A)
        H = (np.diag(H) if H.ndim == 1 else H) + self.c[i] * A.T @ A
        try:
            return linalg.cho_factor(H)
        except linalg.LinAlgError:  # a direction that costs nothing: the shortest of all solutions
            return linalg.pinvh(H)

    def _by_factors(self, linear: Array, target: Array | None) -> Array:
        pull = -linear if target is None else self.c[:, None] * target - linear
        right = self.problem.split(self.problem.A.adjoint(pull.astype(self.problem.dtype)) - self._constant)
        factors = self._factors or []
        blocks = [_apply_inverse(factor, block) for factor, block in zip(factors, right, strict=True)]
        return np.concatenate(blocks).astype(self.problem.dtype)

    def _positive_diagonal(self) -> Array | None:
        """The diagonal of all Hessians, if they are diagonal, positive, and g takes a step for each coordinate."""
        problem = self.problem
        blocks = [agent.f.hess(np.zeros(int(size))) for agent, size in zip(problem.agents, problem.sizes, strict=True)]
        if any(block.ndim > 1 for block in blocks):
            return None
        H = np.concatenate(blocks).astype(problem.dtype)
        constant = all(
            agent.g.is_separable or np.ptp(b) == 0.0 for agent, b in zip(problem.agents, blocks, strict=True) if b.size
        )
        return H if (H > 0.0).all() and constant else None

    # ---------------------------------------------------------------- iterations

    def _accelerated(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        problem, L = self.problem, self._L[self._agents].astype(self.problem.dtype)
        c = self.c[:, None].astype(problem.dtype)
        known = self._momentum[self._agents]
        ahead, t = x, np.ones(problem.n)
        force = problem.A.adjoint(linear)
        for inner in range(1, self._max_inner + 1):
            gradient = problem.f.grad(ahead)
            if target is not None:
                force = problem.A.adjoint(linear + c * (problem.A.apply(ahead) - target))
            new = problem.g.prox(ahead - (gradient + force) / L, 1.0 / L)
            step = ahead - new
            size = self._blockwise(L * step)
            scale = np.maximum.reduce([self._blockwise(v) for v in (gradient, force, L * new)])
            if (size <= self._tol * scale).all():
                return new, inner
            restart = self._sums(step * (new - x)) > 0.0
            t = np.where(restart, 1.0, t)
            t_next = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
            momentum = np.where(restart, 0.0, (t - 1.0) / t_next)[self._agents]
            momentum = np.where(np.isnan(known), momentum, known).astype(problem.dtype)
            ahead, x, t = new + momentum * (new - x), new, t_next
            if not np.isfinite(size.sum()):
                return new, inner
        worst = int(np.argmax(size / np.maximum(scale, 1e-300)))
        raise NpgaError(
            f"the own problem of {problem.title(worst)} was not solved to {self._tol:.0e} within {self._max_inner} "
            f"inner iterations (it stands at {size[worst] / max(scale[worst], 1e-300):.1e}); "
            "give its f more curvature, or use a method without inner problems: npga.methods()"
        )

    def _sums(self, values: Array) -> Array:
        return np.bincount(self._agents, values, self.problem.n)

    def _blockwise(self, values: Array) -> Array:
        return np.sqrt(self._sums(values.astype(np.float64) ** 2))


def _finite_mu(g: Any) -> float:
    return float(g.mu) if np.isfinite(g.mu) else 0.0


def _apply_inverse(factor: Any, right: Array) -> Array:
    if factor is None:
        return right
    return np.asarray(linalg.cho_solve(factor, right) if isinstance(factor, tuple) else factor @ right)
