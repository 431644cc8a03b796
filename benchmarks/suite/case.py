"""What a case of the suite is, and the one way to ask cvxpy for its answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import npga


@dataclass(frozen=True)
class Solution:
    """What an independent solver says: primal x, dual lam (lam in dh(A x)), objective, and who said it."""

    x: Any
    lam: Any
    objective: float
    by: str


@dataclass(frozen=True)
class Instance:
    """A problem on a network, and how to ask somebody else for its solution.

    Parameters
    ----------
    problem, network
        What `npga.solve` is given.
    solve
        Asks the independent solver.
    unique
        Whether x is unique, so that it can be compared.
    constant
        Added to the problem's objective it gives the independent one (costs whose constant term P1 leaves out).
    """

    problem: npga.Problem
    network: npga.Network
    solve: Callable[[], Solution]
    unique: bool = True
    constant: float = 0.0

    def objective(self, x: Any) -> float:
        """f + g + h at x without the indicators, whose violation is measured apart, plus the constant."""
        total = self.constant
        for agent, block in zip(self.problem.agents, self.problem.split(np.asarray(x)), strict=True):
            if block.size:
                total += float(agent.f(block)) + (0.0 if agent.g.is_indicator else float(agent.g(block)))
        if not self.problem.h.is_indicator:
            total += _finite_part(self.problem.h, self.coupling(x))
        return total

    def coupling(self, x: Any) -> Any:
        """sum_i A_i x_i."""
        return self.problem.A.apply(np.asarray(x)).sum(axis=0)

    def violation(self, x: Any) -> float:
        """Largest distance of x and of sum_i A_i x_i from the indicators' sets, relative to their size.

        The coupling is measured against max(|z|, max_i |A_i x_i|) in its own row, because a sum of large terms may
        be small.
        """
        x = np.asarray(x)
        rows = self.problem.A.apply(x)
        z, scale = rows.sum(axis=0), np.abs(rows).sum(axis=0).max() + np.abs(rows).sum(axis=0)
        worst = [0.0]
        outside = _outside(self.problem.h, z)
        worst.append(float((outside / np.maximum(scale, 1e-300)).max()))
        size = np.abs(x).max(initial=0.0) or 1.0
        for agent, block in zip(self.problem.agents, self.problem.split(x), strict=True):
            if block.size and agent.g.is_indicator:
                worst.append(float(np.abs(block - agent.g.prox(block, 1.0)).max() / size))
        return max(worst)


@dataclass(frozen=True)
class Case:
    """A named problem; `build(seed)` is deterministic, and the seed draws what is random about it.

    Parameters
    ----------
    name
        Family, data and network, in short.
    source
        Where the data come from.
    make
        Seed -> instance.
    drawn
        Whether the seed changes the instance (a random graph or synthetic data); otherwise it only reaches
        `npga.solve`.
    large
        Left out by `--quick`.
    """

    name: str
    source: str
    make: Callable[[int], Instance]
    drawn: bool = False
    large: bool = False

    def build(self, seed: int = 0) -> Instance:
        """The instance for a seed."""
        return self.make(seed)

    @property
    def family(self) -> str:
        """First word of the name."""
        return self.name.split("-")[0]


def _parts(function: Any, values: Any) -> list[tuple[Any, slice]]:
    """The blocks of a stacked function, or the function itself on everything."""
    if not hasattr(function, "parts"):
        return [(function, slice(None))]
    ends = np.cumsum(function.sizes)
    assert ends[-1] == values.size
    return [
        (part, slice(end - size, end)) for part, size, end in zip(function.parts, function.sizes, ends, strict=True)
    ]


def _finite_part(function: Any, z: Any) -> float:
    return sum(float(part(z[block])) for part, block in _parts(function, z) if not part.is_indicator)


def _outside(function: Any, z: Any) -> Any:
    """|z - projection| where the function is an indicator, 0 elsewhere."""
    distance = np.zeros_like(z)
    for part, block in _parts(function, z):
        if part.is_indicator:
            distance[block] = np.abs(z[block] - part.prox(z[block], 1.0))
    return distance


def stacked(problem: npga.Problem) -> Any:
    """[A_1, ..., A_n] as one dense matrix."""
    return np.hstack([npga.problem.dense_block(agent.A) for agent in problem.agents])


def by_clarabel(A: Any, pose: Callable[[Any, Any], tuple[Any, list[Any]]]) -> Solution:
    """Minimise what `pose(x, z)` returns, an expression and constraints, subject to A x = z.

    The multiplier of A x - z = 0 is lam: stationarity in z reads lam in dh(z).
    """
    import cvxpy as cp

    x, z = cp.Variable(A.shape[1]), cp.Variable(A.shape[0])
    objective, constraints = pose(x, z)
    link = A @ x - z == 0
    program = cp.Problem(cp.Minimize(objective), [link, *constraints])
    for tol in (1e-13, 1e-11, 1e-9):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": then the next tolerance is asked for
            program.solve(
                solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol, max_iter=500,
                iterative_refinement_reltol=1e-15, iterative_refinement_abstol=1e-15, iterative_refinement_max_iter=50,
            )  # fmt: skip
        if program.status == "optimal":
            return Solution(x.value, link.dual_value, float(program.value), "cvxpy, Clarabel")
    raise RuntimeError(f"Clarabel ended with {program.status}")
