"""Loops of the elementwise formulas over coordinates: which formula is decided once, outside the loop.

The step of a prox is the same in all iterations, so what depends on it alone is computed before: `prepare_prox` and
`prepare_conj_prox` turn the parameter columns of `npga.solver.kernels._scalar` into those that the loops read, and no
division is left inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.solver.kernels import _scalar as phi
from npga.solver.kernels._jit import compiled, number
from npga.solver.kernels._scalar import ELASTIC, HUBER, INTERVAL, KINKED, LINEAR, LOGISTIC, SQUARE, ZERO

Array = NDArray[Any]
Columns = tuple[Array, Array, Array]


def prepare_prox(kind: int, t: Array, a: Array, b: Array, c: Array) -> Columns:
    """Columns for `prox` with step t."""
    if kind == LINEAR:
        return t * a, b, c
    if kind == SQUARE:
        return t * a / (1.0 + t * a), b, c
    if kind == ELASTIC:
        return t * a, 1.0 / (1.0 + t * b), c
    if kind == HUBER:
        return t * a / (1.0 + t * a), t * a * b, c
    if kind == KINKED:
        return t * a, t * b, c
    return a, b, c


def prepare_conj_prox(kind: int, t: Array, a: Array, b: Array, c: Array) -> Columns:
    """Columns for `conj_prox` with step t."""
    if kind == SQUARE:
        return 1.0 / (1.0 + t / a), b, t * c
    if kind == ELASTIC:
        return a, b / (t + b), t * c
    if kind == HUBER:
        return 1.0 / (1.0 + t / a), a * b, t * c
    if kind == KINKED:
        return a, b, t * c
    if kind == INTERVAL:
        return t * a, t * b, c
    return a, b, c


@compiled
def add_grad(kind: int, x: Any, a: Any, b: Any, c: Any, out: Any) -> None:
    """Add the gradient at x to `out`."""
    m = len(x)
    if kind == LINEAR:
        for j in range(m):
            out[j] += a[j]
    elif kind == SQUARE:
        for j in range(m):
            out[j] += a[j] * (x[j] - c[j])
    elif kind == ELASTIC:  # smooth only where a = 0
        for j in range(m):
            out[j] += b[j] * (x[j] - c[j])
    elif kind == HUBER:
        for j in range(m):
            out[j] += a[j] * phi.clip(x[j] - c[j], -b[j], b[j])
    elif kind == LOGISTIC:
        for j in range(m):
            out[j] += phi.logistic_grad(x[j], a[j], b[j], c[j])


@compiled
def prox(kind: int, x: Any, t: float, a: Any, b: Any, c: Any, out: Any) -> None:
    """Minimise f(u) + |u - x|^2/(2 t) over u, with the columns of `prepare_prox`; `out` may be x."""
    m = len(x)
    if kind == ZERO:
        for j in range(m):
            out[j] = x[j]
    elif kind == LINEAR:
        for j in range(m):
            out[j] = x[j] - a[j]
    elif kind == SQUARE:
        for j in range(m):
            out[j] = x[j] - a[j] * (x[j] - c[j])
    elif kind == ELASTIC:
        for j in range(m):
            r = x[j] - c[j]
            out[j] = c[j] + (r - phi.clip(r, -a[j], a[j])) * b[j]
    elif kind == HUBER:
        for j in range(m):
            out[j] = x[j] - phi.clip(a[j] * (x[j] - c[j]), -b[j], b[j])
    elif kind == KINKED:
        for j in range(m):
            out[j] = x[j] - phi.clip(x[j] - c[j], a[j], b[j])
    elif kind == INTERVAL:
        for j in range(m):
            out[j] = phi.clip(x[j], a[j], b[j])
    else:
        eps = np.finfo(x.dtype).eps
        for j in range(m):
            out[j] = phi.logistic_prox(x[j], t, a[j], b[j], c[j], eps)


@compiled
def conj_prox(kind: int, x: Any, t: float, a: Any, b: Any, c: Any, out: Any) -> None:
    """Minimise f*(u) + |u - x|^2/(2 t) over u, with the columns of `prepare_conj_prox`; `out` may be x."""
    m = len(x)
    if kind == ZERO:
        for j in range(m):
            out[j] = number(t, 0)
    elif kind == LINEAR:
        for j in range(m):
            out[j] = a[j]
    elif kind == SQUARE:
        for j in range(m):
            out[j] = a[j] * (x[j] - c[j])
    elif kind == ELASTIC:
        for j in range(m):
            r = x[j] - c[j]
            q = phi.clip(r, -a[j], a[j])
            out[j] = q + b[j] * (r - q)
    elif kind == HUBER:
        for j in range(m):
            out[j] = phi.clip(a[j] * (x[j] - c[j]), -b[j], b[j])
    elif kind == KINKED:
        for j in range(m):
            out[j] = phi.clip(x[j] - c[j], a[j], b[j])
    elif kind == INTERVAL:
        for j in range(m):
            out[j] = x[j] - phi.clip(x[j], a[j], b[j])
    else:
        eps = np.finfo(x.dtype).eps
        for j in range(m):
            out[j] = phi.logistic_conj_prox(x[j], t, a[j], b[j], c[j], eps)


@compiled
def value(kind: int, x: Any, a: Any, b: Any, c: Any, slack: float) -> float:
    """f(x); an interval holds up to `slack` times (1 + |bound|), as in `npga.functions`."""
    m = len(x)
    total = 0.0
    if kind == LINEAR:
        for j in range(m):
            total += a[j] * (x[j] - c[j])
    elif kind == SQUARE:
        for j in range(m):
            total += a[j] * (x[j] - c[j]) ** 2 / 2
    elif kind == ELASTIC:
        for j in range(m):
            r = x[j] - c[j]
            total += a[j] * abs(r) + b[j] * r**2 / 2
    elif kind == HUBER:
        for j in range(m):
            r = abs(x[j] - c[j])
            q = min(r, b[j])
            total += a[j] * (q**2 / 2 + b[j] * (r - q))
    elif kind == KINKED:
        for j in range(m):
            r = x[j] - c[j]
            total += max(a[j] * r, b[j] * r)
    elif kind == INTERVAL:
        for j in range(m):
            if not (a[j] - slack * (1 + abs(a[j])) <= x[j] <= b[j] + slack * (1 + abs(b[j]))):
                return np.inf
    elif kind == LOGISTIC:
        for j in range(m):
            total += phi.logistic_value(x[j], a[j], b[j], c[j])
    return total
