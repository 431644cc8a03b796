"""What the loop wants to know of a state, in one compiled call; see `npga.problem.residual` for the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.solver.kernels import _functions as functions
from npga.solver.kernels import _lanes as lanes
from npga.solver.kernels._jit import compiled, number, part, view
from npga.solver.kernels._primal import Lowered, entry, matrix
from npga.solver.kernels._products import add_adjoint

# A row of findings.
RESIDUAL_X, RESIDUAL_Z, SCALE_X, SCALE_Z, SIZE, SPREAD, GAP, OBJECTIVE, LARGEST, INCREMENT = range(10)
FINDINGS = 10
# What a measurement must know beside the problem.
CURVED, STEP_X, STEP_Z, G_IS_ZERO, H_IS_INDICATOR, SLACK, HAS_REFERENCE = range(7)


@compiled
def _norm(x: Any) -> float:
    total = 0.0
    for j in range(len(x)):
        total += np.float64(x[j]) * np.float64(x[j])
    return np.sqrt(total)  # type: ignore[no-any-return]


@compiled
def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if numerator > 0.0 and denominator > 0.0 else 1.0


@compiled
def _duals(low: Lowered, lam: Any, lam_prev: Any, mean: Any, out: Any) -> None:
    """Mean, size and spread of lam, its largest entry and that of its last change; NaN stays NaN."""
    n, p = low.n, low.p
    for j in range(p):
        mean[j] = number(low.t, 0)
    largest, increment, broken = 0.0, 0.0, 0.0
    for i in range(n):
        new, old = part(lam, i * p, (i + 1) * p), part(lam_prev, i * p, (i + 1) * p)
        for j in range(p):
            mean[j] += new[j]
        for j in range(p):
            largest = max(largest, abs(new[j]))
            increment = max(increment, abs(new[j] - old[j]))
            broken += new[j] - old[j]
    scale = number(low.t, 1) / number(low.t, n)
    for j in range(p):
        mean[j] *= scale
    spread = 0.0
    for i in range(n):
        new = part(lam, i * p, (i + 1) * p)
        for j in range(p):
            spread += np.float64(new[j] - mean[j]) ** 2
    out[SIZE], out[SPREAD] = _norm(lam), np.sqrt(spread)
    out[LARGEST] = np.nan if np.isnan(broken) else largest
    out[INCREMENT] = np.nan if np.isnan(broken) else increment


@compiled
def _stationarity(low: Lowered, facts: Any, x: Any, mean: Any, work: Any, out: Any) -> None:
    """How far a proximal step from x moves, and the scale of that."""
    d, p = low.d, low.p
    gradient, pulled = part(work, p, p + d), part(work, p + d, p + 2 * d)
    for j in range(2 * d):
        work[p + j] = number(low.t, 0)
    for group in range(low.group_count):
        functions.add_grad(low.f, entry(low.f_bounds, group), entry(low.f_bounds, group + 1), x, gradient)
    for i in range(low.n):
        start, stop = entry(low.offsets, i), entry(low.offsets, i + 1)
        if start < stop:
            add_adjoint(matrix(low, i), 0, p, mean, part(pulled, start, stop))
    size_x, force = _norm(x), max(_norm(gradient), _norm(pulled))
    s = facts[STEP_X] if facts[CURVED] else _ratio(size_x, force)
    for j in range(d):
        gradient[j] += pulled[j]
    out[SCALE_X] = max(force, size_x / s)
    if facts[G_IS_ZERO]:
        out[RESIDUAL_X] = _norm(gradient)
        return
    step = np.full(1, s).astype(work.dtype)
    for j in range(d):
        gradient[j] = x[j] - step[0] * gradient[j]
    lanes.prox(low.g, gradient, step, gradient)
    for j in range(d):
        gradient[j] = x[j] - gradient[j]
    out[RESIDUAL_X] = _norm(gradient) / s


@compiled
def _coupling(low: Lowered, facts: Any, Ax: Any, mean: Any, work: Any, out: Any) -> None:
    """How far z = sum_i A_i x_i is from where h would have it, and h(z)."""
    n, p = low.n, low.p
    z, near = part(work, 0, p), np.empty(p, work.dtype)
    for j in range(p):
        z[j] = number(low.t, 0)
    for i in range(n):
        row = part(Ax, i * p, (i + 1) * p)
        for j in range(p):
            z[j] += row[j]
    size_z = _norm(Ax)
    t = facts[STEP_Z] if facts[CURVED] and facts[STEP_Z] > 0 else _ratio(size_z, _norm(mean))
    step = np.full(1, t).astype(work.dtype)
    for j in range(p):
        near[j] = z[j] + step[0] * mean[j]
    lanes.prox(low.h, near, step, near)
    shift = 0.0 if facts[H_IS_INDICATOR] else t * _norm(mean)
    out[SCALE_Z] = max(size_z, _norm(near), shift)
    for j in range(p):
        near[j] = z[j] - near[j]
    out[RESIDUAL_Z] = _norm(near)
    if not facts[H_IS_INDICATOR]:
        out[OBJECTIVE] += functions.value(low.h, z, facts[SLACK])


@compiled
def measure(low: Lowered, facts: Any, x: int, lam: int, lam_prev: int, Ax: int, reference: Any, out: Any) -> None:
    """Fill a row of findings for the state at these addresses; `low` holds the functions as they are."""
    size = low.n * low.p
    primal = view(x, 0, low.d, low.t)
    work = np.empty(low.p + 2 * low.d, primal.dtype)
    mean = np.empty(low.p, primal.dtype)
    _duals(low, view(lam, 0, size, low.t), view(lam_prev, 0, size, low.t), mean, out)
    out[OBJECTIVE] = functions.value(low.f, primal, facts[SLACK]) + functions.value(low.g, primal, facts[SLACK])
    _stationarity(low, facts, primal, mean, work, out)
    _coupling(low, facts, view(Ax, 0, size, low.t), mean, work, out)
    out[GAP] = np.nan
    if facts[HAS_REFERENCE]:
        distance = 0.0
        for j in range(low.d):
            distance += np.float64(primal[j] - reference[j]) ** 2
        out[GAP] = np.sqrt(distance)
