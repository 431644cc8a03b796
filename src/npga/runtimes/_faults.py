"""What can go wrong between agents that are apart: what is said of it at home, and what others are told.

At home an error is a sentence with its cause, and the process ends with an exit code. Across a link goes a `Farewell`
and nothing else: a code, the number of the agent that it is about, and a round. So no text of an exception, no number
and no path of one party is ever printed at another; what a party prints of a neighbour is composed here from the code.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar, NamedTuple

from npga.errors import InputError, MissingExtraError, NpgaError

_FAREWELL = struct.Struct("<Biq")
FAREWELL_SIZE = _FAREWELL.size
_LONGEST = 160
NOBODY = -1


class ExitCode(IntEnum):
    """How the process of a party ends; after a signal it is 128 plus the signal's number.

    Done; done, and the tolerance is not met; the own files, options or job are bad; a neighbour is lost, stopped or has
    failed, so that a start with --resume is worth trying; another identity, another job or a message that the protocol
    does not allow; an own failure, such as iterates that diverge.
    """

    DONE = 0
    NOT_MET = 1
    BAD_INPUT = 2
    TRY_AGAIN = 3
    REFUSED = 4
    FAILED = 5


class Reason(IntEnum):
    """Why a party ends, as its neighbours are told."""

    FINISHED = 0
    STOPPED = 1
    LOST = 2
    SLOW = 3
    REFUSED = 4
    DIVERGED = 5
    INPUT = 6
    RESUME = 7
    FAILED = 8


# What is printed of each, and the exit code of the neighbour that is told so.
_MEANINGS = {
    Reason.FINISHED: ("it has finished", ExitCode.TRY_AGAIN),  # and this party has not: its state is older
    Reason.STOPPED: ("it was stopped", ExitCode.TRY_AGAIN),
    Reason.LOST: ("it lost agent {agent}", ExitCode.TRY_AGAIN),
    Reason.SLOW: ("it gave up waiting for agent {agent} in round {round}", ExitCode.TRY_AGAIN),
    Reason.REFUSED: ("it refused a message from agent {agent} in round {round}", ExitCode.REFUSED),
    Reason.DIVERGED: (
        "the iterates of agent {agent} are no longer finite: reduce the steps, or use a lazy network", ExitCode.FAILED,
    ),
    Reason.INPUT: ("agent {agent} cannot use its own input; its operator is told why", ExitCode.TRY_AGAIN),
    Reason.RESUME: ("the parties do not resume alike: start all with --resume, or none", ExitCode.BAD_INPUT),
    Reason.FAILED: ("agent {agent} failed; its operator is told why", ExitCode.TRY_AGAIN),
}  # fmt: skip


class Farewell(NamedTuple):
    """All that a party says to its neighbours when it ends: why, because of which agent, and in which round."""

    reason: Reason
    agent: int = NOBODY
    round: int = 0

    def pack(self) -> bytes:
        """The farewell as bytes."""
        return _FAREWELL.pack(self.reason, self.agent, self.round)

    @staticmethod
    def read(payload: bytes) -> Farewell:
        """The farewell that arrived; one that cannot be read counts as a failure without more words."""
        try:
            reason, agent, number = _FAREWELL.unpack(payload)
            return Farewell(Reason(reason), agent, number)
        except (struct.error, ValueError):
            return Farewell(Reason.FAILED)

    @property
    def sentence(self) -> str:
        """What is printed of it."""
        return _MEANINGS[self.reason][0].format(agent="?" if self.agent == NOBODY else self.agent, round=self.round)


class Peer(str):
    """The title of a party in messages, with the number of its first agent, by which all others know it."""

    __slots__ = ("agent",)
    agent: int

    def __new__(cls, title: str, agent: int = NOBODY) -> Peer:
        """A title and a number."""
        peer = super().__new__(cls, title)
        peer.agent = agent
        return peer


class LinkError(NpgaError):
    """A neighbour can no longer be worked with; the run ends here and can be resumed.

    Parameters
    ----------
    peer
        Who, for example "agent 3".
    reason
        What was seen.
    farewell
        What the neighbour said, if it said anything; it is passed on, so that all learn the first cause.
    """

    code: ClassVar[Reason] = Reason.LOST
    words: ClassVar[str] = "trouble with"

    def __init__(self, peer: str, reason: str, farewell: Farewell | None = None) -> None:
        super().__init__(f"{self.words} {peer}: {reason}")
        self.peer, self.reason, self.farewell = peer, reason, farewell


class PeerLost(LinkError):  # noqa: N818
    """The neighbour has gone, or has said that it ends."""

    words = "lost"


class StartedAgain(PeerLost):
    """A party of the network was started again: whoever can goes back to where all can go on, in the same process."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer, "it has been started again, and so must this party be: with --resume")


