"""One block of runs of the same problem under different steps, advanced together with the runs as lanes.

A matrix entry is loaded once for all lanes of a block, and the short rows of a small problem become long ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npga.solver.kernels import _lanes as lanes
from npga.solver.kernels._jit import compiled, entry, number, part, view
from npga.solver.kernels._measure import measure
from npga.solver.kernels._mixing import differences
from npga.solver.kernels._primal import Lowered, images, matrix, unpack
from npga.solver.kernels._primal import entry as integer
from npga.solver.kernels._products import BY_COLUMNS, COLUMNS, DATA, FORM, INDICES, LEAD, POINTERS, ROWS, SPARSE

_INT32 = np.zeros(1, np.int32)
# Lanes of a block: a constant, so that the loops over lanes have no remainder.
LANES = 64
# Rows of the table of step sizes of a block.
ALPHA, BETA, THETA, T = range(4)


class Block(NamedTuple):
    """Arrays of a block of runs, one number for each at every coordinate; x is (d, 64), the dual arrays (n, p, 64).

    `steps` has one row per step size, `b`, `c` and `d` one per power of K; b is already multiplied by gamma. `g` and
    `h` hold the three columns prepared for the prox of g and of h*, for each coordinate and lane.
    """

    x: Any
    x_new: Any
    force: Any
    lam: Any
    lam_prev: Any
    v: Any
    u: Any
    kept: Any
    message: Any
    reply: Any
    image: Any
    steps: Any
    b: Any
    c: Any
    d: Any
    g: Any
    h: Any


@compiled
def _entry(A: Any, r: int, j: int, like: Any) -> float:
    at = j * A[LEAD] + r if A[FORM] == BY_COLUMNS else r * A[LEAD] + j
    return view(A[DATA], at, 1, like)[0]  # type: ignore[no-any-return]


@compiled
def _add_four(out: Any, a: Any, x: Any, first: int, stride: int) -> None:
    """Add a[0] x[first] + ... + a[3] x[first + 3 stride] to `out`, in every lane."""
    x0, x1 = (
        part(x, first * LANES, (first + 1) * LANES),
        part(x, (first + stride) * LANES, (first + stride + 1) * LANES),
    )
    at = first + 2 * stride
    x2, x3 = part(x, at * LANES, (at + 1) * LANES), part(x, (at + stride) * LANES, (at + stride + 1) * LANES)
    a0, a1, a2, a3 = a
    for k in range(LANES):
        out[k] += (a0 * x0[k] + a1 * x1[k]) + (a2 * x2[k] + a3 * x3[k])


@compiled
def _add_one(out: Any, a: float, x: Any, at: int) -> None:
    row = part(x, at * LANES, (at + 1) * LANES)
    for k in range(LANES):
        out[k] += a * row[k]


@compiled
def add_product(A: Any, x: Any, out: Any) -> None:
    """Add A x to `out` in every lane."""
    if A[FORM] == SPARSE:
        _sparse(A, x, out, False)
        return
    p, m = A[ROWS], A[COLUMNS]
    for r in range(p):
        to = part(out, r * LANES, (r + 1) * LANES)
        j = 0
        while j + 4 <= m:
            a = (_entry(A, r, j, x), _entry(A, r, j + 1, x), _entry(A, r, j + 2, x), _entry(A, r, j + 3, x))
            _add_four(to, a, x, j, 1)
            j += 4
        while j < m:
            _add_one(to, _entry(A, r, j, x), x, j)
            j += 1


@compiled
def add_adjoint(A: Any, y: Any, out: Any) -> None:
    """Add A^T y to `out` in every lane."""
    if A[FORM] == SPARSE:
        _sparse(A, y, out, True)
        return
    p, m = A[ROWS], A[COLUMNS]
    for j in range(m):
        to = part(out, j * LANES, (j + 1) * LANES)
        r = 0
        while r + 4 <= p:
            a = (_entry(A, r, j, y), _entry(A, r + 1, j, y), _entry(A, r + 2, j, y), _entry(A, r + 3, j, y))
            _add_four(to, a, y, r, 1)
            r += 4
        while r < p:
            _add_one(to, _entry(A, r, j, y), y, r)
            r += 1


@compiled
def _sparse(A: Any, x: Any, out: Any, transposed: bool) -> None:
    p = A[ROWS]
    pointers = view(A[POINTERS], 0, p + 1, A)
    columns, data = view(A[INDICES], 0, pointers[p], _INT32), view(A[DATA], 0, pointers[p], x)
    for r in range(p):
        for q in range(pointers[r], pointers[r + 1]):
            source, target = (r, columns[q]) if transposed else (columns[q], r)
            _add_one(part(out, target * LANES, (target + 1) * LANES), data[q], x, source)


@compiled
def _primal(low: Lowered, block: Block) -> None:
    """x_new, and A x_hat in `image`."""
    alpha, theta = block.steps[ALPHA], block.steps[THETA]
    for j in range(low.d * LANES):
        block.force[j] = number(low.t, 0)
    for j in range(low.n * low.p * LANES):
        block.image[j] = number(low.t, 0)
    for i in range(low.n):
        start, stop = integer(low.offsets, i), integer(low.offsets, i + 1)
        if start < stop:
            lam = part(block.lam, i * low.p * LANES, (i + 1) * low.p * LANES)
            add_adjoint(matrix(low, i), lam, part(block.force, start * LANES, stop * LANES))
    lanes.add_grad(low.f, block.x, LANES, block.force)
    for j in range(low.d):
        x, force = part(block.x, j * LANES, (j + 1) * LANES), part(block.force, j * LANES, (j + 1) * LANES)
        new = part(block.x_new, j * LANES, (j + 1) * LANES)
        for k in range(LANES):
            new[k] = x[k] - alpha[k] * force[k]
    lanes.prepared(low.g, block.g, block.x_new, alpha, block.x_new, False)
    for j in range(low.d):  # x_hat takes the place of the force
        x, hat = part(block.x, j * LANES, (j + 1) * LANES), part(block.force, j * LANES, (j + 1) * LANES)
        new = part(block.x_new, j * LANES, (j + 1) * LANES)
        for k in range(LANES):
            hat[k] = new[k] + theta[k] * (new[k] - x[k])
    for i in range(low.n):
        start, stop = integer(low.offsets, i), integer(low.offsets, i + 1)
        if start < stop:
            image = part(block.image, i * low.p * LANES, (i + 1) * low.p * LANES)
            add_product(matrix(low, i), part(block.force, start * LANES, stop * LANES), image)


@compiled
def _message(low: Lowered, block: Block, power: int, latest: Any, out: Any) -> None:
    """Out = c_m (lam - lam_prev) + gamma b_{s+m} K^s v, added to K times the last message for all but the first m."""
    c, b = block.c[power], block.b[low.mixing.kept_powers + power]
    for row in range(low.n * low.p):
        lo, hi = row * LANES, (row + 1) * LANES
        lam, lam_prev, old, to = (
            part(block.lam, lo, hi), part(block.lam_prev, lo, hi), part(latest, lo, hi), part(out, lo, hi),
        )  # fmt: skip
        if power == low.mixing.new_powers:
            for k in range(LANES):
                to[k] = c[k] * (lam[k] - lam_prev[k]) + b[k] * old[k]
        else:
            for k in range(LANES):
                to[k] += c[k] * (lam[k] - lam_prev[k]) + b[k] * old[k]


@compiled
def _add(low: Lowered, factor: Any, x: Any, out: Any) -> None:
    for row in range(low.n * low.p):
        to, source = part(out, row * LANES, (row + 1) * LANES), part(x, row * LANES, (row + 1) * LANES)
        for k in range(LANES):
            to[k] += factor[k] * source[k]


@compiled
def _mix(low: Lowered, u: Any, out: Any) -> None:
    width = low.p * LANES
    for i in range(low.n):
        differences(low.links, i, u, width, 0, part(out, i * width, (i + 1) * width))


@compiled
def _dual(low: Lowered, block: Block) -> None:
    """u+, v+, K v+, ... and lam+, which replaces lam_prev."""
    r, s, size = low.mixing.new_powers, low.mixing.kept_powers, low.n * low.p * LANES
    message, reply = block.message, block.reply
    latest = block.v if s == 0 else part(block.kept, (s - 1) * size, s * size)
    for power in range(r, 0, -1):
        if power < r:
            _mix(low, message, reply)
        _message(low, block, power, latest, reply)
        message, reply = reply, message
    for j in range(1, s + 1):
        _add(low, block.b[j], part(block.kept, (j - 1) * size, j * size), block.u)
    if r:
        _mix(low, message, reply)
        for j in range(size):
            block.u[j] += reply[j]
    beta = block.steps[BETA]
    for row in range(low.n * low.p):
        lo, hi = row * LANES, (row + 1) * LANES
        v, lam, u, image = (
            part(block.v, lo, hi),
            part(block.lam, lo, hi),
            part(block.u, lo, hi),
            part(block.image, lo, hi),
        )
        for k in range(LANES):
            v[k] = lam[k] - u[k] + beta[k] * image[k]
    mixed = block.image if s else block.v
    if s:
        for j in range(size):
            mixed[j] = block.v[j]
    for power in range(1, s + 1):
        source = block.v if power == 1 else part(block.kept, (power - 2) * size, (power - 1) * size)
        target = part(block.kept, (power - 1) * size, power * size)
        _mix(low, source, target)
        _add(low, block.d[power], target, mixed)
    for i in range(low.n):
        lo, hi = i * low.p * LANES, (i + 1) * low.p * LANES
        lam = part(block.lam_prev, lo, hi)
        lanes.prepared(low.h, block.h, part(mixed, lo, hi), block.steps[T], lam, True)


@entry
def advance_block(codes: Any, like: Any, block: Block, iterations: int) -> None:
    """Run all lanes of a block; after an odd number of iterations x, lam and x_new, lam_prev have traded places."""
    low = unpack(codes, like)
    x, x_new, lam, lam_prev = block.x, block.x_new, block.lam, block.lam_prev
    for _ in range(iterations):
        now = Block(
            x, x_new, block.force, lam, lam_prev, block.v, block.u, block.kept, block.message, block.reply,
            block.image, block.steps, block.b, block.c, block.d, block.g, block.h,
        )  # fmt: skip
        _primal(low, now)
        _dual(low, now)
        x, x_new, lam, lam_prev = x_new, x, lam_prev, lam


@entry
def measure_lanes(
    codes: Any, like: Any, facts: Any, x: Any, lam: Any, lam_prev: Any, count: int, reference: Any, table: Any
) -> None:
    """A row of findings for each of the first `count` lanes."""
    low = unpack(codes, like)
    own_x, size = np.empty(low.d, like.dtype), low.n * low.p
    new, old, Ax = np.empty(size, like.dtype), np.empty(size, like.dtype), np.empty(size, like.dtype)
    for k in range(count):
        lanes.take(x, LANES, k, own_x)
        lanes.take(lam, LANES, k, new)
        lanes.take(lam_prev, LANES, k, old)
        images(low, 0, low.n, own_x.ctypes.data, Ax)
        measure(low, facts, own_x.ctypes.data, new.ctypes.data, old.ctypes.data, Ax.ctypes.data, reference, table[k])
