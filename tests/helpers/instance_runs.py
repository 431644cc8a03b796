"""Runs of NPGA written out, and members of a class of functions: what instance certificates are held against."""

from __future__ import annotations

import numpy as np

import npga
from helpers.oracles import square_root
from npga import functions as fn


def matrices(network, version, steps):
    """B^2, C and D, dense."""
    return [M.toarray() for M in version.matrices(network, beta=steps.beta)]


def fixed_point(problem, steps):
    """x*, lam* and z* = beta (A_i x_i* - mean), of a problem whose solution is unique."""
    star = npga.reference(problem)
    Ax = problem.A.apply(star.x)
    return star.x, star.lam, steps.beta * (Ax - Ax.mean(axis=0))


def run(problem, network, version, steps, star, start, iterations, only_x=False):
    """|xi_k| for k = 0 .. iterations in the norm of the certificate, from an error (x, lam, y) with z = B y.

    With `only_x` |x_k - x*|, as the theorems bound it.
    """
    B2, C, D = matrices(network, version, steps)
    B = square_root(B2)
    alpha = np.repeat(steps.per_agent(problem.n), problem.sizes)
    x_star, lam_star, z_star = star
    z = B @ start[2]
    z -= z.mean(axis=0)  # the range of B; a square root makes 1e-8 of the 1e-16 that rounding leaves in its null space
    x, lam, z = x_star + start[0], lam_star + start[1], z_star + z
    sizes = []
    for _ in range(iterations + 1):
        parts = (
            (x - x_star) / np.sqrt(alpha),
            (lam - lam_star) / np.sqrt(steps.beta),
            (z - z_star) / np.sqrt(steps.beta),
        )
        sizes.append(np.linalg.norm(x - x_star) if only_x else np.sqrt(sum(np.sum(part**2) for part in parts)))
        new = _prox_g(problem, x - alpha * (problem.f.grad(x) + problem.A.adjoint(lam)), steps)
        v = lam - C @ lam - z + steps.beta * problem.A.apply(new + steps.theta * (new - x))
        z = z + steps.gamma * B2 @ v
        lam = problem.h.conj_prox(D @ v, steps.beta / problem.n)
        x = new
    return np.array(sizes)


def _prox_g(problem, x, steps):
    blocks = zip(problem.agents, problem.split(x), steps.per_agent(problem.n), strict=True)
    return np.concatenate([agent.g.prox(block, a) if block.size else block for agent, block, a in blocks])


def worst_excess(problem, network, version, steps, instance, starts, iterations, rng, scale=100.0):
    """Largest |xi_k| / (constant rate^k |xi_0|) over random starts far away; rounding near the solution is left out."""
    star, worst = fixed_point(problem, steps), 0.0
    for _ in range(starts):
        size = scale ** rng.uniform(-1.0, 1.0)
        start = [size * rng.standard_normal(shape) for shape in (problem.d, *[(problem.n, problem.p)] * 2)]
        start = [part * 10.0 ** rng.uniform(-2.0, 2.0) for part in start]
        sizes = run(problem, network, version, steps, star, start, iterations)
        bound = instance.constant * instance.rate ** np.arange(iterations + 1) * sizes[0]
        noise = 1e-8 * (1.0 + np.linalg.norm(star[0]) + np.linalg.norm(star[1]))
        worst = max(worst, float(np.max((sizes - noise) / (bound + 1e-300))))
    return worst


def members(problem, rng):
    """Other problems of the same class: g and h replaced, f at the ends of its curvature.

    Expects f with mu and L, g without strong convexity, and h smooth with L or without any curvature that is known.
    """
    L = problem.h.L
    smooth = [
        lambda p: fn.SquaredLoss(rng.standard_normal(p), L),
        lambda p: fn.Huber(0.3, L, rng.standard_normal(p)),
        lambda p: fn.Logistic(rng.choice([-1.0, 1.0], p), 4.0 * L),
    ]
    rough = [
        lambda p: fn.SquaredLoss(rng.standard_normal(p), 10.0 ** rng.uniform(-2, 2)),
        lambda p: fn.L1(rng.uniform(0.1, 2.0)),
        lambda p: fn.Quantile(rng.standard_normal(p), 0.3, 1.0),
        lambda p: fn.Huber(0.3, 3.0, rng.standard_normal(p)),
    ]
    fixed = problem.h.is_quadratic or problem.h.is_point
    choices = [lambda p: problem.h] if fixed else (smooth if np.isfinite(L) else rough)
    g = [
        lambda d: fn.Zero(),
        lambda d: fn.L1(rng.uniform(0.1, 3.0)),
        lambda d: fn.Box(-rng.random(), rng.random()),
        lambda d: fn.SquaredNorm(10.0 ** rng.uniform(-1, 2)),
        lambda d: fn.Huber(0.2, 5.0),
        lambda d: fn.NonNegative(),
    ]
    for h in choices:
        own = [g[rng.integers(len(g))] for _ in problem.agents]
        yield npga.Problem(
            [
                npga.Agent(
                    agent.A,
                    _bent(agent.f, agent.A.shape[1], rng),
                    agent.g if agent.g.is_quadratic or not agent.A.shape[1] else make(agent.A.shape[1]),
                )
                for agent, make in zip(problem.agents, own, strict=True)
            ],
            h(problem.p),
        )


def _bent(f, size, rng):
    """A function between the curvatures of f: f itself if quadratic, else one at an end or with a kink."""
    if f.is_quadratic or not size:
        return f
    kind = rng.integers(3)
    if kind < 2:
        return fn.SquaredNorm((f.mu, f.L)[kind] or 1e-3 * f.L, rng.standard_normal(size))
    least = fn.SquaredNorm(f.mu) if f.mu else fn.Zero()
    return fn.Huber(0.3, f.L - f.mu, rng.standard_normal(size)) + least if f.mu else fn.Huber(0.3, f.L)
