"""What every theorem says of a set-up: at given steps, or at the steps inside its bounds that minimise its rate.

Minimising delta over (alpha, beta, gamma, theta) is maximising the smallest of the three gaps. The gaps of every
theorem are monotone in all steps but alpha, so the four variables become one:

* theta: every bound and every gap gets worse as theta grows, so theta = 0 unless the version prescribes it.
* beta: the dual gap grows with beta (phi and psi are smallest eigenvalues of matrices that grow with beta, and so
  does q) and the primal gap does not contain it, so beta takes its bound. When the matrices contain beta (DLM),
  phi, psi, s and u are all proportional to beta for fixed alpha, and only the product gamma beta matters otherwise.
* for a wanted gap r, gamma must be at least r/u; the dual gap does not grow with gamma, so gamma = r/u is best, or the
  largest gamma that costs nothing, if that is larger.
* the primal gap is concave in alpha and the dual gap grows with alpha, so the best alpha for a wanted r is the
  largest at which the primal gap is still r.
* in 1+ and 3+ a larger beta makes A A^T heavier and C' = 2 C - f C^2 lighter. f is convex in beta, so the smallest
  eigenvalue of their sum is concave in beta, and its maximum, where it comes before the bound, is found by a search.

What is left is the largest r with dual gap(alpha(r), beta, gamma(r)) >= r. The left side falls and the right side
grows with r: one root, found by Brent's method. Bounds that are not attained are approached to 1e-9. Nothing here has
units: scaling A, x, lam or the costs scales the steps and leaves the rate as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from scipy.optimize import brentq, minimize_scalar

from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory._assumptions import Assumption, check_assumptions
from npga.theory._certificate import Coverage
from npga.theory._network_facts import MatrixFacts, matrix_facts
from npga.theory._problem_facts import ProblemFacts
from npga.theory._smallest_eigenvalue import Constants, Eigenvalue, Joined
from npga.theory._theorems import THEOREMS, Gaps, Theorem

_INSIDE = 1.0 - 1e-9
_NOTHING = -700.0  # stands for log 0
_SEARCHED = 200  # largest np at which the matrix is decomposed for all steps that are tried
_SMALLEST = 1e-30  # gaps below this fraction of what the primal and consensus terms allow are taken for none


@dataclass(frozen=True)
class _AtBeta:
    """Everything that depends on beta where the matrices contain it; None where the spectra are unknown."""

    setup: Setup
    facts: MatrixFacts | None
    constants: Constants | None

    @cached_property
    def assumptions(self) -> dict[str, Assumption]:
        """The state of each assumption."""
        setup = self.setup
        return check_assumptions(setup.problem, setup.network, self.facts, setup.version.basis)


@dataclass(frozen=True)
class Setup:
    """A problem, a network and a version, with everything about them that is computed once.

    Matrices that contain beta (DLM) are examined once for each beta asked for. `decompose` says whether np x np
    matrices may be decomposed where they are small enough; otherwise the bound that takes their place in large
    set-ups is used, which is quick.
    """

    problem: ProblemFacts
    network: Network
    version: Version
    decompose: bool = True
    _known: dict[float, _AtBeta] = field(default_factory=dict)

    def at(self, beta: float) -> _AtBeta:
        """Spectra of the network matrices, assumptions, and constants of the formulas."""
        key = beta if self.version.times_beta else 1.0
        if key not in self._known:
            facts = matrix_facts(self.network, self.version, key)
            constants = None
            if facts is not None:
                constants = Constants(self.problem, facts, self._joined, key)
            self._known[key] = _AtBeta(self, facts, constants)
        return self._known[key]

    @cached_property
    def _joined(self) -> Joined:
        return Joined(self.problem, self.network, self.version, self.decompose)

    @cached_property
    def quick(self) -> Setup:
        """The same without decompositions of np x np matrices."""
        return replace(self, decompose=False, _known={})

    @property
    def quantitative(self) -> bool:
        """Whether f has the constants without which every bound is zero."""
        return self.problem.mu > 0.0 and self.problem.l < math.inf

    def beta_bound(self, theorem: Theorem, alpha: float, theta: float) -> float:
        """Upper bound on beta; 0 when there is none."""
        facts = self.at(1.0).facts
        if facts is None or not self.quantitative:
            return 0.0
        return theorem.beta_bound(self.problem, facts.sigma_C, self.version.times_beta, alpha, theta)

    def typical_beta(self) -> float:
        """A beta at which to read assumptions about matrices that contain it, when no steps decide it."""
        facts = self.at(1.0).facts
        if facts is None or not self.version.times_beta:
            return self.version.fixed.get("beta", 1.0)
        top = facts.sigma_C + (self.problem.sigma**2 / self.problem.mu if self.problem.mu > 0.0 else facts.sigma_C)
        return self.version.fixed.get("beta", 0.5 / top if top > 0.0 else 1.0)

    def covered_by(self, theorem: Theorem, steps: Steps) -> Coverage:
        """Whether the theorem covers these steps, with its bounds and its rate."""
        assumptions, constants = self.at(steps.beta).assumptions, self.at(steps.beta).constants
        needs = {key: assumptions[key].holds for key in theorem.needs}
        # What fails comes before what is unknown; None sorts after False by this key.
        unmet = sorted((key for key, holds in needs.items() if not holds), key=lambda key: needs[key] is None)
        missing = [f"Assumption {key}: {assumptions[key].reason}" for key in unmet]
        standing = theorem.standing(self.problem, steps.theta)
        if constants is None or not self.quantitative:
            return Coverage(theorem, False if False in needs.values() else None, standing, reason="; ".join(missing))
        contraction = theorem.contraction(constants, steps)
        place = _compare(theorem, constants, steps, self.beta_bound(theorem, steps.alpha, steps.theta), contraction)
        gaps = theorem.gaps(constants, steps, contraction)
        if not gaps.least > 0.0 and not (place.outside or place.uncertain):
            (place.outside if gaps.exact else place.uncertain).append("one of the three terms does not shrink")
        verdict: bool | None = None if missing or place.uncertain else True
        if False in needs.values() or place.outside:
            verdict = False
        return Coverage(
            theorem,
            verdict,
            standing,
            bounds=place.bounds,
            gap=gaps.least if verdict else math.nan,
            constant=theorem.constant(constants, steps, gaps.least) if verdict else math.nan,
            exact=gaps.exact,
            steps=steps,
            reason="; ".join(missing or [*place.outside, *place.uncertain]) or _what_limits(gaps),
        )


class _Place(NamedTuple):
    """Where steps lie: sentences on those beyond their bounds, on those that may be beyond, and the bounds."""

    outside: list[str]
    uncertain: list[str]
    bounds: dict[str, float]


def _compare(
    theorem: Theorem, constants: Constants, steps: Steps, largest_beta: float, contraction: Eigenvalue
) -> _Place:
    gamma = theorem.gamma_bound(constants, steps, contraction)
    bounds = {
        "alpha": theorem.alpha_bound(constants.problem, steps.theta),
        "beta": largest_beta,
        "gamma": gamma.value,
    }
    outside: list[str] = []
    uncertain: list[str] = []
    if steps.theta > theorem.largest_theta:
        outside.append(f"theta = {steps.theta:g} is above {theorem.largest_theta:g}")
    if steps.alpha >= bounds["alpha"]:
        outside.append(f"alpha = {steps.alpha:.6g} is not below its bound {bounds['alpha']:.6g}")
    if steps.beta > bounds["beta"]:
        known = constants.facts.C.exact or constants.facts.C_is_zero
        sentence = f"beta = {steps.beta:.6g} is above its bound {bounds['beta']:.6g}"
        (outside if known else uncertain).append(sentence if known else f"{sentence}, which is a lower bound on it")
    if steps.gamma >= gamma.value:
        sentence = f"gamma = {steps.gamma:.6g} is not below its bound {gamma.value:.6g}"
        known = gamma.exact
        (outside if known else uncertain).append(sentence if known else f"{sentence}, which is a lower bound on it")
    return _Place(outside, uncertain, bounds)


def _what_limits(gaps: Gaps) -> str:
    """Which of the three terms limits the rate."""
    name = {
        gaps.primal: "the primal term: curvature of f and alpha",
        gaps.dual: "the dual term: A, h and beta",
        gaps.consensus: "the consensus term: the network and gamma",
    }[gaps.least]
    return f"all assumptions hold and the steps are inside the bounds; the rate is set by {name}"


# ------------------------------------------------------------------ best steps


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
        alpha, theta = fixed.get("alpha", _harmless_alpha(setup)), fixed.get("theta", 0.0)
        bound = setup.beta_bound(theorem, alpha, theta)
        beta = fixed.get("beta", bound / 2.0 if 0.0 < bound < math.inf else setup.typical_beta())
        probe = Steps(alpha=alpha, beta=beta, gamma=fixed.get("gamma", _harmless_gamma(setup)), theta=theta)
        coverage = setup.covered_by(theorem, probe)
        found[key] = coverage if coverage.applies else replace(coverage, steps=None)
    return found


def best_of(found: dict[str, Coverage]) -> Coverage | None:
    """The theorem with the best rate; among equals, up to rounding, the first."""
    covering = [coverage for coverage in found.values() if coverage.applies]
    most = max((coverage.gap for coverage in covering), default=0.0)
    return next((coverage for coverage in covering if coverage.gap >= _INSIDE * most), None)


def _harmless_alpha(setup: Setup) -> float:
    """An alpha inside every theorem's bound where there is one."""
    if not setup.quantitative:
        return 1.0
    theta = setup.version.fixed.get("theta", 0.0)
    return 0.5 * min(theorem.alpha_bound(setup.problem, theta) for theorem in THEOREMS.values())


