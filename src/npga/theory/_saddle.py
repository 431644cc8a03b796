"""Whether a saddle point exists (Assumption 1), as far as the facts of the functions tell."""

from __future__ import annotations

import math

import numpy as np

from npga.functions import Custom, Function, SeparableSum
from npga.problem import Problem
from npga.theory._rank import Fact, FloatArray


def _is_finite(function: Function) -> bool | None:
    """Whether the function is finite everywhere; None when its facts do not tell."""
    if math.isfinite(function.L):
        return True
    if function.is_indicator:
        return False
    if isinstance(function, SeparableSum):
        return _all([_is_finite(part) for part in function.parts])
    inner = getattr(function, "f", None)
    if isinstance(inner, Function):  # multiples and translates
        return _is_finite(inner)
    return None if isinstance(function, Custom) else True


def _all(answers: list[bool | None]) -> bool | None:
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def saddle_point(problem: Problem, rank: Fact, A: FloatArray | None) -> Fact:
    """Assumption 1: a minimiser exists, and Slater's condition gives the multiplier.

    f + g + h(A .) is strongly convex when mu > 0, so it has a minimiser as soon as it is finite somewhere.
    Slater's condition asks for an x in relint dom g with A x in relint dom h.
    """
    g_finite = _all([_is_finite(agent.g) for agent in problem.agents if agent.A.shape[1]])
    if problem.mu + min((a.g.mu for a in problem.agents if a.A.shape[1]), default=0.0) <= 0.0:
        return Fact(None, -math.inf, "f + g is not strongly convex, so a minimiser may fail to exist")
    if _is_finite(problem.h):
        return Fact(
            True, math.inf, "Slater: h is finite everywhere, and every convex domain of g has a relative interior"
        )
    if g_finite and rank.holds:
        return Fact(True, math.inf, "Slater: g is finite everywhere and A maps onto the space in which h lives")
    if g_finite and problem.h.is_point and A is not None:
        return _consistent(problem, A)
    return Fact(
        None,
        -math.inf,
        "Slater's condition asks for x in relint dom g with A x in relint dom h, which cannot be told here",
    )


def _consistent(problem: Problem, A: FloatArray) -> Fact:
    """Whether the equality A x = b has a solution when the rows of A are dependent."""
    b = np.asarray(problem.h.prox(np.zeros(problem.p), 1.0), dtype=np.float64)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    misfit = float(np.linalg.norm(A @ x - b)) / max(float(np.linalg.norm(b)), 1e-300)
    if misfit <= 1e-12:
        return Fact(True, math.inf, f"Slater: the equality constraint has a solution (relative misfit {misfit:.1e})")
    if misfit >= 1e-6:
        return Fact(
            False, -misfit, f"the equality constraint has no solution: every x misses b by {misfit:.1e} |b| or more"
        )
    return Fact(
        None, -misfit, f"the equality constraint is missed by {misfit:.1e} |b|, neither rounding nor clearly more"
    )
