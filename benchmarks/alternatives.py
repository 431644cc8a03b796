"""What a user might pick instead: a generic convex solver, and two libraries for distributed optimisation."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace

import numpy as np

import npga
from cases import CASES, LASSO, RIDGE
from npga.solver import batch

TOLERANCE = 1e-6


def time_to_tolerance(name, repeats):
    """Seconds until |x - x*|/|x*| <= 1e-6 for a generic cvxpy solve (all data in one place) and for ours."""
    problem, network, steps = CASES[name].build()
    star = npga.reference(problem).x
    begun = time.perf_counter()
    chosen = _search(problem, network, steps, star)
    searched = time.perf_counter() - begun
    ours = []
    for _ in range(repeats):
        begun = time.perf_counter()
        result = npga.solve(problem, network, "extra", chosen, tol=None, reference=star, gap_tol=TOLERANCE)
        ours.append(time.perf_counter() - begun)
    out = {"ours": {"best": min(ours), "median": float(np.median(ours)), "iterations": result.iterations}}
    out["ours"]["search for steps"] = searched
    out["ours"]["gap"] = float(result.trace[-1].gap)
    try:
        out["cvxpy"] = _cvxpy(problem, star, repeats)
    except ImportError as error:
        out["cvxpy"] = {"missing": str(error)}
    return out


def _search(problem, network, steps, star):
    """Steps by 256 short runs side by side."""
    rng = np.random.default_rng(0)
    factors = 10.0 ** rng.uniform([-0.5, -1.0, -0.7], [0.3, 2.0, 0.1], (256, 3))
    combos = [replace(steps, alpha=2.0 * a, beta=steps.beta * b, gamma=c) for a, b, c in factors]
    runs = batch(problem, network, npga.version("extra"), combos)
    for count, keep in ((100, 64), (300, 16), (1000, 4)):
        runs.advance(count)
        order = np.argsort(np.nan_to_num(runs.gaps(star), nan=np.inf, posinf=np.inf))[:keep]
        runs.keep(order)
        combos = [combos[k] for k in order]
    return combos[0]


def _cvxpy(problem, star, repeats):
    import cvxpy as cp

    A = np.hstack([agent.A for agent in problem.agents])
    times = []
    for _ in range(repeats):
        x = cp.Variable(problem.d)
        cost = RIDGE / 2 * cp.sum_squares(x) + LASSO * cp.norm1(x)
        cost += problem.h.weight / 2 * cp.sum_squares(A @ x - np.asarray(problem.h.target))
        begun = time.perf_counter()
        cp.Problem(cp.Minimize(cost)).solve()
        times.append(time.perf_counter() - begun)
    gap = float(np.linalg.norm(x.value - star) / np.linalg.norm(star))
    return {"best": min(times), "median": float(np.median(times)), "gap": gap}


def libraries():
    """Which of the libraries for distributed optimisation can be imported here, and why not."""
    found = {}
    for module in ("decent_bench", "disropt"):
        try:
            found[module] = getattr(importlib.import_module(module), "__version__", "installed")
        except Exception as error:
            found[module] = f"not available: {type(error).__name__}: {error}"
    return found
