"""Methods of multipliers for an equality as coupling: Tracking-ADMM, DC-ADMM and its inexact form.

All of them solve  min sum_i f_i(x_i) + g_i(x_i)  subject to  sum_i A_i x_i = b,  with b_i = b/n and one penalty c > 0,
which is the step `beta` here. Rows are agents, N_i is the number of neighbours, L the Laplacian of the graph.

Tracking-ADMM (Falsone, Notarnicola, Notarstefano and Prandini 2020), with the tracking variable d, d0 = A x0 - b_i:

    l = W lam,  e = W d
    x_i+  = argmin f_i + g_i + <l_i, A_i x> + (c/2) |A_i x - A_i x_i + e_i|^2
    d+    = e + A x+ - A x,      lam+ = l + c d+

DC-ADMM (Chang, Hong and Wang 2015), dual consensus ADMM, with q0 = 0:

    r_i   = 2 N_i lam_i - (L lam)_i - (q_i + b_i)/c
    x_i+  = argmin f_i + g_i + c/(4 N_i) |A_i x/c + r_i|^2
    lam+  = (r_i + A_i x_i+/c)/(2 N_i),      q+ = q + c L lam+

and the inexact one (IDC-ADMM) takes one proximal gradient step for x, of curvature l_i + |A_i|^2/(2 c N_i), instead of
the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network
from npga.problem import Problem
from npga.solver._loop import Iterate, Method
from npga.solver._result import Work
from npga.solver._subproblems import Subproblems
from npga.steps import Steps

Array = NDArray[Any]


def needs_equality(problem: Problem) -> str | None:
    """Why an ADMM of this chapter does not apply."""
    return None if problem.h.is_point else f"its coupling is {problem.h!r} and must be an Equality"


def balanced_penalty(problem: Problem) -> Steps:
    """c = sqrt(mu l)/sigma^2: c |A_i|^2 in the geometric middle of the curvatures, as far as they are known."""
    low, high = problem.mu, problem.l if 0.0 < problem.l < np.inf else 1.0
    sigma = problem.sigma or 1.0
    return Steps(alpha=1.0 / high, beta=np.sqrt((low or high) * high) / sigma**2)


def dual_penalty(problem: Problem, network: Network) -> Steps:
    """c of DC-ADMM, whose sub-problems have the penalty 1/(2 c N_i): the balanced one at the mean of N_i."""
    steps = balanced_penalty(problem)
    return replace(steps, beta=1.0 / (2.0 * steps.beta * max(float(network.degrees.mean()), 1.0)))


@dataclass(frozen=True)
class Tracked(Iterate):
    """A state with A x and the tracking variable d of Tracking-ADMM; or with q and L lam, heard already, of DC-ADMM."""

    Ax: Array
    memory: Array
    heard: Array


class _Admm(Method[Tracked]):
    """What the methods of this chapter share: b_i, the penalty c, and the loop over iterations."""

    kind = Tracked
    rounds = 1
    work, inner_work = Work(products=2), Work(gradients=1, products=2, proxes=1)

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        self.problem, self.network = problem, network
        self.steps: Steps = steps
        self._share = problem.h.prox(np.zeros(problem.p, problem.dtype), 1.0) / problem.n

    def _next(
        self, state: Tracked, x: Array, Ax: Array, lam: Array, memory: Array, heard: Array, inner: int
    ) -> Tracked:
        counts = {"iteration": state.iteration + 1, "rounds": state.rounds + 1, "inner": state.inner + inner}
        return Tracked(x, lam, state.lam, Ax, memory, heard, **counts)

    def blame(self) -> str:
        """The penalty is the only step."""
        return (
            f"The iterates grow without bound: change beta, the penalty c of {self.name} (now {self.steps.beta:.3g})."
        )


class TrackingAdmm(_Admm):
    """Tracking-ADMM: two vectors per round, the sub-problems solved to tolerance."""

    name = "tracking-admm"
    vectors = 2

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        super().__init__(problem, network, steps)
        self._own = Subproblems(problem, steps.beta)

    def start(self, x0: Array, lam0: Array) -> Tracked:
        """d0 = A x0 - b_i."""
        Ax = self.problem.A.apply(x0)
        return Tracked(x0, lam0, np.zeros_like(lam0), Ax, Ax - self._share, np.zeros(0))

    def _iterate(self, state: Tracked) -> Tracked:
        c = self.steps.beta
        mixed = state.lam - self.network.differences(state.lam)
        tracked = state.memory - self.network.differences(state.memory)
        x, inner = self._own.solve(mixed, state.Ax - tracked, state.x)
        Ax = self.problem.A.apply(x)
        tracked = tracked + Ax - state.Ax
        return self._next(state, x, Ax, mixed + c * tracked, tracked, state.heard, inner)


class DcAdmm(_Admm):
    """DC-ADMM: one vector per round, the sub-problems solved to tolerance."""

    name = "dc-admm"

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        super().__init__(problem, network, steps)
        self._N = network.degrees[:, None].astype(problem.dtype)
        self._prepare()

    def _prepare(self) -> None:
        # c/(4 N_i) |A_i x/c + r_i|^2 = (1/(2 c N_i))/2 |A_i x + c r_i|^2
        self._own = Subproblems(self.problem, 1.0 / (2.0 * self.steps.beta * self._N[:, 0]))

    def start(self, x0: Array, lam0: Array) -> Tracked:
        """q0 = 0; the neighbours must be told of a lam0 that is not zero."""
        zero = np.zeros_like(lam0)
        heard = self._laplacian(lam0) if lam0.any() else zero
        return Tracked(x0, lam0, zero, self.problem.A.apply(x0), zero, heard, rounds=int(lam0.any()))

    def _iterate(self, state: Tracked) -> Tracked:
        c, N = self.steps.beta, self._N
        r = 2.0 * N * state.lam - state.heard - (state.memory + self._share) / c
        x, inner = self._primal(state, r)
        Ax = self.problem.A.apply(x)
        lam = (r + Ax / c) / (2.0 * N)
        heard = self._laplacian(lam)
        return self._next(state, x, Ax, lam, state.memory + c * heard, heard, inner)

    def _laplacian(self, u: Array) -> Array:
        return self.network.differences(u, "unit")

    def _primal(self, state: Tracked, r: Array) -> tuple[Array, int]:
        return self._own.solve(np.zeros_like(r), -self.steps.beta * r, state.x)


class IdcAdmm(DcAdmm):
    """IDC-ADMM: one proximal gradient step in place of the sub-problem."""

    name = "idc-admm"
    work, inner_work = Work(gradients=1, products=2, proxes=1), Work()

    def _prepare(self) -> None:
        problem = self.problem
        L = np.array([agent.f.L for agent in problem.agents])
        curvature = L + problem.A.norms**2 / (2.0 * self.steps.beta * self._N[:, 0])
        self._step = np.repeat(1.0 / np.where(curvature > 0.0, curvature, 1.0), problem.sizes).astype(problem.dtype)

    def _primal(self, state: Tracked, r: Array) -> tuple[Array, int]:
        problem = self.problem
        force = problem.f.grad(state.x) + problem.A.adjoint((r + state.Ax / self.steps.beta) / (2.0 * self._N))
        return problem.g.prox(state.x - self._step * force, self._step), 0