class PeerSlow(LinkError):  # noqa: N818
    """The neighbour is there and did not send in time."""

    code, words = Reason.SLOW, "gave up waiting for"


class BadMessage(LinkError):  # noqa: N818
    """The neighbour sent something else than the protocol allows at this point."""

    code, words = Reason.REFUSED, "refused a message from"


class Diverged(NpgaError):  # noqa: N818
    """An agent's own numbers are no longer finite."""

    def __init__(self, agent: int) -> None:
        super().__init__(Farewell(Reason.DIVERGED, agent).sentence)
        self.agent = agent


class ResumeError(InputError):
    """The parties do not go on from one state."""


class Stopped(KeyboardInterrupt):
    """The operator or the system asked this process to end; event loops let it pass as they do Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; go on with --resume")
        self.signal = number


class Notice:
    """The word that this process is to end: a signal leaves it, and every round looks for it.

    An exception out of a signal's handler is lost where it arrives in a callback of a library. Those of gRPC are C
    functions: they print it as ignored, and what they were about to wake sleeps on. So while such callbacks may run,
    and `wake` is set, the handler leaves word and wakes whoever waits; at all other times it raises as well. Once the
    process is ending, for whatever reason, nothing interrupts what it still has to save, to say and to write.
    """

    def __init__(self) -> None:
        self.stopped: Stopped | None = None
        self.wake: Callable[[], object] | None = None
        self.is_ending = False

    def leave(self, number: int) -> None:
        """Called by the handler of a signal."""
        if self.is_ending:
            return
        self.stopped = Stopped(number)
        if self.wake is None:
            raise self.stopped
        self.wake()

    def heed(self) -> None:
        """Raise what a signal has left, if it has."""
        if self.stopped is not None:
            raise self.stopped

    def outside(self, work: Callable[[], None]) -> None:
        """Do what may take long and is no library's callback: a signal ends it at once."""
        wake, self.wake = self.wake, None
        self.heed()
        work()
        self.heed()
        self.wake = wake


NOTICE = Notice()


def farewell_of(error: BaseException | None, agent: int, number: int) -> Farewell:
    """What agent `agent` tells its neighbours of an error that ended it in round `number`."""
    if error is None:
        return Farewell(Reason.FINISHED, agent, number)
    if isinstance(error, LinkError):
        return error.farewell or Farewell(error.code, getattr(error.peer, "agent", NOBODY), number)
    if isinstance(error, Diverged):
        return Farewell(Reason.DIVERGED, error.agent, number)
    if isinstance(error, ResumeError):
        return Farewell(Reason.RESUME, agent, number)
    if isinstance(error, KeyboardInterrupt):
        return Farewell(Reason.STOPPED, agent, number)
    return Farewell(Reason.INPUT if isinstance(error, InputError) else Reason.FAILED, agent, number)


def exit_code(error: BaseException) -> int:
    """The exit code of a process that ends with this error."""
    if isinstance(error, Stopped):
        return 128 + error.signal
    if isinstance(error, LinkError):
        return _MEANINGS[error.farewell.reason if error.farewell is not None else error.code][1]
    if isinstance(error, (InputError, MissingExtraError)):
        return ExitCode.BAD_INPUT
    return ExitCode.FAILED


def printable(text: object) -> str:
    """Words from elsewhere, fit to be printed and stored: cut, and without control characters."""
    words = str(text)
    shown = "".join(c if c.isprintable() else "?" for c in words[:_LONGEST])
    return shown if len(words) <= _LONGEST else f"{shown} ..."
