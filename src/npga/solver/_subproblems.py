"""Every agent's own problem, solved to a tolerance: what exact dual methods and ADMM do inside an iteration.

    minimise over x_i   f_i(x_i) + g_i(x_i) + <l_i, A_i x_i> + (c_i/2) |A_i x_i - r_i|^2        for i = 1, ..., n

with numbers c_i >= 0 that stay and vectors l_i, r_i that change from call to call. Where g_i = 0 and f_i has second
derivatives, agent i takes Newton's method on its own,

    (H_i(x_i) + c_i A_i^T A_i) (x_i+ - x_i) = -(grad f_i(x_i) + A_i^T (l_i + c_i (A_i x_i - r_i))),

with half the step while its end is too far uphill. It converges quadratically: a step below sqrt(eps) |x_i| leads to
one of about eps |x_i|, and what looks uphill on it is rounding. So such steps are taken whole, and the method ends
where they no longer shrink. A quadratic f_i takes one step from zero, with a matrix that is factorised once. Where c
= 0 and f is quadratic and diagonal, x_i = prox_{g_i/H_i}(-(A_i^T l_i + grad f_i(0))/H_i). All other agents take the
accelerated proximal gradient method (Nesterov's momentum, restarted by the gradient test of O'Donoghue and Candes
2015), side by side with steps of their own, from the last solution.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from npga.errors import NpgaError
from npga.problem import Agent, Problem, dense_block

Array = NDArray[Any]

# Largest block whose normal equations are factorised, and steps after which Newton's method has failed.
_FACTORISED, _NEWTON_STEPS = 2000, 200


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
        the sum of, or, for Newton's method, where rounding begins (above).
    max_inner
        Inner iterations after which a block that is not solved is an error.
    """

    def __init__(self, problem: Problem, c: ArrayLike = 0.0, tol: float = 1e-13, max_inner: int = 100_000) -> None:
        self.problem = problem
        self.c = np.broadcast_to(np.asarray(c, np.float64), problem.n)
        self._tol, self._max_inner = max(tol, 4.0 * float(np.finfo(problem.dtype).eps)), max_inner
        ways = [Newton.where(agent, float(c), self._tol) for agent, c in zip(problem.agents, self.c, strict=True)]
        self._newton = {i: way for i, way in enumerate(ways) if way is not None}
        self._left = [i for i, way in enumerate(ways) if way is None]
        ends = np.concatenate([[0], np.cumsum(problem.sizes)])
        self._slices = [slice(a, b) for a, b in pairwise(ends.tolist())]
        self._columns = np.flatnonzero(np.repeat(np.isin(np.arange(problem.n), self._left), problem.sizes))
        if self._left:
            self._prepare(Problem([problem.agents[i] for i in self._left], problem.h) if self._newton else problem)

    def _prepare(self, rest: Problem) -> None:
        """Steps and momenta of those who iterate with gradients."""
        self._rest, self._own_c = rest, self.c[self._left]
        self._diagonal = None if self._own_c.any() else _positive_diagonal(rest)
        self._agents = np.repeat(np.arange(rest.n), rest.sizes)
        L = np.array([agent.f.L for agent in rest.agents]) + self._own_c * rest.A.norms**2
        self._L = np.where(L > 0.0, L, 1.0)
        mu = np.array([agent.f.mu + _finite_mu(agent.g) for agent in rest.agents])
        root = np.sqrt(np.clip(mu / self._L, 0.0, 1.0))
        self._momentum = np.where(root > 0.0, (1.0 - root) / (1.0 + root), np.nan)

    def solve(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        """The solutions for these l (n x p) and r (None where c = 0), from x; and the inner iterations it took."""
        if not self._newton:
            return self._by_gradients(linear, target, x)
        found, inner = np.empty_like(x), 0
        if self._left:
            aim = None if target is None else target[self._left]
            found[self._columns], inner = self._by_gradients(linear[self._left], aim, x[self._columns])
        for i, own in self._newton.items():
            at = self._slices[i]
            found[at], count = own.solve(linear[i], None if target is None else target[i], x[at])
            if count > _NEWTON_STEPS:
                raise self._unsolved(i, f"{_NEWTON_STEPS} steps of Newton's method")
            inner = max(inner, count)
        return found, inner

    def _by_gradients(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        if self._diagonal is None:
            return self._accelerated(linear, target, x)
        H, rest = self._diagonal, self._rest
        force = rest.f.grad(np.zeros(rest.d, rest.dtype)) + rest.A.adjoint(linear)
        return rest.g.prox(-force / H, 1.0 / H), 0

    def _accelerated(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        problem, L = self._rest, self._L[self._agents].astype(self.problem.dtype)
        c = self._own_c[:, None].astype(problem.dtype)
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
        stands = size[worst] / max(scale[worst], 1e-300)
        raise self._unsolved(self._left[worst], f"{self._max_inner} inner iterations (it stands at {stands:.1e})")

    def _unsolved(self, i: int, spent: str) -> NpgaError:
        return NpgaError(
            f"the own problem of {self.problem.title(i)} was not solved to {self._tol:.0e} within {spent}; "
            "give its f more curvature, or use a method without inner problems: npga.methods()"
        )

    def _sums(self, values: Array) -> Array:
        return np.bincount(self._agents, values, self._rest.n)

    def _blockwise(self, values: Array) -> Array:
        return np.sqrt(self._sums(values.astype(np.float64) ** 2))


def _positive_diagonal(problem: Problem) -> Array | None:
    """The diagonal of all Hessians, if they are diagonal, positive, and g takes a step for each coordinate."""
    if not problem.f.is_quadratic:
        return None
    blocks = [agent.f.hess(np.zeros(int(size))) for agent, size in zip(problem.agents, problem.sizes, strict=True)]
    if any(block.ndim > 1 for block in blocks):
        return None
    H = np.concatenate(blocks).astype(problem.dtype)
    constant = all(
        agent.g.is_separable or np.ptp(b) == 0.0 for agent, b in zip(problem.agents, blocks, strict=True) if b.size
    )
    return H if (H > 0.0).all() and constant else None


def _finite_mu(g: Any) -> float:
    return float(g.mu) if np.isfinite(g.mu) else 0.0


class Newton:
    """The own problem of one agent with g = 0, by Newton's method.

    Parameters
    ----------
    agent, c
        Its f and A, and the weight of the penalty.
    tol
        As in `Subproblems`.
    """

    def __init__(self, agent: Agent, c: float, tol: float) -> None:
        self._f, self._A, self._c, self._tol = agent.f, dense_block(agent.A), c, tol
        self._penalty = c * self._A.T @ self._A
        self._map: tuple[Array, Array] | None = None
        if agent.f.is_quadratic:  # one step from zero is linear in what changes
            zero = np.zeros(self._A.shape[1], self._A.dtype)
            factor = self._factor(zero)
            self._map = -_apply_inverse(factor, agent.f.grad(zero)), -_apply_inverse(factor, self._A.T)

    @classmethod
    def where(cls, agent: Agent, c: float, tol: float) -> Newton | None:
        """The method, if it applies: every point has one step, of which a quadratic f takes the shortest."""
        size = agent.A.shape[1]
        if not (agent.g.is_zero and agent.f.has_hess and size <= _FACTORISED):
            return None
        if agent.f.is_quadratic or agent.f.mu > 0.0 or not size:
            return cls(agent, c, tol)
        bends = np.linalg.eigvalsh(c * dense_block(agent.A).T @ dense_block(agent.A))
        return cls(agent, c, tol) if bends[0] > 1e-12 * bends[-1] else None

    def solve(self, linear: Array, target: Array | None, x: Array) -> tuple[Array, int]:
        """The solution, from x, and the steps it took: none are counted for a quadratic f."""
        pull = linear if target is None else linear - self._c * target
        if self._map is not None:
            return self._map[0] + self._map[1] @ pull, 0
        parts, before = self._parts(pull, x), np.inf
        for count in range(1, _NEWTON_STEPS + 1):
            slope = parts.sum(axis=0)
            if np.linalg.norm(slope) <= self._tol * np.linalg.norm(parts, axis=1).max():
                return x, count
            move = -_apply_inverse(self._factor(x), slope)
            t, down, length = 1.0, float(slope @ move), np.abs(move).max()
            parts = self._parts(pull, x + move)
            if length <= np.sqrt(np.finfo(x.dtype).eps) * np.abs(x).max():
                if length > 0.25 * before:
                    return x, count
                before = length
            else:
                while parts.sum(axis=0) @ move > -0.1 * down and t > 1e-12:
                    t /= 2.0
                    parts = self._parts(pull, x + t * move)
            x = x + t * move
        return x, _NEWTON_STEPS + 1

    def _parts(self, pull: Array, x: Array) -> Array:
        """The terms of the gradient at x."""
        return np.stack([self._f.grad(x), self._A.T @ (pull + self._c * (self._A @ x))])

    def _hess(self, x: Array) -> Array:
        H = np.asarray(self._f.hess(x))
        return np.diag(H) if H.ndim == 1 else H

    def _factor(self, x: Array) -> Any:
        if not x.size:
            return None
        H = self._hess(x) + self._penalty
        try:
            return linalg.cho_factor(H)
        except linalg.LinAlgError:  # a direction that costs nothing: the shortest of all solutions
            return linalg.pinvh(H)


def _apply_inverse(factor: Any, right: Array) -> Array:
    if factor is None:
        return right
    return np.asarray(linalg.cho_solve(factor, right) if isinstance(factor, tuple) else factor @ right)
