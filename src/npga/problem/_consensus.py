"""Problem P2 of Li and Su (2024): agents agree on one x.

    min over x in R^m of  sum_i phi_i(x) + g(x)

Agent i alone knows phi_i; g is known to all. It is the problem that the ancestors of NPGA solve (Table I of the paper),
and it is P1 with a copy x_i of x for each agent and an equality between consecutive copies:

    f_i = phi_i,   g_i = g/n,   h = indicator of 0,   row k of  sum_i A_i x_i  is  x_k - x_(k+1),  k = 1, ..., n-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from npga.errors import ProblemError
from npga.functions import Equality, Function, Zero
from npga.networks import Network
from npga.problem._problem import Agent, Problem

Array = NDArray[Any]


class ConsensusProblem:
    """Problem P2, min over one x for all agents of sum_i phi_i(x) + g(x).

    Parameters
    ----------
    functions
        phi_1, ..., phi_n, one for each node of the network; each needs a gradient.
    g
        A common term with a proximal operator; zero by default.
    m
        Number of variables; needed only where no function knows its own.

    Attributes
    ----------
    n, m
        Numbers of agents and of variables.
    """

    def __init__(self, functions: Sequence[Function], g: Function | None = None, m: int | None = None) -> None:
        functions, g = tuple(functions), Zero() if g is None else g
        if not functions:
            raise ProblemError("no functions arrived; expected one for each agent")
        for i, phi in enumerate(functions):
            if not isinstance(phi, Function) or not phi.has_grad:
                raise ProblemError(f"functions[{i}] is {phi!r}; expected a function of npga.functions with a gradient")
        if not isinstance(g, Function) or not g.has_prox:
            raise ProblemError(f"g is {g!r}; expected a function of npga.functions with a proximal operator")
        sizes = {size for size in (m, g.dim, *(phi.dim for phi in functions)) if size is not None}
        if len(sizes) != 1:
            said = "no function says how many variables it has" if not sizes else f"they have {sorted(sizes)} variables"
            raise ProblemError(f"{said}; expected one number m for all: pass m=")
        self.functions, self.g, self.m = functions, g, int(sizes.pop())

    def __repr__(self) -> str:
        return f"ConsensusProblem(n={self.n}, m={self.m}, g={self.g!r})"

    @property
    def n(self) -> int:
        """Number of agents."""
        return len(self.functions)

    @property
    def L(self) -> float:
        """Largest smoothness constant of the phi_i."""
        return max(phi.L for phi in self.functions)

    def expect(self, network: Network, steady: bool = True) -> None:
        """Refuse a network that does not have one node for each agent, or changes where it must not."""
        self.p1.expect(network, steady)

    def objective(self, x: ArrayLike) -> float:
        """sum_i phi_i(x) + g(x) at one point."""
        point = self.point(x)
        return float(sum(phi(point) for phi in self.functions) + self.g(point))

    def point(self, x: ArrayLike, name: str = "x") -> Array:
        """One point of R^m, checked."""
        point = np.array(x, dtype=np.float64)
        if point.shape != (self.m,) or not np.isfinite(point).all():
            raise ProblemError(f"{name} is {point!r}; expected {self.m} finite numbers")
        return point

    def gradients(self, X: Array) -> Array:
        """Rows grad phi_i(X_i), for an n x m array of the agents' copies."""
        return np.stack([phi.grad(row) for phi, row in zip(self.functions, X, strict=True)])

    def residual(self, X: Array, floor: float = 0.0) -> tuple[float, float, float]:
        """How far the agents are from a solution of P2: stationarity of the mean, disagreement, and the step moved.

        With xm the mean of the rows and s = 1/sum_i L_i, stationarity is |xm - prox_{s g}(xm - s sum_i grad phi_i(xm))|
        relative to max(|xm|, s sum_i |grad phi_i(xm)|, floor), disagreement |X - xm| relative to max(|X|, floor).
        """
        mean = X.mean(axis=0)
        total = sum(phi.L for phi in self.functions)
        s = 1.0 / total if 0.0 < total < np.inf else 1.0
        slopes = self.gradients(np.broadcast_to(mean, X.shape))
        moved = float(np.linalg.norm(mean - self.g.prox(mean - s * slopes.sum(axis=0), s)))
        scale = max(float(np.linalg.norm(mean)), s * float(np.linalg.norm(slopes, axis=1).sum()), floor)
        spread, size = float(np.linalg.norm(X - mean)), max(float(np.linalg.norm(X)), floor)
        return moved / scale if scale else moved, spread / size if size else spread, moved

    @cached_property
    def p1(self) -> Problem:
        """The same problem as P1, for NPGA: copies x_i that are equal along the chain 1, 2, ..., n."""
        n, m = self.n, self.m
        rows = max(n - 1, 1)
        chain = sparse.diags_array([np.ones(rows), -np.ones(n - 1)], offsets=[0, 1], shape=(rows, n)).tocsc()
        if n == 1:
            chain = sparse.csc_array((1, 1))
        agents = []
        for i, phi in enumerate(self.functions):
            A = sparse.kron(chain[:, [i]], sparse.eye_array(m), format="csr")
            agents.append(Agent(A=A, f=phi, g=self.g if self.g.is_zero else self.g.scale(1.0 / n)))
        return Problem(agents, Equality(np.zeros(rows * m)))


def expect_p1(problem: object) -> None:
    """Refuse what is not problem P1, such as a `ConsensusProblem`."""
    if not isinstance(problem, Problem):
        same = "; its p1 is the same problem in that form" if isinstance(problem, ConsensusProblem) else ""
        kind = type(problem).__name__
        raise ProblemError(f"problem is a {kind}; expected npga.Problem(agents=[...], h=...){same}")
