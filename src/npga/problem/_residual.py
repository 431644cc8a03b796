"""The scale-free residual of the optimality conditions of P1.

A pair (x, lam) with lam in R^p solves the saddle-point problem if and only if

    0 in grad f(x) + A^T lam + dg(x),        (stationarity)
    lam in dh(A x).                          (coupling)

Both are measured by how far a proximal step moves:

    r_x = (x - prox_{s g}(x - s (grad f(x) + A^T lam))) / s,     relative to  max(|grad f|, |A^T lam|, l |x|)
    r_z =  z - prox_{t h}(z + t lam),   z = sum_i A_i x_i,       relative to  max(|(A_i x_i)_i|, |prox|, t |lam|)

with s = 1/l and t = sigma^2/l, which have the units of x^2/cost and z^2/cost, so that a change of units of x, of
the rows of A or of the cost leaves the residual as it is. Where f has no curvature (l = 0), that of h takes its place
(`Problem.curvature`), and where both have none, s and t are ratios of the current magnitudes. The scale of the
coupling counts the single terms A_i x_i because their sum may be zero at the solution, and t |lam| because all of them
may be; not so for an indicator h: where a constraint cannot be met lam grows for ever and must not hide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npga.functions import Function

if TYPE_CHECKING:
    from npga.problem._problem import Problem

Array = NDArray[Any]


class Residual(NamedTuple):
    """Relative residuals, their maximum, and the absolute ones that they came from."""

    kkt: float
    stationarity: float
    coupling: float
    absolute: tuple[float, float]


def residual(problem: Problem, x: Array, Ax: Array, lam: Array, floor: tuple[float, float] = (0.0, 0.0)) -> Residual:
    """Residual of the optimality conditions at (x, lam).

    Parameters
    ----------
    problem
        The problem.
    x, Ax, lam
        Concatenated x, the n x p array of rows A_i x_i, and one dual vector of length p.
    floor
        Smallest scales for the two conditions. A run passes what rounding can resolve of its first residual, so
        that a solution at the origin can be recognised.
    """
    gradient = problem.f.grad(x)
    pull = problem.A.adjoint(np.broadcast_to(lam, Ax.shape))
    z = Ax.sum(axis=0)
    size_x, size_gradient, size_pull = _norm(x), _norm(gradient), _norm(pull)
    size_z, size_lam = _norm(Ax), _norm(lam)
    curvature = problem.curvature
    s = 1.0 / curvature if curvature else _ratio(size_x, max(size_gradient, size_pull))
    t = problem.sigma**2 / curvature if curvature and problem.sigma else _ratio(size_z, size_lam)

    force = gradient + pull
    r_x = stationarity_gap(problem.g, x, force, s)
    near = coupling_point(problem.h, z, lam, t)
    r_z = _norm(z - near)
    stationarity = _relative(r_x, max(size_gradient, size_pull, size_x / s, floor[0]))
    shift = 0.0 if problem.h.is_indicator else t * size_lam
    coupling = _relative(r_z, max(size_z, _norm(near), shift, floor[1]))
    return Residual(_worse(stationarity, coupling), stationarity, coupling, (r_x, r_z))


def natural_curvature(l_f: float, l_h: float, sigma: float) -> float:
    """A unit of cost / x^2: l_f, or l_h sigma^2 where f has no curvature, or 0 where neither has a finite one."""
    for value in (l_f, l_h * sigma**2 if sigma else 0.0):
        if 0.0 < value < np.inf:
            return value
    return 0.0


def stationarity_gap(g: Function, x: Array, force: Array, s: float) -> float:
    """|x - prox_{s g}(x - s force)| / s with force = grad f(x) + A^T lam; for all agents or for one."""
    return _norm(force) if g.is_zero else _norm(x - g.prox(x - s * force, s)) / s


def coupling_point(h: Function, z: Array, lam: Array, t: float) -> Array:
    """prox_{t h}(z + t lam), which is z where lam in dh(z)."""
    return h.prox(z + t * lam, t)


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if numerator > 0.0 and denominator > 0.0 else 1.0


def _relative(size: float, scale: float) -> float:
    return size / scale if scale > 0.0 else size


def _worse(a: float, b: float) -> float:
    return float(np.fmax(a, b)) if not (np.isnan(a) or np.isnan(b)) else float("nan")
