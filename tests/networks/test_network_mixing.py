"""Mixing matrices and their spectra."""

import builtins
import importlib
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from helpers.network_cases import connected_edges, networks
from npga.errors import MissingExtraError, NetworkError
from npga.networks import Network

MIXINGS = ["laplacian", "metropolis", "best-constant", "fastest"]


def second_modulus(network):
    """Convergence factor of averaging: the largest modulus of an eigenvalue other than 1."""
    smallest, second = network.extreme_eigenvalues()
    return max(-smallest, second)


@given(networks())
def test_mixing_matrices_are_what_remark_1_asks_for(network):
    W = network.W.toarray()
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-14)
    on_graph = network.laplacian.toarray() != 0
    assert np.all(W[~on_graph & ~np.eye(network.n, dtype=bool)] == 0)
    assert len(network.weights) == 0 or network.weights.min() > 0
    eigenvalues = np.linalg.eigvalsh(W)
    np.testing.assert_allclose(network.spectrum, eigenvalues, atol=1e-12)
    assert network.spectrum[-1] == 1.0
    assert eigenvalues[0] > -1
    assert network.n == 1 or eigenvalues[-2] < 1 - 1e-9


@given(networks())
def test_extremes_are_the_ends_of_the_spectrum(network):
    if network.n > 1:
        ends = (network.spectrum[0], network.spectrum[-2])
        np.testing.assert_allclose(network.extreme_eigenvalues(), ends, atol=1e-12)
        laplacian_ends = network.laplacian_spectrum[[1, -1]]
        np.testing.assert_allclose(network.laplacian_extremes(), laplacian_ends, atol=1e-11)


@given(connected_edges())
def test_formulas_of_the_named_mixings(case):
    n, edges = case
    laplacian, metropolis = Network.from_edges(edges, n, c=0.7), Network.from_edges(edges, n, "metropolis")
    L = laplacian.laplacian.toarray()
    degrees = np.diag(L)
    assert laplacian.tau == degrees.max() + 0.7
    np.testing.assert_allclose(laplacian.W.toarray(), np.eye(n) - L / laplacian.tau, atol=1e-15)
    assert metropolis.tau is None
    for (i, j), w in zip(metropolis.edges, metropolis.weights, strict=True):
        assert w == 1 / (1 + max(degrees[i], degrees[j]))


@given(networks())
def test_lazy_halves_the_distance_to_the_identity(network):
    lazy = network.lazy()
    np.testing.assert_allclose(lazy.W.toarray(), (np.eye(network.n) + network.W.toarray()) / 2, atol=1e-15)
    assert lazy.is_lazy
    assert lazy.spectrum[0] > 0
    np.testing.assert_array_equal(lazy.edges, network.edges)
    if network.tau is not None:
        L = network.laplacian.toarray()
        np.testing.assert_allclose(lazy.W.toarray(), np.eye(network.n) - L / lazy.tau, atol=1e-15)


@given(connected_edges(8))
def test_best_constant_beats_every_other_constant(case):
    n, edges = case
    if n == 1:
        return
    best = Network.from_edges(edges, n, "best-constant")
    eigenvalues = best.laplacian_spectrum[1:]
    scan = min(np.abs(1 - w * eigenvalues).max() for w in np.linspace(0, 2 / eigenvalues[-1], 400))
    assert second_modulus(best) <= scan + 1e-12


@settings(max_examples=15, deadline=None)
@given(connected_edges(7))
def test_fastest_is_no_slower_than_the_others(case):
    n, edges = case
    if n == 1:
        return
    fastest = second_modulus(Network.from_edges(edges, n, "fastest"))
    others = [Network.from_edges(edges, n, mixing) for mixing in MIXINGS[:3]]
    assert fastest <= min(second_modulus(network) for network in others) + 1e-6
    assert fastest <= min(second_modulus(network.lazy()) for network in others) + 1e-6


