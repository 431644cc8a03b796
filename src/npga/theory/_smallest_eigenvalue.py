"""The smallest eigenvalue of E and F, exactly or from below, never from above.

Both theorems ask for the smallest eigenvalue of t D A A^T D + s H (x) I_p on R^{np}, where A = diag(A_1, ..., A_n),
H is symmetric positive semi-definite with null space span(1), D 1 = 1, and (x) is the Kronecker product:

    alpha beta E :  D = I, H = C,   s = 1/2,         t = alpha beta     (Theorems 1 and 2)
    alpha beta F :  D,     H = B^2, s = 1 - gamma,   t = alpha beta     (Theorem 3)

Up to `DENSE` rows the matrix M is formed and decomposed. Beyond that a lower bound is proved as follows. Split
z = u + w with u = (1 (x) a)/sqrt(n) and w orthogonal to all such vectors, so that H u = 0 and D u = u. With
X_u = [A_1 ... A_n]/sqrt(n) and X_w the rest of D A, the blocks of M are

    M_uu = t X_u X_u^T,    M_uw = t X_u X_w^T,    M_ww >= t X_w X_w^T + s kappa I,

kappa being the smallest nonzero eigenvalue of H. Take a number 0 < e < s kappa and put nu = s kappa - e. M >= e I if
the Schur complement M_uu - M_uw (M_ww - e)^{-1} M_wu is at least e I, and by the push-through identity it is at least

    t X_u (I - Y (Y + nu)^{-1}) X_u^T = t X_u nu (Y + nu)^{-1} X_u^T,     Y = t X_w^T X_w <= t tau^2 diag(A_i^T A_i),

with tau = sigma(D off 1), hence at least (t/n) sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T with x = t tau^2/nu. So

    eta_min(M) >= e   whenever   (t/n) g(x) >= e,       g(x) = eta_min( sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T ).

The left side falls with e, so the best e is found by bisection, at the price of a few p x p decompositions that all
steps share, and of nothing of size np. Where p is too large for that, g(x) >= eta_min(A A^T)/(1 + x sigma^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

if TYPE_CHECKING:
    from npga.theory._problem_facts import ProblemFacts

FloatArray: TypeAlias = npt.NDArray[np.float64]

DENSE = 1200  # largest np for which the np x np matrix is formed: 12 MB, a fraction of a second
_CACHE = 4
_HALVINGS = 30  # of the interval that holds the bound: nine digits
_PER_OCTAVE = 4  # grid points for each doubling of x: the chord is then below the graph by less than 0.4 percent
_SMALL, _LARGE = 1e-3, 1e6  # of x sigma^2: outside, g >= eta/(1 + x sigma^2) and G >= G(end) are used


class Eigenvalue(NamedTuple):
    """A smallest eigenvalue: its value, and whether it is exact or a proved lower bound."""

    value: float
    exact: bool


SmallestEigenvalue: TypeAlias = Callable[[float, float], Eigenvalue]
"""(t, s) -> smallest eigenvalue of t D A A^T D + s H (x) I."""


def schur_bound(problem: ProblemFacts, kappa: float, tau: float) -> SmallestEigenvalue:
    """The proved lower bound, as a function of (t, s).

    Parameters
    ----------
    problem
        For n, eta_min(A A^T), sigma and the function g.
    kappa
        Smallest nonzero eigenvalue of H, or a lower bound.
    tau
        Largest singular value of D off the vector of ones, or an upper bound.
    """
    square = problem.sigma**2

    def g(x: float) -> float:
        return problem.eta / (1.0 + x * square) if problem.curve is None else problem.curve(x)

    def bound(t: float, s: float) -> Eigenvalue:
        if problem.n == 1:  # nothing is orthogonal to ones
            return Eigenvalue(t * problem.eta, True)
        if not s * kappa > 0.0:
            return Eigenvalue(0.0, False)
        low, high = 0.0, min(t * problem.eta / problem.n, s * kappa)
        for _ in range(_HALVINGS):
            e = (low + high) / 2.0
            holds = t / problem.n * g(t * tau * tau / (s * kappa - e)) >= e
            low, high = (e, high) if holds else (low, e)
        return Eigenvalue(low, False)

    return bound


def decomposed(problem: ProblemFacts, H: FloatArray, D: FloatArray, bound: SmallestEigenvalue) -> SmallestEigenvalue:
    """The eigenvalue itself, as a function of (t, s); `bound` takes over where rounding would spoil it."""
    n, p = problem.n, problem.p
    assert problem.A is not None
    blocks = np.split(problem.A, problem.offsets[1:-1], axis=1)
    DA = np.hstack([np.kron(D[:, [i]], block) for i, block in enumerate(blocks)])  # D (x) I times diag(A_i)
    P, Q = DA @ DA.T, np.kron(H, np.eye(p))

    @lru_cache(maxsize=_CACHE)
    def least(t: float, s: float) -> Eigenvalue:
        M = t * P + s * Q
        value = float(eigh(M, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0])
        rounding = n * p * float(np.finfo(float).eps) * float(np.abs(M).sum(axis=1).max())
        # What rounding may have made of a tiny eigenvalue is no promise; the bound is free of cancellation.
        return Eigenvalue(value, True) if value > 1e3 * rounding else bound(t, s)

    return least


class CouplingCurve:
    """How strongly the agents couple when those that disagree may move: lower bounds on g, each computed once.

        g(x) = eta_min( sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T ),     x >= 0,

    a p x p matrix. g(0) = eta_min(A A^T) and g falls with x. Every term of x A_i (I + x A_i^T A_i)^{-1} A_i^T is a
    concave and increasing function of x in the order of symmetric matrices (its eigenvalues are x s^2/(1 + x s^2)),
    and eta_min is concave and increasing too, so G(x) = x g(x) is concave and increasing. Hence the chord between two
    points of its graph lies below the graph: with g computed on a grid, linear interpolation of G is a proved lower
    bound, and one matrix decomposition per grid point serves all steps of all theorems.

    Parameters
    ----------
    blocks
        The matrices A_i, dense.
    eta
        Smallest eigenvalue of A A^T, or a lower bound.
    sigma
        Largest singular value of the A_i.
    """

    def __init__(self, blocks: list[FloatArray], eta: float, sigma: float) -> None:
        self._blocks, self._eta, self._square = blocks, eta, sigma * sigma
        self._factors: tuple[FloatArray, FloatArray] | None = None
        self._known: dict[int, float] = {}

    def __call__(self, x: float) -> float:
        """A number that is at most g(x), and close to it."""
        scaled = x * self._square
        simple = self._eta / (1.0 + scaled)  # because A_i^T A_i <= sigma^2 I
        if scaled <= _SMALL:
            return simple
        position = _PER_OCTAVE * math.log2(min(scaled, _LARGE))
        low, high = math.floor(position), math.ceil(position)
        a, b = self._grid(low), self._grid(high)
        if scaled >= _LARGE or low == high:
            return max(simple, self._product(low) / x)
        weight = (x - a) / (b - a)
        return max(simple, ((1.0 - weight) * self._product(low) + weight * self._product(high)) / x)

    def _grid(self, k: int) -> float:
        return float(2.0 ** (k / _PER_OCTAVE)) / self._square

    def _product(self, k: int) -> float:
        """A lower bound on G = x g(x) at a grid point: the computed eigenvalue less what rounding may have added."""
        if k not in self._known:
            if self._factors is None:
                parts = [np.linalg.svd(block, full_matrices=False)[:2] for block in self._blocks if block.size]
                self._factors = np.hstack([u for u, _ in parts]), np.concatenate([s for _, s in parts]) ** 2
            U, squares = self._factors
            x = self._grid(k)
            M = (U * (x * squares / (1.0 + x * squares))) @ U.T
            values = np.linalg.eigvalsh(M)
            self._known[k] = max(float(values[0] - 4.0 * U.shape[1] * np.finfo(float).eps * values[-1]), 0.0)
        return self._known[k]
