"""A function of many coordinates as a table of segments, each with one formula.

A segment is a row of an integer table: KIND, START, STOP, and for some kinds EXTRA (the address of the groups of a
GROUPS segment, or the row of the matrix table) and POOL (where the numbers of a matrix function begin):

    QUADRATIC        w ((x - c).Q(x - c)/2 + q.(x - c))     pool: w, q
    LEAST_SQUARES    (w/2) |M (x - c) - b|^2                pool: w, b
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npga.functions import Kind
from npga.solver.kernels import _elementwise as elementwise
from npga.solver.kernels import _radial as radial
from npga.solver.kernels._jit import compiled, inlined, part, view
from npga.solver.kernels._products import COLUMNS, ROWS, WIDTH, add_adjoint, add_product

KIND, START, STOP, EXTRA, POOL = range(5)
SEGMENT = 5
FIRST_RADIAL = radial.NORM
FIRST_MATRIX = int(Kind.QUADRATIC)
QUADRATIC, LEAST_SQUARES = int(Kind.QUADRATIC), int(Kind.LEAST_SQUARES)


class Table(NamedTuple):
    """A lowered function, by addresses.

    Attributes
    ----------
    segments, rows
        The integer table, row after row, and its number of rows.
    a, b, c
        Parameters of the formulas, one per coordinate.
    matrices, pool
        Matrices of matrix functions, and their vectors.
    """

    segments: int
    rows: int
    a: int
    b: int
    c: int
    matrices: int
    pool: int


@inlined
def _segment(table: Table, k: int) -> Any:
    return view(table.segments, k * SEGMENT, SEGMENT, k)


@inlined
def groups_of(segment: Any) -> Any:
    """The group table of a GROUPS segment; empty for other kinds."""
    if segment[KIND] != radial.GROUPS:
        return view(segment[EXTRA], 0, 0, segment)
    count = view(segment[EXTRA], 0, 1, segment)[0]
    return view(segment[EXTRA], 0, 1 + view(segment[EXTRA], 1 + count, 1, segment)[0], segment)


@compiled
def add_grad(table: Table, first: int, last: int, x: Any, out: Any) -> None:
    """Add the gradient of the segments first to last - 1 to `out`; x and `out` hold all coordinates."""
    for k in range(first, last):
        segment = _segment(table, k)
        lo, hi = segment[START], segment[STOP]
        if segment[KIND] < FIRST_MATRIX:
            a, b, c = view(table.a, lo, hi - lo, x), view(table.b, lo, hi - lo, x), view(table.c, lo, hi - lo, x)
            elementwise.add_grad(segment[KIND], part(x, lo, hi), a, b, c, part(out, lo, hi))
        else:
            matrix_grad(table, segment, part(x, lo, hi), part(out, lo, hi))


@compiled
def matrix_grad(table: Table, segment: Any, x: Any, out: Any) -> None:
    matrix = view(table.matrices, segment[EXTRA] * WIDTH, WIDTH, segment)
    r, image = np.empty(matrix[COLUMNS], x.dtype), np.empty(matrix[ROWS], x.dtype)
    vector = view(table.pool, segment[POOL] + 1, len(image), x)
    w = view(table.pool, segment[POOL], 1, x)[0]
    _inner(table, segment, matrix, x, r, image)
    if segment[KIND] == QUADRATIC:
        for j in range(len(x)):
            out[j] += w * (image[j] + vector[j])
        return
    for j in range(len(image)):
        image[j] -= vector[j]
    for j in range(len(r)):
        r[j] = 0
    add_adjoint(matrix, 0, matrix[ROWS], image, r)
    for j in range(len(x)):
        out[j] += w * r[j]


@compiled
def _inner(table: Table, segment: Any, matrix: Any, x: Any, r: Any, image: Any) -> None:
    """R = x - c, image = M r."""
    c = view(table.c, segment[START], len(x), x)
    for j in range(len(x)):
        r[j] = x[j] - c[j]
    for j in range(len(image)):
        image[j] = 0
    add_product(matrix, 0, matrix[ROWS], r, image)


@compiled
def prox(table: Table, first: int, last: int, x: Any, t: float, out: Any) -> None:
    """Prox of the segments first to last - 1; x and `out`, which may be x, hold all coordinates."""
    for k in range(first, last):
        segment = _segment(table, k)
        lo, hi = segment[START], segment[STOP]
        a, b, c = view(table.a, lo, hi - lo, x), view(table.b, lo, hi - lo, x), view(table.c, lo, hi - lo, x)
        if segment[KIND] < FIRST_RADIAL:
            elementwise.prox(segment[KIND], part(x, lo, hi), t, a, b, c, part(out, lo, hi))
        else:
            radial.prox(segment[KIND], part(x, lo, hi), t, a, c, groups_of(segment), part(out, lo, hi))


@compiled
def conj_prox(table: Table, lo: int, hi: int, x: Any, t: float, out: Any) -> None:
    """Prox of the conjugate at coordinates lo to hi, which x and `out` hold; block functions need all of theirs."""
    for k in range(table.rows):
        segment = _segment(table, k)
        start, stop = max(lo, segment[START]), min(hi, segment[STOP])
        if start >= stop:
            continue
        m = stop - start
        a, b, c = view(table.a, start, m, x), view(table.b, start, m, x), view(table.c, start, m, x)
        row, result = part(x, start - lo, stop - lo), part(out, start - lo, stop - lo)
        if segment[KIND] < FIRST_RADIAL:
            elementwise.conj_prox(segment[KIND], row, t, a, b, c, result)
        else:
            radial.conj_prox(segment[KIND], row, t, a, c, groups_of(segment), result)


@compiled
def value(table: Table, x: Any, slack: float) -> float:
    """f(x)."""
    total = 0.0
    for k in range(table.rows):
        segment = _segment(table, k)
        lo, hi = segment[START], segment[STOP]
        a, b, c = view(table.a, lo, hi - lo, x), view(table.b, lo, hi - lo, x), view(table.c, lo, hi - lo, x)
        row = part(x, lo, hi)
        if segment[KIND] < FIRST_RADIAL:
            total += elementwise.value(segment[KIND], row, a, b, c, slack)
        elif segment[KIND] < FIRST_MATRIX:
            total += radial.value(segment[KIND], row, a, c, groups_of(segment), slack)
        else:
            total += _matrix_value(table, segment, row)
    return total


@compiled
def _matrix_value(table: Table, segment: Any, x: Any) -> float:
    matrix = view(table.matrices, segment[EXTRA] * WIDTH, WIDTH, segment)
    r, image = np.empty(matrix[COLUMNS], x.dtype), np.empty(matrix[ROWS], x.dtype)
    vector = view(table.pool, segment[POOL] + 1, len(image), x)
    w = view(table.pool, segment[POOL], 1, x)[0]
    _inner(table, segment, matrix, x, r, image)
    total = 0.0
    if segment[KIND] == QUADRATIC:
        for j in range(len(x)):
            total += r[j] * (image[j] / 2 + vector[j])
    else:
        for j in range(len(image)):
            total += (image[j] - vector[j]) ** 2 / 2
    return w * total  # type: ignore[no-any-return]
