"""NPGA by the compiled core: all iterations of a stretch in one call, measured by the core as well.

`CompiledNpga` is the method, `CompiledMeter` measures its states and leaps over several recorded iterations at once.
`WorkOrder` says in which order the core works, in which pieces, and on how many threads: the core releases the
interpreter's lock, so that Python's own threads run it side by side. ``NPGA_THREADS`` limits their number.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._loop import Iterate, Leap, Meter
from npga.solver._packing import BY_COLUMNS, BY_ROWS, Plan
from npga.solver._recursion import Npga, State
from npga.solver._result import Record
from npga.solver._stopping import Limits, Snapshot, next_record
from npga.solver.core import structs as c
from npga.steps import Steps

Array = NDArray[Any]
T = TypeVar("T")

# Second-level caches are 1 to 2 MB. A matrix beyond half of that does not survive between its two products.
_CACHE_BYTES = 1 << 20
# Dual arrays beyond this are fetched from memory once for each neighbour, unless a panel of them is kept.
_DUAL_BYTES = 1 << 22
# Bytes that one thread moves in about 0.3 ms. With less work in an iteration, waiting for the other threads costs more
# than they save, and on a busy machine a thousand times more.
_THREAD_BYTES = 1 << 21
# The least and the most rows of a panel: long enough for the prefetcher, above all a column's piece.
_PANEL_ROWS, _COLUMN_PANEL_ROWS = (64, 1024), (256, 1024)
# The largest panel whose second reading still comes from a cache, be it the last one.
_PANEL_BYTES = 1 << 24
# As many chunks as threads, and at least so many, so that up to this many threads give the same bits.
_CHUNKS = 8
# Smaller blocks come from memory that the process has already; as many larger ones of one shape are kept for later: a
# state and its scratch have so many of a shape.
_PAGES, _SPARE = 1 << 16, 4
# A piece of work after which the number of threads is chosen again, how often the slower choice is tried again, and how
# long a choice is tried before it is judged.
_PIECE_SECONDS, _RETRY, _TRIAL_SECONDS = 0.1, 40, 0.01
# Python hears from the core this often: fast enough for Ctrl-C and a progress bar.
_LEAP_SECONDS = 0.05
# The limits that the core tests at each record, and those that no leap passes (time, by the length of a leap).
SWEPT, COUNTED = ("tol", "gap_tol", "growth", "size"), ("max_iters", "max_rounds", "max_seconds")
# The growth of lam is measured against its first iterations (see `Meter`), which are recorded one by one.
_FIRST = 10
_FINDINGS = np.dtype(c.Findings)


class CompiledNpga(Npga):
    """NPGA for all agents at once, compiled."""

    path = "compiled"

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        plan = Plan(problem, network, version, steps)
        super().__init__(problem, network, version, steps)
        self.plan = plan
        self.order = schedule_for(plan)
        self.messages = np.empty((2 if version.chebyshev == 1 else 6, problem.n * problem.p), problem.dtype)
        self.blocks = Blocks()
        self._last: State | None = None

    def meter(self, x0: Array, reference: Array | None) -> Meter[State]:
        """What measures its states, by the core."""
        return CompiledMeter(self, x0, reference)

    def advance(self, state: State, iterations: int) -> State:
        """The state `iterations` later, or the first one that is not finite."""
        if iterations <= 0:
            return state
        buffers = Buffers(state, self.messages, self.blocks)
        # The panel schedule has A^T lam of the state that it returned last.
        fresh, self._last = state is not self._last, None
        done = self.order(buffers.arrays, iterations, fresh)
        after = buffers.state(state, done, self.rounds)
        self._last = after if done == iterations else None
        return after


class Blocks:
    """Memory of arrays that nothing refers to any longer, lent again: to write into new pages takes 25 times as long.

    What is lent refers to this weakly, so that an array that outlives its method keeps its own memory and no other.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, ...], list[Array]] = {}

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array; a borrower asks for the same shapes, of one type, each time."""
        if math.prod(shape) * dtype.itemsize < _PAGES:
            return np.empty(shape, dtype)
        free = self._free.get(shape)
        block: Any = free.pop() if free else np.empty(shape, dtype)
        lent = np.asarray(memoryview(block))  # what its views refer to
        weakref.finalize(lent, Blocks._returned, weakref.ref(self), block).atexit = False
        return lent

    @staticmethod
    def _returned(lender: weakref.ref[Blocks], block: Array) -> None:
        owner = lender()
        if owner is not None and len(owner._free.setdefault(block.shape, [])) < _SPARE:
            owner._free[block.shape].append(block)


class Buffers:
    """The arrays that a stretch of iterations works in, taken from a state and given back as one."""

    def __init__(self, state: State, messages: Array, blocks: Blocks) -> None:
        x, lam = state.x.shape, state.lam.shape
        shapes = dict.fromkeys(("x", "x_new", "x_hat", "force"), x) | dict.fromkeys(("lam", "lam_prev", "u"), lam)
        shapes["v"] = (1 + len(state.kept), *lam)
        own = {name: blocks.lend(shape, state.x.dtype) for name, shape in shapes.items()}
        for name in ("x", "lam", "lam_prev", "u"):
            own[name][...] = getattr(state, name)
        for power, value in zip(own["v"], (state.v, *state.kept), strict=True):
            power[...] = value
        own |= dict(zip(("message", "reply", "rest", "rest_new", "change", "total"), messages, strict=False))
        self.arrays = c.Arrays(**own)

    def state(self, before: State, done: int, rounds: int) -> State:
        """The state after `done` iterations, in each of which x and lam trade places with their predecessors."""
        own = self.arrays.given
        x, lam, lam_prev = ("x_new", "lam_prev", "lam") if done % 2 else ("x", "lam", "lam_prev")
        dual: dict[str, Any] = {"u": own["u"], "v": own["v"][0], "kept": tuple(own["v"][1:])}
        dual |= {"iteration": before.iteration + done, "rounds": before.rounds + done * rounds}
        return State(x=own[x], lam=own[lam], lam_prev=own[lam_prev], **dual)


class CompiledMeter(Meter[State]):
    """Measures states with one call of the core; the numbers of `Meter`, up to rounding."""

    def __init__(self, method: CompiledNpga, x0: Array, reference: Array | None) -> None:
        super().__init__(method.problem, x0, reference)
        self._method = method
        self._ready: tuple[Iterate | None, Any] = (None, None)
        problem, units = method.problem, method.problem.units
        p, d, work, pieces = problem.p, problem.d, method.plan.parts.f.work, len(units.curvature)
        sizes = {"dual": 7 * p, "primal": 3 * d, "columns": 4 * max(p, d), "matrix": work}
        arrays = {name: np.empty(size, problem.dtype) for name, size in sizes.items()}
        if units.smooth:
            arrays["is_smooth"] = np.zeros(p, np.int64)
            for _, rows in units.smooth:
                arrays["is_smooth"][rows] = 1
        if reference is not None:
            arrays["reference"] = np.ascontiguousarray(reference, problem.dtype)
        self._gauge = c.Gauge(
            least_step=units.step_range[0], largest_step=units.step_range[1],
            slack=max(1e-9, 16.0 * float(np.finfo(problem.dtype).eps)), g_is_zero=problem.g.is_zero,
            h_is_indicator=problem.h.is_indicator, blocks=len(units.is_hard), pieces=pieces,
            curvature=units.curvature, counts=units.counts, squares=units.squares,
            offsets=units.offsets.astype(np.int64), bounds=units.bounds.astype(np.int64),
            is_hard=units.is_hard.astype(np.int64), agents=np.empty(5 * pieces), **arrays,
        )  # fmt: skip

    def measure(self, state: Iterate, seconds: float) -> Snapshot:
        """The snapshot of a state."""
        ready, row = self._ready
        if ready is not state:
            row = self._findings(state)
        record = self._records([state.iteration], [state.rounds], row[None])[0]
        self.yardstick.begin(float(row["energy"]))
        growth = self.yardstick.growth(state.iteration, float(row["largest"]), float(row["increment"]))
        return Snapshot(record, seconds, *growth)

    def overall(self, state: Iterate) -> float:
        """The root mean square of all relative moves."""
        return float(self._findings(state)["overall"])

    def _findings(self, state: Iterate) -> Any:
        self._gauge.energy = self.yardstick.energy
        own = {name: np.ascontiguousarray(getattr(state, name)) for name in ("x", "lam", "lam_prev")}
        table = np.zeros(1, _FINDINGS)
        self._gauge.table, self._gauge.to = table.ctypes.data, c.Stopping()
        self._method.order.sweep(c.Arrays(**own), np.zeros(1), gauge=self._gauge)
        return table[0]

    def _records(self, iterations: list[int], rounds: list[int], table: Array) -> list[Record]:
        """One record for each row of findings."""
        with np.errstate(invalid="ignore"):  # a run that overflowed: inf/inf is nan, and no news
            consensus = np.divide(table["spread"], table["size"], out=np.zeros(len(table)), where=table["size"] > 0.0)
        columns = (table["gap"] / self.yardstick.distance, table["kkt"], consensus, table["objective"])
        return [Record(*row) for row in zip(iterations, rounds, *(c.tolist() for c in columns), strict=True)]

    def leaps(self, limits: Limits, record_every: int | None) -> Leap[State] | None:
        """A function that advances over many recorded iterations at once; None where single ones are long anyway."""
        method, order = self._method, self._method.order
        tested = limits.packed((*SWEPT, *COUNTED))
        if order.name != "agents" or order.threads > 1 or tested is None:
            return None

        def leap(state: State, until: int) -> tuple[State, list[Record]]:
            points = self._points(state, limits, record_every, until)
            if len(points) == 1:
                return method.advance(state, int(points[0] - state.iteration)), []
            unit, tests = self.yardstick, dict(zip(SWEPT, tested.tolist(), strict=False))
            self._gauge.to = c.Stopping(
                **tests, distance=unit.distance, first_increment=unit.increment or 1.0, first_size=unit.size or 1.0
            )
            return self._sweep(state, order, points)

        return leap

    def _points(self, state: State, limits: Limits, every: int | None, until: int) -> Array:
        """The next recorded iterations, about as many as fit into the time of a leap."""
        rounds, seconds = self._method.rounds, self._method.order.pace.seconds
        max_iters, max_rounds = limits.max_iters, limits.max_rounds
        last = min(max_iters, until)
        if max_rounds is not None and rounds:  # a leap ends at the first record with that many rounds
            last = min(last, state.iteration - (state.rounds - max_rounds) // rounds)
        if state.iteration >= _FIRST and self.yardstick.increment > 0.0 and seconds > 0.0:
            last = min(last, state.iteration + int(_LEAP_SECONDS / seconds))
        else:
            last = state.iteration
        points = [min(next_record(state.iteration, every), max_iters)]
        while points[-1] < last:
            points.append(min(next_record(points[-1], every), max_iters))
        return np.array(points)

    def _sweep(self, state: State, order: WorkOrder, points: Array) -> tuple[State, list[Record]]:
        method = self._method
        buffers = Buffers(state, method.messages, method.blocks)
        lengths = np.diff(points, prepend=state.iteration)
        table = np.zeros(len(lengths), _FINDINGS)
        self._gauge.energy, self._gauge.table = self.yardstick.energy, table.ctypes.data
        begun = time.perf_counter()
        rows, done = order.sweep(buffers.arrays, lengths, gauge=self._gauge)
        order.pace.note(False, time.perf_counter() - begun, done)
        after = buffers.state(state, done, method.rounds)
        whole = rows > 0 and after.iteration == points[rows - 1]
        if whole:
            self._ready = (after, table[rows - 1])
        passed = points[: rows - 1 if whole else rows]
        sent = state.rounds + (passed - state.iteration) * method.rounds
        return after, self._records(passed.tolist(), sent.tolist(), table[: len(passed)])


# ------------------------------------------------------------------ schedules and threads


def schedule_for(plan: Plan) -> WorkOrder:
    """The schedule that suits the sizes of a problem and the threads that there may be."""
    low, sizes = plan.struct, plan.parts.bytes_of_A
    dual_bytes, largest, whole = low.n * low.p * plan.dtype.itemsize, int(sizes.max()), int(sizes.sum())
    work = 2 * whole + 6 * dual_bytes + plan.links * low.p * plan.dtype.itemsize // 2
    at_once = not low.kept_powers and whole > _PANEL_BYTES  # a panel reads A from the first cache the second time
    outgrown = largest > (_CACHE_BYTES // 4 if at_once else _CACHE_BYTES) or dual_bytes > _DUAL_BYTES
    by_panels = outgrown and plan.parts.h.is_separable and low.degree == 1
    return WorkOrder(plan, thread_limit() if work >= _THREAD_BYTES else 1, _panel_rows(plan) if by_panels else 0)


def thread_limit() -> int:
    """``NPGA_THREADS``, or as many threads as this process has cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, int(os.environ.get("NPGA_THREADS") or cores or 1))


