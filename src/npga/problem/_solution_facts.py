"""What a point tells of the solution: how far it is at most, and whether its prices are the only ones.

# How far

Let the costs f_i + g_i be strongly convex with moduli mu_i > 0, and e = x - x*.

**h smooth.** With F = f + h o A and x+ = prox_{s g}(x - s grad F(x)) for any s > 0 (s_i for agent i), the vector
v = (x - x+)/s + grad F(x+) - grad F(x) is a subgradient of F + g at x+, so that strong convexity gives

    sum_i mu_i |x_i+ - x_i*|^2 <= sum_i |v_i|^2 / mu_i,       |e| <= |x - x+| + sqrt(sum_i |v_i|^2 / mu_i / min mu).

**h an equality, g = 0.** With r = grad f(x) + A^T lam, q = A x - b and sigma the least positive singular value of
[A_1, ..., A_n], monotonicity gives mu |e|^2 <= |r| |e| + |lam - lam*| |q|, where lam* may be taken such that
sigma |lam - lam*| <= |r| + l |e|. Hence |e| is at most the positive root of

    mu e^2 - (|r| + l |q|/sigma) e - |r| |q|/sigma = 0.

Elsewhere no bound is known without more about the solution: the answer is infinity.

# Which prices

With x* fixed, lam and lam + y both satisfy the optimality conditions for small y where A_i^T y = 0 in all coordinates
that g_i leaves free (elsewhere its subgradient takes up the change) and y = 0 in all rows where h determines lam. So
the prices are unique where the rows of [A_1, ..., A_n] in which lam is free, times the derivative P of the prox of g,
which keeps the free directions, are linearly independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.problem._blocks import dense_block

if TYPE_CHECKING:
    from npga.problem._problem import Problem

Array = NDArray[Any]

# Up to this many entries [A_1, ..., A_n] is written out for its singular values.
_ENTRIES = 1 << 22
# Singular values below this part of the largest count as zero.
_RANK = 1e-9


def error_bound(problem: Problem, x: Array, lam: Array) -> float:
    """A number that |x - x*| does not exceed, up to rounding; infinity where none is known."""
    moduli = np.array([a.f.mu + a.g.mu for a, size in zip(problem.agents, problem.sizes, strict=True) if size])
    if not moduli.size:
        return 0.0
    if not moduli.min() > 0.0:
        return np.inf
    x, lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
    if problem.h.has_grad and np.isfinite(problem.h.L):
        return _smooth(problem, x, moduli)
    if problem.h.is_point and problem.g.is_zero and np.isfinite(problem.l):
        return _equality(problem, x, lam, float(moduli.min()))
    return np.inf


def _smooth(problem: Problem, x: Array, moduli: Array) -> float:
    # Any steps will do; a bound is not far off with those of a gradient method on F.
    curvature = np.array([a.f.L for a in problem.agents]) + problem.h.L * np.square(problem.A.norms).sum()
    steps = np.repeat(1.0 / np.where((curvature > 0.0) & np.isfinite(curvature), curvature, 1.0), problem.sizes)
    slope = _whole_gradient(problem, x)
    ahead = problem.g.prox(x - steps * slope, steps)
    v = (x - ahead) / steps + _whole_gradient(problem, ahead) - slope
    weights = np.repeat(moduli, problem.sizes[problem.sizes > 0])
    return float(np.linalg.norm(x - ahead) + np.sqrt(np.sum(np.square(v) / weights) / moduli.min()))


def _whole_gradient(problem: Problem, x: Array) -> Array:
    z = problem.A.apply(x).sum(axis=0)
    return problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(problem.h.grad(z), (problem.n, problem.p)))


def _equality(problem: Problem, x: Array, lam: Array, mu: float) -> float:
    if problem.p * problem.d > _ENTRIES:
        return np.inf
    A = np.hstack([dense_block(agent.A) for agent in problem.agents])
    values = np.linalg.svd(A, compute_uv=False)
    sigma = float(values[values > 1e-12 * values[0]][-1])
    z = A @ x
    r = float(np.linalg.norm(problem.f.grad(x) + A.T @ lam))
    q = float(np.linalg.norm(z - problem.h.prox(z, 1.0))) / sigma
    b = r + problem.l * q
    return float((b + np.sqrt(b * b + 4.0 * mu * r * q)) / (2.0 * mu))


def duals_are_unique(problem: Problem, x: Array, lam: Array) -> bool | None:
    """Whether no other multiplier goes with x, a solution; None where that is too much work to find out."""
    units, h = problem.units, problem.h
    if problem.p * problem.d > _ENTRIES or units.is_grouped or not (problem.g.has_prox_jac and h.has_prox_jac):
        return None
    x, lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
    terms = problem.A.apply(x)
    force = problem.f.grad(x) + problem.A.adjoint(np.broadcast_to(lam, terms.shape))
    size, strength = units.of_agents(x), np.maximum(units.of_agents(force), units.terms(lam))
    steps, _ = units.steps(size, strength)
    along, rows = steps[units.owner], 1.0 / units.row_steps(steps)
    jacobian = np.asarray(h.conj_prox_jac(lam + rows * terms.sum(axis=0), rows))
    is_free = (jacobian if jacobian.ndim == 1 else np.diag(jacobian)) > 0.5  # a matrix for a ball in one dimension
    for _, pinned in units.smooth:
        is_free[pinned] = False
    if not is_free.any():
        return True
    A = np.hstack([dense_block(agent.A) for agent in problem.agents])[is_free]
    P = np.asarray(problem.g.prox_jac(x - along * force, along))
    M = A * P if P.ndim == 1 else A @ P
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    values = np.linalg.svd(np.divide(M, lengths, out=np.zeros_like(M), where=lengths > 0.0), compute_uv=False)
    return bool(M.shape[0] <= M.shape[1] and values[-1] > _RANK * max(values[0], 1.0))
