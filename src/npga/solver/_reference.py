"""A centralised solution of P1 that is good to the last digits.

Two engines take turns until the residual of the optimality conditions is small enough:

- the primal-dual method of Condat and Vu, with restarts that rebalance the primal against the dual step:
      x+ = prox_{tau g}(x - tau (grad f(x) + A^T lam)),   lam+ = prox_{sigma h*}(lam + sigma A (2 x+ - x));
- semismooth Newton on the fixed-point equations
      F_1 = x - prox_{s g}(x - s (grad f(x) + A^T lam)) = 0,   F_2 = lam - prox_{t h*}(lam + t A x) = 0,
  which ends in a few steps once the first has found the active set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from npga.errors import FunctionError, ProblemError
from npga.problem import Problem, residual
from npga.solver._pga import coupling_norm

Array = NDArray[Any]

# Newton forms a (d + p) x (d + p) matrix; beyond this size only the first engine runs.
_NEWTON_LIMIT = 4000


@dataclass(frozen=True)
class Reference:
    """A centralised solution.

    Parameters
    ----------
    x, lam
        Primal (d,) and dual (p,) solutions.
    kkt
        Residual of the optimality conditions that was reached.
    objective
        f + g, plus h unless it is an indicator.
    iterations
        Numbers of primal-dual and of Newton iterations.
    """

    x: Array
    lam: Array
    kkt: float
    objective: float
    iterations: tuple[int, int]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.x, dtype=dtype)


def reference(problem: Problem, tol: float = 1e-12, max_iters: int = 1_000_000) -> Reference:
    """Solve P1 in one place, to a residual of `tol` where that is attainable.

    Parameters
    ----------
    problem
        Any instance of P1.
    tol
        Residual of the optimality conditions (`Problem.kkt`) to stop at.
    max_iters
        Limit on primal-dual iterations. When it is reached the best point is returned with its honest `kkt`.
    """
    exact = _double(problem)
    central = _Central(exact)
    x, lam = np.zeros(exact.d), np.zeros(exact.p)
    newton_steps = done = 0
    budget, weight = 100, 1.0
    best = (np.inf, x, lam)
    while True:
        point_x, point_lam, taken = central.newton(x, lam, tol)
        newton_steps += taken
        for candidate in ((point_x, point_lam), (x, lam)):
            kkt = central.kkt(*candidate)
            if kkt < best[0]:
                best = (kkt, *candidate)
        if best[0] <= tol or done >= max_iters:
            break
        x, lam, weight = central.primal_dual(x, lam, min(budget, max_iters - done), weight)
        done += min(budget, max_iters - done)
        budget = min(2 * budget, 20_000)
    kkt, x, lam = best
    value = exact.f(x) + exact.g(x)
    if not exact.h.is_indicator:
        value += exact.h(exact.A.apply(x).sum(axis=0))
    return Reference(x, lam, float(kkt), float(value), (done, newton_steps))


def _double(problem: Problem) -> Problem:
    """The problem in double precision."""
    if problem.dtype == np.float64:
        return problem
    from npga.problem import Agent

    agents = [Agent(a.A.astype(np.float64), a.f, a.g, a.name) for a in problem.agents]
    return Problem(agents, problem.h)


class _Central:
    """P1 without its agents: min f(x) + g(x) + h(A x)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.size = problem.d + problem.p
        blocks = [a.A for a in problem.agents if a.A.shape[1]]
        if not blocks:
            raise ProblemError("no agent has a variable; expected at least one A with a column")
        self.A: Any = None
        if all(sparse.issparse(block) for block in blocks) and self.size > _NEWTON_LIMIT:
            self.A = sparse.hstack(blocks, format="csr")
        elif self.size <= _NEWTON_LIMIT:
            self.A = np.hstack([_dense(block) for block in blocks])
        self.norm = self._norm()
        self.s = 1.0 / problem.curvature if problem.curvature else 1.0
        self.t = self.norm**2 / problem.curvature if problem.curvature and self.norm else 1.0

    def apply(self, x: Array) -> Array:
        total: Array = self.problem.A.apply(x).sum(axis=0) if self.A is None else self.A @ x
        return total

    def adjoint(self, lam: Array) -> Array:
        if self.A is not None:
            return np.asarray(self.A.T @ lam)
        return self.problem.A.adjoint(np.broadcast_to(lam, (self.problem.n, self.problem.p)))

    def _norm(self) -> float:
        if isinstance(self.A, np.ndarray):
            return float(np.linalg.norm(self.A, 2))
        return coupling_norm(self.problem)

    def kkt(self, x: Array, lam: Array) -> float:
        found = residual(self.problem, x, self.problem.A.apply(x), lam).kkt
        return found if np.isfinite(found) else np.inf

    def primal_dual(self, x: Array, lam: Array, iterations: int, weight: float) -> tuple[Array, Array, float]:
        """Condat-Vu from (x, lam); restarts from the average when that is better, and rebalances the steps.

        The steps satisfy 1/tau - sigma |A|^2 >= l/2 with sigma = weight/|A|.
        """
        problem = self.problem
        norm = self.norm or 1.0
        curvature = problem.l if np.isfinite(problem.l) else 0.0
        sigma = weight / norm
        tau = 1.0 / (0.5 * curvature + 1.01 * weight * norm)
        x0, lam0 = x, lam
        sum_x, sum_lam = np.zeros_like(x), np.zeros_like(lam)
        for _ in range(iterations):
            ahead = problem.g.prox(x - tau * (problem.f.grad(x) + self.adjoint(lam)), tau)
            lam = problem.h.conj_prox(lam + sigma * self.apply(2.0 * ahead - x), sigma)
            x = ahead
            sum_x += x
            sum_lam += lam
        mean = sum_x / iterations, sum_lam / iterations
        if self.kkt(*mean) < self.kkt(x, lam):
            x, lam = mean
        moved_x, moved_lam = np.linalg.norm(x - x0), np.linalg.norm(lam - lam0)
        if moved_x > 0 and moved_lam > 0:
            weight = float(np.sqrt(weight * np.clip(moved_lam / moved_x, 1e-6, 1e6)))
        return x, lam, weight

    def newton(self, x: Array, lam: Array, tol: float) -> tuple[Array, Array, int]:
        """Damped semismooth Newton; returns where it got to and the number of steps."""
        if self.size > _NEWTON_LIMIT:
            return x, lam, 0
        current = self.kkt(x, lam)
        for taken in range(50):
            try:
                move = self._direction(x, lam)
            except FunctionError:  # a custom function without second derivatives
                return x, lam, taken
            for damping in (1.0, 0.5, 0.25, 0.1, 0.01):
                trial_x, trial_lam = x + damping * move[: x.size], lam + damping * move[x.size :]
                kkt = self.kkt(trial_x, trial_lam)
                if kkt < current:
                    break
            else:
                return x, lam, taken
            x, lam, gain, current = trial_x, trial_lam, kkt / current, kkt
            if current == 0.0 or (current <= tol and gain > 0.1):
                return x, lam, taken + 1
        return x, lam, 50

    def _direction(self, x: Array, lam: Array) -> Array:
        """-J^{-1} F for the fixed-point equations, in the least-squares sense where J is singular."""
        problem, s, t, d = self.problem, self.s, self.t, x.size
        A = self.A
        inner = x - s * (problem.f.grad(x) + self.adjoint(lam))
        outer = lam + t * self.apply(x)
        P = _square(problem.g.prox_jac(inner, s), d)
        Q = _square(problem.h.conj_prox_jac(outer, t), lam.size)
        H = _square(problem.f.hess(x), d)
        F = np.concatenate([x - problem.g.prox(inner, s), lam - problem.h.conj_prox(outer, t)])
        J = np.block([[np.eye(d) - P @ (np.eye(d) - s * H), s * P @ A.T], [-t * Q @ A, np.eye(lam.size) - Q]])
        # Both equations in units of x and lam; scaling the columns keeps the factorisation honest.
        scale = np.concatenate([np.full(d, np.linalg.norm(x) or 1.0), np.full(lam.size, np.linalg.norm(lam) or 1.0)])
        return -scale * _solve(J * scale / scale[:, None], F / scale)


def _solve(J: Array, F: Array) -> Array:
    """J^{-1} F; the least-squares solution of smallest norm where J is singular to working precision."""
    if not (np.isfinite(J).all() and np.isfinite(F).all()):
        return np.zeros_like(F)
    factors, pivots, info = linalg.lapack.dgetrf(J)
    if info == 0:
        rcond, _ = linalg.lapack.dgecon(factors, np.abs(J).sum(axis=0).max())
        if rcond > 1e-14:
            return np.asarray(linalg.lu_solve((factors, pivots), F))
    return np.asarray(linalg.lstsq(J, F, cond=1e-13, lapack_driver="gelsd")[0])


def _square(matrix: Array, size: int) -> Array:
    return np.diag(matrix) if matrix.ndim == 1 else matrix.reshape(size, size)


def _dense(block: Any) -> Array:
    if sparse.issparse(block):
        return np.asarray(block.toarray())
    return block if isinstance(block, np.ndarray) else np.asarray(block @ np.eye(block.shape[1]))
