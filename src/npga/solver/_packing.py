"""A problem on a network under a version and steps, packed into the structs that the compiled core reads.

What depends on the problem alone (`Parts`) is packed once and kept, as are a network's lists of neighbours, so that
another plan with other steps costs little. What has no formula in the core is named by `UnsupportedError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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
_FEW_ENTRIES = 8
# Below this many columns a row is too short for the vector units, and a matrix by rows is copied to columns.
_SHORT_ROW = 16
BY_COLUMNS, BY_ROWS, SPARSE = range(3)


class UnsupportedError(Exception):
    """What the compiled core cannot run, or why there is none; the message names it."""


def _packed(title: str, pack: Callable[..., Any], *given: Any) -> Any:
    """What `pack` makes of what is given; where it refuses, its owner is named."""
    try:
        return pack(*given)
    except UnsupportedError as culprit:
        raise UnsupportedError(f"{title} is {culprit}, which has no kernel") from None


def core() -> Core:
    """The compiled core of this machine."""
    found = find_core()
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


class Plan:
    """A problem on a network under a version and steps; `UnsupportedError` says what has no kernel."""

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        if not network.is_steady:
            raise UnsupportedError(f"a {network.kind} has no kernel")
        self.dtype, self.parts, self.links = problem.dtype, parts(problem), 2 * len(network.edges)
        self.calls = {name: call for (name, size), call in core().calls.items() if size == problem.dtype.itemsize}
        own, (n, p, d), dtype = self.parts, (problem.n, problem.p, problem.d), self.dtype
        (b, c_powers, d_powers), (r, s) = _polynomials(version, steps, dtype)
        recursion = np.array(version.polynomial(network).recursion if version.chebyshev > 1 else [(0, 0)], dtype)
        begins, neighbours, links = network.neighbor_lists
        copies = n if p < _SHORT and n * p <= _TILE and own.h.is_one_loop else 1
        self.struct = c.Plan(
            n=n, p=p, d=d, beta=steps.beta, theta=steps.theta,
            alpha=np.repeat(np.array(steps.per_agent(n), dtype), np.diff(own.offsets)),
            matrices=ctypes.addressof(own.matrices), offsets=own.offsets,
            f=own.f.struct(), g=own.g.struct(), h=own.h.struct(copies), groups=own.groups,
            group_count=len(own.groups) - 1, links=begins, neighbours=neighbours,
            weights=version.edge_weights(network)[links].astype(dtype),
            b=b, c=c_powers, d_powers=d_powers, new_powers=r, kept_powers=s,
            degree=version.chebyshev, carry=recursion[:, 0].copy(), scale=recursion[:, 1].copy(),
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
    padded = np.zeros((3, max(schedule.rounds + 1, *(len(row) for row in polynomials))), dtype)
    for row, polynomial in zip(padded, polynomials, strict=True):
        row[: len(polynomial)] = polynomial
    padded[0] *= dtype.type(steps.gamma)
    return padded, (schedule.rounds - schedule.kept_size, schedule.kept_size)


# ------------------------------------------------------------------ the problem


class Parts:
    """What the core knows of a problem, whatever the network."""

    def __init__(self, problem: Problem) -> None:
        dtype, agents = problem.dtype, enumerate(problem.agents)
        self.packed = [_packed(f"A of {problem.title(i)}", pack_matrix, agent.A, dtype) for i, agent in agents]
        self.matrices = (c.Matrix * problem.n)(*self.packed)
        sizes = [sum(getattr(field, "nbytes", 0) for field in matrix.given.values()) for matrix in self.packed]
        self.bytes_of_A = np.array(sizes, np.int64)
        self.groups = _cut(self.bytes_of_A + 6 * problem.p * dtype.itemsize)
        self.offsets = np.ascontiguousarray(problem.A.offsets, np.int64)
        self.f, self.g = _joined(problem, "f", smooth=True), _joined(problem, "g", smooth=False)
        self.h = _packed("h", PackedFunction, problem.h, problem.p, dtype, False)


_PARTS: WeakKeyDictionary[Problem, Parts | str] = WeakKeyDictionary()


def parts(problem: Problem) -> Parts:
    """Pack a problem, once; raise `UnsupportedError` with the name of the part that cannot be."""
    if core() and problem not in _PARTS:
        try:
            _PARTS[problem] = Parts(problem)
        except UnsupportedError as culprit:
            _PARTS[problem] = str(culprit)
    found = _PARTS[problem]
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


def _joined(problem: Problem, role: str, smooth: bool) -> PackedFunction:
    """The sum over agents in one go; only a failure looks at the agents one by one, to name the culprit."""
    try:
        return PackedFunction(getattr(problem, role), problem.d, problem.dtype, smooth)
    except UnsupportedError:
        for i, agent in enumerate(problem.agents):
            own = getattr(agent, role), int(problem.sizes[i]), problem.dtype, smooth
            _packed(f"{role} of {problem.title(i)}", PackedFunction, *own)
        raise


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


class PackedFunction:
    """The segments of one function, and its parameters for each coordinate.

    `smooth` says that gradients are wanted, else proximal maps.
    """

    def __init__(self, f: Function, size: int, dtype: np.dtype[Any], smooth: bool) -> None:
        self._segments: list[Any] = []
        self._columns = {letter: np.zeros(size, dtype) for letter in "abc"}
        forms, stop = f.kernel(size) if size else (), 0
        for form in forms if forms is not None else (None,):
            if form is None or not _runs((form.inner or form).kind, smooth):
                raise UnsupportedError(repr(f))
            if form.size:
                self._append(form, stop, stop + form.size)
            stop += form.size
        self._table = (c.Segment * len(self._segments))(*self._segments)
        self._own = c.Columns(**{letter: self._columns[letter] for letter in "abc"})

    def _append(self, form: KernelForm, start: int, stop: int) -> None:
        """Add the segment of a form; neighbours of one elementwise kind are one loop."""
        columns, bent = self._columns, form.inner is not None
        if form.inner is not None:
            for name, value in _BENT.items():
                column = columns.setdefault(name, np.full_like(columns["a"], value))
                column[start:stop] = form.b if name == "base" else getattr(form, name)
            form = form.inner
        for letter in "abc":
            columns[letter][start:stop] = getattr(form, letter)
        last = self._segments[-1] if self._segments else None
        if last and form.kind.is_separable and (last.kind, last.is_bent) == (form.kind, bent):
            last.stop = stop
            return
        fields: dict[str, Any] = {"kind": int(form.kind), "start": start, "stop": stop, "is_bent": bent}
        if form.kind.has_matrix:
            sign = -1.0 if form.kind == Kind.LEAST_SQUARES else 1.0  # M r + v in either kind
            vector = np.full(form.matrix.shape[0], sign * form.vector, columns["a"].dtype)
            fields |= {"matrix": pack_matrix(form.matrix, vector.dtype), "vector": vector, "weight": float(form.a)}
        elif not form.kind.is_separable:  # one group of all coordinates, unless it says otherwise
            sizes = [group.size for group in form.groups] or [form.size]
            fields |= {"groups": len(sizes), "ends": np.cumsum([0, *sizes], dtype=np.int64)}
            fields["members"] = np.concatenate(form.groups).astype(np.int64) if form.groups else None
        self._segments.append(c.Segment(**fields))

    def struct(self, copies: int = 1) -> Any:
        """The struct, valid as long as this object is alive, with room for what proximal maps read."""
        bent = {name: column for name, column in self._columns.items() if name in _BENT}
        room = np.empty((4, copies * len(self._columns["a"])), self._columns["a"].dtype)
        ready = c.Columns(**dict(zip("abct", room, strict=True)))
        places = {"count": len(self._table), "segments": ctypes.addressof(self._table)}
        return c.Function(own=self._own, ready=ready, copies=copies, **places, **bent)

    @property
    def is_separable(self) -> bool:
        """Whether every segment is a sum over coordinates."""
        return all(Kind(segment.kind).is_separable for segment in self._table)

    @property
    def is_one_loop(self) -> bool:
        """Whether it is one formula for all coordinates, so that the rows of several agents can be one loop."""
        return len(self._table) == 1 and self.is_separable and not self._table[0].is_bent

    @property
    def work(self) -> int:
        """How many numbers the functions with a matrix need as scratch."""
        return max((segment.matrix.rows + segment.matrix.columns for segment in self._table), default=0)


def _runs(kind: Kind, smooth: bool) -> bool:
    """Whether the core has a formula: gradients of functions with a matrix, proximal maps of functions of blocks."""
    return core().knows(int(kind)) and (kind.is_separable or kind.has_matrix == smooth)


# ------------------------------------------------------------------ matrices


def pack_matrix(A: Any, dtype: np.dtype[Any]) -> Any:
    """The struct of a matrix, with its own arrays wherever the core can read them in place."""
    shape = {"rows": A.shape[0], "columns": A.shape[1]}
    if sparse.issparse(A):
        return c.Matrix(form=SPARSE, **shape, **_sparse_arrays(A, dtype))
    if not isinstance(A, np.ndarray):
        raise UnsupportedError(f"a matrix of type {type(A).__name__}")
    A = A.astype(dtype, copy=False)
    if A.shape[0] > 1 and A.strides[0] != A.itemsize:
        if A.strides[1] == A.itemsize and A.shape[1] >= _SHORT_ROW:
            return c.Matrix(form=BY_ROWS, data=A, lead=A.strides[0] // A.itemsize, **shape)
        A = np.asfortranarray(A)
    return c.Matrix(form=BY_COLUMNS, data=A, lead=A.strides[1] // A.itemsize, **shape)


def _sparse_arrays(A: Any, dtype: np.dtype[Any]) -> dict[str, Array]:
    A = sparse.csr_array(A)
    if max(A.shape) > np.iinfo(np.int32).max:
        raise UnsupportedError(f"a sparse matrix of shape {A.shape}, beyond 32-bit column numbers")
    arrays = {"data": np.ascontiguousarray(A.data, dtype), "indices": np.ascontiguousarray(A.indices, np.int32)}
    arrays["pointers"] = np.ascontiguousarray(A.indptr, np.int64)
    if A.nnz < _FEW_ENTRIES * A.shape[0]:
        arrays["entry_rows"] = np.repeat(np.arange(A.shape[0], dtype=np.int32), np.diff(A.indptr))
    return arrays
