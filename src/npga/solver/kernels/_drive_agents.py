"""One iteration by the agent schedule, and its phases, which threads run side by side.

The arguments are arrays: `codes` and `steps` hold the lowered problem (`pack`), `primal` and `dual` the addresses of
the working arrays, which trade places from one iteration to the next.
"""

from __future__ import annotations

from typing import Any

from npga.solver.kernels._agents import Dual, combine, exchange, open_message, step
from npga.solver.kernels._jit import compiled, entry
from npga.solver.kernels._primal import Lowered, Primal, unpack
from npga.solver.kernels._primal import entry as integer


@compiled
def primal_of(a: Any) -> Primal:
    """The primal addresses as a tuple."""
    return Primal(a[0], a[1], a[2], a[3])


@compiled
def dual_of(a: Any) -> Dual:
    """The dual addresses as a tuple."""
    return Dual(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7])


@compiled
def turn(primal: Any, dual: Any) -> None:
    """The new iterates become the last ones."""
    primal[0], primal[1] = primal[1], primal[0]
    dual[0], dual[1] = dual[1], dual[0]


@compiled
def swap(dual: Any) -> None:
    """What was written as a reply is the message now."""
    dual[5], dual[6] = dual[6], dual[5]


@compiled
def begin(low: Lowered, dual: Dual) -> None:
    """The first messages of a stretch."""
    for group in range(low.group_count):
        first, last = integer(low.groups, group), integer(low.groups, group + 1)
        open_message(low, first, last, dual, dual.lam, dual.lam_prev, dual.message)


@compiled
def iterate(low: Lowered, primal: Any, dual: Any, scratch: int, pause: bool) -> float:
    """One iteration; returns the sum of lam+ (finite or not)."""
    arrays = primal_of(primal)
    for power in range(low.mixing.new_powers - 1, 0, -1):
        for group in range(low.group_count):
            exchange(low, group, dual_of(dual), power)
        swap(dual)
    now = dual_of(dual)
    total = 0.0
    for group in range(low.group_count):
        total += step(low, group, arrays, now, scratch, pause)
    for power in range(1, low.mixing.kept_powers + 1):
        for group in range(low.group_count):
            total += combine(low, group, now, scratch, power)
    turn(primal, dual)
    swap(dual)
    return total


@entry
def begin_all(codes: Any, steps: Any, dual: Any) -> None:
    """The first messages of a stretch."""
    begin(unpack(codes, steps), dual_of(dual))


@entry
def exchange_groups(codes: Any, steps: Any, dual: Any, first: int, last: int, power: int) -> None:
    """The groups first to last - 1 of one round of the correction."""
    low, now = unpack(codes, steps), dual_of(dual)
    for group in range(first, last):
        exchange(low, group, now, power)


@entry
def step_groups(
    codes: Any, steps: Any, primal: Any, dual: Any, scratch: Any, first: int, last: int, pause: bool
) -> float:
    """The groups first to last - 1 of x+ and v+."""
    low, arrays, now = unpack(codes, steps), primal_of(primal), dual_of(dual)
    total = 0.0
    for group in range(first, last):
        total += step(low, group, arrays, now, scratch.ctypes.data, pause)
    return total


@entry
def combine_groups(codes: Any, steps: Any, dual: Any, scratch: Any, first: int, last: int, power: int) -> float:
    """The groups first to last - 1 of one round of the combination with D."""
    low, now = unpack(codes, steps), dual_of(dual)
    total = 0.0
    for group in range(first, last):
        total += combine(low, group, now, scratch.ctypes.data, power)
    return total
