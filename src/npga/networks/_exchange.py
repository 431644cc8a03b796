"""The messages of one iteration: written once for all agents together and for one agent alone, answered and counted.

The difference form of NPGA mixes twice per iteration: C (lam - lam_prev) + gamma B^2 v before the gradient
step, D v after it. Both are generators. They `yield (u, op)` to say "send u, and give me back
(K_op u)_i = sum over neighbours j of m_ij (u_i - u_j)", where op names the link weights m to use
(`Version.edge_weights`). A request `(None, op)` asks for K_op of the message sent last: no new round. The
arrays may be n x p (every agent at once) or p (one agent); nothing here looks at their shape.

Several rounds in place of one: a Chebyshev polynomial of the gossip matrix, by its three-term recursion.

Let the gossip matrix K (I - W, or L) have its eigenvalues off the agreeing vectors in [low, high], and let
a = (high + low)/(high - low). Among the polynomials P of degree N with P(0) = 0, the one that is nearest to 1 on
[low, high] is

    P_N(K) = I - T_N(X)/T_N(a),     X = ((high + low) I - 2 K)/(high - low),

where T_N is the N-th Chebyshev polynomial, and it differs from 1 there by 1/T_N(a), about 2 exp(-2 N sqrt(low/high)).
So N rounds make any graph nearly complete. With t_k = T_k(a), centre = (high + low)/2, q_k = T_k(X) u/t_k and the
differences e_k = q_k-1 - q_k, the recursion T_k+1 = 2 X T_k - T_k-1 reads

    e_1 = K u/centre,    e_k+1 = (w_k - 1) e_k + (w_k/centre) K q_k,   q_k = u - e_1 - ... - e_k,   w_k = 2 a t_k/t_k+1

and P_N(K) u = e_1 + ... + e_N, which is exactly zero on agents that agree. It keeps the digits that powers of K would
lose from degree 8 or so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from npga.errors import NetworkError

if TYPE_CHECKING:
    from npga.networks._network import Network
    from npga.networks._version import KernelPolynomials, Version

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
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
    keeps_z : bool
        Whether it is that of the z-form, in which C lam is made anew in each iteration and B^2 v together with D v, so
        that nothing outlives the graph it was made on.
    """

    rounds: int
    ops: tuple[str, ...]
    kept_size: int
    keeps_z: bool = False

    @abstractmethod
    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v, given what `combine` kept when it saw this v; in the z-form C dlam alone."""

    @abstractmethod
    def growth(self, v: Array, kept: Kept, gamma: float) -> Array:
        """Return what was kept of gamma B^2 v: all of it in the z-form."""

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

    Horner's rule evaluates the last sum in r = max(deg c, deg b - s, 0) rounds. The z-form takes s = max(deg b, deg d),
    so that the sum holds C lam alone, and adds up the first one apart; that is r = deg c.
    """

    def __init__(self, polynomials: KernelPolynomials, *, keeps_z: bool = False) -> None:
        self._b, self._c, self._d = polynomials
        self.keeps_z = keeps_z
        self.kept_size = max(len(self._d), len(self._b)) - 1 if keeps_z else len(self._d) - 1
        self._new_powers = max(len(self._c) - 1, len(self._b) - 1 - self.kept_size, 0)
        self.rounds = self.kept_size + self._new_powers
        self.ops = ("gossip",)

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v, or C dlam, in r rounds."""
        gamma, s = float(gamma), self.kept_size  # a Python float leaves float32 arrays float32
        latest = kept[-1] if s else v
        u: Array | None = None
        for m in range(self._new_powers, 0, -1):
            u = _plus(u, _coefficient(self._c, m), dlam)
            u = _plus(u, _coefficient(self._b, s + m), latest, gamma)
            u = yield (u, "gossip")
        u = u if self.keeps_z else self._kept_part(u, kept, gamma)
        return np.zeros_like(v) if u is None else u

    def growth(self, v: Array, kept: Kept, gamma: float) -> Array:
        """Return gamma sum_{j<=s} b_j K^j v."""
        u = self._kept_part(None, kept, float(gamma))
        return np.zeros_like(v) if u is None else u

    def _kept_part(self, u: Array | None, kept: Kept, gamma: float) -> Array | None:
        for j in range(1, self.kept_size + 1):
            u = _plus(u, _coefficient(self._b, j), kept[j - 1], gamma)
        return u

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v = v + d_1 K v + ... + d_s K^s v and the powers, in s rounds."""
        kept: list[Array] = []
        for _ in range(self.kept_size):
            kept.append((yield (kept[-1] if kept else v, "gossip")))
        mixed = v
        for j, power in enumerate(kept[: len(self._d) - 1], start=1):
            if self._d[j] != 0.0:
                mixed = mixed + self._d[j] * power
        return mixed, tuple(kept)


