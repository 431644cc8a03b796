"""What the theorems need to know about the problem."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from npga.functions import Custom
from npga.problem import Problem
from npga.theory._curve import Curve
from npga.theory._rank import Fact, FloatArray, row_rank
from npga.theory._saddle import saddle_point

_LARGEST_CURVE = 400  # largest p for which p x p matrices are decomposed again and again
_DENSE_A = 2 * 10**7  # largest number of entries of A = [A_1 ... A_n] that is formed (160 MB)


@dataclass(frozen=True)
class ProblemFacts:
    """Constants of problem P1.

    Attributes
    ----------
    n, p, d
        Numbers of agents, of coupling rows and of variables.
    mu, l, sigma
        Strong convexity and smoothness of f, largest singular value of diag(A_1, ..., A_n).
    flattest, roughest
        Names of the agents with the smallest mu_i and the largest l_i.
    g_is_zero, g_owner
        Whether every g_i = 0; otherwise the first agent for which it is not.
    h, h_L, h_is_point
        Text, smoothness constant and kind of the coupling function.
    rank
        Whether A = [A_1 ... A_n] has full row rank; the margin is the smallest eigenvalue of A A^T.
    saddle
        Whether a saddle point exists (Assumption 1).
    declared
        Which functions are the user's own, so that their facts are taken on trust.
    A
        The p x d matrix A, when it is small enough to be formed.
    offsets
        Where the columns of each agent begin in A, and where the last one ends.
    curve
        The function g of `npga.theory._curve`, when A has full row rank and is small enough to be formed.
    """

    n: int
    p: int
    d: int
    mu: float
    l: float  # noqa: E741
    sigma: float
    flattest: str
    roughest: str
    g_is_zero: bool
    g_owner: str
    h: str
    h_L: float
    h_is_point: bool
    rank: Fact
    saddle: Fact
    declared: tuple[str, ...] = ()
    A: FloatArray | None = field(default=None, repr=False, compare=False)
    offsets: tuple[int, ...] = field(default=(), repr=False)
    curve: Curve | None = field(default=None, repr=False, compare=False)

    @property
    def eta(self) -> float:
        """Smallest eigenvalue of A A^T = sum_i A_i A_i^T, or a lower bound; 0 when it is not known to be positive."""
        return self.rank.margin if self.rank.holds else 0.0


def problem_facts(problem: Problem) -> ProblemFacts:
    """Read the facts off a problem."""
    owners = [i for i in range(problem.n) if problem.sizes[i]]
    title = {i: _title(problem, i) for i in range(problem.n)}
    flattest = min(owners, key=lambda i: problem.agents[i].f.mu, default=None)
    roughest = max(owners, key=lambda i: problem.agents[i].f.L, default=None)
    occupied = [i for i in owners if not problem.agents[i].g.is_zero]
    A = _dense(problem)
    rank = row_rank(problem, A)
    sigma = _sigma(problem, A)
    return ProblemFacts(
        n=problem.n,
        p=problem.p,
        d=problem.d,
        mu=problem.mu,
        l=problem.l,
        sigma=sigma,
        flattest="no agent" if flattest is None else title[flattest],
        roughest="no agent" if roughest is None else title[roughest],
        g_is_zero=not occupied,
        g_owner=title[occupied[0]] if occupied else "",
        h=repr(problem.h),
        h_L=problem.h.L,
        h_is_point=problem.h.is_point,
        rank=rank,
        saddle=saddle_point(problem, rank, A),
        declared=_declared(problem, title),
        A=A,
        offsets=tuple(int(k) for k in problem.A.offsets),
        curve=_curve(problem, A, rank, sigma),
    )


def _curve(problem: Problem, A: FloatArray | None, rank: Fact, sigma: float) -> Curve | None:
    if A is None or not rank.holds or problem.p > _LARGEST_CURVE:
        return None
    return Curve(np.split(A, problem.A.offsets[1:-1], axis=1), rank.margin, sigma)


def _title(problem: Problem, i: int) -> str:
    name = problem.agents[i].name
    return f"agent {i}" if name is None else f"agent {i} ({name})"


def _declared(problem: Problem, title: dict[int, str]) -> tuple[str, ...]:
    found = [f"f of {title[i]}" for i, agent in enumerate(problem.agents) if isinstance(agent.f, Custom)]
    found += [f"g of {title[i]}" for i, agent in enumerate(problem.agents) if isinstance(agent.g, Custom)]
    return tuple([*found, "h"] if isinstance(problem.h, Custom) else found)


def _dense(problem: Problem) -> FloatArray | None:
    """The p x d matrix A in double precision, or None when it is large."""
    if problem.p * problem.d > _DENSE_A:
        return None
    return np.hstack([_block(block) for block in problem.A.blocks]) if problem.d else np.zeros((problem.p, 0))


def _block(block: object) -> FloatArray:
    if isinstance(block, LinearOperator):
        return np.asarray(block @ np.eye(block.shape[1]), dtype=np.float64)
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)  # type: ignore[attr-defined]


def _sigma(problem: Problem, A: FloatArray | None) -> float:
    """Largest sigma_max(A_i). Lanczos approaches it from below, so operators are formed where they are small."""
    if A is None or not any(isinstance(block, LinearOperator) for block in problem.A.blocks):
        return problem.sigma
    blocks = np.split(A, problem.A.offsets[1:-1], axis=1)
    return max((float(np.linalg.norm(block, 2)) for block in blocks if block.size), default=0.0)
