"""What can go wrong between agents that are apart; every message names the peer and the reason."""

from __future__ import annotations

from npga.errors import NpgaError


class LinkError(NpgaError):
    """A neighbour can no longer be worked with; the run ends here and can be resumed.

    Parameters
    ----------
    peer
        Who, for example "agent 3".
    reason
        What was seen.
    """

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{self._verb(peer)}: {reason}")
        self.peer, self.reason = peer, reason

    @staticmethod
    def _verb(peer: str) -> str:
        return f"trouble with {peer}"


class PeerLost(LinkError):  # noqa: N818
    """The neighbour has gone, or has said that it ends."""

    @staticmethod
    def _verb(peer: str) -> str:
        return f"lost {peer}"


class PeerSlow(LinkError):  # noqa: N818
    """The neighbour is there and did not send in time."""

    @staticmethod
    def _verb(peer: str) -> str:
        return f"gave up waiting for {peer}"


class BadMessage(LinkError):  # noqa: N818
    """The neighbour sent something else than the protocol allows at this point."""

    @staticmethod
    def _verb(peer: str) -> str:
        return f"refused a message from {peer}"


class Diverged(NpgaError):  # noqa: N818
    """An agent's own numbers are no longer finite."""

    def __init__(self, agent: int) -> None:
        super().__init__(f"the iterates of agent {agent} are no longer finite: reduce the steps, or use a lazy network")
