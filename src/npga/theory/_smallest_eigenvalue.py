"""The smallest eigenvalue behind the rates of Theorems 1 to 3, exactly or from below, never from above.

All of them ask for the smallest eigenvalue of M = t D A A^T D + H (x) I on R^{nr}, where A = diag(A_1, ..., A_n) on the
range of [A_1 ... A_n], H is symmetric positive semi-definite with null space span(1), D 1 = 1, and (x) is the Kronecker
product. Up to `DENSE` rows the matrix is formed and decomposed. Beyond that a lower bound is proved as follows. Split
z = u + w with u = (1 (x) a)/sqrt(n) and w orthogonal to all such vectors, so that H u = 0 and D u = u. With
X_u = [A_1 ... A_n]/sqrt(n) and X_w the rest of D A, the blocks of M are

    M_uu = t X_u X_u^T,    M_uw = t X_u X_w^T,    M_ww >= t X_w X_w^T + kappa I,

kappa being the smallest eigenvalue of H off ones. Take a number 0 < e < kappa and put nu = kappa - e. M >= e I if
the Schur complement M_uu - M_uw (M_ww - e)^{-1} M_wu is at least e I, and by the push-through identity it is at least

    t X_u (I - Y (Y + nu)^{-1}) X_u^T = t X_u nu (Y + nu)^{-1} X_u^T,     Y = t X_w^T X_w <= t tau^2 diag(A_i^T A_i),

with tau = sigma(D off 1), hence at least (t/n) sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T with x = t tau^2/nu. So

    eta_min(M) >= e   whenever   (t/n) g(x) >= e,       g(x) = eta_min( sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T ).

The left side falls with e, so the best e is found by bisection, at the price of a few r x r decompositions that all
steps share, and of nothing of size nr. Where r is too large for that, g(x) >= eta_min(A A^T)/(1 + x sigma^2).

Directions of R^p outside the range of A (there are some only if A lacks full row rank) see H alone, so that they
contribute kappa; their mean over the agents is constant along a run, and no error (docs/theory).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from npga.networks import Network, Version
    from npga.steps import Steps
    from npga.theory._network_facts import MatrixFacts
    from npga.theory._problem_facts import ProblemFacts

FloatArray: TypeAlias = npt.NDArray[np.float64]

DENSE = 1200  # largest np for which the np x np matrix is formed: 12 MB, a fraction of a second
_HALVINGS = 30  # of the interval that holds the bound: nine digits
_PER_OCTAVE = 4  # grid points for each doubling of x: the chord is then below the graph by less than 0.4 percent
_SMALL, _LARGE = 1e-3, 1e6  # of x sigma^2: outside, g >= eta/(1 + x sigma^2) and G >= G(end) are used


class Eigenvalue(NamedTuple):
    """A smallest eigenvalue: its value, and whether it is exact or a proved lower bound."""

    value: float
    exact: bool


@dataclass(frozen=True)
class Joined:
    """The problem's matrices and the network's, joined once for all values of beta."""

    problem: ProblemFacts
    network: Network
    version: Version
    decompose: bool = True

    @cached_property
    def matrices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """B^2, C and D, dense; where they contain beta, at beta = 1."""
        B2, C, D = (matrix.toarray() for matrix in self.version.matrices(self.network, 1.0))
        return B2, C, D

    @property
    def _is_small(self) -> bool:
        """Whether the np x np matrix is formed; else dense n x n matrices, 800 MB each at n = 10^4, are not either."""
        A = self.problem.A
        return self.decompose and A is not None and self.problem.n * len(A) <= DENSE

    @cached_property
    def plain(self) -> JointEigenvalue:
        """With I in the place of D."""
        return JointEigenvalue(self.problem, np.eye(self.problem.n) if self._is_small else None)

    @cached_property
    def mixed(self) -> JointEigenvalue:
        """With D."""
        return JointEigenvalue(self.problem, self.matrices[2] if self._is_small else None)


@dataclass(frozen=True)
class Constants:
    """What the formulas of the theorems are made of, for one value of beta."""

    problem: ProblemFacts
    facts: MatrixFacts
    joined: Joined
    beta: float

    @property
    def _matrices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        B2, C, D = self.joined.matrices
        return (self.beta * B2, self.beta * C, D) if self.joined.version.times_beta else (B2, C, D)

    @property
    def _tau(self) -> float:
        return min(self.facts.sigma_D, 1.0)

    def with_C(self, t: float, e: float, f: float = 0.0) -> Eigenvalue:
        """Smallest eigenvalue of t A A^T + e C - f C^2."""
        low, high = self.facts.C.low, self.facts.C.high
        kappa = min(low * (e - f * low), high * (e - f * high)) if low <= high else math.inf  # concave in between
        H = None
        if self.joined.plain.decomposes:
            C = self._matrices[1]
            H = e * C - f * (C @ C)
        return self.joined.plain(t, kappa, 1.0, H)

    def with_B2(self, t: float, weight: float) -> Eigenvalue:
        """Smallest eigenvalue of t D A A^T D + weight B^2."""
        H = weight * self._matrices[0] if self.joined.mixed.decomposes else None
        return self.joined.mixed(t, weight * self.facts.least_B2, self._tau, H)

    def with_slack(self, t: float, gamma: float, f: float) -> Eigenvalue:
        """Smallest eigenvalue of t D A A^T D + I - gamma B^2 - D (I - 2 C + f C^2) D."""
        B2, H = self._slack_matrices(f)
        H = H - gamma * B2 if H is not None and B2 is not None else None
        return self.joined.mixed(t, self.facts.modes.slack(gamma, 1.0, 2.0, f), self._tau, H)

    def gamma_with_slack(self, t: float, f: float) -> Eigenvalue:
        """The largest gamma for which that eigenvalue is not negative and gamma B^2 <= I."""
        modes = self.facts.modes
        enough = modes.largest_gamma(1.0, 2.0, f)
        B2, H = self._slack_matrices(f)
        found = self.joined.mixed.largest_factor(t, enough.value, H, B2)
        return Eigenvalue(min(found.value, modes.largest_gamma(0.0).value), found.exact)

    def _slack_matrices(self, f: float) -> tuple[FloatArray | None, FloatArray | None]:
        if not self.joined.mixed.decomposes:
            return None, None
        B2, C, D = self._matrices
        return B2, np.eye(len(D)) - D @ D + D @ (2.0 * C - f * (C @ C)) @ D

    def damping(self, steps: Steps) -> float:
        """The number f of C' = 2 C - f C^2; 0 where C = 0."""
        share = 0.0 if self.facts.C_is_zero else largest_share(self.problem, steps.beta, steps.theta)
        if self.facts.C_is_zero or share <= 0.0:
            return 0.0 if self.facts.C_is_zero else math.inf
        return 1.0 / share + float(2.0 * steps.theta * steps.alpha * steps.beta * self.problem.sigma**2)


