"""The steps inside a theorem's bounds that minimise its rate.

Minimising delta over (alpha, beta, gamma, theta) is maximising the smallest of the three gaps. The gaps of every
theorem are monotone in all steps but alpha, so the four variables become one:

* theta: every bound and every gap gets worse as theta grows, so theta = 0 unless the version prescribes it.
* beta: the dual gap grows with beta (phi and psi are smallest eigenvalues of matrices that grow with beta, and so
  does q) and the primal gap does not contain it, so beta takes its bound. When the matrices contain beta (DLM),
  phi, psi, s and u are all proportional to beta for fixed alpha, the consensus gap grows too, and along the best
  gamma so does the dual gap of Theorem 1.
* for a wanted gap r, gamma must be at least r/u; the dual gap does not grow with gamma, so gamma = r/u is best.
* the primal gap is concave in alpha and the dual gap grows with alpha, so the best alpha for a wanted r is the
  largest at which the primal gap is still r.

What is left is the largest r with dual gap(alpha(r), beta, gamma(r)) >= r. The left side falls and the right side
grows with r: one root, found by Brent's method. Bounds that are not attained are approached to 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from scipy.optimize import brentq

from npga.steps import Steps
from npga.theory._case import Case
from npga.theory._problem_facts import ProblemFacts
from npga.theory._theorems import Rule, Setting

_INSIDE = 1.0 - 1e-9
_NOTHING = -700.0  # stands for log 0
_SMALLEST = 1e-30  # gaps below this fraction of what the primal and consensus terms allow are taken for none


def best_steps(case: Case, rule: Rule) -> Steps | None:
    """Steps that minimise the theorem's rate, or None when it allows none.

    Parameters
    ----------
    case
        Problem, network and version; steps that the version prescribes are kept.
    rule
        The theorem.
    """
    fixed = case.version.fixed
    theta = fixed.get("theta", 0.0)
    if not case.quantitative or theta > rule.largest_theta:
        return None
    beta = fixed.get("beta", min(case.admissible_beta(rule, theta), _unlimited(case.problem)))
    setting = case.setting(beta) if beta > 0.0 else None
    if setting is None or not all(case.assumptions(beta)[key].holds for key in rule.needs):
        return None
    path = _Path(rule, setting, beta, theta)
    gap = _largest_gap(path)
    found = None if gap is None else path.steps(gap)
    return found if found is not None and case.theorem(rule, found).applies else None


def _unlimited(problem: ProblemFacts) -> float:
    """A beta that is as good as infinite where nothing bounds it (all A_i = 0)."""
    return 1e6 * problem.n * max(problem.h_L if math.isfinite(problem.h_L) else 1.0, 1.0)


@dataclass(frozen=True)
class _Path:
    """The best steps for a wanted gap r, as a function of r."""

    rule: Rule
    setting: Setting
    beta: float
    theta: float

    @property
    def largest_gamma(self) -> float:
        """Largest gamma that may be tried."""
        return self.setting.version.fixed.get("gamma", 1.0 if self.rule.gamma_may_be_one else _INSIDE)

    @property
    def most(self) -> float:
        """The largest gap that the primal and the consensus term allow."""
        return min(self._primal[1], self.largest_gamma * self.setting.facts.least_B2)

    @cached_property
    def _primal(self) -> tuple[Callable[[float], float], float]:
        return _alpha(self.rule, self.setting.problem, self.theta, self.setting.version.fixed.get("alpha"))

    def steps(self, r: float) -> Steps:
        """Beta at its bound, the largest alpha and the smallest gamma whose gaps are r."""
        u = self.setting.facts.least_B2
        # In Theorems 2 and 4+ gamma does not enter the dual gap, so the largest serves consensus best.
        keep = self.rule.key in ("2", "4+") or "gamma" in self.setting.version.fixed or math.isinf(u)
        gamma = self.largest_gamma if keep else min(r / u, self.largest_gamma)
        return Steps(alpha=self._primal[0](r), beta=self.beta, gamma=gamma, theta=self.theta)

    def excess(self, log_r: float) -> float:
        """Positive where the dual gap exceeds r, and nearly linear: both sides are nearly powers of r.

        (c - paid)/(1 - paid) >= r is c >= r + paid (1 - r).
        """
        r = math.exp(log_r)
        tried = self.steps(r)
        contraction = self.rule.contraction(self.setting, tried).value
        needed = r + self.rule.change_of_norm(self.setting, tried.gamma) * (1.0 - r)
        return math.log(contraction / needed) if contraction > 0.0 else _NOTHING


def _largest_gap(path: _Path) -> float | None:
    """The largest r that all three gaps reach, or None when there is none."""
    if not path.most > 0.0:
        return None
    high, low = math.log(path.most), math.log(path.most * _SMALLEST)
    if path.setting.decompose:
        # What the quick bound on the eigenvalue promises is a lower bound on r, within a factor of ten or so.
        quick = _largest_gap(replace(path, setting=replace(path.setting, decompose=False)))
        low = low if quick is None else math.log(quick) - 1e-6
    if path.excess(high) >= 0.0:
        return path.most
    if path.excess(low) <= 0.0:
        return None
    return math.exp(brentq(path.excess, low, high, xtol=1e-9))


def _alpha(
    rule: Rule, problem: ProblemFacts, theta: float, fixed: float | None
) -> tuple[Callable[[float], float], float]:
    """The largest alpha whose primal gap is r, as a function of r, and the largest r that there is.

    The primal gap is alpha (m - a alpha): m = mu, a = mu l (1 + 2 theta) or 2 theta l^2.
    """
    if fixed is not None:
        return lambda _: fixed, rule.primal_gap(problem, fixed, theta)
    mu = problem.mu
    a = 2.0 * theta * problem.l**2 if rule.smooth_h else mu * problem.l * (1.0 + 2.0 * theta)
    cap = _INSIDE * rule.alpha_bound(problem, theta)
    peak = min(cap, mu / (2.0 * a)) if a > 0.0 else cap

    def alpha(r: float) -> float:
        if a == 0.0:
            return cap
        return max(min(cap, (mu + math.sqrt(max(mu * mu - 4.0 * a * r, 0.0))) / (2.0 * a)), peak)

    return alpha, rule.primal_gap(problem, peak, theta)
