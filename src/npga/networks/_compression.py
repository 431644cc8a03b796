"""Messages of fewer numbers: top-k, random-k and b bits, with error feedback.

Each agent i and its neighbours hold a copy c_i of what i sends in a given round of an iteration. Instead of the vector
u_i, the compressed difference Q(u_i - c_i) is sent, everybody adds it to the copy, and the copies are what is mixed:

    c_i+ = c_i + Q(u_i - c_i),      (K c+)_i = sum_j w_ij (c_i+ - c_j+).

What Q leaves out stays in the next difference, which is the feedback (EF21 of Richtarik, Sokolov & Fatkhullin 2021; the
mixing of copies is that of CHOCO, Koloskova, Stich & Jaggi 2019). If |Q(d) - d| <= r |d| with r < 1 the copies follow
vectors that settle, and the error dies out; the sum over the agents of K c is zero whatever Q does, so that the
invariant of the recursion stays. Nothing more is proved here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npga.errors import NetworkError, nearest
from npga.networks._changing_graphs import UnsteadyNetwork
from npga.networks._exchange import Gossip, Schedule
from npga.networks._network import Network

if TYPE_CHECKING:
    from npga.networks._version import Version

Array = npt.NDArray[Any]
KINDS = ("top-k", "random-k", "bits")


@dataclass(frozen=True)
class Compressor:
    """The map Q, on each row by itself.

    Parameters
    ----------
    kind
        "top-k" keeps the k largest entries; "random-k" keeps k entries that sender and receiver draw alike from a
        seed; "bits" rounds to 2^(b - 1) - 1 levels of either sign of the largest entry.
    size
        k, or the number of bits b >= 2.
    seed
        Of random-k.
    """

    kind: str
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NetworkError(f"kind is {self.kind!r}; {nearest(str(self.kind), KINDS)}")
        least = 2 if self.kind == "bits" else 1
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not least <= self.size:
            raise NetworkError(f"size is {self.size!r}; expected a whole number >= {least} for {self.kind}")

    def numbers(self, p: int) -> float:
        """Numbers of 64 bits in a message: top-k sends values and places, b bits also the largest entry."""
        if self.kind == "bits":
            return 1.0 + p * self.size / 64.0
        kept = min(self.size, p)
        return float(2 * kept if self.kind == "top-k" else kept)

    def __call__(self, rows: Array, number: int) -> Array:
        """Q of every row, in a round."""
        p = rows.shape[1]
        if self.kind == "bits":
            levels = rows.dtype.type(2 ** (self.size - 1) - 1)
            largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
            unit = np.where(largest > 0.0, largest, 1.0).astype(rows.dtype)
            return np.asarray(np.round(rows / unit * levels) / levels * unit)
        if self.size >= p:
            return rows
        if self.kind == "top-k":
            order = np.argsort(-np.abs(rows), axis=1, kind="stable")
        else:
            order = np.random.default_rng([self.seed, number]).random(rows.shape).argsort(axis=1)
        out = np.zeros_like(rows)
        kept = order[:, : self.size]
        np.put_along_axis(out, kept, np.take_along_axis(rows, kept, axis=1), axis=1)
        return out


class CompressedNetwork(UnsteadyNetwork):
    """A network that carries compressed messages; made by `Network.compressed`."""

    _stored = ("compressor",)
    kind = "network with compressed messages"
    compressor: Compressor

    @classmethod
    def of(cls, network: Network, compressor: Compressor) -> CompressedNetwork:
        """The network with compressed messages."""
        if not network.is_steady:
            raise NetworkError(f"a {network.kind} arrived; expected a steady one, on which all copies stay alike")
        compressed = cls.__new__(cls)
        compressed._fill(network.__getstate__() | {"compressor": compressor})
        return compressed

    def gossip(self, version: Version, schedule: Schedule) -> Gossip:
        """What answers the requests of a schedule on this network."""
        return CompressedGossip(self, version, schedule)

    def numbers(self, p: int) -> float:
        """Numbers in a message that stands for a vector of length p."""
        return self.compressor.numbers(p)

    @property
    def _own(self) -> str:
        return repr(self.compressor)


class CompressedGossip(Gossip):
    """Answers with products of the copies, one for each round of an iteration."""

    def __init__(self, network: CompressedNetwork, version: Version, schedule: Schedule) -> None:
        super().__init__(network, version, schedule)
        self._compressor, self._count = network.compressor, schedule.rounds

    def begin(self, iteration: int, rounds: int, copies: tuple[Array, ...]) -> None:
        """What follows belongs to this iteration; the copies are those of the last one."""
        super().begin(iteration, rounds, copies)
        self._slot = 0

    def transmitted(self, vector: Array) -> Array:
        """The copy after the message."""
        if not self.copies:
            self.copies = (np.zeros_like(vector),) * self._count
        old = self.copies[self._slot]
        new = old + self._compressor(vector - old, self.rounds)
        self.copies = (*self.copies[: self._slot], new, *self.copies[self._slot + 1 :])
        self._slot += 1
        return np.asarray(new)
