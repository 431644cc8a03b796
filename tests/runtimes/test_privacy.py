"""What docs/privacy.md says leaks, leaks."""

from __future__ import annotations

import numpy as np

import npga
from npga import functions as fn
from npga.solver import Npga


def classification(seed, p=30, n=4):
    """Features split over n parties, labels from a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, 3 * n))
    labels = np.sign(X @ rng.standard_normal(3 * n) + rng.standard_normal(p))
    return np.split(X, n, axis=1), labels


def test_in_experiment_2_every_party_can_read_the_labels_off_its_dual_variable():
    """h = 0 at z = 0 couples the predictions with a copy that only the last agent owns, with the labels in its f.

    Stationarity of that agent, grad f(x)_j - lam_j = 0 with f = sum ln(1 + exp(-y_j x_j))/p, gives
    lam_j = -y_j / (p (1 + exp(y_j x_j))), whose sign is that of -y_j.
    """
    blocks, labels = classification(0)
    p = labels.size
    agents = [npga.Agent(X, fn.SquaredNorm(0.1)) for X in blocks]
    agents.append(npga.Agent(-np.eye(p), fn.Logistic(labels, 1 / p)))
    problem = npga.Problem(agents, fn.Equality(np.zeros(p)))
    found = npga.reference(problem)
    np.testing.assert_array_equal(np.sign(-found.lam), labels)
    network = npga.Network.ring(5).lazy()
    steps = npga.Steps(alpha=1.0, beta=0.02, gamma=0.5)
    method = Npga(problem, network, npga.version("nids"), steps)
    state = method.advance(method.start(np.zeros(problem.d), np.zeros((5, p))), 3000)
    for i in range(4):  # parties that were never given a label
        np.testing.assert_array_equal(np.sign(-state.lam[i]), labels)


def test_with_the_loss_as_coupling_function_every_party_holds_the_labels_to_begin_with():
    """h is shared: agents evaluate prox of h*, which contains y."""
    blocks, labels = classification(1)
    problem = npga.Problem([npga.Agent(X, fn.SquaredNorm(0.1)) for X in blocks], fn.Logistic(labels, 1 / 30))
    np.testing.assert_array_equal(problem.h.labels, labels)
    np.testing.assert_array_equal(np.sign(-npga.reference(problem).lam), labels)


def test_two_agents_hear_each_others_products():
    """With n = 2 and h an equality each learns the other's A_i x_i at the solution: b minus its own."""
    rng = np.random.default_rng(0)
    A, b = [rng.standard_normal((3, 2)) for _ in range(2)], rng.standard_normal(3)
    problem = npga.Problem([npga.Agent(M, fn.SquaredNorm(1.0)) for M in A], fn.Equality(b))
    x = problem.split(npga.reference(problem).x)
    np.testing.assert_allclose(A[1] @ x[1], b - A[0] @ x[0], atol=1e-9)
