"""Run the benchmarks: `python benchmarks/run.py`, or `make bench`.

Writes benchmarks.json, benchmarks.csv and benchmarks.png; with --write-docs docs/benchmarks.md too, and the three into
docs/figures. --against names the checkout that the page compares with, whose packages must be installed too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# One thread for NumPy's own products: its idle threads spin, beside whoever comes next.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import against  # noqa: E402
import alternatives  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
from cases import CASES  # noqa: E402


def main():
    options = arguments()
    repeats, seconds = (3, 0.1) if options.quick else (options.repeats, options.seconds)
    results = {"cores": os.cpu_count(), "repeats": repeats, "seconds": seconds, "cases": {}}
    before = Path(options.out) / "benchmarks.json"
    if options.keep and before.exists():
        results = json.loads(before.read_text())
    names = options.case or [name for name in CASES if not (options.quick and name in ("L", "sparse"))]
    for name in names:
        if not options.case and name in results["cases"]:
            continue
        results["cases"][name] = measurements.compare(CASES[name], repeats, seconds) | {"repeats": repeats}
        print(report.case_table({"cases": {name: results["cases"][name]}}).splitlines()[-1], flush=True)
    if not options.case:
        results["cases"] = {name: results["cases"][name] for name in CASES if name in results["cases"]}
        extras(results, repeats, seconds, options)
        print(report.verdicts(results))
    report.write(results, options.out)
    if options.write_docs:
        if options.case or options.quick:
            sys.exit("--write-docs needs the whole run: leave --case and --quick out")
        report.write(results, report.FIGURES)
        report.PAGE.write_text(report.markdown(results, report.TEMPLATE.read_text()))


def extras(results, repeats, seconds, options):
    """Everything that is not a row of the table."""
    if options.against:
        results["against"] = {
            str(threads): dict(against.compare(options.against, threads=threads, repeats=repeats, seconds=seconds))
            for threads in sorted({1, os.cpu_count()})
        }
        results["searches"] = dict(against.searches(options.against, repeats=3 * repeats))
        results["memory before"] = measurements.memory(options.against)
    results["tracing"] = measurements.tracing(repeats)
    print("tracing", json.dumps(results["tracing"]), flush=True)
    results["start-up"] = measurements.start_up()
    print("start-up", json.dumps(results["start-up"]), flush=True)
    results["growth"] = measurements.growth(max(2, repeats // 2), min(seconds, 0.2))
    results["alternatives"] = {name: alternatives.time_to_tolerance(name, repeats) for name in ("S", "M")}
    results["libraries"] = alternatives.libraries()
    if not options.quick:
        results["memory"] = measurements.memory()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="only this row of the table; may be repeated"
    )
    parser.add_argument("--keep", action="store_true", help="go on from benchmarks.json, whose cases are not run again")
    parser.add_argument("--quick", action="store_true", help="short turns, without the two largest cases")
    parser.add_argument("--against", metavar="OTHER", help="the root of another checkout, to compare kernels with")
    parser.add_argument("--repeats", type=int, default=7, help="turns of each contender")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn")
    parser.add_argument("--out", default=str(HERE.parent / "out"), help="folder for the JSON and the plot")
    parser.add_argument("--write-docs", action="store_true", help="fill benchmarks/template.md into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
