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
from npga.solver.kernels import _products as form
from npga.solver.kernels import _radial as radial
from npga.solver.kernels import _scalar as scalar

Array = NDArray[Any]
# With fewer entries per row than this, visiting the rows costs more than the entries.
_EMPTY_ROWS = 2
# Below this many columns a row is too short for the vector units, and a matrix by rows is copied to columns.
_SHORT_ROW = 16


class UnsupportedError(Exception):
    """A part of the problem that only the vectorised path can run; the message names it."""


# Kind and parameters (a, b, c) of the elementwise classes.
_ELEMENTWISE: dict[type[fn.Function], Callable[[Any], tuple[int, Any, Any, Any]]] = {
    fn.Zero: lambda _: (scalar.ZERO, 0.0, 0.0, 0.0),
    fn.Linear: lambda f: (scalar.LINEAR, f.c, 0.0, 0.0),
    fn.SquaredNorm: lambda f: (scalar.SQUARE, f.weight, 0.0, f.center),
    fn.SquaredLoss: lambda f: (scalar.SQUARE, f.weight, 0.0, f.target),
    fn.ElasticNet: lambda f: (scalar.ELASTIC, f.l1, f.l2, 0.0),
    fn.Huber: lambda f: (scalar.HUBER, f.weight, f.delta, f.center),
    fn.L1: lambda f: (scalar.KINKED, -f.weight, f.weight, 0.0),
    fn.Hinge: lambda f: (scalar.KINKED, *_hinge_slopes(f), f.labels),
    fn.Quantile: lambda f: (scalar.KINKED, -f.weight * f.tau, f.weight * (1.0 - f.tau), f.target),
    fn.Box: lambda f: (scalar.INTERVAL, f.lo, f.hi, 0.0),
    fn.NonNegative: lambda _: (scalar.INTERVAL, 0.0, np.inf, 0.0),
    fn.Equality: lambda f: (scalar.INTERVAL, f.b, f.b, 0.0),
    fn.LessEqual: lambda f: (scalar.INTERVAL, -np.inf, f.b, 0.0),
    fn.Logistic: lambda f: (scalar.LOGISTIC, f.labels, f.weight, 0.0),
}
# Which of a and b a factor w multiplies: both slopes of a kink, but not the threshold of a Huber loss.
_SCALED = {
    scalar.LINEAR: "a",
    scalar.SQUARE: "a",
    scalar.ELASTIC: "ab",
    scalar.HUBER: "a",
    scalar.KINKED: "ab",
    scalar.LOGISTIC: "b",
}


