"""Methods that run in the loop: what they must offer, and NPGA itself in vectorised form."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from npga.networks import Gossip, Network, Version, drive
from npga.problem import Problem
from npga.solver._recursion import iterate, memory
from npga.solver._state import State, start
from npga.steps import Steps

Array = NDArray[Any]


class Iterate(Protocol):
    """What the loop reads of any method's state."""

    @property
    def x(self) -> Array: ...
    @property
    def Ax(self) -> Array: ...
    @property
    def lam(self) -> Array: ...
    @property
    def lam_prev(self) -> Array: ...
    @property
    def iteration(self) -> int: ...
    @property
    def rounds(self) -> int: ...


class Method(Protocol):
    """A first-order method on a network: a start and a way to advance.

    Steps, loop and stopping rules are kept apart; the loop meters every method in the same way.
    """

    name: str
    path: str

    def start(self, x0: Array, lam0: Array) -> Any:
        """The state before the first iteration."""

    def advance(self, state: Any, iterations: int) -> Any:
        """The state some iterations later; fewer when it is no longer finite."""

    def blame(self) -> str:
        """Which step to reduce when the iterates diverge, as a sentence."""


class Npga:
    """NPGA for all agents at once (NumPy)."""

    path = "vectorised"

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        self.problem, self.network, self.version, self.steps = problem, network, version, steps
        steps.single_alpha("npga.solve")
        self.name = version.name
        self.schedule = version.schedule(steps.beta)
        self.exchange = Gossip(network, version, self.schedule)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return {
            "problem": self.problem.fingerprint,
            "network": self.network.fingerprint(),
            "version": f"{self.version.name} {self._mixing_digest()}",
            "steps": asdict(self.steps),
        }

    def _mixing_digest(self) -> str:
        digest = hashlib.blake2b(repr(sorted(vars(self.schedule).items())).encode(), digest_size=8)
        for op in self.schedule.ops:
            digest.update(self.version.edge_weights(self.network, op).tobytes())
        return digest.hexdigest()

    def start(self, x0: Array, lam0: Array, z_over_beta: Array | None = None) -> State:
        """The state before the first iteration; z_over_beta carries the memory of an earlier run."""
        z0 = None if z_over_beta is None else self.steps.beta * z_over_beta
        return start(x0, lam0, self.problem.A.apply(x0), self.schedule.kept_size, z0)

    def memory(self, state: State) -> Array:
        """Z / beta of a state of this method, for a run that goes on under other steps.

        At the solution it is A_i x_i minus the mean of these, whatever the steps.
        """
        return drive(memory(self.schedule, self.steps.gamma, state), self.exchange) / self.steps.beta

    def advance(self, state: State, iterations: int) -> State:
        """The state `iterations` later, or the first one that is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(iterations):
                state = drive(iterate(self.problem, self.steps, self.schedule, state), self.exchange)
                if not np.isfinite(state.lam.sum()):
                    break
        return state

    def blame(self) -> str:
        """The step that is furthest beyond its classical limit."""
        steps, problem = self.steps, self.problem
        dual = steps.alpha * steps.beta * problem.sigma**2
        limits = {
            "alpha": (steps.alpha * problem.l / 2, "the limit of gradient descent is 2/l"),
            "beta": (dual, "alpha beta sigma^2 should stay below 1"),
            "gamma": (steps.gamma, "the theorems ask for gamma < 1"),
        }
        name = max(limits, key=lambda key: limits[key][0] if np.isfinite(limits[key][0]) else 0.0)
        return (
            f"The iterates grow without bound: reduce {name} (now {getattr(steps, name):.3g}; {limits[name][1]}, "
            f"here l = {problem.l:.3g}, sigma = {problem.sigma:.3g}), or try network.lazy()."
        )
