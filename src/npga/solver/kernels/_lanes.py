"""The elementwise formulas for many runs side by side, each with a step of its own.

Arrays hold K numbers, one for each run, at every coordinate: the runs are the lanes of the vector units, and the
parameters of a coordinate are the same in all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npga.solver.kernels import _elementwise as elementwise
from npga.solver.kernels import _functions as functions
from npga.solver.kernels import _radial as radial
from npga.solver.kernels import _scalar as phi
from npga.solver.kernels._functions import FIRST_RADIAL, KIND, SEGMENT, START, STOP, Table, groups_of
from npga.solver.kernels._jit import compiled, part, view
from npga.solver.kernels._scalar import ELASTIC, HUBER, INTERVAL, KINKED, LINEAR, LOGISTIC, SQUARE, ZERO


@compiled
def prox_coordinate(kind: int, x: Any, t: Any, a: float, b: float, c: float, out: Any) -> None:
    """The prox of one coordinate in every lane."""
    K = len(t)
    if kind == ZERO:
        for k in range(K):
            out[k] = x[k]
    elif kind == LINEAR:
        for k in range(K):
            out[k] = x[k] - t[k] * a
    elif kind == SQUARE:
        for k in range(K):
            out[k] = phi.square_prox(x[k], t[k], a, c)
    elif kind == ELASTIC:
        for k in range(K):
            out[k] = phi.elastic_prox(x[k], t[k], a, b, c)
    elif kind == HUBER:
        for k in range(K):
            out[k] = phi.huber_prox(x[k], t[k], a, b, c)
    elif kind == KINKED:
        for k in range(K):
            out[k] = phi.kinked_prox(x[k], t[k], a, b, c)
    elif kind == INTERVAL:
        for k in range(K):
            out[k] = phi.clip(x[k], a, b)
    else:
        eps = np.finfo(x.dtype).eps
        for k in range(K):
            out[k] = phi.logistic_prox(x[k], t[k], a, b, c, eps)


@compiled
def add_grad_coordinate(kind: int, x: Any, a: float, b: float, c: float, out: Any) -> None:
    """Add the derivative of one coordinate in every lane."""
    K = len(x)
    if kind == LINEAR:
        for k in range(K):
            out[k] += a
    elif kind == SQUARE:
        for k in range(K):
            out[k] += a * (x[k] - c)
    elif kind == ELASTIC:
        for k in range(K):
            out[k] += b * (x[k] - c)
    elif kind == HUBER:
        for k in range(K):
            out[k] += a * phi.clip(x[k] - c, -b, b)
    elif kind == LOGISTIC:
        for k in range(K):
            out[k] += phi.logistic_grad(x[k], a, b, c)


@compiled
def take(x: Any, K: int, k: int, out: Any) -> None:
    """Lane k as a vector."""
    for j in range(len(out)):
        out[j] = x[j * K + k]


@compiled
def put(x: Any, K: int, k: int, out: Any) -> None:
    """A vector as lane k of `out`."""
    for j in range(len(x)):
        out[j * K + k] = x[j]


@compiled
def prox(table: Table, x: Any, t: Any, out: Any) -> None:
    """Prox in every lane, from the parameters as they are; `out` may be x."""
    K = len(t)
    for q in range(table.rows):
        segment = view(table.segments, q * SEGMENT, SEGMENT, q)
        kind, lo, hi = segment[KIND], segment[START], segment[STOP]
        a, b, c = view(table.a, lo, hi - lo, x), view(table.b, lo, hi - lo, x), view(table.c, lo, hi - lo, x)
        if kind >= FIRST_RADIAL:
            _radial(segment, part(x, lo * K, hi * K), t, a, c, part(out, lo * K, hi * K), False)
            continue
        for j in range(lo, hi):
            row, to = part(x, j * K, (j + 1) * K), part(out, j * K, (j + 1) * K)
            prox_coordinate(kind, row, t, a[j - lo], b[j - lo], c[j - lo], to)


@compiled
def prepared(table: Table, columns: Any, x: Any, t: Any, out: Any, conjugate: bool) -> None:
    """Prox, or prox of the conjugate, in every lane, from columns prepared for each coordinate and lane."""
    K = len(t)
    for q in range(table.rows):
        segment = view(table.segments, q * SEGMENT, SEGMENT, q)
        kind, lo, hi = segment[KIND], segment[START] * K, segment[STOP] * K
        m = segment[STOP] - segment[START]
        values, to = part(x, lo, hi), part(out, lo, hi)
        if kind >= FIRST_RADIAL:
            a, c = view(table.a, segment[START], m, x), view(table.c, segment[START], m, x)
            _radial(segment, values, t, a, c, to, conjugate)
        elif kind == LOGISTIC:
            _logistic(table, segment[START], m, values, t, to, conjugate)
        else:
            a, b, c = part(columns[0], lo, hi), part(columns[1], lo, hi), part(columns[2], lo, hi)
            if conjugate:
                elementwise.conj_prox(kind, values, t[0], a, b, c, to)
            else:
                elementwise.prox(kind, values, t[0], a, b, c, to)


@compiled
def _logistic(table: Table, start: int, m: int, x: Any, t: Any, out: Any, conjugate: bool) -> None:
    """The logistic loss, whose Newton iteration has nothing to prepare."""
    K, eps = len(t), np.finfo(x.dtype).eps
    a, b, c = view(table.a, start, m, x), view(table.b, start, m, x), view(table.c, start, m, x)
    for j in range(m):
        for k in range(K):
            if conjugate:
                out[j * K + k] = phi.logistic_conj_prox(x[j * K + k], t[k], a[j], b[j], c[j], eps)
            else:
                out[j * K + k] = phi.logistic_prox(x[j * K + k], t[k], a[j], b[j], c[j], eps)


@compiled
def _radial(segment: Any, x: Any, t: Any, a: Any, c: Any, out: Any, conjugate: bool) -> None:
    K = len(t)
    lane = np.empty(len(a), x.dtype)
    for k in range(K):
        take(x, K, k, lane)
        if conjugate:
            radial.conj_prox(segment[KIND], lane, t[k], a, c, groups_of(segment), lane)
        else:
            radial.prox(segment[KIND], lane, t[k], a, c, groups_of(segment), lane)
        put(lane, K, k, out)


@compiled
def add_grad(table: Table, x: Any, K: int, out: Any) -> None:
    """Add the gradient in every lane."""
    for q in range(table.rows):
        segment = view(table.segments, q * SEGMENT, SEGMENT, q)
        kind, lo, hi = segment[KIND], segment[START], segment[STOP]
        a, b, c = view(table.a, lo, hi - lo, x), view(table.b, lo, hi - lo, x), view(table.c, lo, hi - lo, x)
        if kind < functions.FIRST_MATRIX:
            for j in range(lo, hi):
                row, to = part(x, j * K, (j + 1) * K), part(out, j * K, (j + 1) * K)
                add_grad_coordinate(kind, row, a[j - lo], b[j - lo], c[j - lo], to)
            continue
        lane, slope = np.empty(hi - lo, x.dtype), np.empty(hi - lo, x.dtype)
        for k in range(K):
            take(part(x, lo * K, hi * K), K, k, lane)
            take(part(out, lo * K, hi * K), K, k, slope)
            functions.matrix_grad(table, segment, lane, slope)
            put(slope, K, k, part(out, lo * K, hi * K))
