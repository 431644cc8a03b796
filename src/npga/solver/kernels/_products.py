"""Products with one matrix where it lies in memory: dense by columns, dense by rows, or sparse.

A matrix is a row of an integer table:

    FORM, ROWS, COLUMNS    form (below) and shape
    DATA, LEAD             address of the entries; distance between columns or rows, in entries
    INDICES, POINTERS      sparse: addresses of the column numbers (int32) and of the row pointers (int64)
    ENTRY_ROWS             sparse with nearly empty rows: address of the row number of every entry (int32), else 0

Nothing is copied: dense matrices are read in place in either order, sparse ones in their compressed rows. All
functions act on the rows `lo` to `hi`, so that the caller chooses panels that fit the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.solver.kernels._jit import compiled, number, view

FORM, ROWS, COLUMNS, DATA, LEAD, INDICES, POINTERS, ENTRY_ROWS = range(8)
WIDTH = 8
BY_COLUMNS, BY_ROWS, SPARSE = 1, 2, 3

_INT32 = np.zeros(1, np.int32)


@compiled
def add_product(matrix: Any, lo: int, hi: int, x: Any, out: Any) -> None:
    """Add A[lo:hi] x to `out`, which has hi - lo entries."""
    if matrix[FORM] == BY_COLUMNS:
        _columns_product(matrix, lo, hi, x, out)
    elif matrix[FORM] == BY_ROWS:
        _add_dots(matrix[DATA], lo * matrix[LEAD], matrix[LEAD], x, out)
    elif matrix[FORM] == SPARSE:
        _sparse_product(matrix, lo, hi, x, out)


@compiled
def add_adjoint(matrix: Any, lo: int, hi: int, y: Any, out: Any) -> None:
    """Add A[lo:hi]^T y to `out`, which has one entry per column."""
    if matrix[FORM] == BY_COLUMNS:
        _add_dots(matrix[DATA], lo, matrix[LEAD], y, out)
    elif matrix[FORM] == BY_ROWS:
        _rows_adjoint(matrix, lo, hi, y, out)
    elif matrix[FORM] == SPARSE:
        _sparse_adjoint(matrix, lo, hi, y, out)


@compiled
def _add_dots(data: int, first: int, lead: int, x: Any, out: Any) -> None:
    """Add to out[k] the product of x with as many entries from first + k lead on: with a row, or part of a column."""
    n, m = len(x), len(out)
    k = 0
    while k + 4 <= m:  # four at a time: one pass over x for four sums
        at = first + k * lead
        a0, a1 = view(data, at, n, x), view(data, at + lead, n, x)
        a2, a3 = view(data, at + 2 * lead, n, x), view(data, at + 3 * lead, n, x)
        s0 = s1 = s2 = s3 = number(x[0], 0)
        for j in range(n):
            s0 += a0[j] * x[j]
            s1 += a1[j] * x[j]
            s2 += a2[j] * x[j]
            s3 += a3[j] * x[j]
        out[k] += s0
        out[k + 1] += s1
        out[k + 2] += s2
        out[k + 3] += s3
        k += 4
    while k < m:
        a0, s0 = view(data, first + k * lead, n, x), number(x[0], 0)
        for j in range(n):
            s0 += a0[j] * x[j]
        out[k] += s0
        k += 1


@compiled
def _columns_product(matrix: Any, lo: int, hi: int, x: Any, out: Any) -> None:
    m, n = hi - lo, len(x)
    data, lead = matrix[DATA], matrix[LEAD]
    j = 0
    while j + 4 <= n:  # four columns at a time: one pass over `out` for four products
        c0, c1 = view(data, j * lead + lo, m, x), view(data, (j + 1) * lead + lo, m, x)
        c2, c3 = view(data, (j + 2) * lead + lo, m, x), view(data, (j + 3) * lead + lo, m, x)
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for r in range(m):
            out[r] += (c0[r] * x0 + c1[r] * x1) + (c2[r] * x2 + c3[r] * x3)
        j += 4
    while j < n:
        c0, x0 = view(data, j * lead + lo, m, x), x[j]
        for r in range(m):
            out[r] += c0[r] * x0
        j += 1


@compiled
def _rows_adjoint(matrix: Any, lo: int, hi: int, y: Any, out: Any) -> None:
    n, m = len(out), hi - lo
    data, lead = matrix[DATA], matrix[LEAD]
    r = 0
    while r + 4 <= m:
        r0, r1 = view(data, (lo + r) * lead, n, y), view(data, (lo + r + 1) * lead, n, y)
        r2, r3 = view(data, (lo + r + 2) * lead, n, y), view(data, (lo + r + 3) * lead, n, y)
        y0, y1, y2, y3 = y[r], y[r + 1], y[r + 2], y[r + 3]
        for j in range(n):
            out[j] += (r0[j] * y0 + r1[j] * y1) + (r2[j] * y2 + r3[j] * y3)
        r += 4
    while r < m:
        r0, y0 = view(data, (lo + r) * lead, n, y), y[r]
        for j in range(n):
            out[j] += r0[j] * y0
        r += 1


@compiled
def _sparse_product(matrix: Any, lo: int, hi: int, x: Any, out: Any) -> None:
    pointers = view(matrix[POINTERS], 0, hi + 1, matrix)
    count = pointers[hi]
    columns, data = view(matrix[INDICES], 0, count, _INT32), view(matrix[DATA], 0, count, x)
    if matrix[ENTRY_ROWS]:
        rows = view(matrix[ENTRY_ROWS], 0, count, _INT32)
        for k in range(pointers[lo], count):
            out[rows[k] - lo] += data[k] * x[columns[k]]
        return
    for r in range(lo, hi):
        total = number(x[0], 0)
        for k in range(pointers[r], pointers[r + 1]):
            total += data[k] * x[columns[k]]
        out[r - lo] += total


@compiled
def _sparse_adjoint(matrix: Any, lo: int, hi: int, y: Any, out: Any) -> None:
    pointers = view(matrix[POINTERS], 0, hi + 1, matrix)
    count = pointers[hi]
    columns, data = view(matrix[INDICES], 0, count, _INT32), view(matrix[DATA], 0, count, y)
    if matrix[ENTRY_ROWS]:
        rows = view(matrix[ENTRY_ROWS], 0, count, _INT32)
        for k in range(pointers[lo], count):
            out[columns[k]] += data[k] * y[rows[k] - lo]
        return
    for r in range(lo, hi):
        for k in range(pointers[r], pointers[r + 1]):
            out[columns[k]] += data[k] * y[r - lo]
