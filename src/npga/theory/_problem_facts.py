"""What the theorems need to know about the problem: curvature, rank of A, and whether a saddle point exists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from npga.functions import Custom, Function, SeparableSum
from npga.problem import Problem, dense_block
from npga.theory._smallest_eigenvalue import CouplingCurve

FloatArray: TypeAlias = npt.NDArray[np.float64]

_LARGEST_CURVE = 400  # largest p for which p x p matrices are decomposed again and again
_DENSE_A = 2 * 10**7  # largest number of entries of A = [A_1 ... A_n] that is formed (160 MB)
_DENSE_GRAM = 4000  # largest p whose p x p Gram matrix is decomposed
# Work p^2 d up to which singular values are computed at once, and up to which they decide what the Gram matrix cannot.
_SMALL, _LARGEST_SVD = 10**8, 2 * 10**10
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Fact:
    """A yes, no or unknown (None), a margin, and a sentence."""

    holds: bool | None
    margin: float
    reason: str


class Convexity(NamedTuple):
    """Strong convexity mu and smoothness l of f, and the names of the agents whose f has them."""

    mu: float
    l: float  # noqa: E741
    flattest: str
    roughest: str

    def words(self, prime: bool = False) -> str:
        """Both numbers, each with its agent; with a prime after a change of variables."""
        mark = "'" if prime else ""
        return f"mu{mark} = {self.mu:.6g} ({self.flattest}), l{mark} = {self.l:.6g} ({self.roughest})"


@dataclass(frozen=True)
class ProblemFacts:
    """Constants of problem P1, after a change of variables where each agent has an alpha of its own."""

    n: int  # agents
    p: int  # coupling rows
    d: int  # variables
    mu: float  # strong convexity of f
    l: float  # smoothness of f  # noqa: E741
    sigma: float  # largest singular value of diag(A_1, ..., A_n)
    flattest: str  # name of the agent with the smallest mu_i
    roughest: str  # name of the agent with the largest l_i
    g_is_zero: bool  # whether every g_i = 0
    g_owner: str  # otherwise the first agent for which it is not
    h: str  # the coupling function as text
    h_L: float
    h_is_point: bool
    rank: Fact  # whether A = [A_1 ... A_n] has full row rank; the margin is the smallest eigenvalue of A A^T
    saddle: Fact  # whether a saddle point exists (Assumption 1)
    eta: float  # smallest nonzero eigenvalue of A A^T = sum_i A_i A_i^T, or a lower bound; 0 when none is known
    declared: tuple[str, ...] = ()  # functions of the user's own, whose facts are taken on trust
    unscaled: Convexity | None = None  # before the change of variables, where there was one
    # A on an orthonormal basis of its range, r x d with r its rank, when it is small enough to be formed. For full row
    # rank that is A itself.
    A: FloatArray | None = field(default=None, repr=False, compare=False)
    offsets: tuple[int, ...] = field(default=(), repr=False)  # where each agent's columns of A begin, and their end
    curve: CouplingCurve | None = field(default=None, repr=False, compare=False)  # g, when A can be formed

    @property
    def convexity(self) -> Convexity:
        """What is known of f."""
        return Convexity(self.mu, self.l, self.flattest, self.roughest)


def problem_facts(problem: Problem, scales: Sequence[float] | None = None) -> ProblemFacts:
    """Read the facts off a problem, after the change of variables x_i = scales[i] x_i' where scales are given.

    Then A_i' = s_i A_i, mu_i' = s_i^2 mu_i and l_i' = s_i^2 l_i, and g_i' is zero or convex where g_i is.
    """
    s = np.ones(problem.n) if scales is None else np.asarray(scales, dtype=np.float64)
    scaled = bool((s != 1.0).any())
    f = _convexity(problem, s)
    occupied = [i for i in range(problem.n) if problem.sizes[i] and not problem.agents[i].g.is_zero]
    A = _dense(problem, s)
    sigma = _sigma(problem, A, s)
    rank = row_rank(problem, A, s, "after scaling by the alphas A' A'^T" if scaled else "A A^T")
    reduced, eta = _on_its_range(A, rank)
    curve = None
    if reduced is not None and eta > 0.0 and len(reduced) <= _LARGEST_CURVE:
        curve = CouplingCurve(np.split(reduced, problem.A.offsets[1:-1], axis=1), eta, sigma)
    return ProblemFacts(
        n=problem.n,
        p=problem.p,
        d=problem.d,
        mu=f.mu,
        l=f.l,
        sigma=sigma,
        flattest=f.flattest,
        roughest=f.roughest,
        g_is_zero=not occupied,
        g_owner=problem.title(occupied[0]) if occupied else "",
        h=repr(problem.h),
        h_L=problem.h.L,
        h_is_point=problem.h.is_point,
        rank=_told_of_both(problem, rank) if scaled else rank,
        saddle=saddle_point(problem, rank, A),
        eta=eta,
        declared=_declared(problem),
        unscaled=_convexity(problem, np.ones(problem.n)) if scaled else None,
        A=reduced,
        offsets=tuple(int(k) for k in problem.A.offsets),
        curve=curve,
    )


def _convexity(problem: Problem, s: FloatArray) -> Convexity:
    """The smallest s_i^2 mu_i and the largest s_i^2 l_i among the agents that have variables."""
    owners = [i for i in range(problem.n) if problem.sizes[i]]
    if not owners:
        return Convexity(0.0, 0.0, "no agent", "no agent")
    mu = {i: float(s[i] ** 2 * problem.agents[i].f.mu) for i in owners}
    l = {i: float(s[i] ** 2 * problem.agents[i].f.L) for i in owners}  # noqa: E741
    flattest, roughest = min(owners, key=mu.__getitem__), max(owners, key=l.__getitem__)
    return Convexity(mu[flattest], l[roughest], problem.title(flattest), problem.title(roughest))


def _told_of_both(problem: Problem, rank: Fact) -> Fact:
    """The rank of A' = [s_1 A_1 ... s_n A_n], which is that of A, told of A too where that takes a moment."""
    if problem.p**2 * problem.d > _SMALL:
        return rank
    ones = np.ones(problem.n)
    plain = row_rank(problem, _dense(problem, ones), ones).reason
    same = plain == rank.reason  # nothing in it was scaled
    return rank if same else replace(rank, reason=f"{plain}; {rank.reason}")


