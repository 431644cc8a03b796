"""The recursion with exact gradients of the dual: equation (da2), and PUDA for problem P2.

NPGA replaces the dual gradient A x*(lam) by A x+ after one proximal gradient step. With the exact one,

    x*(lam)_i = argmin f_i(x_i) + g_i(x_i) + <lam_i, A_i x_i>,

it is equation (da2) of Li and Su (2024), `dual-exact`. For problem P2, min sum_i phi_i(x) + g(x), the same lines with
-grad phi_i(x_i) in place of A_i x_i and the prox of g in place of that of h* are PUDA (Alghunaim, Ryu, Yuan and Sayed
2020; equation (puda)), whose rows of Table I are DIGing, EXTRA, DLM, P2D2, Aug-DGM, ATC tracking, exact diffusion and
NIDS. In each case the recursion of `npga.solver` runs, with another way to its local vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.networks import Network, Version, drive
from npga.problem import LEAST, ConsensusProblem, Problem
from npga.solver._loop import Meter
from npga.solver._recursion import Npga, State, iterate
from npga.solver._result import Record, Work
from npga.solver._subproblems import Subproblems
from npga.steps import Steps

Array = NDArray[Any]


# ------------------------------------------------------------------ equation (da2)


def needs_curvature(problem: Problem) -> str | None:
    """Why the dual of a problem has no gradient."""
    for i, agent in enumerate(problem.agents):
        strong = agent.f.mu > 0.0 or (agent.g.mu > 0.0 and not agent.g.is_indicator)
        if problem.sizes[i] and not strong:
            return f"f + g of {problem.title(i)} is not strongly convex, so the dual has no gradient there"
    return None


def dual_steps(problem: Problem) -> Steps:
    """beta = 1/L of the dual, whose i-th term is |A_i|^2/mu_i-smooth; alpha is not used."""
    mu = np.array([a.f.mu + (a.g.mu if np.isfinite(a.g.mu) else 0.0) for a in problem.agents])
    norms = problem.A.norms**2
    smooth = max((float(s / m) for s, m in zip(norms, mu, strict=True) if s > 0.0), default=1.0)
    return Steps(alpha=1.0, beta=1.0 / smooth, gamma=1.0)


class DualExact(Npga):
    """NPGA with the sub-problems solved to tolerance, in closed form where there is one; alpha is not used."""

    work, inner_work = Work(products=2, proxes=2), Work(gradients=1, proxes=1)

    def __init__(self, problem: Problem, network: Network, version: Version, steps: Steps) -> None:
        super().__init__(problem, network, version, steps)
        self.name = f"dual-exact {version.name}"
        self._own = Subproblems(problem)

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "dual-exact"}

    def _iterate(self, state: State) -> State:
        inner = 0

        def local() -> tuple[Array, Array]:
            nonlocal inner
            x, inner = self._own.solve(state.lam, None, state.x)
            return x, self.problem.A.apply(x + self.steps.theta * (x - state.x))

        after = drive(iterate(self.problem, self.steps, self.schedule, state, local), self.exchange)
        return replace(after, inner=state.inner + inner)


# ------------------------------------------------------------------ PUDA


def puda_steps(problem: ConsensusProblem, network: Network, version: Version) -> Steps:
    """A step below the classical limits: 1/L where C = 0, else (1 + lambda_min(W))/(2 L); gamma = 1, theta = 0."""
    L = problem.L if 0.0 < problem.L < np.inf else 1.0
    least = float(network.extreme_eigenvalues()[0])
    has_C = any(abs(c) > 0.0 for c in version.polynomials["C"])
    return Steps(alpha=1.0, beta=(0.5 * (1.0 + least) if has_C else 1.0) / L)


@dataclass(frozen=True)
class Copies(State):
    """A state of PUDA, whose dual arrays are the copies of x: the negative gradients at those before."""

    lam_is_dual = False

    slopes: Array = field(default_factory=lambda: np.zeros(0))


class Puda(Npga):
    """A row of Table I for problem P2; the step is beta, alpha is not used, and x is an n x m array.

    Parameters
    ----------
    consensus, network, version
        What to solve, where, and which row.
    steps
        beta, and gamma and theta, which are 1 and 0 in the published methods.
    """

    work = Work(gradients=1, proxes=1)
    kind = Copies

    def __init__(self, consensus: ConsensusProblem, network: Network, version: Version, steps: Steps) -> None:
        super().__init__(consensus.p1, network, version, steps)
        self.name = f"puda {version.name}"
        self.consensus = consensus
        # The common term g where the recursion looks for the coupling function h.
        self._own: Any = SimpleNamespace(h=SimpleNamespace(conj_prox=consensus.g.prox), n=consensus.n)

    @property
    def identity(self) -> dict[str, Any]:
        """What two runs must share so that one can go on where the other stopped."""
        return super().identity | {"method": "puda"}

    def start(self, x0: Array, lam0: Array, z_over_beta: Array | None = None) -> State:  # noqa: ARG002
        """All agents start from their own copy of x, with no gradient before."""
        X = x0.reshape(self.consensus.n, self.consensus.m)
        zero = np.zeros_like(X)
        return Copies(x0, X, zero, v=zero, u=zero, kept=(zero,) * self.schedule.kept_size, slopes=zero)

    def _iterate(self, state: State) -> State:
        assert isinstance(state, Copies), "it began with copies"
        slopes = -self.consensus.gradients(state.lam)
        ahead = slopes + self.steps.theta * (slopes - state.slopes)
        steps = iterate(self._own, self.steps, self.schedule, state, lambda: (state.x, ahead))
        after = drive(steps, self.exchange)
        return replace(after, x=after.lam.ravel(), slopes=slopes)

    @property
    def width(self) -> int:
        """Numbers that an agent sends to each neighbour in one round."""
        return self.consensus.m

    def point(self, x: ArrayLike, name: str) -> Array:
        """The n copies end to end, from them or from one point for all."""
        values = np.asarray(x, np.float64)
        if values.shape == (self.consensus.m,):
            values = np.tile(values, (self.consensus.n, 1))
        return self.problem.join(values.ravel(), name)

    def solution(self, state: State) -> Array:
        """The copies, one row for each agent."""
        return state.lam

    def go_on(self, earlier: Any) -> State:
        """From the copies of an earlier result."""
        return self.start(np.asarray(earlier.x, np.float64).ravel(), np.zeros(0))

    def meter(self, x0: Array, reference: Array | None) -> Meter[State]:
        """Residual of P2 in place of that of P1."""
        return ConsensusMeter(self, x0, reference)

    def blame(self) -> str:
        """The only step."""
        return (
            f"The iterates grow without bound: reduce beta (now {self.steps.beta:.3g}; gradients are "
            f"{self.consensus.L:.3g}-Lipschitz), or try network.lazy()."
        )


class ConsensusMeter(Meter[State]):
    """Measures states of PUDA: stationarity of the mean of all copies, and how far they are from it."""

    def __init__(self, method: Puda, x0: Array, reference: Array | None) -> None:
        super().__init__(method.problem, x0, reference)
        self._consensus = method.consensus

    def _record(self, state: State) -> Record:
        problem, unit = self._consensus, self.yardstick
        X = state.lam
        stationarity, spread, moved = problem.residual(X, LEAST * float(np.sqrt(unit.energy)))
        unit.begin(moved**2)
        gap = np.nan
        if self.reference is not None:
            gap = float(np.linalg.norm(state.x - self.reference)) / unit.distance
        objective = problem.objective(X.mean(axis=0)) if np.isfinite(X).all() else np.nan
        return Record(state.iteration, state.rounds, gap, max(stationarity, spread), spread, objective)
