"""The network: an undirected connected graph with a mixing matrix W on it."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError
from npga.networks import _graphs as graphs
from npga.networks import _mixing as on_links

if TYPE_CHECKING:
    import networkx as nx

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_STORED = ("n", "labels", "mixing", "tau", "is_lazy", "seed", "name", "edges", "weights")


class Network:
    """Who talks to whom, and with which weights. Immutable.

    Parameters
    ----------
    graph : networkx.Graph, iterable of pairs, array or sparse matrix, or None
        The links. An n x n array is an adjacency matrix (only its zeros matter), an m x 2 array holds pairs; two
        pairs in an array, which could be either, go to `Network.from_edges`. None reads the graph off the matrix
        given as `mixing`. Agents are counted from 0, or all from 1. Self-loops are ignored and parallel links count
        once. It must be undirected and connected; one agent without links is valid.
    mixing : str or matrix
        "laplacian": W = I - L/tau with tau = largest degree + c.
        "metropolis": w_ij = 1/(1 + max(degree_i, degree_j)).
        "best-constant": the constant weight 2/(lambda_2(L) + lambda_max(L)) of Xiao & Boyd (2004), the best
        constant; it may make diagonal entries of W negative.
        "fastest": their fastest symmetric averaging, a semidefinite program for up to a few hundred links
        (needs cvxpy); weights may be negative, and links it would leave idle keep the weight 1e-8.
        Or a symmetric n x n array or sparse matrix W: rows that sum to one, the graph's sparsity,
        null(I - W) = span(1) and -I < W <= I. Entries are compared up to 1e-10.
    n : int, optional
        Number of agents, for an edge list; by default one more than the largest number in it.
    c : float
        The constant c > 0 in tau; the other mixings do not use it.
    seed, name : int and str, optional
        Recorded for information; the random constructors put the seed of the draw here.

    Attributes
    ----------
    n : int
        Number of agents.
    edges : ndarray of shape (m, 2)
        Links (i, j) with i < j in lexicographic order, read-only.
    weights : ndarray of shape (m,)
        w_ij for every link, read-only.
    labels : tuple
        What the graph called each agent, in the order 0..n-1.
    mixing : str
        Name of the mixing, "custom" for a matrix.
    tau : float or None
        With W = I - L/tau for the Laplacian mixing (doubled by `lazy`), None for the others.
    is_lazy : bool
        Whether W is the (I + W)/2 of another network.

    Examples
    --------
    >>> Network([(0, 1), (1, 2)]).W.toarray().round(3)
    array([[0.667, 0.333, 0.   ],
           [0.333, 0.333, 0.333],
           [0.   , 0.333, 0.667]])
    """

    is_steady, has_fixed_links, changes, kind = True, True, False, "network"
    n: int
    edges: IntArray
    weights: FloatArray
    labels: tuple[Hashable, ...]
    mixing: str
    tau: float | None
    is_lazy: bool
    seed: int | None
    name: str | None

    def __init__(
        self,
        graph: nx.Graph | Iterable[Any] | Array | None,
        mixing: str | Array = "laplacian",
        *,
        n: int | None = None,
        c: float = 1.0,
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        if graph is not None:
            topology = graphs.read_graph(graph, n)
        elif isinstance(mixing, str):
            raise NetworkError(f"no graph arrived with mixing={mixing!r}; pass a graph, or a matrix W as mixing")
        else:
            topology = graphs.from_adjacency(on_links.read_symmetric(mixing, "W", NetworkError))
        self._build(topology, mixing, c, seed, name)

    def _build(self, topology: graphs.Topology, mixing: Any, c: float, seed: int | None, name: str | None) -> None:
        named = isinstance(mixing, str)
        weights = on_links.named_weights(mixing, topology, c) if named else on_links.matrix_weights(mixing, topology)
        tau = on_links.laplacian_tau(topology, c) if named and mixing == "laplacian" else None
        own = {"mixing": mixing if named else "custom", "tau": tau, "is_lazy": False, "seed": seed, "name": name}
        self._fill(topology._asdict() | own | {"weights": weights})

    def _fill(self, fields: dict[str, Any]) -> None:
        fields["edges"].flags.writeable = fields["weights"].flags.writeable = False
        self.__dict__.update(fields)

    @classmethod
    def _of(cls, topology: graphs.Topology, mixing: str | Array, c: float, seed: int | None = None) -> Network:
        network = cls.__new__(cls)
        network._build(topology, mixing, c, seed, None)
        return network

    @classmethod
    def _drawn(cls, n: int, pairs: IntArray, mixing: str | Array, c: float, seed: int | None = None) -> Network:
        return cls._of(graphs.checked_topology(n, pairs), mixing, c, seed)

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], n: int | None = None, mixing: str | Array = "laplacian", *, c: float = 1.0
    ) -> Network:
        """Network of pairs of agents; `n` is needed only when the last agents have no pair."""
        return cls._of(graphs.from_edges(edges, n), mixing, c)

    @classmethod
    def from_adjacency(cls, matrix: Array, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Network of a symmetric adjacency matrix, dense or sparse; its values and diagonal are ignored."""
        return cls._of(graphs.from_adjacency(matrix), mixing, c)

    @classmethod
    def from_W(cls, W: Array) -> Network:
        """Network of a symmetric mixing matrix, dense or sparse; the links are its off-diagonal entries."""
        return cls(None, mixing=W)

    @classmethod
    def path(cls, n: int, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Agents in a row."""
        return cls._drawn(n, graphs.path_edges(n), mixing, c)

    @classmethod
    def ring(cls, n: int, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Agents in a circle."""
        return cls._drawn(n, graphs.ring_edges(n), mixing, c)

    @classmethod
    def grid(cls, rows: int, cols: int, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Agents on a rectangle, row by row."""
        return cls._drawn(rows * cols, graphs.grid_edges(rows, cols), mixing, c)

    @classmethod
    def star(cls, n: int, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Agent 0 in the middle, linked with everyone."""
        return cls._drawn(n, graphs.star_edges(n), mixing, c)

    @classmethod
    def complete(cls, n: int, mixing: str | Array = "laplacian", *, c: float = 1.0) -> Network:
        """Everyone linked with everyone."""
        return cls._drawn(n, graphs.complete_edges(n), mixing, c)

    @classmethod
    def erdos_renyi(
        cls, n: int, p: float, seed: int = 0, mixing: str | Array = "laplacian", *, c: float = 1.0
    ) -> Network:
        """Every pair linked with probability `p`; redrawn with seed, seed + 1, ... until connected."""
        edges, used = graphs.connected_erdos_renyi(n, p, seed)
        return cls._drawn(n, edges, mixing, c, used)

    @classmethod
    def random_geometric(
        cls, n: int, radius: float, seed: int = 0, mixing: str | Array = "laplacian", *, c: float = 1.0
    ) -> Network:
        """Points of the unit square linked within `radius`; redrawn like `erdos_renyi` until connected."""
        edges, used = graphs.connected_geometric(n, radius, seed)
        return cls._drawn(n, edges, mixing, c, used)

    @classmethod
    def barabasi_albert(
        cls, n: int, m: int, seed: int = 0, mixing: str | Array = "laplacian", *, c: float = 1.0
    ) -> Network:
        """Preferential attachment with `m` links per newcomer: a few hubs and many small agents."""
        return cls._drawn(n, graphs.barabasi_albert_edges(n, m, seed), mixing, c, seed)

    def lazy(self) -> Network:
        """Network with W' = (I + W)/2 on the same graph: every weight halved, so that W' > 0."""
        network = self.__class__.__new__(self.__class__)
        halved = {"weights": self.weights / 2, "tau": self.tau and 2 * self.tau, "is_lazy": True}
        network._fill(self.__getstate__() | halved)
        return network

    @classmethod
    def sequence(
        cls, networks: Any, n: int | None = None, *, mixing: str = "laplacian", c: float = 1.0, window: int = 0
    ) -> Network:
        """Another network in each iteration, from a list that is repeated or a function of the iteration.

        Members are networks, or graphs (agents from 0 on) that need not be connected and are mixed by name; together
        those of a period, or for a function of its first `window` iterations, must be connected.
        """
        from npga.networks._changing_networks import ChangingNetwork

        return ChangingNetwork.of(networks, n, mixing, c, window)

    def lossy(self, drop: float, burst: float | None = None, seed: int = 0) -> Network:
        """The same network with links that are down in a share `drop` of the rounds, both ways at once.

        Rounds are independent, unless `burst` says how many rounds a failure lasts on average (Gilbert and Elliott).
        """
        from npga.networks._changing_networks import LossyNetwork

        return LossyNetwork.of(self, drop, burst, seed)

    def compressed(self, kind: str, size: int, seed: int = 0) -> Network:
        """The same network with compressed messages and error feedback: "top-k", "random-k", or "bits" of a size."""
        from npga.networks._changing_networks import CompressedNetwork, Compressor

        return CompressedNetwork.of(self, Compressor(kind, size, seed))

    @property
    def nominal(self) -> Network:
        """Itself; for a network that changes, the steady one that stands for it where steps are chosen."""
        return self

    def links(self, iteration: int, number: int) -> tuple[Network, Array | None]:  # noqa: ARG002
        """The network of an iteration, and which of its links are up in a round (None: all), both counted from 0."""
        return self, None

    @cached_property
    def W(self) -> Any:
        """Mixing matrix, a SciPy CSR array."""
        return on_links.read_only(sparse.csr_array(sparse.eye_array(self.n, format="csr") - self._kernel))

    @cached_property
    def laplacian(self) -> Any:
        """Graph Laplacian L (unit weights), a SciPy CSR array."""
        return on_links.read_only(on_links.weighted_laplacian(self.n, self.edges, np.ones(len(self.edges))))

    @cached_property
    def _kernel(self) -> Any:
        return on_links.weighted_laplacian(self.n, self.edges, self.weights)

    @cached_property
    def degrees(self) -> IntArray:
        """Number of neighbours of every agent, read-only."""
        counts: IntArray = on_links.read_only(np.bincount(self.edges.ravel(), minlength=self.n).astype(np.int64))
        return counts

    @cached_property
    def neighbor_lists(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where the list of every agent begins (and the last ends), the neighbours in it, ascending, and their links.

        The third array has the row of `edges` that each neighbour is reached by. Read-only.
        """
        rows, columns = np.concatenate([self.edges, self.edges[:, ::-1]]).T
        order = np.lexsort((columns, rows))
        begins = np.searchsorted(rows[order], np.arange(self.n + 1))
        begins, neighbours, links = (
            on_links.read_only(found.astype(np.int64)) for found in (begins, columns[order], order % len(self.edges))
        )
        return begins, neighbours, links

    def _slice(self, i: int) -> slice:
        if not 0 <= i < self.n:
            raise NetworkError(f"agent {i} was asked for; expected a number from 0 to {self.n - 1}")
        begins = self.neighbor_lists[0]
        return slice(begins[i], begins[i + 1])

    def neighbors(self, i: int) -> IntArray:
        """Agents that share a link with agent `i`, ascending; read-only."""
        return self.neighbor_lists[1][self._slice(i)]

    def row(self, i: int) -> dict[int, float]:
        """Weights {j: w_ij} of the neighbours of agent `i`, ascending in j, without the diagonal."""
        links = self.neighbor_lists[2][self._slice(i)]
        return dict(zip(self.neighbors(i).tolist(), self.weights[links].tolist(), strict=True))

    def differences(self, u: Array, weights: str | Array | None = None) -> Array:
        """Sum over neighbours j of w_ij (u_i - u_j), for every agent i: what one round of messages computes.

        Parameters
        ----------
        u : ndarray of shape (n, ...)
            One message per agent; not changed. float32 stays float32.
        weights : None, "unit" or ndarray of shape (m,)
            None takes the mixing weights and gives (I - W) u; "unit" gives L u; an array has one entry per
            link, in the order of `edges`.

        Returns
        -------
        ndarray of the shape of `u`
            Exactly zero where all messages agree, because it is evaluated by differences.
        """
        if np.ndim(u) == 0 or len(u) != self.n:
            raise NetworkError(f"u of shape {np.shape(u)} arrived; expected {self.n} rows, one per agent")
        if isinstance(weights, str):
            if weights != "unit":
                raise NetworkError(f"weights={weights!r} arrived; expected None, 'unit' or one number per link")
            return self._incidence.apply(u, None)
        chosen = self.weights if weights is None else np.asarray(weights)
        if chosen.shape != self.weights.shape:
            raise NetworkError(f"weights of shape {chosen.shape} arrived; expected {self.weights.shape}")
        return self._incidence.apply(u, chosen)

    @cached_property
    def _incidence(self) -> on_links.Incidence:
        return on_links.Incidence(self.n, self.edges)

    @cached_property
    def spectrum(self) -> FloatArray:
        """All eigenvalues of W, ascending, for up to 3000 agents; the last is exactly 1."""
        values: FloatArray = on_links.read_only(1.0 - on_links.full_spectrum(self._kernel)[::-1])
        return values

    @cached_property
    def laplacian_spectrum(self) -> FloatArray:
        """All eigenvalues of L, ascending, for up to 3000 agents; the first is exactly 0."""
        return on_links.full_spectrum(self.laplacian)

    def extreme_eigenvalues(self) -> tuple[float, float]:
        """Smallest and second largest eigenvalue of W, for any n; both 1 for a lone agent."""
        smallest, largest = self._extremes
        return 1.0 - largest, 1.0 - smallest

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        return on_links.extremes(self._kernel)

    def laplacian_extremes(self) -> tuple[float, float]:
        """Second smallest and largest eigenvalue of L, for any n; both 0 for a lone agent."""
        return self._laplacian_extremes

    @cached_property
    def _laplacian_extremes(self) -> tuple[float, float]:
        return on_links.extremes(self.laplacian)

    @cached_property
    def diameter(self) -> int:
        """Largest number of hops between two agents, exact."""
        return graphs.diameter(abs(self.laplacian))

    @property
    def graph(self) -> nx.Graph:
        """A new networkx graph of the labels, with w_ij as the edge attribute `weight`."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.labels)
        for (i, j), w in zip(self.edges.tolist(), self.weights.tolist(), strict=True):
            graph.add_edge(self.labels[i], self.labels[j], weight=w)
        return graph

    def fingerprint(self) -> str:
        """Short digest of the links and their weights: equal for equal networks, here and elsewhere."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for array in (np.array([self.n]), self.edges, self.weights):
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        if self is other:
            return True
        same = self.n == other.n and np.array_equal(self.edges, other.edges)
        return bool(same and np.array_equal(self.weights, other.weights))

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __getstate__(self) -> dict[str, Any]:
        return {field: self.__dict__[field] for field in _STORED}  # what was derived is derived again

    __setstate__ = _fill

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Network is immutable: cannot set {name!r}; build another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Network is immutable: cannot delete {name!r}")

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return (
            f"Network(n={self.n}, edges={len(self.edges)}, mixing={self.mixing!r}, lazy={self.is_lazy}, "
            f"seed={self.seed}{name})"
        )
