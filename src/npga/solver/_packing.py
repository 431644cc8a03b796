"""A problem on a network under a version and steps, packed into the structs that the compiled core reads.

What depends on the problem alone (`Parts`) and on the network alone (its lists of neighbours) is packed once and kept,
so that another plan with other steps costs little. What has no formula in the core is named by `UnsupportedError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from npga.errors import VersionError
from npga.functions import Function, KernelForm, Kind
from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver.core import Core, find_core
from npga.solver.core import structs as c
from npga.steps import Steps

Array = NDArray[Any]
# A group of agents shares this much of the second-level cache: matrices, and about six dual rows each.
_GROUP_BYTES = 1 << 19
# Rows shorter than this are joined, up to so many numbers, for a prox of h* without loops of a few steps.
_SHORT, _TILE = 64, 4096
# With fewer entries per row than this, visiting the rows costs more than the entries.
_EMPTY_ROWS = 2
# Below this many columns a row is too short for the vector units, and a matrix by rows is copied to columns.
_SHORT_ROW = 16
BY_COLUMNS, BY_ROWS, SPARSE = 1, 2, 3


class UnsupportedError(Exception):
    """What the compiled core cannot run, or why there is none; the message names it."""


def core() -> Core:
    """The compiled core of this machine."""
    found = find_core()
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


def addresses(**arrays: Array) -> dict[str, int]:
    """Where arrays begin, by name."""
    return {name: array.ctypes.data for name, array in arrays.items()}


class Plan:
    """A problem on a network under a version and steps.

    Parameters
    ----------
    problem, network, version, steps
        What runs. `UnsupportedError` says what has no kernel.
    """

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        if not network.is_steady:
            raise UnsupportedError(f"a {network.kind} has no kernel")
        self.dtype, self.parts, self.links = problem.dtype, parts(problem), 2 * len(network.edges)
        self.calls = {name: call for (name, size), call in core().calls.items() if size == problem.dtype.itemsize}
        own, (n, p, d), dtype = self.parts, (problem.n, problem.p, problem.d), self.dtype
        polynomials, (r, s) = _polynomials(version, steps, dtype)
        recursion = np.zeros((2, 0), dtype)
        if version.chebyshev > 1:
            recursion = np.ascontiguousarray(np.array(version.polynomial(network).recursion, dtype).T)
        links, neighbours, order = _neighbours(network)
        copies = n if p < _SHORT and n * p <= _TILE and own.h.is_one_loop else 1
        ready_g, ready_h = np.empty((4, d), dtype), np.empty((4, copies * p), dtype)
        arrays = {
            "alpha": np.repeat(np.array(steps.per_agent(n), dtype), own.offsets[1:] - own.offsets[:-1]),
            **{name: getattr(own, name) for name in ("offsets", "groups", "f_bounds", "g_bounds")},
            "links": links,
            "neighbours": neighbours,
            "weights": np.tile(version.edge_weights(network), 2)[order].astype(dtype),
            **dict(zip(("b", "c", "d_powers", "carry", "scale"), (*polynomials, *recursion), strict=True)),
        }
        self._alive = (arrays, ready_g, ready_h)
        functions = own.f.struct(np.empty((4, 0), dtype), 0), own.g.struct(ready_g, 1), own.h.struct(ready_h, copies)
        self.struct = c.Plan(
            n=n, p=p, d=d, beta=steps.beta, theta=steps.theta, matrices=ctypes.addressof(own.matrices),
            f=functions[0], g=functions[1], h=functions[2], group_count=len(own.groups) - 1,
            new_powers=r, kept_powers=s, degree=version.chebyshev, **addresses(**arrays),
        )  # fmt: skip
        self.address = ctypes.addressof(self.struct)
        self.calls["prepare"](self.address)


def _polynomials(version: Version, steps: Steps, dtype: np.dtype[Any]) -> tuple[Array, tuple[int, int]]:
    """Coefficients of gamma b, c and d in powers of K, padded to one length, and the rounds (r, s)."""
    try:
        polynomials = version.plain.kernel_polynomials(steps.beta)
    except VersionError:
        raise UnsupportedError(
            f"version {version.name!r} is given by explicit matrices, which have no kernel"
        ) from None
    schedule = version.plain.schedule(steps.beta)
    r, s = schedule.rounds - schedule.kept_size, schedule.kept_size
    padded = np.zeros((3, max(r + s + 1, *(len(row) for row in polynomials))), dtype)
    for row, polynomial in zip(padded, polynomials, strict=True):
        row[: len(polynomial)] = polynomial
    padded[0] *= dtype.type(steps.gamma)
    return padded, (r, s)


_LISTS: WeakKeyDictionary[Network, tuple[Array, Array, Array]] = WeakKeyDictionary()


def _neighbours(network: Network) -> tuple[Array, Array, Array]:
    """Where the list of every agent begins, sorted neighbours, and which edge (there, then back) each entry is."""
    if network not in _LISTS:
        rows, columns = np.concatenate([network.edges, network.edges[:, ::-1]]).T
        order = np.lexsort((columns, rows))
        links = np.searchsorted(rows[order], np.arange(network.n + 1)).astype(np.int64)
        _LISTS[network] = links, columns[order].astype(np.int64), order
    return _LISTS[network]


# ------------------------------------------------------------------ the problem


class Parts:
    """What the core knows of a problem, whatever the network; `alive` owns the memory that the structs point into."""

    def __init__(self, problem: Problem) -> None:
        packed = [_agent_matrix(problem, i) for i in range(problem.n)]
        self.matrices, self.alive = (
            (c.Matrix * problem.n)(*(matrix for matrix, _ in packed)),
            [own for _, own in packed],
        )
        self.bytes_of_A = np.array([sum(array.nbytes for array in owned) for owned in self.alive], np.int64)
        self.groups = _cut(self.bytes_of_A + 6 * problem.p * problem.dtype.itemsize)
        self.offsets = np.ascontiguousarray(problem.A.offsets, np.int64)
        self.f, self.f_bounds = _joined(problem, "f", smooth=True).cut(self.offsets[self.groups])
        self.g, self.g_bounds = _joined(problem, "g", smooth=False).cut(self.offsets[self.groups])
        self.h = pack_function([problem.h], [problem.p], problem.dtype, False, ["h"])


_PARTS: WeakKeyDictionary[Problem, Parts | str] = WeakKeyDictionary()


def parts(problem: Problem) -> Parts:
    """Pack a problem, once; raise `UnsupportedError` with the name of the part that cannot be."""
    if problem not in _PARTS:
        try:
            _PARTS[problem] = Parts(problem)
        except UnsupportedError as culprit:
            _PARTS[problem] = str(culprit)
    found = _PARTS[problem]
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


def _agent_matrix(problem: Problem, i: int) -> tuple[Any, list[Array]]:
    try:
        return pack_matrix(problem.agents[i].A, problem.dtype)
    except UnsupportedError as culprit:
        raise UnsupportedError(f"A of {problem.title(i)} is {culprit}, which has no kernel") from None


def _joined(problem: Problem, role: str, smooth: bool) -> PackedFunction:
    """The sum over agents in one go; only a failure looks at the agents one by one, to name the culprit."""
    try:
        return pack_function([getattr(problem, role)], [problem.d], problem.dtype, smooth, [role])
    except UnsupportedError:
        own = [getattr(agent, role) for agent in problem.agents]
        titles = [f"{role} of {problem.title(i)}" for i in range(problem.n)]
        return pack_function(own, problem.sizes.tolist(), problem.dtype, smooth, titles)


def _cut(sizes: Array) -> Array:
    """Boundaries of groups of consecutive agents that together stay below the limit (or are single)."""
    bounds, filled = [0], 0
    for i, size in enumerate(sizes.tolist()):
        if filled and filled + size > _GROUP_BYTES:
            bounds.append(i)
            filled = 0
        filled += size
    return np.array([*bounds, len(sizes)], np.int64)


# ------------------------------------------------------------------ functions


# What a bent segment adds to its formula (see `KernelForm`), and where nothing is bent.
_BENT = {"tilt": 0.0, "ridge": 0.0, "base": 0.0, "lo": -np.inf, "hi": np.inf}


@dataclass
class PackedFunction:
    """The segments of one function, its parameters for each coordinate, and in `alive` what the segments point into."""

    segments: list[Any]
    columns: dict[str, Array]
    alive: list[Any] = field(default_factory=list)

    def struct(self, ready: Array, copies: int) -> Any:
        """The struct, valid as long as this object and the ready columns are alive."""
        columns = addresses(**self.columns)
        own = c.Columns(**{letter: columns.pop(letter) for letter in "abc"})
        ready = c.Columns(*(row.ctypes.data for row in ready))
        table = ctypes.addressof(self._table)
        return c.Function(count=len(self.segments), segments=table, own=own, ready=ready, copies=copies, **columns)

    @cached_property
    def _table(self) -> Any:
        return (c.Segment * len(self.segments))(*self.segments)

    def cut(self, edges: Array) -> tuple[PackedFunction, Array]:
        """The same with segments cut at the edges, and the number of the first one after each edge."""
        pieces, inner = [], edges[1:-1]
        for segment in self.segments:
            within = inner[(inner > segment.start) & (inner < segment.stop)].tolist()
            for start, stop in pairwise([segment.start, *within, segment.stop]):
                piece = c.Segment.from_buffer_copy(segment)
                piece.start, piece.stop = start, stop
                pieces.append(piece)
        bounds = np.searchsorted([piece.start for piece in pieces], edges).astype(np.int64)
        bounds[-1] = len(pieces)
        return PackedFunction(pieces, self.columns, self.alive), bounds

    @property
    def is_separable(self) -> bool:
        """Whether every segment is a sum over coordinates."""
        return all(Kind(segment.kind).is_separable for segment in self.segments)

    @property
    def is_one_loop(self) -> bool:
        """Whether it is one formula for all coordinates, so that the rows of several agents can be one loop."""
        return len(self.segments) == 1 and self.is_separable and not self.segments[0].is_bent

    @property
    def work(self) -> int:
        """How many numbers the functions with a matrix need as scratch."""
        return max((segment.matrix.rows + segment.matrix.columns for segment in self.segments), default=0)


def pack_function(
    functions: Sequence[Function], sizes: Sequence[int], dtype: np.dtype[Any], smooth: bool, titles: Sequence[str]
) -> PackedFunction:
    """The sum of functions over consecutive blocks; `smooth` says that gradients are wanted, else proximal maps."""
    packed = PackedFunction([], {letter: np.zeros(int(sum(sizes)), dtype) for letter in "abc"})
    start = 0
    for f, size, title in zip(functions, sizes, titles, strict=True):
        forms = f.kernel(int(size)) if size else ()
        for form in (None,) if forms is None else forms:
            if form is None or not _runs((form.inner or form).kind, smooth):
                raise UnsupportedError(f"{title} is {f!r}, which has no kernel")
            _append(packed, form, start)
            start += form.size
    return packed


def _runs(kind: Kind, smooth: bool) -> bool:
    """Whether the core has a formula: gradients of functions with a matrix, proximal maps of functions of blocks."""
    return core().knows(int(kind)) and (kind.is_separable or kind.has_matrix == smooth)


def _append(packed: PackedFunction, form: KernelForm, start: int) -> None:
    """Add the segment of a form; neighbours of one elementwise kind are one loop."""
    stop, dtype = start + form.size, packed.columns["a"].dtype
    bent, form = (form, form.inner) if form.inner is not None else (None, form)
    if bent is not None:
        for name, value in _BENT.items():
            column = packed.columns.setdefault(name, np.full(len(packed.columns["a"]), value, dtype))
            column[start:stop] = bent.b if name == "base" else getattr(bent, name)
    for letter in "abc":
        packed.columns[letter][start:stop] = getattr(form, letter)
    last = packed.segments[-1] if packed.segments else None
    if last and last.kind == form.kind and form.kind.is_separable and last.is_bent == (bent is not None):
        last.stop = stop
        return
    segment = c.Segment(kind=int(form.kind), start=start, stop=stop, is_bent=bent is not None)
    if not form.kind.is_separable and not form.kind.has_matrix:
        ends = np.cumsum([0, *(group.size for group in form.groups)] if form.groups else [0, form.size], dtype=np.int64)
        members = np.concatenate(form.groups or [[]]).astype(np.int64)
        packed.alive += [ends, members]
        segment.groups, segment.ends = len(ends) - 1, ends.ctypes.data
        segment.members = members.ctypes.data if form.groups else None
    if form.kind.has_matrix:
        segment.matrix, owned = pack_matrix(form.matrix, dtype)
        vector = np.broadcast_to(np.asarray(form.vector, dtype), form.matrix.shape[0]).copy()
        packed.alive += [*owned, vector]
        segment.vector, segment.weight = vector.ctypes.data, float(form.a)
    packed.segments.append(segment)


# ------------------------------------------------------------------ matrices


def pack_matrix(A: Any, dtype: np.dtype[Any]) -> tuple[Any, list[Array]]:
    """The struct of a matrix, and the arrays that it points into: its own wherever the core can read them in place."""
    packed = c.Matrix(rows=A.shape[0], columns=A.shape[1])
    if not A.shape[1]:
        return packed, []
    if sparse.issparse(A):
        return _pack_sparse(packed, A, dtype)
    if not isinstance(A, np.ndarray):
        raise UnsupportedError(f"a matrix of type {type(A).__name__}")
    A = A.astype(dtype, copy=False)
    strides = [step // A.itemsize for step in A.strides]
    by_columns = strides[0] == 1 or A.shape[0] == 1
    by_rows = (strides[1] == 1 or A.shape[1] == 1) and not (A.shape[1] == 1 and strides[0] == 1)
    if not by_columns and (not by_rows or A.shape[1] < _SHORT_ROW):
        A = np.asfortranarray(A)
        by_columns, strides = True, [1, A.shape[0]]
    packed.form, packed.lead = (BY_COLUMNS, strides[1]) if by_columns else (BY_ROWS, strides[0])
    packed.data = A.ctypes.data
    return packed, [A]


def _pack_sparse(packed: Any, A: Any, dtype: np.dtype[Any]) -> tuple[Any, list[Array]]:
    A = sparse.csr_array(A)
    if max(A.shape) > np.iinfo(np.int32).max:
        raise UnsupportedError(f"a sparse matrix of shape {A.shape}, beyond 32-bit column numbers")
    data = np.ascontiguousarray(A.data, dtype)
    indices = np.ascontiguousarray(A.indices, np.int32)
    pointers = np.ascontiguousarray(A.indptr, np.int64)
    alive = [data, indices, pointers]
    packed.form = SPARSE
    packed.data, packed.indices, packed.pointers = (array.ctypes.data for array in alive)
    if A.nnz < _EMPTY_ROWS * A.shape[0]:
        rows = np.repeat(np.arange(A.shape[0], dtype=np.int32), np.diff(A.indptr))
        alive.append(rows)
        packed.entry_rows = rows.ctypes.data
    return packed, alive
