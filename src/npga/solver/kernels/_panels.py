"""The panel schedule: all agents together, a panel of rows of p at a time.

Every product with the network, and the prox of a separable h*, act within one column of the dual arrays. So for a
panel of rows, A x_hat, the exchange of messages, lam+ and then at once the panel's part of A^T lam+ for the next
iteration follow one another, and A as well as the dual arrays are read from memory once per iteration, even where a
single A_i is larger than the cache.
"""

from __future__ import annotations

from typing import Any

from npga.solver.kernels import _functions as functions
from npga.solver.kernels._agents import Dual
from npga.solver.kernels._jit import compiled, inlined, number, view
from npga.solver.kernels._mixing import add, add_message, coefficient, differences
from npga.solver.kernels._primal import Lowered, Primal, entry, matrix
from npga.solver.kernels._products import add_adjoint, add_product


@inlined
def piece(low: Lowered, address: int, i: int, lo: int, hi: int) -> Any:
    """Columns lo to hi of row i of an n x p array."""
    return view(address, i * low.p + lo, hi - lo, low.t)


@inlined
def kept_piece(low: Lowered, dual: Dual, power: int, i: int, lo: int, hi: int) -> Any:
    """K^power v of agent i, v itself for the power 0."""
    return piece(low, dual.v, i, lo, hi) if power == 0 else piece(low, dual.kept, (power - 1) * low.n + i, lo, hi)


@compiled
def pull_panel(low: Lowered, lam: int, lo: int, hi: int, out: int) -> None:
    """Add A_i[lo:hi]^T lam_i[lo:hi] of all agents to the d numbers at `out`."""
    for i in range(low.n):
        start, stop = entry(low.offsets, i), entry(low.offsets, i + 1)
        if start < stop:
            add_adjoint(matrix(low, i), lo, hi, piece(low, lam, i, lo, hi), view(out, start, stop - start, low.t))


@compiled
def images_panel(low: Lowered, vector: int, lo: int, hi: int, out: int, width: int) -> None:
    """Set row i of the n x width array at `out` to A_i[lo:hi] vector_i."""
    for i in range(low.n):
        image = view(out, i * width, hi - lo, low.t)
        for j in range(hi - lo):
            image[j] = number(low.t, 0)
        start, stop = entry(low.offsets, i), entry(low.offsets, i + 1)
        if start < stop:
            add_product(matrix(low, i), lo, hi, view(vector, start, stop - start, low.t), image)


@compiled
def correct_panel(low: Lowered, dual: Dual, lo: int, hi: int, message: int, reply: int, width: int) -> None:
    """Add C dlam + gamma B^2 v to u; messages live in n x width scratch."""
    r, s, m = low.mixing.new_powers, low.mixing.kept_powers, hi - lo
    for power in range(r, 0, -1):
        for i in range(low.n):
            own = view(reply, i * width, m, low.t)
            if power == r:
                for j in range(m):
                    own[j] = number(low.t, 0)
            else:
                differences(low.links, i, view(message, 0, low.n * width, low.t), width, 0, own)
            lam, lam_prev = piece(low, dual.lam, i, lo, hi), piece(low, dual.lam_prev, i, lo, hi)
            add_message(low.mixing, power, lam, lam_prev, kept_piece(low, dual, s, i, lo, hi), own)
        message, reply = reply, message
    for i in range(low.n):
        u = piece(low, dual.u, i, lo, hi)
        for j in range(1, s + 1):
            add(u, coefficient(low.mixing.b, j, low.t), kept_piece(low, dual, j, i, lo, hi))
        if r:
            own = view(reply, i * width, m, low.t)
            differences(low.links, i, view(message, 0, low.n * width, low.t), width, 0, own)
            for j in range(m):
                u[j] += own[j]


@compiled
def advance_v(low: Lowered, dual: Dual, lo: int, hi: int, scratch: int, width: int) -> None:
    """v+ = lam - u+ + beta A x_hat+: images in the first n x width numbers of the scratch, messages in the next two."""
    block = low.n * width * low.size
    correct_panel(low, dual, lo, hi, scratch + block, scratch + 2 * block, width)
    for i in range(low.n):
        image, v = view(scratch, i * width, hi - lo, low.t), piece(low, dual.v, i, lo, hi)
        lam, u = piece(low, dual.lam, i, lo, hi), piece(low, dual.u, i, lo, hi)
        for j in range(hi - lo):
            v[j] = lam[j] - u[j] + low.beta * image[j]


@compiled
def finish_panel(low: Lowered, dual: Dual, lo: int, hi: int, scratch: int) -> float:
    """K v, ..., K^s v, then lam+ = prox_{t h*}(D v); returns the sum of lam+ (finite or not)."""
    m, s = hi - lo, low.mixing.kept_powers
    for power in range(1, s + 1):
        source = view(dual.v if power == 1 else dual.kept, max(power - 2, 0) * low.n * low.p, low.n * low.p, low.t)
        for i in range(low.n):
            differences(low.links, i, source, low.p, lo, kept_piece(low, dual, power, i, lo, hi))
    total = number(low.t, 0)
    for i in range(low.n):
        mixed, v, lam = view(scratch, 0, m, low.t), piece(low, dual.v, i, lo, hi), piece(low, dual.lam_prev, i, lo, hi)
        for j in range(m):
            mixed[j] = v[j]
        for j in range(1, s + 1):
            add(mixed, coefficient(low.mixing.d, j, low.t), kept_piece(low, dual, j, i, lo, hi))
        functions.conj_prox(low.h, lo, hi, mixed, low.t, lam)
        for j in range(m):
            total += lam[j]
    return total  # type: ignore[no-any-return]


@compiled
def panels(low: Lowered, arrays: Primal, dual: Dual, chunk: Any, scratch: int, out: int, pause: bool) -> float:
    """One iteration of the dual half on the rows chunk[0] to chunk[1], in panels of chunk[2] rows.

    `out` receives this chunk's part of A^T lam+; returns the sum of its lam+.
    """
    width = chunk[2]
    pulled = view(out, 0, low.d, low.t)
    for j in range(low.d):
        pulled[j] = number(low.t, 0)
    total = number(low.t, 0)
    for lo in range(chunk[0], chunk[1], width):
        hi = min(lo + width, chunk[1])
        if pause:
            images_panel(low, arrays.x_new, lo, hi, dual.Ax + lo * low.size, low.p)
        images_panel(low, arrays.x_hat, lo, hi, scratch, width)
        advance_v(low, dual, lo, hi, scratch, width)
        total += finish_panel(low, dual, lo, hi, scratch)
        pull_panel(low, dual.lam_prev, lo, hi, out)
    return total  # type: ignore[no-any-return]
