"""Ranks of which the third goes wrong in round 17; run under mpiexec."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from hostile import misbehave
from npga.errors import NpgaError
from npga.runtimes import read_job
from npga.runtimes._command import Command
from npga.runtimes._frame import Kind
from npga.runtimes._mpi_plan import Plan
from npga.runtimes.mpi import party

AT, VILLAIN = 17, 2


def spoil(plan, fault):
    """Change what is about to be sent."""
    heads, values = plan._out_heads, plan._out_values[0][1]
    if fault == "nan":
        values[0] = np.nan
    elif fault == "run":
        heads["run"] = 12345
    elif fault == "sender":
        heads["sender"] = 77
    elif fault == "late":
        heads["round"] = AT - 1


def main():
    path, out, fault = sys.argv[1:]
    rank = party(read_job(path), Command(Path(path), Path(out), False, False, None, None))
    honest = Plan.start

    def start(plan, kind, number, vectors):
        if rank.me != VILLAIN or number != AT or kind is not Kind.DATA:
            return honest(plan, kind, number, vectors)
        if fault in ("kill", "freeze", "silent", "crash"):
            misbehave(fault)
        collective = plan._collective

        def lying(*buffers):
            spoil(plan, fault)
            return collective(*buffers)

        plan._collective = lying
        return honest(plan, kind, number, vectors)

    Plan.start = start
    try:
        rank.run()
    except NpgaError as error:
        print(f"{rank.layout.title(rank.me)}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.2)
        sys.exit(1)


if __name__ == "__main__":
    main()
