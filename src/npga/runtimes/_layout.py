"""Which agents live in which process, and who therefore talks to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npga.errors import InputError
from npga.networks import Network


@dataclass(frozen=True)
class Border:
    """What passes between a party and one neighbouring party, in ascending order of the agents.

    Parameters
    ----------
    ours
        Own agents with a neighbour over there: their vectors are sent, each once.
    theirs
        The other side's agents with a neighbour here.
    """

    ours: tuple[int, ...]
    theirs: tuple[int, ...]


class Layout:
    """Agents assigned to parties.

    Parameters
    ----------
    network
        Who is linked with whom.
    parties
        The agents of every party; together all of them, each once.
    """

    def __init__(self, network: Network, parties: Sequence[Sequence[int]]) -> None:
        self.network = network
        self.parties = tuple(tuple(sorted(int(i) for i in agents)) for agents in parties)
        held = sorted(i for agents in self.parties for i in agents)
        if held != list(range(network.n)) or not all(self.parties):
            raise InputError(
                f"the parties hold the agents {held}; expected each of 0..{network.n - 1} once and no party empty"
            )

    @classmethod
    def even(cls, network: Network, count: int) -> Layout:
        """Contiguous blocks of nearly equal size on `count` processes."""
        if not 1 <= count <= network.n:
            raise InputError(
                f"{count} processes for {network.n} agents; expected between 1 and {network.n}, so that each holds one"
            )
        return cls(network, [block.tolist() for block in np.array_split(np.arange(network.n), count)])

    @cached_property
    def party_of(self) -> dict[int, int]:
        """The party of every agent."""
        return {i: party for party, agents in enumerate(self.parties) for i in agents}

    def borders(self, party: int) -> dict[int, Border]:
        """Neighbouring parties, ascending, with what passes between."""
        ours: dict[int, set[int]] = {}
        theirs: dict[int, set[int]] = {}
        for i in self.parties[party]:
            for j in self.network.neighbors(i).tolist():
                other = self.party_of[j]
                if other != party:
                    ours.setdefault(other, set()).add(i)
                    theirs.setdefault(other, set()).add(j)
        return {q: Border(tuple(sorted(ours[q])), tuple(sorted(theirs[q]))) for q in sorted(ours)}

    def title(self, party: int) -> str:
        """How messages call a party."""
        agents = self.parties[party]
        if len(agents) == 1:
            return f"agent {agents[0]}"
        return f"party {party} (agents {agents[0]} to {agents[-1]})"
