"""The exchange: answers an iteration's requests for all agents at once, and counts them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from npga.errors import NetworkError
from npga.networks._network import Network
from npga.networks._schedule import Schedule
from npga.networks._version import Version

Array = npt.NDArray[Any]


class Gossip:
    """Answers ``(u, op)`` with K_op u, the edge differences of the n x p array u.

    Parameters
    ----------
    network
        Who talks to whom.
    version, schedule
        They name the operators and their edge weights.

    Attributes
    ----------
    rounds : int
        How often every agent has sent a vector to each of its neighbours.
    """

    def __init__(self, network: Network, version: Version, schedule: Schedule) -> None:
        self._network = network
        self._weights = {op: version.edge_weights(network, op) for op in schedule.ops}
        self._sent: Array | None = None
        self.rounds = 0

    def __call__(self, vector: Array | None, op: str) -> Array:
        """K_op applied to a vector that is sent now, or (for None) to the one that was sent last."""
        if vector is not None:
            self._sent = vector
            self.rounds += 1
        if self._sent is None:
            raise NetworkError("a request for the last message arrived before any was sent; send a vector first")
        return self._network.differences(self._sent, self._weights[op])
