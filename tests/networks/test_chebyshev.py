"""Chebyshev polynomials of the gossip matrix: the best of their degree, the same by recursion and by matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import npga
from helpers.families import VERSIONS, random_problem, tame_steps
from npga.errors import VersionError
from npga.networks import Chebyshev
from npga.solver import local_agents, run_agents


@pytest.mark.parametrize("degree", [1, 2, 5, 12, 40])
@pytest.mark.parametrize(("low", "high"), [(0.1, 1.9), (0.003, 1.2), (2.0, 7.0)])
def test_values_are_those_of_numpy(degree, low, high):
    k = np.linspace(low, high, 101)
    T = chebyshev.Chebyshev.basis(degree)
    expected = 1.0 - T((high + low - 2 * k) / (high - low)) / T((high + low) / (high - low))
    found = Chebyshev(degree, low, high)
    np.testing.assert_allclose(found.values(k), expected, rtol=0, atol=1e-13)
    assert found.values(np.zeros(1))[0] == 0.0
    # it touches its bound degree + 1 times with changing signs, so no polynomial of the degree is nearer to 1
    points = (high + low) / 2 - (high - low) / 2 * np.cos(np.pi * np.arange(degree + 1) / degree)
    signs = found.values(points) - 1.0
    np.testing.assert_allclose(np.abs(signs), found.spread, rtol=1e-9, atol=1e-14)
    if found.spread > 1e-12:
        assert (np.sign(signs[1:]) == -np.sign(signs[:-1])).all()


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("degree", [2, 3, 9])
def test_a_run_is_that_of_the_plain_version_with_the_dense_matrices(name, degree):
    problem, network = random_problem(1, 8, 3, "quadratic", "l1", "squared-loss"), npga.Network.ring(8)
    c = 0.2 if name == "dlm" else None
    version, steps = npga.version(name, c, chebyshev=degree), tame_steps(problem, gamma=0.4, theta=0.5)
    dense = npga.Version.from_matrices("dense", *(m.toarray() for m in version.matrices(network, steps.beta)))
    every = npga.Network.complete(8)
    a = npga.solve(problem, network, version, steps, max_iters=200, tol=None)
    b = npga.solve(problem, every, dense, steps, max_iters=200, tol=None)
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-10 * max(1.0, np.abs(b.x).max()))
    assert a.rounds == 200 * version.rounds == 200 * degree * npga.version(name, c).rounds
    values = np.sort(np.linalg.eigvalsh(version.matrices(network, steps.beta).B2.toarray()))
    np.testing.assert_allclose(np.sort(version.spectra(network, steps.beta).B2), values, atol=1e-12)


def test_single_agents_send_the_same_messages():
    problem, network = random_problem(2, 6, 3), npga.Network.ring(6)
    version, steps = npga.version("npga-i", chebyshev=3), tame_steps(problem, gamma=0.4)
    agents = local_agents(problem, network, version, steps)
    traffic = run_agents(agents, network, 30)
    whole = npga.solve(problem, network, version, steps, max_iters=30, tol=None, path="vectorised")
    np.testing.assert_allclose(np.concatenate([agent.x for agent in agents]), whole.x, rtol=0, atol=1e-13)
    assert traffic.rounds == whole.rounds == 30 * 6


def test_fewer_iterations_on_a_long_ring():
    problem, network = random_problem(3, 20, 2, "squared-norm", "zero", "equality"), npga.Network.ring(20)
    steps = npga.Steps(0.5, 0.3, 1.0)
    runs = [npga.solve(problem, network, npga.version("nids", chebyshev=degree), steps) for degree in (1, 4)]
    assert all(run.status.ok for run in runs)
    assert runs[0].iterations > 1.5 * runs[1].iterations


def test_certify_speaks_of_the_polynomial():
    problem, network = random_problem(4, 10, 2, "squared-norm", "zero", "equality"), npga.Network.ring(10)
    rates = [npga.certify(problem, network, npga.version("nids", chebyshev=k)).best.rate for k in (1, 3, 9)]
    assert rates[0] > rates[1] > rates[2]


def test_what_is_not_a_degree_is_refused():
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(VersionError, match="chebyshev"):
            npga.version("nids", chebyshev=wrong)
    assert npga.version("nids", chebyshev=1) == npga.version("nids")
    assert npga.version(npga.version("nids", chebyshev=4), c=0.3).chebyshev == 4
    with pytest.raises(VersionError, match="explicit matrices"):
        npga.version(npga.Version.from_matrices("mine", np.eye(2) - 0.5), chebyshev=2)


def test_what_has_no_powers_of_the_gossip_matrix_says_so():
    with pytest.raises(VersionError, match=r"no polynomial in powers of K.*version.plain on version.mixed"):
        npga.version("nids", chebyshev=2).kernel_polynomials()
    with pytest.raises(VersionError, match="pass the network it runs on"):
        npga.version("nids", chebyshev=2).schedule()
    with pytest.raises(VersionError, match="only I - W has a mixed network"):
        npga.version("dlm", chebyshev=2).mixed(npga.Network.ring(4))


@pytest.mark.parametrize("degree", [1, 4])
def test_one_round_is_enough_on_a_complete_graph(degree):
    found = npga.version("nids", chebyshev=degree).polynomial(npga.Network.complete(5))
    assert found.spread == 0.0
    np.testing.assert_allclose(found.values(np.array([0.0, found.high])), [0.0, 1.0], rtol=1e-14)
