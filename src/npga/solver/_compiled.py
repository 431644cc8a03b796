"""NPGA with all iterations of a stretch inside one compiled call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._loop import Meter
from npga.solver._recursion import Npga, State
from npga.solver.kernels._plan import Plan
from npga.solver.kernels._schedule import schedule_for
from npga.steps import Steps

Array = NDArray[Any]


class Buffers:
    """The arrays that a stretch of iterations works in, taken from a state and given back as one."""

    def __init__(self, state: State, messages: Array) -> None:
        kind, size = state.x.dtype, state.lam.size
        self.primal = [np.array(state.x), *(np.empty_like(state.x) for _ in range(3))]
        self.dual = [np.array(array, order="C").ravel() for array in (state.lam, state.lam_prev, state.v, state.u)]
        self.dual += [np.array(state.kept, kind).ravel(), *messages, np.empty(size, kind)]

    def addresses(self) -> tuple[Array, Array]:
        """What kernels get, and change as the arrays trade places."""
        primal, dual = ([array.ctypes.data for array in arrays] for arrays in (self.primal, self.dual))
        return np.array(primal, np.int64), np.array(dual, np.int64)

    def state(self, before: State, done: int, rounds: int) -> State:
        """The state after `done` iterations, in each of which x and lam trade places with their predecessors."""
        shape = before.lam.shape
        lam, lam_prev, v, u, kept, _, _, Ax = self.dual
        if done % 2:
            lam, lam_prev = lam_prev, lam
        return State(
            x=self.primal[done % 2],
            lam=lam.reshape(shape),
            lam_prev=lam_prev.reshape(shape),
            v=v.reshape(shape),
            u=u.reshape(shape),
            Ax=Ax.reshape(shape),
            kept=tuple(kept.reshape(-1, *shape)) if before.kept else (),
            iteration=before.iteration + done,
            rounds=before.rounds + done * rounds,
        )


class CompiledNpga(Npga):
    """NPGA for all agents at once (Numba)."""

    path = "compiled"

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        plan = Plan(problem, network, version, steps)
        super().__init__(problem, network, version, steps)
        self.plan = plan
        self.order = schedule_for(plan)
        self.messages = np.empty((2, problem.n * problem.p), problem.dtype)
        self._last: State | None = None

    def meter(self, x0: Array, reference: Array | None) -> Meter[State]:
        """What measures its states, by kernels."""
        from npga.solver._compiled_meter import CompiledMeter

        return CompiledMeter(self, x0, reference)

    def advance(self, state: State, iterations: int) -> State:
        """The state `iterations` later, or the first one that is not finite."""
        if iterations <= 0:
            return state
        buffers = Buffers(state, self.messages)
        # The panel schedule has A^T lam of the state that it returned last.
        fresh, self._last = state is not self._last, None
        done = self.order(*buffers.addresses(), iterations, fresh)
        after = buffers.state(state, done, self.schedule.rounds)
        if done < iterations:  # stopped where no pause was planned
            with np.errstate(over="ignore", invalid="ignore"):
                return replace(after, Ax=self.problem.A.apply(after.x))
        self._last = after
        return after
