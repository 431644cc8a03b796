"""The dense grid that tuning is judged against: 5,000 combinations inside the paper's box, by real runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

import npga
from npga.solver import method_for
from npga.tuning import measure

GAMMA = (0.2, 0.4, 0.6, 0.8, 1.0)
_SAMPLE = 100
THETA = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Grid:
    """The best combination, its iterations to the accuracy, and the iterations that the grid costs.

    `work` estimates what running every combination to the accuracy, to divergence or to the limit costs, from a sample;
    `least_work` is what was really run, with combinations abandoned that could not win.
    """

    steps: npga.Steps
    iterations: float
    work: float
    least_work: int


def combinations(problem, alphas=10, betas=20):
    """Steps with gamma <= 1 and theta <= 1; alpha up to 2 / l and alpha beta sigma^2 up to 4, log-spaced."""
    a = np.geomspace(0.02, 2.0, alphas) / problem.curvature
    b = np.geomspace(2e-3, 4.0, betas) / problem.sigma**2
    return [npga.Steps(x, y / x, g, t) for x, y, g, t in itertools.product(a, b, GAMMA, THETA)]


def best_of_grid(problem, network, version, star, *, accuracy=1e-8, limit=20_000, points=None, seed=0):
    """Run every combination, in random order.

    A combination whose gap is above the accuracy when the best one so far has arrived cannot win and is abandoned
    there, which never changes the optimum.
    """
    points = combinations(problem) if points is None else points
    best, chosen, work = float(limit), None, 0
    zero = (np.zeros(problem.d), np.zeros((problem.n, problem.p)))
    goal = accuracy * np.linalg.norm(star)
    rng = np.random.default_rng(seed)
    for k in rng.permutation(len(points)):
        method = method_for(problem, network, version, points[k])
        state, stop = method.start(*zero), int(np.ceil(best))
        while state.iteration < stop:  # in four parts, so that divergence is cheap
            with np.errstate(over="ignore", invalid="ignore"):
                state = method.advance(state, min(max(stop // 4, 100), stop - state.iteration))
            if not np.abs(state.x).max() < 1e6 * np.abs(star).max():
                break
        work += state.iteration
        if state.iteration == stop and np.linalg.norm(state.x - star) <= goal:
            found = measure(problem, network, version, points[k], star, accuracy, limit)
            if found.iterations < best:
                best, chosen = found.iterations, points[k]
    sample = rng.choice(len(points), min(_SAMPLE, len(points)), replace=False)
    full = np.mean([measure(problem, network, version, points[k], star, accuracy, limit).work for k in sample])
    return Grid(chosen, best, full * len(points), work)
