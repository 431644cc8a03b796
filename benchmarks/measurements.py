"""The measurements, each a function that returns numbers for the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np

import npga
from baselines import Jax, Naive
from cases import CASES, Case, traffic
from npga.solver import Npga, method_for
from timing import Contender, Continued, Reader, product, race, undisturbed

EXTRA = npga.version("extra")
# A call copies the state; where an iteration takes 100 ms a turn of a few would measure the copies.
LEAST_OURS = 25


def compare(case, repeats, seconds):
    """One row of the table: naive, vectorised, JAX and ours on one thread and on all."""
    problem, network, steps = case.build()
    zero = np.zeros(problem.d), np.zeros((problem.n, problem.p))
    naive, vectorised = Naive(problem, network, steps), Npga(problem, network, EXTRA, steps)
    contenders = {"naive": naive.run, "vectorised": Continued(vectorised)}
    notes = []
    try:
        jax = Jax(problem, network, steps)
        contenders["jax"] = lambda k: jax.run(k)[1].sum()
    except ImportError as error:
        notes.append(f"JAX is not installed ({error})")
    compiled = {}
    for threads in sorted({1, os.cpu_count()}):
        compiled[threads] = on_threads(threads, problem, network, steps)
    for threads, method in compiled.items():
        if threads == 1 or method.order.threads > 1:
            contenders[f"ours-{threads}"] = Continued(method)
    _check(contenders, naive, compiled[1], zero)
    readers = {f"read-{threads}": Reader(threads) for threads in compiled}
    readers |= {f"product-{threads}": Reader(threads, product) for threads in compiled}
    entries = [Contender(name, run, LEAST_OURS if "ours" in name else 3) for name, run in contenders.items()]
    entries += [Contender(name, run, 1) for name, run in readers.items()]
    found = race(entries, repeats, seconds)
    bandwidth = {name: reader.bytes / found.pop(name)["best"] for name, reader in readers.items()}
    row = {"shape": [problem.n, problem.p, problem.d], "traffic": traffic(problem), "times": found, "notes": notes}
    row["bandwidth"] = {name: pace for name, pace in bandwidth.items() if name.startswith("read")}
    row["schedule"] = compiled[max(compiled)].order.name
    for name in found:
        if name.startswith("ours"):
            threads = int(name.split("-")[1])
            pace = row["traffic"] / found[name]["best"]
            row[f"{name} of bandwidth"] = pace / bandwidth[f"read-{threads}"]
            row[f"{name} of product"] = pace / bandwidth[f"product-{threads}"]
    return row


def on_threads(threads, problem, network, steps):
    """The compiled method with so many threads."""
    os.environ["NPGA_THREADS"] = str(threads)
    try:
        return method_for(problem, network, EXTRA, steps, "compiled")
    finally:
        del os.environ["NPGA_THREADS"]


def _check(contenders, naive, method, zero):
    """All run the same iteration: after three of them the iterates agree."""
    x, lam = naive.run(3)
    state = method.advance(method.start(*zero), 3)
    assert np.allclose(state.x, x, rtol=1e-10, atol=1e-13)
    assert np.allclose(state.lam, lam, rtol=1e-10, atol=1e-13)
    if "jax" in contenders:
        assert np.isclose(contenders["jax"](3), lam.sum(), rtol=1e-6, atol=1e-9)


def tracing(repeats):
    """What recording on the default grid costs, as a part of the run.

    The difference of two long runs drowns in noise, so that the cost of one record is measured where there are many:
    from runs that record every tenth iteration and runs that record their ends only, the best of each.
    """
    out = {}
    for name, iterations, length in (("S", 40_000, 20_000), ("M", 10_000, 5_000), ("M2", 5_000, 500)):
        problem, network, steps = CASES[name].build()
        times = {10: [], length: []}
        for turn in range(2 * repeats + 1):
            for every in times:
                with undisturbed():
                    begun = time.perf_counter()
                    npga.solve(problem, network, "extra", steps, tol=None, max_iters=length, record_every=every)
                    taken = time.perf_counter() - begun
                if turn:
                    times[every].append(taken)
        iteration = min(times[length]) / length
        record = (min(times[10]) - min(times[length])) / (length / 10) / iteration
        grid = len(npga.solve(problem, network, "extra", steps, tol=None, max_iters=iterations).trace)
        out[name] = {"iterations": iterations, "records": grid, "record": record, "part": record * grid / iterations}
    return out


def growth(repeats, seconds):
    """Seconds of an iteration as n, p or d grows, and the exponents of a fit on logarithms."""
    axes = {
        "n": [Case("n", n, 100, 5 * n, degree=8) for n in (32, 128, 512, 2048)],
        "p": [Case("p", 32, p, 160, degree=8) for p in (64, 256, 1024, 4096)],
        "d": [Case("d", 32, 200, 32 * d, degree=8) for d in (4, 16, 64, 256)],
    }
    out = {}
    for axis, cases in axes.items():
        sizes = [getattr(case, axis) for case in cases]
        curves = {"ours": [], "vectorised": []}
        for case in cases:
            problem, network, steps = case.build()
            ours, plain = on_threads(1, problem, network, steps), Npga(problem, network, EXTRA, steps)
            runs = {"ours": ours, "vectorised": plain}
            found = race([Contender(k, Continued(m)) for k, m in runs.items()], repeats, seconds)
            for kind in curves:
                curves[kind].append(found[kind]["best"])
        fit = {kind: float(np.polyfit(np.log(sizes), np.log(times), 1)[0]) for kind, times in curves.items()}
        last = {k: float(np.log(t[-1] / t[-2]) / np.log(sizes[-1] / sizes[-2])) for k, t in curves.items()}
        out[axis] = {"sizes": sizes, "seconds": curves, "exponent": fit, "exponent of the last step": last}
    return out


MEMORY = """
import json, pathlib, re, sys
sys.path.insert(0, "benchmarks")
import npga
from cases import CASES, Case
def memory(what):  # of this process alone, its peak or now; ru_maxrss would begin with the parent's
    return 1024 * int(re.search(what + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
def run(case, count):
    problem, network, steps = case.build()
    return npga.solve(problem, network, "extra", steps, tol=None, max_iters=count), problem
run(Case("warm", 4, 8000, 160), 3)
peak, now = memory("VmHWM"), memory("VmRSS")
result, problem = run(CASES["L"], {iterations})
A = sum(agent.A.nbytes for agent in problem.agents)
print(json.dumps({{"A": A, "n x p": result.lam.nbytes, "path": result.path, "process": memory("VmHWM"),
                  "peak": memory("VmHWM") - peak, "beyond": memory("VmHWM") - now}}))
"""


def memory(other=None, iterations=12):
    """Peak memory of a run at L in a process of its own, with this checkout or another.

    `process` is the whole, `beyond` what it has more than just before the data, `peak` more than the highest mark then.
    """
    source = {} if other is None else {"PYTHONPATH": os.path.join(other, "src")}
    found = json.loads(_python(MEMORY.format(iterations=iterations), **source))
    found["limit"] = 1.3 * found["A"] + 6 * found["n x p"]
    return found


FIRST_SOLVE = """
import time; begun = time.perf_counter()
import npga
imported = time.perf_counter() - begun
import sys; sys.path.insert(0, "benchmarks")
from cases import CASES
problem, network, steps = CASES[{case!r}].build()
begun, used = time.perf_counter(), time.process_time()
result = npga.solve(problem, network, "extra", steps, tol=None, max_iters={iterations})
assert result.path == "compiled"
print(imported, time.perf_counter() - begun, time.process_time() - used, time.process_time())
"""


def start_up():
    """Seconds of `import npga`, and of the first solve in a fresh process, on one thread (S) and on several (M2)."""
    out = {}
    for case, iterations in (("S", 1000), ("M2", 10)):
        code = FIRST_SOLVE.format(case=case, iterations=iterations)
        rows = [[float(word) for word in _python(code).split()] for _ in range(4)]
        best = [min(column) for column in zip(*rows, strict=True)]
        out[case] = dict(zip(("import", "first solve", "processor time", "whole process"), best, strict=True))
    return out


def _python(code, **environment):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()
