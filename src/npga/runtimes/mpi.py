"""Agents on MPI ranks: ``mpiexec -n 13 python -m mpi4py -m npga.runtimes.mpi job.toml``.

Always with ``-m mpi4py``, so that one failing rank ends the job instead of hanging it. Ranks hold contiguous blocks of
agents of nearly equal size, whatever the parties of job.toml are.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from npga.extras import load
from npga.runtimes._faults import FAREWELL_SIZE, NOTICE, ExitCode, Farewell, PeerLost, PeerSlow, farewell_of
from npga.runtimes._job import Job, Layout
from npga.runtimes._party import LOG, Party, nothing
from npga.runtimes._wire import Due, Hello, MessageKind, PacketForm, round_bytes, run_number
from npga.runtimes.inprocess import PartyOptions, run_process

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]
# With more ranks than cores a rank that spins keeps the one it waits for from running: it yields at once, and sleeps
# when the wait is longer than a few rounds usually take.
_SPIN_SECONDS = 0.02
_NAP_SECONDS = 0.0005
_GRACE_SECONDS = 1.0
_LATE_TAG, _FAREWELL_TAG = 7, 8
_PARTING_SECONDS = 8.0
_LAST_SECONDS = 60.0
_WORD_SECONDS = 0.3


def import_mpi() -> Any:
    """`mpi4py.MPI`, or the sentence that says how to get it."""
    return load("mpi4py.MPI", "mpi", "the MPI engine")


class MpiLink:
    """Neighbourhood collectives on a distributed-graph communicator of the parties; the rank in `world` is the party.

    A message may take `patience` seconds, and the other ranks `connect` at the start.
    """

    def __init__(self, world: MPI.Intracomm, layout: Layout, patience: float, connect: float = 30.0) -> None:
        self._world, self._layout, self._patience, self._connect = world, layout, patience, connect
        self._me = world.Get_rank()
        self._borders = layout.borders(self._me)
        self._run = 0
        self._graph: MPI.Distgraphcomm
        self._aside: MPI.Intracomm | None = None
        self._said: list[MPI.Request] = []
        self._round = 0
        self._collectives: dict[tuple[MessageKind, int, str], RepeatedCollective] = {}
        self.bytes_sent = self.bytes_received = 0
        self.waits_for: tuple[int, ...] = ()
        self.waited: dict[int, float] = {}  # a collective does not tell its neighbours apart

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Every rank checks every other's hello: within one cluster they can all be gathered."""
        if not self._wait(self._world.Ibarrier().Test, self._connect):
            raise PeerSlow("another rank", f"not all had come within {self._connect:g} s")
        with ending_after(self._connect, self._world, "the ranks did not come together"):
            return self._greet(hello)

    def _greet(self, hello: Hello) -> Mapping[int, Hello]:
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
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """One non-blocking neighbourhood collective; `meanwhile` runs between its start and its end.

        The vectors that come back are valid until the next exchange.
        """
        self._round = number
        one: Array = next(iter(vectors.values()))
        key = kind, one.size, one.dtype.char
        collective = self._collectives.get(key)
        if collective is None:
            due = Due(self._run, 0, kind, 0, one.size, one.dtype)
            collective = self._collectives[key] = RepeatedCollective(self._graph, self._layout, self._me, due)
        collective.start(number, vectors)
        meanwhile()
        if not self._wait(collective.request.Test, self._patience):
            raise self._stalled()
        self.bytes_sent += collective.bytes_sent
        self.bytes_received += collective.bytes_received
        return collective.finish(number)

    def _wait(self, test: Callable[[], bool], patience: float) -> bool:
        """Whether the collective has ended within the patience."""
        # A collective advances by a step in each test: several before the core is given away.
        if test() or test() or test():
            return True
        begun = time.perf_counter()
        self.waits_for = tuple(self._borders)
        while not (test() or test() or test()):
            waited = time.perf_counter() - begun
            if waited > patience:
                return False
            NOTICE.heed()
            if waited < _SPIN_SECONDS:
                os.sched_yield()
            else:
                self._hear_farewell()
                time.sleep(_NAP_SECONDS)
        self.waits_for = ()
        return True

    def _stalled(self) -> PeerSlow:
        """Find out who is silent: everyone who waits says so aside, and who does not is the one to name."""
        assert self._aside is not None
        self._say_aside(bytes(1), _LATE_TAG)
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
        """After an error the neighbours are told why; the process ends with a code that makes mpi4py abort the job."""
        if error is not None:
            with contextlib.suppress(Exception):
                farewell = farewell_of(error, self._layout.parties[self._me][0], self._round)
                self._say_aside(farewell.pack(), _FAREWELL_TAG)
        elif not self._wait(self._world.Ibarrier().Test, self._patience):
            late = f"rank {self._me}: results are written, but not all ranks ended within {self._patience:g} s"
            _end(late, self._world.Abort)

    def part(self) -> None:
        """After an error, wait a little until all have saved and left word: mpi4py then aborts those who have not."""
        if self._aside is not None:
            test, deadline = self._aside.Ibarrier().Test, time.perf_counter() + _PARTING_SECONDS
            while not test() and time.perf_counter() < deadline:
                time.sleep(_NAP_SECONDS)

    def _say_aside(self, word: bytes, tag: int) -> None:
        if self._aside is not None:
            self._said += [self._aside.Isend(word, rank, tag) for rank in self._borders]

    def _hear_farewell(self) -> None:
        """Raise what a neighbour that has ended said, so that this rank too can save before the job is aborted."""
        aside = self._aside
        for rank in self._borders:
            if aside is not None and aside.Iprobe(rank, _FAREWELL_TAG):
                word = bytearray(FAREWELL_SIZE)
                aside.Recv(word, rank, _FAREWELL_TAG)
                farewell = Farewell.read(bytes(word))
                raise PeerLost(self._layout.title(rank), farewell.sentence, farewell)


