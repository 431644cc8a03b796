"""A problem on a network under a version, lowered once and cut into pieces that fit the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from npga.errors import VersionError
from npga.networks import KernelPolynomials, Network, Version
from npga.problem import Problem
from npga.solver.kernels._elementwise import prepare_conj_prox, prepare_prox
from npga.solver.kernels._lower import LoweredFunction, UnsupportedError, lower_function, lower_matrix
from npga.solver.kernels._mixing import Links, Mixing
from npga.solver.kernels._primal import Lowered, pack
from npga.steps import Steps

Array = NDArray[Any]
# A group of agents shares this much of the second-level cache: matrices, and about six dual rows each.
_GROUP_BYTES = 1 << 19
# Rows shorter than this are joined, up to so many numbers, for a prox of h* without loops of a few steps.
_SHORT, _TILE = 64, 4096


@dataclass(frozen=True)
class Parts:
    """What kernels know of a problem, whatever the network; `alive` owns the memory that the tables point into."""

    matrices: Array
    f: LoweredFunction
    g: LoweredFunction
    h: LoweredFunction
    groups: Array
    f_bounds: Array
    g_bounds: Array
    bytes_of_A: Array
    alive: list[Any]


_PARTS: WeakKeyDictionary[Problem, Parts | str] = WeakKeyDictionary()


def parts(problem: Problem) -> Parts:
    """Lower a problem, once; raise `UnsupportedError` with the name of the part that cannot be."""
    if problem not in _PARTS:
        try:
            _PARTS[problem] = _lower(problem)
        except UnsupportedError as culprit:
            _PARTS[problem] = str(culprit)
    found = _PARTS[problem]
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


def _lower(problem: Problem) -> Parts:
    rows, alive = [], []
    for i, agent in enumerate(problem.agents):
        try:
            row, owned = lower_matrix(agent.A, problem.dtype)
        except UnsupportedError as culprit:
            raise UnsupportedError(f"A of {_title(problem, i)} is {culprit}") from None
        rows.append(row)
        alive.append(owned)
    bytes_of_A = np.array([sum(array.nbytes for array in owned) for owned in alive], np.int64)
    h = lower_function([problem.h], [problem.p], problem.dtype, False, lambda _: "h")
    groups = _cut(bytes_of_A + 6 * problem.p * problem.dtype.itemsize)
    edges = problem.A.offsets[groups]
    f, f_bounds = _joined(problem, "f", smooth=True).cut(edges)
    g, g_bounds = _joined(problem, "g", smooth=False).cut(edges)
    return Parts(np.array(rows, np.int64), f, g, h, groups, f_bounds, g_bounds, bytes_of_A, alive)


def _title(problem: Problem, i: int) -> str:
    name = problem.agents[i].name
    return f"agent {i}" if name is None else f"agent {i} ({name})"


def _joined(problem: Problem, role: str, smooth: bool) -> LoweredFunction:
    """The sum over agents in one go; only a failure looks at the agents one by one, to name the culprit."""
    whole = getattr(problem, role)
    try:
        return lower_function([whole], [problem.d], problem.dtype, smooth, lambda _: role)
    except UnsupportedError:
        own = [getattr(agent, role) for agent in problem.agents]
        sizes = problem.sizes.tolist()
        return lower_function(own, sizes, problem.dtype, smooth, lambda i: f"{role} of {_title(problem, i)}")


def _cut(sizes: Array) -> Array:
    """Boundaries of groups of consecutive agents that together stay below the limit (or are single)."""
    bounds, filled = [0], 0
    for i, size in enumerate(sizes.tolist()):
        if filled and filled + size > _GROUP_BYTES:
            bounds.append(i)
            filled = 0
        filled += size
    return np.array([*bounds, len(sizes)], np.int64)


class Plan:
    """A problem on a network under a version and steps; `lowered` is what kernels get.

    Parameters
    ----------
    problem, network, version, steps
        What runs. `UnsupportedError` says what has no kernel.
    rounds
        Rounds (r, s), where they shall be more than those of the version.
    """

    def __init__(
        self,
        problem: Problem,
        network: Network,
        version: Version,
        steps: Steps,
        rounds: tuple[int, int] | None = None,
    ) -> None:
        if isinstance(steps.alpha, tuple):
            raise UnsupportedError("an alpha for each agent arrived")
        self._coefficients, own_rounds = _padded(version, steps, problem.dtype)
        rounds = own_rounds if rounds is None else rounds
        self.parts = own = parts(problem)
        self._lists = _neighbour_lists(network, version.edge_weights(network), problem.dtype)
        self.dtype, self.link_count = problem.dtype, 2 * len(network.edges)
        self._offsets = np.ascontiguousarray(problem.A.offsets, np.int64)
        kind = problem.dtype.type
        self._g = own.g.prepared(prepare_prox, steps.alpha)
        self._h = own.h.prepared(prepare_conj_prox, steps.beta / problem.n)
        tiled = (
            len(self._h.segments) == 1
            and self._h.is_separable
            and problem.p < _SHORT
            and problem.n * problem.p <= _TILE
        )
        if tiled:
            self._h = self._h.repeated(problem.n)
        b, c, d = (int(row.ctypes.data) for row in self._coefficients)
        self.lowered = Lowered(
            n=problem.n,
            p=problem.p,
            d=problem.d,
            size=problem.dtype.itemsize,
            alpha=kind(steps.alpha),
            beta=kind(steps.beta),
            theta=kind(steps.theta),
            t=kind(steps.beta / problem.n),
            matrices=own.matrices.ctypes.data,
            offsets=self._offsets.ctypes.data,
            f=own.f.table(),
            g=self._g.table(),
            h=self._h.table(),
            tiled=int(tiled),
            groups=own.groups.ctypes.data,
            group_count=len(own.groups) - 1,
            f_bounds=own.f_bounds.ctypes.data,
            g_bounds=own.g_bounds.ctypes.data,
            links=Links(*(array.ctypes.data for array in self._lists)),
            mixing=Mixing(b, c, d, new_powers=rounds[0], kept_powers=rounds[1]),
        )
        codes, numbers = pack(self.lowered)
        self.packed = codes, numbers.astype(problem.dtype)
        # The functions as they are, for measurements, whose proximal steps are others.
        self.plain, _ = pack(self.lowered._replace(g=own.g.table(), h=own.h.table(), tiled=0))


def _neighbour_lists(network: Network, weights: Array, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Row pointers, sorted neighbours and their weights."""
    i, j = network.edges.T
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    order = np.lexsort((columns, rows))
    pointers = np.searchsorted(rows[order], np.arange(network.n + 1)).astype(np.int64)
    return pointers, columns[order].astype(np.int64), np.concatenate([weights, weights])[order].astype(dtype)


def coefficients(version: Version, steps: Steps) -> KernelPolynomials:
    """B^2, C and D in powers of K; explicit matrices have none."""
    try:
        return version.kernel_polynomials(steps.beta)
    except VersionError:
        raise UnsupportedError(f"version {version.name!r} is given by explicit matrices") from None


def _padded(version: Version, steps: Steps, dtype: np.dtype[Any]) -> tuple[Array, tuple[int, int]]:
    """Coefficients of gamma b, c and d in powers of K, padded to one length, and the rounds (r, s)."""
    polynomials = coefficients(version, steps)
    schedule = version.schedule(steps.beta)
    r, s = schedule.rounds - schedule.kept_size, schedule.kept_size
    padded = np.zeros((3, max(r + s + 1, *(len(row) for row in polynomials))), dtype)
    for row, polynomial in zip(padded, polynomials, strict=True):
        row[: len(polynomial)] = polynomial
    padded[0] *= dtype.type(steps.gamma)
    return padded, (r, s)
