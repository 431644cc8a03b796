"""Run several jobs one after the other in the same processes, so that Python is loaded once: for tests only."""

from __future__ import annotations

import sys
from pathlib import Path

from npga.runtimes import Party, read_job
from npga.runtimes.inprocess import PartyOptions, write_outcome
from npga.runtimes.mpi import party as mpi_party
from npga.runtimes.net import GrpcLink


def main():
    engine, me, *jobs = sys.argv[1:]
    for path in jobs:
        job, out = read_job(path), Path(path).parent / engine
        out.mkdir(exist_ok=True)
        if engine.startswith("mpi"):
            party = mpi_party(job, PartyOptions(Path(path), out, False, False, None, None))
        else:
            party = Party(job, job.layout, int(me), GrpcLink(job, int(me)), out)
        write_outcome(out, party, party.run())


if __name__ == "__main__":
    main()