def _on_its_range(A: FloatArray | None, rank: Fact) -> tuple[FloatArray | None, float]:
    """A on an orthonormal basis of its range, and its smallest nonzero singular value squared."""
    if rank.holds or A is None or min(A.shape) ** 2 * max(A.shape) > _LARGEST_SVD:
        return A, rank.margin if rank.holds else 0.0
    U, values, _ = np.linalg.svd(A, full_matrices=False)
    r = int(np.sum(values > 4.0 * max(A.shape) * _EPS * values.max(initial=0.0)))
    return U[:, :r].T @ A, float(values[r - 1]) ** 2 if r else 0.0


def _declared(problem: Problem) -> tuple[str, ...]:
    found = [f"f of {problem.title(i)}" for i, agent in enumerate(problem.agents) if isinstance(agent.f, Custom)]
    found += [f"g of {problem.title(i)}" for i, agent in enumerate(problem.agents) if isinstance(agent.g, Custom)]
    return tuple([*found, "h"] if isinstance(problem.h, Custom) else found)


def _dense(problem: Problem, s: FloatArray) -> FloatArray | None:
    """The p x d matrix [s_1 A_1 ... s_n A_n] in double precision, or None when it is large."""
    if problem.p * problem.d > _DENSE_A:
        return None
    if not problem.d:
        return np.zeros((problem.p, 0))
    return np.hstack([scale * dense_block(block) for scale, block in zip(s, problem.A.blocks, strict=True)])


def _sigma(problem: Problem, A: FloatArray | None, s: FloatArray) -> float:
    """Largest s_i sigma_max(A_i). Lanczos approaches it from below, so operators are formed where they are small."""
    if A is None or not any(isinstance(block, LinearOperator) for block in problem.A.blocks):
        return float((s * problem.A.norms).max())
    blocks = np.split(A, problem.A.offsets[1:-1], axis=1)
    return max((float(np.linalg.norm(block, 2)) for block in blocks if block.size), default=0.0)


def row_rank(problem: Problem, A: FloatArray | None, s: FloatArray, square: str = "A A^T") -> Fact:
    """Full row rank of A, through the smallest eigenvalue of the p x p matrix A A^T, which is called `square`."""
    p, d = problem.p, problem.d
    if d < p:
        return Fact(False, 0.0, f"A has {p} rows and only {d} columns, so its rows are dependent")
    gram = None if A is not None and p * p * d <= _SMALL else _gram(problem, A, s)
    if gram is not None:
        eigenvalues = np.linalg.eigvalsh(gram)
        least, most = float(eigenvalues[0]), float(eigenvalues[-1])
        rounding = 4.0 * d * _EPS * most
    if gram is None or least <= rounding:
        if A is None or p * p * d > _LARGEST_SVD:
            return _diagonal_dominance(problem, s, square)
        values = np.linalg.svd(A, compute_uv=False)  # twice the digits of the Gram matrix
        least, most = float(values[-1]) ** 2, float(values[0]) ** 2
        rounding = (4.0 * d * _EPS) ** 2 * most
    if least <= rounding:
        return Fact(
            False,
            0.0,
            f"{square} has eigenvalues from {least:.1e} to {most:.3g}: its rows are dependent up to rounding",
        )
    return Fact(True, least, f"{square} >= {least:.3g} I (largest eigenvalue {most:.3g})")