class MatrixSchedule(Schedule):
    """Explicit B^2, C and D: three edge-difference operators K_B2 = B^2, K_C = C and K_D = I - D.

    If D is not I, v is sent for D v, and B^2 v reuses that message. If D is I and C = ratio B^2 (zero
    included), ratio dlam + gamma v is sent and both products come back at once. In the z-form B^2 v is kept always.
    """

    def __init__(self, *, has_C: bool, has_D: bool, ratio: float | None, keeps_z: bool = False) -> None:
        self._has_C, self._has_D, self._ratio, self.keeps_z = has_C, has_D, ratio, keeps_z
        self.kept_size = int(has_D or keeps_z)
        self.rounds = 1 + int(has_C) if self.kept_size or ratio is None else 1
        self.ops = ("B2", "C", "D")

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v in at most two rounds."""
        gamma = float(gamma)
        if self.keeps_z:
            return (yield (dlam, "C")) if self._has_C else np.zeros_like(v)
        if not self._has_D and self._ratio is not None:
            message = gamma * v if self._ratio == 0.0 else self._ratio * dlam + gamma * v
            return (yield (message, "B2"))
        product = kept[0] if self._has_D else (yield (v, "B2"))
        return gamma * product + (yield (dlam, "C")) if self._has_C else gamma * product

    def growth(self, v: Array, kept: Kept, gamma: float) -> Array:
        """Return gamma B^2 v."""
        return float(gamma) * kept[0] if kept else np.zeros_like(v)

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v = v - (I - D) v and B^2 v, in one round; D = I costs none, except in the z-form."""
        if not self._has_D:
            return v, ((yield (v, "B2")),) if self.keeps_z else ()
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
    """total + scale coefficient array, doing no work for a zero coefficient or a factor of one."""
    if coefficient == 0.0:
        return total
    factor = scale * coefficient
    term = array if factor == 1.0 else factor * array
    return term if total is None else total + term


@dataclass(frozen=True)
class Chebyshev:
    """The polynomial P_N for one interval.

    Parameters
    ----------
    degree
        N, the number of rounds.
    low, high
        Smallest and largest eigenvalue of K off the agreeing vectors.
    """

    degree: int
    low: float
    high: float

    @property
    def _flat(self) -> bool:
        """Whether one round is enough: a complete graph, or a lone agent."""
        return self.high - self.low <= 1e-12 * self.high or self.high <= 0.0

    @property
    def spread(self) -> float:
        """1/T_N(a): the eigenvalues of P_N(K) off the agreeing vectors lie in 1 -+ this."""
        if self._flat:
            return 0.0
        return 1.0 / math.cosh(self.degree * math.acosh((self.high + self.low) / (self.high - self.low)))

    @cached_property
    def recursion(self) -> tuple[tuple[float, float], ...]:
        """The pairs (w_k - 1, w_k/centre) of its N rounds, of which the first is (0, 1/centre).

        Where one round is enough, those before the last are wasted: their pairs are zero.
        """
        if self._flat:
            return ((0.0, 0.0),) * (self.degree - 1) + ((0.0, 1.0 / self.high if self.high > 0.0 else 1.0),)
        centre = (self.high + self.low) / 2.0
        a = 2.0 * centre / (self.high - self.low)
        ratio, pairs = 1.0 / a, [(0.0, 1.0 / centre)]  # t_k/t_k+1
        for _ in range(self.degree - 1):
            ratio = 1.0 / (2.0 * a - ratio)
            w = 2.0 * a * ratio
            pairs.append((w - 1.0, w / centre))
        return tuple(pairs)

    def requests(self, u: Array, op: str = "gossip") -> Exchange[Array]:
        """P_N(K) u: yields what is to be multiplied by K_op, is sent the product, and returns the value."""
        total: Array | None = None
        change: Array = u
        for carry, scale in self.recursion:
            product = yield (u if total is None else u - total, op)
            change = scale * product if total is None else carry * change + scale * product
            total = change if total is None else total + change
        assert total is not None
        return total

    def __call__(self, product: Callable[[Any], Array], u: Array) -> Array:
        """P_N(K) u for a function that multiplies by K."""
        return drive(self.requests(u), lambda vector, _: product(vector))

    def values(self, eigenvalues: FloatArray) -> FloatArray:
        """P_N at numbers; exactly 0 at 0."""
        return np.asarray(self(lambda u: eigenvalues * u, np.ones_like(eigenvalues)))


