"""Rates have no units: what is scaled away, how ours contain the paper's, an alpha for each agent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers import dense_theory as dense
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import certify


def quadratic(seed, coupling, A=1.0, x=1.0, cost=1.0, lam=1.0, n=5):
    """A random problem after x = x' scale, costs times a number, coupling rows times a number, and A alone scaled."""
    rng = np.random.default_rng(seed)
    agents = []
    for i in range(n):
        M = rng.standard_normal((2, 3))
        Q = np.eye(2) + M @ M.T / 3
        block = rng.standard_normal((2, 2)) * (0.2 if i else 1.0)
        agents.append(npga.Agent(A=A * lam * x * block, f=fn.Quadratic(cost * x**2 * Q, np.zeros(2))))
    b = rng.standard_normal(2)
    h = {
        "equality": fn.Equality(lam * b),
        "ball": fn.Ball(lam * b, lam * 0.3),
        "squared-loss": fn.SquaredLoss(lam * b, cost * 0.7 / lam**2),
    }[coupling]
    return npga.Problem(agents, h)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(VERSIONS),
    coupling=st.sampled_from(["equality", "ball", "squared-loss"]),
    lazy=st.booleans(),
    powers=st.tuples(*[st.integers(-9, 9)] * 3),
)
def test_rates_do_not_change_under_scaling(seed, name, coupling, lazy, powers):
    """Of x (with f and A), of all costs, and of the coupling rows (with h): the iteration is the same one."""
    x, cost, lam = (10.0**power for power in powers)
    network = npga.Network.erdos_renyi(5, 0.6, seed=seed)
    network = network.lazy() if lazy else network
    scales = {"x": x, "cost": cost, "lam": lam}
    # DLM's matrices contain beta, whose unit is that of cost/row^2, so only its graph can be weighed against that.
    one, other = (certify(quadratic(seed, coupling, **kw), network, name) for kw in ({}, scales))
    for key, theorem in one.theorems.items():
        same = other.theorems[key]
        assert bool(theorem.applies) == bool(same.applies), key
        if theorem.applies and name != "dlm":
            assert same.gap == pytest.approx(theorem.gap, rel=2e-6), key
            assert same.steps.alpha == pytest.approx(theorem.steps.alpha / (cost * x**2), rel=1e-3)
            assert same.steps.gamma == pytest.approx(theorem.steps.gamma, rel=1e-3)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("coupling", ["equality", "ball"])
def test_small_and_large_matrices(name, coupling):
    """With h an indicator, A alone may be scaled: today's unit of lam is another one, and the rate is the same."""
    network = npga.Network.ring(5)
    gaps = {}
    for scale in (1e-6, 1.0, 1e6):
        cert = certify(quadratic(1, coupling, lam=scale), network, name)
        gaps[scale] = {key: t.gap for key, t in cert.theorems.items() if t.applies}
    assert gaps[1e-6].keys() == gaps[1.0].keys() == gaps[1e6].keys()
    if name != "dlm":
        for key, gap in gaps[1.0].items():
            assert gaps[1e-6][key] == pytest.approx(gap, rel=2e-6)
            assert gaps[1e6][key] == pytest.approx(gap, rel=2e-6)


def test_only_gamma_times_B2_matters():
    problem, network = quadratic(2, "equality"), npga.Network.ring(5)
    plain = npga.version("diging")
    scaled = replace(plain, B2=tuple(x / 1.4555 for x in plain.B2))
    for steps, other in ((npga.Steps(0.1, 0.1, 0.2), npga.Steps(0.1, 0.1, 0.2 * 1.4555)), (None, None)):
        one, two = certify(problem, network, plain, steps), certify(problem, network, scaled, other)
        for key, theorem in one.theorems.items():
            assert theorem.applies == two.theorems[key].applies
            if theorem.applies:
                assert two.theorems[key].gap == pytest.approx(theorem.gap, rel=1e-6)
    runs = [
        npga.solve(problem, network, version, steps, tol=None, max_iters=30)
        for version, steps in ((plain, npga.Steps(0.1, 0.1, 0.2)), (scaled, npga.Steps(0.1, 0.1, 0.2 * 1.4555)))
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-13)


def test_gamma_above_one_and_c_above_one_half():
    problem = random_problem(3, 5, 2, "quadratic", "l1", "huber", "dense", [2, 1, 1, 3, 1])
    network = npga.Network.ring(5)
    bounds = certify(problem, network, "exact-diffusion").theorems["4+"].bounds
    cert = certify(problem, network, "exact-diffusion", npga.Steps(bounds["alpha"] / 2, bounds["beta"], 1.35))
    assert cert.theorems["4+"].applies
    assert certify(problem, network, npga.version("nids", c=1.2)).covered


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(VERSIONS),
    coupling=st.sampled_from(["equality", "ball", "squared-loss"]),
    theta=st.sampled_from([0.0, 0.4, 1.0]),
    fractions=st.tuples(*[st.floats(0.01, 0.99)] * 3),
)
def test_ours_contain_the_papers(seed, name, coupling, theta, fractions):
    problem, network = quadratic(seed, coupling), npga.Network.erdos_renyi(5, 0.6, seed=seed).lazy()
    bounds = certify(problem, network, name, npga.Steps(1e-3, 1e-3, 1e-6, theta)).theorems["1"].bounds
    alpha, beta = fractions[0] * bounds["alpha"], fractions[1] * bounds["beta"]
    for gamma in (fractions[2], 1e-3 * fractions[2]):
        found = certify(problem, network, name, npga.Steps(alpha, beta, gamma, theta)).theorems
        for paper, ours in (("1", "1+"), ("2", "1+"), ("3", "3+"), ("4", "4+")):
            if found[paper].applies:
                assert found[ours].applies
                assert found[ours].gap >= found[paper].gap * (1 - 1e-9)


