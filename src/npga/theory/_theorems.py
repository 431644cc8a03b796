"""One record for each theorem: what it needs, and its formulas for bounds and rates.

Every rate is delta = 1 - min(primal, dual, consensus), the three gaps by which the terms in x, lam and y of the
Lyapunov function shrink. The gaps, not delta, are what is computed, because delta is 1 up to rounding for hard
problems. The iterates depend on B^2 and gamma through gamma B^2 alone, and so does everything below. With sigma(.) the
largest singular value, s = sigma(B)^2, u the smallest nonzero eigenvalue of B^2, q = 1 + beta/(n l_h),
A = diag(A_1, ..., A_n), and kappa(M) the largest number with kappa B^2 <= I - D M D:

| theorem | alpha < | beta <= | gamma < | primal gap | dual gap |
|---|---|---|---|---|---|
| 1  | 1/(l (1 + 2 theta)) | b1 | phi/s | alpha mu (1 - alpha l (1 + 2 theta)) | 1 - (1 - phi)/(1 - gamma s) |
| 1+ | as in 1 | b2 | kappa((1 - phi') I) | as in 1 | 1 - (1 - phi')/w |
| 2  | as in 1 | b1 | kappa(I) | as in 1 | phi |
| 3  | 1/l (theta = 0) | b1 | kappa(I - C) | as in 1 | psi |
| 3+ | as in 1 | b2 | where psi' = 0 | as in 1 | psi' |
| 4  | 1/max(2 theta l^2/mu, 2 l - mu) | b1 | (1 - q^-2)/s | alpha (mu - 2 theta alpha l^2) | 1 - q^-2/(1 - gamma s) |
| 4+ | as in 4 | b2 | kappa(q^-2 I) | as in 4 | 1 - q^-2/w |

    b1   = mu / (sigma(A)^2 (1/(1 - sigma(C)) + theta)),    b2: the largest beta with C' >= 0,
    C'   = 2 C - f C^2,   f = 1/(1 - beta sigma(A)^2/(mu - theta beta sigma(A)^2)) + 2 theta alpha beta sigma(A)^2,
    phi  = eta_min(alpha beta A A^T + C/2),                 phi' = eta_min(alpha beta A A^T + C'),
    psi  = eta_min(alpha beta D A A^T D + (kappa(I - C) - gamma) B^2),
    psi' = eta_min(alpha beta D A A^T D + I - gamma B^2 - D (I - C') D),
    w    = the largest number, at most 1, with w D^2 <= I - gamma B^2,
    and the consensus gap is gamma u in all of them.

The statements in words, and the proofs of those that are not the paper's, are in docs/theory/theorems.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from scipy.optimize import brentq

from npga.steps import Steps
from npga.theory._problem_facts import ProblemFacts
from npga.theory._smallest_eigenvalue import Constants, Eigenvalue, largest_share

PAPER, OURS = "paper", "ours: proof in npga's docs"
BetaBound: TypeAlias = Callable[[ProblemFacts, float, bool, float, float], float]


class Gaps(NamedTuple):
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
    key
        Its number; with a plus, what the proof gives beyond the paper's statement.
    needs
        Numbers of the assumptions.
    alpha_bound
        Upper bound on alpha, not attained, from (problem, theta).
    beta_bound
        Upper bound on beta, attained, from (problem, sigma(C), whether C contains beta, alpha, theta); then sigma(C) is
        that of C at beta = 1.
    alpha_cost
        The number a in the primal gap alpha (mu - a alpha), from (problem, theta).
    contraction
        What the dual term loses before the change of norm: phi, psi or 1 - q^-2, from (constants, steps).
    gamma_bound
        Upper bound on gamma, not attained, and whether it is exact, from (constants, steps, contraction).
    norm_change
        1 - w, or what the paper pays in its place, from (constants, gamma); 1 where gamma breaks the comparison.
    constant
        The number K with |x_k - x*| <= K delta^(k/2) |xi_0|, from (constants, steps, gap); see `Coverage.constant`.
    largest_theta
        Up to which theta it holds.
    free_gamma
        Up to which gamma the dual gap does not fall, from (constants).
    beta_trades
        Whether a smaller beta may be better: it makes C' larger.
    standing
        Whose proof it is, from (problem, theta).
    """

    key: str
    needs: tuple[str, ...]
    alpha_bound: Callable[[ProblemFacts, float], float]
    alpha_cost: Callable[[ProblemFacts, float], float]
    beta_bound: BetaBound
    contraction: Callable[[Constants, Steps], Eigenvalue]
    gamma_bound: Callable[[Constants, Steps, Eigenvalue], Eigenvalue]
    norm_change: Callable[[Constants, float], float]
    constant: Callable[[Constants, Steps, float], float]
    largest_theta: float = math.inf
    free_gamma: Callable[[Constants], float] = lambda _: 0.0
    beta_trades: bool = False
    standing: Callable[[ProblemFacts, float], str] = lambda _problem, _theta: OURS

    def primal_gap(self, problem: ProblemFacts, alpha: float, theta: float) -> float:
        """1 - delta_1."""
        return alpha * (problem.mu - self.alpha_cost(problem, theta) * alpha)

    def gaps(self, constants: Constants, steps: Steps, contraction: Eigenvalue) -> Gaps:
        """The three gaps at these steps; they are meaningful when the steps are inside the bounds."""
        paid = self.norm_change(constants, steps.gamma)
        return Gaps(
            primal=self.primal_gap(constants.problem, steps.alpha, steps.theta),
            dual=(contraction.value - paid) / (1.0 - paid) if paid < 1.0 else -math.inf,
            consensus=steps.gamma * constants.facts.least_B2,
            exact=contraction.exact and constants.facts.B2.exact,
        )


