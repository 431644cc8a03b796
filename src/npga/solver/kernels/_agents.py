"""The agent schedule: agents one after another, in groups whose matrices and dual rows fit the cache together.

A_i is read from memory once per iteration: A_i^T lam_i and A_i x_hat_i follow one another. Every sum belongs to one
agent, so the bits do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from npga.solver.kernels import _functions as functions
from npga.solver.kernels._jit import compiled, inlined, number, part
from npga.solver.kernels._mixing import add, add_message, coefficient, differences
from npga.solver.kernels._primal import Lowered, Primal, entry, images, move, pull, row, rows


class Dual(NamedTuple):
    """Addresses of n x p numbers each, agent after agent.

    Attributes
    ----------
    lam, lam_prev
        The last two iterates; the new one replaces lam_prev.
    v, u, kept
        As in `npga.solver.State`; kept holds K v, ..., K^s v end to end.
    message, reply
        What the agents say now, and where the next message is written.
    Ax
        A x, written where a run pauses.
    """

    lam: int
    lam_prev: int
    v: int
    u: int
    kept: int
    message: int
    reply: int
    Ax: int


@inlined
def kept_rows(low: Lowered, dual: Dual, power: int, first: int, last: int) -> Any:
    """K^power v for the agents first to last - 1, v itself for the power 0."""
    if power == 0:
        return rows(low, dual.v, first, last)
    return rows(low, dual.kept, (power - 1) * low.n + first, (power - 1) * low.n + last)


@compiled
def open_message(low: Lowered, first: int, last: int, dual: Dual, lam: int, lam_prev: int, out: int) -> None:
    """Write the first message of a correction, c_r (lam - lam_prev) + gamma b_{s+r} K^s v."""
    if low.mixing.new_powers == 0:
        return
    message = rows(low, out, first, last)
    for j in range(len(message)):
        message[j] = number(low.t, 0)
    latest = kept_rows(low, dual, low.mixing.kept_powers, first, last)
    new, old = rows(low, lam, first, last), rows(low, lam_prev, first, last)
    add_message(low.mixing, low.mixing.new_powers, new, old, latest, message)


@compiled
def exchange(low: Lowered, group: int, dual: Dual, power: int) -> None:
    """Horner's rule: the next message is K times the last one plus the new part for this power."""
    message = rows(low, dual.message, 0, low.n)
    for i in range(entry(low.groups, group), entry(low.groups, group + 1)):
        reply = row(low, dual.reply, i)
        differences(low.links, i, message, low.p, 0, reply)
        latest = kept_rows(low, dual, low.mixing.kept_powers, i, i + 1)
        add_message(low.mixing, power, row(low, dual.lam, i), row(low, dual.lam_prev, i), latest, reply)


@compiled
def step(low: Lowered, group: int, arrays: Primal, dual: Dual, scratch: int, pause: bool) -> float:
    """x+, u+ = u + C dlam + gamma B^2 v and v+ = lam - u+ + beta A x_hat+, for a group of agents.

    Returns the sum of lam+ if that is known already (D = I), else 0.
    """
    first, last = entry(low.groups, group), entry(low.groups, group + 1)
    pull(low, first, last, dual.lam, arrays.force)
    move(low, group, arrays)
    image, Ax = rows(low, scratch, 0, last - first), rows(low, dual.Ax, first, last)
    if pause:
        images(low, first, last, arrays.x_new, Ax)
    images(low, first, last, arrays.x_hat, image)
    _correct(low, first, last, dual)
    lam, u, v = rows(low, dual.lam, first, last), rows(low, dual.u, first, last), rows(low, dual.v, first, last)
    for j in range(len(v)):
        v[j] = lam[j] - u[j] + low.beta * image[j]
    if low.mixing.kept_powers == 0:
        return finish(low, first, last, dual, scratch)
    return number(low.t, 0)  # type: ignore[no-any-return]


@compiled
def _correct(low: Lowered, first: int, last: int, dual: Dual) -> None:
    """Add C dlam + gamma B^2 v to u: K times the last message, and the powers of v that are known.

    v is needed no more once its message is written, and serves as scratch.
    """
    u, mixed = rows(low, dual.u, first, last), rows(low, dual.v, first, last)
    for j in range(1, low.mixing.kept_powers + 1):
        add(u, coefficient(low.mixing.b, j, low.t), kept_rows(low, dual, j, first, last))
    if low.mixing.new_powers == 0:
        return
    message = rows(low, dual.message, 0, low.n)
    for i in range(first, last):
        differences(low.links, i, message, low.p, 0, row(low, dual.v, i))
    for j in range(len(u)):
        u[j] += mixed[j]


@compiled
def combine(low: Lowered, group: int, dual: Dual, scratch: int, power: int) -> float:
    """K^power v for a group of agents; after the last power, D v and lam+."""
    first, last = entry(low.groups, group), entry(low.groups, group + 1)
    source = kept_rows(low, dual, power - 1, 0, low.n)
    for i in range(first, last):
        differences(low.links, i, source, low.p, 0, kept_rows(low, dual, power, i, i + 1))
    if power == low.mixing.kept_powers:
        return finish(low, first, last, dual, scratch)
    return number(low.t, 0)  # type: ignore[no-any-return]


@compiled
def finish(low: Lowered, first: int, last: int, dual: Dual, scratch: int) -> float:
    """lam+ = prox_{t h*}(D v), the first message of the next iteration, and the sum of lam+ (finite or not)."""
    mixed, v = rows(low, scratch, 0, last - first), rows(low, dual.v, first, last)
    if low.mixing.kept_powers:
        for j in range(len(v)):
            mixed[j] = v[j]
        for j in range(1, low.mixing.kept_powers + 1):
            add(mixed, coefficient(low.mixing.d, j, low.t), kept_rows(low, dual, j, first, last))
    else:
        mixed = v
    lam = rows(low, dual.lam_prev, first, last)
    count = 1 if low.tiled else last - first
    width = len(lam) // count
    start = first * low.p * low.tiled
    for i in range(count):
        own = part(mixed, i * width, (i + 1) * width)
        functions.conj_prox(low.h, start, start + width, own, low.t, part(lam, i * width, (i + 1) * width))
    total = number(low.t, 0)
    for j in range(len(lam)):
        total += lam[j]
    open_message(low, first, last, dual, dual.lam_prev, dual.lam, dual.reply)
    return total  # type: ignore[no-any-return]
