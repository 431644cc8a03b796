"""All iterations of a stretch by the panel schedule in one call; and its phases, which threads run side by side.

The rows are cut into chunks whose number does not depend on the threads (up to that number), and the chunks' parts of
A^T lam are added in order, so that the bits do not depend on which thread did what. The arguments are those of the
agent schedule, and

    chunks     table of chunks: first row, last row, rows of a panel
    pulls      the chunks' parts of A^T lam, one row for each
    pulled     whether they are there already
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.solver.kernels._drive_agents import dual_of, primal_of, turn
from npga.solver.kernels._jit import compiled, entry, number, view
from npga.solver.kernels._panels import panels, pull_panel
from npga.solver.kernels._primal import Lowered, move, unpack


@compiled
def gather(low: Lowered, force: int, pulls: Any) -> None:
    """The sum of the chunks' parts of A^T lam."""
    out = view(force, 0, low.d, low.t)
    for j in range(low.d):
        out[j] = number(low.t, 0)
    for k in range(len(pulls)):
        part = view(pulls[k].ctypes.data, 0, low.d, low.t)
        for j in range(low.d):
            out[j] += part[j]


@entry
def pull_chunk(codes: Any, steps: Any, dual: Any, chunk: Any, out: Any) -> None:
    """A chunk's part of A^T lam, by the same panels as in an iteration."""
    low = unpack(codes, steps)
    for j in range(low.d):
        out[j] = number(low.t, 0)
    for lo in range(chunk[0], chunk[1], chunk[2]):
        pull_panel(low, dual[0], lo, min(lo + chunk[2], chunk[1]), out.ctypes.data)


@entry
def gather_and_move(codes: Any, steps: Any, primal: Any, pulls: Any) -> None:
    """A^T lam from its parts, then x_new."""
    low = unpack(codes, steps)
    gather(low, primal[3], pulls)
    for group in range(low.group_count):
        move(low, group, primal_of(primal))


@entry
def panels_chunk(
    codes: Any, steps: Any, primal: Any, dual: Any, chunk: Any, scratch: Any, out: Any, pause: bool
) -> float:
    """The dual half of an iteration on the rows of a chunk; returns the sum of its lam+."""
    low, arrays, now = unpack(codes, steps), primal_of(primal), dual_of(dual)
    return panels(low, arrays, now, chunk, scratch.ctypes.data, out.ctypes.data, pause)


@entry
def advance_panels(
    codes: Any, steps: Any, primal: Any, dual: Any, scratch: Any, iterations: int, chunks: Any,
    pulls: Any, pulled: bool, last: bool,
) -> int:  # fmt: skip
    """Run on one thread; stops early at the first lam that is not finite. Returns how many iterations were run.

    A x is written at the end of the last piece of a run.
    """
    if not pulled:
        for k in range(len(chunks)):
            pull_chunk(codes, steps, dual, chunks[k], pulls[k])
    done = 0
    total = 0.0
    while done < iterations and np.isfinite(total):
        pause = last and done == iterations - 1
        gather_and_move(codes, steps, primal, pulls)
        total = 0.0
        for k in range(len(chunks)):
            total += panels_chunk(codes, steps, primal, dual, chunks[k], scratch[0], pulls[k], pause)
        turn(primal, dual)
        done += 1
    return done
