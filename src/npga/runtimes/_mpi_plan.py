"""The buffers of one neighbourhood collective, laid out once and used in every round of that length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._frame import HEADER_SIZE, ROUND_SIZE, Due, Kind, frame_size, header, round_bytes, unpack
from npga.runtimes._layout import Layout

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]
# The highest byte of an infinity or a NaN, and of finite numbers so large that a closer look costs nobody anything.
_POSITIVE, _NEGATIVE = 0x7F, 0xFF


class Plan:
    """Messages of one length between this rank and its neighbours, one row of bytes each.

    With one agent on every rank all neighbours get the same row, an Ineighbor_allgather. Otherwise each neighbouring
    rank gets the rows of the agents that it has links with, an Ineighbor_alltoallv.

    With more ranks than cores every round begins with cold caches, and the time goes into how much code is touched:
    rows are written and checked as bytes, without NumPy's general loops.
    """

    def __init__(
        self, graph: MPI.Distgraphcomm, layout: Layout, me: int, run: int, length: int, dtype: np.dtype[Any]
    ) -> None:
        borders = layout.borders(me)
        size = frame_size(length, dtype)
        single = all(len(agents) == 1 for agents in layout.parties)
        self._due = Due(run, 0, Kind.DATA, 0, length, dtype)
        self._own = list(layout.parties[me]) if single else [i for border in borders.values() for i in border.ours]
        self._sources = [(j, layout.title(party)) for party, border in borders.items() for j in border.theirs]
        self._size = size * len(self._own)
        self._incoming = bytearray(size * len(self._sources))
        rows = [memoryview(self._incoming)[at : at + size] for at in range(0, len(self._incoming), size)]
        self._rows, self._heads = rows, [row[:HEADER_SIZE] for row in rows]
        self._vectors = {
            j: np.frombuffer(row, dtype, offset=HEADER_SIZE) for (j, _), row in zip(self._sources, rows, strict=True)
        }
        self._tops = slice(dtype.itemsize - 1, None, dtype.itemsize)
        self._graph, self._single = graph, single
        self._sent = [size * len(border.ours) for border in borders.values()]
        self._received = [size * len(border.theirs) for border in borders.values()]
        self.bytes_sent, self.bytes_received = sum(self._sent), sum(self._received)
        self._turn(Kind.DATA)

    def _turn(self, kind: Kind) -> None:
        """From now on messages are of this kind; what is known of their headers is made once."""
        self._due = self._due._replace(kind=kind)
        self._beginnings = [(i, self._beginning(i)) for i in self._own]
        # A round that joins these makes the headers that are due, one after another.
        self._wanted = [*(self._beginning(j) for j, _ in self._sources), b""]

    def _beginning(self, sender: int) -> bytes:
        return header(self._due._replace(sender=sender))[:-ROUND_SIZE]

    def start(self, kind: Kind, number: int, vectors: Mapping[int, Array]) -> MPI.Request:
        """Write the rows and set them going."""
        if kind is not self._due.kind:
            self._turn(kind)
        stamp = round_bytes(number)
        pieces: list[bytes] = []
        for i, beginning in self._beginnings:
            pieces += beginning, stamp, vectors[i].tobytes()
        rows = b"".join(pieces)
        if len(rows) != self._size:
            raise InputError(
                f"the vectors of this party take {len(rows)} bytes with their headers; expected {self._size}: all must "
                f"have {self._due.length} entries of {self._due.dtype}"
            )
        return self._send(rows)

    def _send(self, rows: bytes) -> MPI.Request:
        if self._single:
            return self._graph.Ineighbor_allgather(rows, self._incoming)
        return self._graph.Ineighbor_alltoallv([rows, self._sent], [self._incoming, self._received])

    def finish(self, number: int) -> dict[int, Array]:
        """The vectors by agent, after every row has been checked."""
        highest = self._incoming[self._tops]
        if (
            b"".join(self._heads) != round_bytes(number).join(self._wanted)
            or _POSITIVE in highest or _NEGATIVE in highest
        ):  # fmt: skip
            due = self._due._replace(round=number)
            for row, (j, peer) in zip(self._rows, self._sources, strict=True):
                unpack(row, due._replace(sender=j), peer)
        return self._vectors