def _beta_paper(problem: ProblemFacts, sigma_C: float, times_beta: bool, _alpha: float, theta: float) -> float:
    """mu/(sigma^2 (1/(1 - sigma(C)) + theta)).

    When C = beta C' (DLM) the bound contains beta. With s = sigma(C'), clearing denominators gives
    theta sigma^2 s beta^2 - (sigma^2 (1 + theta) + mu s) beta + mu >= 0, so beta goes up to the smaller root,
    written without cancellation; theta = 0 leaves mu/(sigma^2 + mu s).
    """
    mu, square = problem.mu, problem.sigma**2
    if times_beta:
        b = square * (1.0 + theta) + mu * sigma_C
        root = math.sqrt(max(b * b - 4.0 * theta * square * sigma_C * mu, 0.0))
        return _ratio(2.0 * mu, b + root)
    if sigma_C >= 1.0:
        return 0.0
    return _ratio(mu, square * (1.0 / (1.0 - sigma_C) + theta))


def _beta_sharp(problem: ProblemFacts, sigma_C: float, times_beta: bool, alpha: float, theta: float) -> float:
    """The largest beta with f sigma(C) <= 2, which is S (2 - 2 theta alpha beta sigma^2 sigma(C)) >= sigma(C)."""
    square = problem.sigma**2
    top = _ratio(problem.mu, square * (1.0 + theta))  # where S = 0
    if sigma_C == 0.0:
        return top

    def room(beta: float) -> float:
        size = sigma_C * (beta if times_beta else 1.0)
        return largest_share(problem, beta, theta) * (2.0 - 2.0 * theta * alpha * beta * square * size) - size

    top = min(top, 2.0 / sigma_C) if times_beta else top
    if not room(0.0) > 0.0:
        return 0.0
    return float(brentq(room, 0.0, top, xtol=1e-300, rtol=1e-14)) if room(min(top, 1e300)) < 0.0 else top


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf


# contractions of the dual term
def _phi(constants: Constants, steps: Steps) -> Eigenvalue:
    return constants.with_C(steps.alpha * steps.beta, 0.5)


def _phi_sharp(constants: Constants, steps: Steps) -> Eigenvalue:
    f = constants.damping(steps)
    return constants.with_C(steps.alpha * steps.beta, 2.0, f) if f < math.inf else Eigenvalue(0.0, True)


