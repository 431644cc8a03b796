"""Messages of one kind and length, one after another in one block of bytes: to or from one neighbour, or all of them.

With many processes on few cores every round begins with cold caches, and the time goes into how much code is touched.
So everything about the messages that stays is made once, and blocks are checked as bytes, without NumPy's general
loops; only what looks wrong is taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._frame import HEADER_SIZE, ROUND_SIZE, Due, frame_size, header, perhaps_infinite, round_bytes, unpack

Array = NDArray[Any]


class Block:
    """The place of every message in a block, and the headers that they must have.

    Parameters
    ----------
    due
        What all the messages have in common; its sender and round do not matter.
    senders
        Where the messages come from, in order: agents, each with what error messages call its party.
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
        """The block of a round."""
        stamp = round_bytes(number)
        pieces: list[bytes] = []
        for (i, _), beginning in zip(self._senders, self._beginnings, strict=True):
            pieces += beginning, stamp, payloads[i]
        return b"".join(pieces)

    def places(self, block: bytearray) -> list[tuple[int, memoryview, memoryview]]:
        """For every message of a block its agent, and where its round and its numbers are to be written."""
        view = memoryview(block)
        return [
            (i, view[head.stop - ROUND_SIZE : head.stop], self._vector(block, head).data)
            for (i, _), head in zip(self._senders, self._heads, strict=True)
        ]

    def refusal(self, agent: int, vector: Array) -> InputError:
        """What to say of a vector that is not of the length and type that the headers promise."""
        return InputError(
            f"the vector of agent {agent} has shape {vector.shape} and type {vector.dtype}; expected "
            f"{self._due.length} entries of {self._due.dtype}, as the others of this party have"
        )

    def heads(self, block: bytes | bytearray) -> list[memoryview]:
        """The headers of a block, as views of it."""
        view = memoryview(block)
        return [view[head] for head in self._heads]

    def check(self, block: bytes | bytearray, heads: Sequence[memoryview], number: int) -> None:
        """Refuse a block whose messages are not those due in this round, or hold numbers that are not finite."""
        if (
            len(block) == self.size
            and b"".join(heads) == round_bytes(number).join(self._joined)
            and not perhaps_infinite(block[self._highest])
        ):
            return
        due, view = self._due._replace(round=number), memoryview(block)
        for (i, peer), head in zip(self._senders, self._heads, strict=True):
            # A block of another size is shown whole, to be refused as it is.
            frame = view[head.start :][: self.frame] if len(block) == self.size else view
            unpack(frame, due._replace(sender=i), peer)

    def vectors(self, block: bytes | bytearray) -> dict[int, Array]:
        """The vectors of a block by agent; they are views of it."""
        return {i: self._vector(block, head) for (i, _), head in zip(self._senders, self._heads, strict=True)}

    def _vector(self, block: bytes | bytearray, head: slice) -> Array:
        return np.frombuffer(block, self._due.dtype, self._due.length, head.stop)
