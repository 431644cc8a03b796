"""The steps that certify proposes against a global search that knows nothing of its reasoning."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import differential_evolution

import npga
from helpers import dense_theory as dense
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import certify


def searched(key, problem, network, name, theta_free):
    """Smallest delta of a theorem over all four steps, from the dense formulas, by differential evolution."""
    l = problem.l  # noqa: E741
    s = np.linalg.eigvalsh(network.laplacian.toarray())[-1]

    def delta(z):
        theta = z[3] if theta_free else 0.0
        beta_most = 2 / s if name == "dlm" else 2 * problem.mu / problem.sigma**2
        steps = npga.Steps(z[0] / l, z[1] * beta_most, 10 ** z[2], theta)
        k = dense.constants(problem, network, name, steps)
        if k.sigma_C >= (2 if key.endswith("+") else 1):
            return 2.0
        bounds, value = dense.evaluate(key, k, steps, times_beta=name == "dlm")
        if not np.isfinite(value) or not bounds["gamma"] > 0:
            return 2.0
        inside = steps.alpha < bounds["alpha"] and steps.beta <= bounds["beta"] and steps.gamma < bounds["gamma"]
        return value if inside else 1.0 + max(0, steps.beta / bounds["beta"] - 1, np.log(steps.gamma / bounds["gamma"]))

    box = [(1e-4, 1.0), (1e-4, 1.0), (-5, 0.5), (0.0, 1.0)][: 4 if theta_free else 3]
    return differential_evolution(delta, box, seed=0, popsize=12, maxiter=120, tol=1e-12).fun


CASES = [
    ("1", "extra", "ball"),
    ("1+", "extra", "ball"),
    ("1+", "dlm", "ball"),
    ("1+", "npga-ii", "ball"),
    ("1", "dlm", "ball"),
    ("2", "npga-ii", "ball"),
    ("3", "nids", "equality"),
    ("3+", "npga-i", "equality"),
    ("3+", "extra", "equality"),
    ("3+", "dlm", "equality"),
    ("3", "dlm", "equality"),
    ("3", "diging", "equality"),
    ("4", "extra", "huber"),
    ("4", "dlm", "huber"),
    ("4+", "npga-i", "huber"),
    ("4+", "diging", "huber"),
]


@pytest.mark.parametrize(("key", "name", "coupling"), CASES)
def test_no_search_finds_a_better_rate(key, name, coupling):
    problem = random_problem(5, 4, 2, "quadratic", "zero", coupling, "dense", [2, 1, 1, 1])
    network = npga.Network.path(4).lazy()
    best = certify(problem, network, name).theorems[key]
    other = searched(key, problem, network, name, theta_free=key != "3")
    assert best.rate <= other + 1e-9
    assert best.rate >= other - 0.02 * best.gap  # the search comes close, so it was a fair one


@pytest.mark.parametrize("key", ["1", "4"])
def test_a_preset_keeps_its_theta(key):
    problem = random_problem(5, 4, 2, "quadratic", "zero", "huber", "dense", [2, 1, 1, 1])
    cert = certify(problem, npga.Network.path(4), "dcpa")
    assert cert.theorems[key].applies
    assert cert.theorems[key].steps.theta == 1.0
    assert cert.theorems["3"].applies is False
    assert (
        "theta = 1"
        in certify(
            random_problem(5, 4, 2, "quadratic", "zero", "equality", "dense", [2, 1, 1, 1]),
            npga.Network.path(4),
            "dcpa",
        )
        .theorems["3"]
        .reason
    )


def test_the_best_of_the_theorems_is_proposed():
    problem = random_problem(5, 4, 2, "quadratic", "zero", "huber", "dense", [2, 1, 1, 1])
    for name in VERSIONS:
        cert = certify(problem, npga.Network.path(4).lazy(), name)
        assert cert.best.gap == max(t.gap for t in cert.theorems.values() if t.applies)
        assert cert.steps == cert.best.steps
        assert isinstance(cert.steps, npga.Steps)


def test_a_lone_agent_and_an_affine_h():
    agent = npga.Agent(A=np.eye(2), f=fn.SquaredNorm(1.0))
    lone = certify(npga.Problem([agent], fn.Equality([1.0, 2.0])), npga.Network.path(1), "extra")
    assert [key for key, t in lone.theorems.items() if t.applies] == ["1", "1+", "2", "3", "3+"]
    affine = npga.Problem([agent] * 3, fn.Linear([1.0, 2.0]))
    cert = certify(affine, npga.Network.ring(3), "nids")
    steps = cert.theorems["4+"].steps
    result = npga.solve(affine, npga.Network.ring(3), "nids", steps, tol=1e-12, max_iters=2000)
    np.testing.assert_allclose(result.x, np.tile([-1.0, -2.0], 3), atol=1e-9)


def test_nothing_couples_the_agents():
    problem = npga.Problem([npga.Agent(A=np.zeros((2, 2)), f=fn.SquaredNorm(1.0))] * 3, fn.SquaredLoss([1.0, 1.0]))
    cert = certify(problem, npga.Network.ring(3), "nids")
    assert cert.best.key == "4+"
    assert cert.theorems["4"].bounds["beta"] == np.inf
    assert cert.to_dict()["theorems"]["4"]["bounds"]["beta"] is None
