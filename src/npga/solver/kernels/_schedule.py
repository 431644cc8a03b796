"""Which schedule runs, in which pieces, and on how many threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from npga.solver.kernels import _products as form
from npga.solver.kernels._drive_agents import begin_all, combine_groups, exchange_groups, step_groups
from npga.solver.kernels._drive_panels import advance_panels, gather_and_move, panels_chunk, pull_chunk
from npga.solver.kernels._pace import Pace
from npga.solver.kernels._plan import Parts, Plan
from npga.solver.kernels._primal import Lowered
from npga.solver.kernels._sweep import sweep_agents
from npga.solver.kernels._team import together

Array = NDArray[Any]

# Second-level caches are 1 to 2 MB. A matrix beyond half of that does not survive between its two products.
_CACHE_BYTES = 1 << 20
# Dual arrays beyond this are fetched from memory once for each neighbour, unless a panel of them is kept.
_DUAL_BYTES = 1 << 22
# Bytes that one thread moves in about 0.3 ms. With less work in an iteration, waiting for the other threads costs more
# than they save, and on a busy machine a thousand times more.
_THREAD_BYTES = 1 << 21
_PANEL_ROWS = (32, 1024)
# Long enough for the prefetcher, where the rows of a panel are short pieces of columns.
_COLUMN_PANEL_ROWS = 256
# The largest panel whose second reading still comes from a cache, be it the last one.
_PANEL_BYTES = 1 << 24
# As many chunks as threads, and at least so many, so that up to this many threads give the same bits.
_CHUNKS = 8


_NOT_MEASURED = (np.zeros(7), np.zeros(0), np.zeros(9), np.zeros((0, 0)))


class Agents:
    """The agent schedule on some threads; with one, by the kernel that has none."""

    name = "agents"

    def __init__(self, plan: Plan, threads: int) -> None:
        groups = plan.parts.groups
        self._plan, self.threads = plan, min(threads, len(groups) - 1)
        self.pace = Pace(self.threads)
        self._bounds = np.linspace(0, len(groups) - 1, self.threads + 1).round().astype(np.int64)
        self._scratch = np.empty((self.threads, int(np.diff(groups).max()) * plan.lowered.p), plan.dtype)

    def __call__(self, primal: Array, dual: Array, iterations: int, fresh: bool) -> int:  # noqa: ARG002
        """Advance; returns how many iterations were run."""

        def run(count: int, threaded: bool, last: bool) -> int:
            if threaded:
                return self._side_by_side(primal, dual, count, last)
            return self.sweep(primal, dual, np.array([count]), False, *_NOT_MEASURED)[1]

        return self.pace(run, iterations)

    def sweep(
        self, primal: Array, dual: Array, lengths: Array, measured: bool, facts: Array, reference: Array, limits: Array,
        table: Array,
    ) -> tuple[int, int]:  # fmt: skip
        """See `npga.solver.kernels._sweep.sweep_agents`."""
        codes, steps = self._plan.packed
        rows, done = sweep_agents(
            codes, self._plan.plain, steps, primal, dual, self._scratch[0], lengths.astype(np.int64), measured, facts,
            reference.astype(steps.dtype, copy=False), limits, table,
        )  # fmt: skip
        return int(rows), int(done)

    def _side_by_side(self, primal: Array, dual: Array, iterations: int, last: bool) -> int:
        """The same iterations with each phase shared among threads, a range of groups for each."""
        packed, mixing = self._plan.packed, self._plan.lowered.mixing
        ranges = list(pairwise(self._bounds.tolist()))
        work = list(zip(self._scratch, ranges, strict=True))
        begin_all(*packed, dual)
        for done in range(1, iterations + 1):
            for power in range(mixing.new_powers - 1, 0, -1):
                together([partial(exchange_groups, *packed, dual, *groups, power) for groups in ranges])
                dual[[5, 6]] = dual[[6, 5]]
            pause = last and done == iterations
            calls = [partial(step_groups, *packed, primal, dual, own, *groups, pause) for own, groups in work]
            total = sum(together(calls))
            for power in range(1, mixing.kept_powers + 1):
                total = sum(together([partial(combine_groups, *packed, dual, own, *g, power) for own, g in work]))
            turn_over(primal, dual)
            if not math.isfinite(total):
                return done
        return iterations


class Panels:
    """The panel schedule on some threads; with one, by the kernel that has none."""

    name = "panels"

    def __init__(self, plan: Plan, threads: int, rows: int) -> None:
        self._plan, self.threads = plan, threads
        self.pace = Pace(threads)
        n, p, d = plan.lowered.n, plan.lowered.p, plan.lowered.d
        count = min(max(_CHUNKS, threads), -(-p // rows))
        edges = (np.linspace(0, -(-p // rows), count + 1).round() * rows).clip(max=p)
        self._chunks = np.array([(lo, hi, rows) for lo, hi in pairwise(edges)], np.int64)
        self._scratch = np.empty((threads, 3 * n * rows), plan.dtype)
        self._pulls = np.empty((count, d), plan.dtype)

    def __call__(self, primal: Array, dual: Array, iterations: int, fresh: bool) -> int:
        """Advance; returns how many iterations were run. Unless `fresh`, lam is what the last call left."""

        def run(count: int, threaded: bool, last: bool) -> int:
            nonlocal fresh
            pulled, fresh = not fresh, False
            if threaded:
                return self._side_by_side(primal, dual, count, pulled, last)
            codes, steps = self._plan.packed
            return int(
                advance_panels(
                    codes, steps, primal, dual, self._scratch, count, self._chunks, self._pulls, pulled, last
                )
            )

        return self.pace(run, iterations)

    def _side_by_side(self, primal: Array, dual: Array, iterations: int, pulled: bool, last: bool) -> int:
        """The iterations of `advance_panels` with the chunks shared among threads."""
        packed = self._plan.packed
        work = list(zip(self._chunks, self._pulls, strict=True))
        shares = [range(k, len(work), self.threads) for k in range(self.threads)]
        if not pulled:
            together([partial(_each, pull_chunk, [(*packed, dual, *work[k]) for k in share]) for share in shares])
        for done in range(1, iterations + 1):
            gather_and_move(*packed, primal, self._pulls)
            calls, pause = [], last and done == iterations
            for scratch, share in zip(self._scratch, shares, strict=True):
                rows = [(*packed, primal, dual, work[k][0], scratch, work[k][1], pause) for k in share]
                calls.append(partial(_each, panels_chunk, rows))
            total = sum(together(calls))
            turn_over(primal, dual)
            if not math.isfinite(total):
                return done
        return iterations


def _each(kernel: Callable[..., float | None], arguments: list[tuple[Any, ...]]) -> float:
    return sum(kernel(*row) or 0.0 for row in arguments)


def turn_over(primal: Array, dual: Array) -> None:
    """The new iterates become the last ones, and replies become messages."""
    primal[[0, 1]] = primal[[1, 0]]
    dual[[0, 1, 5, 6]] = dual[[1, 0, 6, 5]]


def schedule_for(plan: Plan) -> Agents | Panels:
    """The schedule that suits the sizes of a problem and the threads that Numba may use."""
    own, low = plan.parts, plan.lowered
    dual_bytes = low.n * low.p * low.size
    links = plan.link_count * low.p * low.size
    work = 2 * int(own.bytes_of_A.sum()) + 6 * dual_bytes + links // 2
    threads = numba.get_num_threads() if work >= _THREAD_BYTES else 1
    rows = _panel_rows(own, low)
    outgrown = int(own.bytes_of_A.max()) > _CACHE_BYTES or dual_bytes > _DUAL_BYTES
    if own.h.is_separable and outgrown and rows:
        return Panels(plan, threads, rows)
    return Agents(plan, threads)


def _panel_rows(own: Parts, low: Lowered) -> int:
    """Rows of a panel: as many as fit the second-level cache with their matrices and dual rows (eight arrays).

    At least so many that the rows are worth their loops, and then in the last cache; 0 when that is too small.
    """
    bytes_of_row = int(own.bytes_of_A.sum()) / low.p + 8 * low.n * low.size
    least, most = _PANEL_ROWS
    if (own.matrices[:, form.FORM] == form.BY_COLUMNS).any():
        least = _COLUMN_PANEL_ROWS
    rows = int(_CACHE_BYTES / bytes_of_row) // 8 * 8
    if low.p < 4 * least or least * bytes_of_row > _PANEL_BYTES:
        return 0
    return min(max(rows, least), most)
