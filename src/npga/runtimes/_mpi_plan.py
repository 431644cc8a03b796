"""The buffers of one neighbourhood collective, laid out once and used in every round of that length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from npga.runtimes._block import Block
from npga.runtimes._frame import Due, round_bytes
from npga.runtimes._layout import Layout

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]


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
    """Messages of one kind and length between this rank and its neighbours.

    With one agent on every rank all neighbours get the same message, a neighbourhood allgather. Otherwise each
    neighbouring rank gets those of the agents that it has links with, an alltoallv. The buffers stay, so MPI lays out
    the collective once and every round only starts it again.

    Parameters
    ----------
    graph
        Communicator of the ranks that are neighbours.
    layout, me
        Who holds which agents, and which rank this is.
    due
        What all the messages have in common.
    """

    def __init__(self, graph: MPI.Distgraphcomm, layout: Layout, me: int, due: Due) -> None:
        borders = layout.borders(me)
        single = all(len(agents) == 1 for agents in layout.parties)
        own = layout.parties[me] if single else [i for border in borders.values() for i in border.ours]
        self._ours = Block(due, [(i, layout.title(me)) for i in own])
        self._theirs = Block(due, [(j, layout.title(q)) for q, border in borders.items() for j in border.theirs])
        self._outgoing = bytearray(self._ours.write(0, dict.fromkeys(own, bytes(due.length * due.dtype.itemsize))))
        self._incoming = bytearray(self._theirs.size)
        self._places = self._ours.places(self._outgoing)
        self._heads, self._vectors = self._theirs.heads(self._incoming), self._theirs.vectors(self._incoming)
        sent = [self._ours.frame * len(border.ours) for border in borders.values()]
        received = [self._theirs.frame * len(border.theirs) for border in borders.values()]
        self.bytes_sent, self.bytes_received = sum(sent), sum(received)
        self.request = (
            _repeatable(graph.Neighbor_allgather_init, graph.Ineighbor_allgather, self._outgoing, self._incoming)
            if single
            else _repeatable(
                graph.Neighbor_alltoallv_init, graph.Ineighbor_alltoallv,
                [self._outgoing, sent], [self._incoming, received],
            )
        )  # fmt: skip

    def start(self, number: int, vectors: Mapping[int, Array]) -> None:
        """Write the messages and set them going."""
        stamp = round_bytes(number)
        # Not `Block.write`: a new block of bytes in every round cost a quarter of it with thirteen ranks on two cores.
        for i, place, numbers in self._places:
            place[:] = stamp
            try:
                numbers[:] = vectors[i].data
            except ValueError:
                raise self._ours.refusal(i, vectors[i]) from None
        self.request.Start()

    def finish(self, number: int) -> dict[int, Array]:
        """The vectors by agent, after every message has been checked."""
        self._theirs.check(self._incoming, self._heads, number)
        return self._vectors


def _repeatable(
    lasting: Callable[..., MPI.Prequest], passing: Callable[..., MPI.Request], sent: Any, received: Any
) -> MPI.Prequest | _Repeated:
    """A collective to be started again and again: the lasting kind, or the passing one where MPI has no other."""
    try:
        return lasting(sent, received)
    except NotImplementedError:
        return _Repeated(passing, sent, received)
