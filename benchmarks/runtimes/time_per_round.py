"""Time per round of the engines, side by side with a bare loop over the same library, graph and processes.

    python benchmarks/runtimes/time_per_round.py --engine mpi --out mpi.json
    python benchmarks/runtimes/time_per_round.py --engine grpc --out grpc.json

Each process alternates blocks of three loops, so that whatever else the machine does hits all alike:

* bare: `Neighbor_allgather` (mpi4py), or write to and read from every neighbour's stream (gRPC, the same TLS streams);
* link: `Link.exchange` of the same vectors, with headers and all checks;
* agent: whole iterations of NPGA-EXTRA (one round each), local computation included.

Reported are the medians over blocks in microseconds per round, and the medians of the ratios to the bare loop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import npga
from npga import functions as fn
from npga.runtimes import MessageKind, Party, keygen, read_job, write_job
from npga.runtimes._launch import find_mpiexec
from npga.runtimes._party import hello_of

PINNED = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def make_job(directory: Path, n: int, p: int) -> Path:
    """A ridge-like problem with eight variables for each agent, on a random graph."""
    rng = np.random.default_rng(0)
    agents = [npga.Agent(rng.standard_normal((p, 8)) / p**0.5, fn.SquaredNorm(1.0), fn.L1(0.01)) for _ in range(n)]
    problem = npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(p), 1.0))
    network, steps = npga.Network.erdos_renyi(n, 0.3, seed=0), npga.Steps(0.2, 0.2, 0.5)
    addresses = [f"127.0.0.1:{27000 + k}" for k in range(n)]
    path = write_job(directory, problem, network, "extra", steps, addresses=addresses, checkpoint_rounds=0)
    keygen(read_job(path))
    return path


def measure(party: Party, bare, blocks: int, rounds: int) -> list[dict[str, float]]:
    """Microseconds per round of the three loops, block by block."""
    link, vectors, count = party.link, {party.me: np.ones(party.job.p)}, 0

    def exchange() -> None:
        nonlocal count
        for _ in range(rounds):
            count += 1
            link.exchange(MessageKind.CONTROL, count, vectors)

    def iterate() -> None:
        for _ in range(rounds):
            party._advance()

    rows = []
    for _ in range(blocks):
        row = {}
        for name, loop in (("bare", lambda: bare(rounds)), ("link", exchange), ("agent", iterate)):
            bare(3)  # all processes begin together
            begun = time.perf_counter()
            loop()
            row[name] = 1e6 * (time.perf_counter() - begun) / rounds
        rows.append(row)
    return rows


def mpi_rank(job: Path, blocks: int, rounds: int) -> None:
    """One rank of the MPI measurement; rank 0 prints."""
    from npga.runtimes.inprocess import PartyOptions
    from npga.runtimes.mpi import party as build

    party = build(read_job(job), PartyOptions(job, None, False, "warning", None, None))
    party.link.open(hello_of(party.job, party.layout, party.me))
    graph, me = party.link._graph, party.me
    mine, theirs = np.ones(party.job.p), np.ones((len(party.job.network.neighbors(me)), party.job.p))

    def bare(count: int) -> None:
        for _ in range(count):
            graph.Neighbor_allgather(mine, theirs)

    rows = measure(party, bare, blocks, rounds)
    if me == 0:
        print(json.dumps(rows))
    party.link.close()


def grpc_party(job: Path, me: int, blocks: int, rounds: int) -> None:
    """One process of the gRPC measurement; party 0 prints."""
    from npga.runtimes.net import GrpcLink

    loaded = read_job(job)
    link = GrpcLink(loaded, me)
    for session in link._sessions.values():
        session.look_ahead = bool  # the bare loop reads from the same streams, so nobody else may be about to
    party = Party(loaded, loaded.layout, me, link)
    link.open(hello_of(party.job, party.layout, party.me))
    for number in range(1, 4):  # after these nothing but messages of rounds is under way
        link.exchange(MessageKind.CONTROL, number, {me: np.ones(loaded.p)})
    message, streams = np.ones(loaded.p).tobytes(), [session.stream for session in link._sessions.values()]

    async def loop(count: int) -> None:
        for _ in range(count):
            for stream in streams:
                await stream.write(message)
            for stream in streams:
                await stream.read()

    rows = measure(party, lambda count: link._loop.run_until_complete(loop(count)), blocks, rounds)
    if me == 0:
        print(json.dumps(rows))
    link.close()


def run(engine: str, n: int, p: int, blocks: int, rounds: int) -> dict:
    """Start the processes and put the figures together."""
    with tempfile.TemporaryDirectory() as directory:
        job = make_job(Path(directory), n, p)
        me = [str(Path(__file__).resolve()), "--job", str(job), "--blocks", str(blocks), "--rounds", str(rounds)]
        environment = os.environ | PINNED
        if engine == "mpi":
            command = [find_mpiexec(), "-n", str(n), sys.executable, "-m", "mpi4py", *me, "--engine", "mpi"]
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        else:
            each = [[sys.executable, *me, "--engine", "grpc", "--party", str(k)] for k in range(n)]
            running = [subprocess.Popen(c, env=environment, stdout=subprocess.PIPE, text=True) for c in each]
            said, *_ = [process.communicate()[0] for process in running]
    rows = json.loads(said)
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    ratios = {name: statistics.median(row[name] / row["bare"] for row in rows) for name in ("link", "agent")}
    return {
        "engine": engine, "processes": n, "p": p, "cores": os.cpu_count(), "machine": platform.machine(),
        "blocks": blocks, "rounds_per_block": rounds, "microseconds_per_round": medians, "ratio_to_bare": ratios,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("mpi", "grpc"), required=True)
    parser.add_argument("--processes", type=int, default=13)
    parser.add_argument("--p", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--party", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None and options.engine == "mpi":
        mpi_rank(options.job, options.blocks, options.rounds)
    elif options.job is not None:
        grpc_party(options.job, options.party, options.blocks, options.rounds)
    else:
        report = run(options.engine, options.processes, options.p, options.blocks, options.rounds)
        print(json.dumps(report, indent=1))
        if options.out is not None:
            options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
