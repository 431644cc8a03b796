"""The recursion of NPGA, its state, and all agents at once in NumPy.

Equation (npga) of Li and Su (2024) with u = B y + C lam,

    x+     = prox_{alpha g}(x - alpha (grad f(x) + A^T lam)),      x_hat+ = x+ + theta (x+ - x)
    u+     = u + C (lam - lam_prev) + gamma B^2 v
    v+     = lam - u+ + beta A x_hat+
    lam+   = prox_{(beta/n) h*}(D v+)

The increment of u is all that the network is needed for before D, and it takes the same messages as the paper's
difference form (npga2), which is the difference of two consecutive lines for v. Adding up u instead of v matters for
rounding: u is of the size of beta A x and its increments die out, whereas v is of the size of lam, and what rounding
adds to its sum over the agents would be divided by beta in the coupling constraint. On networks whose links change
the z-form runs instead, u = z + C lam with z+ = z + gamma B^2 v+: see `npga.networks`.

It is a generator: whenever a product with the network is needed it yields ``(u, op)`` and is sent K u, where
(K u)_i = sum_j w_ij (u_i - u_j). It does not know whether u is the (n, p) array of all agents or the p-vector of a
single one, so the vectorised solver, the single agent and every engine that carries messages run these same lines.
The compiled core has its own form of them, tested against these.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from npga.functions import Function
from npga.networks import Gossip, Network, Schedule, UnsteadyNetwork, Version, drive
from npga.problem import Problem
from npga.solver._loop import Iterate, Method
from npga.steps import Steps

if TYPE_CHECKING:
    from npga.solver._result import Result

Array = NDArray[Any]
Request = tuple[Array | None, str]


@dataclass(frozen=True)
class State(Iterate):
    """Everything that iteration k + 1 needs from iteration k; nothing else is remembered.

    Parameters
    ----------
    v
        The dual iterate before it is combined with the neighbours' and passed through the prox; zero at the start.
    u
        What was subtracted in v = lam_prev - u + beta A x_hat: u = B y + C lam of the iteration before. In the z-form,
        on networks whose links change, z = B y alone.
    kept
        K v, K^2 v, ... that the combination with D has already paid for.
    copies
        What the neighbours know of the messages, where these are compressed.
    """

    v: Array
    u: Array
    kept: tuple[Array, ...] = ()
    copies: tuple[Array, ...] = ()


S = TypeVar("S", bound=State)


def start(x0: Array, lam0: Array, kept: int, z0: Array | None = None) -> State:
    """The state before the first iteration.

    With v = 0, lam_prev = 0 and u = z0 the first correction makes u = C lam0 + z0, as the paper's equation (npga) with
    B y0 = z0 wants it; the paper starts from y0 = 0.
    """
    zero = np.zeros_like(lam0)
    return State(x0, lam0, zero, v=zero, u=zero if z0 is None else z0, kept=(zero,) * kept)


class Matrix(Protocol):
    """The coupling matrix of one agent, or of all of them."""

    def apply(self, x: Array) -> Array:
        """A x."""

    def adjoint(self, lam: Array) -> Array:
        """A^T lam."""


class Knowledge(Protocol):
    """What the recursion may read: the private f, g and A, the public h, and the number of agents."""

    @property
    def f(self) -> Function: ...
    @property
    def g(self) -> Function: ...
    @property
    def A(self) -> Matrix: ...
    @property
    def h(self) -> Function: ...
    @property
    def n(self) -> int: ...


def primal(own: Knowledge, alpha: float | Array, theta: float, state: State) -> tuple[Array, Array]:
    """Return x+ and A x_hat+, which need no message: they can be computed while those of the correction travel.

    alpha is a number, or one for each coordinate that is the same for all of an agent's: then NPGA runs on the problem
    in x_i / sqrt(alpha_i), with the step 1.
    """
    x = own.g.prox(state.x - alpha * (own.f.grad(state.x) + own.A.adjoint(state.lam)), alpha)
    return x, own.A.apply(x + theta * (x - state.x))


def iterate(
    own: Knowledge, steps: Steps, schedule: Schedule, state: S, local: Callable[[], tuple[Array, Array]]
) -> Generator[Request, Array, S]:
    """One iteration: yields the vectors to be exchanged, returns the next state.

    `local` returns `primal(own, alpha, theta, state)`, computed when it is needed or ahead.
    """
    beta, gamma = steps.beta, steps.gamma
    if schedule.keeps_z:
        carried = state.u + schedule.growth(state.v, state.kept, gamma)  # z + gamma B^2 v
        u = carried + (yield from schedule.correction(state.lam, state.v, state.kept, gamma))  # z + C lam
    else:
        dlam = state.lam - state.lam_prev
        step = yield from schedule.correction(dlam, state.v, state.kept, gamma)  # C dlam + gamma B^2 v
        u = carried = state.u + step

    x, image = local()
    v = state.lam - u + beta * image

    Dv, kept = yield from schedule.combine(v)
    lam = own.h.conj_prox(Dv, beta / own.n)
    done, rounds = state.iteration + 1, state.rounds + schedule.rounds
    return replace(state, x=x, lam=lam, lam_prev=state.lam, v=v, u=carried, kept=kept, iteration=done, rounds=rounds)


def memory(schedule: Schedule, gamma: float, state: State) -> Generator[Request, Array, Array]:
    """The memory z = B y after a state's last iteration, which a run under other steps can go on from.

    u = z_prev + C lam_prev was used in v, and the iteration left z = z_prev + gamma B^2 v. Costs the rounds of a
    correction, none in the z-form.
    """
    if schedule.keeps_z:
        return np.asarray(state.u + schedule.growth(state.v, state.kept, gamma))
    mixed = yield from schedule.correction(state.lam_prev, state.v, state.kept, -gamma)
    result: Array = state.u - mixed
    return result


class Npga(Method[State]):
    """NPGA for all agents at once (NumPy)."""

    kind = State

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        self.problem, self.network = problem, network
        self.name = version.name
        self.steps: Steps = steps
        self.version: Version = version
        self.schedule = version.schedule(steps.beta, network)
        self.rounds = self.schedule.rounds
        self._alpha = alpha_of(problem, steps)
        self.exchange = exchange_on(network, version, self.schedule)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "npga", "version": f"{self.version.name} {self._mixing_digest()}"}

    def _mixing_digest(self) -> str:
        digest = hashlib.blake2b(repr(sorted(vars(self.schedule).items())).encode(), digest_size=8)
        for op in self.schedule.ops:
            digest.update(self.version.edge_weights(self.network, op).tobytes())
        return digest.hexdigest()

    def start(self, x0: Array, lam0: Array, z_over_beta: Array | None = None) -> State:
        """The state before the first iteration; z_over_beta carries the memory of an earlier run."""
        z0 = None if z_over_beta is None else self.steps.beta * z_over_beta
        return start(x0, lam0, self.schedule.kept_size, z0)

    def memory(self, state: Iterate) -> Array:
        """z / beta after a state of this method, for a run that goes on under other steps.

        At the solution it is A_i x_i minus the mean of these, whatever the steps; that stands in for it after another
        method.
        """
        if not isinstance(state, State):
            Ax = self.problem.A.apply(state.x)
            return np.asarray(Ax - Ax.mean(axis=0))
        self.exchange.begin(state.iteration, state.rounds, state.copies)
        return drive(memory(self.schedule, self.steps.gamma, state), self.exchange) / self.steps.beta

    def go_on(self, earlier: Result) -> State:
        """The state of an earlier result, as it is where nothing has changed, else carried over to these steps."""
        old = self
        if earlier.version is not None and earlier.steps is not None:
            old = Npga(earlier.problem, earlier.network, earlier.version, earlier.steps)
            unchanged = all(getattr(old, name) is getattr(self, name) for name in ("problem", "network", "version"))
            same = (unchanged and old.steps == self.steps) or old.identity == self.identity
            if same and isinstance(earlier.state, State):
                return replace(earlier.state, iteration=0, rounds=0)
        x = self.problem.join(earlier.x, "start.x")
        lam = self.problem.dual(earlier.lam, "start.lam")
        return self.start(x, lam, old.memory(earlier.state))

    def _iterate(self, state: State) -> State:
        local = partial(primal, self.problem, self._alpha, self.steps.theta, state)
        self.exchange.begin(state.iteration, state.rounds, state.copies)
        state = drive(iterate(self.problem, self.steps, self.schedule, state, local), self.exchange)
        return replace(state, copies=self.exchange.copies) if self.exchange.copies else state

    def traffic(self, state: State) -> tuple[int, int]:
        """Messages and numbers that were sent up to a state."""
        network = self.network
        if not isinstance(network, UnsteadyNetwork):
            return super().traffic(state)
        messages = network.sent(state.iteration, state.rounds, self.schedule)
        return messages, math.ceil(messages * network.numbers(self.problem.p))

    def blame(self) -> str:
        """The step that is furthest beyond its classical limit, and whose it is."""
        steps, problem = self.steps, self.problem
        alpha = np.array(steps.per_agent(problem.n))
        smooth = alpha * [agent.f.L if agent.A.shape[1] else 0.0 for agent in problem.agents] / 2
        dual = alpha * steps.beta * problem.A.norms**2
        limits = {
            "alpha": (smooth.max(), "the limit of gradient descent is 2/l"),
            "beta": (dual.max(), "alpha beta sigma^2 should stay below 1"),
            "gamma": (steps.gamma, "the theorems ask for gamma < 1"),
        }
        name = max(limits, key=lambda key: limits[key][0] if np.isfinite(limits[key][0]) else 0.0)
        now = f"{alpha[smooth.argmax()] if name == 'alpha' else getattr(steps, name):.3g}"
        if name == "alpha" and isinstance(steps.alpha, tuple):
            now += f" for {problem.title(int(smooth.argmax()))}"
        return (
            f"The iterates grow without bound: reduce {name} (now {now}; {limits[name][1]}, "
            f"here l = {problem.l:.3g}, sigma = {problem.sigma:.3g}), or try network.lazy()."
        )


def exchange_on(network: Network, version: Version, schedule: Schedule) -> Gossip:
    """What answers the requests of a schedule on a network."""
    if isinstance(network, UnsteadyNetwork):
        return network.gossip(version, schedule)
    return Gossip(network, version, schedule)


def alpha_of(problem: Problem, steps: Steps) -> float | Array:
    """alpha as the vectorised forms use it: a number, or one for each coordinate in the type of the problem."""
    alpha = steps.per_coordinate(problem.sizes.tolist())
    return alpha if isinstance(alpha, float) else alpha.astype(problem.dtype)
