"""Measurements by kernels, and leaps over several recorded iterations at once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.problem import Problem
from npga.solver._compiled import Buffers, CompiledNpga
from npga.solver._loop import Iterate, Leap, Meter
from npga.solver._recursion import State
from npga.solver._result import Record
from npga.solver._stopping import Limits, Snapshot, next_record
from npga.solver.kernels import _measure as found
from npga.solver.kernels import _sweep as sweep
from npga.solver.kernels._schedule import Agents

Array = NDArray[Any]
# Python hears from the kernel this often: fast enough for Ctrl-C and a progress bar.
_LEAP_SECONDS = 0.05
# The limits that the sweep tests at each record, and those that no leap passes (time, by the length of a leap).
SWEPT, COUNTED = ("tol", "gap_tol", "growth", "size"), ("max_iters", "max_rounds", "max_seconds")
# The growth of lam is measured against its first iterations (see `Meter`), which are recorded one by one.
_FIRST = 10
_RESIDUALS, _SCALES = (found.RESIDUAL_X, found.RESIDUAL_Z), (found.SCALE_X, found.SCALE_Z)


def _divide(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    """The quotient where the denominator is positive."""
    return np.divide(numerator, denominator, out=otherwise.copy(), where=denominator > 0.0)


def measuring_facts(problem: Problem, reference: Array | None) -> Array:
    """What the kernel must know beside the problem's tables."""
    curvature = problem.curvature
    facts = np.zeros(7)
    facts[found.CURVED] = curvature > 0.0
    facts[found.STEP_X] = 1.0 / curvature if curvature else 0.0
    facts[found.STEP_Z] = problem.sigma**2 / curvature if curvature else 0.0
    facts[found.G_IS_ZERO], facts[found.H_IS_INDICATOR] = problem.g.is_zero, problem.h.is_indicator
    facts[found.SLACK] = max(1e-9, 16.0 * float(np.finfo(problem.dtype).eps))
    facts[found.HAS_REFERENCE] = reference is not None
    return facts


class CompiledMeter(Meter[State]):
    """Measures states with one compiled call; the numbers of `Meter`, up to rounding."""

    def __init__(self, method: CompiledNpga, x0: Array, reference: Array | None) -> None:
        super().__init__(method.problem, x0, reference)
        self._facts = measuring_facts(method.problem, reference)
        self._target = np.zeros(0, method.problem.dtype) if reference is None else np.ascontiguousarray(reference)
        self._method = method
        self._ready: tuple[Iterate | None, Array] = (None, np.zeros(found.FINDINGS))

    def measure(self, state: Iterate, seconds: float) -> Snapshot:
        """The snapshot of a state."""
        ready, row = self._ready
        if ready is not state:
            row = self._findings(state)
        return self._snapshot(state.iteration, state.rounds, row, seconds)

    def _findings(self, state: Iterate) -> Array:
        x, *duals = map(np.ascontiguousarray, (state.x, state.lam, state.lam_prev, state.Ax))
        primal, dual = np.zeros(4, np.int64), np.zeros(8, np.int64)
        primal[0] = x.ctypes.data
        dual[[0, 1, 7]] = [array.ctypes.data for array in duals]
        table, plan = np.zeros((1, found.FINDINGS)), self._method.plan
        measure_only = (np.zeros(0, x.dtype), np.zeros(1, np.int64), True)
        codes, steps = plan.packed
        sweep.sweep_agents(
            codes, plan.plain, steps, primal, dual, *measure_only, self._facts, self._target, np.ones(9), table
        )
        return np.asarray(table[0])

    def _snapshot(self, iteration: int, rounds: int, row: Array, seconds: float) -> Snapshot:
        record = self._records([iteration], [rounds], row[None])[0]
        self.yardstick.begin(float(row[found.RESIDUAL_X]), float(row[found.RESIDUAL_Z]))
        growth = self.yardstick.growth(iteration, float(row[found.LARGEST]), float(row[found.INCREMENT]))
        return Snapshot(record, seconds, *growth)

    def _records(self, iterations: list[int], rounds: list[int], table: Array) -> list[Record]:
        """One record for each row of findings."""
        unit = self.yardstick
        x, z = (
            _divide(table[:, size], np.maximum(table[:, scale], least), table[:, size])
            for size, scale, least in zip(_RESIDUALS, _SCALES, (unit.floor_x, unit.floor_z), strict=True)
        )
        consensus = _divide(table[:, found.SPREAD], table[:, found.SIZE], np.zeros(len(table)))
        gap = table[:, found.GAP] / unit.distance
        columns = (gap, np.maximum(x, z), consensus, table[:, found.OBJECTIVE])
        return [Record(*row) for row in zip(iterations, rounds, *(c.tolist() for c in columns), strict=True)]

    def leaps(self, limits: Limits, record_every: int | None) -> Leap[State] | None:
        """A function that advances over many recorded iterations at once; None where single ones are long anyway."""
        method, order = self._method, self._method.order
        tested = limits.packed((*SWEPT, *COUNTED))
        if not isinstance(order, Agents) or order.threads > 1 or tested is None:
            return None

        def leap(state: State) -> tuple[State, list[Record]]:
            points = self._points(state, limits, record_every)
            if len(points) == 1:
                return method.advance(state, int(points[0] - state.iteration)), []
            tol, gap_tol, growth, size = tested[: len(SWEPT)]
            unit = self.yardstick
            measured = (unit.floor_x, unit.floor_z, unit.distance, unit.increment or 1.0, unit.size or 1.0)
            return self._sweep(state, order, points, np.array([tol, gap_tol, *measured, growth, size]))

        return leap

    def _points(self, state: State, limits: Limits, every: int | None) -> Array:
        """The next recorded iterations, about as many as fit into the time of a leap."""
        rounds, seconds = self._method.schedule.rounds, self._method.order.pace.seconds
        max_iters, max_rounds = limits.max_iters, limits.max_rounds
        last = max_iters
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

    def _sweep(self, state: State, order: Agents, points: Array, limits: Array) -> tuple[State, list[Record]]:
        buffers = Buffers(state, self._method.messages)
        lengths = np.diff(points, prepend=state.iteration)
        table = np.zeros((len(lengths), found.FINDINGS))
        facts, target = self._facts, self._target
        begun = time.perf_counter()
        rows, done = order.sweep(*buffers.addresses(), lengths, True, facts, target, limits, table)
        order.pace.note(False, time.perf_counter() - begun, done)
        rounds = self._method.schedule.rounds
        after = buffers.state(state, done, rounds)
        whole = rows > 0 and after.iteration == points[rows - 1]
        if whole:
            self._ready = (after, table[rows - 1])
        else:  # stopped between two records
            with np.errstate(over="ignore", invalid="ignore"):
                after = replace(after, Ax=self.problem.A.apply(after.x))
        passed = points[: rows - 1 if whole else rows]
        sent = state.rounds + (passed - state.iteration) * rounds
        return after, self._records(passed.tolist(), sent.tolist(), table[: len(passed)])