def scaled(problem, alphas):
    """The problem in x_i' = x_i/s_i with s_i^2 = alpha_i/max alpha."""
    agents = []
    for agent, alpha in zip(problem.agents, alphas, strict=True):
        s = np.sqrt(alpha / max(alphas))
        agents.append(npga.Agent(A=s * agent.A, f=fn.Quadratic(s**2 * agent.f.hess(np.zeros(2)), np.zeros(2))))
    return npga.Problem(agents, problem.h)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("coupling", ["equality", "ball", "squared-loss"])
def test_an_alpha_for_each_agent_is_a_change_of_variables(name, coupling):
    problem, network = quadratic(4, coupling), npga.Network.ring(5)
    shape = np.array([1.0, 0.5, 2.0, 0.1, 0.7])
    inside = certify(scaled(problem, shape), network, name)
    for key, theorem in inside.theorems.items():
        if not theorem.applies:
            continue
        s = theorem.steps
        own = npga.Steps(tuple(s.alpha * shape / shape.max()), s.beta * (1 - 1e-12), s.gamma, s.theta)
        found = certify(problem, network, name, own).theorems[key]
        assert found.applies
        assert found.gap == pytest.approx(theorem.gap, rel=1e-9)
        assert found.steps == own
        np.testing.assert_allclose(found.bounds["alpha"], theorem.bounds["alpha"] * shape / shape.max(), rtol=1e-9)
        over = replace(own, alpha=tuple(1.001 * a for a in found.bounds["alpha"]))
        assert certify(problem, network, name, over).theorems[key].applies is False


def test_facts_are_told_before_and_after_the_change_of_variables():
    """f_i = 0.1 |x|^2/2 and A = [I I I I]: mu' = 0.1 min s_i^2, l' = 0.1 and A' A'^T = sum_i s_i^2 I."""
    agents = [npga.Agent(A=np.eye(2), f=fn.SquaredNorm(0.1)) for _ in range(4)]
    problem, network = npga.Problem(agents, fn.SquaredLoss([1.0, 2.0])), npga.Network.ring(4)
    plain = "mu = 0.1 (agent 0), l = 0.1 (agent 0)", "A A^T >= 4 I (largest eigenvalue 4)"
    for alpha in (0.5, (0.5,) * 4):
        cert = certify(problem, network, "nids", npga.Steps(alpha, 0.1))
        assert tuple(cert.assumptions[key].reason for key in ("3", "5.ii")) == plain
    cert = certify(problem, network, "nids", npga.Steps((0.25, 0.5, 1.0, 0.125), 0.1))
    three, five = (cert.assumptions[key] for key in ("3", "5.ii"))
    assert three.reason == f"{plain[0]}; after scaling by the alphas mu' = 0.0125 (agent 3), l' = 0.1 (agent 2)"
    assert five.reason == f"{plain[1]}; after scaling by the alphas A' A'^T >= 1.88 I (largest eigenvalue 1.88)"
    assert three.margin == pytest.approx(0.0125)
    assert five.margin == pytest.approx(1.875)
    assert three.reason in " ".join(str(cert).split())


def test_a_run_with_an_alpha_for_each_agent_keeps_the_promise():
    problem, network = quadratic(4, "squared-loss"), npga.Network.ring(5)
    alphas = tuple(0.4 / agent.f.L for agent in problem.agents)
    bounds = certify(problem, network, "nids", npga.Steps(alphas, 1e-3)).theorems["4+"].bounds
    steps = npga.Steps(alphas, bounds["beta"], 0.9)
    cert = certify(problem, network, "nids", steps)
    solution = npga.reference(problem)
    k = cert.best.iterations(1e-6)
    result = npga.solve(problem, network, "nids", steps, tol=None, max_iters=k)
    B2 = network.W.toarray()
    B2 = (np.eye(5) - B2) / 2
    _, y = dense.fixed_point(problem, B2, steps, solution.x, solution.lam)
    weights = np.repeat(max(alphas) / np.array(alphas), problem.sizes)
    size = np.sum(weights * solution.x**2) + max(alphas) / steps.beta * (
        5 * np.sum(solution.lam**2) + np.sum(y**2) / steps.gamma
    )
    assert np.sum(weights * (result.x - solution.x) ** 2) <= 1e-12 * size
    assert "one for each agent" in str(cert) or str(alphas[0]) in str(cert)
    assert cert.to_dict()["steps"]["alpha"] == list(alphas)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("coupling", ["equality", "ball", "squared-loss"])
def test_predicted_iterations_are_enough(name, coupling):
    """Six digits after the predicted iterations, whatever the start, constant included."""
    problem, network = quadratic(7, coupling), npga.Network.ring(5)
    best = certify(problem, network, name).best
    if best is None or best.iterations(1e-6) > 20000:
        return
    solution = npga.reference(problem)
    rng = np.random.default_rng(0)
    x0 = solution.x + rng.standard_normal(problem.d)
    result = npga.solve(problem, network, name, best.steps, tol=None, max_iters=best.iterations(1e-6), x0=x0)
    B2 = npga.version(name).matrices(network, best.steps.beta).B2.toarray()
    _, y = dense.fixed_point(problem, B2, best.steps, solution.x, solution.lam)
    ratio = best.steps.alpha / best.steps.beta
    size = np.sum((x0 - solution.x) ** 2) + ratio * (5 * np.sum(solution.lam**2) + np.sum(y**2) / best.steps.gamma)
    assert np.linalg.norm(result.x - solution.x) <= 1e-6 * np.sqrt(size)