def _harmless_gamma(setup: Setup) -> float:
    """A gamma so small that it breaks no bound where there is one."""
    facts = setup.at(setup.typical_beta()).facts
    return 1e-12 / facts.sigma_B2 if facts is not None and facts.sigma_B2 > 0.0 else 1e-12


def best_steps(setup: Setup, theorem: Theorem) -> Steps | None:
    """Steps that minimise the theorem's rate, those that the version prescribes kept; None when it allows none."""
    theta = setup.version.fixed.get("theta", 0.0)
    if not setup.quantitative or theta > theorem.largest_theta:
        return None
    path = _Path(setup, theorem, theta)
    beta = path.largest_beta(_harmless_alpha(setup))
    assumptions = setup.at(beta).assumptions if beta > 0.0 else {}
    if setup.at(1.0).facts is None or not all(assumptions.get(key, _MISSING).holds for key in theorem.needs):
        return None
    found = _optimum(path)
    return found if found is not None and setup.covered_by(theorem, found).applies else None


_MISSING = Assumption("", "", None, 0.0, "")


@dataclass(frozen=True)
class _Path:
    """The best steps for a wanted gap r, as functions of r; beta may be given."""

    setup: Setup
    theorem: Theorem
    theta: float
    beta: float | None = None

    @property
    def _fixed(self) -> Mapping[str, float]:
        return self.setup.version.fixed

    def _constants(self, beta: float) -> Constants:
        constants = self.setup.at(beta).constants
        assert constants is not None  # asked before
        return constants

    @cached_property
    def primal(self) -> tuple[Callable[[float], float], float]:
        """The largest alpha for a wanted gap, and the largest gap that the primal term allows."""
        return _alpha(self.theorem, self.setup.problem, self.theta, self._fixed.get("alpha"))

    def steps(self, r: float) -> Steps:
        """The largest alpha and the smallest gamma whose gaps are r, and the best beta for them."""
        alpha = self.primal[0](r)
        most = self.largest_beta(alpha)
        beta = self._best_beta(alpha, r, most) if self.beta is None else min(self.beta, most)
        return Steps(alpha=alpha, beta=beta, gamma=self._gamma(r, beta), theta=self.theta)

    def _gamma(self, r: float, beta: float) -> float:
        constants = self._constants(beta)
        u = constants.facts.least_B2
        free = self.theorem.free_gamma(constants)
        return self._fixed.get("gamma", 1.0 if math.isinf(u) else max(r / u, _INSIDE * free))

    def largest_beta(self, alpha: float) -> float:
        """The bound on beta, short of C = I where C contains beta; as good as infinite where A = 0."""
        if "beta" in self._fixed:
            return self._fixed["beta"]
        bound = self.setup.beta_bound(self.theorem, alpha, self.theta)
        facts = self.setup.at(1.0).facts
        if self.setup.version.times_beta and facts is not None:
            bound *= _INSIDE
        if bound < math.inf:
            return bound
        l_h = self.setup.problem.h_L
        return 1e6 * self.setup.problem.n * l_h if 0.0 < l_h < math.inf else 1.0

    @cached_property
    def trades(self) -> bool:
        """Whether a smaller beta may contract more."""
        facts = self.setup.at(1.0).facts
        return self.theorem.beta_trades and "beta" not in self._fixed and facts is not None and not facts.C_is_zero

    def _best_beta(self, alpha: float, r: float, most: float) -> float:
        if not self.trades:
            return most

        def loss(log_beta: float) -> float:
            beta = math.exp(log_beta)
            tried = Steps(alpha=alpha, beta=beta, gamma=self._gamma(r, beta), theta=self.theta)
            return -self.theorem.contraction(self._constants(beta), tried).value

        top = math.log(most)
        found = minimize_scalar(loss, bounds=(top + _NOTHING / 20.0, top), method="bounded", options={"xatol": 1e-7})
        return most if loss(top) <= found.fun else math.exp(found.x)

    def excess(self, log_r: float) -> float:
        """Positive where the dual gap exceeds r, and nearly linear: both sides are nearly powers of r.

        (c - paid)/(1 - paid) >= r is c >= r + paid (1 - r).
        """
        r = math.exp(log_r)
        tried = self.steps(r)
        constants = self._constants(tried.beta)
        contraction = self.theorem.contraction(constants, tried).value
        paid = self.theorem.norm_change(constants, tried.gamma)
        reached = tried.gamma * constants.facts.least_B2 >= _INSIDE * r
        return (
            math.log(contraction / (r + paid * (1.0 - r))) if reached and paid < 1.0 and contraction > 0.0 else _NOTHING
        )


def _optimum(path: _Path) -> Steps | None:
    """The steps with the largest gap, or None when no steps have a positive one.

    In large set-ups what the quick bound on the eigenvalue promises comes first: it chooses beta where that is to be
    chosen, and its gap is a lower bound on the true one, within a factor of ten or so.
    """
    most = path.primal[1]
    if not most > 0.0:
        return None
    low = most * _SMALLEST
    if path.setup.decompose and path.setup.problem.n * path.setup.problem.p > _SEARCHED:
        quick = replace(path, setup=path.setup.quick)
        found = _largest_gap(quick, low)
        if found is not None:
            low = found * (1.0 - 1e-6)
            path = replace(path, beta=quick.steps(found).beta) if path.trades else path
    gap = _largest_gap(path, low)
    return None if gap is None else path.steps(gap)


def _largest_gap(path: _Path, low: float) -> float | None:
    """The largest r that all three gaps reach, or None when there is none above `low`."""
    most = path.primal[1]
    if path.excess(math.log(most)) >= 0.0:
        return most
    if path.excess(math.log(low)) <= 0.0:
        return None
    return math.exp(brentq(path.excess, math.log(low), math.log(most), xtol=1e-10) - 1e-9)


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
