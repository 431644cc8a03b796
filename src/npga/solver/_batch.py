"""Many runs of one problem under different steps, advanced together: what a search over step sizes needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem, residual
from npga.solver._methods import method_for
from npga.solver._recursion import Npga, State
from npga.steps import Steps

Array = NDArray[Any]


class Batch(ABC):
    """Runs of one problem on one network, each with its own steps (and polynomials), advanced together.

    Made by `batch`. Runs are numbered 0 to ``size - 1``; `keep` drops some and numbers the others anew, so that a
    search can give up on the bad ones and go on with the rest from where they are.
    """

    iterations: int = 0

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of runs."""

    @abstractmethod
    def advance(self, iterations: int) -> None:
        """Advance every run; one that is no longer finite stays so."""

    @abstractmethod
    def keep(self, indices: ArrayLike) -> None:
        """Go on with these runs only, in this order."""

    @abstractmethod
    def residuals(self) -> Array:
        """Residual of the optimality conditions of every run, as `Problem.kkt`; nan for a run that has diverged."""

    @abstractmethod
    def gaps(self, reference: ArrayLike) -> Array:
        """|x - x*| of every run; nan for a run that has diverged."""

    @abstractmethod
    def state(self, k: int) -> State:
        """The state of run k, from which `npga.solver.Npga` can go on."""

    @property
    def finite(self) -> NDArray[np.bool]:
        """Whether the iterates of each run are still finite."""
        return np.array([np.isfinite(self.state(k).lam).all() for k in range(self.size)])


class SeparateRuns(Batch):
    """Each run by itself, by the path that suits the problem; compiled runs share the processor's cores."""

    def __init__(
        self,
        problem: Problem,
        network: Network,
        versions: Sequence[Version],
        steps: Sequence[Steps],
        x0: Array,
        lam0: Array,
    ) -> None:
        self._problem = problem
        self._methods = [method_for(problem, network, v, s) for v, s in zip(versions, steps, strict=True)]
        self._states = [method.start(x0, lam0) for method in self._methods]

    @property
    def size(self) -> int:
        """Number of runs."""
        return len(self._states)

    def advance(self, iterations: int) -> None:
        """Advance every run; one that is no longer finite stays so."""
        calls = [partial(_go_on, m, s, iterations) for m, s in zip(self._methods, self._states, strict=True)]
        if all(method.path == "compiled" for method in self._methods):
            from npga.solver.kernels._team import together

            self._states = together(calls)
        else:
            self._states = [call() for call in calls]
        self.iterations += iterations

    def keep(self, indices: ArrayLike) -> None:
        """Go on with these runs only, in this order."""
        chosen = _chosen(indices, self.size)
        self._methods = [self._methods[k] for k in chosen]
        self._states = [self._states[k] for k in chosen]

    def residuals(self) -> Array:
        """Residual of the optimality conditions of every run, as `Problem.kkt`; nan for a run that has diverged."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([residual(self._problem, s.x, s.Ax, s.lam.mean(axis=0)).kkt for s in self._states])

    def gaps(self, reference: ArrayLike) -> Array:
        """|x - x*| of every run; nan for a run that has diverged."""
        star = self._problem.join(reference, "reference")
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([float(np.linalg.norm(state.x - star)) for state in self._states])

    def state(self, k: int) -> State:
        """The state of run k, from which `npga.solver.Npga` can go on."""
        return replace(self._states[k], iteration=self.iterations)


def _go_on(method: Npga, state: State, iterations: int) -> State:
    with np.errstate(over="ignore", invalid="ignore"):
        alive = np.isfinite(state.lam.sum())
    return method.advance(state, iterations) if alive else state


def _chosen(indices: ArrayLike, size: int) -> list[int]:
    chosen = np.atleast_1d(np.asarray(indices))
    if chosen.dtype == bool:
        chosen = np.flatnonzero(chosen)
    if not chosen.size or chosen.min() < 0 or chosen.max() >= size:
        raise InputError(f"indices is {indices!r}; expected at least one number between 0 and {size - 1}")
    return [int(k) for k in chosen]


def batch(
    problem: Problem,
    network: Network,
    version: Version | Sequence[Version],
    steps: Sequence[Steps],
    x0: ArrayLike | None = None,
    lam0: ArrayLike | None = None,
    path: str = "auto",
) -> Batch:
    """Runs of one problem under different steps, advanced together.

    Small problems run as the lanes of the vector units, 64 combinations at a time; larger ones, whose 64-fold state
    would outgrow the cache, run one beside the other on the processor's cores; what has no kernel runs in NumPy.

    Parameters
    ----------
    problem, network
        What to run, and on which network.
    version
        One version for all runs, or one for each (the constant c of a version is part of it).
    steps
        Step sizes, one for each run.
    x0, lam0
        Start of all runs; zero by default.
    path
        "lanes", "separate", or "auto" for the choice above.
    """
    combos = list(steps)
    versions = [version] * len(combos) if isinstance(version, Version) else list(version)
    if not combos or len(versions) != len(combos):
        raise InputError(f"{len(combos)} steps and {len(versions)} versions arrived; expected one of each for each run")
    if path not in ("auto", "lanes", "separate"):
        raise InputError(f"path is {path!r}; expected auto, lanes or separate")
    x = np.zeros(problem.d, problem.dtype) if x0 is None else problem.join(x0, "x0")
    lam = np.zeros((problem.n, problem.p), problem.dtype) if lam0 is None else problem.dual(lam0, "lam0")
    if path == "separate":
        return SeparateRuns(problem, network, versions, combos, x, lam)
    from npga.solver._lane_batch import LaneBatch
    from npga.solver.kernels._lower import UnsupportedError

    try:
        lanes = LaneBatch(problem, network, versions, combos, x, lam)
    except UnsupportedError as culprit:
        if path == "lanes":
            raise InputError(f'path="lanes" was asked for, but {culprit}, which has no kernel') from None
        return SeparateRuns(problem, network, versions, combos, x, lam)
    return lanes if path == "lanes" or lanes.fits else SeparateRuns(problem, network, versions, combos, x, lam)
