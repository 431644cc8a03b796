"""What one theorem says of one set-up: whether it covers given steps, with which bounds and which rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from npga.errors import InputError
from npga.networks import Network, Version
from npga.steps import Steps
from npga.theory._assumptions import Assumption, check_assumptions
from npga.theory._network_facts import MatrixFacts, matrix_facts
from npga.theory._problem_facts import ProblemFacts
from npga.theory._smallest_eigenvalue import Constants, Eigenvalue, Joined
from npga.theory._theorems import Gaps, Theorem

_NO_STEPS = {"alpha": 0.0, "beta": 0.0, "gamma": 0.0}


@dataclass(frozen=True)
class Coverage:
    """Whether a theorem covers the set-up, with which bounds and which rate.

    Attributes
    ----------
    theorem
        The theorem: its number `key`, the assumptions that it `needs`, its formulas.
    applies
        True, False, or None when an assumption cannot be told.
    standing
        Whose proof it is: "paper", or "ours: proof in docs/theory".
    bounds
        Upper bounds on alpha (not attained), beta (attained) and gamma (not attained), at the theta and, where they
        depend on them, at the alpha and beta of `steps`. All 0 when no step is allowed. Where each agent has an alpha
        of its own, the bound on alpha is one for each agent too: theirs, scaled together.
    gap
        1 - delta, without cancellation; nan unless the theorem applies.
    constant
        The number K with |x_k - x*| <= K delta^(k/2) |xi_0|, where xi_0 is the error of the start in the norm
        |xi|^2 = |x - x*|^2 + (alpha/beta) |lam - lam*|^2 + (alpha/(beta gamma)) |y - y*|^2, z = B y.
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
    bounds: dict[str, Any] = field(default_factory=lambda: dict(_NO_STEPS))
    gap: float = math.nan
    constant: float = math.nan
    exact: bool = True
    steps: Steps | None = None
    reason: str = ""

    @property
    def key(self) -> str:
        """Number of the theorem."""
        return self.theorem.key

    @property
    def rate(self) -> float:
        """The number delta with |x_k - x*|^2 = O(delta^k); nan unless the theorem applies."""
        return 1.0 - self.gap

    def iterations(self, accuracy: float) -> int:
        """Iterations after which |x_k - x*| <= accuracy |xi_0| is sure: the least k with K delta^(k/2) <= accuracy.

        `constant` says what K and xi_0 are.
        """
        if not 0.0 < accuracy < 1.0:
            raise InputError(f"accuracy = {accuracy!r} arrived; expected a factor between 0 and 1, such as 1e-6")
        if not self.applies:
            raise InputError(f"Theorem {self.key} does not apply, so it predicts nothing: {self.reason}")
        if self.gap >= 1.0:
            return 1
        return max(math.ceil(2.0 * math.log(accuracy / self.constant) / math.log1p(-self.gap)), 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text; None for what is not a finite number."""
        return {
            "applies": self.applies,
            "standing": self.standing,
            "needs": list(self.theorem.needs),
            "bounds": {name: finite(value) for name, value in self.bounds.items()},
            "rate": finite(self.rate),
            "gap": finite(self.gap),
            "constant": finite(self.constant),
            "exact": self.exact,
            "iterations_to_1e-6": self.iterations(1e-6) if self.applies else None,
            "steps": None if self.steps is None else steps_dict(self.steps),
            "reason": self.reason,
        }


def finite(value: Any) -> Any:
    """The number, or None if it is infinite or undefined: JSON has no word for these. A list for several."""
    if isinstance(value, tuple):
        return [finite(entry) for entry in value]
    return value if math.isfinite(value) else None


def steps_dict(steps: Steps) -> dict[str, Any]:
    """The four steps by name; a list where each agent has an alpha of its own."""
    return {"alpha": finite(steps.alpha), "beta": steps.beta, "gamma": steps.gamma, "theta": steps.theta}


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
