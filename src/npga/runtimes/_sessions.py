"""What passes between a party and one neighbour, over as many connections as it takes, and how long one waits for it.

A connection may be cut, stall or be half closed; the conversation goes on over the next one. Rounds keep two neighbours
together: who waits for message k of the other has sent its own k, so the other has received at least k - 2 of them. The
last two messages are therefore kept, each hello says how many have been received, and what is missing is sent again.
Nothing is lost, nothing comes twice, and the numbers are those of a run without a fault. When a party of the network
is started again the conversation is of a new run, and what was said in the last one counts no more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from npga.runtimes._faults import BadMessage, LinkError, Peer, PeerLost
from npga.runtimes._job_file import Patience
from npga.runtimes._streams import breaks, ending, import_grpc, is_too_long
from npga.runtimes._wire import Hello, Roll, is_farewell

_KEPT = 2
_LOOKS = 10
_LONGEST_TICK = 0.5
_LEAST_WORD_SECONDS = 0.25


class Session:
    """The conversation with one neighbour.

    It may be `outage` seconds without a connection between two messages (0: it is lost when its connection is).
    `broken` is called whenever a connection is no longer there or the neighbour is given up, and `heard` with every
    message that has come, to tell whether it is none for whoever reads.
    """

    def __init__(
        self,
        party: int,
        peer: Peer,
        outage: float,
        broken: Callable[[Session], None],
        heard: Callable[[Session, bytes], bool],
    ) -> None:
        self.party, self.peer, self._outage, self._broken, self._heard = party, peer, outage, broken, heard
        self.stream: Any = None
        self.nonce, self.process = "", 0  # of the neighbour's process
        self.link = self.run = 0  # numbers of these two processes, and of what they are in together with all others
        self.said: Roll = ()  # who has come, as the neighbour knows
        self.sent = self.received = 0
        self.reason = "it has not come"
        self.last_word: Callable[[], bytes] | None = None
        self.failure: LinkError | None = None
        self._kept: deque[bytes] = deque(maxlen=_KEPT)
        self.busy = False  # whether something is being written just now
        self.parted = False  # whether both have said farewell
        self._free = asyncio.Event()
        self._change = asyncio.Event()
        self._gone = asyncio.Event()
        self.sending: asyncio.Task[None] | None = None  # a long message, while it is being written
        self._coming: deque[asyncio.Task[bytes]] = deque()  # messages that are here or being read, one after another
        self._talk = 0
        self._down = 0.0
        self._eof, self._breaks = import_grpc().aio.EOF, breaks()
        self._ends: tuple[type[BaseException], ...] = (asyncio.CancelledError, *self._breaks)

    def turn(self, message: bytes, is_short: bool) -> None:
        """Begin a round: send a message and read the next; a short one first, a long one while others are read."""
        if is_short and not self._coming:
            self._coming.append(asyncio.ensure_future(self._turn(message, self.run)))
        else:
            self.sending = asyncio.ensure_future(self._send(message, self.run))
            self.ahead()

    async def _turn(self, message: bytes, run: int) -> bytes:
        await self._send(message, run)
        return await self._read()

    def ahead(self) -> asyncio.Task[bytes]:
        """The next message, being read: who stops waiting for it leaves it to the next who asks."""
        if not self._coming:
            self._coming.append(asyncio.ensure_future(self._read()))
        return self._coming[0]

    def look_ahead(self) -> None:
        """Read on behind what has come, since others are waited for: news may have been said after it.

        Of messages of rounds there are two at most, because the neighbour waits as well.
        """
        if self._coming and self._coming[-1].done() and len(self._coming) <= _KEPT:
            self._coming.append(asyncio.ensure_future(self._read()))

    async def read(self) -> bytes:
        """The next message, however many connections it takes; PeerLost when there will be none."""
        while True:
            task = self.ahead()
            if not task.done():
                await asyncio.wait((task,))
            if self._coming and task is self._coming[0]:  # else its connection was given up, and it comes again
                self._coming.popleft()
                return task.result()

    async def _read(self) -> bytes:
        while True:
            stream, talk = self.stream, self._talk
            if stream is None:
                await self._connected()
                continue
            try:
                message = await stream.read()
            except self._ends as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # this task was cancelled, not the call that it reads from
                reason = await ending(stream, error)
                if is_too_long(error):
                    self.fail(BadMessage(self.peer, "a message that is far longer than any of this job"))
            else:
                if message is not self._eof:
                    found: bytes = message
                    if talk != self._talk and not is_farewell(found):
                        continue  # the neighbour has been told that this one has not come, and sends it again
                    if self._heard(self, found):
                        continue
                    return found
                reason = await ending(stream)
            self.broke(stream, reason)

    async def _connected(self) -> None:
        if self.failure is None:
            await self._change.wait()
        if self.failure is not None:
            raise self.failure

    def took(self) -> None:
        """A message has come and is the one that was due."""
        self.received += 1
        self._down = 0.0

    async def _send(self, message: bytes, run: int) -> None:
        """Send a message of a round of this run now, or over the next connection."""
        if self.busy:
            await self._quiet()
        if run == self.run:
            self.sent += 1
            self._kept.append(message)
            await self._write(lambda: message)

    async def _quiet(self) -> None:
        """Wait until nothing is being written: a stream takes one message at a time."""
        while self.busy:
            self._free.clear()
            await self._free.wait()

    async def say(self, word: Callable[[], bytes]) -> None:
        """Send a word that is not part of a round, made when its turn has come; it may be lost."""
        await self._quiet()
        await self._write(word)

    async def _write(self, *words: Callable[[], bytes]) -> None:
        """Write one word after another, each made when its turn has come."""
        self.busy = True
        try:
            for word in words:
                if self.stream is not None and (message := word()):
                    await self.stream.write(message)
        except self._breaks:
            return  # noticed when it is read from, where it may have left its reason
        finally:
            self.busy = False
            self._free.set()

    @property
    def here(self) -> bool:
        """Whether the next message has come, and has not been taken."""
        return bool(self._coming) and self._coming[0].done()

    @property
    def live(self) -> bool:
        """Whether there is a connection, as far as this end knows."""
        return self.stream is not None and not self._gone.is_set()

    @property
    def begun(self) -> bool:
        """Whether messages of a round have passed: then only the same process can go on with it."""
        return self.sent > 0 or self.received > 0

    def renew(self, run: int) -> None:
        """The two are in another run now, and have said nothing in it."""
        self.run, self.sent, self.received, self._down = run, 0, 0, 0.0
        self._kept.clear()

    def forget(self) -> None:
        """What has come and was not taken is not to be, except for a farewell."""
        for task in list(self._coming):
            if task.done() and not task.exception() and not is_farewell(task.result()):
                self._coming.remove(task)

    def listen(self) -> None:
        """Read on although no message is due; what came for a round is looked at again, whether it still is of use."""
        while self.here and not self._coming[0].exception() and self._heard(self, self._coming[0].result()):
            self._coming.popleft()
        self.ahead()

    def detach(self) -> int:
        """Give up the connection for a new one; returns how many messages have come, to be told the neighbour."""
        self._talk += 1
        self.forget()  # nobody has taken it, so it does not count, and comes again
        self.stream = None
        self._change.clear()
        self._gone.set()
        return self.received

    async def attach(self, stream: Any, theirs: Hello, first: Callable[[], bytes]) -> asyncio.Event:
        """Go on over a new connection: a first word, then what the neighbour, by its hello, has missed.

        Returns what is set when this connection is over or has been replaced.
        """
        self._gone.set()
        self._gone = gone = asyncio.Event()
        await self._quiet()
        run, came = self.run, theirs.received
        missed = self.sent - came if theirs.run == f"{run:x}" else 0
        if not 0 <= missed <= len(self._kept):
            self.fail(BadMessage(self.peer, f"it says that {came} messages have come; {self.sent} were sent"))
        if self._gone is not gone or self.failure is not None:
            gone.set()
            return gone
        self.stream = stream  # it is read from while it is written to: messages may be longer than its window
        self._change.set()
        stream.add_done_callback(lambda _: self.ended(stream))
        kept = list(self._kept)[len(self._kept) - missed :]
        again = [partial(lambda message: message if self.run == run else b"", message) for message in kept]
        await self._write(first, *again, *([self.last_word] if self.last_word else []))
        if stream.done():
            self.ended(stream)
        return gone

    def ended(self, stream: Any) -> None:
        """A connection has ended; what it brought before can still be read."""
        if stream is self.stream:
            self._gone.set()
            self._broken(self)

    def broke(self, stream: Any, reason: str) -> None:
        """A connection has nothing more to give."""
        if stream is not self.stream:
            return
        self.stream, self.reason = None, reason
        self._change.clear()
        self._gone.set()
        if self._outage == 0.0:
            self.fail(PeerLost(self.peer, reason))
        else:
            self._broken(self)

    def fail(self, error: LinkError) -> None:
        """Whoever waits for this neighbour is told so."""
        self.failure, self.stream = self.failure or error, None
        self._gone.set()
        self._change.set()
        self._broken(self)

    def pass_time(self, seconds: float) -> None:
        """So much time has passed; without a connection it counts."""
        if self.stream is None and self.failure is None and self.begun:
            self._down += seconds
            if self._down > self._outage:
                words = f"no connection for {self._outage:g} s, the outage that job.toml allows ({self.reason})"
                self.fail(PeerLost(self.peer, words))


class Stopwatch:
    """How long a party has been waiting: one timer for the whole run instead of one for each round.

    It cancels the task that waits when its time is over, and sets `expired`. Whoever waits longer than its patience
    says so to its neighbours. A party that hears this from the one it waits for extends its own wait and leaves the
    naming to that one; so the one that is named in the end is the one that is silent. While the one it waits for has no
    connection the time does not count, and the others are told so again and again, for no longer than an outage may be.
    Time in which this process itself stood still does not count either.

    Words are passed on, and count over how many parties they have come. With each the wait may be longer by one
    patience: whoever is nearer to the one that says them, honest or not, gives up first, and names it. Who waits for
    somebody at a distance d is at most d rounds ahead of it; so a word that has come over as many parties as the
    network is wide is old or made up. It extends nothing, and who passes it on is not blamed alone.

    `grace` seconds pass from saying so until the end, and `width` is the diameter of the network. `late` is called with
    what to say to the neighbours: whether it is an outage, and over how many others the word has come; `passed` with
    the seconds since the last look, to tell whether the one that is waited for has no connection; `party` tells who
    that is (-1: nobody). `expired` is the party that was waited for too long (-1: none), `doubted` are those whose
    words in this wait were old or made up.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        times: Patience,
        grace: float,
        width: int,
        late: Callable[[bool, int], None],
        passed: Callable[[float], bool],
        party: Callable[[], int],
    ) -> None:
        self._loop, self.patience, self.grace, self._width = loop, times.patience, grace, width
        self._late, self._passed, self._party = late, passed, party
        self._connect, self.limit = times.connect, times.patience
        self._allowed = times.patience + grace
        self._most = times.outage + 2 * self._allowed
        self._tick = min(times.patience / _LOOKS, _LONGEST_TICK)
        self._every = max(times.patience / 4, _LEAST_WORD_SECONDS)
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outage = self._down = False
        self._hops = self._told = -1
        self._begun = self._from = self._until = self._looked = self._said = 0.0
        self.expired = -1
        self.doubted: set[int] = set()

    def start(self, moves: int) -> None:
        """The running task begins to wait in an exchange, so many of which had to do with iterations.

        The first may take as long as coming together: some hear that all have come before others do, one of those may
        just be starting again, and states are verified and saved. Who is d links away can be d ahead, and no further.
        """
        self.limit = max(self.patience, self._connect) if moves <= self._width else self.patience
        self._allowed = self.limit + self.grace
        self._task, self._hops, self._told, self._outage = asyncio.current_task(), -1, -1, False
        self._begun = self._from = self._loop.time()
        self._until = self._from + self._allowed
        self.expired = -1
        self.doubted.clear()
        self.tend()

    def tend(self) -> None:
        """See to it that time is looked at."""
        self._looked = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._look)

    def extend(self, party: int, outage: bool, hops: int) -> None:
        """The one it waits for is alive and waits as well; that is bounded in each wait, so nobody waits for ever."""
        if hops >= self._width:
            self.doubted.add(party)
            return
        now = self._loop.time()
        self._hops = max(self._hops, hops)
        if outage:
            self._outage = True
            limit = self._begun + self._most + hops * self._allowed
            self._until = max(self._until, min(now + self._allowed, limit))
        else:
            self._until = max(self._until, self._from + (2 + hops) * self._allowed)
        self._speak(now)

    @property
    def doubtful(self) -> int:
        """The party that has been waited for so long that its connection may be dead; -1 if there is none."""
        waits = self._task is not None and self._loop.time() > self._begun + self.patience / 2
        return self._party() if waits else -1

    def stop(self) -> None:
        """The wait is over."""
        self._task = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._tick, self._look)
        now = self._loop.time()
        elapsed = min(now - self._looked, 2 * self._tick)
        stood_still = now - self._looked - elapsed
        self._looked = now
        down = self._passed(elapsed)
        if self._task is None:
            return
        aside = stood_still + (elapsed if down else 0.0)
        self._begun, self._from, self._until = self._begun + stood_still, self._from + aside, self._until + aside
        if self._down and not down:  # it is back, and has the time that is left to send
            self._until = max(self._until, min(now + self._allowed, self._begun + self._most))
        self._down = down
        if now > self._until and self._party() >= 0:
            self.expired = self._party()
            self._task.cancel()
        else:
            self._speak(now)

    def _speak(self, now: float) -> None:
        """Say what is to be said by now: of an outage early and again and again, of a wait once for each distance."""
        if self._down or self._outage:
            if now > max(self._begun + self.patience / 2, self._said + self._every):
                self._said = now
                self._late(True, self._hops + 1)
        elif now > self._from + self.patience and self._told <= self._hops:
            self._told = self._hops + 1
            self._late(False, self._told)
