"""NPGA by the compiled core: all iterations of a stretch in one call, measured by the core as well.

`CompiledNpga` is the method, `CompiledMeter` measures its states and leaps over several recorded iterations at once.
`CompiledPga` is NPGA of a lone agent that knows everything.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.solver import _core as c
from npga.solver._loop import Iterate, Leap, Meter
from npga.solver._packing import Plan, UnsupportedError, parts
from npga.solver._pga import Pga
from npga.solver._recursion import Npga, State
from npga.solver._result import Record
from npga.solver._schedules import Agents, schedule_for
from npga.solver._stopping import Limits, Snapshot, next_record
from npga.steps import Steps

Array = NDArray[Any]
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
        self._last: State | None = None

    def meter(self, x0: Array, reference: Array | None) -> Meter[State]:
        """What measures its states, by the core."""
        return CompiledMeter(self, x0, reference)

    def advance(self, state: State, iterations: int) -> State:
        """The state `iterations` later, or the first one that is not finite."""
        if iterations <= 0:
            return state
        buffers = Buffers(state, self.messages)
        # The panel schedule has A^T lam of the state that it returned last.
        fresh, self._last = state is not self._last, None
        done = self.order(buffers.arrays, iterations, fresh)
        after = buffers.state(state, done, self.rounds)
        if done < iterations:
            return self.unplanned(after)
        self._last = after
        return after

    def unplanned(self, state: State) -> State:
        """A state at which the core stopped where no pause was planned: it lacks A x."""
        with np.errstate(over="ignore", invalid="ignore"):
            return replace(state, Ax=self.problem.A.apply(state.x))


class Buffers:
    """The arrays that a stretch of iterations works in, taken from a state and given back as one."""

    def __init__(self, state: State, messages: Array) -> None:
        own = {name: np.array(getattr(state, name), order="C") for name in ("x", "lam", "lam_prev", "v", "u")}
        own |= {name: np.empty_like(state.x) for name in ("x_new", "x_hat", "force")}
        own |= {"kept": np.array(state.kept, state.lam.dtype), "Ax": np.empty_like(own["lam"])}
        own |= dict(zip(("message", "reply", "rest", "rest_new", "change", "total"), messages, strict=False))
        self._own = own
        self.arrays = c.Arrays(**{name: array.ctypes.data for name, array in own.items()})

    def state(self, before: State, done: int, rounds: int) -> State:
        """The state after `done` iterations, in each of which x and lam trade places with their predecessors."""
        own = self._own
        x, lam, lam_prev = ("x_new", "lam_prev", "lam") if done % 2 else ("x", "lam", "lam_prev")
        return State(
            x=own[x],
            lam=own[lam],
            lam_prev=own[lam_prev],
            v=own["v"],
            u=own["u"],
            Ax=own["Ax"],
            kept=tuple(own["kept"]),
            iteration=before.iteration + done,
            rounds=before.rounds + done * rounds,
        )


class CompiledMeter(Meter[State]):
    """Measures states with one call of the core; the numbers of `Meter`, up to rounding."""

    def __init__(self, method: CompiledNpga, x0: Array, reference: Array | None) -> None:
        super().__init__(method.problem, x0, reference)
        self._method = method
        self._ready: tuple[Iterate | None, Any] = (None, None)
        problem, units = method.problem, method.problem.units
        n, p, d, work = problem.n, problem.p, problem.d, method.plan.parts.f.work
        sizes = {"dual": 6 * p, "primal": 3 * d, "columns": 3 * max(p, d), "matrix": work}
        self._alive = {name: np.empty(size, problem.dtype) for name, size in sizes.items()}
        self._alive |= {"agents": np.empty(5 * n), "curvature": units.curvature, "counts": units.counts}
        self._alive["squares"] = units.squares
        self._alive |= {"bounds": units.bounds.astype(np.int64), "is_hard": units.is_hard.astype(np.int64)}
        if units.smooth:
            smooth = np.zeros(p, np.int64)
            for _, rows in units.smooth:
                smooth[rows] = 1
            self._alive["is_smooth"] = smooth
        if reference is not None:
            self._alive["reference"] = np.ascontiguousarray(reference, problem.dtype)
        self._gauge = c.Gauge(
            least_step=units.step_range[0],
            largest_step=units.step_range[1],
            slack=max(1e-9, 16.0 * float(np.finfo(problem.dtype).eps)),
            g_is_zero=problem.g.is_zero,
            h_is_indicator=problem.h.is_indicator,
            blocks=len(units.is_hard),
            **{name: array.ctypes.data for name, array in self._alive.items()},
        )

    def measure(self, state: Iterate, seconds: float) -> Snapshot:
        """The snapshot of a state."""
        ready, row = self._ready
        if ready is not state:
            row = self._findings(state)
        record = self._records([state.iteration], [state.rounds], row[None])[0]
        self.yardstick.begin(float(row["energy"]))
        growth = self.yardstick.growth(state.iteration, float(row["largest"]), float(row["increment"]))
        return Snapshot(record, seconds, *growth)

    def _findings(self, state: Iterate) -> Any:
        self._gauge.energy = self.yardstick.energy
        own = {name: np.ascontiguousarray(getattr(state, name)) for name in ("x", "lam", "lam_prev", "Ax")}
        arrays = c.Arrays(**{name: array.ctypes.data for name, array in own.items()})
        table, plan, done, nothing = np.zeros(1, _FINDINGS), self._method.plan, ctypes.c_int64(), ctypes.c_int64(0)
        task, stopping = c.Task(), c.Stopping(*[1.0] * len(c.Stopping._fields_))
        structs = (ctypes.addressof(struct) for struct in (plan.struct, arrays, task, nothing))
        rest = (ctypes.addressof(self._gauge), ctypes.addressof(stopping), table.ctypes.data, ctypes.addressof(done))
        plan.core("sweep", plan.dtype)(*structs, 1, *rest)
        return table[0]

    def _records(self, iterations: list[int], rounds: list[int], table: Array) -> list[Record]:
        """One record for each row of findings."""
        consensus = _divide(table["spread"], table["size"])
        columns = (table["gap"] / self.yardstick.distance, table["kkt"], consensus, table["objective"])
        return [Record(*row) for row in zip(iterations, rounds, *(c.tolist() for c in columns), strict=True)]

    def leaps(self, limits: Limits, record_every: int | None) -> Leap[State] | None:
        """A function that advances over many recorded iterations at once; None where single ones are long anyway."""
        method, order = self._method, self._method.order
        tested = limits.packed((*SWEPT, *COUNTED))
        if not isinstance(order, Agents) or order.threads > 1 or tested is None:
            return None

        def leap(state: State, until: int) -> tuple[State, list[Record]]:
            points = self._points(state, limits, record_every, until)
            if len(points) == 1:
                return method.advance(state, int(points[0] - state.iteration)), []
            unit, tests = self.yardstick, dict(zip(SWEPT, tested.tolist(), strict=False))
            stopping = c.Stopping(
                **tests, distance=unit.distance, first_increment=unit.increment or 1.0, first_size=unit.size or 1.0
            )
            return self._sweep(state, order, points, stopping)

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

    def _sweep(self, state: State, order: Agents, points: Array, stopping: c.Stopping) -> tuple[State, list[Record]]:
        method, buffers = self._method, Buffers(state, self._method.messages)
        lengths = np.diff(points, prepend=state.iteration)
        table = np.zeros(len(lengths), _FINDINGS)
        self._gauge.energy = self.yardstick.energy
        begun = time.perf_counter()
        rows, done = order.sweep(buffers.arrays, lengths, self._gauge, stopping, table)
        order.pace.note(False, time.perf_counter() - begun, done)
        after = buffers.state(state, done, method.rounds)
        whole = rows > 0 and after.iteration == points[rows - 1]
        if whole:
            self._ready = (after, table[rows - 1])
        else:  # stopped between two records
            after = method.unplanned(after)
        passed = points[: rows - 1 if whole else rows]
        sent = state.rounds + (passed - state.iteration) * method.rounds
        return after, self._records(passed.tolist(), sent.tolist(), table[: len(passed)])


# ------------------------------------------------------------------ the centralised method


class CompiledPga(Pga):
    """PGA, compiled: EXTRA on the gathered problem, where B^2 = C = 0 and D = 1 leave lam+ = prox_{beta h*}(v).

    It is measured in NumPy, because the residual has the units of the problem as it was, not of the gathered one.
    """

    path = "compiled"

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        super().__init__(problem, network, steps)
        if isinstance(steps.alpha, tuple):
            raise UnsupportedError("pga with an alpha for each agent has no kernel")
        if len({sparse.issparse(block) for block in problem.A.blocks}) > 1:
            raise UnsupportedError("pga with dense and sparse matrices has no kernel")
        _ = parts(problem)  # names what has no kernel, agent by agent
        alone = Network.from_W(np.ones((1, 1)))
        self.lone = CompiledNpga(problem.gathered, alone, find_version("extra"), steps)

    def advance(self, state: Iterate, iterations: int) -> Iterate:
        """The state `iterations` later, or the first one that is not finite."""
        return self.back(state, self.lone.advance(self.gathered(state), iterations))

    def gathered(self, state: Iterate) -> State:
        """A state as that of the lone agent, whose u and v are not read."""
        zero = np.zeros_like(state.lam)
        total = state.Ax.sum(axis=0)[None]
        return State(state.x, state.lam, state.lam_prev, total, v=zero, u=zero, iteration=state.iteration)

    def back(self, before: Iterate, state: State) -> Iterate:
        """The state of the lone agent with the rows A_i x_i."""
        with np.errstate(over="ignore", invalid="ignore"):
            Ax = self.problem.A.apply(state.x)
        return replace(before, x=state.x, lam=state.lam, lam_prev=state.lam_prev, Ax=Ax, iteration=state.iteration)


def _divide(numerator: Array, denominator: Array) -> Array:
    """The quotient, 0 where the denominator is."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0.0)
