"""NPGA with all iterations of a stretch inside one compiled call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._method import Npga
from npga.solver._state import State
from npga.solver.kernels._agents import Dual, advance_agents
from npga.solver.kernels._plan import lowered, step_sizes
from npga.solver.kernels._primal import Primal
from npga.steps import Steps

Array = NDArray[Any]


class CompiledNpga(Npga):
    """NPGA for all agents at once (Numba)."""

    path = "compiled"

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        super().__init__(problem, network, version, steps)
        self._lowered = lowered(problem, network, version, steps)
        self._steps = step_sizes(problem, steps)
        groups = self._lowered.groups
        self._scratch = np.empty(int(np.diff(groups).max()) * problem.p, problem.dtype)

    def advance(self, state: State, iterations: int) -> State:
        """The state `iterations` later, or the first one that is not finite."""
        if iterations <= 0:
            return state
        begun = state.x_prev is not None
        x_prev = state.x_prev if state.x_prev is not None else np.zeros_like(state.x)
        arrays = Primal(state.x.copy(), x_prev.copy(), *(np.empty_like(state.x) for _ in range(3)))
        kept = np.concatenate([k.ravel() for k in state.kept]) if state.kept else np.empty(0, state.x.dtype)
        dual = Dual(
            state.lam.ravel().copy(), state.lam_prev.ravel().copy(), state.v.ravel().copy(), kept,
            np.empty(state.lam.size, state.x.dtype), np.empty(state.lam.size, state.x.dtype),
            state.Ax.ravel().copy(), state.Ax_hat.ravel().copy(),
        )
        done, arrays, dual = advance_agents(self._lowered, self._steps, arrays, dual, self._scratch, begun, iterations)
        shape = state.lam.shape
        return State(
            x=arrays.x, lam=dual.lam.reshape(shape), lam_prev=dual.lam_prev.reshape(shape), v=dual.v.reshape(shape),
            Ax=dual.Ax.reshape(shape), Ax_hat=dual.Ax_hat.reshape(shape),
            kept=tuple(dual.kept.reshape(-1, *shape)) if state.kept else (),
            iteration=state.iteration + done, rounds=state.rounds + done * self.schedule.rounds, x_prev=arrays.x_prev,
        )
