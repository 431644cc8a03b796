"""In which order the work of an iteration is done, in which pieces, and on how many threads.

The core releases the interpreter's lock, so that Python's own threads run its pieces side by side. They sleep while
they wait, which keeps a busy machine usable, and they may be used from any thread and after a fork. One round takes
some 50 microseconds. ``NPGA_THREADS`` limits their number.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from npga.solver import _core as c
from npga.solver._packing import BY_COLUMNS, BY_ROWS, Plan

Array = NDArray[Any]
T = TypeVar("T")

# Second-level caches are 1 to 2 MB. A matrix beyond half of that does not survive between its two products.
_CACHE_BYTES = 1 << 20
# Dual arrays beyond this are fetched from memory once for each neighbour, unless a panel of them is kept.
_DUAL_BYTES = 1 << 22
# Bytes that one thread moves in about 0.3 ms. With less work in an iteration, waiting for the other threads costs more
# than they save, and on a busy machine a thousand times more.
_THREAD_BYTES = 1 << 21
_PANEL_ROWS = (32, 1024)
# Long enough for the prefetcher: a column's piece of a panel, and the bytes of an agent's rows in one.
_COLUMN_PANEL_ROWS, _ROW_PANEL_BYTES = 256, 1 << 15
# The largest panel whose second reading still comes from a cache, be it the last one.
_PANEL_BYTES = 1 << 24
# As many chunks as threads, and at least so many, so that up to this many threads give the same bits.
_CHUNKS = 8
# A piece of work after which the number of threads is chosen again, and how often the slower choice is tried again.
_PIECE_SECONDS, _RETRY = 0.1, 40


def schedule_for(plan: Plan) -> Schedule:
    """The schedule that suits the sizes of a problem and the threads that there may be."""
    own, low = plan.parts, plan.struct
    dual_bytes = low.n * low.p * plan.dtype.itemsize
    work = 2 * int(own.bytes_of_A.sum()) + 6 * dual_bytes + plan.links * low.p * plan.dtype.itemsize // 2
    threads = thread_limit() if work >= _THREAD_BYTES else 1
    rows = _panel_rows(plan)
    outgrown = int(own.bytes_of_A.max()) > _CACHE_BYTES or dual_bytes > _DUAL_BYTES
    if own.h.is_separable and outgrown and rows and low.degree == 1:
        return Panels(plan, threads, rows)
    return Agents(plan, threads)


def thread_limit() -> int:
    """``NPGA_THREADS``, or as many threads as this process has cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, int(os.environ.get("NPGA_THREADS") or cores or 1))