def _psi(constants: Constants, steps: Steps) -> Eigenvalue:
    room = max(constants.facts.modes.largest_gamma(1.0, 1.0).value - steps.gamma, 0.0)
    return constants.with_B2(steps.alpha * steps.beta, 1.0 if math.isinf(room) else room)


def _psi_sharp(constants: Constants, steps: Steps) -> Eigenvalue:
    f = constants.damping(steps)
    return constants.with_slack(steps.alpha * steps.beta, steps.gamma, f) if f < math.inf else Eigenvalue(0.0, True)


def _strong(constants: Constants, steps: Steps) -> Eigenvalue:
    """1 - q^-2 with q = 1 + beta/(n l_h), without cancellation; 1 in the limit l_h -> 0."""
    problem = constants.problem
    if problem.h_L == 0.0:
        return Eigenvalue(1.0, True)
    e = steps.beta / (problem.n * problem.h_L)
    return Eigenvalue(e * (2.0 + e) / (1.0 + e) ** 2 if e < 1e100 else 1.0, True)


# bounds on gamma, changes of norm
def _gamma_over_s(constants: Constants, _steps: Steps, contraction: Eigenvalue) -> Eigenvalue:
    facts = constants.facts
    return Eigenvalue(_ratio(contraction.value, facts.sigma_B2), contraction.exact and facts.B2.exact)


def _gamma_left(constants: Constants, _steps: Steps, contraction: Eigenvalue) -> Eigenvalue:
    """kappa((1 - contraction) I): beyond it nothing is left of the contraction after the change of norm."""
    found = constants.facts.modes.largest_gamma(max(1.0 - contraction.value, 0.0))
    return Eigenvalue(found.value, contraction.exact and found.exact)


def _gamma_of(e: float) -> Callable[[Constants, Steps, Eigenvalue], Eigenvalue]:
    """kappa(I - e C)."""

    def bound(constants: Constants, _steps: Steps, _contraction: Eigenvalue) -> Eigenvalue:
        found = constants.facts.modes.largest_gamma(1.0, e)
        return Eigenvalue(found.value, found.exact)

    return bound


def _gamma_sharp(constants: Constants, steps: Steps, _contraction: Eigenvalue) -> Eigenvalue:
    f = constants.damping(steps)
    if f == math.inf:
        return Eigenvalue(0.0, True)
    return constants.gamma_with_slack(steps.alpha * steps.beta, f)


def _free(constants: Constants) -> float:
    return constants.facts.modes.largest_gamma(1.0).value


def _times_s(constants: Constants, gamma: float) -> float:
    return gamma * constants.facts.sigma_B2


def _least_change(constants: Constants, gamma: float) -> float:
    return constants.facts.modes.norm_change(gamma)


def _all_or_nothing(e: float) -> Callable[[Constants, float], float]:
    """0 below kappa(I - e C)."""
    return lambda constants, gamma: 0.0 if gamma < constants.facts.modes.largest_gamma(1.0, e).value else 1.0


# constants in front (docs/theory/theorems.md)
def _constant_rough(constants: Constants, steps: Steps, _gap: float) -> float:
    """c_1^(-1/2) with c_1 >= 1 - alpha mu, because c_1 = 1 - alpha beta sigma^2 (1/(1 - S) + theta)."""
    return float(1.0 / math.sqrt(1.0 - steps.alpha * constants.problem.mu))


def _constant_point(constants: Constants, steps: Steps, gap: float) -> float:
    """(c_1 delta)^(-1/2): the Lyapunov function contains v, which begins with the first iteration."""
    return _constant_rough(constants, steps, gap) * _first(gap)


def _constant_smooth(constants: Constants, steps: Steps, gap: float) -> float:
    """delta^(-1/2), or, with g and extrapolation, what the first iteration may make of the start."""
    if steps.theta == 0.0 or constants.problem.g_is_zero:
        return _first(gap)
    theta, x = steps.theta, math.sqrt(steps.alpha * steps.beta) * constants.problem.sigma
    u = math.sqrt(1.0 + x * x)
    v = 2.0 + x * ((1.0 + theta) * u + theta)
    return math.sqrt((1.0 + theta) ** 2 / (1.0 + 2.0 * theta) * u * u + v * v + (1.0 + v) ** 2) * _first(gap)


