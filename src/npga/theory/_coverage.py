"""What one theorem says of one set-up: whether it covers given steps, with which bounds and which rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npga.errors import InputError
from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory._assumptions import Assumption, check_assumptions
from npga.theory._network_facts import Entry, MatrixFacts, matrix_facts, smallest_entry
from npga.theory._problem_facts import ProblemFacts
from npga.theory._theorems import Constants, Gaps, Theorem, beta_bound

_NO_STEPS = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}


@dataclass(frozen=True)
class Coverage:
    """Whether a theorem covers the set-up, with which bounds and which rate.

    Attributes
    ----------
    theorem
        The theorem: its number `key`, the assumptions that it `needs`, its `source`, its formulas.
    applies
        True, False, or None when an assumption cannot be told.
    standing
        "proved", or "proof incomplete" (Theorems 4 and 4+ with theta > 0 and g != 0).
    bounds
        Upper bounds on alpha (not attained), beta (attained) and gamma (not attained, except in "4+"), at the theta
        and, where they depend on them, at the alpha and beta of `steps`. All 0 when no step is allowed.
    gap
        1 - delta, without cancellation; nan unless the theorem applies.
    exact
        Whether eigenvalues are exact; otherwise they are bounds, on the side that makes the promise weaker.
    steps
        The steps examined; None if there are none inside the bounds.
    reason
        A sentence.
    """

    theorem: Theorem
    applies: bool | None
    standing: str
    bounds: dict[str, float] = field(default_factory=lambda: dict(_NO_STEPS))
    gap: float = math.nan
    exact: bool = True
    steps: Steps | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Number of the theorem."""
        return self.theorem.key

    @property
    def source(self) -> str:
        """Whose theorem it is: the paper's, or this project's own."""
        return self.theorem.source

    @property
    def rate(self) -> float:
        """The number delta with |x_k - x*|^2 = O(delta^k); nan unless the theorem applies."""
        return 1.0 - self.gap

    def iterations(self, accuracy: float) -> int:
        """Iterations after which the bound on |x_k - x*| has shrunk by the factor `accuracy`.

        The least k with delta^(k/2) <= accuracy. The constant in front, which depends on the start, is left out.
        """
        if not 0.0 < accuracy < 1.0:
            raise InputError(f"accuracy = {accuracy!r} arrived; expected a factor between 0 and 1, such as 1e-6")
        if not self.applies:
            raise InputError(f"Theorem {self.key} does not apply, so it predicts nothing: {self.reason}")
        return max(math.ceil(2.0 * math.log(accuracy) / math.log1p(-self.gap)), 1) if self.gap < 1.0 else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text; None for what is not a finite number."""
        return {
            "applies": self.applies,
            "standing": self.standing,
            "source": self.source,
            "needs": list(self.theorem.needs),
            "bounds": {name: finite(value) for name, value in self.bounds.items()},
            "rate": finite(self.rate),
            "gap": finite(self.gap),
            "exact": self.exact,
            "iterations_to_1e-6": self.iterations(1e-6) if self.applies else None,
            "steps": None if self.steps is None else steps_dict(self.steps),
            "reason": self.reason,
        }


def finite(value: float) -> float | None:
    """The number, or None if it is infinite or undefined: JSON has no word for these."""
    return value if math.isfinite(value) else None


def steps_dict(steps: Steps) -> dict[str, float]:
    """The four numbers by name."""
    return {"alpha": steps.alpha, "beta": steps.beta, "gamma": steps.gamma, "theta": steps.theta}


class _AtBeta(NamedTuple):
    """Everything that depends on beta where the matrices contain it."""

    facts: MatrixFacts | None
    assumptions: dict[str, Assumption]
    constants: Constants | None


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
    _entry: list[Entry] = field(default_factory=list)

    def at(self, beta: float) -> _AtBeta:
        """Spectra of the network matrices, assumptions, and constants of the formulas (None if spectra are unknown)."""
        key = beta if self.version.times_beta else 1.0
        if key not in self._known:
            if not self._entry:
                self._entry.append(smallest_entry(self.network, self.version))
            facts = matrix_facts(self.network, self.version, key, self._entry[0])
            assumptions = check_assumptions(self.problem, self.network, facts, self.version.basis)
            constants = None
            if facts is not None:
                constants = Constants(self.problem, self.network, self.version, key, facts, self.decompose)
            self._known[key] = _AtBeta(facts, assumptions, constants)
        return self._known[key]

    @property
    def quantitative(self) -> bool:
        """Whether f has the constants without which every bound is zero."""
        return self.problem.mu > 0.0 and self.problem.l < math.inf

    def beta_bound(self, theta: float) -> float:
        """Upper bound on beta in all theorems; 0 when there is none."""
        facts = self.at(1.0).facts
        if facts is None or not self.quantitative:
            return 0.0
        return beta_bound(self.problem, facts.sigma_C, theta, self.version.times_beta)

    def typical_beta(self) -> float:
        """A beta at which to read assumptions about matrices that contain it, when no steps decide it."""
        fixed = self.version.fixed.get("beta")
        if fixed is not None:
            return fixed
        bound = self.beta_bound(self.version.fixed.get("theta", 0.0))
        if 0.0 < bound < math.inf or not self.version.times_beta:
            return bound if 0.0 < bound < math.inf else 1.0
        facts = self.at(1.0).facts
        assert facts is not None  # explicit matrices do not contain beta
        top = max(facts.sigma_C, facts.sigma_B2)
        return 0.5 / top if top > 0.0 else 1.0

    def covered_by(self, theorem: Theorem, steps: Steps) -> Coverage:
        """Whether the theorem covers these steps, with its bounds and its rate."""
        _, assumptions, constants = self.at(steps.beta)
        needs = {key: assumptions[key].holds for key in theorem.needs}
        # What fails comes before what is unknown; None sorts after False by this key.
        unmet = sorted((key for key, holds in needs.items() if not holds), key=lambda key: needs[key] is None)
        missing = [f"Assumption {key}: {assumptions[key].reason}" for key in unmet]
        standing = theorem.standing(self.problem, steps.theta)
        if constants is None or not self.quantitative:
            return Coverage(theorem, False if False in needs.values() else None, standing, reason="; ".join(missing))
        place = _compare(theorem, constants, steps, self.beta_bound(steps.theta))
        gaps = theorem.gaps(constants, steps)
        verdict: bool | None = None if missing or place.uncertain else True
        if False in needs.values() or place.outside:
            verdict = False
        return Coverage(
            theorem,
            verdict,
            standing,
            bounds=place.bounds,
            gap=gaps.least if verdict else math.nan,
            exact=gaps.exact,
            steps=steps,
            reason="; ".join(missing or [*place.outside, *place.uncertain]) or _what_limits(gaps),
        )


class _Place(NamedTuple):
    """Where steps lie: sentences on those beyond their bounds, on those that may be beyond, and the bounds."""

    outside: list[str]
    uncertain: list[str]
    bounds: dict[str, float]


def _compare(theorem: Theorem, constants: Constants, steps: Steps, largest_beta: float) -> _Place:
    gamma = theorem.gamma_bound(constants, steps)
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
    if steps.gamma > gamma.value or (steps.gamma == gamma.value and not theorem.gamma_attained):
        sentence = f"gamma = {steps.gamma:.6g} is not below its bound {gamma.value:.6g}"
        known = gamma.exact or steps.gamma >= 1.0
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
