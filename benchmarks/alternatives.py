"""What a user might pick instead: a generic convex solver, and two libraries for distributed optimisation."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import npga
from cases import CASES, LASSO, RIDGE
from npga import functions as fn
from npga.solver import method_for

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
    """Steps by 256 short runs, of which the better ones go on."""
    rng = np.random.default_rng(0)
    factors = 10.0 ** rng.uniform([-0.5, -1.0, -0.7], [0.3, 2.0, 0.1], (256, 3))
    combos = [replace(steps, alpha=2.0 * a, beta=steps.beta * b, gamma=c) for a, b, c in factors]
    methods = [method_for(problem, network, npga.version("extra"), own) for own in combos]
    runs = [(method, method.start(*problem.start())) for method in methods]
    for count, keep in ((100, 64), (300, 16), (1000, 4)):
        runs = [(method, method.advance(state, count)) for method, state in runs]
        gaps = [np.linalg.norm(np.nan_to_num(state.x - star, nan=np.inf)) for _, state in runs]
        runs = [runs[k] for k in np.argsort(gaps)[:keep]]
    return runs[0][0].steps


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
    """The libraries for distributed optimisation, where they install: what was measured, or why nothing was."""
    return {"decent-bench": _importable("decent_bench") or "installed; not measured", "disropt": _disropt()}


def _importable(module):
    """Nothing, or why a module cannot be imported."""
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"not measured, because it cannot be imported here ({error})"
    return None


def _disropt(iterations=300, step_sizes=(0.01, 0.03, 0.1)):
    """Its dual subgradient method and ours on 13 agents that share ten resources; a sentence."""
    missing = _importable("disropt")
    starter = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if missing or starter is None:
        return missing or "not measured: mpiexec was not found"
    rng, n, p = np.random.default_rng(0), 13, 10
    A = [rng.standard_normal((p, 1 + (i == 0))) for i in range(n)]
    c = [rng.standard_normal(block.shape[1]) for block in A]
    b = sum(block @ wish for block, wish in zip(A, c, strict=True)) - 1.0
    agents = [npga.Agent(block, fn.Shifted(fn.SquaredNorm(1.0), wish)) for block, wish in zip(A, c, strict=True)]
    problem, network = npga.Problem(agents, fn.LessEqual(b)), npga.Network.erdos_renyi(n, 0.3, seed=0)
    solution = npga.reference(problem)
    tuned = npga.tune(problem, network, "nids", reference=solution)
    for _ in range(2):
        begun = time.perf_counter()
        ours = npga.solve(
            problem, network, tuned.version, tuned.steps, tol=None, reference=solution.x, gap_tol=TOLERANCE
        )
        seconds = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        blocks = {f"A{i}": block for i, block in enumerate(A)} | {f"c{i}": wish for i, wish in enumerate(c)}
        np.savez(Path(folder) / "data.npz", W=network.W.toarray(), b=b, star=solution.x, **blocks)
        found = [_party(starter, Path(folder) / "data.npz", n, step, iterations) for step in step_sizes]
    best = min(found, key=lambda row: row["gap"])
    return (
        f"{iterations} iterations of its distributed dual subgradient method took {best['seconds']:.1f} s "
        f"({1e3 * best['seconds'] / iterations:.0f} ms each, one MPI process for each of {n} agents) and reached a "
        f"gap of {best['gap']:.2g} with the best of {len(step_sizes)} step sizes; NIDS here reached {TOLERANCE:g} in "
        f"{1e3 * seconds:.1f} ms ({ours.iterations} iterations, in one process, steps found in {tuned.seconds:.0f} s)"
    )


def _party(starter, data, n, step, iterations):
    script = Path(__file__).parent / "disropt_party.py"
    command = [
        starter,
        "-n",
        str(n),
        sys.executable,
        "-m",
        "mpi4py",
        str(script),
        str(data),
        str(step),
        str(iterations),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])
