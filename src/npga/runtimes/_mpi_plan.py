"""The buffers of one neighbourhood collective, laid out once and used in every round of that length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class _Repeated:
    """Stands in for a persistent collective where MPI has none (before version 4): a new one in every round."""

    def __init__(self, begin: Callable[..., MPI.Request], sent: Any, received: Any) -> None:
        self._begin, self._sent, self._received = begin, sent, received
        self._request: MPI.Request

    def Start(self) -> None:
        self._request = self._begin(self._sent, self._received)

    def Test(self) -> bool:
        return self._request.Test()


class Plan:
    """Messages of one length between this rank and its neighbours, one row of bytes each.

    With one agent on every rank all neighbours get the same row, a neighbourhood allgather. Otherwise each neighbouring
    rank gets the rows of the agents that it has links with, an alltoallv. The buffers stay, so MPI lays out the
    collective once as well and every round only starts it again.

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
        self._outgoing, outgoing = _rows(len(self._own), size)
        self._heads = [row[: HEADER_SIZE - ROUND_SIZE] for row in outgoing]
        self._written = [
            (i, row[HEADER_SIZE - ROUND_SIZE : HEADER_SIZE], np.frombuffer(row, dtype, offset=HEADER_SIZE).data)
            for i, row in zip(self._own, outgoing, strict=True)
        ]
        self._incoming, self._rows = _rows(len(self._sources), size)
        self._arrived = [row[:HEADER_SIZE] for row in self._rows]
        self._vectors = {
            j: np.frombuffer(row, dtype, offset=HEADER_SIZE)
            for (j, _), row in zip(self._sources, self._rows, strict=True)
        }
        self._tops = slice(dtype.itemsize - 1, None, dtype.itemsize)
        sent = [size * len(border.ours) for border in borders.values()]
        received = [size * len(border.theirs) for border in borders.values()]
        self.bytes_sent, self.bytes_received = sum(sent), sum(received)
        self.request = (
            _repeatable(graph.Neighbor_allgather_init, graph.Ineighbor_allgather, self._outgoing, self._incoming)
            if single
            else _repeatable(
                graph.Neighbor_alltoallv_init, graph.Ineighbor_alltoallv,
                [self._outgoing, sent], [self._incoming, received],
            )
        )  # fmt: skip
        self._turn(Kind.DATA)

    def _turn(self, kind: Kind) -> None:
        """From now on messages are of this kind; what is known of their headers is made once."""
        self._due = self._due._replace(kind=kind)
        for i, head in zip(self._own, self._heads, strict=True):
            head[:] = self._beginning(i)
        # A round that joins these makes the headers that are due, one after another.
        self._wanted = [*(self._beginning(j) for j, _ in self._sources), b""]

    def _beginning(self, sender: int) -> bytes:
        return header(self._due._replace(sender=sender))[:-ROUND_SIZE]

    def start(self, kind: Kind, number: int, vectors: Mapping[int, Array]) -> None:
        """Write the rows and set them going."""
        if kind is not self._due.kind:
            self._turn(kind)
        stamp = round_bytes(number)
        for i, place, numbers in self._written:
            place[:] = stamp
            try:
                numbers[:] = vectors[i].data
            except ValueError:
                raise InputError(
                    f"the vector of agent {i} has shape {vectors[i].shape} and type {vectors[i].dtype}; expected "
                    f"{self._due.length} entries of {self._due.dtype}, as the others of this party have"
                ) from None
        self.request.Start()

    def finish(self, number: int) -> dict[int, Array]:
        """The vectors by agent, after every row has been checked."""
        highest = self._incoming[self._tops]
        if (
            b"".join(self._arrived) != round_bytes(number).join(self._wanted)
            or _POSITIVE in highest or _NEGATIVE in highest
        ):  # fmt: skip
            due = self._due._replace(round=number)
            for row, (j, peer) in zip(self._rows, self._sources, strict=True):
                unpack(row, due._replace(sender=j), peer)
        return self._vectors


def _rows(count: int, size: int) -> tuple[bytearray, list[memoryview]]:
    """A buffer, and its parts of `size` bytes."""
    buffer = bytearray(count * size)
    return buffer, [memoryview(buffer)[at : at + size] for at in range(0, len(buffer), size)]


def _repeatable(
    lasting: Callable[..., MPI.Prequest], passing: Callable[..., MPI.Request], sent: Any, received: Any
) -> MPI.Prequest | _Repeated:
    """A collective to be started again and again: the lasting kind, or the passing one where MPI has no other."""
    try:
        return lasting(sent, received)
    except NotImplementedError:
        return _Repeated(passing, sent, received)
