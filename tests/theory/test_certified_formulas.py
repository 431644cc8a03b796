"""Bounds and rates against dense np x np evaluations of the paper's formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers import dense_theory as dense
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import certify

KEYS = ("1", "1+", "2", "3", "3+", "4", "4+")


def instance(seed, n, p, coupling, smooth="squared-norm", proximable="zero"):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, n)
    sizes[0] = p  # at least p columns, so that full row rank is the rule
    return random_problem(seed, n, p, smooth, proximable, coupling, "dense", sizes)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 7),
    p=st.integers(1, 3),
    name=st.sampled_from(VERSIONS),
    lazy=st.booleans(),
    coupling=st.sampled_from(["equality", "ball", "squared-loss", "huber"]),
    theta=st.sampled_from([0.0, 0.3, 1.0]),
    fractions=st.tuples(*[st.floats(0.05, 0.95)] * 3),
)
def test_bounds_and_rates_are_the_dense_ones(seed, n, p, name, lazy, coupling, theta, fractions):
    problem = instance(seed, n, p, coupling, smooth="quadratic")
    network = npga.Network.erdos_renyi(n, 0.6, seed=seed)
    network = network.lazy() if lazy else network
    probe = certify(problem, network, name, npga.Steps(1e-3, 1e-3, 1e-3, theta))
    bounds = probe.theorems["4+"].bounds
    alpha, beta = fractions[0] * bounds["alpha"], fractions[1] * max(bounds["beta"], 1e-6)
    steps = npga.Steps(alpha, beta, fractions[2], theta)
    cert = certify(problem, network, name, steps)
    k = dense.constants(problem, network, name, steps)
    for key in KEYS:
        theorem = cert.theorems[key]
        if key.startswith("4") and not np.isfinite(problem.h.L):
            assert theorem.applies is False
            continue
        expected, delta = dense.evaluate(key, k, steps, times_beta=name == "dlm")
        if name == "dlm" and key in ("1", "2", "3", "4"):
            expected["beta"] = dlm_bound(k, network, theta)
        if key in ("1", "1+", "2", "3") and not all(cert.assumptions[a].holds for a in ("5.ii", "4.iii", "4.iii+")):
            expected.pop("gamma", None)
        for step, bound in expected.items():
            # atol: what rounding makes of the smallest eigenvalue of a matrix of norm one, in either evaluation
            if np.isfinite(bound):
                np.testing.assert_allclose(theorem.bounds[step], bound, rtol=1e-9, atol=1e-14, err_msg=f"{key} {step}")
        if theorem.applies:
            np.testing.assert_allclose(theorem.rate, delta, rtol=1e-9)
            np.testing.assert_allclose(theorem.gap, 1 - delta, rtol=1e-7, atol=1e-12)
            assert 0 < delta < 1


def dlm_bound(k, network, theta):
    """The largest beta with beta <= mu/(sigma^2 (1/(1 - c beta s) + theta)), by bisection."""
    s = np.linalg.eigvalsh(network.laplacian.toarray())[-1]

    def inside(beta):
        return beta * s < 1 and beta * k.sigma_A**2 * (1 / (1 - beta * s) + theta) <= k.mu

    low, high = 0.0, 1 / s
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(VERSIONS),
    coupling=st.sampled_from(["equality", "ball", "squared-loss"]),
    key=st.sampled_from(KEYS),
)
def test_a_theorem_applies_exactly_inside_its_bounds(seed, name, coupling, key):
    problem, network = instance(seed, 5, 2, coupling), npga.Network.erdos_renyi(5, 0.6, seed=seed).lazy()
    best = certify(problem, network, name)
    if not best.theorems[key].applies:
        return
    s, bounds = best.theorems[key].steps, best.theorems[key].bounds
    inside = certify(problem, network, name, s).theorems[key]
    assert inside.applies
    assert inside.rate == best.theorems[key].rate
    for step in ("alpha", "beta", "gamma"):
        values = {"alpha": s.alpha, "beta": s.beta, "gamma": s.gamma, "theta": 0.0, step: 1.0001 * bounds[step]}
        outside = certify(problem, network, name, npga.Steps(**values)).theorems[key]
        assert outside.applies is False
        assert step in outside.reason


def test_alpha_and_gamma_are_strict_and_beta_is_not():
    problem, network = instance(3, 5, 2, "equality"), npga.Network.ring(5).lazy()
    bounds = certify(problem, network, "nids").theorems["3"].bounds
    half = {"alpha": bounds["alpha"] / 2, "beta": bounds["beta"] / 2, "gamma": 0.5}

    def applies(**change):
        return certify(problem, network, "nids", npga.Steps(**(half | change))).theorems["3"].applies

    assert applies()
    assert applies(beta=bounds["beta"])
    assert not applies(alpha=bounds["alpha"])
    assert applies(gamma=0.999 * bounds["gamma"])
    assert not applies(gamma=bounds["gamma"])
    assert bounds["gamma"] > 1.0  # because only gamma B^2 matters


def test_our_theorem_allows_gamma_one_and_so_covers_dcda():
    problem, network = instance(3, 5, 2, "squared-loss", proximable="l1"), npga.Network.ring(5)
    cert = certify(problem, network, "dcda")
    assert cert.best.key == "4+"
    assert cert.best.standing == "ours: proof in npga's docs"
    assert cert.steps.gamma == 1.0
    assert cert.theorems["4"].applies is False
    assert "gamma" in cert.theorems["4"].reason


@pytest.mark.parametrize("key", ["4", "4+"])
def test_whose_proof_covers_extrapolation_with_a_proximal_term(key):
    network = npga.Network.ring(5).lazy()
    smooth, rough = instance(1, 5, 2, "squared-loss"), instance(1, 5, 2, "squared-loss", proximable="l1")
    ours = "ours: proof in npga's docs"
    for problem, theta, standing in (
        (rough, 0.5, ours),
        (rough, 0.0, "paper"),
        (smooth, 0.5, "paper"),
        (smooth, 2, ours),
    ):
        bounds = certify(problem, network, "npga-ii", npga.Steps(1e-3, 1e-3, 1e-6, theta)).theorems[key].bounds
        steps = npga.Steps(bounds["alpha"] / 2, bounds["beta"] / 2, 1e-4, theta)
        theorem = certify(problem, network, "npga-ii", steps).theorems[key]
        assert theorem.applies
        assert theorem.standing == (standing if key == "4" else ours)


def test_theorem_3_covers_dcpa_and_a_consistent_equality_without_full_row_rank():
    network = npga.Network.ring(5)
    cert = certify(instance(3, 5, 2, "equality"), network, "dcpa")
    assert cert.theorems["3"].applies is False
    assert cert.theorems["3+"].applies
    A = [np.outer([1.0, 2.0], np.random.default_rng(i).standard_normal(2)) for i in range(5)]  # rank one
    agents = [npga.Agent(A=a, f=fn.SquaredNorm(1.0)) for a in A]
    found = certify(npga.Problem(agents, fn.Equality([3.0, 6.0])), network, "nids")
    assert [key for key, t in found.theorems.items() if t.applies] == ["3+"]
    assert not certify(npga.Problem(agents, fn.Equality([3.0, 7.0])), network, "nids").covered


def test_predicted_iterations():
    problem, network = instance(3, 5, 2, "equality"), npga.Network.ring(5)
    best = certify(problem, network, "nids").best
    k = best.iterations(1e-6)
    assert best.constant * best.rate ** (k / 2) <= 1e-6 < best.constant * best.rate ** ((k - 1) / 2)
    with pytest.raises(npga.errors.InputError, match="between 0 and 1"):
        best.iterations(2.0)
