"""A problem, a network and a version, with everything about them that is computed once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory._assumptions import Assumption, check_assumptions
from npga.theory._matrices import Entry, MatrixFacts, matrix_facts, smallest_entry
from npga.theory._problem_facts import ProblemFacts
from npga.theory._record import Theorem
from npga.theory._theorems import Rule, Setting, beta_bound


@dataclass(frozen=True)
class Case:
    """What is examined; matrices that contain beta (DLM) are examined once for each beta asked for.

    `decompose` says whether np x np matrices may be decomposed where they are small enough; otherwise the bound that
    takes their place in large set-ups is used, which is quick.
    """

    problem: ProblemFacts
    network: Network
    version: Version
    decompose: bool = True
    _memory: dict[float, tuple[MatrixFacts | None, dict[str, Assumption], Setting | None]] = field(default_factory=dict)
    _entry: list[Entry] = field(default_factory=list)

    def _at(self, beta: float) -> tuple[MatrixFacts | None, dict[str, Assumption], Setting | None]:
        key = beta if self.version.times_beta else 1.0
        if key not in self._memory:
            if not self._entry:
                self._entry.append(smallest_entry(self.network, self.version))
            facts = matrix_facts(self.network, self.version, key, self._entry[0])
            assumptions = check_assumptions(self.problem, self.network, facts, self.version.basis)
            setting = (
                None if facts is None else Setting(self.problem, self.network, self.version, key, facts, self.decompose)
            )
            self._memory[key] = (facts, assumptions, setting)
        return self._memory[key]

    def facts(self, beta: float) -> MatrixFacts | None:
        """Spectra of the network matrices."""
        return self._at(beta)[0]

    def assumptions(self, beta: float) -> dict[str, Assumption]:
        """All assumptions of the paper."""
        return self._at(beta)[1]

    def setting(self, beta: float) -> Setting | None:
        """Constants of the theorems' formulas; None when the spectra are unknown."""
        return self._at(beta)[2]

    @property
    def quantitative(self) -> bool:
        """Whether f has the constants without which every bound is zero."""
        return self.problem.mu > 0.0 and self.problem.l < math.inf

    def beta_bound(self, theta: float) -> float:
        """Upper bound on beta in all theorems; 0 when there is none."""
        facts = self.facts(1.0)
        if facts is None or not self.quantitative:
            return 0.0
        return beta_bound(self.problem, facts.sigma_C, theta, self.version.times_beta)

    def admissible_beta(self, rule: Rule, theta: float) -> float:
        """The bound on beta, lowered until the matrices that contain beta meet the theorem's assumptions.

        With B^2 = beta B', C = beta C' and joint eigenvalues b, c, d, the assumptions are affine in beta:
        beta b <= 1 (4.iii), beta b <= 1 - d^2 (7), beta (b - d^2 c) <= 1 - d^2 (9).
        """
        bound = self.beta_bound(theta)
        if not self.version.times_beta or self.network.n == 1:
            return bound
        at_one = self.facts(1.0)
        assert at_one is not None  # explicit matrices do not contain beta
        caps = [1.0 / at_one.B2.high if at_one.B2.high > 0.0 else math.inf]
        if self.version.family == "ATC":
            # Halving ends: at beta = 0 the inequalities read D^2 <= I, and they are affine in beta.
            beta = min(bound, *caps)
            for _ in range(60):
                if all(self.assumptions(beta)[key].holds is not False for key in rule.needs):
                    return beta
                beta /= 2.0
        return min(bound, *caps)

    def theorem(self, rule: Rule, steps: Steps) -> Theorem:
        """Whether the theorem covers these steps, with its bounds and its rate."""
        assumptions = self.assumptions(steps.beta)
        needs = {key: assumptions[key].holds for key in rule.needs}
        # What fails comes before what is unknown; None sorts after False by this key.
        unmet = sorted((key for key, holds in needs.items() if not holds), key=lambda key: needs[key] is None)
        missing = [f"Assumption {key}: {assumptions[key].reason}" for key in unmet]
        setting = self.setting(steps.beta)
        standing = rule.standing(self.problem, steps.theta)
        if setting is None or not self.quantitative:
            return Theorem(rule, False if False in needs.values() else None, standing, reason="; ".join(missing))
        outside, uncertain, bounds = _outside(self, rule, setting, steps)
        gaps = rule.gaps(setting, steps)
        verdict: bool | None = False if False in needs.values() or outside else None if missing or uncertain else True
        return Theorem(
            rule,
            verdict,
            standing,
            bounds=bounds,
            gap=gaps.least if verdict else math.nan,
            exact=gaps.exact,
            steps=steps,
            reason="; ".join(missing or [*outside, *uncertain]) or _limit(gaps.primal, gaps.dual, gaps.consensus),
        )


def _outside(case: Case, rule: Rule, setting: Setting, steps: Steps) -> tuple[list[str], list[str], dict[str, float]]:
    """Sentences on steps beyond their bounds, on steps that only may be beyond, and the bounds."""
    gamma = rule.gamma_bound(setting, steps.alpha, steps.beta)
    bounds = {
        "alpha": rule.alpha_bound(case.problem, steps.theta),
        "beta": case.beta_bound(steps.theta),
        "gamma": gamma.value,
    }
    outside: list[str] = []
    uncertain: list[str] = []
    if steps.theta > rule.largest_theta:
        outside.append(f"theta = {steps.theta:g} is above {rule.largest_theta:g}")
    if steps.alpha >= bounds["alpha"]:
        outside.append(f"alpha = {steps.alpha:.6g} is not below its bound {bounds['alpha']:.6g}")
    if steps.beta > bounds["beta"]:
        known = setting.facts.C.exact or setting.facts.C_is_zero
        sentence = f"beta = {steps.beta:.6g} is above its bound {bounds['beta']:.6g}"
        (outside if known else uncertain).append(sentence if known else f"{sentence}, which is a lower bound on it")
    if steps.gamma > gamma.value or (steps.gamma == gamma.value and not rule.gamma_may_be_one):
        sentence = f"gamma = {steps.gamma:.6g} is not below its bound {gamma.value:.6g}"
        known = gamma.exact or steps.gamma >= 1.0
        (outside if known else uncertain).append(sentence if known else f"{sentence}, which is a lower bound on it")
    return outside, uncertain, bounds


def _limit(primal: float, dual: float, consensus: float) -> str:
    """Which of the three terms limits the rate."""
    name = {
        primal: "the primal term: curvature of f and alpha",
        dual: "the dual term: A, h and beta",
        consensus: "the consensus term: the network and gamma",
    }[min(primal, dual, consensus)]
    return f"all assumptions hold and the steps are inside the bounds; the rate is set by {name}"
