"""Ranks of which the third goes wrong in round 17, or stops where all ranks wait for each other; run under mpiexec."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from mpi4py import MPI

from helpers.hostile import misbehave
from npga.errors import NpgaError
from npga.runtimes import MessageKind, mpi, read_job
from npga.runtimes._wire import HEADER_SIZE, header
from npga.runtimes.inprocess import PartyOptions
from npga.runtimes.mpi import RepeatedCollective, party

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


def stop_at(place, path, out):
    """The real entry point, but the third rank is stopped when it comes to a place where the others wait for it."""
    mpi.import_mpi()
    where, name = {
        "start": (mpi.MpiLink, "open"),
        "hello": (mpi.MpiLink, "_greet"),
        "end": (mpi.MpiLink, "close"),
        "finalize": (mpi, "_finalize"),
    }[place]
    honest = getattr(where, name)

    def stop(*arguments):
        misbehave("freeze")
        return honest(*arguments)

    if MPI.COMM_WORLD.Get_rank() == VILLAIN:
        setattr(where, name, stop)
    mpi._LAST_SECONDS = 4.0
    sys.argv = ["npga.runtimes.mpi", path, "--out", out]
    mpi.main()


def main():
    path, out, fault = sys.argv[1:]
    if fault.startswith("stop at "):
        stop_at(fault.removeprefix("stop at "), path, out)
    rank = party(read_job(path), PartyOptions(Path(path), Path(out), False, False, None, None))
    honest = RepeatedCollective.start

    def start(collective, number, vectors):
        if rank.me != VILLAIN or number != AT or collective._ours._due.kind is not MessageKind.DATA:
            return honest(collective, number, vectors)
        if fault in ("kill", "freeze", "silent", "crash"):
            misbehave(fault)
        request, due = collective.request, collective._ours._due._replace(sender=VILLAIN, round=AT)

        def lie():
            spoil(collective._outgoing, due, fault)
            request.Start()

        collective.request = SimpleNamespace(Start=lie, Test=request.Test)
        return honest(collective, number, vectors)

    RepeatedCollective.start = start
    try:
        rank.run()
    except NpgaError as error:
        print(f"{rank.layout.title(rank.me)}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.2)
        sys.exit(1)


if __name__ == "__main__":
    main()
