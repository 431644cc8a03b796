"""The neighbours of a party over gRPC: coming together at the start, and staying connected after that.

Parties may come in any order. Whoever meets a neighbour tells it which parties it knows to be there, and passes on what
it hears; a run begins when everyone has heard of everyone, and the time to wait counts from the last that came. A
party that is started again is welcome: its process has a larger number, and when that has gone round, all who wait do
so for the new one, and all who had begun go back to waiting. `npga check` looks at the same addresses and certificates
with a hello that says so, and disturbs nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from npga.errors import InputError
from npga.runtimes._faults import BadMessage, LinkError, PeerLost, Reason, StartedAgain
from npga.runtimes._job import Job
from npga.runtimes._sessions import Session
from npga.runtimes._streams import LEAST_KEEPALIVE_SECONDS, Acceptor, Dialler, Identity, breaks, channel_options
from npga.runtimes._wire import (
    HEADER_SIZE,
    KIND_AT,
    Hello,
    MessageKind,
    Roll,
    pack_bytes,
    pack_roll,
    read_farewell,
    run_number,
    unpack_hello,
    unpack_roll,
)

LOG = logging.getLogger("npga.runtimes")
HELLO_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
CHECK_SECONDS = 0.5
_LONGEST_ATTEMPT = 20.0
_PARTING_SECONDS = 1.0
_MOST_CONNECTS = 10  # so many times `connect` all may take to come together, however often one of them comes anew
_ARRIVED, _BYE = int(MessageKind.ARRIVED), int(MessageKind.BYE)
_MAY_COME_BACK = (Reason.STOPPED, Reason.LOST, Reason.SLOW)


class Neighbourhood:
    """A session with each neighbour of party `me`; no message is longer than `limit` bytes.

    `wake` is called when a party of the network was started again while messages are exchanged.
    """

    def __init__(self, job: Job, me: int, identity: Identity, limit: int) -> None:
        self._job, self._me, self._layout = job, me, job.layout
        self._times, self._identity, self._limit = job.times, identity, limit
        titles = {q: self._layout.title(q) for q in self._layout.borders(me)}
        self.sessions = {q: Session(q, title, job.times.outage, self._lost, self._hear) for q, title in titles.items()}
        self.hellos: dict[int, Hello] = {}
        self.clock_offsets: dict[int, float] = {}
        self.bytes_sent = self.bytes_received = 0
        self.finished = self.closing = False
        self.wake: Callable[[], object] = bool
        self._hello: Hello
        self._acceptor: Acceptor | None = None
        self._diallers: dict[int, Dialler] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._passing_on: set[int] = set()
        self._roll: Roll = (0,) * len(job.parties)
        self._came_again: StartedAgain | None = None
        self._gathered: asyncio.Future[None] | None = None  # while this party waits for all to have come
        self._has_begun = False
        self._quiet = self._waited = 0.0
        self._doubtful = -1

    async def open(self, hello: Hello) -> None:
        """Listen, dial, exchange hellos with every neighbour, and wait until all parties of the network have come."""
        self._hello = hello
        self._learn({self._me: time.time_ns() // 1000})
        self._prepare(self._arrive)
        if self._acceptor is not None:
            await self._acceptor.listen()
        for q in self._diallers:
            self.later(self._keep(q))
        await self.gather(True)

    async def gather(self, has_progressed: bool) -> None:
        """Wait until all parties have come, and all neighbours know of the same processes."""
        self._quiet, self._waited = 0.0, 0.0 if has_progressed else self._waited
        roll: Roll = ()
        try:
            while roll != self._roll:
                self._gathered = asyncio.get_running_loop().create_future()
                for session in self.sessions.values():
                    session.listen()
                    self._lost(session)
                self._look_around()
                await self._gathered
                roll = self._roll
                for session in self.sessions.values():
                    await session.say(partial(self._call_the_roll, session))  # before the first message
        finally:
            self._gathered = None
        self._came_again, self._has_begun = None, True
        self._tend()

    @property
    def _waits(self) -> bool:
        """Whether messages of a round are not due: parties are still to come, or to come again."""
        return self._gathered is not None or self._came_again is not None

    def heed(self) -> None:
        """Raise that a party was started again, if one was."""
        if self._came_again is not None:
            raise self._came_again

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

    # The roll has the newest process of each party. All take the larger number of what they know and what they hear,
    # and pass it on; so all come to know the same, and begin when they do.

    def _hear(self, session: Session, message: bytes) -> bool:
        """Whether a message is news of who is there, or of a run that is over, and none for whoever reads."""
        kind, waits = message[KIND_AT] if len(message) > KIND_AT else 0, self._waits and not self.closing
        if kind == _ARRIVED:
            self._hear_roll(session, message)
        elif kind == _BYE:
            gone = read_farewell(message, session.link, session.peer)
            if gone is not None and not waits:
                return False
            if gone is not None:  # else it is that of an earlier process
                self._hear_farewell(session, gone)
        else:
            return waits and (kind > _BYE or session.said != self._roll)
        return True

    def _hear_roll(self, session: Session, message: bytes) -> None:
        roll = unpack_roll(message, session.link, session.party, len(self._roll))
        if roll is None:
            session.fail(BadMessage(session.peer, "its word about who has come cannot be read"))
        elif not (self.finished or self.closing):
            if roll != session.said:
                session.said = roll
                session.forget()  # it is of the run before
            self._learn(dict(enumerate(roll)), session)

    def _hear_farewell(self, session: Session, gone: PeerLost) -> None:
        """A neighbour ends while parties still come: after most reasons it can be waited for as well."""
        if gone.farewell is None or gone.farewell.reason not in _MAY_COME_BACK:
            session.fail(gone)
            return
        LOG.info("%s has left; waiting for it to come back", session.peer)
        session.said = ()
        session.detach()
        self._tend()

    def _learn(self, heard: dict[int, int], session: Session | None = None) -> None:
        """Take over which processes are newer: a sign of life, which is passed on; a run with older ones is over."""
        newer = {k: process for k, process in heard.items() if process > self._roll[k]}
        if session is not None and self._me in newer:
            if self._has_begun:
                words = "others have heard of a newer process of this party, and only one may run"
                session.fail(BadMessage(self._layout.title(self._me), words))  # who passes it on is not to blame
                return
            newer[self._me] += 1  # it was an earlier one, whose clock was ahead
        if newer:
            self._roll = tuple(newer.get(k, process) for k, process in enumerate(self._roll))
            self._quiet = 0.0
            LOG.info("here now: %s", ", ".join(map(self._layout.title, newer)))
            for q, other in self.sessions.items():
                self._renew(other)
                if other.process < self._roll[q]:
                    other.said = ()
                    other.detach()  # from a process that is no more
                self.later(self._pass_on(other))
            if self._has_begun and not (self._waits or self.closing):
                self._came_again = StartedAgain(self._layout.title(next(iter(newer))))
                LOG.warning("%s has been started again", self._came_again.peer)
                self.wake()
        self._look_around()

    def _renew(self, session: Session) -> None:
        other = self.hellos.get(session.party)
        session.renew(0 if other is None else run_number(self._hello, other, roll=self._roll))
        if self._waits:
            session.listen()

    def _look_around(self) -> None:
        """Whether all have come, and all neighbours know it."""
        all_know = all(self._roll) and all(session.said == self._roll for session in self.sessions.values())
        if all_know and self._gathered is not None and not self._gathered.done():
            self._gathered.set_result(None)

    async def _pass_on(self, session: Session) -> None:
        """Call the roll as it is when its turn has come; once is enough, however often it changes until then."""
        if session.party not in self._passing_on:
            self._passing_on.add(session.party)
            await session.say(lambda: self._call_the_roll(session))
            self._passing_on.discard(session.party)

    def _call_the_roll(self, session: Session) -> bytes:
        self._passing_on.discard(session.party)
        return pack_roll(session.link, self._me, self._roll)

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
        absent = [self._layout.title(k) for k, process in enumerate(self._roll) if not process]
        others = f", and neither have {len(absent) - 1} others" if len(absent) > 1 else ""
        behind = [session.peer for session in self.sessions.values() if session.said != self._roll]
        return PeerLost((absent or behind)[0], f"it has not come within {seconds:g} s of the last{others}")

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
                await asyncio.sleep(_PAUSE_SECONDS if gone else CHECK_SECONDS)
        except LinkError as error:
            session.fail(error)

    async def _arrive(self, q: int, stream: Any) -> None:
        """A neighbour has dialled; the stream lasts as long as this call."""
        session = self.sessions[q]
        if self.closing or q in self._diallers:
            return
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                message = await stream.read()
            if not isinstance(message, bytes):
                return
            other, is_newest = self._hear_hello(session, message), False
            with contextlib.suppress(BadMessage):  # both ends are to find out, so it is answered first
                is_newest = not other.check and self._meet(session, other)
            await stream.write(self._greeting(session, is_newest))
            gone = await self._go_on(session, stream, other)
            if gone is not None:
                await gone.wait()
        except LinkError as error:
            session.fail(error)
        except ends():
            return

    def _greeting(self, session: Session, is_for_use: bool = True) -> bytes:
        """A hello with the time and with how much has come; what now comes over an older connection does not count."""
        hello = replace(
            self._hello, clock=time.time(), process=self._roll[self._me], known=self._roll[session.party],
            run=f"{session.run:x}", received=session.detach() if is_for_use else 0,
        )  # fmt: skip
        return pack_bytes(0, self._me, MessageKind.HELLO, hello.text().encode())

    def _hear_hello(self, session: Session, message: bytes) -> Hello:
        self.bytes_received += len(message)
        other = Hello.read(unpack_hello(message, session.peer), session.peer)
        self.clock_offsets[session.party] = other.clock - time.time()
        return other

    def _meet(self, session: Session, other: Hello) -> bool:
        """Whether this is the newest process of a neighbour; one that is new is made known to all."""
        self._hello.agree(other, session.party, self._layout)
        self._learn({self._me: other.known}, session)
        if session.failure is not None or other.process < self._roll[session.party]:
            return False
        if other.nonce != session.nonce:
            if self.finished:
                raise StartedAgain(session.peer)
            session.nonce, session.said, session.link = other.nonce, (), run_number(self._hello, other)
            self.hellos[session.party] = other
            self._renew(session)
        session.process = other.process
        self._learn({session.party: other.process}, session)
        return True

    async def _go_on(self, session: Session, stream: Any, other: Hello) -> asyncio.Event | None:
        """Take a connection into use if its hello is right; returns what is set at its end, None if it is not for use.

        That is a look, or an older process of the neighbour or of this party: it now knows.
        """
        if other.check or not self._meet(session, other):
            return None
        if session.begun:
            LOG.warning("%s is connected again", session.peer)
        self.bytes_sent += HEADER_SIZE + len(self._hello.text())
        gone = await session.attach(stream, other, partial(self._call_the_roll, session))
        if self._waits:
            session.listen()
        self._tend()
        return gone

    def _lost(self, session: Session) -> None:
        if session.parted or self.closing:
            return
        if session.failure is not None and self._gathered is not None and not self._gathered.done():
            self._gathered.set_exception(session.failure)
        if session.begun and session.stream is None and session.failure is None and session.last_word is None:
            LOG.warning("no connection to %s; trying for %g s", session.peer, self._times.outage)
        self._tend()

    def _tend(self) -> None:
        """Listen as long as somebody who dials this party is missing, and no longer."""
        if self._acceptor is None or self.closing:
            return
        outage = self._times.outage
        accepted = {q: s for q, s in self.sessions.items() if q not in self._diallers and not s.parted}
        missing = [s for q, s in accepted.items() if q == self._doubtful or not s.live or self._waits]
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
            session.look_ahead()
        self._tend()
        if self._gathered is not None and not self._gathered.done():
            self._quiet, self._waited = self._quiet + seconds, self._waited + seconds
            if self._quiet > self._times.connect or self._waited > _MOST_CONNECTS * self._times.connect:
                self._gathered.set_exception(self._missing())

    async def leave(self, session: Session) -> None:
        """Both have said farewell: the accepting end closes the stream, and the dialling one waits for that."""
        session.parted = True
        if session.party not in self._diallers:
            session.detach()
        elif session.stream is not None:
            with contextlib.suppress(*ends()):
                async with asyncio.timeout(_PARTING_SECONDS):
                    while isinstance(await session.stream.read(), bytes):
                        continue

    async def close(self, grace: float) -> None:
        """End every connection; what was written has `grace` seconds to leave."""
        for task in self._tasks:
            task.cancel()
        ends = [dialler.close(grace) for dialler in self._diallers.values()]
        await asyncio.gather(*ends, *([self._acceptor.close(grace)] if self._acceptor else []))


def ends() -> tuple[type[BaseException], ...]:
    """How reading from a connection ends."""
    return TimeoutError, *breaks()
