"""The primal half of an iteration, for a group of agents and the coordinates that they own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npga.solver.kernels import _functions as functions
from npga.solver.kernels._functions import Table
from npga.solver.kernels._jit import compiled, inlined, number, part, view
from npga.solver.kernels._mixing import Links, Mixing
from npga.solver.kernels._products import WIDTH, add_adjoint, add_product

Array = NDArray[Any]


class Lowered(NamedTuple):
    """A problem on a network under one version and steps, as kernels read it: numbers and addresses.

    Attributes
    ----------
    n, p, d, size
        Numbers of agents, of coupling rows and of coordinates, and the bytes of one number.
    alpha, beta, theta, t
        The steps in the type of the data; t = beta/n is the step of the prox of h*.
    matrices, offsets
        One row of the matrix table per agent, and the coordinates offsets[i] to offsets[i + 1] that it owns.
    f, g, h
        The functions, g and h with columns prepared for the prox of g with step alpha and of h* with step t.
    tiled
        Whether h is repeated for every agent, so that its prox is one loop over many short rows.
    groups, group_count
        Agents are visited in groups groups[k] to groups[k + 1] that fit the cache together.
    f_bounds, g_bounds
        The segments of f and g that belong to group k.
    links, mixing
        The network and the version.
    """

    n: int
    p: int
    d: int
    size: int
    alpha: float
    beta: float
    theta: float
    t: float
    matrices: int
    offsets: int
    f: Table
    g: Table
    h: Table
    tiled: int
    groups: int
    group_count: int
    f_bounds: int
    g_bounds: int
    links: Links
    mixing: Mixing


class Primal(NamedTuple):
    """Addresses of d numbers each: the last iterate, the new one, x_hat = x_new + theta (x_new - x), and A^T lam."""

    x: int
    x_new: int
    x_hat: int
    force: int


def pack(low: Lowered) -> tuple[Array, Array]:
    """The numbers of a tuple as two arrays, which loops over threads can share."""
    steps = np.array([low.alpha, low.beta, low.theta, low.t])
    codes = [low.n, low.p, low.d, low.size, low.matrices, low.offsets, low.groups, low.group_count]
    codes += [low.f_bounds, low.g_bounds, *low.f, *low.g, *low.h, *low.links, *low.mixing, low.tiled]
    return np.array(codes, np.int64), steps


@compiled
def _table(codes: Any, k: int) -> Table:
    c = codes[k : k + 7]
    return Table(c[0], c[1], c[2], c[3], c[4], c[5], c[6])


@compiled
def unpack(codes: Any, steps: Any) -> Lowered:
    """The tuple that `pack` was given."""
    c, k = codes, 31
    links = Links(c[k], c[k + 1], c[k + 2])
    mixing = Mixing(c[k + 3], c[k + 4], c[k + 5], c[k + 6], c[k + 7])
    f, g, h = _table(codes, 10), _table(codes, 17), _table(codes, 24)
    return Lowered(
        c[0], c[1], c[2], c[3], steps[0], steps[1], steps[2], steps[3], c[4], c[5], f, g, h, c[39], c[6], c[7], c[8],
        c[9], links, mixing,
    )  # fmt: skip


@inlined
def entry(address: int, k: int) -> int:
    """Number k of an integer table."""
    return view(address, k, 1, k)[0]  # type: ignore[no-any-return]


@inlined
def row(low: Lowered, address: int, i: int) -> Any:
    """Row i of an n x p array."""
    return view(address, i * low.p, low.p, low.t)


@inlined
def rows(low: Lowered, address: int, first: int, last: int) -> Any:
    """Rows first to last - 1 of an n x p array, end to end."""
    return view(address, first * low.p, (last - first) * low.p, low.t)


@inlined
def matrix(low: Lowered, i: int) -> Any:
    """The row of the matrix table for agent i."""
    return view(low.matrices, i * WIDTH, WIDTH, i)


@compiled
def pull(low: Lowered, first: int, last: int, lam: int, force: int) -> None:
    """Set force_i = A_i^T lam_i for the agents first to last - 1."""
    begin, end = entry(low.offsets, first), entry(low.offsets, last)
    out = view(force, begin, end - begin, low.t)
    for j in range(end - begin):
        out[j] = number(low.t, 0)
    for i in range(first, last):
        start, stop = entry(low.offsets, i) - begin, entry(low.offsets, i + 1) - begin
        if start < stop:
            add_adjoint(matrix(low, i), 0, low.p, row(low, lam, i), part(out, start, stop))


@compiled
def move(low: Lowered, group: int, arrays: Primal) -> None:
    """x_new = prox_{alpha g}(x - alpha (grad f(x) + force)) and x_hat, for a group."""
    d, like = low.d, low.t
    f_first, f_last = entry(low.f_bounds, group), entry(low.f_bounds, group + 1)
    functions.add_grad(low.f, f_first, f_last, view(arrays.x, 0, d, like), view(arrays.force, 0, d, like))
    lo = entry(low.offsets, entry(low.groups, group))
    m = entry(low.offsets, entry(low.groups, group + 1)) - lo
    x, x_new, x_hat = view(arrays.x, lo, m, like), view(arrays.x_new, lo, m, like), view(arrays.x_hat, lo, m, like)
    force = view(arrays.force, lo, m, like)
    for j in range(m):
        x_new[j] = x[j] - low.alpha * force[j]
    all_new = view(arrays.x_new, 0, d, like)
    g_first, g_last = entry(low.g_bounds, group), entry(low.g_bounds, group + 1)
    functions.prox(low.g, g_first, g_last, all_new, low.alpha, all_new)
    for j in range(m):
        x_hat[j] = x_new[j] + low.theta * (x_new[j] - x[j])


@compiled
def images(low: Lowered, first: int, last: int, vector: int, out: Any) -> None:
    """Set the rows of `out` to A_i vector_i for the agents first to last - 1."""
    p = low.p
    for j in range((last - first) * p):
        out[j] = number(low.t, 0)
    for i in range(first, last):
        start, stop = entry(low.offsets, i), entry(low.offsets, i + 1)
        if start < stop:
            x = view(vector, start, stop - start, low.t)
            add_product(matrix(low, i), 0, p, x, part(out, (i - first) * p, (i - first + 1) * p))
