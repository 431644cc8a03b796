"""A centralised solution of P1 that is good to the last digits.

Two engines take turns until the residual of the optimality conditions is small enough:

- the primal-dual method of Condat and Vu, with restarts that rebalance the primal against the dual step:
      x+ = prox_{tau g}(x - tau (grad f(x) + A^T lam)),   lam+ = prox_{sigma h*}(lam + sigma A (2 x+ - x));
- semismooth Newton on the fixed-point equations
      F_1 = x - prox_{s g}(x - s (grad f(x) + A^T lam)) = 0,   F_2 = lam - prox_{t h*}(lam + t A x) = 0,
  which ends in a few steps once the first has found the active set.

With P, Q the Jacobians of the two proxes and H the Hessian of f, a Newton step solves

    (I - P (I - s H)) dx + s P A^T dlam = -F_1,        (I - Q) dlam - t Q A dx = -F_2.

Coordinates whose row of P is zero (held by g) and rows k with Q_kk < 1 (not tight) are eliminated, so the matrix that
is factorised has the size of what is free and tight, however many rows the coupling has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from npga.errors import FunctionError, ProblemError
from npga.extras import show_progress
from npga.problem import Agent, Problem, dense_block, expect_p1, residual
from npga.solver._obstacles import Obstacle, Watch
from npga.solver._pga import coupling_norm
from npga.solver._result import Status

Array = NDArray[Any]

# Newton factorises a matrix of what is free and tight, and A is formed where it has at most so many entries.
_NEWTON_LIMIT, _DENSE_LIMIT = 4000, 30_000_000
# |A| comes from all singular values where there are at most so many of them.
_SMALL = 300
# Rows of the coupling with 1 - Q_kk above this are eliminated.
_TIGHT = 1e-6
# A Newton step must leave at most this part of the forces; at a solution at most this part of those at zero is left.
_FALLS, _LEFT = 0.99, 1e-6
# Primal-dual iterations between two Newton attempts, at first and at most; how often the clock is looked at.
_FIRST, _LONGEST, _GLANCE = 100, 20_000, 50
# A residual within this factor of tol that was not halved in so many attempts is all that rounding leaves.
_NEARLY, _STALLED = 1e3, 4


@dataclass(frozen=True)
class Reference:
    """A centralised solution, or how far the search for it came: `status` and `message` say which.

    Parameters
    ----------
    x, lam
        Primal (d,) and dual (p,) solutions.
    kkt
        Residual of the optimality conditions that was reached.
    objective
        f + g, plus h unless it is an indicator; inf where no point satisfies the coupling, -inf where the objective
        falls without bound.
    iterations
        Numbers of primal-dual and of Newton iterations.
    status
        `Status.CONVERGED`, or why the search was given up.
    message
        The same as a sentence.
    """

    x: Array
    lam: Array
    kkt: float
    objective: float
    iterations: tuple[int, int]
    status: Status = Status.CONVERGED
    message: str = Status.CONVERGED.message

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.x, dtype=dtype)


def reference(
    problem: Problem,
    tol: float = 1e-12,
    max_iters: int = 1_000_000,
    *,
    max_seconds: float | None = None,
    progress: bool = False,
) -> Reference:
    """Solve P1 in one place, to a residual of `tol` where that is attainable.

    Parameters
    ----------
    problem
        Any instance of P1.
    tol
        Residual of the optimality conditions (`Problem.kkt`) to stop at.
    max_iters
        Limit on primal-dual iterations.
    max_seconds
        Limit on the time; at least one Newton step is tried.
    progress
        Show progress (a bar needs rich; a line every ten seconds where there is no terminal).

    Returns
    -------
    Reference
        The best point that was found. Where that is no solution its `status` is not CONVERGED, and its `message` says
        why: a limit, or an obstacle, such as a coupling that no point satisfies.
    """
    expect_p1(problem)
    search = _Search(_double(problem), tol, max_iters, max_seconds)
    with show_progress("centralised solution", progress) as tell:
        while search.status is None:
            search.turn()
            if tell is not None:
                tell(None, f"{search.done} iterations, {search.newton_steps} Newton steps, residual {search.kkt:.1e}")
    return search.answer()


class _Search:
    """The two engines, the best point so far, and why it is over."""

    def __init__(self, problem: Problem, tol: float, max_iters: int, max_seconds: float | None) -> None:
        self.problem, self._tol, self._max_iters = problem, tol, max_iters
        self._end = np.inf if max_seconds is None else time.perf_counter() + max_seconds
        self._central, self._watch = _Central(problem), Watch(problem)
        self._x, self._lam = np.zeros(problem.d), np.zeros(problem.p)
        self._best, self.kkt = (self._x, self._lam), np.inf
        self._force = self._central.force(self._x, self._lam)
        self._weight, self._budget, self._idle = 1.0, _FIRST, 0
        self.done = self.newton_steps = 0
        self.status: Status | None = None
        self._obstacle: Obstacle | None = None

    def turn(self) -> None:
        """Newton from the present point, then a stretch of primal-dual iterations, unless it is over."""
        before = self.kkt
        x, lam, taken = self._central.newton(self._x, self._lam, self._tol, self._end)
        self.newton_steps += taken
        for point in ((x, lam), (self._x, self._lam)):
            kkt = self._central.kkt(*point)
            if kkt < self.kkt and (kkt > _LEFT or self._central.force(*point) <= _LEFT * self._force):
                self.kkt, self._best = kkt, point
        self._idle = 0 if self.kkt < 0.5 * before else self._idle + 1
        self._obstacle = self._watch.look(self.done, self._x, self._lam)
        self.status = self._verdict()
        if self.status is None:
            self._stride()

    def _stride(self) -> None:
        length = min(self._budget, self._max_iters - self.done)
        self._x, self._lam, self._weight, ran = self._central.primal_dual(
            self._x, self._lam, length, self._weight, self._end
        )
        self.done += ran
        self._budget = min(2 * self._budget, _LONGEST)

    def _verdict(self) -> Status | None:
        rounding = self._idle >= _STALLED and self.kkt <= _NEARLY * self._tol
        if self.kkt <= self._tol or rounding:
            return Status.CONVERGED
        if self._obstacle is not None:
            return self._obstacle.status
        if time.perf_counter() >= self._end:
            return Status.MAX_SECONDS
        return Status.MAX_ITERS if self.done >= self._max_iters else None

    def answer(self) -> Reference:
        """The best point, its value, and what is to be said about it."""
        x, lam = self._best
        problem, status = self.problem, self.status or Status.INTERRUPTED
        value = problem.f(x) + problem.g(x)
        if not problem.h.is_indicator:
            value += problem.h(problem.A.apply(x).sum(axis=0))
        value = {Status.INFEASIBLE: np.inf, Status.UNBOUNDED: -np.inf}.get(status, value)
        return Reference(
            x, lam, float(self.kkt), float(value), (self.done, self.newton_steps), status, self._message(status)
        )

    def _message(self, status: Status) -> str:
        if status is Status.CONVERGED:
            return status.message if self.kkt <= self._tol else f"The residual fell to {self.kkt:.1e} and no further."
        if self._obstacle is not None and status is self._obstacle.status:
            return self._obstacle.message
        limit = "max_seconds" if status is Status.MAX_SECONDS else "max_iters"
        return (
            f"No solution was found: the residual is {self.kkt:.1e}, and not {self._tol:g}, after {self.done} "
            f"primal-dual and {self.newton_steps} Newton iterations. Raise {limit}, or ask for less with tol=."
        )


def _double(problem: Problem) -> Problem:
    """The problem in double precision."""
    if problem.dtype == np.float64:
        return problem
    agents = [Agent(a.A.astype(np.float64), a.f, a.g, a.name) for a in problem.agents]
    return Problem(agents, problem.h)


class _Central:
    """P1 without its agents: min f(x) + g(x) + h(A x)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        blocks = [a.A for a in problem.agents if a.A.shape[1]]
        if not blocks:
            raise ProblemError("no agent has a variable; expected at least one A with a column")
        self.A: Any = None
        if problem.d <= _NEWTON_LIMIT and problem.d * problem.p <= _DENSE_LIMIT:
            self.A = np.hstack([dense_block(block) for block in blocks])
        elif all(sparse.issparse(block) for block in blocks):
            self.A = sparse.hstack(blocks, format="csr")
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
        if isinstance(self.A, np.ndarray) and min(self.A.shape) <= _SMALL:
            return float(np.linalg.norm(self.A, 2))
        return coupling_norm(self.problem)

    def kkt(self, x: Array, lam: Array) -> float:
        found = residual(self.problem, x, self.problem.A.apply(x), lam).kkt
        return found if np.isfinite(found) else np.inf

    def force(self, x: Array, lam: Array) -> float:
        """(|F_1|^2 / s + |F_2|^2 / t)^(1/2): absolute, because far out every relative residual is small."""
        F_1 = x - self.problem.g.prox(x - self.s * (self.problem.f.grad(x) + self.adjoint(lam)), self.s)
        F_2 = lam - self.problem.h.conj_prox(lam + self.t * self.apply(x), self.t)
        return float(np.hypot(np.linalg.norm(F_1) / np.sqrt(self.s), np.linalg.norm(F_2) / np.sqrt(self.t)))

    def primal_dual(
        self, x: Array, lam: Array, iterations: int, weight: float, end: float
    ) -> tuple[Array, Array, float, int]:
        """Condat-Vu from (x, lam); restarts from the average when that is better, and rebalances the steps.

        The steps satisfy 1/tau - sigma |A|^2 >= l/2 with sigma = weight/|A|. Returns the number of iterations too,
        because it ends when the clock shows `end`.
        """
        problem = self.problem
        norm = self.norm or 1.0
        curvature = problem.l if np.isfinite(problem.l) else 0.0
        sigma = weight / norm
        tau = 1.0 / (0.5 * curvature + 1.01 * weight * norm)
        x0, lam0 = x, lam
        sum_x, sum_lam = np.zeros_like(x), np.zeros_like(lam)
        for ran in range(1, iterations + 1):
            ahead = problem.g.prox(x - tau * (problem.f.grad(x) + self.adjoint(lam)), tau)
            lam = problem.h.conj_prox(lam + sigma * self.apply(2.0 * ahead - x), sigma)
            x = ahead
            sum_x += x
            sum_lam += lam
            if ran % _GLANCE == 0 and time.perf_counter() >= end:
                break
        mean = sum_x / ran, sum_lam / ran
        if self.kkt(*mean) < self.kkt(x, lam):
            x, lam = mean
        moved_x, moved_lam = np.linalg.norm(x - x0), np.linalg.norm(lam - lam0)
        if moved_x > 0 and moved_lam > 0:
            weight = float(np.sqrt(weight * np.clip(moved_lam / moved_x, 1e-6, 1e6)))
        return x, lam, weight, ran

    def newton(self, x: Array, lam: Array, tol: float, end: float) -> tuple[Array, Array, int]:
        """Damped semismooth Newton; returns where it got to and the number of steps."""
        if not isinstance(self.A, np.ndarray):
            return x, lam, 0
        current, force = self.kkt(x, lam), self.force(x, lam)
        for taken in range(50):
            try:
                move = self._direction(x, lam)
            except FunctionError:  # a custom function without second derivatives
                return x, lam, taken
            if move is None:
                return x, lam, taken
            for damping in (1.0, 0.5, 0.25, 0.1, 0.01):
                trial_x, trial_lam = x + damping * move[: x.size], lam + damping * move[x.size :]
                kkt, after = self.kkt(trial_x, trial_lam), self.force(trial_x, trial_lam)
                if kkt < current and after < _FALLS * force:
                    break
            else:
                return x, lam, taken
            x, lam, gain, current, force = trial_x, trial_lam, kkt / current, kkt, after
            if current == 0.0 or (current <= tol and gain > 0.1) or time.perf_counter() >= end:
                return x, lam, taken + 1
        return x, lam, 50

    def _direction(self, x: Array, lam: Array) -> Array | None:
        """-J^{-1} F for the fixed-point equations, in the least-squares sense; None where J is too large."""
        problem, s, t, d = self.problem, self.s, self.t, x.size
        inner, outer = x - s * (problem.f.grad(x) + self.adjoint(lam)), lam + t * self.apply(x)
        P = _square(problem.g.prox_jac(inner, s), d)
        Q = problem.h.conj_prox_jac(outer, t)
        M = np.eye(d) - P @ (np.eye(d) - s * _square(problem.f.hess(x), d))
        first, second = problem.g.prox(inner, s) - x, problem.h.conj_prox(outer, t) - lam
        # Rows that are not tight: dlam = (t Q A dx - F_2) / (1 - Q).
        loose = Q < 1.0 - _TIGHT if Q.ndim == 1 else np.zeros(lam.size, bool)
        slack, A = 1.0 - Q[loose] if Q.ndim == 1 else np.ones(0), self.A[loose]
        M += s * P @ (A.T @ ((t * (1.0 - slack) / slack)[:, None] * A))
        first = first - s * P @ (A.T @ (second[loose] / slack))
        # Coordinates that g holds: dx = -F_1.
        held, tight = ~P.any(axis=1), ~loose
        move, free = np.where(held, first, 0.0), ~held
        if int(free.sum() + tight.sum()) > _NEWTON_LIMIT:
            return None
        q = np.diag(Q[tight]) if Q.ndim == 1 else Q.reshape(lam.size, lam.size)
        B, here = self.A[tight], np.ix_(free, free)
        right = np.concatenate([(first - M @ move)[free], second[tight] + t * q @ (B @ move)])
        J = np.block([[M[here], s * (P @ B.T)[free]], [-t * q @ B[:, free], np.eye(len(q)) - q]])
        # Both equations in units of x and lam; scaling the columns keeps the factorisation honest.
        scale = np.repeat([np.linalg.norm(x) or 1.0, np.linalg.norm(lam) or 1.0], [free.sum(), tight.sum()])
        found = scale * _solve(J * scale / scale[:, None], right / scale)
        move[free] = found[: free.sum()]
        dual = np.zeros(lam.size)
        dual[tight] = found[free.sum() :]
        dual[loose] = (t * (1.0 - slack) * (A @ move) + second[loose]) / slack
        return np.concatenate([move, dual])


def _solve(J: Array, F: Array) -> Array:
    """J^{-1} F; the least-squares solution of smallest norm where J is singular to working precision."""
    if not (F.size and np.isfinite(J).all() and np.isfinite(F).all()):
        return np.zeros_like(F)
    factors, pivots, info = linalg.lapack.dgetrf(J)
    if info == 0:
        rcond, _ = linalg.lapack.dgecon(factors, np.abs(J).sum(axis=0).max())
        if rcond > 1e-14:
            return np.asarray(linalg.lu_solve((factors, pivots), F))
    return np.asarray(linalg.lstsq(J, F, cond=1e-13, lapack_driver="gelsy")[0])


def _square(matrix: Array, size: int) -> Array:
    return np.diag(matrix) if matrix.ndim == 1 else matrix.reshape(size, size)
