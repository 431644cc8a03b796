"""A sweep over several recorded iterations, with measurements and the stopping test inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.solver.kernels import _measure as found
from npga.solver.kernels._drive_agents import begin, dual_of, iterate
from npga.solver.kernels._jit import compiled, entry
from npga.solver.kernels._measure import measure
from npga.solver.kernels._primal import unpack

# What the stopping test compares with; a limit that is switched off is -1, or infinite for the two of divergence.
TOL, GAP_TOL, FLOOR_X, FLOOR_Z, DISTANCE, FIRST_INCREMENT, FIRST_SIZE, GROWTH, BIG = range(9)


@compiled
def relative(size: float, scale: float) -> float:
    """Residual relative to its scale."""
    return size / scale if scale > 0.0 else size


@compiled
def stops(row: Any, limits: Any) -> bool:
    """Whether a rule of `npga.solver` would stop here: tolerance met, diverging, or not a number."""
    x = relative(row[found.RESIDUAL_X], max(row[found.SCALE_X], limits[FLOOR_X]))
    z = relative(row[found.RESIDUAL_Z], max(row[found.SCALE_Z], limits[FLOOR_Z]))
    if max(x, z) <= limits[TOL] or row[found.GAP] / limits[DISTANCE] <= limits[GAP_TOL]:
        return True
    growth, size = row[found.INCREMENT] / limits[FIRST_INCREMENT], row[found.LARGEST] / limits[FIRST_SIZE]
    return not (np.isfinite(growth) and np.isfinite(size)) or (growth > limits[GROWTH] and size > limits[BIG])


@entry
def sweep_agents(
    codes: Any, plain: Any, steps: Any, primal: Any, dual: Any, scratch: Any, lengths: Any, measured: bool,
    facts: Any, reference: Any, limits: Any, table: Any,
) -> tuple[int, int]:  # fmt: skip
    """Advance by lengths[0], lengths[1], ... iterations on one thread, if `measured` with a row of findings after each.

    `codes` describe the functions prepared for their steps, `plain` as they are. Ends where a stopping rule fires, and
    at the first lam that is not finite. Returns the number of rows and of iterations. This is the only way by which one
    thread iterates by the agent schedule, so that the bits are the same wherever a run pauses. A length of 0 measures
    only.
    """
    low, raw = unpack(codes, steps), unpack(plain, steps)
    address = scratch.ctypes.data
    if lengths[0] > 0:
        begin(low, dual_of(dual))
    done = 0
    for k in range(len(lengths)):
        for j in range(lengths[k]):
            total = iterate(low, primal, dual, address, j == lengths[k] - 1)
            done += 1
            if not np.isfinite(total):
                return k, done
        if measured:
            measure(raw, facts, primal[0], dual[0], dual[1], dual[7], reference, table[k])
            if stops(table[k], limits):
                return k + 1, done
    return len(lengths), done
