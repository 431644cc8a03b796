"""What travels between agents that are apart, checked before it is used.

A message is a fixed header and a payload,

    magic "NPGA" | protocol u8 | kind u8 | dtype char | 0 | run u64 | sender u32 | length u32 | round u64 | payload

little-endian, and so must be the machines: payloads are the numbers as they lie in memory. `length` counts the entries
of the payload; `run` is a number that only the two ends of this connection know since they opened it, so that nothing
from an earlier run can be replayed. Messages of one kind and length, to or from one neighbour or all of them, make a
packet.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from npga import __version__
from npga.errors import InputError
from npga.runtimes._faults import BadMessage, Farewell, LinkError, PeerLost, printable
from npga.runtimes._job import Layout

Array = NDArray[Any]
PROTOCOL = 5
_MAGIC = b"NPGA"
_HEADER = struct.Struct("<4sBBcxQIIQ")
HEADER_SIZE = _HEADER.size
KIND_AT = 5
_ROUND = struct.Struct("<Q")  # the end of the header
ROUND_SIZE, round_bytes = _ROUND.size, _ROUND.pack
_TEXT = b"S"
_WORD, _MOST_HOPS = struct.Struct("<QH"), 2**16 - 1
_LARGEST_WHOLE = 2**53
# The highest byte of an infinity, a NaN, and of finite numbers too large to be sent: no smaller one has it.
_POSITIVE, _NEGATIVE = 0x7F, 0xFF
_CODES = {np.dtype(np.float64): b"d", np.dtype(np.float32): b"f"}
_LARGEST = {np.dtype(np.float64): 2.0**1009, np.dtype(np.float32): np.float32(2.0**127)}


# One message


class MessageKind(IntEnum):
    """What a message is for."""

    HELLO = 0
    DATA = 1
    CONTROL = 2
    BYE = 3
    WAITING = 4
    OUTAGE = 5
    ARRIVED = 6

    __hash__ = int.__hash__  # Enum's own is Python code, too slow for a key that is looked up in every round


class Due(NamedTuple):
    """What the next message must be."""

    run: int
    sender: int
    kind: MessageKind
    round: int
    length: int
    dtype: np.dtype[Any]


def frame_size(length: int, dtype: np.dtype[Any]) -> int:
    """Bytes of a message of `length` numbers."""
    return HEADER_SIZE + length * dtype.itemsize


def header(due: Due) -> bytes:
    """The header that the message due must have, byte for byte."""
    return _HEADER.pack(_MAGIC, PROTOCOL, due.kind, _CODES[due.dtype], due.run, due.sender, due.length, due.round)


def unpack(frame: bytes | memoryview, due: Due, peer: str) -> Array:
    """The vector of a message that is exactly the one due; anything else is refused with its reason."""
    if len(frame) != frame_size(due.length, due.dtype) or frame[:HEADER_SIZE] != header(due):
        raise _refusal(frame, due, peer)
    vector = np.frombuffer(frame, due.dtype, due.length, HEADER_SIZE)
    step = due.dtype.itemsize
    if perhaps_infinite(bytes(frame[HEADER_SIZE + step - 1 :: step])) and not in_range(vector):
        limit = _LARGEST[due.dtype]
        where = int(np.argmin(np.abs(vector) < limit))
        raise BadMessage(peer, f"entry {where} is {vector[where]}; expected finite numbers below {limit:g}")
    return vector


def in_range(vector: Array) -> bool:
    """Whether all numbers are finite, and none is so large that what others compute from it would not be."""
    return bool(np.abs(vector).max() < _LARGEST[vector.dtype])


def perhaps_infinite(highest: bytes | bytearray) -> bool:
    """Whether numbers with these highest bytes can be infinite, NaN or out of range.

    With many processes on few cores every round begins with cold caches; looking at bytes touches far less code than
    NumPy's `isfinite`.
    """
    return _POSITIVE in highest or _NEGATIVE in highest


def _refusal(frame: bytes | memoryview, due: Due, peer: str) -> LinkError:
    """What is wrong with a message whose header or length is not the one due."""
    if len(frame) < HEADER_SIZE:
        return BadMessage(peer, f"{len(frame)} bytes arrived; expected a header of {HEADER_SIZE}")
    magic, protocol, kind, code, run, sender, length, number = _HEADER.unpack_from(frame)
    if magic != _MAGIC or protocol != PROTOCOL:
        return BadMessage(peer, f"it begins with {magic!r}, protocol {protocol}; expected {_MAGIC!r}, {PROTOCOL}")
    if run != due.run:
        return BadMessage(peer, f"it belongs to run {run:016x}; expected {due.run:016x}: replayed, or another job")
    if kind == MessageKind.BYE:
        return _gone(frame, peer)
    if sender != due.sender:
        return BadMessage(peer, f"it says that agent {sender} sent it; expected agent {due.sender}")
    if (kind, number) != (due.kind, due.round):
        return BadMessage(
            peer, f"kind {kind}, round {number} arrived; expected kind {int(due.kind)}, round {due.round}: "
            + ("a message came twice or late" if number < due.round else "a message is missing")
        )  # fmt: skip
    return BadMessage(
        peer,
        f"{length} numbers of type {code.decode('latin1')!r} in {len(frame)} bytes arrived; expected {due.length} "
        f"of type {_CODES[due.dtype].decode()!r} in {frame_size(due.length, due.dtype)}",
    )


def _gone(frame: bytes | memoryview, peer: str) -> PeerLost:
    farewell = Farewell.read(bytes(frame[HEADER_SIZE:]))
    return PeerLost(peer, farewell.sentence, farewell)


def pack_bytes(run: int, sender: int, kind: MessageKind, payload: bytes) -> bytes:
    """A message of something else than numbers: a hello, or a farewell."""
    return _HEADER.pack(_MAGIC, PROTOCOL, kind, _TEXT, run, sender, len(payload), 0) + payload


def pack_word(run: int, sender: int, kind: MessageKind, exchange: int, hops: int) -> bytes:
    """A word about waiting: in which exchange its sender waits, and over how many others the word has come to it."""
    return pack_bytes(run, sender, kind, _WORD.pack(exchange, min(hops, _MOST_HOPS)))


def unpack_word(frame: bytes, run: int, sender: int) -> tuple[MessageKind, int, int] | None:
    """MessageKind, exchange and hops of a word about waiting from this sender in this run; None if it is none."""
    if len(frame) != HEADER_SIZE + _WORD.size:
        return None
    for kind in (MessageKind.WAITING, MessageKind.OUTAGE):
        if frame[:HEADER_SIZE] == pack_bytes(run, sender, kind, bytes(_WORD.size))[:HEADER_SIZE]:
            exchange, hops = _WORD.unpack_from(frame, HEADER_SIZE)
            return kind, exchange, hops
    return None


Roll = tuple[int, ...]  # the number of each party's process, larger for a later one; 0: nobody has heard of it


def pack_roll(link: int, sender: int, roll: Roll) -> bytes:
    """A word about who has come."""
    return pack_bytes(link, sender, MessageKind.ARRIVED, struct.pack(f"<{len(roll)}Q", *roll))


def unpack_roll(frame: bytes, link: int, sender: int, parties: int) -> Roll | None:
    """Who has come, as this sender says; None if the message is another or cannot be read."""
    expected = pack_roll(link, sender, (0,) * parties)
    if len(frame) != len(expected) or frame[:HEADER_SIZE] != expected[:HEADER_SIZE]:
        return None
    roll = struct.unpack_from(f"<{parties}Q", frame, HEADER_SIZE)
    return roll if max(roll) < _LARGEST_WHOLE else None


def is_farewell(frame: bytes) -> bool:
    """Whether a message ends the conversation."""
    return len(frame) >= HEADER_SIZE and frame[KIND_AT] == MessageKind.BYE


def read_farewell(frame: bytes, link: int, peer: str) -> PeerLost | None:
    """What to raise of a farewell; None if it belongs to another conversation."""
    return _gone(frame, peer) if is_farewell(frame) and _HEADER.unpack_from(frame)[4] == link else None


def unpack_hello(frame: bytes, peer: str) -> str:
    """The text of a hello; the first message on every connection."""
    if len(frame) < HEADER_SIZE:
        raise BadMessage(peer, f"{len(frame)} bytes arrived; expected a hello")
    magic, protocol, kind, *_ = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise BadMessage(peer, f"it begins with {magic!r}; expected {_MAGIC!r}: not an npga agent")
    if protocol != PROTOCOL:
        raise BadMessage(peer, f"it speaks protocol {protocol} and this one {PROTOCOL}; install the same release")
    if kind == MessageKind.BYE:
        raise _gone(frame, peer)
    if kind != MessageKind.HELLO:
        raise BadMessage(peer, f"a message of kind {kind} arrived; expected a hello")
    return bytes(frame[HEADER_SIZE:]).decode("utf-8", "replace")


# Several messages in one piece


class PacketForm:
    """The place of every message in a packet, and the headers that they must have.

    With many processes on few cores every round begins with cold caches, and the time goes into how much code is
    touched. So everything about the messages that stays is made once, and packets are checked as bytes, without NumPy's
    general loops; only what looks wrong is taken apart. `due` is what all the messages have in common, whatever its
    sender and round; `senders` are the agents that they come from, in order, each with what errors call its party.
    """

    def __init__(self, due: Due, senders: Sequence[tuple[int, str]]) -> None:
        self._due, self._senders = due, senders
        self.frame = frame_size(due.length, due.dtype)
        self.size = self.frame * len(senders)
        self._beginnings = [header(due._replace(sender=i))[:-ROUND_SIZE] for i, _ in senders]
        self._joined = [*self._beginnings, b""]  # a round that joins these makes the headers, one after another
        self._heads = [slice(at, at + HEADER_SIZE) for at in range(0, self.size, self.frame)]
        self._highest = slice(due.dtype.itemsize - 1, None, due.dtype.itemsize)

    def payloads(self, vectors: Mapping[int, Array]) -> dict[int, bytes]:
        """The vectors as bytes, if all are what the headers promise."""
        for i, vector in vectors.items():
            if vector.shape != (self._due.length,) or vector.dtype != self._due.dtype:
                raise self.refusal(i, vector)
        return {i: vector.tobytes() for i, vector in vectors.items()}

    def write(self, number: int, payloads: Mapping[int, bytes]) -> bytes:
        """The packet of a round."""
        stamp = round_bytes(number)
        pieces: list[bytes] = []
        for (i, _), beginning in zip(self._senders, self._beginnings, strict=True):
            pieces += beginning, stamp, payloads[i]
        return b"".join(pieces)

    def places(self, packet: bytearray) -> list[tuple[int, memoryview, memoryview]]:
        """For every message of a packet its agent, and where its round and its numbers are to be written."""
        view = memoryview(packet)
        return [
            (i, view[head.stop - ROUND_SIZE : head.stop], self._vector(packet, head).data)
            for (i, _), head in zip(self._senders, self._heads, strict=True)
        ]

    def refusal(self, agent: int, vector: Array) -> InputError:
        """What to say of a vector that is not of the length and type that the headers promise."""
        return InputError(
            f"the vector of agent {agent} has shape {vector.shape} and type {vector.dtype}; expected "
            f"{self._due.length} entries of {self._due.dtype}, as the others of this party have"
        )

    def heads(self, packet: bytes | bytearray) -> list[memoryview]:
        """The headers of a packet, as views of it."""
        view = memoryview(packet)
        return [view[head] for head in self._heads]

    def check(self, packet: bytes | bytearray, heads: Sequence[memoryview], number: int) -> None:
        """Refuse a packet whose messages are not those due in this round, or hold numbers that are not finite."""
        if (
            len(packet) == self.size
            and b"".join(heads) == round_bytes(number).join(self._joined)
            and not perhaps_infinite(packet[self._highest])
        ):
            return
        due, view = self._due._replace(round=number), memoryview(packet)
        for (i, peer), head in zip(self._senders, self._heads, strict=True):
            # A packet of another size is shown whole, to be refused as it is.
            frame = view[head.start :][: self.frame] if len(packet) == self.size else view
            unpack(frame, due._replace(sender=i), peer)

    def vectors(self, packet: bytes | bytearray) -> dict[int, Array]:
        """The vectors of a packet by agent; they are views of it."""
        return {i: self._vector(packet, head) for (i, _), head in zip(self._senders, self._heads, strict=True)}

    def _vector(self, packet: bytes | bytearray, head: slice) -> Array:
        return np.frombuffer(packet, self._due.dtype, self._due.length, head.stop)


# Before the first round


# What arrives in a hello is printed and compared: short words, whole numbers, and nothing that is not expected.
Word = Annotated[str, Field(max_length=64, pattern=r"^[ -~]*$")]
Whole = Annotated[int, Field(ge=0, lt=_LARGEST_WHOLE)]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


@checked(frozen=True, config={"extra": "forbid", "strict": True})
class Hello:
    """What the two ends of a connection must agree on before anything else is sent.

    Parameters
    ----------
    party, agents
        Who speaks.
    job, p, dtype, checkpoint_rounds, limits
        The digest of the shared part of the job, and what is worth its own message when it differs.
    nonce
        Fresh randomness; both ends' make the number of this run.
    protocol, release, clock
        For compatibility, and for `npga check`.
    process, known
        The number of the process that speaks, larger for a later one of its party, and the largest that it has heard
        of the party that it greets.
    run, received
        The run that it is in with the one that is greeted, and how many messages of it have come: more than none when
        a connection is opened again.
    check
        Whether this is only a look, which disturbs nobody's run.
    """

    party: Whole
    agents: tuple[Whole, ...]
    job: Word
    p: Whole
    dtype: Word
    checkpoint_rounds: Whole
    limits: Annotated[str, Field(max_length=160, pattern=r"^[ -~]*$")] = ""
    nonce: Nonce = field(default_factory=lambda: secrets.token_hex(16))
    protocol: Whole = PROTOCOL
    release: Word = __version__
    clock: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = field(default_factory=time.time)
    process: Whole = 0
    known: Whole = 0
    run: Word = ""
    received: Whole = 0
    check: bool = False

    def text(self) -> str:
        """The hello as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str, peer: str) -> Hello:
        """The hello that a neighbour sent."""
        try:
            return _HELLO.validate_json(text)
        except ValidationError as error:
            where = ", ".join(printable(".".join(map(str, item["loc"])) or item["type"]) for item in error.errors()[:3])
            raise BadMessage(peer, f"its hello cannot be read ({where})") from None

    def agree(self, other: Hello, party: int, layout: Layout) -> None:
        """Refuse a neighbour that is not `party`, or that is about to run something else."""
        peer = layout.title(party)
        if other.party != party or other.agents != layout.parties[party]:
            raise BadMessage(
                peer, f"it says it is party {other.party} with agents {list(other.agents)}; expected "
                f"party {party} with agents {list(layout.parties[party])}"
            )  # fmt: skip
        for name, remedy in (
            ("protocol", "install the same release of npga at both ends"),
            ("p", "both must use the same coupling rows"),
            ("dtype", "both must use the same number format"),
            ("checkpoint_rounds", "both must save in the same rounds"),
            ("job", "compare the shared parts of job.toml"),
            ("limits", "compare [stop] of job.toml"),
        ):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise BadMessage(peer, f"its {name} is {theirs} and here it is {mine}; {remedy}")


_HELLO = TypeAdapter(Hello)


def run_number(*hellos: Hello, roll: Roll = ()) -> int:
    """A number for this run of these ends, with these processes, different each time.

    No byte of it is 0x7F or 0xFF, so that `PacketForm.check` never mistakes a header for a number out of range.
    """
    digest = hashlib.blake2b(hellos[0].job.encode(), digest_size=8)
    for hello in sorted(hellos, key=lambda hello: hello.party):
        digest.update(hello.nonce.encode())
    digest.update(struct.pack(f"<{len(roll)}Q", *roll))
    return int.from_bytes(bytes(byte & 0x7E for byte in digest.digest()), "little")