def _hinge_slopes(f: fn.Hinge) -> tuple[Any, Any]:
    slope = -np.asarray(f.weight) * np.asarray(f.labels)
    return np.minimum(slope, 0.0), np.maximum(slope, 0.0)


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

    def add(self, f: fn.Function, start: int, stop: int, weight: float = 1.0, center: Any = 0.0) -> None:
        """Append weight f(. - center) on the coordinates start to stop."""
        if start == stop:
            return
        if type(f) is fn.Scaled:
            self.add(f.f, start, stop, weight * f.weight, center)
        elif type(f) is fn.Shifted:
            self.add(f.f, start, stop, weight, center + np.asarray(f.center))
        elif type(f) is fn.SeparableSum:
            self._sum(f, start, weight, center)
        elif type(f) in _ELEMENTWISE:
            self._elementwise(f, start, stop, weight, center)
        elif type(f) in (fn.Quadratic, fn.LeastSquares) and self.smooth:
            self._matrix_function(f, start, stop, weight, center)
        elif type(f) in (fn.L2, fn.GroupL2, fn.Ball, fn.Simplex) and not self.smooth:
            self._radial(f, start, stop, weight, center)
        else:
            raise UnsupportedError(f"{f!r}")

    def _sum(self, f: fn.SeparableSum, start: int, weight: float, center: Any) -> None:
        for piece, size in zip(f.parts, f.sizes, strict=True):
            shift = center if np.ndim(center) == 0 else center[:size]
            center = center if np.ndim(center) == 0 else center[size:]
            self.add(piece, start, start + size, weight, shift)
            start += size

    def _fill(self, kind: int, start: int, stop: int, a: Any, b: Any, c: Any, extra: int = 0, pool: int = 0) -> None:
        self.segments.append([kind, start, stop, extra, pool])
        for column, entries in ((self.a, a), (self.b, b), (self.c, c)):
            column[start:stop] = entries

    def _elementwise(self, f: fn.Function, start: int, stop: int, weight: float, center: Any) -> None:
        kind, a, b, c = _ELEMENTWISE[type(f)](f)
        scaled = _SCALED.get(kind, "")
        a = a * weight if "a" in scaled else a
        b = b * weight if "b" in scaled else b
        if kind == scalar.INTERVAL:
            a, b = a + center, b + center
        last = self.segments[-1] if self.segments else None
        if last is not None and last[table.KIND] == kind and last[table.STOP] == start:
            self.segments.pop()  # neighbours of one kind are one loop
            self._fill(kind, start, stop, a, b, c + center)
            self.segments[-1][table.START] = last[table.START]
        else:
            self._fill(kind, start, stop, a, b, c + center)

    def _radial(self, f: fn.Function, start: int, stop: int, weight: float, center: Any) -> None:
        if isinstance(f, fn.L2):
            self._fill(radial.NORM, start, stop, weight * f.weight, 0.0, center)
        elif isinstance(f, fn.Ball):
            self._fill(radial.BALL, start, stop, f.radius, 0.0, f.center + center)
        elif isinstance(f, fn.Simplex):
            self._fill(radial.SIMPLEX, start, stop, f.total, 0.0, center)
        elif isinstance(f, fn.GroupL2):
            order = np.concatenate(f.groups)
            ends = np.cumsum([0, *(group.size for group in f.groups)]) + len(f.groups) + 1
            groups = np.concatenate([[len(f.groups)], ends, order]).astype(np.int64)
            self.alive.append(groups)
            weights = np.empty(stop - start)
            sizes = [group.size for group in f.groups]
            weights[order] = np.repeat(np.broadcast_to(f.weight, len(sizes)), sizes) * weight
            self._fill(radial.GROUPS, start, stop, weights, 0.0, center, extra=groups.ctypes.data)

    def _matrix_function(self, f: fn.Function, start: int, stop: int, weight: float, center: Any) -> None:
        if isinstance(f, fn.Quadratic):
            kind, matrix, vector, factor = table.QUADRATIC, f.Q, f.q, weight
        elif isinstance(f, fn.LeastSquares):
            kind, matrix, vector, factor = table.LEAST_SQUARES, f.M, f.b, weight * f.weight
        row, alive = lower_matrix(matrix, self.dtype)
        self.alive.extend(alive)
        position = sum(numbers.size for numbers in self.pool)
        entries = np.broadcast_to(np.asarray(vector, self.dtype), matrix.shape[0])
        self.pool.append(np.concatenate([np.array([factor], self.dtype), entries]))
        self.matrices.append(row)
        self._fill(kind, start, stop, 0.0, 0.0, center, extra=len(self.matrices) - 1, pool=position)

    def finish(self) -> LoweredFunction:
        """The arrays of the table."""
        matrices = np.array(self.matrices, np.int64).reshape(-1, form.WIDTH)
        pool = np.concatenate(self.pool) if self.pool else np.zeros(1, self.dtype)
        segments = np.array(self.segments, np.int64).reshape(-1, table.SEGMENT)
        return LoweredFunction(segments, self.a, self.b, self.c, matrices, pool, self.alive)


def lower_matrix(A: Any, dtype: np.dtype[Any]) -> tuple[Array, list[Any]]:
    """Row of the matrix table for A, and the arrays that it points into."""
    row = np.zeros(form.WIDTH, np.int64)
    row[form.ROWS], row[form.COLUMNS] = A.shape
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
    row[form.FORM] = form.BY_COLUMNS if by_columns else form.BY_ROWS
    row[form.LEAD] = strides[1] if by_columns else strides[0]
    row[form.DATA] = A.ctypes.data
    return row, [A]


def _lower_sparse(row: Array, A: Any, dtype: np.dtype[Any]) -> tuple[Array, list[Any]]:
    A = sparse.csr_array(A)
    if A.shape[1] > np.iinfo(np.int32).max or A.shape[0] > np.iinfo(np.int32).max:
        raise UnsupportedError(f"a sparse matrix of shape {A.shape}, beyond 32-bit column numbers")
    data = np.ascontiguousarray(A.data, dtype)
    indices = np.ascontiguousarray(A.indices, np.int32)
    pointers = np.ascontiguousarray(A.indptr, np.int64)
    alive = [data, indices, pointers]
    row[form.FORM] = form.SPARSE
    row[form.DATA], row[form.INDICES], row[form.POINTERS] = (array.ctypes.data for array in alive)
    if A.nnz < _EMPTY_ROWS * A.shape[0]:
        rows = np.repeat(np.arange(A.shape[0], dtype=np.int32), np.diff(A.indptr))
        alive.append(rows)
        row[form.ENTRY_ROWS] = rows.ctypes.data
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
