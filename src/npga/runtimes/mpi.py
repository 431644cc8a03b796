"""Agents on MPI ranks: ``mpiexec -n 13 python -m mpi4py -m npga.runtimes.mpi job.toml``.

Always with ``-m mpi4py``, so that one failing rank ends the job instead of hanging it. Ranks hold contiguous blocks of
agents of nearly equal size, whatever the parties of job.toml are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from npga.errors import MissingExtraError
from npga.runtimes._command import Command, run_command
from npga.runtimes._errors import PeerSlow
from npga.runtimes._frame import Due, Kind
from npga.runtimes._job import Job
from npga.runtimes._layout import Layout
from npga.runtimes._link import Hello, nothing, run_number
from npga.runtimes._mpi_plan import Plan
from npga.runtimes._party import Party

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]
# With more ranks than cores a rank that spins keeps the one it waits for from running: it yields at once, and sleeps
# when the wait is longer than a few rounds usually take.
_SPIN_SECONDS = 0.02
_NAP_SECONDS = 0.0005
_GRACE_SECONDS = 1.0
_LATE_TAG = 7


def import_mpi() -> Any:
    """`mpi4py.MPI`, or the sentence that says how to get it."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError("mpi4py", "mpi", f"the MPI engine ({error})") from None
    return MPI


class MpiLink:
    """Neighbourhood collectives on a distributed-graph communicator of the parties.

    Parameters
    ----------
    world
        The communicator; its rank is the party.
    layout
        Who holds which agents.
    patience
        How long a message may take, in seconds.
    """

    def __init__(self, world: MPI.Intracomm, layout: Layout, patience: float) -> None:
        self._world, self._layout, self._patience = world, layout, patience
        self._me = world.Get_rank()
        self._borders = layout.borders(self._me)
        self._run = 0
        self._graph: MPI.Distgraphcomm
        self._aside: MPI.Intracomm
        self._plans: dict[tuple[Kind, int, str], Plan] = {}
        self.bytes_sent = self.bytes_received = 0

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Every rank checks every other's hello: within one cluster they can all be gathered."""
        texts = self._world.allgather(hello.text())
        hellos = {rank: Hello.read(text, self._layout.title(rank)) for rank, text in enumerate(texts)}
        for rank, other in hellos.items():
            hello.agree(other, rank, self._layout)
        self._run = run_number(*hellos.values())
        ranks = list(self._borders)
        self._graph = self._world.Create_dist_graph_adjacent(ranks, ranks, reorder=False)
        self._aside = self._world.Dup()  # for words about a stall, apart from the exchange
        return {rank: hellos[rank] for rank in ranks}

    def exchange(
        self, kind: Kind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """One non-blocking neighbourhood collective; `meanwhile` runs between its start and its end.

        The vectors that come back are valid until the next exchange.
        """
        one: Array = next(iter(vectors.values()))
        key = kind, one.size, one.dtype.char
        plan = self._plans.get(key)
        if plan is None:
            due = Due(self._run, 0, kind, 0, one.size, one.dtype)
            plan = self._plans[key] = Plan(self._graph, self._layout, self._me, due)
        plan.start(number, vectors)
        meanwhile()
        self._wait(plan.request.Test)
        self.bytes_sent += plan.bytes_sent
        self.bytes_received += plan.bytes_received
        return plan.finish(number)

    def _wait(self, test: Callable[[], bool]) -> None:
        # A collective advances by a step in each test: several before the core is given away.
        if test() or test() or test():
            return
        begun = time.perf_counter()
        while not (test() or test() or test()):
            waited = time.perf_counter() - begun
            if waited > self._patience:
                raise self._stalled()
            if waited < _SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(_NAP_SECONDS)

    def _stalled(self) -> PeerSlow:
        """Find out who is silent: everyone who waits says so aside, and who does not is the one to name."""
        word = bytearray(1)
        for rank in self._borders:
            self._aside.Isend(word, rank, _LATE_TAG)
        heard = [self._aside.Irecv(bytearray(1), rank, _LATE_TAG) for rank in self._borders]
        deadline = time.perf_counter() + _GRACE_SECONDS
        while time.perf_counter() < deadline:
            time.sleep(_NAP_SECONDS)
            for request in heard:
                request.Test()
        silent = [rank for rank, request in zip(self._borders, heard, strict=True) if not request.Test()]
        names = ", ".join(self._layout.title(rank) for rank in silent or self._borders)
        why = "not even to say that it waits as well" if silent else "though it is there: it waits for somebody else"
        return PeerSlow(names, f"nothing arrived within {self._patience:g} s, {why}")

    def close(self, error: BaseException | None = None) -> None:
        """After an error the process ends with a code that makes mpi4py abort the whole job."""
        if error is None:
            self._world.Barrier()


def party(job: Job, command: Command) -> Party:
    """The party of this rank."""
    world = import_mpi().COMM_WORLD
    layout = Layout.even(job.network, world.Get_size())
    link = MpiLink(world, layout, job.times.patience)
    quiet = command.report if world.Get_rank() == 0 else None
    return Party(job, layout, world.Get_rank(), link, command.out, command.resume, quiet)


def main() -> None:
    """Entry point of the module."""
    run_command(__doc__, party)


if __name__ == "__main__":
    main()
