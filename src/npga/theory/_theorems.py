"""One record for each theorem: what it needs, and its formulas for bounds and rates.

Every rate is delta = 1 - min(primal, dual, consensus), the three gaps by which the terms in x, lam and y of the
Lyapunov function shrink. The gaps, not delta, are what is computed, because delta is 1 up to rounding for hard
problems. With sigma(.) the largest singular value, s = sigma(B)^2, u the smallest nonzero eigenvalue of B^2,
q = 1 + beta/(n l_h), A = diag(A_1, ..., A_n):

| theorem | alpha < | gamma < | primal gap | dual gap |
|---|---|---|---|---|
| 1  | 1/(l (1 + 2 theta)) | min(1, phi/s) | alpha mu (1 - alpha l (1 + 2 theta)) | (phi - gamma s)/(1 - gamma s) |
| 2  | as in 1 | 1 | as in 1 | phi |
| 3  | 1/l (theta = 0) | 1 | as in 1 | psi |
| 4  | 1/max(2 theta l^2/mu, 2 l - mu) | min(1, (1 - q^-2)/s) | alpha (mu - 2 theta alpha l^2)| 1 - q^-2/(1 - gamma s) |
| 4+ | as in 4 | 1 (equality allowed) | as in 4 | 1 - q^-2 |

    phi = alpha beta eta_min(E) = eta_min(alpha beta A A^T + C/2),
    psi = alpha beta eta_min(F) = eta_min(alpha beta D A A^T D + (1 - gamma) B^2),
    beta <= mu / (sigma(A)^2 (1/(1 - sigma(C)) + theta))  and  consensus gap gamma u  in all of them.

**Theorem 4+ (this project's own).** Let the assumptions of Theorem 4 hold, and Assumption 7, D^2 <= I - B^2. Then
gamma <= 1 is enough, and delta = max{1 - alpha (mu - 2 theta alpha l^2), q^-2, 1 - gamma u}, C = 0 included.

*Proof.* The appendix of the paper proves, from Assumption 4 and the bounds on alpha and beta, inequality (1139):

    |x+|^2 + c2 |v+|^2_{I - gamma B^2} + c3 |y+|^2  <=  delta1 |x|^2 + c2 |lam|^2 + delta3 c3 |y|^2      (errors),

with c2 = alpha/beta, c3 = c2/gamma, delta3 = 1 - gamma u. Its steps are an identity in v+ and y+ for every gamma > 0
and |y|^2_{I - gamma B^2} <= (1 - gamma u)|y|^2 for y in col(B), so gamma = 1 is not excluded: B^2 <= I keeps
I - gamma B^2 positive semi-definite, and nothing is divided by it. Strong convexity of h* gives, as there,
q |lam+| <= |D v+|. The paper goes on with |D v+| <= |v+| and pays 1 - gamma s for the change of norm. Under
Assumption 7, D^2 <= I - B^2 <= I - gamma B^2, so |D v+|^2 <= |v+|^2_{I - gamma B^2} directly, hence

    |x+|^2 + q^2 c2 |lam+|^2 + c3 |y+|^2  <=  delta1 |x|^2 + c2 |lam|^2 + delta3 c3 |y|^2  <=  delta V,

where V = |x|^2 + q^2 c2 |lam|^2 + c3 |y|^2 and delta = max{delta1, q^-2, delta3}.  QED

For theta > 0 the appendix bounds 2 <alpha A^T (lam - C lam), x+ - x> by the recursion for g = 0 (inequality (0130)).
With g != 0 the step is not justified, and the statement is neither proved nor refuted: Theorems 4 and 4+ are then
reported as "proof incomplete".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory import _smallest_eigenvalue
from npga.theory._network_facts import MatrixFacts
from npga.theory._problem_facts import ProblemFacts
from npga.theory._smallest_eigenvalue import Eigenvalue, FloatArray, SmallestEigenvalue, decomposed, schur_bound

PROVED, INCOMPLETE = "proved", "proof incomplete"
PAPER, OURS = "Li and Su (2024)", "this project"


@dataclass(frozen=True)
class Constants:
    """What the formulas of the theorems are made of, for one value of beta."""

    problem: ProblemFacts
    network: Network
    version: Version
    beta: float
    facts: MatrixFacts
    decompose: bool = True

    @cached_property
    def smallest_E(self) -> SmallestEigenvalue:
        """Smallest eigenvalue of t A A^T + s C, the matrix behind phi."""
        return self._smallest(self.facts.C.low, 1.0, lambda _, C, __: (C, np.eye(len(C))))

    @cached_property
    def smallest_F(self) -> SmallestEigenvalue:
        """Smallest eigenvalue of t D A A^T D + s B^2, the matrix behind psi."""
        return self._smallest(self.facts.B2.low, min(self.facts.sigma_D, 1.0), lambda B2, _, D: (B2, D))

    def _smallest(
        self, kappa: float, tau: float, pick: Callable[..., tuple[FloatArray, FloatArray]]
    ) -> SmallestEigenvalue:
        problem = self.problem
        bound = schur_bound(problem, kappa, tau)
        if not self.decompose or problem.A is None or problem.n * problem.p > _smallest_eigenvalue.DENSE:
            return bound
        matrices = (matrix.toarray() for matrix in self.version.matrices(self.network, self.beta))
        return decomposed(problem, *pick(*matrices), bound)


@dataclass(frozen=True)
class Gaps:
    """By how much the terms in x, lam and y shrink, and whether the numbers are exact or lower bounds."""

    primal: float
    dual: float
    consensus: float
    exact: bool

    @property
    def least(self) -> float:
        """1 - delta."""
        return min(self.primal, self.dual, self.consensus)


@dataclass(frozen=True)
class Theorem:
    """A theorem: its assumptions and its formulas.

    Attributes
    ----------
    key, source
        Its number, and whose it is.
    needs
        Numbers of the assumptions.
    largest_theta
        Up to which theta it holds.
    alpha_bound
        Upper bound on alpha, not attained, from (problem, theta).
    alpha_cost
        The number a in the primal gap alpha (mu - a alpha), from (problem, theta).
    gamma_bound
        Upper bound on gamma, and whether it is exact or a lower bound on it, from (constants, steps).
    contraction
        What the dual term loses before the change of norm: phi, psi or 1 - q^-2, from (constants, steps).
    norm_change
        The product gamma s that is paid where |v| is compared with its norm in I - gamma B^2, from (constants, gamma).
    gamma_free
        Whether gamma does not enter the dual gap.
    gamma_attained
        Whether gamma may be equal to its bound.
    standing
        Whether the proof is complete, from (problem, theta).
    """

    key: str
    source: str
    needs: tuple[str, ...]
    largest_theta: float
    alpha_bound: Callable[[ProblemFacts, float], float]
    alpha_cost: Callable[[ProblemFacts, float], float]
    gamma_bound: Callable[[Constants, Steps], Eigenvalue]
    contraction: Callable[[Constants, Steps], Eigenvalue]
    norm_change: Callable[[Constants, float], float]
    gamma_free: bool = False
    gamma_attained: bool = False
    standing: Callable[[ProblemFacts, float], str] = lambda _problem, _theta: PROVED

    def primal_gap(self, problem: ProblemFacts, alpha: float, theta: float) -> float:
        """1 - delta_1."""
        return alpha * (problem.mu - self.alpha_cost(problem, theta) * alpha)

    def gaps(self, constants: Constants, steps: Steps) -> Gaps:
        """The three gaps at these steps; they are meaningful when the steps are inside the bounds."""
        dual, sharp = self.contraction(constants, steps)
        paid = self.norm_change(constants, steps.gamma)
        return Gaps(
            primal=self.primal_gap(constants.problem, steps.alpha, steps.theta),
            dual=(dual - paid) / (1.0 - paid) if paid < 1.0 else -math.inf,
            consensus=steps.gamma * constants.facts.least_B2,
            exact=sharp and constants.facts.B2.exact,
        )


def beta_bound(problem: ProblemFacts, sigma_C: float, theta: float, times_beta: bool) -> float:
    """Upper bound on beta, attained: mu/(sigma^2 (1/(1 - sigma(C)) + theta)).

    When C = beta C' (DLM) the bound contains beta. With s = sigma(C'), clearing denominators gives
    theta sigma^2 s beta^2 - (sigma^2 (1 + theta) + mu s) beta + mu >= 0, so beta goes up to the smaller root,
    written without cancellation; theta = 0 leaves mu/(sigma^2 + mu s).

    Parameters
    ----------
    problem
        For mu and sigma.
    sigma_C
        Largest singular value of C, of C' when C contains beta.
    theta
        Extrapolation.
    times_beta
        Whether C contains beta.
    """
    mu, square = problem.mu, problem.sigma**2
    if times_beta:
        b = square * (1.0 + theta) + mu * sigma_C
        root = math.sqrt(max(b * b - 4.0 * theta * square * sigma_C * mu, 0.0))
        return _ratio(2.0 * mu, b + root)
    if sigma_C >= 1.0:
        return 0.0
    return _ratio(mu, square * (1.0 / (1.0 - sigma_C) + theta))


def _alpha_rough(problem: ProblemFacts, theta: float) -> float:
    return 1.0 / (problem.l * (1.0 + 2.0 * theta))


def _alpha_smooth(problem: ProblemFacts, theta: float) -> float:
    mu, l = problem.mu, problem.l  # noqa: E741
    return 1.0 / max(2.0 * theta * l * l / mu, 2.0 * l - mu)


def _cost_rough(problem: ProblemFacts, theta: float) -> float:
    return problem.mu * problem.l * (1.0 + 2.0 * theta)


def _cost_smooth(problem: ProblemFacts, theta: float) -> float:
    return 2.0 * theta * problem.l**2


def _phi(constants: Constants, steps: Steps) -> Eigenvalue:
    return constants.smallest_E(steps.alpha * steps.beta, 0.5)


def _psi(constants: Constants, steps: Steps) -> Eigenvalue:
    return constants.smallest_F(steps.alpha * steps.beta, 1.0 - steps.gamma)


def _strong(constants: Constants, steps: Steps) -> Eigenvalue:
    """1 - q^-2 with q = 1 + beta/(n l_h), without cancellation; 1 in the limit l_h -> 0."""
    problem = constants.problem
    if problem.h_L == 0.0:
        return Eigenvalue(1.0, True)
    e = steps.beta / (problem.n * problem.h_L)
    return Eigenvalue(e * (2.0 + e) / (1.0 + e) ** 2 if e < 1e100 else 1.0, True)


def _gamma_below_contraction(contraction: Formula) -> Formula:
    """gamma < min(1, contraction/s), so that what is left after the change of norm is positive."""

    def bound(constants: Constants, steps: Steps) -> Eigenvalue:
        found = contraction(constants, steps)
        ratio = _ratio(found.value, constants.facts.sigma_B2)
        return Eigenvalue(min(1.0, ratio), found.exact and constants.facts.B2.exact)

    return bound


def _gamma_below_one(_constants: Constants, _steps: Steps) -> Eigenvalue:
    return Eigenvalue(1.0, True)


def _paid(constants: Constants, gamma: float) -> float:
    return gamma * constants.facts.sigma_B2


def _nothing(_constants: Constants, _gamma: float) -> float:
    return 0.0


def _incomplete_with_g(problem: ProblemFacts, theta: float) -> str:
    return INCOMPLETE if theta > 0.0 and not problem.g_is_zero else PROVED


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf


Formula = Callable[[Constants, Steps], Eigenvalue]
_BASE = ("1", "2", "3", "4.i", "4.ii", "4.iii", "4.iv")

THEOREMS = {
    theorem.key: theorem
    for theorem in (
        Theorem(
            key="1",
            source=PAPER,
            needs=(*_BASE, "5", "6"),
            largest_theta=math.inf,
            alpha_bound=_alpha_rough,
            alpha_cost=_cost_rough,
            gamma_bound=_gamma_below_contraction(_phi),
            contraction=_phi,
            norm_change=_paid,
        ),
        Theorem(
            key="2",
            source=PAPER,
            needs=(*_BASE, "5", "6", "7"),
            largest_theta=math.inf,
            alpha_bound=_alpha_rough,
            alpha_cost=_cost_rough,
            gamma_bound=_gamma_below_one,
            contraction=_phi,
            norm_change=_nothing,
            gamma_free=True,
        ),
        Theorem(
            key="3",
            source=PAPER,
            needs=(*_BASE, "5", "8", "9"),
            largest_theta=0.0,
            alpha_bound=_alpha_rough,
            alpha_cost=_cost_rough,
            gamma_bound=_gamma_below_one,
            contraction=_psi,
            norm_change=_nothing,
        ),
        Theorem(
            key="4",
            source=PAPER,
            needs=(*_BASE, "10"),
            largest_theta=1.0,
            alpha_bound=_alpha_smooth,
            alpha_cost=_cost_smooth,
            gamma_bound=_gamma_below_contraction(_strong),
            contraction=_strong,
            norm_change=_paid,
            standing=_incomplete_with_g,
        ),
        Theorem(
            key="4+",
            source=OURS,
            needs=(*_BASE, "7", "10"),
            largest_theta=1.0,
            alpha_bound=_alpha_smooth,
            alpha_cost=_cost_smooth,
            gamma_bound=_gamma_below_one,
            contraction=_strong,
            norm_change=_nothing,
            gamma_free=True,
            gamma_attained=True,
            standing=_incomplete_with_g,
        ),
    )
}
