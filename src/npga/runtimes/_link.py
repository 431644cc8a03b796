"""Who holds which agents, and the seam between agents and engines: hello, exchange, close."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from npga import __version__
from npga.errors import InputError
from npga.networks import Network
from npga.runtimes._faults import BadMessage, Peer, printable
from npga.runtimes._wire import PROTOCOL, Kind

Array = NDArray[Any]


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

    def title(self, party: int) -> Peer:
        """How messages call a party."""
        agents = self.parties[party]
        if len(agents) == 1:
            return Peer(f"agent {agents[0]}", agents[0])
        return Peer(f"party {party} (agents {agents[0]} to {agents[-1]})", agents[0])


# What arrives in a hello is printed and compared: short words, whole numbers, and nothing that is not expected.
Word = Annotated[str, Field(max_length=64, pattern=r"^[ -~]*$")]
Whole = Annotated[int, Field(ge=0, lt=2**53)]
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
    received
        How many messages of this run have come from the one that is greeted: more than none when a connection is
        opened again.
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


def run_number(*hellos: Hello) -> int:
    """A number for this run of these ends, different each time.

    No byte of it is 0x7F or 0xFF, so that `PacketForm.check` never mistakes a header for a number out of range.
    """
    digest = hashlib.blake2b(hellos[0].job.encode(), digest_size=8)
    for hello in sorted(hellos, key=lambda hello: hello.party):
        digest.update(hello.nonce.encode())
    return int.from_bytes(bytes(byte & 0x7E for byte in digest.digest()), "little")


def nothing() -> None:
    """Nothing to do while messages travel."""


class Link(Protocol):
    """How one party, the process of one or more agents, talks to the parties it shares links with.

    `waits_for` are the parties whose message of this round is not here, and `waited` is how long they were waited for
    so far, as far as the engine can tell them apart.
    """

    waits_for: tuple[int, ...]
    waited: dict[int, float]

    @property
    def bytes_sent(self) -> int:
        """Bytes of all messages that were sent."""

    @property
    def bytes_received(self) -> int:
        """Bytes of all messages that came."""

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Connect, say hello and check the neighbours'; returns theirs by party.

        Raises PeerLost when a neighbour does not come, BadMessage when it is about to run something else.
        """

    def exchange(
        self, kind: Kind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """Send the vectors of the own agents in round `number`; return those of all remote neighbours, by agent.

        `meanwhile` is called once while the messages travel. Raises PeerLost, PeerSlow or BadMessage.
        """

    def close(self, error: BaseException | None = None) -> None:
        """End, and tell the neighbours why; never raises."""


class Alone:
    """The link of a party that holds every agent: nothing leaves the process."""

    bytes_sent = 0
    bytes_received = 0
    waits_for: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.waited: dict[int, float] = {}

    def open(self, hello: Hello) -> Mapping[int, Hello]:  # noqa: ARG002
        """Nobody to greet."""
        return {}

    def exchange(
        self,
        kind: Kind,  # noqa: ARG002
        number: int,  # noqa: ARG002
        vectors: Mapping[int, Array],  # noqa: ARG002
        meanwhile: Callable[[], None] = nothing,
    ) -> Mapping[int, Array]:
        """Nobody to hear from."""
        meanwhile()
        return {}

    def close(self, error: BaseException | None = None) -> None:
        """Nobody to tell."""
