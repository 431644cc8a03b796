"""Functions and matrices as tables of numbers that kernels read; what has no such form is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from npga import functions as fn
from npga.solver.kernels import _functions as table
from npga.solver.kernels import _products as layout
from npga.solver.kernels import _radial as radial
from npga.solver.kernels import _scalar as scalar

Array = NDArray[Any]
# With fewer entries per row than this, visiting the rows costs more than the entries.
_EMPTY_ROWS = 2
# Below this many columns a row is too short for the vector units, and a matrix by rows is copied to columns.
_SHORT_ROW = 16


class UnsupportedError(Exception):
    """A part of the problem that only the vectorised path can run; the message names it."""


# What the kernels have a formula for; a function of another kind is left to the vectorised path.
_ELEMENTWISE = frozenset(
    {
        scalar.ZERO,
        scalar.LINEAR,
        scalar.SQUARE,
        scalar.ELASTIC,
        scalar.HUBER,
        scalar.KINKED,
        scalar.INTERVAL,
        scalar.LOGISTIC,
    }
)
_RADIAL = frozenset({radial.NORM, radial.GROUPS, radial.BALL, radial.SIMPLEX})
_MATRIX = frozenset({table.QUADRATIC, table.LEAST_SQUARES})


@dataclass(frozen=True)
class LoweredFunction:
    """The arrays of a function's table, and in `alive` what they point into."""

    segments: Array
    a: Array
    b: Array
    c: Array
    matrices: Array
    pool: Array
    alive: list[Any]

    def cut(self, edges: Array) -> tuple[LoweredFunction, Array]:
        """The same with segments cut at the edges, and the number of the first one after each edge."""
        cut: list[list[int]] = []
        inner = edges[1:-1]
        for segment in self.segments.tolist():
            start, stop = segment[table.START], segment[table.STOP]
            points = [start, *inner[(inner > start) & (inner < stop)].tolist(), stop]
            for lo, hi in pairwise(points):
                cut.append([segment[table.KIND], lo, hi, *segment[table.EXTRA :]])
        segments = np.array(cut, np.int64).reshape(-1, table.SEGMENT)
        bounds = np.searchsorted(segments[:, table.START], edges).astype(np.int64)
        bounds[-1] = len(segments)
        return replace(self, segments=segments), bounds

    def columns(self, prepare: Callable[..., tuple[Array, Array, Array]], t: Array) -> Array:
        """The three columns that a prox with steps t reads, for each coordinate and step."""
        columns = np.zeros((3, len(self.a), t.size), self.a.dtype)
        for kind, start, stop, *_ in self.segments.tolist():
            own = (column[start:stop, np.newaxis] for column in (self.a, self.b, self.c))
            for column, entries in zip(columns, prepare(kind, t[np.newaxis, :], *own), strict=True):
                column[start:stop] = entries
        return columns

    def prepared(self, prepare: Callable[..., tuple[Array, Array, Array]], t: float) -> LoweredFunction:
        """The same with the columns that a prox with step t reads."""
        a, b, c = self.columns(prepare, np.array([t]))[..., 0]
        return replace(self, a=np.ascontiguousarray(a), b=np.ascontiguousarray(b), c=np.ascontiguousarray(c))

    def repeated(self, count: int) -> LoweredFunction:
        """The sum of `count` copies, each of coordinates of its own, of a function with a single segment."""
        a, b, c = (np.tile(column, count) for column in (self.a, self.b, self.c))
        segments = self.segments.copy()
        segments[0, table.STOP] = len(a)
        return replace(self, segments=segments, a=a, b=b, c=c)

    @property
    def is_separable(self) -> bool:
        """Whether every segment is a sum over coordinates."""
        return bool((self.segments[:, table.KIND] < table.FIRST_RADIAL).all())

    def table(self) -> table.Table:
        """The addresses; valid as long as this object is alive."""
        columns = (array.ctypes.data for array in (self.a, self.b, self.c, self.matrices, self.pool))
        return table.Table(self.segments.ctypes.data, len(self.segments), *columns)


