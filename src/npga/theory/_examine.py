"""Every theorem at given steps, or each at its own best ones."""

from __future__ import annotations

import math
from dataclasses import replace

from npga.steps import Steps
from npga.theory._case import Case
from npga.theory._optimum import best_steps
from npga.theory._record import Theorem
from npga.theory._theorems import PROVED, RULES


def examine(case: Case, steps: Steps | None) -> dict[str, Theorem]:
    """Every theorem at the given steps, or each at its own best ones."""
    theorems = {}
    for key, rule in RULES.items():
        tried = best_steps(case, rule) if steps is None else steps
        if tried is not None:
            theorems[key] = case.theorem(rule, tried)
            continue
        # No steps are inside the bounds: say why, at steps that spoil nothing by themselves.
        fixed = case.version.fixed
        probe = Steps(
            alpha=fixed.get("alpha", _harmless(case)),
            beta=representative_beta(case),
            gamma=fixed.get("gamma", 1e-12),
            theta=fixed.get("theta", 0.0),
        )
        found = case.theorem(rule, probe)
        theorems[key] = found if found.applies else replace(found, steps=None)
    return theorems


def representative_beta(case: Case) -> float:
    """A beta at which to read assumptions about matrices that contain it, when no steps decide it."""
    fixed = case.version.fixed.get("beta")
    if fixed is not None:
        return fixed
    bound = case.beta_bound(case.version.fixed.get("theta", 0.0))
    if 0.0 < bound < math.inf or not case.version.times_beta:
        return bound if 0.0 < bound < math.inf else 1.0
    facts = case.facts(1.0)
    assert facts is not None  # explicit matrices do not contain beta
    top = max(facts.sigma_C, facts.sigma_B2)
    return 0.5 / top if top > 0.0 else 1.0


def _harmless(case: Case) -> float:
    """An alpha inside every theorem's bound where there is one."""
    if not case.quantitative:
        return 1.0
    theta = case.version.fixed.get("theta", 0.0)
    return 0.5 * min(rule.alpha_bound(case.problem, theta) for rule in RULES.values())


def best_of(theorems: dict[str, Theorem]) -> Theorem | None:
    """The theorem with the best rate; a complete proof comes first."""
    covering = [theorem for theorem in theorems.values() if theorem.applies]
    return max(covering, key=lambda t: (t.standing == PROVED, t.gap), default=None)