def _panel_rows(plan: Plan) -> int:
    """Rows of a panel: as many as fit the second-level cache with their matrices and dual rows (eight arrays).

    At least so many that the rows are worth their loops, and then in the last cache; 0 when that is too small.
    """
    low = plan.struct
    bytes_of_row = int(plan.parts.bytes_of_A.sum()) / low.p + 8 * low.n * plan.dtype.itemsize
    least, most = _PANEL_ROWS
    forms = {matrix.form for matrix in plan.parts.matrices}
    if BY_COLUMNS in forms:
        least = _COLUMN_PANEL_ROWS
    elif BY_ROWS in forms:
        own = int(plan.parts.bytes_of_A.max()) // low.p
        least = max(least, min(_ROW_PANEL_BYTES // own // 8 * 8, low.p // 4))
    rows = int(_CACHE_BYTES / bytes_of_row) // 8 * 8
    if low.p < 4 * least or least * bytes_of_row > _PANEL_BYTES:
        return 0
    return min(max(rows, least), most)


class Schedule:
    """Iterations of a plan on some threads; `pieces` are groups or chunks, of which each thread gets a run.

    The bits do not depend on the number of threads, so that it may change in the middle of a run.
    """

    name: str

    def __init__(self, plan: Plan, threads: int, pieces: int, scratch: int, **shared: int) -> None:
        self.plan, self.threads = plan, min(threads, pieces)
        self.pace = Pace(self.threads)
        self.pieces = pieces
        self._scratch = np.empty((self.threads, scratch), plan.dtype)
        self._work = np.empty((self.threads, plan.parts.f.work), plan.dtype)
        bounds = np.linspace(0, pieces, self.threads + 1).round().astype(int).tolist()
        self.shares = [self._task(k, *bounds, **shared) for k, bounds in enumerate(pairwise(bounds))]
        self.whole = self._task(0, 0, pieces, **shared)

    def _task(self, thread: int, first: int, last: int, **shared: int) -> c.Task:
        scratch, work = self._scratch[thread].ctypes.data, self._work[thread].ctypes.data
        return c.Task(first=first, last=last, scratch=scratch, work=work, **shared)

    def run(self, phase: str, arrays: c.Arrays, tasks: Sequence[c.Task], power: int = 0, pause: bool = False) -> float:
        """A phase of an iteration, one task on each thread; returns the sum of their answers."""
        function = self.plan.core(phase, self.plan.dtype)
        for task in tasks:
            task.power, task.pause = power, pause
        place = self.plan.address, ctypes.addressof(arrays)
        return float(sum(together([partial(function, *place, ctypes.addressof(task)) for task in tasks])))

    def __call__(self, arrays: c.Arrays, iterations: int, fresh: bool) -> int:
        """Advance; returns how many iterations were run. Unless `fresh`, lam is what the last call left."""
        raise NotImplementedError


class Agents(Schedule):
    """The agent schedule: group after group of agents that fit the cache together."""

    name = "agents"

    def __init__(self, plan: Plan, threads: int) -> None:
        groups = plan.parts.groups
        super().__init__(plan, threads, len(groups) - 1, int(np.diff(groups).max()) * plan.struct.p)

    def __call__(self, arrays: c.Arrays, iterations: int, fresh: bool) -> int:  # noqa: ARG002
        """Advance; returns how many iterations were run."""

        def run(count: int, threaded: bool, last: bool) -> int:
            return self._side_by_side(arrays, count, last) if threaded else self.sweep(arrays, np.array([count]))[1]

        return self.pace(run, iterations)

    def sweep(
        self, arrays: c.Arrays, lengths: Array, gauge: c.Gauge | None = None, stopping: c.Stopping | None = None,
        table: Array | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Several lengths of iterations on one thread with a row of findings after each; see `sweep` in core.cpp."""
        done, lengths = ctypes.c_int64(), lengths.astype(np.int64)
        place = (self.plan.address, ctypes.addressof(arrays), ctypes.addressof(self.whole))
        measured = (None if struct is None else ctypes.addressof(struct) for struct in (gauge, stopping))
        rows = self.plan.core("sweep", self.plan.dtype)(
            *place, lengths.ctypes.data, len(lengths), *measured,
            None if table is None else table.ctypes.data, ctypes.addressof(done),
        )  # fmt: skip
        return int(rows), done.value

    def _side_by_side(self, arrays: c.Arrays, iterations: int, last: bool) -> int:
        """The same iterations with each phase shared among threads."""
        low = self.plan.struct
        self.run("begin", arrays, self.shares)
        for done in range(1, iterations + 1):
            for power in range(low.new_powers - 1, 0, -1):
                self._deepen(arrays, arrays.message)
                self.run("exchange", arrays, self.shares, power)
                arrays.trade("message", "reply")
            if low.new_powers:
                self._deepen(arrays, arrays.message)
            total = self.run("step", arrays, self.shares, pause=last and done == iterations)
            for power in range(1, low.kept_powers + 1):
                row = low.n * low.p * self.plan.dtype.itemsize
                self._deepen(arrays, arrays.v if power == 1 else arrays.kept + (power - 2) * row)
                total = self.run("combine", arrays, self.shares, power)
            arrays.turn()
            if not math.isfinite(total):
                return done
        return iterations

    def _deepen(self, arrays: c.Arrays, source: int) -> None:
        """All rounds but the last of a Chebyshev polynomial of K, applied to the array at an address."""
        arrays.source = source
        for number in range(self.plan.struct.degree - 1):
            self.run("deepen", arrays, self.shares, number)
            arrays.trade("rest", "rest_new")


class Panels(Schedule):
    """The panel schedule: all agents together, a panel of rows at a time, in chunks of panels.

    Their number does not depend on the threads (up to that number), and their parts of A^T lam are added in order.
    """

    name = "panels"

    def __init__(self, plan: Plan, threads: int, rows: int) -> None:
        low = plan.struct
        panels = -(-low.p // rows)
        count = min(max(_CHUNKS, threads), panels)
        edges = (np.linspace(0, panels, count + 1).round() * rows).clip(max=low.p).astype(int).tolist()
        self._chunks = (c.Chunk * count)(*((lo, hi, rows) for lo, hi in pairwise(edges)))
        self._pulls = np.empty((count, low.d), plan.dtype)
        shared = {"chunks": ctypes.addressof(self._chunks), "pulls": self._pulls.ctypes.data}
        super().__init__(plan, threads, count, 3 * low.n * rows, **shared)

    def __call__(self, arrays: c.Arrays, iterations: int, fresh: bool) -> int:
        """Advance; returns how many iterations were run. Unless `fresh`, lam is what the last call left."""
        if fresh:
            self.run("pull", arrays, self.shares)

        def run(count: int, threaded: bool, last: bool) -> int:
            tasks = self.shares if threaded else [self.whole]
            for done in range(1, count + 1):
                self.run("move", arrays, [self.whole])
                total = self.run("dual", arrays, tasks, pause=last and done == count)
                arrays.turn()
                if not math.isfinite(total):
                    return done
            return count

        return self.pace(run, iterations)


class Pace:
    """Runs iterations on one thread or on several, whichever has been faster.

    Threads wait for one another in every iteration. On an idle machine they pay; where other processes compete for the
    cores they can be a hundred times slower than one thread.

    Parameters
    ----------
    threads
        How many threads there are; with one there is nothing to choose.
    """

    def __init__(self, threads: int) -> None:
        self._choices = (True, False) if threads > 1 else (False,)
        self._seconds: dict[bool, float] = {}
        self._warm: set[bool] = set()
        self._pieces = 0

    @property
    def seconds(self) -> float:
        """Seconds of an iteration lately; 0 when not known yet."""
        return min(self._seconds.values(), default=0.0)

    def note(self, threaded: bool, seconds: float, iterations: int) -> None:
        """Remember how long some iterations took; not the first call, which finds nothing in a cache."""
        if threaded in self._warm and iterations:
            self._seconds[threaded] = seconds / iterations
        self._warm.add(threaded)

    def _choose(self) -> bool:
        for choice in self._choices:
            if choice not in self._seconds:
                return choice
        self._pieces += 1
        faster = min(self._choices, key=lambda choice: self._seconds[choice])
        return faster if self._pieces % _RETRY or len(self._choices) == 1 else not faster

    def __call__(self, run: Callable[[int, bool, bool], int], iterations: int) -> int:
        """Call ``run(iterations, threaded, last)``, which returns how many were run, in pieces; returns their sum."""
        done = 0
        while done < iterations:
            threaded = self._choose()
            known = self._seconds.get(threaded)
            piece = 1 if known is None else max(1, int(_PIECE_SECONDS / max(known, 1e-9)))
            piece = min(piece if len(self._choices) > 1 else iterations, iterations - done)
            begun = time.perf_counter()
            ran = run(piece, threaded, done + piece == iterations)
            self.note(threaded, time.perf_counter() - begun, ran)
            done += ran
            if ran < piece:
                break
        return done


_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run all calls, the first one on this thread; returns their results in order."""
    global _pool
    if _pool is None and len(calls) > 1:
        _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="npga")
    others = [_pool.submit(call) for call in calls[1:]] if _pool else []
    first = calls[0]()
    return [first, *(future.result() for future in others)]
