"""The elementwise functions, one coordinate at a time: value, derivative, prox and prox of the conjugate.

Eight closed forms cover the family (a letter for each parameter, in the order of the columns a, b, c):

    ZERO       0
    LINEAR     a (x - c)
    SQUARE     (a/2) (x - c)^2
    ELASTIC    a |r| + (b/2) r^2,  r = x - c
    HUBER      a r^2/2 for |r| <= b, a (b |r| - b^2/2) beyond,  r = x - c
    KINKED     max(a r, b r),  r = x - c
    INTERVAL   0 for a <= x <= b, else infinity
    LOGISTIC   b ln(1 + exp(-a r)),  a = -1 or +1,  r = x - c

The formulas are those of `npga.functions`, to which the tests compare every one of them.
"""

from __future__ import annotations

import math

import numpy as np

from npga.functions import Kind
from npga.solver.kernels._jit import inlined, number

ZERO, LINEAR, SQUARE, ELASTIC = int(Kind.ZERO), int(Kind.LINEAR), int(Kind.SQUARE), int(Kind.ELASTIC)
HUBER, KINKED, INTERVAL, LOGISTIC = int(Kind.HUBER), int(Kind.KINKED), int(Kind.INTERVAL), int(Kind.LOGISTIC)
# What is left after so many Newton steps is bisected (see npga.functions).
_NEWTON_STEPS = 60


@inlined
def clip(x: float, lo: float, hi: float) -> float:
    """The number of [lo, hi] next to x; NaN stays NaN."""
    below = lo if x < lo else x
    return hi if below > hi else below


@inlined
def expit(x: float) -> float:
    """1/(1 + exp(-x)) without overflow."""
    e = np.exp(-abs(x))
    one = number(x, 1)
    return one / (one + e) if x >= 0 else e / (one + e)  # type: ignore[no-any-return]


@inlined
def square_prox(x: float, t: float, a: float, c: float) -> float:
    """Written as a correction of x, so that rounding is relative to the distance travelled."""
    s = t * a
    return x - s / (number(s, 1) + s) * (x - c)  # type: ignore[no-any-return]


@inlined
def elastic_prox(x: float, t: float, a: float, b: float, c: float) -> float:
    """Soft threshold, then shrink."""
    r = x - c
    return c + (r - clip(r, -t * a, t * a)) / (number(t, 1) + t * b)  # type: ignore[no-any-return]


@inlined
def huber_prox(x: float, t: float, a: float, b: float, c: float) -> float:
    """X - s clip((x - c)/(number(s, 1) + s), -b, b), s = t a."""
    s = t * a
    return x - s * clip((x - c) / (number(s, 1) + s), -b, b)


@inlined
def kinked_prox(x: float, t: float, a: float, b: float, c: float) -> float:
    """X - clip(x - c, t a, t b)."""
    return x - clip(x - c, t * a, t * b)


@inlined
def logistic_grad(x: float, a: float, b: float, c: float) -> float:
    """-b a sigma(-a (x - c))."""
    return -b * a * expit(-a * (x - c))


@inlined
def logistic_prox(x: float, t: float, a: float, b: float, c: float, eps: float) -> float:
    """The root of v - y - s sigma(-v), v = a (u - c), y = a (x - c), s = t b, by Newton inside [y, y + s].

    The same iteration as `npga.functions` runs on arrays: it starts from the point of the bracket nearest to 0,
    stops when the residual is within its own rounding error or the step changes nothing, and bisects if need be.
    """
    y = a * (x - c)
    s = t * b
    lower, upper = y, y + s
    v = clip(number(y, 0), lower, upper)
    for step in range(10000):
        p = expit(-v)
        residual = v - y - s * p
        lower = v if residual < 0 else lower
        upper = v if residual > 0 else upper
        following = v - residual / (number(s, 1) + s * p * expit(v))
        if not (lower <= following <= upper) or step >= _NEWTON_STEPS:
            following = lower + number(v, 0.5) * (upper - lower)
        small = abs(residual) <= number(v, 2) * eps * (abs(v) + abs(y) + s * p)
        if small or math.isnan(residual) or abs(following - v) <= eps * abs(v):
            break
        v = following
    return c + a * v


@inlined
def logistic_conj_prox(x: float, t: float, a: float, b: float, c: float, eps: float) -> float:
    """Moreau's x - t u with u = prox_{f/t}(x/t) equals f'(u), which does not cancel when t is large."""
    u = logistic_prox(x / t, number(t, 1) / t, a, b, c, eps)
    return logistic_grad(u, a, b, c)


@inlined
def logistic_value(x: float, a: float, b: float, c: float) -> float:
    """B ln(1 + exp(-a (x - c))) without overflow."""
    m = -a * (x - c)
    return b * (max(m, number(m, 0)) + np.log1p(np.exp(-abs(m))))  # type: ignore[no-any-return]