def test_fastest_beats_best_constant_strictly_where_links_differ():
    # Two triangles joined by a bridge: the bridge deserves more weight than the rest.
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]
    fastest, constant = (Network(edges, mixing) for mixing in ("fastest", "best-constant"))
    assert second_modulus(fastest) < second_modulus(constant) - 0.005
    bridge = fastest.edges.tolist().index([2, 3])
    assert np.argmax(fastest.weights) == bridge


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9])
def test_closed_forms_of_xiao_and_boyd(n):
    # Star: eigenvalues of L are 0, 1 (n - 2 times) and n, so the best constant is 2/(n + 1); by symmetry of
    # the convex problem equal weights are optimal on the star, the ring and the complete graph.
    star = Network.star(n, "best-constant")
    np.testing.assert_allclose(star.weights, 2 / (n + 1))
    np.testing.assert_allclose(second_modulus(star), (n - 1) / (n + 1))
    complete = Network.complete(n, "best-constant")
    np.testing.assert_allclose(complete.W.toarray(), 1 / n)
    angles = 2 * np.pi * np.arange(1, n) / n
    lam = 2 - 2 * np.cos(angles)
    np.testing.assert_allclose(Network.ring(n, "best-constant").weights, 2 / (lam.min() + lam.max()))
    for build in (Network.star, Network.ring, Network.complete):
        fast, constant = build(n, "fastest"), build(n, "best-constant")
        np.testing.assert_allclose(second_modulus(fast), second_modulus(constant), atol=1e-6)


def test_best_constant_may_have_a_negative_diagonal():
    assert Network.star(9, "best-constant").W.diagonal().min() < 0


LARGE = {
    "ring": (Network.ring(2000), lambda k: 1 - (2 - 2 * np.cos(2 * np.pi * k / 2000)) / 3, 1, 1000),
    "path": (Network.path(2000), lambda k: 1 - (2 - 2 * np.cos(np.pi * k / 2000)) / 3, 1, 1999),
}


@pytest.mark.parametrize(("network", "eigenvalue", "second", "last"), LARGE.values(), ids=LARGE)
def test_lanczos_survives_crowded_spectra(network, eigenvalue, second, last):
    smallest, largest = network.extreme_eigenvalues()
    np.testing.assert_allclose(1 - largest, 1 - eigenvalue(second), rtol=1e-8)
    np.testing.assert_allclose(smallest, eigenvalue(last), atol=1e-10)


@pytest.mark.parametrize("mixing", MIXINGS[:3])
def test_lanczos_agrees_with_the_dense_spectrum(mixing):
    network = Network.barabasi_albert(600, 3, seed=1, mixing=mixing)
    ends = (network.spectrum[0], network.spectrum[-2])
    np.testing.assert_allclose(network.extreme_eigenvalues(), ends, atol=1e-9)
    assert network.extreme_eigenvalues() == pickle.loads(pickle.dumps(network)).extreme_eigenvalues()


def test_the_whole_spectrum_of_a_large_network_is_refused():
    with pytest.raises(NetworkError, match="extreme_eigenvalues"):
        _ = Network.ring(3001).spectrum


@given(networks())
def test_a_matrix_of_ones_own_gives_the_same_network(network):
    W = network.W.toarray()
    before = W.copy()
    for own in (
        Network.from_W(W),
        Network(None, W),
        Network.from_W(network.W),
        Network.from_edges(network.edges, network.n, W),
    ):
        assert own.mixing == "custom"
        np.testing.assert_array_equal(own.edges, network.edges)
        np.testing.assert_array_equal(own.weights, network.weights)
    np.testing.assert_array_equal(W, before)


def test_rounding_dust_is_cleaned_from_a_matrix():
    W = Network.ring(5).W.toarray()
    W[0, 1] += 1e-12
    W[0, 2] = W[2, 0] = 1e-13
    own = Network.from_W(W)
    np.testing.assert_array_equal(own.edges, Network.ring(5).edges)
    np.testing.assert_array_equal(own.W.toarray(), own.W.toarray().T)
    assert own.row(0)[1] == W[0, 1]


def edited(*changes, n=4):
    """Mixing matrix of a ring with entries (and their mirror images) replaced; rows still sum to one."""
    W = Network.ring(n).W.toarray()
    for i, j, value in changes:
        W[i, j] = W[j, i] = value
    return W - np.diag(W.sum(axis=1) - 1)