def _first(gap: float) -> float:
    return 1.0 / math.sqrt(1.0 - gap) if gap < 1.0 else math.inf


# the records
def _paper(_problem: ProblemFacts, _theta: float) -> str:
    return PAPER


def _paper_without_g(problem: ProblemFacts, theta: float) -> str:
    # The paper's proof of Theorem 4 uses the recursion of g = 0 where theta > 0, and asks for theta <= 1.
    return PAPER if theta == 0.0 or (problem.g_is_zero and theta <= 1.0) else OURS


_BASE = ("1", "2", "3", "4.i", "4.ii", "4.iii", "4.iv")
_WIDER = tuple("4.iii+" if key == "4.iii" else key for key in _BASE)
_case_one = partial(
    Theorem,
    alpha_bound=lambda facts, theta: 1.0 / (facts.l * (1.0 + 2.0 * theta)),
    alpha_cost=lambda facts, theta: facts.mu * facts.l * (1.0 + 2.0 * theta),
)
_case_two = partial(
    Theorem,
    alpha_bound=lambda facts, theta: 1.0 / max(2.0 * theta * facts.l * facts.l / facts.mu, 2.0 * facts.l - facts.mu),
    alpha_cost=lambda facts, theta: 2.0 * theta * facts.l**2,
    constant=_constant_smooth,
)
_RECORDS = (
    _case_one(
        key="1",
        needs=(*_BASE, "5.i", "5.ii", "6"),
        beta_bound=_beta_paper,
        contraction=_phi,
        gamma_bound=_gamma_over_s,
        norm_change=_times_s,
        constant=_constant_rough,
        standing=_paper,
    ),
    _case_one(
        key="1+",
        needs=(*_WIDER, "5.i", "5.ii", "6"),
        beta_bound=_beta_sharp,
        contraction=_phi_sharp,
        gamma_bound=_gamma_left,
        norm_change=_least_change,
        constant=_constant_rough,
        free_gamma=_free,
        beta_trades=True,
    ),
    _case_one(
        key="2",
        needs=(*_BASE, "5.i", "5.ii", "6", "7"),
        beta_bound=_beta_paper,
        contraction=_phi,
        gamma_bound=_gamma_of(0.0),
        norm_change=_all_or_nothing(0.0),
        constant=_constant_rough,
        free_gamma=_free,
        standing=_paper,
    ),
    _case_one(
        key="3",
        needs=(*_BASE, "5.i", "5.ii", "8", "9"),
        beta_bound=_beta_paper,
        contraction=_psi,
        gamma_bound=_gamma_of(1.0),
        norm_change=_all_or_nothing(1.0),
        constant=_constant_point,
        largest_theta=0.0,
        standing=_paper,
    ),
    _case_one(
        key="3+",
        needs=(*_WIDER, "5.i", "8", "9"),
        beta_bound=_beta_sharp,
        contraction=_psi_sharp,
        gamma_bound=_gamma_sharp,
        norm_change=lambda constants, gamma: float(gamma > constants.facts.modes.largest_gamma(0.0).value),
        constant=_constant_point,
        beta_trades=True,
    ),
    _case_two(
        key="4",
        needs=(*_BASE, "10"),
        beta_bound=_beta_paper,
        contraction=_strong,
        gamma_bound=_gamma_over_s,
        norm_change=_times_s,
        standing=_paper_without_g,
    ),
    _case_two(
        key="4+",
        needs=(*_WIDER, "10"),
        beta_bound=_beta_sharp,
        contraction=_strong,
        gamma_bound=_gamma_left,
        norm_change=_least_change,
        free_gamma=_free,
    ),
)
THEOREMS = {theorem.key: theorem for theorem in _RECORDS}
