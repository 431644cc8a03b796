"""One record for each theorem: what it needs, its bounds on the steps, its rate.

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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory import _least
from npga.theory._least import Eigenvalue, Least, decomposed, schur_bound
from npga.theory._matrices import MatrixFacts
from npga.theory._problem_facts import ProblemFacts

PROVED, INCOMPLETE = "proved", "proof incomplete"
PAPER, OURS = "Li and Su (2024)", "this project"
_BASE = ("1", "2", "3", "4.i", "4.ii", "4.iii", "4.iv")


@dataclass(frozen=True)
class Setting:
    """The constants that the formulas of the theorems are made of, for one value of beta."""

    problem: ProblemFacts
    network: Network
    version: Version
    beta: float
    facts: MatrixFacts
    decompose: bool = True

    @cached_property
    def least_E(self) -> Least:
        """Smallest eigenvalue of t A A^T + s C, the matrix behind phi."""
        return self._least(self.facts.C.low, 1.0, "C")

    @cached_property
    def least_F(self) -> Least:
        """Smallest eigenvalue of t D A A^T D + s B^2, the matrix behind psi."""
        return self._least(self.facts.B2.low, min(self.facts.sigma_D, 1.0), "B2")

    def _least(self, kappa: float, tau: float, which: str) -> Least:
        problem = self.problem
        bound = schur_bound(problem, kappa, tau)
        if not self.decompose or problem.A is None or problem.n * problem.p > _least.DENSE:
            return bound
        B2, C, D = (matrix.toarray() for matrix in self.version.matrices(self.network, self.beta))
        H, mixing = (C, np.eye(problem.n)) if which == "C" else (B2, D)
        return decomposed(problem, H, mixing, bound)


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
class Rule:
    """A theorem as formulas."""

    key: str
    needs: tuple[str, ...]
    largest_theta: float
    smooth_h: bool
    source: str = PAPER
    gamma_may_be_one: bool = False
    which: str = ""

    def standing(self, problem: ProblemFacts, theta: float) -> str:
        """Whether the proof covers this theta and g."""
        return INCOMPLETE if self.smooth_h and theta > 0.0 and not problem.g_is_zero else PROVED

    def alpha_bound(self, problem: ProblemFacts, theta: float) -> float:
        """Upper bound on alpha, not attained."""
        mu, l = problem.mu, problem.l  # noqa: E741
        if self.smooth_h:
            return 1.0 / max(2.0 * theta * l * l / mu, 2.0 * l - mu)
        return 1.0 / (l * (1.0 + 2.0 * theta))

    def primal_gap(self, problem: ProblemFacts, alpha: float, theta: float) -> float:
        """1 - delta_1."""
        mu, l = problem.mu, problem.l  # noqa: E741
        if self.smooth_h:
            return alpha * (mu - 2.0 * theta * alpha * l * l)
        return alpha * mu * (1.0 - alpha * l * (1.0 + 2.0 * theta))

    def gamma_bound(self, setting: Setting, alpha: float, beta: float) -> Eigenvalue:
        """Upper bound on gamma, and whether it is exact or a lower bound on it."""
        s = setting.facts.sigma_B2
        if self.key == "1":
            phi = setting.least_E(alpha * beta, 0.5)
            return Eigenvalue(min(1.0, _ratio(phi.value, s)), phi.exact and setting.facts.B2.exact)
        if self.key == "4":
            return Eigenvalue(min(1.0, _ratio(_strong(setting.problem, beta), s)), setting.facts.B2.exact)
        return Eigenvalue(1.0, True)

    def contraction(self, setting: Setting, steps: Steps) -> Eigenvalue:
        """phi, psi or 1 - q^-2: what the dual term loses before the change of norm in Theorems 1 and 4."""
        if self.smooth_h:
            return Eigenvalue(_strong(setting.problem, steps.beta), True)
        if self.which == "E":
            return setting.least_E(steps.alpha * steps.beta, 0.5)
        return setting.least_F(steps.alpha * steps.beta, 1.0 - steps.gamma)

    def change_of_norm(self, setting: Setting, gamma: float) -> float:
        """The product gamma s in Theorems 1 and 4, which pay 1 - gamma s for the change of norm; 0 in the others."""
        return gamma * setting.facts.sigma_B2 if self.key in ("1", "4") else 0.0

    def gaps(self, setting: Setting, steps: Steps) -> Gaps:
        """The three gaps at these steps; they are meaningful when the steps are inside the bounds."""
        dual, sharp = self.contraction(setting, steps)
        paid = self.change_of_norm(setting, steps.gamma)
        return Gaps(
            primal=self.primal_gap(setting.problem, steps.alpha, steps.theta),
            dual=(dual - paid) / (1.0 - paid) if paid < 1.0 else -math.inf,
            consensus=steps.gamma * setting.facts.least_B2,
            exact=sharp and setting.facts.B2.exact,
        )


RULES = {
    "1": Rule("1", (*_BASE, "5", "6"), math.inf, smooth_h=False, which="E"),
    "2": Rule("2", (*_BASE, "5", "6", "7"), math.inf, smooth_h=False, which="E"),
    "3": Rule("3", (*_BASE, "5", "8", "9"), 0.0, smooth_h=False, which="F"),
    "4": Rule("4", (*_BASE, "10"), 1.0, smooth_h=True),
    "4+": Rule("4+", (*_BASE, "7", "10"), 1.0, smooth_h=True, source=OURS, gamma_may_be_one=True),
}


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


def _strong(problem: ProblemFacts, beta: float) -> float:
    """1 - q^-2 with q = 1 + beta/(n l_h), without cancellation; 1 in the limit l_h -> 0."""
    if problem.h_L == 0.0:
        return 1.0
    e = beta / (problem.n * problem.h_L)
    return e * (2.0 + e) / (1.0 + e) ** 2 if e < 1e100 else 1.0


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf
