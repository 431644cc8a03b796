"""Agents at different organisations: ``python -m npga.runtimes.net job.toml --party 3 --out DIR``.

gRPC with mutual TLS. Each party runs this command with its own private files; only one end of every link must be
reachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._faults import PeerLost, PeerSlow, farewell_of
from npga.runtimes._job import Job
from npga.runtimes._keys import Identity
from npga.runtimes._link import Hello, nothing, run_number
from npga.runtimes._party import Party
from npga.runtimes._process import PartyOptions, run_process
from npga.runtimes._streams import (
    Acceptor,
    Dialler,
    Stopwatch,
    Stream,
    breaks,
    channel_options,
    import_grpc,
    read_message,
)
from npga.runtimes._wire import (
    Due,
    Kind,
    PacketForm,
    frame_size,
    is_farewell,
    pack_bytes,
    unpack_hello,
)

Array = NDArray[Any]
# A message that fits into the transport's first window never forms its writer; a longer one is written while others
# are read, so that two neighbours cannot wait for one another.
_WINDOW = 32 * 1024
_HELLO_BYTES = 64 * 1024
_FAREWELL_SECONDS = 2.0
_GRACE_SECONDS = 1.0


class GrpcLink:
    """One stream for each neighbouring party, all on one event loop that runs only inside the calls of this class.

    Parameters
    ----------
    job, me
        The job and which of its parties this is.
    key
        Private key; by default where job.toml says.
    """

    def __init__(self, job: Job, me: int, key: Path | None = None) -> None:
        import_grpc()
        job.party(me)
        self._job, self._layout, self._me = job, job.layout, me
        self._borders = self._layout.borders(me)
        self._identity = _identity(job, me, key, list(self._borders))
        self._most = max((max(len(b.ours), len(b.theirs)) for b in self._borders.values()), default=1)
        # Besides vectors of p, the stopping rule sends views of 2 p numbers in double precision.
        self._limit = _HELLO_BYTES + self._most * frame_size(2 * job.p + 64, np.dtype(np.float64))
        self._loop = asyncio.new_event_loop()
        self._acceptor: Acceptor | None = None
        self._diallers: dict[int, Dialler] = {}
        self._streams: dict[int, Stream] = {}
        self._runs: dict[int, int] = {}
        self._titles = {q: self._layout.title(q) for q in self._borders}
        self._waiting_words: dict[int, bytes] = {}
        self._forms: dict[tuple[Kind, int, str], dict[int, tuple[PacketForm, PacketForm]]] = {}
        self._saying: asyncio.Future[None] | None = None
        self._sending: asyncio.Future[None] | None = None
        self._clock = Stopwatch(self._loop, job.times.patience, _GRACE_SECONDS, self._say_waiting)
        self._breaks = breaks()
        self.clock_offsets: dict[int, float] = {}
        self._round = 0
        self.bytes_sent = self.bytes_received = 0
        self.waits_for: tuple[int, ...] = ()
        self.waited = dict.fromkeys(self._borders, 0.0)

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Listen, dial, and exchange hellos with every neighbour."""
        found = self._loop.run_until_complete(self._open(hello, patient=False))
        return {party: answer for party, answer in found.items() if isinstance(answer, Hello)}

    def probe(self, hello: Hello) -> Mapping[int, Hello | BaseException]:
        """As `open`, but every neighbour's answer or error instead of the first error."""
        return self._loop.run_until_complete(self._open(hello, patient=True))

    async def _open(self, hello: Hello, patient: bool) -> dict[int, Hello | BaseException]:
        options, address = channel_options(self._limit, self._job.times.patience), self._job.parties[self._me].address
        dialled = [q for q in self._borders if self._dials(q)]
        if address is not None and len(dialled) < len(self._borders):
            self._acceptor = Acceptor(address, self._identity, options)
            await self._acceptor.start()
        for q in dialled:
            self._diallers[q] = Dialler(str(self._job.parties[q].address), q, self._identity, options)
        tasks = [asyncio.ensure_future(self._greet(q, hello)) for q in self._borders]
        try:
            answers = await asyncio.gather(*tasks, return_exceptions=patient)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return dict(zip(self._borders, answers, strict=True))

    def _dials(self, other: int) -> bool:
        """Whether this end dials: when only the other is reachable, or both are and it has the smaller number."""
        mine, theirs = self._job.parties[self._me].address, self._job.parties[other].address
        if mine is None and theirs is None:
            raise InputError(f"parties {self._me} and {other} are neighbours without an address; give one of them one")
        return theirs is not None and (mine is None or other < self._me)

    async def _greet(self, party: int, hello: Hello) -> Hello:
        peer, seconds = self._layout.title(party), self._job.times.connect

        def word() -> bytes:
            return pack_bytes(0, self._me, Kind.HELLO, replace(hello, clock=time.time()).text().encode())

        if party in self._diallers:
            stream, answer = await self._diallers[party].connect(word, peer, seconds)
        else:
            assert self._acceptor is not None, "a neighbour that does not get dialled dials this party"
            try:
                async with asyncio.timeout(seconds):
                    stream = await self._acceptor.stream(party)
                    answer = await read_message(stream, peer)
            except TimeoutError:
                raise PeerLost(peer, f"it did not connect within {seconds:g} s{self._strangers()}") from None
            await stream.write(word())
        self._streams[party] = stream
        self.bytes_sent += len(word())
        self.bytes_received += len(answer)
        other = Hello.read(unpack_hello(answer, peer), peer)
        self.clock_offsets[party] = other.clock - time.time()
        self._runs[party] = run_number(hello, other)
        self._waiting_words[party] = pack_bytes(self._runs[party], party, Kind.WAITING, b"")
        hello.agree(other, party, self._layout)
        return other

    def _strangers(self) -> str:
        refused = [] if self._acceptor is None else self._acceptor.refused
        return f"; refused: {', '.join(refused)}" if refused else ""

    def exchange(
        self, kind: Kind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """Write to every neighbour, run `meanwhile`, read from every neighbour."""
        return self._loop.run_until_complete(self._exchange(kind, number, vectors, meanwhile))

    async def _exchange(
        self, kind: Kind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None]
    ) -> dict[int, Array]:
        self._round = number
        one: Array = next(iter(vectors.values()))
        key = kind, one.size, one.dtype.char
        forms = self._forms.get(key)
        if forms is None:
            forms = self._forms[key] = self._lay_out(Due(0, 0, kind, 0, one.size, one.dtype))
        payloads = next(iter(forms.values()))[0].payloads(vectors) if forms else {}
        messages = {q: ours.write(number, payloads) for q, (ours, _) in forms.items()}
        size = frame_size(one.size, one.dtype)
        sending: asyncio.Future[None] | None = None
        if size * self._most <= _WINDOW:
            await self._write(messages)
        else:
            sending = self._sending = asyncio.ensure_future(self._write(messages))
            await asyncio.sleep(0)
        meanwhile()
        found = await self._read(number, forms)
        if sending is not None:
            await self._sent(sending)
        return found

    async def _sent(self, sending: asyncio.Future[None]) -> None:
        patience = self._job.times.patience
        try:
            await asyncio.wait_for(sending, patience)
        except TimeoutError:
            names = ", ".join(self._layout.title(q) for q in self._borders)
            raise PeerSlow(names, f"one of them did not take a message within {patience:g} s") from None

    def _lay_out(self, due: Due) -> dict[int, tuple[PacketForm, PacketForm]]:
        """What goes to and comes from every neighbour in rounds of this kind and length."""
        forms = {}
        for q, border in self._borders.items():
            common = due._replace(run=self._runs[q])
            ours, theirs = ([(i, self._titles[q]) for i in agents] for agents in (border.ours, border.theirs))
            forms[q] = PacketForm(common, ours), PacketForm(common, theirs)
        return forms

    async def _read(self, number: int, forms: Mapping[int, tuple[PacketForm, PacketForm]]) -> dict[int, Array]:
        """The messages of all neighbours, one after the other."""
        found: dict[int, Array] = {}
        clock = self._clock
        clock.start()
        try:
            for party, (_, theirs) in forms.items():
                clock.party, peer, begun = party, self._titles[party], self._loop.time()
                self.waits_for = (party,)
                message = await read_message(self._streams[party], peer)
                while message == self._waiting_words[party]:
                    clock.extend()
                    message = await read_message(self._streams[party], peer)
                self.waited[party] += self._loop.time() - begun
                self.bytes_received += len(message)
                theirs.check(message, theirs.heads(message), number)
                found.update(theirs.vectors(message))
        except asyncio.CancelledError:
            if not clock.expired:
                raise
            reason = f"nothing arrived within {clock.patience:g} s in round {number}"
            raise PeerSlow(self._titles[clock.party], reason) from None
        finally:
            clock.stop()
            self.waits_for = ()
        return found

    def _say_waiting(self) -> None:
        if self._sending is not None and not self._sending.done():
            return  # the neighbours see this message come, and a stream takes one at a time
        words = {q: pack_bytes(run, self._me, Kind.WAITING, b"") for q, run in self._runs.items()}
        self._saying = asyncio.ensure_future(self._write(words))

    async def _write(self, messages: Mapping[int, bytes]) -> None:
        saying = self._saying
        if saying is not None and saying is not asyncio.current_task():
            self._saying = None
            await asyncio.wait([saying])  # a stream takes one message at a time
        for party, message in messages.items():
            try:
                await self._streams[party].write(message)
                self.bytes_sent += len(message)
            except self._breaks:
                # A neighbour that has gone is noticed when it is read from, where it may have left its reason.
                continue

    def close(self, error: BaseException | None = None) -> None:
        """Tell the neighbours that and why this party ends; without an error, wait for them to end as well."""
        if not self._loop.is_closed():
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(self._close(error))
            self._loop.close()

    async def _close(self, error: BaseException | None) -> None:
        last = farewell_of(error, self._layout.parties[self._me][0], self._round).pack()
        words = {q: pack_bytes(self._runs[q], self._me, Kind.BYE, last) for q in self._streams if q in self._runs}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._write(words)
                # A stream stays open until the other end has said farewell too: closed earlier, it may drop ours.
                await asyncio.gather(*(self._last_word(q) for q in words))
        grace = 0.0 if error is None else _GRACE_SECONDS
        ends = [dialler.close(grace) for dialler in self._diallers.values()]
        await asyncio.gather(*ends, *([self._acceptor.close(grace)] if self._acceptor else []))
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _last_word(self, party: int) -> None:
        with contextlib.suppress(PeerLost):
            while not is_farewell(await read_message(self._streams[party], self._layout.title(party))):
                continue


def _identity(job: Job, me: int, key: Path | None, neighbours: list[int]) -> Identity:
    for q in (me, *neighbours):
        if job.parties[q].certificate is None:
            raise InputError(f"party {q} has no 'certificate' in {job.path}; name its file there")
    key = key or job.parties[me].key
    if key is None:
        raise InputError(f"party {me} has no 'key' in {job.path}; name its file there, or pass --key")
    files = {q: Path(str(job.parties[q].certificate)) for q in (me, *neighbours)}
    return Identity.read(key, files.pop(me), files)


def party(job: Job, options: PartyOptions) -> Party:
    """The party that this process is."""
    if options.party is None:
        raise InputError("no party was named; pass --party K, the number of this process's [[party]] in job.toml")
    link = GrpcLink(job, options.party, options.key)
    return Party(job, job.layout, options.party, link, options.out, options.resume, from_zero=options.from_zero)


def main() -> None:
    """Entry point of the module."""
    run_process(__doc__, party)


if __name__ == "__main__":
    main()
