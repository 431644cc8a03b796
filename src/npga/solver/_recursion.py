"""The recursion of NPGA, written once.

Equation (npga) of Li and Su (2024) with u = B y + C lam,

    x+     = prox_{alpha g}(x - alpha (grad f(x) + A^T lam)),      x_hat+ = x+ + theta (x+ - x)
    u+     = u + C (lam - lam_prev) + gamma B^2 v
    v+     = lam - u+ + beta A x_hat+
    lam+   = prox_{(beta/n) h*}(D v+)

The increment of u is all that the network is needed for before D, and it takes the same messages as the paper's
difference form (npga2), which is the difference of two consecutive lines for v. Adding up u instead of v matters for
rounding: u is of the size of beta A x and its increments die out, whereas v is of the size of lam, and what rounding
adds to its sum over the agents would be divided by beta in the coupling constraint.

It is a generator: whenever a product with the network is needed it yields ``(u, op)`` and is sent K u, where
(K u)_i = sum_j w_ij (u_i - u_j). It does not know whether u is the (n, p) array of all agents or the p-vector of a
single one, so the vectorised solver, the single agent and every engine that carries messages run these same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from numpy.typing import NDArray

from npga.functions import Function
from npga.networks import Schedule
from npga.solver._state import State
from npga.steps import Steps

Array = NDArray[Any]
Request = tuple[Array | None, str]


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


def primal(own: Knowledge, alpha: float, state: State) -> tuple[Array, Array]:
    """Return x+ and A x+, which need no message: they can be computed while those of the correction travel."""
    x = own.g.prox(state.x - alpha * (own.f.grad(state.x) + own.A.adjoint(state.lam)), alpha)
    return x, own.A.apply(x)


def iterate(
    own: Knowledge,
    steps: Steps,
    schedule: Schedule,
    state: State,
    local: Callable[[], tuple[Array, Array]] | None = None,
) -> Generator[Request, Array, State]:
    """One iteration: yields the vectors to be exchanged, returns the next state.

    `local` returns `primal(own, alpha, state)`, perhaps computed ahead; by default it is computed when needed.
    """
    beta, gamma, theta = steps.beta, steps.gamma, steps.theta
    dlam = state.lam - state.lam_prev
    u = state.u + (yield from schedule.correction(dlam, state.v, state.kept, gamma))  # C dlam + gamma B^2 v

    x, Ax = primal(own, steps.alpha, state) if local is None else local()
    v = state.lam - u + beta * (Ax + theta * (Ax - state.Ax))

    Dv, kept = yield from schedule.combine(v)
    lam = own.h.conj_prox(Dv, beta / own.n)
    return State(x, lam, state.lam, v, u, Ax, kept, state.iteration + 1, state.rounds + schedule.rounds)


def memory(schedule: Schedule, gamma: float, state: State) -> Generator[Request, Array, Array]:
    """Z = B y after a state's last iteration, which a run under other steps can go on from.

    u = z_prev + C lam_prev was used in v, and the iteration left z = z_prev + gamma B^2 v. Costs the rounds of a
    correction.
    """
    mixed = yield from schedule.correction(state.lam_prev, state.v, state.kept, -gamma)
    result: Array = state.u - mixed
    return result
