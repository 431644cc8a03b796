"""Run the suite: `make suite`, or `python benchmarks/suite --case 'dispatch-*' --kind default`.

Results are kept in OUT/suite/results.jsonl, so an interrupted run goes on where it stood; --write-docs writes
docs/suite.md and its figure from them.
"""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # `python benchmarks/suite` puts this folder there

from suite import CASES, measure, report  # noqa: E402


def main() -> None:
    """Parse, measure what is not known yet, report."""
    options = arguments()
    if options.one:
        measure.one(options.one)
        return
    memory, code = measure.Memory(Path(options.out) / "suite"), measure.code_fingerprint()
    names = [name for name in CASES if any(fnmatch(name, pattern) for pattern in options.case)]
    names = [name for name in names if not (options.quick and CASES[name].large)]
    work = [
        (name, seed, kind)
        for seed in range(options.seeds)
        for kind in options.kind
        for name in names
        if CASES[name].drawn or seed == 0  # nothing is drawn by `npga.solve` itself
    ]
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("suite", total=len(work))
        for name, seed, kind in work:
            bar.update(task, description=f"{name}, seed {seed}, {kind}")
            begun = time.perf_counter()
            row = measured(memory, code, name, seed, kind, options)
            bar.advance(task)
            took = f"  ({time.perf_counter() - begun:.0f} s)"
            print(report.line(row) + took, flush=True)  # a line for each, in a terminal above the bar and in a log
    rows = [row for row in memory if row.get("code") == code and row["kind"] != "steps"]
    print("\n".join(report.verdicts(rows)))
    if options.write_docs:
        report.write(rows, HERE.parents[1] / "docs")


def measured(memory: measure.Memory, code: str, name: str, seed: int, kind: str, options: argparse.Namespace) -> dict:
    """A row from the memory, or a new one."""
    label = {"case": name, "seed": seed, "kind": kind, "code": code}
    known = memory.get(label)
    if known is not None and not options.again:
        return known
    steps = None
    if kind == "tuned":
        problem = measure.fingerprint(CASES[name].build(seed))
        wanted = {"case": name, "seed": seed, "kind": "steps", "problem": problem}
        steps = memory.get(wanted)
        if steps is None:
            steps = wanted | measure.apart(name, seed, "steps", options.tune_seconds)
            memory.add(steps)
    row = label | measure.apart(name, seed, kind, options.seconds, steps)
    memory.add(row)
    return row


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument("--case", action="append", help="pattern of names, such as 'lp-*'; may be repeated")
    parser.add_argument("--kind", action="append", choices=measure.KINDS, help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0, 1, ... of each case (default 1)")
    parser.add_argument("--seconds", type=float, default=60.0, help="max_seconds of each run (default 60)")
    parser.add_argument("--tune-seconds", type=float, default=20.0, help="max_seconds of tuning a version (default 20)")
    parser.add_argument("--quick", action="store_true", help="without the large cases")
    parser.add_argument("--again", action="store_true", help="measure again what is known for this code")
    parser.add_argument("--out", default=str(HERE.parents[1] / "out"), help="folder of results (default out/)")
    parser.add_argument("--write-docs", action="store_true", help="write docs/suite.md and its figure")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.case = options.case or ["*"]
    options.kind = options.kind or list(measure.KINDS)
    return options


if __name__ == "__main__":
    main()