def _gram(problem: Problem, A: FloatArray | None, s: FloatArray) -> FloatArray | None:
    if problem.p > _DENSE_GRAM:
        return None
    if A is not None:
        return np.asarray(A @ A.T)
    gram = np.zeros((problem.p, problem.p))
    for scale, block in zip(s, problem.A.blocks, strict=True):
        square = block @ (block.T @ np.eye(problem.p)) if isinstance(block, LinearOperator) else block @ block.T
        gram += scale**2 * (square.toarray() if sparse.issparse(square) else np.asarray(square))
    return gram


def _diagonal_dominance(problem: Problem, s: FloatArray, square: str) -> Fact:
    """Gershgorin's lower bound on A A^T for sparse blocks with more rows than can be decomposed."""
    unknown = f"A has {problem.p} rows, too many to decompose, and {square} is not diagonally dominant"
    if not all(sparse.issparse(block) for block in problem.A.blocks):
        return Fact(None, 0.0, f"A has {problem.p} rows, too many to decompose A A^T")
    stacked = sparse.hstack(
        [scale * block for scale, block in zip(s, problem.A.blocks, strict=True)], format="csr"
    ).astype(np.float64)
    gram = stacked @ stacked.T
    diagonal = gram.diagonal()
    bound = float((2.0 * diagonal - np.asarray(abs(gram).sum(axis=1)).ravel()).min())
    if bound <= 4.0 * problem.d * _EPS * float(diagonal.max()):
        return Fact(None, 0.0, unknown)
    return Fact(True, bound, f"{square} >= {bound:.3g} I by Gershgorin's bound")


def saddle_point(problem: Problem, rank: Fact, A: FloatArray | None) -> Fact:
    """Assumption 1: a minimiser exists, and Slater's condition gives the multiplier.

    f + g + h(A .) is strongly convex when mu > 0, so it has a minimiser as soon as it is finite somewhere.
    Slater's condition asks for an x in relint dom g with A x in relint dom h.
    """
    g_finite = _all([_is_finite(agent.g) for agent in problem.agents if agent.A.shape[1]])
    if problem.mu + min((a.g.mu for a in problem.agents if a.A.shape[1]), default=0.0) <= 0.0:
        return Fact(None, -math.inf, "f + g is not strongly convex, so a minimiser may fail to exist")
    if _is_finite(problem.h):
        return Fact(
            True, math.inf, "Slater: h is finite everywhere, and every convex domain of g has a relative interior"
        )
    if g_finite and rank.holds:
        return Fact(True, math.inf, "Slater: g is finite everywhere and A maps onto the space in which h lives")
    if g_finite and problem.h.is_point and A is not None:
        return _consistent(problem, A)
    return Fact(
        None,
        -math.inf,
        "Slater's condition asks for x in relint dom g with A x in relint dom h, which cannot be told here",
    )


def _consistent(problem: Problem, A: FloatArray) -> Fact:
    """Whether the equality A x = b has a solution when the rows of A are dependent."""
    b = np.asarray(problem.h.prox(np.zeros(problem.p), 1.0), dtype=np.float64)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    misfit = float(np.linalg.norm(A @ x - b)) / max(float(np.linalg.norm(b)), 1e-300)
    if misfit <= 1e-12:
        return Fact(True, math.inf, f"Slater: the equality constraint has a solution (relative misfit {misfit:.1e})")
    if misfit >= 1e-6:
        return Fact(
            False, -misfit, f"the equality constraint has no solution: every x misses b by {misfit:.1e} |b| or more"
        )
    return Fact(
        None, -misfit, f"the equality constraint is missed by {misfit:.1e} |b|, neither rounding nor clearly more"
    )


def _is_finite(function: Function) -> bool | None:
    """Whether the function is finite everywhere; None when its facts do not tell."""
    if math.isfinite(function.L):
        return True
    if function.is_indicator:
        return False
    if isinstance(function, SeparableSum):
        return _all([_is_finite(part) for part in function.parts])
    inner = getattr(function, "f", None)
    if isinstance(inner, Function):  # multiples and translates
        return _is_finite(inner)
    return None if isinstance(function, Custom) else True


def _all(answers: list[bool | None]) -> bool | None:
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True
