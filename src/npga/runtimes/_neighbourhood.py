"""The neighbours of a party over gRPC: coming together at the start, and staying connected after that.

Parties may come in any order. Whoever meets a neighbour tells it which parties it knows to be there, and passes on what
it hears; a run begins when everyone has heard of everyone, and the time to wait counts from the last that came. A
party that is started again while the others still wait is welcome. `npga check` looks at the same addresses and
certificates with a hello that says so, and disturbs nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from npga.errors import InputError
from npga.runtimes._faults import BadMessage, LinkError, PeerLost
from npga.runtimes._job import Job
from npga.runtimes._sessions import Session
from npga.runtimes._streams import LEAST_KEEPALIVE_SECONDS, Acceptor, Dialler, Identity, breaks, channel_options
from npga.runtimes._wire import HEADER_SIZE, Hello, MessageKind, is_farewell, pack_bytes, run_number, unpack_hello

LOG = logging.getLogger("npga.runtimes")
_HELLO_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_CHECK_SECONDS = 0.5
_LONGEST_ATTEMPT = 20.0
_PARTING_SECONDS = 1.0


class Neighbourhood:
    """A session with each neighbour of party `me`; no message is longer than `limit` bytes."""

    def __init__(self, job: Job, me: int, identity: Identity, limit: int) -> None:
        self._job, self._me, self._layout = job, me, job.layout
        self._times, self._identity, self._limit = job.times, identity, limit
        titles = {q: self._layout.title(q) for q in self._layout.borders(me)}
        self.sessions = {q: Session(q, title, job.times.outage, self._lost) for q, title in titles.items()}
        self.hellos: dict[int, Hello] = {}
        self.clock_offsets: dict[int, float] = {}
        self.bytes_sent = self.bytes_received = 0
        self.closing = False
        self._hello: Hello
        self._acceptor: Acceptor | None = None
        self._diallers: dict[int, Dialler] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._everyone, self._here = (1 << len(job.parties)) - 1, 1 << me
        self._quiet = 0.0
        self._doubtful = -1
        self._trouble: asyncio.Future[None] | None = None

    async def open(self, hello: Hello) -> None:
        """Listen, dial, exchange hellos with every neighbour, and wait until all parties of the network have come."""
        self._hello = hello
        self._prepare(self._arrive)
        if self._acceptor is not None:
            await self._acceptor.listen()
        for q in self._diallers:
            self.later(self._keep(q))
        self._trouble = asyncio.get_running_loop().create_future()
        hearing = asyncio.gather(*(self._hear_of_all(session) for session in self.sessions.values()))
        either: set[asyncio.Future[Any]] = {hearing, self._trouble}
        try:
            done, _ = await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            self._trouble = None
            hearing.cancel()
        for session in self.sessions.values():
            await self._say_who_is_here(session)  # before the first message, whatever else is still to be said

    def _prepare(self, arrive: Callable[[int, Any], Any]) -> None:
        """Be ready to listen and to dial."""
        patience, address = self._times.patience, self._job.parties[self._me].address
        options = channel_options(self._limit, patience, len(self.sessions))
        attempt = min(max(patience, LEAST_KEEPALIVE_SECONDS), _LONGEST_ATTEMPT)
        for q in filter(self._dials, self.sessions):
            self._diallers[q] = Dialler(str(self._job.parties[q].address), q, self._identity, options, attempt)
        if address is not None and len(self._diallers) < len(self.sessions):
            self._acceptor = Acceptor(address, self._identity, options, arrive)

    def _dials(self, other: int) -> bool:
        """Whether this end dials: when only the other is reachable, or both are and it has the smaller number."""
        mine, theirs = self._job.parties[self._me].address, self._job.parties[other].address
        if mine is None and theirs is None:
            raise InputError(f"parties {self._me} and {other} are neighbours without an address; give one of them one")
        return theirs is not None and (mine is None or other < self._me)

    async def _hear_of_all(self, session: Session) -> None:
        """Until this neighbour has heard of everyone."""
        while True:
            message = await session.read()
            if is_farewell(message):
                unpack_hello(message, session.peer)
            here = self.arrivals(session, message)
            if here is None:
                raise BadMessage(session.peer, "a message of a round arrived before all parties had come")
            self._learn(here)
            if here == self._everyone:
                return

    def _learn(self, here: int) -> None:
        """More parties are known to be there: a sign of life, which is passed on."""
        if here | self._here != self._here:
            self._here, self._quiet = here | self._here, 0.0
            for session in self.sessions.values():
                self.later(self._say_who_is_here(session))

    async def _say_who_is_here(self, session: Session) -> None:
        await session.say(lambda: self._who_is_here(session))

    def _who_is_here(self, session: Session) -> bytes:
        size = -(-len(self._job.parties) // 8)
        return pack_bytes(session.run, self._me, MessageKind.ARRIVED, self._here.to_bytes(size, "little"))

    def arrivals(self, session: Session, message: bytes) -> int | None:
        """Which parties a neighbour knows to be there; None if this is another message."""
        expected = pack_bytes(session.run, session.party, MessageKind.ARRIVED, bytes(-(-len(self._job.parties) // 8)))
        if len(message) != len(expected) or message[:HEADER_SIZE] != expected[:HEADER_SIZE]:
            return None
        return int.from_bytes(message[HEADER_SIZE:], "little") & self._everyone

    def _missing(self) -> PeerLost:
        """Who has not come."""
        seconds = self._times.connect
        for q, session in self.sessions.items():
            if not session.live and q in self._diallers:
                return PeerLost(session.peer, self._diallers[q].missing(seconds))
            if not session.live:
                refused = [] if self._acceptor is None else list(self._acceptor.refused)
                strangers = f"; refused: {', '.join(refused)}" if refused else ""
                return PeerLost(session.peer, f"it did not connect within {seconds:g} s{strangers}")
        absent = [k for k in range(len(self._job.parties)) if not self._here >> k & 1] or [self._me]
        others = f", and neither have {len(absent) - 1} others" if len(absent) > 1 else ""
        return PeerLost(self._layout.title(absent[0]), f"it has not come within {seconds:g} s of the last{others}")

    async def _keep(self, q: int) -> None:
        """Dial a neighbour, and again whenever the connection is gone."""
        session, dialler = self.sessions[q], self._diallers[q]
        try:
            while not (session.parted or (session.begun and self._times.outage == 0.0)):
                call, answer = await dialler.connect(lambda: self._greeting(session), session.peer, math.inf)
                gone = await self._go_on(session, call, self._hear_hello(session, answer))
                if gone is not None:
                    await gone.wait()
                    await asyncio.sleep(_PAUSE_SECONDS)  # its last words are on their way to the reader
                call.cancel()
                await asyncio.sleep(_PAUSE_SECONDS if gone else _CHECK_SECONDS)
        except LinkError as error:
            session.fail(error)

    async def _arrive(self, q: int, stream: Any) -> None:
        """A neighbour has dialled; the stream lasts as long as this call."""
        session = self.sessions[q]
        if self.closing or q in self._diallers:
            return
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                message = await stream.read()
            if not isinstance(message, bytes):
                return
            other = self._hear_hello(session, message)
            if not other.check and session.begun and other.nonce != session.nonce:
                raise _started_again(session)
            await stream.write(self._greeting(session, look=other.check))
            gone = await self._go_on(session, stream, other)
            if gone is not None:
                await gone.wait()
        except LinkError as error:
            session.fail(error)
        except _ends():
            return

    def _greeting(self, session: Session, look: bool = False) -> bytes:
        """A hello with the time and with how much has come; what now comes over an older connection does not count."""
        received = 0 if look else session.detach()
        hello = replace(self._hello, clock=time.time(), received=received)
        return pack_bytes(0, self._me, MessageKind.HELLO, hello.text().encode())

    def _hear_hello(self, session: Session, message: bytes) -> Hello:
        self.bytes_received += len(message)
        other = Hello.read(unpack_hello(message, session.peer), session.peer)
        self.clock_offsets[session.party] = other.clock - time.time()
        return other

    async def _go_on(self, session: Session, stream: Any, other: Hello) -> asyncio.Event | None:
        """Take a connection into use if its hello is right; returns what is set at its end, None if it is not for use.

        That is a look, or a neighbour still in a run that this party has left: it now knows, and will begin again.
        """
        if other.check or (other.received and not session.begun):
            return None
        self._hello.agree(other, session.party, self._layout)
        if other.nonce != session.nonce:
            if session.begun:
                raise _started_again(session)
            session.nonce, session.run = other.nonce, run_number(self._hello, other)
        elif session.begun:
            LOG.warning("%s is connected again", session.peer)
        self.hellos[session.party] = other
        self.bytes_sent += HEADER_SIZE + len(self._hello.text())
        self._learn(1 << session.party)
        gone = await session.attach(stream, other.received, lambda: self._who_is_here(session))
        self._tend()
        return gone

    def _lost(self, session: Session) -> None:
        if session.parted or self.closing:
            return
        if session.begun and session.failure is None and not session.last_word:
            LOG.warning("no connection to %s; trying for %g s", session.peer, self._times.outage)
        self._tend()

    def _tend(self) -> None:
        """Listen as long as somebody who dials this party is missing, and no longer."""
        if self._acceptor is None or self.closing:
            return
        outage = self._times.outage
        accepted = {q: s for q, s in self.sessions.items() if q not in self._diallers and not s.parted}
        missing = [session for q, session in accepted.items() if q == self._doubtful or not session.live]
        if any(outage > 0.0 or not session.begun for session in missing):
            self.later(self._listen_again())
        elif not missing:
            self._acceptor.rest()

    async def _listen_again(self) -> None:
        assert self._acceptor is not None
        with contextlib.suppress(InputError):  # somebody else has the port, for the moment perhaps
            await self._acceptor.listen()

    def later(self, what: Any) -> None:
        """Do this beside everything else."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def pass_time(self, seconds: float, doubtful: int) -> None:
        """Some time has passed: for some it may have been too long, and the other end of one may have noticed first."""
        self._doubtful = doubtful
        for session in self.sessions.values():
            session.pass_time(seconds)
        self._tend()
        if self._trouble is not None and not self._trouble.done():
            self._quiet += seconds
            if self._quiet > self._times.connect:
                self._trouble.set_exception(self._missing())

    async def leave(self, session: Session) -> None:
        """Both have said farewell: the accepting end closes the stream, and the dialling one waits for that."""
        session.parted = True
        if session.party not in self._diallers:
            session.detach()
        elif session.stream is not None:
            with contextlib.suppress(*_ends()):
                async with asyncio.timeout(_PARTING_SECONDS):
                    while isinstance(await session.stream.read(), bytes):
                        continue

    async def close(self, grace: float) -> None:
        """End every connection; what was written has `grace` seconds to leave."""
        for task in self._tasks:
            task.cancel()
        ends = [dialler.close(grace) for dialler in self._diallers.values()]
        await asyncio.gather(*ends, *([self._acceptor.close(grace)] if self._acceptor else []))

    # A look, without a run

    async def probe(self, hello: Hello) -> dict[int, Hello | BaseException]:
        """Every neighbour's hello, or what is wrong."""
        self._hello = replace(hello, check=True)
        came = {q: asyncio.get_running_loop().create_future() for q in self.sessions}

        async def answer(q: int, stream: Any) -> None:
            with contextlib.suppress(LinkError, *_ends()):
                async with asyncio.timeout(_HELLO_SECONDS):
                    message = await stream.read()
                    if isinstance(message, bytes):
                        await stream.write(self._greeting(self.sessions[q], look=True))
                        if not came[q].done():
                            came[q].set_result(message)
                        await stream.read()  # until the other end has seen the answer

        async def look(q: int) -> Hello:
            session, seconds = self.sessions[q], self._times.connect
            if q not in self._diallers and not (self._acceptor and self._acceptor.listening):
                address = self._job.parties[self._me].address
                raise PeerLost(session.peer, f"not looked at: {address} is in use, by this party's own run perhaps")
            if q in self._diallers:
                _, message = await self._diallers[q].connect(
                    lambda: self._greeting(session, look=True), session.peer, seconds
                )
            else:
                try:
                    message = await asyncio.wait_for(came[q], seconds)
                except TimeoutError:
                    raise PeerLost(session.peer, f"it did not connect within {seconds:g} s") from None
            other = self._hear_hello(session, message)
            self._hello.agree(other, q, self._layout)
            return other

        self._prepare(answer)
        if self._acceptor is not None:
            await self._listen_again()
        found = await asyncio.gather(*(look(q) for q in self.sessions), return_exceptions=True)
        await asyncio.sleep(_CHECK_SECONDS)  # whoever dials this party has its answer by then
        return dict(zip(self.sessions, found, strict=True))


def _ends() -> tuple[type[BaseException], ...]:
    return TimeoutError, *breaks()


def _started_again(session: Session) -> PeerLost:
    return PeerLost(session.peer, "it has been started again, and so must this party be: with --resume")
