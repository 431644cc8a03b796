"""The messages of one iteration: written once for all agents together and for one agent alone, answered and counted.

The difference form of NPGA mixes twice per iteration: C (lam - lam_prev) + gamma B^2 v before the gradient
step, D v after it. Both are generators. They `yield (u, op)` to say "send u, and give me back
(K_op u)_i = sum over neighbours j of m_ij (u_i - u_j)", where op names the link weights m to use
(`Version.edge_weights`). A request `(None, op)` asks for K_op of the message sent last: no new round. The
arrays may be n x p (every agent at once) or p (one agent); nothing here looks at their shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError

if TYPE_CHECKING:
    from npga.networks._network import Network
    from npga.networks._version import KernelPolynomials, Version

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
    continues : bool
        Whether a correction multiplies what was kept by the gossip matrix once more.
    """

    rounds: int
    ops: tuple[str, ...]
    kept_size: int
    continues: bool = False

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
        self.kept_size = len(self._d) - 1
        self._new_powers = max(len(self._c) - 1, len(self._b) - 1 - self.kept_size, 0)
        self.rounds = self.kept_size + self._new_powers
        self.continues = len(self._b) - 1 > self.kept_size > 0
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
    """total + scale coefficient array, doing no work for a zero coefficient or a factor of one."""
    if coefficient == 0.0:
        return total
    factor = scale * coefficient
    term = array if factor == 1.0 else factor * array
    return term if total is None else total + term


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

    def is_stale(self, iteration: int) -> bool:  # noqa: ARG002
        """Whether products that were kept must be made again; never on a network that stays."""
        return False

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


class Incidence:
    """Signed incidence matrix E (m x n): row (i, j), i < j, holds +1 at i and -1 at j.

    (E^T (w * (E u)))_i = sum over neighbours j of w_ij (u_i - u_j). Written with differences it is exactly
    zero on agents that agree, so rounding cannot accumulate over iterations as it does with a product by
    I - W. Links are sorted, so CSR adds the terms of agent i in ascending order of its neighbours: one agent
    that adds w_ij (u_i - u_j) in that order gets the same bits.
    """

    def __init__(self, n: int, edges: npt.NDArray[np.int64]) -> None:
        self._n = n
        self._edges = edges
        self._cast: dict[np.dtype[Any], tuple[Any, Any]] = {}

    def apply(self, u: Array, weights: Array | None) -> Array:
        """E^T (w * (E u)) along the first axis; float32 stays float32, everything else becomes float64."""
        u = np.asarray(u)
        dtype = u.dtype if u.dtype == np.float32 else np.dtype(np.float64)
        E, E_transposed = self._matrices(dtype)
        gaps = E @ np.ascontiguousarray(u, dtype=dtype).reshape(self._n, -1)
        if weights is not None:
            gaps *= weights.astype(dtype, copy=False)[:, np.newaxis]
        return np.asarray(E_transposed @ gaps).reshape(u.shape)

    def _matrices(self, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        if dtype not in self._cast:
            m = len(self._edges)
            signs = np.tile(np.array([1, -1], dtype=dtype), m)
            E = sparse.csr_array((signs, self._edges.ravel(), 2 * np.arange(m + 1)), shape=(m, self._n))
            self._cast[dtype] = (E, sparse.csr_array(E.T))
        return self._cast[dtype]
