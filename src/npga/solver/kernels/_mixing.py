"""Products with the network: edge differences over sorted neighbour lists."""

from __future__ import annotations

from typing import Any, NamedTuple

from npga.solver.kernels._jit import compiled, inlined, number, part, view


class Links(NamedTuple):
    """Neighbours of agent i in ascending order: entries pointers[i] to pointers[i + 1] of the other two; addresses."""

    pointers: int
    neighbours: int
    weights: int


class Mixing(NamedTuple):
    """B^2, C and D in powers of K, which edge differences evaluate (see `npga.networks.PolynomialSchedule`).

    Attributes
    ----------
    b, c, d
        Addresses of the coefficients, lowest power first, all of one length; b is already multiplied by gamma.
    new_powers, kept_powers
        Rounds of the correction before the gradient step, r, and of the combination with D after it, s.
    """

    b: int
    c: int
    d: int
    new_powers: int
    kept_powers: int


@inlined
def coefficient(address: int, power: int, like: Any) -> float:
    """One coefficient of a polynomial."""
    return view(address, power, 1, like)[0]  # type: ignore[no-any-return]


@compiled
def differences(links: Links, i: int, u: Any, width: int, start: int, out: Any) -> None:
    """Set out = sum_j w_ij (u_i - u_j) on the columns from `start`; u holds rows of `width` numbers, end to end.

    Written with differences, the sum is exactly zero on agents that agree, so that rounding does not accumulate
    over iterations as it would in a product with I - W. Four neighbours share a pass over `out`.
    """
    m = len(out)
    own = part(u, i * width + start, i * width + start + m)
    first = view(links.pointers, i, 2, i)[0]
    count = view(links.pointers, i, 2, i)[1] - first
    other, weight = view(links.neighbours, first, count, i), view(links.weights, first, count, u)
    for j in range(m):
        out[j] = number(own[0], 0)
    k = 0
    while k + 4 <= count:
        o0, o1 = other[k] * width + start, other[k + 1] * width + start
        o2, o3 = other[k + 2] * width + start, other[k + 3] * width + start
        u0, u1, u2, u3 = part(u, o0, o0 + m), part(u, o1, o1 + m), part(u, o2, o2 + m), part(u, o3, o3 + m)
        w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        for j in range(m):
            x = own[j]
            out[j] += (w0 * (x - u0[j]) + w1 * (x - u1[j])) + (w2 * (x - u2[j]) + w3 * (x - u3[j]))
        k += 4
    while k < count:
        o0 = other[k] * width + start
        u0, w0 = part(u, o0, o0 + m), weight[k]
        for j in range(m):
            out[j] += w0 * (own[j] - u0[j])
        k += 1


@inlined
def add(out: Any, factor: float, x: Any) -> None:
    """Out += factor x; nothing for a factor of zero."""
    if factor != number(factor, 0):
        for j in range(len(out)):
            out[j] += factor * x[j]


@compiled
def add_message(mixing: Mixing, power: int, lam: Any, lam_prev: Any, latest: Any, out: Any) -> None:
    """Out += c_m (lam - lam_prev) + gamma b_{s+m} K^s v, the new part of the message for the power m of K."""
    c, b = coefficient(mixing.c, power, lam), coefficient(mixing.b, mixing.kept_powers + power, lam)
    if b == number(b, 0):
        for j in range(len(out)):
            out[j] += c * (lam[j] - lam_prev[j])
    else:
        for j in range(len(out)):
            out[j] += c * (lam[j] - lam_prev[j]) + b * latest[j]
