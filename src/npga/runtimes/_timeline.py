"""The merged timeline of all parties: when each computed and when it waited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import InputError, MissingExtraError


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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "the timeline") from None
    metrics = read_metrics(out)
    start = min(row["time"] - row["seconds"] for rows in metrics.values() for row in rows[:1])
    figure = Figure(figsize=(9, 1.5 + 0.3 * len(metrics)), layout="constrained")
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
