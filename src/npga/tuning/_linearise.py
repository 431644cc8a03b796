"""The iteration of NPGA near its fixed point, as NPGA on another problem.

At a solution (x*, lam*) let H be the Hessian of f, P the Jacobian of prox_{alpha g} and Q that of prox_{(beta/n) h*}.
Deviations from the fixed point follow the same recursion with

    grad f  ->  x -> H x,        prox_{alpha g}  ->  x -> P x,        prox_{(beta/n) h*}  ->  lam -> Q lam,

which is NPGA for quadratic f, g and h with solution zero. P and Q are symmetric with eigenvalues in [0, 1]; in their
eigenbases (a rotation of each x_i and of the coupling space) g and h are sums over coordinates, so the linearised
problem is one of the function family and runs in the compiled path. With f quadratic, g = 0 and h an equality it is the
problem itself, moved to the origin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga import functions as fn
from npga.errors import InputError
from npga.problem import Agent, Problem, dense_block
from npga.steps import Steps

Array = NDArray[Any]

# Eigenvalues 0 and 1 of P and Q belong to indicators and zero functions, limits of quadratics with weights at these
# bounds.
_LARGE = 1e30


class Linearisation:
    """Derivatives of a problem at its solution.

    Parameters
    ----------
    problem
        The problem.
    x, lam
        A solution (d,) and its dual (p,), as `npga.reference` gives them.
    """

    def __init__(self, problem: Problem, x: Array, lam: Array) -> None:
        self.problem = problem
        self.x, self.lam = np.asarray(x, np.float64), np.asarray(lam, np.float64)
        self._blocks = problem.split(self.x)
        self._forces = problem.split(
            problem.f.grad(self.x) + problem.A.adjoint(np.broadcast_to(self.lam, (problem.n, problem.p)))
        )
        self._hessians = [self._need(a.f.has_hess, "f", i).f.hess(b) for i, (a, b) in enumerate(self._owners())]
        self._total = problem.A.apply(self.x).sum(axis=0)
        if not problem.h.has_prox_jac:
            raise InputError(_MISSING.format("h", "prox_jac"))

    def _owners(self) -> list[tuple[Agent, Array]]:
        return list(zip(self.problem.agents, self._blocks, strict=True))

    def _need(self, ok: bool, role: str, i: int) -> Agent:
        agent = self.problem.agents[i]
        if not (ok and agent.g.has_prox_jac):
            raise InputError(
                _MISSING.format(f"{role if not ok else 'g'} of agent {i}", "hess=" if not ok else "prox_jac=")
            )
        return agent

    @property
    def exact(self) -> bool:
        """Whether the linearised iteration is the iteration itself, at every point."""
        problem = self.problem
        smooth = problem.f.is_quadratic and (problem.g.is_zero or problem.g.is_quadratic)
        return bool(smooth and (problem.h.is_point or problem.h.is_quadratic))

    def at(self, steps: Steps) -> Problem:
        """The linearised problem for these steps; its solution is zero."""
        t = steps.beta / self.problem.n
        q, rotation = _eigen(self.problem.h.conj_prox_jac(self.lam + t * self._total, t))
        agents = [self._agent(i, steps.alpha, rotation) for i in range(self.problem.n)]
        # prox of t h* for h = (w/2)|z|^2 is a division by 1 + t/w.
        weight = t * np.clip(q, 1.0 / _LARGE, None) / np.clip(1.0 - q, 1.0 / _LARGE, None)
        return Problem(agents, fn.SquaredLoss(np.zeros(self.problem.p), weight))

    def _agent(self, i: int, alpha: float, rotation: Array | None) -> Agent:
        agent, x = self.problem.agents[i], self._blocks[i]
        A = agent.A
        if not x.size:
            return agent
        share, turn = _eigen(agent.g.prox_jac(x - alpha * self._forces[i], alpha))
        H = self._hessians[i]
        if rotation is not None:
            A = rotation.T @ dense_block(A)
        if turn is not None:
            A, H = dense_block(A) @ turn, turn.T @ (np.diag(H) if H.ndim == 1 else H) @ turn
        # prox of alpha g for g = (w/2)|x|^2 is a division by 1 + alpha w.
        weight = np.clip((1.0 - share) / np.clip(share, 1.0 / _LARGE, None) / alpha, 0.0, _LARGE)
        g = fn.Zero() if not weight.any() else fn.ElasticNet(0.0, weight)
        return Agent(A, _quadratic(H), g, agent.name)


_MISSING = (
    "the spectral rate needs second derivatives, which {0} does not have; use method='search', or give its fn.Custom "
    "{1}..."
)


def _quadratic(H: Array) -> fn.Function:
    """x.Hx/2; curvature that vanishes stays exactly zero."""
    if H.ndim == 2:
        return fn.Quadratic(0.5 * (H + H.T))
    if (H > 0.0).all():
        return fn.SquaredNorm(H)
    return fn.Zero() if not H.any() else fn.Quadratic(np.diag(H))


def _eigen(jacobian: Array) -> tuple[Array, Array | None]:
    """Eigenvalues within [0, 1] and, for a matrix, its eigenvectors."""
    if jacobian.ndim == 1:
        return np.clip(jacobian, 0.0, 1.0), None
    values, vectors = np.linalg.eigh(0.5 * (jacobian + jacobian.T))
    # Rounding must not turn the eigenvalue 1 of a free direction into one that decays.
    values = np.where(np.abs(values - np.round(values)) < 1e-12, np.round(values), values)
    return np.clip(values, 0.0, 1.0), vectors
