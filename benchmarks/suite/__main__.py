"""Run the suite: `make suite`, or `python benchmarks/suite --case 'dispatch-*' --kind default`.

Results are kept in OUT/suite/results.jsonl, so an interrupted run goes on where it stood; --write-docs writes
docs/suite.md and its figure from them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # `python benchmarks/suite` puts this folder there

from suite import CASES, measure, report  # noqa: E402

Row = dict[str, Any]
# Instances that one process measures, one after the other.
PART = 8


def main() -> None:
    """Parse, measure what is not known yet, report."""
    options = arguments()
    if options.one:
        measure.several()
        return
    memory, code = measure.Memory(Path(options.out) / "suite"), measure.code_fingerprint()
    names = [name for name in CASES if any(fnmatch(name, pattern) for pattern in options.case)]
    names = [name for name in names if not (options.quick and CASES[name].large)]
    # Nothing is drawn by `npga.solve` itself: other seeds are other draws of the problem or of the graph.
    work = [(name, seed) for seed in range(options.seeds) for name in names if CASES[name].drawn or seed == 0]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar, ThreadPoolExecutor(options.jobs) as pool:
        task = bar.add_task("suite", total=len(work))

        def some(part: list[tuple[str, int]]) -> None:
            for row in measured(memory, code, part, options):
                bar.update(task, description=f"{row['case']}, seed {row['seed']}")
                print(report.line(row), flush=True)  # a line for each, in a terminal above the bar and in a log
            bar.advance(task, len(part))

        list(pool.map(some, [work[k : k + PART] for k in range(0, len(work), PART)]))
    rows = memory.of(code)
    print("\n".join(report.verdicts(rows)))
    if options.write_docs:
        report.write(rows, HERE.parents[1] / "docs")


def measured(
    memory: measure.Memory, code: str, part: list[tuple[str, int]], options: argparse.Namespace
) -> Iterator[Row]:
    """The rows of some instances, from the memory or new."""
    orders = []
    for name, seed in part:
        known = {kind: memory.get({"case": name, "seed": seed, "kind": kind, "code": code}) for kind in options.kind}
        yield from (row for row in known.values() if row is not None and not options.again)
        wanted = [kind for kind in options.kind if known[kind] is None or options.again]
        if wanted:
            orders.append(order(memory, name, seed, wanted, options))
    for asked, kind, found in measure.apart(orders):
        row = {"case": asked["case"], "seed": asked["seed"], "kind": kind, "code": code, "problem": asked["problem"]}
        memory.add(row | found)
        if kind != "steps":
            yield row | found


def order(memory: measure.Memory, name: str, seed: int, kinds: list[str], options: argparse.Namespace) -> Row:
    """What another process shall measure; steps are found only where none are known for this problem."""
    problem = measure.fingerprint(CASES[name].build(seed))
    steps = memory.get({"case": name, "seed": seed, "kind": "steps", "problem": problem})
    if "tuned" in kinds and steps is None:
        kinds.insert(kinds.index("tuned"), "steps")
    limits = {"limit": options.seconds, "tune_seconds": options.tune_seconds}
    return {"case": name, "seed": seed, "problem": problem, "kinds": kinds, "steps": steps} | limits


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument("--case", action="append", help="pattern of names, such as 'lp-*'; may be repeated")
    parser.add_argument("--kind", action="append", choices=measure.KINDS, help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0, 1, ... of each case (default 1)")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="processor time of all that is done for an instance (default 600)"
    )
    parser.add_argument(
        "--tune-seconds", type=float, default=8.0, help="processor time of tuning a version one way (default 8)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="instances at a time (default 1)")
    parser.add_argument("--quick", action="store_true", help="without the large cases")
    parser.add_argument("--again", action="store_true", help="measure again what is known for this code")
    parser.add_argument("--out", default=str(HERE.parents[1] / "out"), help="folder of results (default out/)")
    parser.add_argument("--write-docs", action="store_true", help="write docs/suite.md and its figure")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.case = options.case or ["*"]
    options.kind = options.kind or list(measure.KINDS)
    return options


if __name__ == "__main__":
    main()
