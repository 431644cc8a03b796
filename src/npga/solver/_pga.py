"""The centralised primal-dual proximal gradient method, equation (pga) of Li and Su (2024).

    x+   = prox_{alpha g}(x - alpha (grad f(x) + A^T lam))
    lam+ = prox_{beta h*}(lam + beta A (x+ + theta (x+ - x))),      A x = sum_i A_i x_i

with one lam in R^p that everybody knows. It needs A x in one place, so it is no decentralised method: no version of
NPGA is expected to need fewer iterations, and it is the floor of every comparison in iterations.

For theta = 1 it is the method of Condat and Vu, which converges where 1/alpha - beta |A|^2 >= l/2 (Condat 2013,
Theorem 3.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from npga.errors import InputError
from npga.networks import Network
from npga.networks import version as find_version
from npga.problem import Problem
from npga.solver._compiled import CompiledNpga
from npga.solver._loop import Iterate, Method
from npga.solver._packing import UnsupportedError, parts
from npga.solver._recursion import State, alpha_of
from npga.steps import Steps

Array = NDArray[Any]


class Pga(Method[Iterate]):
    """The centralised method; the network is not used, and nothing is sent.

    Parameters
    ----------
    problem, network
        What to solve; the network that it is compared on.
    steps
        alpha, beta and theta; there is no gamma.
    """

    name = "pga"
    kind = Iterate

    def __init__(self, problem: Problem, network: Network, steps: Steps) -> None:
        if steps.gamma != Steps.gamma:
            raise InputError(f"pga has no gamma, but gamma = {steps.gamma:g} arrived; leave it out")
        self.problem, self.network = problem, network
        self.steps: Steps = steps
        self._alpha = alpha_of(problem, steps)

    def start(self, x0: Array, lam0: Array) -> Iterate:
        """The state before the first iteration; of several rows of lam0 the mean is taken."""
        lam = lam0.mean(axis=0, keepdims=True)
        return Iterate(x0, lam, np.zeros_like(lam))

    def _iterate(self, state: Iterate) -> Iterate:
        problem = self.problem
        alpha, beta, theta = self._alpha, self.steps.beta, self.steps.theta
        pull = problem.A.adjoint(np.broadcast_to(state.lam, (problem.n, problem.p)))
        x = problem.g.prox(state.x - alpha * (problem.f.grad(state.x) + pull), alpha)
        ahead = problem.A.apply(x + theta * (x - state.x)).sum(axis=0)
        lam = problem.h.conj_prox(state.lam[0] + beta * ahead, beta)[None]
        return replace(state, x=x, lam=lam, lam_prev=state.lam, iteration=state.iteration + 1)

    def blame(self) -> str:
        """The step that is furthest beyond the limit of Condat and Vu."""
        steps, problem = self.steps, self.problem
        norm = coupling_norm(problem)
        name = "alpha" if problem.l > steps.beta * norm**2 else "beta"
        return (
            f"The iterates grow without bound: reduce {name} (now {steps.text()}); with theta = 1 they converge where "
            f"1/alpha - beta |A|^2 >= l/2, here l = {problem.l:.3g} and |A| = {norm:.3g}."
        )


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
        zero = np.zeros_like(state.lam)  # of the lone agent, whose u and v are not read
        own = State(state.x, state.lam, state.lam_prev, v=zero, u=zero, iteration=state.iteration)
        after = self.lone.advance(own, iterations)
        return replace(state, x=after.x, lam=after.lam, lam_prev=after.lam_prev, iteration=after.iteration)


def safe_steps(problem: Problem) -> Steps:
    """Steps on the limit of Condat and Vu, for a problem of which nothing else is known.

    With alpha = 1/l it leaves beta = l/(2 |A|^2); where f has no curvature, alpha = beta = 1/|A|.
    """
    norm = 1.00001 * coupling_norm(problem) or 1.0
    if 0.0 < problem.l < np.inf:
        return Steps(1.0 / problem.l, 0.5 * problem.l / norm**2, theta=1.0)
    return Steps(1.0 / norm, 1.0 / norm, theta=1.0)


def coupling_norm(problem: Problem) -> float:
    """|A|, the largest singular value of [A_1, ..., A_n], to six digits."""
    A, n, p = problem.A, problem.n, problem.p

    def gram(z: Array) -> Array:
        return np.asarray(A.apply(A.adjoint(np.broadcast_to(np.ravel(z), (n, p)))).sum(axis=0))

    start = np.random.default_rng(0).standard_normal(p)
    if p == 1 or not gram(start).any():
        return float(np.sqrt(np.abs(gram(np.ones(p))[0])))
    operator = LinearOperator((p, p), matvec=gram, dtype=np.float64)
    return float(np.sqrt(eigsh(operator, k=1, v0=start, tol=1e-6, return_eigenvectors=False)[0]))
