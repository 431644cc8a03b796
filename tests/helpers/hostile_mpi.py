"""Ranks of which the third goes wrong in round 17; run under mpiexec."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from helpers.hostile import misbehave
from npga.errors import NpgaError
from npga.runtimes import read_job
from npga.runtimes._command import Command
from npga.runtimes._frame import HEADER_SIZE, Kind, header
from npga.runtimes._mpi_plan import Plan
from npga.runtimes.mpi import party

AT, VILLAIN = 17, 2


def spoil(row, due, fault):
    """Write over the row that is due."""
    values = np.frombuffer(row, due.dtype, offset=HEADER_SIZE).copy()
    if fault == "nan":
        values[0] = np.nan
    elif fault == "run":
        due = due._replace(run=12345)
    elif fault == "sender":
        due = due._replace(sender=77)
    elif fault == "late":
        due = due._replace(round=AT - 1)
    memoryview(row)[:] = header(due) + values.tobytes()


def main():
    path, out, fault = sys.argv[1:]
    rank = party(read_job(path), Command(Path(path), Path(out), False, False, None, None))
    honest = Plan.start

    def start(plan, number, vectors):
        if rank.me != VILLAIN or number != AT or plan._ours._due.kind is not Kind.DATA:
            return honest(plan, number, vectors)
        if fault in ("kill", "freeze", "silent", "crash"):
            misbehave(fault)
        request, due = plan.request, plan._ours._due._replace(sender=VILLAIN, round=AT)

        def lie():
            spoil(plan._outgoing, due, fault)
            request.Start()

        plan.request = SimpleNamespace(Start=lie, Test=request.Test)
        return honest(plan, number, vectors)

    Plan.start = start
    try:
        rank.run()
    except NpgaError as error:
        print(f"{rank.layout.title(rank.me)}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.2)
        sys.exit(1)


if __name__ == "__main__":
    main()
