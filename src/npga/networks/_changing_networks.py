"""Networks that are not the same in every round: sequences of graphs, and links that fail.

Where links come and go, NPGA runs in the z-form, with the matrices B_k^2, C_k and D_k of iteration k,

    v+ = (I - C_k) lam - z + beta A x_hat+,      lam+ = prox(D_k v+),      z+ = z + gamma B_k^2 v+,      z0 = 0,

so that no product outlives the graph it was made on. B_k^2 is a sum of terms that end with a product by a matrix whose
columns sum to zero, and so the sum of z over the agents stays zero whatever the graphs do. C_k likewise, hence

    sum_i v_i = sum_i (lam_i + beta A_i x_hat_i),

from which the fixed points are solutions: where all K_k v = 0 the agents agree. That is all that is proved; convergence
is measured. It takes deg C + max(deg B^2, deg D) rounds: as many as on a steady network where C = 0, more elsewhere,
because there C (lam - lam_prev) + gamma B^2 v travels in one message. Adding that up on graphs that change would leave
C_k lam behind in the memory; DIGing and ATC tracking diverge then on a ring and a star in turn. Where W_k is a
projection, as on pairs of agents with the weight 1/2, (I - W_k) W_k = 0, so that B_k^2 (I - C_k) = 0 for DIGing, ATC
tracking and NPGA-II: z does not learn how far lam is from agreement, and they need another weight.

Messages of fewer numbers: top-k, random-k and b bits, with error feedback.

Each agent i and its neighbours hold a copy c_i of what i sends in a given round of an iteration. Instead of the vector
u_i, the compressed difference Q(u_i - c_i) is sent, everybody adds it to the copy, and the copies are what is mixed:

    c_i+ = c_i + Q(u_i - c_i),      (K c+)_i = sum_j w_ij (c_i+ - c_j+).

What Q leaves out stays in the next difference, which is the feedback (EF21 of Richtarik, Sokolov & Fatkhullin 2021; the
mixing of copies is that of CHOCO, Koloskova, Stich & Jaggi 2019). If |Q(d) - d| <= r |d| with r < 1 the copies follow
vectors that settle, and the error dies out; the sum over the agents of K c is zero whatever Q does, so that the
invariant of the recursion stays. Nothing more is proved here.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npga.errors import NetworkError, nearest
from npga.networks import _graphs as graphs
from npga.networks._exchange import Gossip, Schedule
from npga.networks._mixing import TOLERANCE, extremes, named_weights, weighted_laplacian
from npga.networks._network import Network

if TYPE_CHECKING:
    from npga.networks._version import Version

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Rule = Callable[[int], Any]
KINDS = ("top-k", "random-k", "bits")


class UnsteadyNetwork(Network):
    """A network that is not the same in every round; as a `Network` it is what `nominal` is."""

    is_steady = has_fixed_links = False
    kind = "network that changes"

    @property
    def nominal(self) -> Network:
        """The steady network that stands for it where steps are chosen."""
        network = Network.__new__(Network)
        network._fill(Network.__getstate__(self))
        return network

    def gossip(self, version: Version, schedule: Schedule) -> Gossip:
        """What answers the requests of a schedule on this network."""
        return UnsteadyGossip(self, version, schedule)

    def sent(self, iterations: int, rounds: int, schedule: Schedule) -> int:  # noqa: ARG002
        """Messages that were sent in the first iterations."""
        return 2 * len(self.edges) * rounds

    def numbers(self, p: int) -> float:
        """Numbers in a message that stands for a vector of length p."""
        return float(p)

    @property
    @abstractmethod
    def _own(self) -> str:
        """What tells it from its nominal network."""

    def fingerprint(self) -> str:
        """Short digest of the links, their weights and their fate."""
        return hashlib.blake2b(f"{super().fingerprint()} {self._own}".encode(), digest_size=8).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnsteadyNetwork):
            return NotImplemented if not isinstance(other, Network) else False
        return type(self) is type(other) and self.fingerprint() == other.fingerprint()

    __hash__ = Network.__hash__

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in self._stored} | super().__getstate__()

    _stored: tuple[str, ...] = ()


class UnsteadyGossip(Gossip):
    """Answers with the links and weights of the moment."""

    def __init__(self, network: UnsteadyNetwork, version: Version, schedule: Schedule) -> None:
        super().__init__(network, version, schedule)
        self._version = version

    def differences(self, u: Array, op: str) -> Array:
        """K_op u of this iteration and round."""
        network, up = self._network.links(self.iteration, self.rounds - 1)
        weights = self._version.edge_weights(network, op)
        return network.differences(u, weights if up is None else np.where(up, weights, 0.0))


# ------------------------------------------------------------------ sequences


class ChangingNetwork(UnsteadyNetwork):
    """One graph in each iteration; made by `Network.sequence`.

    As a `Network` it is the average of its graphs: every link that there ever is, with the mean of its weights.
    """

    _stored = ("_rule", "window")
    changes = True
    _rule: Sequence[Network] | Rule
    window: int

    @classmethod
    def of(cls, rule: Sequence[Any] | Rule, n: int | None, mixing: str, c: float, window: int) -> ChangingNetwork:
        """The network of a list, which is repeated, or of a function of the iteration."""
        network = cls.__new__(cls)
        if callable(rule):
            if n is None or window < 1:
                raise NetworkError(
                    "a function arrived without n and window; expected Network.sequence(rule, n, window=)"
                )
            network.__dict__.update(_rule=lambda k: read_links(rule(k), n, mixing, c), window=window)
        else:
            items = list(rule)
            if not items:
                raise NetworkError("an empty sequence arrived; expected at least one network")
            size = n or max(read_links(item, None, mixing, c).n for item in items)
            network.__dict__.update(_rule=[read_links(item, size, mixing, c) for item in items], window=len(items))
        network._average()
        return network

    @classmethod
    def from_weights(cls, n: int, edges: Any, table: Sequence[Sequence[float]]) -> ChangingNetwork:
        """The network of links and, graph by graph, their weights; 0 is a link that is missing."""
        pairs, members = np.sort(np.asarray(edges, dtype=np.int64).reshape(-1, 2), axis=1), []
        for weights in np.asarray(table, dtype=np.float64).reshape(-1, len(pairs)):
            there = (weights != 0.0) & (pairs[:, 0] < pairs[:, 1])
            topology = graphs.checked_topology(n, pairs[there], connected=False)
            own = weights[there][np.unique(pairs[there] @ [n, 1], return_index=True)[1]]
            low, high = extremes(weighted_laplacian(n, topology.edges, own))
            if low < -TOLERANCE or high >= 2.0 - TOLERANCE:
                raise NetworkError(f"a W has eigenvalues from {1 - high:.6g} to {1 - low:.6g}; expected (-1, 1]")
            members.append(_loose(topology, "custom", own))
        return cls.of(members, n, "custom", 1.0, 0)

    @property
    def table(self) -> list[list[float]]:
        """Weights of its links in each graph of the list that is repeated, as `from_weights` takes them."""
        if callable(self._rule):
            raise NetworkError("a sequence made by a function arrived; expected a list, which can be written down")
        return [row.tolist() for row in _table(self.edges, self._rule)]

    def _average(self) -> None:
        """Fill in the average of a window, which must be connected."""
        seen = [self.at(k) for k in range(self.window)]
        edges = graphs.checked_topology(seen[0].n, np.concatenate([one.edges for one in seen])).edges
        weights = (_table(edges, seen) / len(seen)).sum(axis=0)
        self._fill(seen[0].__getstate__() | {"edges": edges, "weights": weights, "mixing": "custom", "tau": None})

    def at(self, iteration: int) -> Network:
        """The network of one iteration, which need not be connected."""
        rule = self._rule
        found: Network = rule(iteration) if callable(rule) else rule[iteration % len(rule)]
        return found

    def links(self, iteration: int, number: int) -> tuple[Network, None]:  # noqa: ARG002
        """The network of an iteration; all of its links are up."""
        return self.at(iteration), None

    def sent(self, iterations: int, rounds: int, schedule: Schedule) -> int:  # noqa: ARG002
        """Messages that were sent in the first iterations, two for each link of the iteration and each round."""
        return 2 * schedule.rounds * sum(len(self.at(k).edges) for k in range(iterations))

    def lazy(self) -> Network:
        """Refused: each network of the sequence can be lazy."""
        raise NetworkError("a network that changes arrived; make each one of its sequence lazy")

    @property
    def _own(self) -> str:
        period = range(self.window) if not callable(self._rule) else range(3 * self.window)
        return " ".join(self.at(k).fingerprint() for k in period)


def read_links(item: Any, n: int | None, mixing: str, c: float) -> Network:
    """A member of a sequence: a `Network`, or a graph that need not be connected, with weights by name."""
    network: Network = item
    if not isinstance(item, Network):
        topology = graphs.read_graph(item, n, connected=False)
        network = _loose(topology, mixing, named_weights(mixing, topology, c))
    if not network.is_steady or (n is not None and network.n != n):
        raise NetworkError(f"{network!r} arrived in a sequence; expected steady networks of {n or network.n} agents")
    return network


def _table(edges: IntArray, members: Sequence[Network]) -> FloatArray:
    """Weights of these links in each network, 0 where it has none."""
    table = np.zeros((len(members), len(edges)))
    for row, one in zip(table, members, strict=True):
        row[np.searchsorted(edges @ [one.n, 1], one.edges @ [one.n, 1])] = one.weights
    return table


def _loose(topology: graphs.Topology, mixing: str, weights: FloatArray) -> Network:
    """A network that need not be connected."""
    network = Network.__new__(Network)
    own = {"mixing": mixing, "tau": None, "is_lazy": False, "seed": None, "name": None}
    network._fill(topology._asdict() | own | {"weights": weights})
    return network


# ------------------------------------------------------------------ links that fail


class LossyNetwork(UnsteadyNetwork):
    """A network whose links fail at random, both ways at once; made by `Network.lossy`.

    In a round in which a link is down, its two agents leave out their terms w_ij (u_i - u_j). Each link is a Markov
    chain of its own with two states (Gilbert and Elliott): it goes down with probability a and comes up again with
    probability b = 1/burst, where a = drop b/(1 - drop) makes `drop` the share of rounds in which it is down.
    """

    _stored = ("drop", "burst", "loss_seed")
    kind = "network with links that fail"
    drop: float
    burst: float
    loss_seed: int

    @classmethod
    def of(cls, network: Network, drop: float, burst: float | None, seed: int) -> LossyNetwork:
        """The network with losses."""
        if not network.is_steady:
            raise NetworkError(f"a {network.kind} arrived; expected a steady one")
        if not 0.0 <= drop < 1.0:
            raise NetworkError(f"drop is {drop!r}; expected a probability, at least 0 and below 1")
        least = max(1.0, drop / (1.0 - drop))
        burst = 1.0 / (1.0 - drop) if burst is None else float(burst)
        if not least <= burst < np.inf:
            raise NetworkError(f"burst is {burst!r}; expected the mean length of a failure in rounds, >= {least:g}")
        lossy = cls.__new__(cls)
        lossy._fill(network.__getstate__() | {"drop": float(drop), "burst": burst, "loss_seed": int(seed)})
        return lossy

    def up(self, number: int) -> BoolArray:
        """Which links are up in a round, counted from 0; the same for the same seed."""
        at, down = self.__dict__.get("_chain", (-1, None))
        if number < at or down is None:
            at, down = 0, self._draw(0) < self.drop
        comes, goes = 1.0 / self.burst, self.drop / (1.0 - self.drop) / self.burst
        for k in range(at + 1, number + 1):
            chance = self._draw(k)
            down = np.where(down, chance >= comes, chance < goes)
        self.__dict__["_chain"] = (number, down)
        return np.asarray(~down)

    def lost(self, number: int) -> set[tuple[int, int]]:
        """The links (i, j), i < j, that are down in a round."""
        return set(map(tuple, self.edges[~self.up(number)].tolist()))

    def _draw(self, number: int) -> FloatArray:
        return np.random.default_rng([self.loss_seed, number]).random(len(self.edges))

    def links(self, iteration: int, number: int) -> tuple[Network, BoolArray]:  # noqa: ARG002
        """The network, and its links that are up in a round."""
        return self, self.up(number)

    @property
    def _own(self) -> str:
        return f"lossy {self.drop!r} {self.burst!r} {self.loss_seed}"


# ------------------------------------------------------------------ compressed messages


@dataclass(frozen=True)
class Compressor:
    """The map Q, on each row by itself.

    Parameters
    ----------
    kind
        "top-k" keeps the k largest entries; "random-k" keeps k entries that sender and receiver draw alike from a
        seed; "bits" rounds to 2^(b - 1) - 1 levels of either sign of the largest entry.
    size
        k, or the number of bits b >= 2.
    seed
        Of random-k.
    """

    kind: str
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NetworkError(f"kind is {self.kind!r}; {nearest(str(self.kind), KINDS)}")
        least = 2 if self.kind == "bits" else 1
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not least <= self.size:
            raise NetworkError(f"size is {self.size!r}; expected a whole number >= {least} for {self.kind}")

    def numbers(self, p: int) -> float:
        """Numbers of 64 bits in a message: top-k sends values and places, b bits also the largest entry."""
        if self.kind == "bits":
            return 1.0 + p * self.size / 64.0
        kept = min(self.size, p)
        return float(2 * kept if self.kind == "top-k" else kept)

    def __call__(self, rows: Array, number: int) -> Array:
        """Q of every row, in a round."""
        p = rows.shape[1]
        if self.kind == "bits":
            levels = rows.dtype.type(2 ** (self.size - 1) - 1)
            largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
            unit = np.where(largest > 0.0, largest, 1.0).astype(rows.dtype)
            return np.asarray(np.round(rows / unit * levels) / levels * unit)
        if self.size >= p:
            return rows
        if self.kind == "top-k":
            order = np.argsort(-np.abs(rows), axis=1, kind="stable")
        else:
            order = np.random.default_rng([self.seed, number]).random(rows.shape).argsort(axis=1)
        out = np.zeros_like(rows)
        kept = order[:, : self.size]
        np.put_along_axis(out, kept, np.take_along_axis(rows, kept, axis=1), axis=1)
        return out


class CompressedNetwork(UnsteadyNetwork):
    """A network that carries compressed messages; made by `Network.compressed`."""

    _stored = ("compressor",)
    kind, has_fixed_links = "network with compressed messages", True
    compressor: Compressor

    @classmethod
    def of(cls, network: Network, compressor: Compressor) -> CompressedNetwork:
        """The network with compressed messages."""
        if not network.is_steady:
            raise NetworkError(f"a {network.kind} arrived; expected a steady one, on which all copies stay alike")
        compressed = cls.__new__(cls)
        compressed._fill(network.__getstate__() | {"compressor": compressor})
        return compressed

    def gossip(self, version: Version, schedule: Schedule) -> Gossip:
        """What answers the requests of a schedule on this network."""
        return CompressedGossip(self, version, schedule)

    def numbers(self, p: int) -> float:
        """Numbers in a message that stands for a vector of length p."""
        return self.compressor.numbers(p)

    @property
    def _own(self) -> str:
        return repr(self.compressor)


class CompressedGossip(Gossip):
    """Answers with products of the copies, one for each round of an iteration."""

    def __init__(self, network: CompressedNetwork, version: Version, schedule: Schedule) -> None:
        super().__init__(network, version, schedule)
        self._compressor, self._count = network.compressor, schedule.rounds

    def begin(self, iteration: int, rounds: int, copies: tuple[Array, ...]) -> None:
        """What follows belongs to this iteration; the copies are those of the last one."""
        super().begin(iteration, rounds, copies)
        self._slot = 0

    def transmitted(self, vector: Array) -> Array:
        """The copy after the message."""
        if not self.copies:
            self.copies = (np.zeros_like(vector),) * self._count
        old = self.copies[self._slot]
        new = old + self._compressor(vector - old, self.rounds)
        self.copies = (*self.copies[: self._slot], new, *self.copies[self._slot + 1 :])
        self._slot += 1
        return np.asarray(new)
