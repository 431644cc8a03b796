"""Every theorem at given steps, or each at the steps inside its bounds that minimise its rate.

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
from npga.theory._coverage import Coverage, Setup
from npga.theory._problem_facts import ProblemFacts
from npga.theory._theorems import PROVED, THEOREMS, Constants, Theorem

_INSIDE = 1.0 - 1e-9
_NOTHING = -700.0  # stands for log 0
_SMALLEST = 1e-30  # gaps below this fraction of what the primal and consensus terms allow are taken for none


def coverages(setup: Setup, steps: Steps | None) -> dict[str, Coverage]:
    """Every theorem at the given steps, or each at its own best ones."""
    found = {}
    for key, theorem in THEOREMS.items():
        tried = best_steps(setup, theorem) if steps is None else steps
        if tried is not None:
            found[key] = setup.covered_by(theorem, tried)
            continue
        # No steps are inside the bounds: say why, at steps that spoil nothing by themselves.
        fixed = setup.version.fixed
        probe = Steps(
            alpha=fixed.get("alpha", _harmless_alpha(setup)),
            beta=setup.typical_beta(),
            gamma=fixed.get("gamma", 1e-12),
            theta=fixed.get("theta", 0.0),
        )
        coverage = setup.covered_by(theorem, probe)
        found[key] = coverage if coverage.applies else replace(coverage, steps=None)
    return found


def best_of(found: dict[str, Coverage]) -> Coverage | None:
    """The theorem with the best rate; a complete proof comes first."""
    covering = [coverage for coverage in found.values() if coverage.applies]
    return max(covering, key=lambda c: (c.standing == PROVED, c.gap), default=None)


def _harmless_alpha(setup: Setup) -> float:
    """An alpha inside every theorem's bound where there is one."""
    if not setup.quantitative:
        return 1.0
    theta = setup.version.fixed.get("theta", 0.0)
    return 0.5 * min(theorem.alpha_bound(setup.problem, theta) for theorem in THEOREMS.values())


def best_steps(setup: Setup, theorem: Theorem) -> Steps | None:
    """Steps that minimise the theorem's rate, or None when it allows none.

    Parameters
    ----------
    setup
        Problem, network and version; steps that the version prescribes are kept.
    theorem
        What bounds them.
    """
    fixed = setup.version.fixed
    theta = fixed.get("theta", 0.0)
    if not setup.quantitative or theta > theorem.largest_theta:
        return None
    beta = fixed.get("beta", min(_admissible_beta(setup, theorem, theta), _unlimited(setup.problem)))
    constants = setup.at(beta).constants if beta > 0.0 else None
    if constants is None or not all(setup.at(beta).assumptions[key].holds for key in theorem.needs):
        return None
    path = _Path(theorem, constants, beta, theta)
    gap = _largest_gap(path)
    found = None if gap is None else path.steps(gap)
    return found if found is not None and setup.covered_by(theorem, found).applies else None


def _admissible_beta(setup: Setup, theorem: Theorem, theta: float) -> float:
    """The bound on beta, lowered until the matrices that contain beta meet the theorem's assumptions.

    With B^2 = beta B', C = beta C' and joint eigenvalues b, c, d, the assumptions are affine in beta:
    beta b <= 1 (4.iii), beta b <= 1 - d^2 (7), beta (b - d^2 c) <= 1 - d^2 (9).
    """
    bound = setup.beta_bound(theta)
    if not setup.version.times_beta or setup.network.n == 1:
        return bound
    at_one = setup.at(1.0).facts
    assert at_one is not None  # explicit matrices do not contain beta
    cap = 1.0 / at_one.B2.high if at_one.B2.high > 0.0 else math.inf
    if setup.version.family == "ATC":
        # Halving ends: at beta = 0 the inequalities read D^2 <= I, and they are affine in beta.
        beta = min(bound, cap)
        for _ in range(60):
            if all(setup.at(beta).assumptions[key].holds is not False for key in theorem.needs):
                return beta
            beta /= 2.0
    return min(bound, cap)


def _unlimited(problem: ProblemFacts) -> float:
    """A beta that is as good as infinite where nothing bounds it (all A_i = 0)."""
    return 1e6 * problem.n * max(problem.h_L if math.isfinite(problem.h_L) else 1.0, 1.0)


@dataclass(frozen=True)
class _Path:
    """The best steps for a wanted gap r, as a function of r."""

    theorem: Theorem
    constants: Constants
    beta: float
    theta: float

    @property
    def largest_gamma(self) -> float:
        """Largest gamma that may be tried."""
        return self.constants.version.fixed.get("gamma", 1.0 if self.theorem.gamma_attained else _INSIDE)

    @property
    def most(self) -> float:
        """The largest gap that the primal and the consensus term allow."""
        return min(self._primal[1], self.largest_gamma * self.constants.facts.least_B2)

    @cached_property
    def _primal(self) -> tuple[Callable[[float], float], float]:
        return _alpha(self.theorem, self.constants.problem, self.theta, self.constants.version.fixed.get("alpha"))

    def steps(self, r: float) -> Steps:
        """Beta at its bound, the largest alpha and the smallest gamma whose gaps are r."""
        u = self.constants.facts.least_B2
        # Where gamma does not enter the dual gap, the largest serves consensus best.
        keep = self.theorem.gamma_free or "gamma" in self.constants.version.fixed or math.isinf(u)
        gamma = self.largest_gamma if keep else min(r / u, self.largest_gamma)
        return Steps(alpha=self._primal[0](r), beta=self.beta, gamma=gamma, theta=self.theta)

    def excess(self, log_r: float) -> float:
        """Positive where the dual gap exceeds r, and nearly linear: both sides are nearly powers of r.

        (c - paid)/(1 - paid) >= r is c >= r + paid (1 - r).
        """
        r = math.exp(log_r)
        tried = self.steps(r)
        contraction = self.theorem.contraction(self.constants, tried).value
        needed = r + self.theorem.norm_change(self.constants, tried.gamma) * (1.0 - r)
        return math.log(contraction / needed) if contraction > 0.0 else _NOTHING


def _largest_gap(path: _Path) -> float | None:
    """The largest r that all three gaps reach, or None when there is none."""
    if not path.most > 0.0:
        return None
    high, low = math.log(path.most), math.log(path.most * _SMALLEST)
    if path.constants.decompose:
        # What the quick bound on the eigenvalue promises is a lower bound on r, within a factor of ten or so.
        quick = _largest_gap(replace(path, constants=replace(path.constants, decompose=False)))
        low = low if quick is None else math.log(quick) - 1e-6
    if path.excess(high) >= 0.0:
        return path.most
    if path.excess(low) <= 0.0:
        return None
    return math.exp(brentq(path.excess, low, high, xtol=1e-9))


def _alpha(
    theorem: Theorem, problem: ProblemFacts, theta: float, fixed: float | None
) -> tuple[Callable[[float], float], float]:
    """The largest alpha whose primal gap is r, as a function of r, and the largest r that there is.

    The primal gap is alpha (mu - a alpha).
    """
    if fixed is not None:
        return lambda _: fixed, theorem.primal_gap(problem, fixed, theta)
    mu = problem.mu
    a = theorem.alpha_cost(problem, theta)
    cap = _INSIDE * theorem.alpha_bound(problem, theta)
    peak = min(cap, mu / (2.0 * a)) if a > 0.0 else cap

    def alpha(r: float) -> float:
        if a == 0.0:
            return cap
        return max(min(cap, (mu + math.sqrt(max(mu * mu - 4.0 * a * r, 0.0))) / (2.0 * a)), peak)

    return alpha, theorem.primal_gap(problem, peak, theta)