class ChebyshevSchedule(Schedule):
    """The messages of a plain version with the polynomial P_N(K) in place of K: N rounds for each one of it."""

    def __init__(self, plain: Schedule, polynomial: Chebyshev) -> None:
        self._plain, self._polynomial = plain, polynomial
        self.kept_size, self.ops, self.keeps_z = plain.kept_size, plain.ops, plain.keeps_z
        self.rounds = polynomial.degree * plain.rounds

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v."""
        return self._each(self._plain.correction(dlam, v, kept, gamma))

    def growth(self, v: Array, kept: Kept, gamma: float) -> Array:
        """Return what was kept of gamma B^2 v."""
        return self._plain.growth(v, kept, gamma)

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v and what the next `correction` needs to know of v."""
        return self._each(self._plain.combine(v))

    def _each(self, exchange: Exchange[T]) -> Exchange[T]:
        """Answer each request of the plain schedule by those of the polynomial."""
        try:
            vector, op = next(exchange)
            while True:
                assert vector is not None  # polynomial versions ask for new messages only
                vector, op = exchange.send((yield from self._polynomial.requests(vector, op)))
        except StopIteration as done:
            result: T = done.value
            return result


class Gossip:
    """Answers ``(u, op)`` with K_op u, the edge differences of the n x p array u.

    Parameters
    ----------
    network
        Who talks to whom.
    version, schedule
        They name the operators and their edge weights.

    Attributes
    ----------
    rounds : int
        How often every agent has sent a vector to each of its neighbours.
    iteration : int
        The iteration that the requests belong to, as `begin` was told; networks that change look at it.
    copies : tuple of ndarray
        What the neighbours know of earlier messages, where these are compressed.
    """

    def __init__(self, network: Network, version: Version, schedule: Schedule) -> None:
        self._network = network
        self._weights = {op: version.edge_weights(network, op) for op in schedule.ops}
        self._sent: Array | None = None
        self.rounds = self.iteration = 0
        self.copies: Kept = ()

    def begin(self, iteration: int, rounds: int, copies: Kept) -> None:
        """What follows belongs to this iteration, before which there were so many rounds."""
        self.iteration, self.rounds, self.copies = iteration, rounds, copies

    def __call__(self, vector: Array | None, op: str) -> Array:
        """K_op applied to a vector that is sent now, or (for None) to the one that was sent last."""
        if vector is not None:
            self._sent = self.transmitted(vector)
            self.rounds += 1
        if self._sent is None:
            raise NetworkError("a request for the last message arrived before any was sent; send a vector first")
        return self.differences(self._sent, op)

    def transmitted(self, vector: Array) -> Array:
        """What everybody, sender included, knows of a vector after it was sent."""
        return vector

    def differences(self, u: Array, op: str) -> Array:
        """K_op u."""
        return self._network.differences(u, self._weights[op])
