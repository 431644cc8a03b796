"""One message on the wire: a fixed header and a payload, checked before it is used.

    magic "NPGA" | protocol u8 | kind u8 | dtype char | 0 | run u64 | sender u32 | length u32 | round u64 | payload

Little-endian, and so must be the machines: payloads are the numbers as they lie in memory. `length` counts the entries
of the payload; `run` is a number that only the two ends of this connection know since they opened it, so that nothing
from an earlier run can be replayed.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npga.runtimes._errors import BadMessage, LinkError, PeerLost

Array = NDArray[Any]
PROTOCOL = 1
_MAGIC = b"NPGA"
_HEADER = struct.Struct("<4sBBcxQIIQ")
HEADER_SIZE = _HEADER.size
_KIND_AT = 5
_ROUND = struct.Struct("<Q")  # the end of the header
ROUND_SIZE, round_bytes = _ROUND.size, _ROUND.pack
_TEXT = b"S"
# The highest byte of an infinity or a NaN, and of finite numbers so large that a closer look costs nobody anything.
_POSITIVE, _NEGATIVE = 0x7F, 0xFF
_CODES = {np.dtype(np.float64): b"d", np.dtype(np.float32): b"f"}


class Kind(IntEnum):
    """What a message is for."""

    HELLO = 0
    DATA = 1
    CONTROL = 2
    BYE = 3
    WAITING = 4

    __hash__ = int.__hash__  # Enum's own is Python code, too slow for a key that is looked up in every round


class Due(NamedTuple):
    """What the next message must be."""

    run: int
    sender: int
    kind: Kind
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
    if perhaps_infinite(bytes(frame[HEADER_SIZE + step - 1 :: step])) and not np.isfinite(vector).all():
        where = int(np.argmin(np.isfinite(vector)))
        raise BadMessage(peer, f"entry {where} is {vector[where]}; expected finite numbers")
    return vector


def perhaps_infinite(highest: bytes | bytearray) -> bool:
    """Whether numbers with these highest bytes can be infinite or NaN.

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
    if kind == Kind.BYE:
        return PeerLost(peer, bytes(frame[HEADER_SIZE:]).decode("utf-8", "replace"))
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


def pack_text(run: int, sender: int, kind: Kind, text: str) -> bytes:
    """A message of words: a hello, or a farewell with its reason."""
    payload = text.encode()
    return _HEADER.pack(_MAGIC, PROTOCOL, kind, _TEXT, run, sender, len(payload), 0) + payload


def is_farewell(frame: bytes) -> bool:
    """Whether a message ends the conversation."""
    return len(frame) >= HEADER_SIZE and frame[_KIND_AT] == Kind.BYE


def unpack_hello(frame: bytes, peer: str) -> str:
    """The text of a hello; the first message on every connection."""
    if len(frame) < HEADER_SIZE:
        raise BadMessage(peer, f"{len(frame)} bytes arrived; expected a hello")
    magic, protocol, kind, *_ = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise BadMessage(peer, f"it begins with {magic!r}; expected {_MAGIC!r}: not an npga agent")
    if protocol != PROTOCOL:
        raise BadMessage(peer, f"it speaks protocol {protocol} and this one {PROTOCOL}; install the same release")
    text = bytes(frame[HEADER_SIZE:]).decode("utf-8", "replace")
    if kind == Kind.BYE:
        raise PeerLost(peer, text)
    if kind != Kind.HELLO:
        raise BadMessage(peer, f"a message of kind {kind} arrived; expected a hello")
    return text