def largest_share(problem: ProblemFacts, beta: float, theta: float) -> float:
    """The largest number S with beta sigma^2 (1/(1 - S) + theta) <= mu; at most 0 where beta is too large."""
    rest = problem.mu - theta * beta * problem.sigma**2
    return 1.0 - beta * problem.sigma**2 / rest if rest > 0.0 else -math.inf


class JointEigenvalue:
    """Smallest eigenvalue of t D A A^T D + H (x) I, as a function of t and H.

    `mixing` is D itself, n x n, if the matrix is to be decomposed.
    """

    def __init__(self, problem: ProblemFacts, mixing: FloatArray | None) -> None:
        self._problem = problem
        self._square: FloatArray | None = None
        self._known: dict[tuple[float, bytes], Eigenvalue] = {}
        if mixing is None or problem.A is None:
            return
        blocks = np.split(problem.A, problem.offsets[1:-1], axis=1)
        DA = np.hstack([np.kron(mixing[:, [i]], block) for i, block in enumerate(blocks)])  # D (x) I times diag(A_i)
        self._square = DA @ DA.T

    @property
    def decomposes(self) -> bool:
        """Whether the matrix is formed, so that H is asked for."""
        return self._square is not None

    def __call__(self, t: float, kappa: float, tau: float, H: FloatArray | None = None) -> Eigenvalue:
        """The eigenvalue itself, or the bound where H is not given and where rounding would spoil the eigenvalue.

        `kappa` is the smallest eigenvalue of H off ones or a lower bound, `tau` the largest singular value of D off
        ones or an upper bound.
        """
        if self._square is None or H is None or not self._square.size:
            return self.bound(t, kappa, tau)
        key = (t, H.tobytes())
        if key not in self._known:
            M = self._form(t, H)
            value = float(np.linalg.eigvalsh(M)[0])
            # What rounding may have made of a tiny eigenvalue is no promise; the bound is free of cancellation.
            exact = Eigenvalue(min(value, self._rest(kappa)), True)
            self._known[key] = exact if value > 1e3 * _rounding(M) else self.bound(t, kappa, tau)
        return self._known[key]

    def largest_factor(self, t: float, kappa: float, H: FloatArray | None, K: FloatArray | None) -> Eigenvalue:
        """The largest g with t D A A^T D + (H - g K) (x) I >= 0, or `kappa`, that of H - g K >= 0, which is less."""
        if self._square is None or H is None or K is None or not self._square.size:
            return Eigenvalue(kappa, False)
        M = self._form(t, H)
        value = float(np.linalg.eigvalsh(M)[0])
        if not value > 1e3 * _rounding(M):
            return Eigenvalue(kappa, False)
        # The largest eigenvalue of L^-1 (K (x) I) L^-T, M = L L^T. NumPy's own library throughout: SciPy has
        # another one, and the idle threads of the two stand in each other's way.
        L = np.linalg.cholesky(M)
        half = np.linalg.solve(L, np.kron(K, np.eye(len(M) // len(K))))
        top = float(np.linalg.eigvalsh(np.linalg.solve(L, half.T))[-1])
        full = math.isinf(self._rest(kappa))
        return Eigenvalue(min(1.0 / top if top > 0.0 else math.inf, math.inf if full else kappa), True)

    def _form(self, t: float, H: FloatArray) -> FloatArray:
        assert self._square is not None
        return np.asarray(t * self._square + np.kron(H, np.eye(len(self._square) // len(H))))

    def _rest(self, kappa: float) -> float:
        """What the directions outside the range of A contribute."""
        full = self._problem.A is None or len(self._problem.A) == self._problem.p
        return math.inf if full else kappa

    def bound(self, t: float, kappa: float, tau: float) -> Eigenvalue:
        """The proved lower bound."""
        problem = self._problem
        if problem.A is not None and not len(problem.A):  # A = 0
            return Eigenvalue(kappa, True)
        if problem.n == 1:  # nothing is orthogonal to ones
            return Eigenvalue(t * problem.eta, True)
        if not kappa > 0.0:
            return Eigenvalue(0.0, False)
        low, high = 0.0, min(t * problem.eta / problem.n, kappa)
        for _ in range(_HALVINGS):
            e = (low + high) / 2.0
            holds = t / problem.n * self._g(t * tau * tau / (kappa - e)) >= e
            low, high = (e, high) if holds else (low, e)
        return Eigenvalue(low, False)

    def _g(self, x: float) -> float:
        problem = self._problem
        return problem.eta / (1.0 + x * problem.sigma**2) if problem.curve is None else problem.curve(x)


def _rounding(M: FloatArray) -> float:
    return len(M) * float(np.finfo(float).eps) * float(np.abs(M).sum(axis=1).max())


class CouplingCurve:
    """How strongly the agents couple when those that disagree may move: lower bounds on g, each computed once.

        g(x) = eta_min( sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T ),     x >= 0,

    a p x p matrix. g(0) = eta_min(A A^T) and g falls with x. Every term of x A_i (I + x A_i^T A_i)^{-1} A_i^T is a
    concave and increasing function of x in the order of symmetric matrices (its eigenvalues are x s^2/(1 + x s^2)),
    and eta_min is concave and increasing too, so G(x) = x g(x) is concave and increasing. Hence the chord between two
    points of its graph lies below the graph: with g computed on a grid, linear interpolation of G is a proved lower
    bound, and one matrix decomposition per grid point serves all steps of all theorems. `blocks` are the A_i, `eta` is
    eta_min(A A^T) or a lower bound, `sigma` the largest singular value of the A_i.
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
