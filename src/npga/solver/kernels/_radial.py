"""Functions of whole blocks: Euclidean norms, of a block or of groups in it, the ball and the simplex.

NORM       w |x - c|                      weight w in column a
GROUPS     sum_G w_G |(x - c)_G|          weight of its group at each coordinate in column a
BALL       indicator of |x - c| <= w
SIMPLEX    indicator of x - c >= 0, sum(x - c) = w
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.functions import Kind
from npga.solver.kernels._jit import compiled, inlined, number

NORM, GROUPS, BALL, SIMPLEX = int(Kind.NORM), int(Kind.GROUPS), int(Kind.BALL), int(Kind.SIMPLEX)


@inlined
def positive(x: float) -> float:
    """max(x, 0); NaN stays NaN."""
    return number(x, 0) if x < number(x, 0) else x


@compiled
def distance(x: Any, c: Any, t: float) -> float:
    """|x - t c|."""
    total = number(t, 0)
    for j in range(len(x)):
        total += (x[j] - t * c[j]) ** 2
    return np.sqrt(total)  # type: ignore[no-any-return]


@compiled
def _group_distance(x: Any, c: Any, t: float, members: Any) -> float:
    total = number(t, 0)
    for j in members:
        total += (x[j] - t * c[j]) ** 2
    return np.sqrt(total)  # type: ignore[no-any-return]


@compiled
def _threshold(x: Any, c: Any, total: float) -> tuple[float, float]:
    """The shift and theta with sum_j max(x_j - c_j - shift - theta, 0) = total.

    Starting from all coordinates, those at or below the threshold of the others are dropped until none is left to
    drop (Michelot, 1986): the same threshold as by sorting. The shift by the maximum keeps the sums small.
    """
    m = len(x)
    shift = x[0] - c[0]
    for j in range(m):
        shift = max(shift, x[j] - c[j])
    theta = -number(total, np.inf)
    count = m + 1
    while True:
        kept = 0
        sums = number(total, 0)
        for j in range(m):
            r = x[j] - c[j] - shift
            if r > theta:
                kept += 1
                sums += r
        if kept == count:
            return shift, theta
        if kept == 0:  # not a number
            return shift, number(total, np.nan)
        count = kept
        theta = (sums - total) / number(total, kept)


@compiled
def prox(kind: int, x: Any, t: float, a: Any, c: Any, groups: Any, out: Any) -> None:
    """Minimise f(u) + |u - x|^2/(2 t) over u; `out` may be x."""
    zero, one = number(t, 0), number(t, 1)
    m = len(x)
    if kind == GROUPS:
        for g in range(groups[0]):
            members = groups[1 + groups[1 + g] : 1 + groups[2 + g]]
            length = _group_distance(x, c, one, members)
            shrink = positive(one - t * a[members[0]] / length) if length > zero else zero
            for j in members:
                out[j] = c[j] + shrink * (x[j] - c[j])
    elif kind == SIMPLEX:
        shift, theta = _threshold(x, c, a[0])
        for j in range(m):
            out[j] = c[j] + positive(x[j] - c[j] - shift - theta)
    else:
        length = distance(x, c, one)
        if kind == NORM:
            shrink = positive(one - t * a[0] / length) if length > zero else zero
        else:
            shrink = a[0] / length if length > a[0] else one
        for j in range(m):
            out[j] = c[j] + shrink * (x[j] - c[j]) if shrink < one else x[j]


@compiled
def conj_prox(kind: int, x: Any, t: float, a: Any, c: Any, groups: Any, out: Any) -> None:
    """Minimise f*(u) + |u - x|^2/(2 t) over u; `out` may be x."""
    zero, one = number(t, 0), number(t, 1)
    m = len(x)
    if kind == GROUPS:
        for g in range(groups[0]):
            members = groups[1 + groups[1 + g] : 1 + groups[2 + g]]
            length = _group_distance(x, c, t, members)
            w = a[members[0]]
            shrink = w / length if length > w else one
            for j in members:
                out[j] = shrink * (x[j] - t * c[j])
    elif kind == SIMPLEX:  # Moreau: x - t prox_{f/t}(x/t), and t (c + max(x/t - c - ..., 0)) has no division
        shift, theta = _simplex_times(x, c, t, a[0])
        for j in range(m):
            out[j] = x[j] - t * c[j] - positive(x[j] - t * c[j] - shift - theta)
    else:
        length = distance(x, c, t)
        if kind == NORM:
            shrink = a[0] / length if length > a[0] else one
        else:
            shrink = positive(one - t * a[0] / length) if length > zero else zero
        for j in range(m):
            out[j] = shrink * (x[j] - t * c[j])


@compiled
def _simplex_times(x: Any, c: Any, t: float, total: float) -> tuple[float, float]:
    """The threshold for x - t c and the simplex of size t times total."""
    scaled = np.empty(len(x), x.dtype)
    for j in range(len(x)):
        scaled[j] = t * c[j]
    return _threshold(x, scaled, t * total)


@compiled
def value(kind: int, x: Any, a: Any, c: Any, groups: Any, slack: float) -> float:
    """f(x), membership up to the tolerance of `npga.functions`."""
    one = number(a[0], 1)
    if kind == GROUPS:
        total = 0.0
        for g in range(groups[0]):
            members = groups[1 + groups[1 + g] : 1 + groups[2 + g]]
            total += a[members[0]] * _group_distance(x, c, one, members)
        return total
    if kind == NORM:
        return a[0] * distance(x, c, one)  # type: ignore[no-any-return]
    if kind == BALL:
        largest = 0.0
        for j in range(len(x)):
            largest = max(largest, abs(c[j]))
        return 0.0 if distance(x, c, one) <= a[0] + slack * (1 + a[0] + largest) else np.inf
    sums = 0.0
    for j in range(len(x)):
        r = x[j] - c[j]
        sums += r
        if r < -slack:
            return np.inf
    return 0.0 if abs(sums - a[0]) <= slack * (1 + a[0]) else np.inf
