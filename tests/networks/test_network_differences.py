"""The exchange by edge differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.network_cases import networks
from npga.errors import NetworkError
from npga.networks import Network

finite = st.floats(-1e6, 1e6)


@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (3,), (2, 4), (0,)]))
def test_differences_are_a_product_with_the_kernel(network, seed, tail):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(network.n, *tail))
    own = rng.normal(size=len(network.edges))
    K = np.diag(np.zeros(network.n))
    for (i, j), w in zip(network.edges, own, strict=True):
        K[[i, j], [i, j]] += w
        K[[i, j], [j, i]] -= w
    kernels = [(None, np.eye(network.n) - network.W.toarray()), ("unit", network.laplacian.toarray()), (own, K)]
    for weights, matrix in kernels:
        result = network.differences(u, weights)
        assert result.shape == u.shape
        np.testing.assert_allclose(result, np.tensordot(matrix, u, axes=1), atol=1e-13 * (1 + np.abs(matrix).sum()))


@given(networks(), finite)
def test_differences_vanish_exactly_where_agents_agree(network, value):
    u = np.full((network.n, 3), value)
    assert not network.differences(u).any()
    assert not network.differences(u, "unit").any()


@given(networks(), st.integers(0, 2**32 - 1))
def test_one_agent_gets_the_same_bits_as_all_agents(network, seed):
    u = np.random.default_rng(seed).normal(size=(network.n, 5))
    together = network.differences(u)
    for i in range(network.n):
        alone = np.zeros(5)
        for j, w in network.row(i).items():
            alone += w * (u[i] - u[j])
        np.testing.assert_array_equal(alone, together[i])


@pytest.mark.parametrize("given_type", [np.float32, np.float64, np.int64])
def test_dtype_of_the_result(given_type):
    network = Network.erdos_renyi(13, 0.3)
    u = np.arange(39).reshape(13, 3).astype(given_type)
    expected = np.float32 if given_type is np.float32 else np.float64
    for weights in (None, "unit"):
        assert network.differences(u, weights).dtype == expected
    exact = network.differences(u.astype(np.float64))
    np.testing.assert_allclose(network.differences(u), exact, rtol=1e-6, atol=1e-5)


def test_the_argument_is_left_alone_whatever_its_layout():
    network = Network.grid(3, 4)
    u = np.asfortranarray(np.random.default_rng(0).normal(size=(12, 5)))
    before = u.copy()
    strided = network.differences(u[:, ::2])
    np.testing.assert_array_equal(u, before)
    np.testing.assert_array_equal(strided, network.differences(np.ascontiguousarray(u[:, ::2])))
    np.testing.assert_array_equal(network.differences(u.tolist()), network.differences(u))


def test_ten_thousand_agents():
    network = Network.erdos_renyi(10_000, 12 / 9999, seed=0)
    u = np.random.default_rng(0).normal(size=(10_000, 50))
    result = network.differences(u)
    np.testing.assert_allclose(result, u - network.W @ u, atol=1e-12)
    assert network.differences(u.astype(np.float32)).dtype == np.float32
    smallest, second = network.extreme_eigenvalues()
    assert -1 < smallest < second < 1


@pytest.mark.parametrize(
    ("u", "weights", "message"),
    [
        (np.ones((3, 2)), None, r"\(3, 2\).*4 rows"),
        (1.0, None, r"\(\).*4 rows"),
        (np.ones((4, 2)), "units", "weights='units'"),
        (np.ones((4, 2)), np.ones(3), r"\(3,\).*\(4,\)"),
    ],
)
def test_refusals_say_what_arrived(u, weights, message):
    with pytest.raises(NetworkError, match=message):
        Network.ring(4).differences(u, weights)
