"""Agents at different organisations: ``python -m npga.runtimes.net job.toml --party 3 --out DIR``.

gRPC with mutual TLS. Each party runs this command with its own private files; only one end of every link must be
reachable. A connection that breaks is opened again, and the round goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._faults import NOTICE, LinkError, PeerSlow, farewell_of
from npga.runtimes._job import Job
from npga.runtimes._neighbourhood import Neighbourhood
from npga.runtimes._party import Party, nothing
from npga.runtimes._sessions import Session, Stopwatch
from npga.runtimes._streams import LEAST_KEEPALIVE_SECONDS, Identity, import_grpc
from npga.runtimes._wire import (
    KIND_AT,
    Due,
    Hello,
    MessageKind,
    PacketForm,
    frame_size,
    is_farewell,
    pack_bytes,
    pack_word,
    read_farewell,
    unpack_word,
)
from npga.runtimes.inprocess import PartyOptions, run_process

Array = NDArray[Any]
T = TypeVar("T")
# A message that fits into the transport's first window never forms its writer; a longer one is written while others
# are read, so that two neighbours cannot wait for one another.
_WINDOW = 32 * 1024
_HELLO_BYTES = 64 * 1024
_FAREWELL_SECONDS = 2.0
_GRACE_SECONDS = 1.0
_FIRST_WORD = int(MessageKind.BYE)
_WORDS = bytes([_FIRST_WORD])


class GrpcLink:
    """A session with each neighbour of party `me`, all on one event loop that runs only inside calls of this class.

    Its private key is where job.toml says, unless `key` names another file.
    """

    def __init__(self, job: Job, me: int, key: Path | None = None) -> None:
        import_grpc()
        job.party(me)
        self._job, self._layout, self._me = job, job.layout, me
        self._borders = self._layout.borders(me)
        identity = own_identity(job, me, key)
        self._most = max((max(len(b.ours), len(b.theirs)) for b in self._borders.values()), default=1)
        # Besides vectors of p, the stopping rule sends views of 2 p numbers in double precision.
        limit = _HELLO_BYTES + 8 * job.n + self._most * frame_size(2 * job.p + 64, np.dtype(np.float64))
        self._loop = asyncio.new_event_loop()
        times = job.times
        self._near = Neighbourhood(job, me, identity, limit)
        self._sessions = self._near.sessions
        self._forms: dict[tuple[MessageKind, int, str], dict[int, tuple[PacketForm, PacketForm]]] = {}
        # Not before the transport has had the time to find out that the connection is dead.
        grace = max(_GRACE_SECONDS, 2 * LEAST_KEEPALIVE_SECONDS + 0.5 - times.patience)
        self._due: dict[int, None] = {}
        self._clock = Stopwatch(
            self._loop, times, grace, job.network.diameter, self._say_late, self._pass_time, self._waits_first
        )
        self._round = self._exchanges = 0
        self._is_open, self._moves = False, 0
        self._bytes_sent = self._bytes_received = 0
        self.waited = dict.fromkeys(self._borders, 0.0)

    @property
    def bytes_sent(self) -> int:
        """Bytes of all messages and hellos that were sent."""
        return self._bytes_sent + self._near.bytes_sent

    @property
    def bytes_received(self) -> int:
        """Bytes of all messages and hellos that came."""
        return self._bytes_received + self._near.bytes_received

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Exchange hellos with every neighbour, and wait until all parties have come; or once more, until all have."""
        self._clock.tend()
        self._run(self._near.gather(self._moves > 0) if self._is_open else self._near.open(hello))
        self._forms.clear()
        self._round = self._exchanges = self._moves = 0
        self._is_open = True
        return self._near.hellos

    def exchange(
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """Write to every neighbour, run `meanwhile`, read from every neighbour."""
        return self._run(self._exchange(kind, number, vectors, meanwhile))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the loop until this is done; a signal, whose exception the loop's callbacks would drop, cancels it."""
        task = self._loop.create_task(work)
        self._near.wake, NOTICE.wake = task.cancel, partial(self._loop.call_soon_threadsafe, task.cancel)
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            NOTICE.heed()
            self._near.heed()
            raise
        finally:
            NOTICE.wake = None

    async def _exchange(
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None]
    ) -> dict[int, Array]:
        self._near.heed()
        self._round, self._exchanges = number, self._exchanges + 1
        self._moves += kind is MessageKind.DATA
        one: Array = next(iter(vectors.values()))
        key = kind, one.size, one.dtype.char
        forms = self._forms.get(key)
        if forms is None:
            forms = self._forms[key] = self._lay_out(Due(0, 0, kind, 0, one.size, one.dtype))
        payloads = next(iter(forms.values()))[0].payloads(vectors) if forms else {}
        is_short = frame_size(one.size, one.dtype) * self._most <= _WINDOW
        self._due = dict.fromkeys(forms)
        for q, (ours, _) in forms.items():
            message = ours.write(number, payloads)
            self._sessions[q].turn(message, is_short)
            self._bytes_sent += len(message)
        await asyncio.sleep(0)  # all of them begin
        NOTICE.outside(meanwhile)
        found = await self._read(number, forms)
        if forms and not is_short:
            await self._sent()
        return found

    async def _sent(self) -> None:
        patience = self._job.times.patience
        sending = {session.sending: session.peer for session in self._sessions.values() if session.sending}
        done, late = await asyncio.wait(sending, timeout=patience + self._clock.grace)
        for task in done:
            task.result()
        if late:
            raise PeerSlow(", ".join(sending[task] for task in late), f"a message was not taken within {patience:g} s")

    def _lay_out(self, due: Due) -> dict[int, tuple[PacketForm, PacketForm]]:
        """What goes to and comes from every neighbour in rounds of this kind and length."""
        forms = {}
        for q, border in self._borders.items():
            common = due._replace(run=self._sessions[q].run)
            ours, theirs = ([(i, self._sessions[q].peer) for i in agents] for agents in (border.ours, border.theirs))
            forms[q] = PacketForm(common, ours), PacketForm(common, theirs)
        return forms

    async def _read(self, number: int, forms: Mapping[int, tuple[PacketForm, PacketForm]]) -> dict[int, Array]:
        """The messages of all neighbours: waited for together, looked at one after the other."""
        found: dict[int, Array] = {}
        clock = self._clock
        clock.start(self._moves)
        try:
            await self._something_from_all()
            for party, (_, theirs) in forms.items():
                session, begun = self._sessions[party], self._loop.time()
                message = await session.read()
                while len(message) > KIND_AT and message[KIND_AT] >= _FIRST_WORD and self._is_word(session, message):
                    message = await session.read()
                self.waited[party] += self._loop.time() - begun
                self._bytes_received += len(message)
                theirs.check(message, theirs.heads(message), number)
                session.took()
                del self._due[party]
                found.update(theirs.vectors(message))
        except asyncio.CancelledError:
            self._near.heed()
            if clock.expired < 0:
                raise
            raise self._slow(clock, number) from None
        finally:
            clock.stop()
            self._due = {}
        return found

    def _slow(self, clock: Stopwatch, number: int) -> PeerSlow:
        peer, reason = self._sessions[clock.expired].peer, f"nothing arrived within {clock.limit:g} s"
        if clock.expired in clock.doubted:
            words = "passes on words about waiting that have gone further than the network is wide"
            return PeerSlow("somebody", f"{reason} from {peer}, which {words}: it, or one beyond it, makes them up")
        return PeerSlow(peer, f"{reason} in round {number}")

    async def _something_from_all(self) -> None:
        """Wait until everyone has sent something, or one of them something else than a message of a round."""
        begun, everyone = self._loop.time(), self._loop.create_future()
        missing = [session for session in self._sessions.values() if not session.here]
        left = len(missing)

        def came(party: int, task: asyncio.Task[bytes]) -> None:
            nonlocal left
            left -= 1
            self.waited[party] += self._loop.time() - begun
            is_message = not task.cancelled() and not task.exception() and task.result()[KIND_AT:][:1] < _WORDS
            if (not left or not is_message) and not everyone.done():
                everyone.set_result(None)

        for session in missing:
            session.ahead().add_done_callback(partial(came, session.party))
        if missing:
            await everyone

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The parties whose message of this round is not here."""
        return tuple(q for q in tuple(self._due) if not self._sessions[q].here)

    def _waits_first(self) -> int:
        """The first of them, whose turn it is; -1: nobody is missing."""
        return next(iter(self.waits_for), -1)

    def _is_word(self, session: Session, message: bytes) -> bool:
        """Whether this is a word about waiting, and not a message of a round or rubbish.

        Who keeps this party waiting in an exchange is itself still in the one before: words of others are old.
        """
        if gone := read_farewell(message, session.link, session.peer):
            raise gone
        word = unpack_word(message, session.run, session.party)
        if word is None:
            return False
        kind, exchange, hops = word
        if exchange == self._exchanges - 1:
            self._clock.extend(session.party, kind is MessageKind.OUTAGE, hops)
        return True

    def _say_late(self, outage: bool, hops: int) -> None:
        kind = MessageKind.OUTAGE if outage else MessageKind.WAITING
        for session in self._sessions.values():
            if not session.busy:  # else the neighbour sees a message come
                self._near.later(session.say(partial(self._word, session, kind, hops)))

    def _word(self, session: Session, kind: MessageKind, hops: int) -> bytes:
        return pack_word(session.run, self._me, kind, self._exchanges, hops)

    def _pass_time(self, seconds: float) -> bool:
        """Some time has passed; returns whether the neighbour that is waited for has no connection."""
        self._near.pass_time(seconds, self._clock.doubtful)
        waiting_for = self._sessions.get(self._waits_first())
        return waiting_for is not None and not waiting_for.live

    def close(self, error: BaseException | None = None) -> None:
        """Tell the neighbours that and why this party ends; without an error, wait for them to end as well."""
        if not self._loop.is_closed():
            self._loop.set_exception_handler(lambda *_: None)  # of what was interrupted nobody wants to hear
            with contextlib.suppress(Exception):
                self._run(self._close(error))
            self._loop.close()

    async def _close(self, error: BaseException | None) -> None:
        last = farewell_of(error, self._layout.parties[self._me][0], self._round).pack()
        times, near = self._job.times, self._near
        near.closing, near.finished = error is not None, error is None
        left = [s for s in self._sessions.values() if s.run and s.failure is None and (error is None or s.live)]
        for session in left:
            session.last_word = partial(self._bye, session, last)
        # Whoever has finished stays until its neighbours have too: they may need its last message once more.
        seconds = _FAREWELL_SECONDS if error is not None else times.outage + times.patience + _GRACE_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self._part(session) for session in left))
        near.closing = True
        await near.close(_GRACE_SECONDS)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _bye(self, session: Session, last: bytes) -> bytes:
        return pack_bytes(session.link, self._me, MessageKind.BYE, last)

    async def _part(self, session: Session) -> None:
        """Say the last word, and stay until the other's has come: a stream that is closed earlier may drop ours."""
        assert session.last_word is not None
        await session.say(session.last_word)
        with contextlib.suppress(LinkError):
            while not is_farewell(await session.read()):
                continue
            await self._near.leave(session)


def own_identity(job: Job, me: int, key: Path | None) -> Identity:
    """The key of party `me` and the certificates that it pins, from their files."""
    neighbours = job.layout.borders(me)
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
