"""Lemmas and remarks of the paper that no theorem's record contains, as checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers.families import VERSIONS, random_problem
from npga.theory import certify

C_IS_ZERO = ("aug-dgm", "exact-diffusion", "nids", "npga-i")


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 7), n=st.integers(1, 7))
def test_lemma_2_singular_values_of_a_product(seed, m, n):
    """sigma_i(M H) <= sigma_max(M) sigma_i(H) for symmetric H, the i-th smallest of n."""
    rng = np.random.default_rng(seed)
    M, H = rng.standard_normal((m, n)), rng.standard_normal((n, n))
    H = H + H.T
    product = np.sqrt(np.clip(np.linalg.eigvalsh(H @ M.T @ M @ H), 0, None))
    assert np.all(product <= np.linalg.norm(M, 2) * np.sort(np.abs(np.linalg.eigvalsh(H))) * (1 + 1e-9) + 1e-7)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 6), p=st.integers(1, 3), factor=st.floats(1e-3, 10.0))
def test_lemma_4_the_joined_matrix_is_positive(seed, n, p, factor):
    """M A A^T M + c H > 0 for doubly stochastic M and null(H) = span(1), if A has full row rank; and only then."""
    network = npga.Network.erdos_renyi(n, 0.6, seed=seed)
    rng = np.random.default_rng(seed)
    W = network.W.toarray()
    H, M = np.kron(np.eye(n) - W, np.eye(p)), np.kron(W, np.eye(p))
    for full in (True, False):
        A = np.zeros((n * p, n * p))
        for i in range(n):
            block = rng.standard_normal((p, p))
            block[-1] *= full  # a row of zeros in every A_i: the rows of [A_1 ... A_n] are dependent
            A[i * p : (i + 1) * p, i * p : (i + 1) * p] = block
        least = np.linalg.eigvalsh(M @ A @ A.T @ M + factor * H)[0]
        assert (least > 1e-12) if full else (abs(least) < 1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(VERSIONS), lazy=st.booleans())
def test_alpha_beta_is_bounded_by_A(seed, name, lazy):
    """Inside the bounds alpha beta sigma(A)^2 < 1, the inequality on A that the proofs lean on (equation 21)."""
    problem = random_problem(seed, 5, 2, "quadratic", "zero", "equality", "dense", [2, 1, 1, 2, 1])
    network = npga.Network.erdos_renyi(5, 0.6, seed=seed)
    for theta in (0.0, 0.5, 2.0):
        cert = certify(problem, network.lazy() if lazy else network, name, npga.Steps(1e-3, 1e-3, 1e-6, theta))
        for theorem in cert.theorems.values():
            product = theorem.bounds["alpha"] * theorem.bounds["beta"] * problem.sigma**2
            assert product * (1 + theta) <= 1 + 1e-12


@pytest.mark.parametrize("name", C_IS_ZERO)
def test_bounds_without_topology(name):
    """With C = 0 the bounds on alpha and beta do not contain the network, and are those of one agent: centralised."""
    for coupling, keys in (("equality", ("3", "3+")), ("huber", ("4", "4+"))):
        problem = random_problem(1, 6, 2, "quadratic", "zero", coupling, "dense", [2, 1, 1, 2, 1, 1])
        expected = {"3": 1 / problem.l, "4": 1 / (2 * problem.l - problem.mu)}
        for network in (npga.Network.ring(6), npga.Network.path(6).lazy(), npga.Network.complete(6)):
            cert = certify(problem, network, name)
            for key in keys:
                bounds = cert.theorems[key].bounds
                assert bounds["alpha"] == pytest.approx(expected[key[0]], rel=1e-12)
                assert bounds["beta"] == pytest.approx(problem.mu / problem.sigma**2, rel=1e-12)


@pytest.mark.parametrize("name", C_IS_ZERO)
def test_adapt_then_combine_takes_the_steps_of_the_centralised_method(name):
    """One agent that owns everything is the centralised method. ATC rows allow the alpha and beta that it would get
    from the norm of diag(A_1, ..., A_n), and every CTA row allows less beta."""
    problem = random_problem(1, 6, 2, "quadratic", "zero", "equality", "dense", [2, 1, 1, 2, 1, 1])
    network = npga.Network.ring(6)
    atc = certify(problem, network, name).theorems["3"].bounds
    lone = npga.Problem([max(problem.agents, key=lambda agent: np.linalg.norm(agent.A, 2))], problem.h)
    own = certify(lone, npga.Network.path(1), name, npga.Steps(1e-3, 1e-3, 1.0)).theorems["3"].bounds
    assert atc["beta"] * problem.sigma**2 / problem.mu == pytest.approx(own["beta"] * lone.sigma**2 / lone.mu)
    for other in ("extra", "p2d2", "diging"):
        assert certify(problem, network, other, npga.Steps(1e-3, 1e-3, 1e-3)).theorems["3"].bounds["beta"] < atc["beta"]