@dataclass
class Lowering:
    """Collects the segments of one function of `size` coordinates; `smooth` says that its gradient is wanted."""

    size: int
    dtype: np.dtype[Any]
    smooth: bool
    segments: list[list[int]] = field(default_factory=list)
    matrices: list[Array] = field(default_factory=list)
    pool: list[Array] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.a, self.b, self.c = (np.zeros(self.size, self.dtype) for _ in range(3))

    def add(self, f: fn.Function, start: int, stop: int) -> None:
        """Append f on the coordinates start to stop."""
        if start == stop:
            return
        forms = f.kernel(stop - start)
        if forms is None:
            raise UnsupportedError(f"{f!r}")
        for form in forms:
            kind = int(form.kind)
            if kind in _ELEMENTWISE:
                self._elementwise(form, start)
            elif kind in _MATRIX and self.smooth:
                self._matrix_function(form, start)
            elif kind in _RADIAL and not self.smooth:
                self._radial(form, start)
            else:
                raise UnsupportedError(f"{f!r}")
            start += form.size

    def _fill(self, kind: int, start: int, stop: int, a: Any, b: Any, c: Any, extra: int = 0, pool: int = 0) -> None:
        self.segments.append([kind, start, stop, extra, pool])
        for column, entries in ((self.a, a), (self.b, b), (self.c, c)):
            column[start:stop] = entries

    def _elementwise(self, form: fn.KernelForm, start: int) -> None:
        kind, first = int(form.kind), start
        last = self.segments[-1] if self.segments else None
        if last is not None and last[table.KIND] == kind and last[table.STOP] == start:
            self.segments.pop()  # neighbours of one kind are one loop
            first = last[table.START]
        self._fill(kind, start, start + form.size, form.a, form.b, form.c)
        self.segments[-1][table.START] = first

    def _radial(self, form: fn.KernelForm, start: int) -> None:
        address = 0
        if form.groups:
            ends = np.cumsum([0, *(group.size for group in form.groups)]) + len(form.groups) + 1
            groups = np.concatenate([[len(form.groups)], ends, *form.groups]).astype(np.int64)
            self.alive.append(groups)
            address = groups.ctypes.data
        self._fill(int(form.kind), start, start + form.size, form.a, 0.0, form.c, extra=address)

    def _matrix_function(self, form: fn.KernelForm, start: int) -> None:
        row, alive = lower_matrix(form.matrix, self.dtype)
        self.alive.extend(alive)
        position = sum(numbers.size for numbers in self.pool)
        entries = np.broadcast_to(np.asarray(form.vector, self.dtype), form.matrix.shape[0])
        self.pool.append(np.concatenate([np.array([form.a], self.dtype), entries]))
        self.matrices.append(row)
        stop, matrix = start + form.size, len(self.matrices) - 1
        self._fill(int(form.kind), start, stop, 0.0, 0.0, form.c, extra=matrix, pool=position)

    def finish(self) -> LoweredFunction:
        """The arrays of the table."""
        matrices = np.array(self.matrices, np.int64).reshape(-1, layout.WIDTH)
        pool = np.concatenate(self.pool) if self.pool else np.zeros(1, self.dtype)
        segments = np.array(self.segments, np.int64).reshape(-1, table.SEGMENT)
        return LoweredFunction(segments, self.a, self.b, self.c, matrices, pool, self.alive)


def lower_matrix(A: Any, dtype: np.dtype[Any]) -> tuple[Array, list[Any]]:
    """Row of the matrix table for A, and the arrays that it points into."""
    row = np.zeros(layout.WIDTH, np.int64)
    row[layout.ROWS], row[layout.COLUMNS] = A.shape
    if not A.shape[1]:
        return row, []
    if sparse.issparse(A):
        return _lower_sparse(row, A, dtype)
    if not isinstance(A, np.ndarray):
        raise UnsupportedError(f"a matrix of type {type(A).__name__}")
    A = A.astype(dtype, copy=False)
    strides = [step // A.itemsize for step in A.strides]
    by_columns = strides[0] == 1 or A.shape[0] == 1
    by_rows = strides[1] == 1 or A.shape[1] == 1
    if A.shape[1] == 1 and strides[0] == 1:
        by_rows = False
    if not by_columns and (not by_rows or A.shape[1] < _SHORT_ROW):
        A = np.asfortranarray(A)
        by_columns, strides = True, [1, A.shape[0]]
    row[layout.FORM] = layout.BY_COLUMNS if by_columns else layout.BY_ROWS
    row[layout.LEAD] = strides[1] if by_columns else strides[0]
    row[layout.DATA] = A.ctypes.data
    return row, [A]


def _lower_sparse(row: Array, A: Any, dtype: np.dtype[Any]) -> tuple[Array, list[Any]]:
    A = sparse.csr_array(A)
    if A.shape[1] > np.iinfo(np.int32).max or A.shape[0] > np.iinfo(np.int32).max:
        raise UnsupportedError(f"a sparse matrix of shape {A.shape}, beyond 32-bit column numbers")
    data = np.ascontiguousarray(A.data, dtype)
    indices = np.ascontiguousarray(A.indices, np.int32)
    pointers = np.ascontiguousarray(A.indptr, np.int64)
    alive = [data, indices, pointers]
    row[layout.FORM] = layout.SPARSE
    row[layout.DATA], row[layout.INDICES], row[layout.POINTERS] = (array.ctypes.data for array in alive)
    if A.nnz < _EMPTY_ROWS * A.shape[0]:
        rows = np.repeat(np.arange(A.shape[0], dtype=np.int32), np.diff(A.indptr))
        alive.append(rows)
        row[layout.ENTRY_ROWS] = rows.ctypes.data
    return row, alive


def lower_function(
    parts: Sequence[fn.Function], sizes: Sequence[int], dtype: np.dtype[Any], smooth: bool, title: Callable[[int], str]
) -> LoweredFunction:
    """The sum of `parts` over consecutive blocks."""
    lowering = Lowering(int(sum(sizes)), dtype, smooth)
    start = 0
    for i, (f, size) in enumerate(zip(parts, sizes, strict=True)):
        try:
            lowering.add(f, start, start + int(size))
        except UnsupportedError as culprit:
            raise UnsupportedError(f"{title(i)} is {culprit}") from None
        start += int(size)
    return lowering.finish()