RING = Network.ring(4).edges.tolist()
ASYMMETRIC = edited() + np.array([[0, 0.1, 0, -0.1]] + [[0] * 4] * 3)
REFUSALS = {
    "asymmetric": (lambda: Network(RING, ASYMMETRIC), r"not symmetric: entry \(0, 1\)"),
    "off graph": (lambda: Network(RING, edited((0, 2, 0.1))), r"0.1 at \(0, 2\).*share no link"),
    "zero on a link": (lambda: Network(RING, edited((1, 2, 0.0))), r"zero at \(1, 2\)"),
    "row sums": (lambda: Network(RING, 0.9 * edited()), "row 0 of W sums to 0.9"),
    "nan": (lambda: Network(RING, np.full((4, 4), np.nan)), "NaN"),
    "shape": (lambda: Network(RING, np.eye(5)), r"\(5, 5\).*4 agents"),
    "rectangle": (lambda: Network.from_W(np.ones((2, 3))), "square"),
    "not numbers": (lambda: Network(RING, [["a"]]), "type list"),
    "minus one": (lambda: Network.from_W(np.array([[0.0, 1.0], [1.0, 0.0]])), r"eigenvalue -1.*\(I \+ W\)/2"),
    "below minus one": (lambda: Network(RING, edited((0, 1, 0.9), (2, 3, 0.9))), "more than -1"),
    "above one": (lambda: Network(RING, edited((0, 1, -0.5))), "null"),
    "double one": (lambda: Network(RING, edited((0, 1, -1 / 9))), "null"),
    "disconnected": (lambda: Network.from_W(np.eye(3)), "3 components"),
    "lone": (lambda: Network.from_W(np.array([[0.5]])), "row 0 of W sums to 0.5"),
    "name": (lambda: Network(RING, "metropols"), "did you mean 'metropolis'"),
    "c": (lambda: Network(RING, c=0.0), "c > 0"),
    "c nan": (lambda: Network(RING, c=float("nan")), "c > 0"),
    "c text": (lambda: Network(RING, c="1"), "c > 0"),
}


@pytest.mark.parametrize(("build", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_what_arrived(build, message):
    with pytest.raises(NetworkError, match=message):
        build()


def test_a_negative_weight_is_accepted_while_the_agents_still_agree():
    # The ring's other three links in series have conductance 1/9, so -0.1 leaves I - W positive off ones.
    own = Network(RING, edited((0, 1, -0.1)))
    assert own.row(0)[1] == -0.1
    assert own.spectrum[-2] < 1
    assert own.diameter == 2


def test_large_matrices_are_checked_too():
    network = Network.erdos_renyi(1000, 0.01)
    assert Network.from_W(network.W) == network
    # Weights scaled by t give the smallest eigenvalue 1 - t (1 - lambda_min): -1 is reached at t below.
    limit = 2 / (1 - network.extreme_eigenvalues()[0])
    kernel = sparse.eye_array(1000) - network.W
    accepted = Network.from_W(sparse.eye_array(1000) - 0.999 * limit * kernel)
    np.testing.assert_allclose(accepted.extreme_eigenvalues()[0], -0.998, atol=1e-8)
    assert accepted.W.diagonal().min() < 0
    with pytest.raises(NetworkError, match="more than -1"):
        Network.from_W(sparse.eye_array(1000) - 1.001 * limit * kernel)


def test_fastest_without_cvxpy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r"npga\[cvxpy\]"):
        Network.ring(4, "fastest")


def test_fastest_reports_a_failed_solve(monkeypatch):
    cvxpy = importlib.import_module("cvxpy")
    monkeypatch.setattr(cvxpy.Problem, "status", "infeasible")
    with pytest.raises(NetworkError, match=r"status 'infeasible'.*best-constant"):
        Network.ring(4, "fastest")


def test_fastest_keeps_idle_links():
    # A link that the optimum would drop still belongs to the graph, so W keeps its sparsity.
    network = Network.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], mixing="fastest")
    assert np.all(network.weights != 0)
    np.testing.assert_array_equal(Network.from_W(network.W).edges, network.edges)


def test_networks_are_immutable_and_pickle():
    network = Network.erdos_renyi(13, 0.3, seed=4)
    _ = network.W, network.spectrum, network.diameter, network.differences(np.ones((13, 2)))
    copy = pickle.loads(pickle.dumps(network.lazy()))
    assert copy == network.lazy()
    assert hash(copy) == hash(network.lazy())
    assert copy != network
    assert copy != "network"
    assert (copy.seed, copy.mixing, copy.is_lazy, copy.labels) == (network.seed, "laplacian", True, tuple(range(13)))
    assert repr(network) == f"Network(n=13, edges={len(network.edges)}, mixing='laplacian', lazy=False, seed=4)"
    with pytest.raises(AttributeError, match="immutable"):
        network.n = 3
    with pytest.raises(AttributeError, match="immutable"):
        del network.n
    for array in (network.edges, network.weights, network.degrees, network.spectrum, network.W.data, copy.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_fingerprints_see_weights_and_links():
    prints = {
        network.fingerprint()
        for network in (
            Network.ring(5),
            Network.ring(5).lazy(),
            Network.path(5),
            Network.ring(5, c=2.0),
            Network.ring(6),
        )
    }
    assert len(prints) == 5
    assert all(len(text) == 16 and builtins.int(text, 16) >= 0 for text in prints)
