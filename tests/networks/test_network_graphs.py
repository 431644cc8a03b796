"""Topology: every way in, every refusal, the generators."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from helpers.network_cases import connected_edges, networks
from npga.errors import NetworkError
from npga.networks import Network

SQUARE = [(0, 1), (1, 2), (2, 3), (3, 0)]
SQUARE_ADJACENCY = nx.to_numpy_array(nx.Graph(SQUARE))


@pytest.mark.parametrize(
    "graph",
    [
        SQUARE,
        iter(SQUARE),
        nx.Graph(SQUARE),
        nx.MultiGraph([*SQUARE, (1, 0)]),
        SQUARE_ADJACENCY,
        3.5 * SQUARE_ADJACENCY,
        SQUARE_ADJACENCY + np.eye(4),
        sparse.csr_array(SQUARE_ADJACENCY),
        sparse.coo_matrix(SQUARE_ADJACENCY.astype(int)),
        [*SQUARE, (0, 1), (1, 0), (2, 2)],
    ],
)
def test_every_spelling_of_a_graph_gives_the_same_network(graph):
    network = Network(graph)
    assert network.edges.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert network == Network.ring(4)
    assert network.fingerprint() == Network.ring(4).fingerprint()


def test_an_array_is_an_adjacency_matrix_and_a_list_holds_pairs():
    assert Network(np.array([[0, 1], [1, 2]])).edges.tolist() == [[0, 1]]
    assert Network.from_edges(np.array([[0, 1], [1, 2]])) == Network.path(3)
    assert Network([[0, 1], [1, 2]]) == Network.path(3)
    for network in (Network.ring(5), Network.star(4)):
        assert Network(network.edges) == network
        assert Network.from_adjacency(network.laplacian) == network
        assert Network.from_adjacency(network.W.toarray(), "metropolis").mixing == "metropolis"


def test_edges_counted_from_one_are_recognised():
    network = Network([(1, 2), (2, 3), (3, 1), (3, 4)])
    assert network.n == 4
    assert network.labels == (1, 2, 3, 4)
    assert network == Network([(0, 1), (1, 2), (2, 0), (2, 3)])
    assert Network.from_edges([(1, 2), (2, 3)], n=3) == Network.path(3)


@given(connected_edges())
def test_topology_agrees_with_networkx(case):
    n, edges = case
    network = Network.from_edges(edges, n)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, j) for i, j in edges if i != j)
    assert network.n == n
    assert network.degrees.tolist() == [graph.degree(i) for i in range(n)]
    assert [tuple(edge) for edge in network.edges.tolist()] == sorted(tuple(sorted(edge)) for edge in graph.edges())
    assert network.diameter == nx.diameter(graph)
    np.testing.assert_array_equal(network.laplacian.toarray(), nx.laplacian_matrix(graph).toarray())
    for i in range(n):
        assert network.neighbors(i).tolist() == sorted(graph.neighbors(i))
    assert nx.utils.graphs_equal(nx.Graph(network.graph.edges()), nx.Graph(graph.edges()))


@given(networks())
def test_row_lists_the_weights_of_the_neighbours(network):
    W = network.W.toarray()
    for i in range(network.n):
        row = network.row(i)
        assert list(row) == network.neighbors(i).tolist()
        assert all(W[i, j] == w for j, w in row.items())
    begins, neighbours, links = network.neighbor_lists
    owners = np.repeat(np.arange(network.n), np.diff(begins))
    np.testing.assert_array_equal(network.edges[links], np.sort(np.column_stack([owners, neighbours]), axis=1))


def test_labels_follow_the_node_order_of_the_graph():
    graph = nx.Graph([("oslo", "rome"), ("rome", "bern")])
    graph.add_edge("rome", "rome")
    network = Network(graph, name="cities")
    assert network.labels == ("oslo", "rome", "bern")
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert set(network.graph.edges()) == {("oslo", "rome"), ("rome", "bern")}
    assert "name='cities'" in repr(network)


def test_karate_club_is_read_with_its_weights_ignored():
    network = Network(nx.karate_club_graph())
    assert (network.n, len(network.edges), network.tau) == (34, 78, 18.0)


@pytest.mark.parametrize(
    ("network", "reference"),
    [
        (Network.path(7), nx.path_graph(7)),
        (Network.ring(7), nx.cycle_graph(7)),
        (Network.star(7), nx.star_graph(6)),
        (Network.complete(7), nx.complete_graph(7)),
        (Network.grid(3, 4), nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))),
        (Network.ring(2), nx.path_graph(2)),
        (Network.ring(1), nx.empty_graph(1)),
        (Network.grid(1, 1), nx.empty_graph(1)),
        (Network.star(1), nx.empty_graph(1)),
    ],
)
def test_named_graphs_match_networkx(network, reference):
    assert network.n == len(reference)
    assert {tuple(edge) for edge in network.edges.tolist()} == {tuple(sorted(edge)) for edge in reference.edges()}


DRAWS = {
    "erdos_renyi": lambda seed: Network.erdos_renyi(13, 0.3, seed=seed),
    "random_geometric": lambda seed: Network.random_geometric(20, 0.4, seed=seed),
    "barabasi_albert": lambda seed: Network.barabasi_albert(20, 2, seed=seed),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_random_graphs_depend_on_the_seed_alone(draw):
    assert draw(3) == draw(3)
    assert len({draw(seed).fingerprint() for seed in range(6)}) > 1
    assert nx.is_connected(draw(5).graph)


def test_the_recorded_seed_reproduces_a_redrawn_graph():
    redrawn = [network for s in range(20) if (network := Network.erdos_renyi(13, 0.15, seed=s)).seed != s]
    assert redrawn, "p = 0.15 should need redraws"
    assert all(Network.erdos_renyi(13, 0.15, seed=network.seed) == network for network in redrawn)


def test_erdos_renyi_draws_every_pair_with_probability_p():
    # 400 draws of 45 pairs at p = 0.7 (disconnected ones are rare): a pair's count is 280 +- 9.2.
    counts = np.zeros((10, 10))
    for seed in range(400):
        i, j = Network.erdos_renyi(10, 0.7, seed=1000 * seed).edges.T
        counts[i, j] += 1
    pairs = counts[np.triu_indices(10, 1)]
    assert abs(pairs.mean() - 280) < 6
    assert np.abs(pairs - 280).max() < 45


@pytest.mark.parametrize("n", [1, 2, 5])
def test_erdos_renyi_with_p_one_is_complete(n):
    assert Network.erdos_renyi(n, 1.0) == Network.complete(n)


def test_a_lone_agent_is_a_network():
    for network in (Network.complete(1), Network([], n=1), Network(nx.empty_graph(1)), Network.from_W([[1.0]])):
        assert network.W.toarray().tolist() == [[1.0]]
        assert network.spectrum.tolist() == [1.0]
        assert (network.diameter, network.neighbors(0).tolist(), network.row(0)) == (0, [], {})
        assert [part.tolist() for part in network.neighbor_lists] == [[0, 0], [], []]
        assert network.extreme_eigenvalues() == (1.0, 1.0)
        assert network.laplacian_extremes() == (0.0, 0.0)
        assert network.differences(np.array([[3.0, 4.0]])).tolist() == [[0.0, 0.0]]
    for mixing in ("laplacian", "metropolis", "best-constant", "fastest"):
        assert Network.complete(1, mixing).lazy().W.toarray().tolist() == [[1.0]]


REFUSALS = {
    "directed": (lambda: Network(nx.DiGraph(SQUARE)), "to_undirected"),
    "asymmetric": (lambda: Network(np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]])), r"\(1, 2\) and \(2, 1\)"),
    "disconnected": (lambda: Network([(0, 1), (2, 3)]), r"2 components, \{0, 1\}, \{2, 3\}"),
    "labels": (lambda: Network(nx.Graph([("a", "b"), ("c", "d")])), r"\{a, b\}, \{c, d\}"),
    "many components": (lambda: Network.from_edges([(0, 1)], n=50), "49 components.*and 45 more"),
    "large component": (lambda: Network.from_edges(SQUARE + [(3, i) for i in range(4, 9)], n=10), "... 9 agents"),
    "no agents": (lambda: Network(nx.Graph()), "at least one agent"),
    "no edges": (lambda: Network([]), "at least one agent"),
    "negative": (lambda: Network([(0, -1)]), "agent -1"),
    "too large": (lambda: Network([(0, 5)], n=3), "agents 0 to 2"),
    "triples": (lambda: Network([(0, 1, 2)]), "pairs"),
    "ragged": (lambda: Network([(0, 1), (0, 1, 2)]), "pairs"),
    "names": (lambda: Network([("a", "b")]), "networkx.Graph"),
    "fractions": (lambda: Network([(0.5, 1.0)]), "integers"),
    "rectangle": (lambda: Network(np.ones((3, 4))), "square"),
    "array of triples": (lambda: Network(np.array([(0, 1, 2), (1, 2, 3)])), "Network.from_edges"),
    "vector": (lambda: Network(np.ones(3)), "square"),
    "nan": (lambda: Network(np.full((3, 3), np.nan)), "NaN"),
    "number": (lambda: Network(5), "type int"),
    "string": (lambda: Network("ring"), "type str"),
    "nothing": (lambda: Network(None), "no graph"),
    "size": (lambda: Network.ring(0), "at least 1"),
    "rows": (lambda: Network.grid(2, 2.0), "cols = 2.0"),
    "p": (lambda: Network.erdos_renyi(5, 0.0), "0 < p <= 1"),
    "p nan": (lambda: Network.erdos_renyi(5, float("nan")), "0 < p <= 1"),
    "hopeless p": (lambda: Network.erdos_renyi(50, 0.01), r"1000 draws.*seeds 0 to 999.*ln\(n\)/n"),
    "seed": (lambda: Network.erdos_renyi(5, 0.5, seed=-1), "seed = -1"),
    "no seed": (lambda: Network.barabasi_albert(5, 2, seed=None), "seed = None"),
    "radius": (lambda: Network.random_geometric(5, 0.0), "radius = 0.0"),
    "small radius": (lambda: Network.random_geometric(12, 0.05), "none of 1000 draws"),
    "m": (lambda: Network.barabasi_albert(5, 5), "1 <= m < n"),
    "neighbor": (lambda: Network.ring(4).neighbors(4), "0 to 3"),
    "row": (lambda: Network.ring(4).row(-1), "0 to 3"),
}


@pytest.mark.parametrize(("build", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_what_arrived(build, message):
    with pytest.raises(NetworkError, match=message):
        build()


@given(st.integers(2, 8))
def test_arguments_are_left_alone(n):
    adjacency = nx.to_numpy_array(nx.path_graph(n))
    before = adjacency.copy()
    Network(adjacency)
    np.testing.assert_array_equal(adjacency, before)
    assert adjacency.flags.writeable


@pytest.mark.parametrize(
    "graph",
    [nx.cycle_graph(9), nx.grid_2d_graph(9, 10, periodic=True), nx.gnp_random_graph(700, 0.02, seed=1)],
    ids=["ring", "torus", "random"],
)
def test_the_diameter_of_agents_that_are_alike(graph):
    assert Network(graph).diameter == nx.diameter(graph)
