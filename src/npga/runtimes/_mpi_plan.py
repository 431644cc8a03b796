"""The buffers of one neighbourhood collective, laid out once and used in every round of that length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.runtimes._frame import FIELDS, HEADER_SIZE, Due, Kind, frame_size, headers, unpack
from npga.runtimes._layout import Layout

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]


class Plan:
    """Messages of one length between this rank and its neighbours, one row of bytes each.

    With one agent on every rank all neighbours get the same row, an Ineighbor_allgather. Otherwise each neighbouring
    rank gets the rows of the agents that it has links with, an Ineighbor_alltoallv.
    """

    def __init__(
        self, graph: MPI.Distgraphcomm, layout: Layout, me: int, run: int, length: int, dtype: np.dtype[Any]
    ) -> None:
        borders = layout.borders(me)
        size = frame_size(length, dtype)
        single = all(len(agents) == 1 for agents in layout.parties)
        self._due = Due(run, 0, Kind.DATA, 0, length, dtype)
        own = layout.parties[me] if single else [i for border in borders.values() for i in border.ours]
        self._sources = [(j, layout.title(party)) for party, border in borders.items() for j in border.theirs]
        outgoing = np.zeros((len(own), size), np.uint8)
        self.incoming = np.zeros((len(self._sources), size), np.uint8)
        outgoing[:, :HEADER_SIZE] = headers(self._due, own).view(np.uint8).reshape(len(own), HEADER_SIZE)
        self._out_heads = outgoing[:, :HEADER_SIZE].view(FIELDS)
        self._out_values = [(i, row[HEADER_SIZE:].view(dtype)) for i, row in zip(own, outgoing, strict=True)]
        self._in_heads = self.incoming[:, :HEADER_SIZE]
        self._wanted = headers(self._due, [j for j, _ in self._sources])
        self._counters = [(heads["kind"], heads["round"]) for heads in (self._out_heads, self._wanted)]
        self._in_values = self.incoming[:, HEADER_SIZE:].view(dtype)
        self._vectors = {j: values for (j, _), values in zip(self._sources, self._in_values, strict=True)}
        self.bytes_sent = size * sum(len(border.ours) for border in borders.values())
        if single:
            self._collective: Any = graph.Ineighbor_allgather
            self._buffers: tuple[Any, Any] = (outgoing, self.incoming)
        else:
            self._collective = graph.Ineighbor_alltoallv
            counts = [[size * len(side) for side in sides] for sides in (
                [border.ours for border in borders.values()], [border.theirs for border in borders.values()]
            )]  # fmt: skip
            self._buffers = ([outgoing, counts[0]], [self.incoming, counts[1]])

    def start(self, kind: Kind, number: int, vectors: Mapping[int, Array]) -> MPI.Request:
        """Write the rows and set them going."""
        for kinds, rounds in self._counters:
            kinds[...] = kind
            rounds[...] = number
        for i, row in self._out_values:
            row[:] = vectors[i]
        request: MPI.Request = self._collective(*self._buffers)
        return request

    def finish(self, kind: Kind, number: int) -> dict[int, Array]:
        """The vectors by agent, after every row has been checked."""
        if self._in_heads.tobytes() != self._wanted.tobytes() or not np.isfinite(self._in_values).all():
            due = self._due._replace(kind=kind, round=number)
            for row, (j, peer) in zip(self.incoming, self._sources, strict=True):
                unpack(row.data, due._replace(sender=j), peer)
        return self._vectors
