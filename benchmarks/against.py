"""Two checkouts side by side in one run: `python benchmarks/against.py OTHER --case S --case M`.

Each checkout runs in a process of its own; they take turns on the same problem, so that a slow moment of the machine
hits both. Prints microseconds of an iteration, best and median turn, and the ratio OTHER / this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = ("S", "M", "M2", "graph", "L", "sparse")

WORKER = """
import json, sys, time
sys.path.insert(0, {benchmarks!r})
import numpy as np
import npga
from cases import CASES
from npga.solver import method_for
from timing import undisturbed
def build(name, loss):
    problem, network, steps = CASES[name].build()
    if loss == "logistic":
        from npga import functions as fn
        labels = np.sign(np.random.default_rng(1).standard_normal(problem.p))
        problem = npga.Problem(problem.agents, fn.Logistic(labels, 1.0 / problem.p))
    method = method_for(problem, network, npga.version("extra"), steps, "compiled")
    return method, method.start(np.zeros(problem.d), np.zeros((problem.n, problem.p)))
def search(name, seed):
    problem, network, _ = CASES[name].build()
    with undisturbed():
        begun = time.process_time()
        npga.tune(problem, network, "extra", method="search", seed=seed)
        return time.process_time() - begun
method = state = None
for line in sys.stdin:
    words = json.loads(line)
    if words[0] == "build":
        method, state = build(*words[1:])
        with undisturbed():  # what was learnt about threads beside other processes would stay
            state = method.advance(state, 10)
        print(json.dumps(None), flush=True)
    elif words[0] == "search":
        print(json.dumps(search(*words[1:])), flush=True)
    else:
        with undisturbed():
            begun = time.perf_counter()
            state = method.advance(state, words[1])
            taken = time.perf_counter() - begun
        print(json.dumps(taken / words[1]), flush=True)
"""


class Checkout:
    """A process that runs the kernels of one checkout."""

    def __init__(self, root, threads):
        environment = os.environ | {"PYTHONPATH": str(Path(root) / "src")}
        environment |= {"NPGA_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
        code = WORKER.format(benchmarks=str(HERE))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(other, cases=CASES, loss="squares", threads=1, repeats=7, seconds=0.3):
    """Case by case the microseconds of both sides in every turn, as (case, {"other": [...], "this": [...]})."""
    sides = {name: Checkout(root, threads) for name, root in (("other", other), ("this", HERE.parent))}
    for case in cases:
        for side in sides.values():
            side.ask("build", case, loss)
        one = max(side.ask("run", 2) for side in sides.values())
        one = max(side.ask("run", max(2, int(0.05 / one))) for side in sides.values())
        count = max(5, int(seconds / one))
        times = {name: [] for name in sides}
        for _ in range(repeats):
            for name, side in sides.items():
                times[name].append(1e6 * side.ask("run", count))
        yield case, times
    for side in sides.values():
        side.process.communicate()


def searches(other, cases=("S", "M"), repeats=7):
    """Microseconds of processor time of a whole search for steps on one thread, three seeds in turn, as `compare`."""
    sides = {name: Checkout(root, 1) for name, root in (("other", other), ("this", HERE.parent))}
    for case in cases:
        times = {name: [side.ask("search", case, 0)] for name, side in sides.items()}
        for turn in range(repeats):
            for name, side in sides.items():
                times[name].append(1e6 * side.ask("search", case, turn % 3))
        yield case, {name: found[1:] for name, found in times.items()}
    for side in sides.values():
        side.process.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", help="the root of another checkout")
    parser.add_argument("--case", action="append", help=f"{', '.join(CASES)}; may be repeated")
    parser.add_argument("--loss", default="squares", choices=("squares", "logistic"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--search", action="store_true", help="whole searches for steps, at S and M or the cases named")
    options = vars(parser.parse_args())
    other, cases = options.pop("other"), options.pop("case")
    if options.pop("search"):
        if any(options[name] != parser.get_default(name) for name in ("loss", "threads", "seconds")):
            parser.error("--search takes --case and --repeats: squares, one thread, searches as long as they are")
        found = searches(other, cases or ("S", "M"), options["repeats"])
    else:
        found = compare(other, cases or CASES, **options)
    for case, times in found:
        best = {name: min(found) for name, found in times.items()}
        middle = {name: statistics.median(found) for name, found in times.items()}
        print(
            f"{case:7} other {best['other']:10.2f} ({middle['other']:10.2f}) us   this {best['this']:10.2f} "
            f"({middle['this']:10.2f}) us   ratio {best['other'] / best['this']:.2f} "
            f"({middle['other'] / middle['this']:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
