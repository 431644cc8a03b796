"""What tuning and design gain on the paper's experiments; prints Markdown tables.

python benchmarks/tuning.py ridge elastic-net logistic --max-seconds 60
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from npga.experiments import EXPERIMENTS
from npga.networks import versions
from npga.theory import certify
from npga.tuning import design, tune


def rows_table(instance, max_seconds):
    """The ten versions, with gamma <= 1 and free; returns both tunings of each."""
    print("| version | rounds | per digit, gamma <= 1 | per digit, free | run, gamma <= 1 | run, free | work | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    tuned = []
    for version in versions(presets=False):
        begun = time.process_time()
        inside, free = (
            tune(
                instance.problem,
                instance.network,
                version,
                reference=instance.reference,
                max_seconds=max_seconds,
                within_theorems=within,
            )
            for within in (True, False)
        )
        seconds = (time.process_time() - begun) / 2
        tuned.append({"assumption-4": inside, "stability": free})
        print(
            f"| {version.name} | {version.rounds} | {inside.iterations(0.1):.1f} | {free.iterations(0.1):.1f} | "
            f"{inside.measured:.0f} | {free.measured:.0f} | {free.work:,} | {seconds:.1f} |",
            flush=True,
        )
    return tuned


def cell(row):
    """Iterations per digit at the spectral radius, and iterations of a run from zero to 1e-8."""
    return f"{row.iterations(0.1):.1f}, {row.measured:.0f}"


def design_table(instance, tuned, max_seconds):
    """Designed versions beside the best of the ten of no more rounds, tuned with gamma <= 1 for Assumption 4."""
    print(
        "| rounds | constraints | best of the ten | best that keeps to Assumption 4 | designed "
        "| fewer in the run | B^2, C, D | work | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for rounds, constraints in ((1, "stability"), (1, "assumption-4"), (2, "stability"), (2, "assumption-4")):
        rows = [pair[constraints] for pair in tuned if pair[constraints].version.rounds <= rounds]
        rows.sort(key=lambda row: row.measured)
        keeping = [
            row
            for row in rows
            if constraints == "assumption-4"
            and certify(instance.problem, instance.network, row.version, replace(row.steps, gamma=1.0)).holds(4)
        ]
        begun = time.process_time()
        found = design(
            instance.problem,
            instance.network,
            rounds,
            rounds,
            constraints=constraints,
            reference=instance.reference,
            max_seconds=max_seconds,
        )
        gain = 1.0 - found.measured / rows[0].measured
        allowed = f"{cell(keeping[0])} ({keeping[0].version.name})" if keeping else ""
        print(
            f"| {rounds} | {constraints} | {cell(rows[0])} ({rows[0].version.name}) | {allowed} | {cell(found)} | "
            f"{100 * gain:+.0f} % | {', '.join(found.formula.values())} | {found.work:,} | "
            f"{time.process_time() - begun:.1f} |",
            flush=True,
        )


def main():
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=sorted(EXPERIMENTS))
    parser.add_argument("--max-seconds", type=float, help="for each tuning; six times as much for each design")
    options = parser.parse_args()
    for name in options.experiments:
        instance = EXPERIMENTS[name]().build(0)
        n, p, d = instance.problem.n, instance.problem.p, instance.problem.d
        print(f"\n{name}: n = {n}, p = {p}, d = {d}, {len(instance.network.edges)} links\n", flush=True)
        tuned = rows_table(instance, options.max_seconds)
        print()
        design_table(instance, tuned, None if options.max_seconds is None else 6 * options.max_seconds)


if __name__ == "__main__":
    main()
