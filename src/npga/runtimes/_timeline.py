"""What a party did and when: counted, written as JSON lines, read back, and drawn for all parties together."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import InputError
from npga.extras import load
from npga.runtimes._link import Link


class Logbook:
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
            self._file = path.open("a", buffering=1)
        self._begun = self._written = time.perf_counter()
        self.waiting = 0.0
        self.rounds = self.messages = self.floats_sent = 0
        self.control_rounds = self.control_messages = self.control_floats_sent = 0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._begun

    def sent(self, control: bool, messages: int, floats: int) -> None:
        """Count one round."""
        if control:
            self.control_rounds += 1
            self.control_messages += messages
            self.control_floats_sent += floats
        else:
            self.rounds += 1
            self.messages += messages
            self.floats_sent += floats

    def totals(self, link: Link) -> dict[str, Any]:
        """Everything counted so far; `messages` and `floats_sent` are those of NPGA, `control_*` those of stopping."""
        seconds = self.seconds
        return {
            "rounds": self.rounds, "messages": self.messages, "floats_sent": self.floats_sent,
            "control_rounds": self.control_rounds, "control_messages": self.control_messages,
            "control_floats_sent": self.control_floats_sent,
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


def read_metrics(out: str | Path) -> dict[int, list[dict[str, Any]]]:
    """The lines of every ``party<k>.jsonl`` in a directory, by party."""
    files = sorted(Path(out).glob("party*.jsonl"), key=lambda path: int(path.stem.removeprefix("party")))
    found = {int(path.stem.removeprefix("party")): _lines(path) for path in files}
    if not any(found.values()):
        raise InputError(f"{out} holds no metrics; expected party*.jsonl of a finished or running `npga launch`")
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    """All complete lines; a process that was killed may have left half of one."""
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def plot_timeline(out: str | Path, path: str | Path) -> Path:
    """Draw, for every party, the part of each interval that it spent computing, and where it ended."""
    drawing = load("matplotlib.figure", "plot", "the timeline")
    metrics = read_metrics(out)
    start = min(row["time"] - row["seconds"] for rows in metrics.values() for row in rows[:1])
    figure = drawing.Figure(figsize=(9, 1.5 + 0.3 * len(metrics)), layout="constrained")
    axes = figure.subplots()
    for row, (_, lines) in enumerate(metrics.items()):
        ends = np.array([line["time"] for line in lines]) - start
        begins = np.concatenate([[ends[0] - lines[0]["seconds"]], ends[:-1]]) if len(lines) else ends
        busy = np.diff([0.0, *(line["computing"] for line in lines)])
        width = ends - begins
        share = np.clip(np.divide(busy, width, out=np.zeros_like(width), where=width > 0), 0, 1)
        axes.barh(np.full(len(ends), row), width, 0.8, begins, color="0.9", edgecolor="none")
        axes.barh(np.full(len(ends), row), width * share, 0.8, begins, color="tab:blue", edgecolor="none")
        if lines and "error" in lines[-1]:
            axes.plot(ends[-1], row, "x", color="tab:red")
    axes.set_yticks(range(len(metrics)), [f"party {party}" for party in metrics])
    axes.set_xlabel("seconds (blue: computing; grey: waiting for messages; red cross: ended with an error)")
    axes.invert_yaxis()
    figure.savefig(path)
    return Path(path)