@contextmanager
def ending_after(
    seconds: float, world: MPI.Intracomm, what: str, end: Callable[[int], None] | None = None
) -> Iterator[None]:
    """End the whole job with one sentence if what is done here, in calls that wait for others, takes longer."""
    words = f"rank {world.Get_rank()}: {what} within {seconds:g} s"
    timer = threading.Timer(seconds, _end, [words, end or world.Abort])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(words: str, end: Callable[[int], None]) -> None:
    print(f"{words}; try again", file=sys.stderr, flush=True)
    time.sleep(_WORD_SECONDS)  # on its way through the launcher, which may drop what it has not passed on
    end(ExitCode.TRY_AGAIN)


class _Repeated:
    """Stands in for a persistent collective where MPI has none (before version 4): a new one in every round."""

    def __init__(self, begin: Callable[[], MPI.Request]) -> None:
        self._begin = begin
        self._request: MPI.Request

    def Start(self) -> None:
        self._request = self._begin()

    def Test(self) -> bool:
        return self._request.Test()


class RepeatedCollective:
    """Messages of one kind and length between this rank and its neighbours.

    With one agent on every rank all neighbours get the same message, a neighbourhood allgather. Otherwise each
    neighbouring rank gets those of the agents that it has links with, an alltoallv. The buffers stay, so MPI lays out
    the collective once and every round only starts it again. `due` is what all the messages have in common.
    """

    def __init__(self, graph: MPI.Distgraphcomm, layout: Layout, me: int, due: Due) -> None:
        borders = layout.borders(me)
        single = all(len(agents) == 1 for agents in layout.parties)
        own = layout.parties[me] if single else [i for border in borders.values() for i in border.ours]
        self._ours = PacketForm(due, [(i, layout.title(me)) for i in own])
        self._theirs = PacketForm(due, [(j, layout.title(q)) for q, border in borders.items() for j in border.theirs])
        self._outgoing = bytearray(self._ours.write(0, dict.fromkeys(own, bytes(due.length * due.dtype.itemsize))))
        self._incoming = bytearray(self._theirs.size)
        self._places = self._ours.places(self._outgoing)
        self._heads, self._vectors = self._theirs.heads(self._incoming), self._theirs.vectors(self._incoming)
        sent = [self._ours.frame * len(border.ours) for border in borders.values()]
        received = [self._theirs.frame * len(border.theirs) for border in borders.values()]
        self.bytes_sent, self.bytes_received = sum(sent), sum(received)
        self.request: MPI.Prequest | _Repeated
        name = "allgather" if single else "alltoallv"
        buffers = (self._outgoing, self._incoming) if single else ([self._outgoing, sent], [self._incoming, received])
        try:
            self.request = getattr(graph, f"Neighbor_{name}_init")(*buffers)
        except NotImplementedError:
            self.request = _Repeated(partial(getattr(graph, f"Ineighbor_{name}"), *buffers))

    def start(self, number: int, vectors: Mapping[int, Array]) -> None:
        """Write the messages and set them going."""
        stamp = round_bytes(number)
        # Not `PacketForm.write`: a new packet in every round cost a quarter of it with thirteen ranks on two cores.
        for i, place, numbers in self._places:
            place[:] = stamp
            try:
                numbers[:] = vectors[i].data
            except ValueError:
                raise self._ours.refusal(i, vectors[i]) from None
        self.request.Start()

    def finish(self, number: int) -> dict[int, Array]:
        """The vectors by agent, after every message has been checked."""
        self._theirs.check(self._incoming, self._heads, number)
        return self._vectors


def party(job: Job, options: PartyOptions) -> Party:
    """The party of this rank."""
    world = import_mpi().COMM_WORLD
    layout = Layout.even(job.network, world.Get_size())
    link = MpiLink(world, layout, job.times.patience, job.times.connect)
    if world.Get_rank():
        LOG.setLevel(max(LOG.level, logging.WARNING))  # one rank tells how far all have come
    return Party(job, layout, world.Get_rank(), link, options.out, options.resume, from_zero=options.from_zero)


def main() -> None:
    """Entry point of the module."""
    made: list[Party] = []

    def build(job: Job, options: PartyOptions) -> Party:
        made.append(party(job, options))
        return made[0]

    try:
        run_process(__doc__, build, not_met=ExitCode.DONE)
    except SystemExit as end:
        if not end.code:
            _finalize()
        for one in made if end.code else ():
            cast("MpiLink", one.link).part()
        raise


def _finalize() -> None:
    """End MPI, or this process if that takes too long: results are written, and some MPIs wait for all ranks here.

    Not mpi4py's own function where that of the library is found: it keeps threads of Python from running.
    """
    mpi = import_mpi()
    with ending_after(_LAST_SECONDS, mpi.COMM_WORLD, "results are written, but MPI did not end", os._exit):
        getattr(ctypes.CDLL(mpi.__file__), "MPI_Finalize", mpi.Finalize)()


if __name__ == "__main__":
    main()
