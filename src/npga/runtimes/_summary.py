"""What all parties of a rehearsal left, put together."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._job import Job

Array = NDArray[Any]
_SUMS = ("messages", "floats", "control_messages", "control_floats", "bytes_sent", "bytes_received")


@dataclass(frozen=True)
class Summary:
    """A finished run.

    Parameters
    ----------
    x, lam
        The solution: concatenated blocks, and the n x p array of the agents' dual vectors.
    iterations, rounds
        Work done, over all sessions of a resumed run.
    converged, residual
        Whether the agents found their bound on the residual below the tolerance, and that bound (nan: not asked).
    messages, floats
        Vectors sent from agent to neighbour in this session, and the numbers in them; as `npga.solve` counts.
    control_messages, control_floats
        The same for agreeing on the start and on when to stop.
    bytes_sent
        Bytes that left a process, headers and control messages included.
    seconds, slowest_seconds
        Wall time with and without starting the processes.
    """

    x: Array
    lam: Array
    iterations: int
    rounds: int
    converged: bool
    residual: float
    messages: int
    floats: int
    control_messages: int
    control_floats: int
    bytes_sent: int
    seconds: float
    slowest_seconds: float


def summarise(job: Job, out: Path, engine: str, seconds: float) -> Summary:
    """Read the parties' files, check that they tell the same story, and write solution.npz and summary.json."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob("party*.json"))]
    held = sorted(i for row in rows for i in row["agents"])
    if held != list(range(job.n)):
        raise InputError(f"{out} holds results of the agents {held}; expected all of 0..{job.n - 1}")
    for key in ("iterations", "rounds_in_all", "converged"):
        if len({row[key] for row in rows}) != 1:
            raise InputError(f"the parties disagree on {key}: {[row[key] for row in rows]}; the results cannot be used")
    files = [np.load(out / f"agent{i}.npz", allow_pickle=False) for i in range(job.n)]
    x, lam = np.concatenate([file["x"] for file in files]), np.stack([file["lam"] for file in files])
    sums = {key: sum(row[key] for row in rows) for key in _SUMS}
    first = rows[0]
    summary = Summary(
        x=x, lam=lam, iterations=first["iterations"], rounds=first["rounds_in_all"], converged=first["converged"],
        residual=first["residual"] if first["residual"] is not None else math.nan,
        messages=sums["messages"], floats=sums["floats"],
        control_messages=sums["control_messages"], control_floats=sums["control_floats"],
        bytes_sent=sums["bytes_sent"], seconds=seconds, slowest_seconds=max(row["seconds"] for row in rows),
    )  # fmt: skip
    np.savez(out / "solution.npz", x=x, lam=lam)
    written = {key: value for key, value in vars(summary).items() if key not in ("x", "lam")}
    written |= {"job": job.name, "digest": job.digest, "engine": engine, "processes": len(rows), "x": "solution.npz"}
    written["residual"] = summary.residual if math.isfinite(summary.residual) else None
    (out / "summary.json").write_text(json.dumps(written, indent=1))
    return summary