def _panel_rows(plan: Plan) -> int:
    """Rows of a panel: as many as fit the second-level cache with their matrices and dual rows.

    Where a round lies between v and lam+, that is A of all agents and eight arrays, and where so few rows are not worth
    their loops the last cache; else A of one agent and the four arrays that messages are made from and added to. 0 when
    even the last cache is too small. By rows, 16 at a time waste little of a block (see `block_rows` of products.hpp).
    """
    low, sizes, dual_row = plan.struct, plan.parts.bytes_of_A, plan.struct.n * plan.dtype.itemsize
    forms = {matrix.form for matrix in plan.parts.matrices if matrix.columns}
    bytes_of_row = sizes.sum() / low.p + 8 * dual_row if low.kept_powers else sizes.max() / low.p + 4 * dual_row
    least, most = _COLUMN_PANEL_ROWS if BY_COLUMNS in forms else _PANEL_ROWS
    if low.p < 4 * least or least * bytes_of_row > _PANEL_BYTES:
        return 0
    rows, block = min(max(int(_CACHE_BYTES / bytes_of_row), least), most), 16 if BY_ROWS in forms else 8
    panels = -(-low.p // (rows * _CHUNKS)) * _CHUNKS  # the same number for every chunk
    return int(max(-(-low.p // (panels * block)) * block, least))


class WorkOrder:
    """Iterations of a plan on some threads: the agent schedule, or with `rows` the panel schedule (see schedules.hpp).

    The bits do not depend on the number of threads, so that it may change in the middle of a run: panels are dealt out
    in chunks, as many for any number of threads up to theirs.
    """

    def __init__(self, plan: Plan, threads: int, rows: int = 0) -> None:
        low, groups = plan.struct, plan.parts.groups
        self.plan, self.name = plan, "panels" if rows else "agents"
        panels = -(-low.p // rows) if rows else 0
        count = min(max(_CHUNKS, threads), panels)
        self.threads = min(threads, count or len(groups) - 1)
        self.pace, self._fresh = Pace(self.threads), True
        ends = [min(round(panels * k / count) * rows, low.p) for k in range(count + 1)] if rows else [0]
        shared = {
            "chunks": np.array(ends, np.int64),
            "pulls": np.empty((count, low.d), plan.dtype),
            "arrived": np.zeros(1, np.int64),
            "meetings": np.zeros(1, np.int64),
            "sums": np.zeros(2 * self.threads),
        }
        scratch = 3 * low.n * (rows + 8) if rows else int(np.diff(groups).max()) * low.p
        room = np.empty((self.threads, scratch + plan.parts.f.work), plan.dtype)

        def team(threads: int) -> list[Any]:
            own = [{"thread": k, "scratch": room[k], "work": room[k, scratch:]} for k in range(threads)]
            return [c.Task(threads=threads, chunk_count=count, rows=rows, **each, **shared) for each in own]

        self._teams = {False: team(1)} | ({True: team(self.threads)} if self.threads > 1 else {})

    def __call__(self, arrays: Any, iterations: int, fresh: bool) -> int:
        """Advance; returns how many iterations were run. Unless `fresh`, lam is what the last call left."""
        self._fresh = fresh
        return self.pace(lambda count, threaded: self.sweep(arrays, np.array([count]), threaded)[1], iterations)

    def sweep(self, arrays: Any, lengths: Array, threaded: bool = False, gauge: Any = None) -> tuple[int, int]:
        """Several lengths of iterations, with a row of findings after each if there is a gauge; see core.cpp."""
        team, measured = self._teams[threaded], None if gauge is None else ctypes.addressof(gauge)
        done, lengths = np.zeros(len(team), np.int64), lengths.astype(np.int64)
        copies = [arrays, *(c.Arrays.from_buffer_copy(arrays) for _ in team[1:])]
        calls = []
        for k, (task, own) in enumerate(zip(team, copies, strict=True)):
            task.fresh = self._fresh
            place = self.plan.address, ctypes.addressof(own), ctypes.addressof(task), lengths.ctypes.data, len(lengths)
            calls.append(partial(self.plan.calls["sweep"], *place, measured, done[k:].ctypes.data))
        self._fresh = False
        return int(together(calls)[0]), int(done[0])


class Pace:
    """Runs iterations on one thread or, where there are several, on whichever number has been faster.

    Threads wait for one another in every iteration. On an idle machine they pay; where other processes compete for the
    cores they can be a hundred times slower than one thread.
    """

    def __init__(self, threads: int) -> None:
        self._choices = (True, False) if threads > 1 else (False,)
        self._seconds: dict[bool, float] = {}
        self._tried = dict.fromkeys(self._choices, 0.0)
        self._pieces = 0

    @property
    def seconds(self) -> float:
        """Seconds of an iteration lately; 0 when not known yet."""
        return min(self._seconds.values(), default=0.0)

    def note(self, threaded: bool, seconds: float, iterations: int) -> None:
        """Remember how long some iterations took, short calls less than long ones, whose end may be a call of its own.

        The first call, which starts cold, only says how many to try next.
        """
        if iterations:
            self._tried[threaded] += seconds if threaded in self._seconds else 0.0
            known = self._seconds.setdefault(threaded, seconds / iterations)
            self._seconds[threaded] += min(1.0, seconds / _TRIAL_SECONDS) * (seconds / iterations - known)

    def _choose(self) -> bool:
        self._pieces += 1
        known = {
            choice: (self._tried[choice] >= _TRIAL_SECONDS, self._seconds.get(choice, 0.0)) for choice in self._choices
        }
        ranked = sorted(self._choices, key=known.__getitem__)
        return ranked[0 if self._pieces % _RETRY else -1]

    def __call__(self, run: Callable[[int, bool], int], iterations: int) -> int:
        """Call ``run(iterations, threaded)``, which returns how many were run, in pieces; returns their sum."""
        done = ran = piece = 0
        while done < iterations and ran == piece:
            threaded = self._choose()
            known = self._seconds.get(threaded, _PIECE_SECONDS)
            piece = min(iterations - done, max(1, int(_PIECE_SECONDS / max(known, 1e-9))))
            begun = time.perf_counter()
            ran = run(piece, threaded)
            self.note(threaded, time.perf_counter() - begun, ran)
            done += ran
        return done


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run all calls side by side, each on a thread; returns their results in order."""
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(len(calls), thread_name_prefix="npga") as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
