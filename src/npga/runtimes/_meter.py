"""Metrics of one party: what it sent, how long it computed and how long it waited, as JSON lines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from npga.runtimes._link import Link


class Meter:
    """Counts, and writes a line at most every `pause` seconds.

    Parameters
    ----------
    path
        The file, or None to count only.
    party
        Who.
    pause
        Least time between two lines.
    """

    def __init__(self, path: Path | None, party: int, pause: float) -> None:
        self._party, self._pause = party, pause
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", buffering=1)
        self._begun = self._written = time.perf_counter()
        self.waiting = 0.0
        self.rounds = self.messages = self.floats = 0
        self.control_rounds = self.control_messages = self.control_floats = 0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._begun

    def sent(self, control: bool, messages: int, floats: int) -> None:
        """Count one round."""
        if control:
            self.control_rounds += 1
            self.control_messages += messages
            self.control_floats += floats
        else:
            self.rounds += 1
            self.messages += messages
            self.floats += floats

    def totals(self, link: Link) -> dict[str, Any]:
        """Everything counted so far; `messages` and `floats` are those of NPGA, `control_*` those of stopping."""
        seconds = self.seconds
        return {
            "rounds": self.rounds, "messages": self.messages, "floats": self.floats,
            "control_rounds": self.control_rounds, "control_messages": self.control_messages,
            "control_floats": self.control_floats,
            "bytes_sent": link.bytes_sent, "bytes_received": link.bytes_received,
            "seconds": seconds, "waiting": self.waiting, "computing": seconds - self.waiting,
        }  # fmt: skip

    def line(self, link: Link, iteration: int, force: bool = False, **more: Any) -> None:
        """Write a line if the last one is long enough ago."""
        now = time.perf_counter()
        if self._file is None or not (force or now - self._written >= self._pause):
            return
        self._written = now
        row = {"time": time.time(), "party": self._party, "iteration": iteration} | self.totals(link) | more
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
