"""Runs of NPGA written out, and members of a class of functions: what instance certificates are held against."""

from __future__ import annotations

import numpy as np

import npga
from helpers.oracles import square_root
from npga import functions as fn
from npga.problem import dense_block


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

    Errors may be stacks, along a leading axis. With `only_x` |x_k - x*|, as the theorems bound it.
    """
    B2, C, D = matrices(network, version, steps)
    B = square_root(B2)
    x_star, lam_star, z_star = star
    own = list(zip(problem.agents, steps.per_agent(problem.n), strict=True))
    places = np.cumsum([0, *(agent.A.shape[1] for agent, _ in own)])
    alpha = np.repeat([a for _, a in own], np.diff(places))
    z = B @ start[2]
    z -= z.mean(axis=-2, keepdims=True)  # a square root makes 1e-8 of the 1e-16 that rounding leaves in its null space
    x, lam, z = x_star + start[0], lam_star + start[1], z_star + z
    sizes = []
    for _ in range(iterations + 1):
        squares = np.sum((x - x_star) ** 2 if only_x else (x - x_star) ** 2 / alpha, axis=-1)
        for part in () if only_x else (lam - lam_star, z - z_star):
            squares = squares + np.sum(part**2, axis=(-2, -1)) / steps.beta
        sizes.append(np.sqrt(squares))
        new, pushed = np.empty_like(x), np.zeros_like(lam)
        for i, (agent, a) in enumerate(own):
            if agent.A.shape[1]:
                mine, A = slice(places[i], places[i + 1]), dense_block(problem.A.blocks[i])
                old = x[..., mine]
                new[..., mine] = agent.g.prox(old - a * (agent.f.grad(old) + lam[..., i, :] @ A), a)
                pushed[..., i, :] = ((1.0 + steps.theta) * new[..., mine] - steps.theta * old) @ A.T
        v = lam - C @ lam - z + steps.beta * pushed
        z = z + steps.gamma * B2 @ v
        lam = problem.h.conj_prox(D @ v, steps.beta / problem.n)
        x = new
    return np.array(sizes)


def worst_excess(problem, network, version, steps, instance, starts, iterations, rng, scale=100.0):
    """Largest |xi_k| / (constant rate^k |xi_0|) over random starts far away; rounding near the solution is left out."""
    star = fixed_point(problem, steps)
    start = []
    size = scale ** rng.uniform(-1.0, 1.0, starts)
    for shape in (problem.d, *[(problem.n, problem.p)] * 2):
        part = rng.standard_normal((starts, *np.atleast_1d(shape)))
        start.append((part.T * size * 10.0 ** rng.uniform(-2.0, 2.0, starts)).T)
    sizes = run(problem, network, version, steps, star, start, iterations)
    bound = instance.constant * instance.rate ** np.arange(iterations + 1)[:, None] * sizes[0]
    noise = 1e-8 * (1.0 + np.linalg.norm(star[0]) + np.linalg.norm(star[1]))
    return float(np.max((sizes - noise) / (bound + 1e-300)))


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
