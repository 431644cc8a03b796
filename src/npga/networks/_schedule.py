"""One iteration's messages, written once for all agents together and for one agent alone.

The difference form of NPGA mixes twice per iteration: C (lam - lam_prev) + gamma B^2 v before the gradient
step, D v after it. Both are generators. They `yield (u, op)` to say "send u, and give me back
(K_op u)_i = sum over neighbours j of m_ij (u_i - u_j)", where op names the link weights m to use
(`Version.edge_weights`). A request `(None, op)` asks for K_op of the message sent last: no new round. The
arrays may be n x p (every agent at once) or p (one agent); nothing here looks at their shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from npga.networks._polynomial import KernelPolynomials, degree

Array = npt.NDArray[Any]
T = TypeVar("T")
Exchange = Generator[tuple[Array | None, str], Array, T]
Kept = tuple[Array, ...]


class Schedule(ABC):
    """The messages of one iteration of one version.

    Attributes
    ----------
    rounds : int
        Vectors that an agent sends to each neighbour per iteration.
    ops : tuple of str
        The names that requests may carry.
    kept_size : int
        Number of arrays in `kept`; all of them are zero when v is.
    """

    rounds: int
    ops: tuple[str, ...]
    kept_size: int

    @abstractmethod
    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v, given what `combine` kept when it saw this v."""

    @abstractmethod
    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v and what the next `correction` needs to know of v."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rounds={self.rounds}, ops={self.ops})"


class PolynomialSchedule(Schedule):
    """B^2 = b(K), C = c(K), D = d(K) with one gossip matrix K.

    D v costs s = deg d rounds and leaves K v, ..., K^s v behind. So gamma B^2 v needs new messages only
    beyond the power s, and those travel together with the ones of C dlam:

        C dlam + gamma B^2 v = gamma sum_{j<=s} b_j K^j v + sum_{m>=1} K^m (c_m dlam + gamma b_{s+m} K^s v).

    Horner's rule evaluates the last sum in r = max(deg c, deg b - s, 0) rounds.
    """

    def __init__(self, polynomials: KernelPolynomials) -> None:
        self._b, self._c, self._d = polynomials
        self.kept_size = degree(self._d)
        self._new_powers = max(degree(self._c), degree(self._b) - self.kept_size, 0)
        self.rounds = self.kept_size + self._new_powers
        self.ops = ("gossip",)

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v in r rounds."""
        gamma, s = float(gamma), self.kept_size  # a Python float leaves float32 arrays float32
        latest = kept[-1] if s else v
        u: Array | None = None
        for m in range(self._new_powers, 0, -1):
            u = _plus(u, _coefficient(self._c, m), dlam)
            u = _plus(u, _coefficient(self._b, s + m), latest, gamma)
            u = yield (u, "gossip")
        for j in range(1, s + 1):
            u = _plus(u, _coefficient(self._b, j), kept[j - 1], gamma)
        return np.zeros_like(v) if u is None else u

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v = v + d_1 K v + ... + d_s K^s v and the powers, in s rounds."""
        kept: list[Array] = []
        for _ in range(self.kept_size):
            kept.append((yield (kept[-1] if kept else v, "gossip")))
        mixed = v
        for j, power in enumerate(kept, start=1):
            if self._d[j] != 0.0:
                mixed = mixed + self._d[j] * power
        return mixed, tuple(kept)


class MatrixSchedule(Schedule):
    """Explicit B^2, C and D: three edge-difference operators K_B2 = B^2, K_C = C and K_D = I - D.

    If D is not I, v is sent for D v, and B^2 v reuses that message. If D is I and C = ratio B^2 (zero
    included), ratio dlam + gamma v is sent and both products come back at once.
    """

    def __init__(self, *, has_C: bool, has_D: bool, ratio: float | None) -> None:
        self._has_C, self._has_D, self._ratio = has_C, has_D, ratio
        self.kept_size = int(has_D)
        self.rounds = 1 + int(has_C) if has_D or ratio is None else 1
        self.ops = ("B2", "C", "D")

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v in at most two rounds."""
        gamma = float(gamma)
        if not self._has_D and self._ratio is not None:
            message = gamma * v if self._ratio == 0.0 else self._ratio * dlam + gamma * v
            return (yield (message, "B2"))
        product = kept[0] if self._has_D else (yield (v, "B2"))
        return gamma * product + (yield (dlam, "C")) if self._has_C else gamma * product

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v = v - (I - D) v and B^2 v, in one round; D = I costs none."""
        if not self._has_D:
            return v, ()
        gap = yield (v, "D")
        product = yield (None, "B2")
        return v - gap, (product,)


def drive(exchange: Exchange[T], answer: Callable[[Array | None, str], Array]) -> T:
    """Run a generator of requests to its end, answering each with `answer(u, op)`; see `Gossip`."""
    try:
        request = next(exchange)
        while True:
            request = exchange.send(answer(*request))
    except StopIteration as done:
        result: T = done.value
        return result


def _coefficient(polynomial: tuple[float, ...], power: int) -> float:
    return polynomial[power] if power < len(polynomial) else 0.0


def _plus(total: Array | None, coefficient: float, array: Array, scale: float = 1.0) -> Array | None:
    """Total + scale coefficient array, doing no work for a zero coefficient or a factor of one."""
    if coefficient == 0.0:
        return total
    factor = scale * coefficient
    term = array if factor == 1.0 else factor * array
    return term if total is None else total + term
