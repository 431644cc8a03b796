"""Several rounds in place of one: a Chebyshev polynomial of the gossip matrix, by its three-term recursion.

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
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from npga.errors import VersionError
from npga.networks._exchange import Exchange, Kept, Schedule, T

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]


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

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or self.degree < 1:
            raise VersionError(f"chebyshev={self.degree!r} arrived; expected a whole number of rounds >= 1")

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

    def requests(self, u: Array) -> Generator[Array, Array, Array]:
        """P_N(K) u: yields what is to be multiplied by K, is sent the product, and returns the value."""
        total: Array | None = None
        change: Array = u
        for carry, scale in self.recursion:
            product = yield u if total is None else u - total
            change = scale * product if total is None else carry * change + scale * product
            total = change if total is None else total + change
        assert total is not None
        return total

    def __call__(self, product: Callable[[Array], Array], u: Array) -> Array:
        """P_N(K) u for a function that multiplies by K."""
        asking = self.requests(u)
        try:
            request = next(asking)
            while True:
                request = asking.send(product(request))
        except StopIteration as done:
            result: Array = done.value
            return result

    def values(self, eigenvalues: FloatArray) -> FloatArray:
        """P_N at numbers; exactly 0 at 0."""
        return np.asarray(self(lambda u: eigenvalues * u, np.ones_like(eigenvalues)))


class ChebyshevSchedule(Schedule):
    """The messages of a version with P_N(K) in place of K: N rounds for each one of it.

    Parameters
    ----------
    plain
        The messages of the version itself.
    polynomial
        What takes the place of the gossip matrix.
    """

    def __init__(self, plain: Schedule, polynomial: Chebyshev) -> None:
        self._plain, self._polynomial = plain, polynomial
        self.kept_size, self.ops = plain.kept_size, plain.ops
        self.rounds = polynomial.degree * plain.rounds

    def correction(self, dlam: Array, v: Array, kept: Kept, gamma: float) -> Exchange[Array]:
        """Return C dlam + gamma B^2 v."""
        return self._each(self._plain.correction(dlam, v, kept, gamma))

    def combine(self, v: Array) -> Exchange[tuple[Array, Kept]]:
        """Return D v and what the next `correction` needs to know of v."""
        return self._each(self._plain.combine(v))

    def _each(self, exchange: Exchange[T]) -> Exchange[T]:
        """Answer each request of the plain schedule by those of the polynomial."""
        try:
            vector, op = next(exchange)
            while True:
                assert vector is not None  # polynomial versions ask for new messages only
                asking = self._polynomial.requests(vector)
                try:
                    request = next(asking)
                    while True:
                        request = asking.send((yield (request, op)))
                except StopIteration as answered:
                    vector, op = exchange.send(answered.value)
        except StopIteration as done:
            result: T = done.value
            return result
