"""The decisions of an automatic run: what is proved about its steps, and that agents apart would decide alike."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from npga.solver import method_for
from npga.tuning import AdaptiveNpga, tied_steps
from npga.tuning import _adaptive_steps as decisions


def network_of(n, seed=3):
    return npga.Network.erdos_renyi(n, 0.5, seed=seed)


def kernel(network, version):
    B2, _, _ = version.matrices(network)
    return B2.toarray()


@pytest.mark.parametrize("beta", [1e-4, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.9, 2.0])
def test_the_energy_of_the_proof_never_grows(beta, gamma):
    """h a point, theta = 1, alpha_i (L_i/2 + beta |A_i|^2) = 1: V of the module's text."""
    problem, network = random_problem(4, 6, 4, "quadratic", "l1", "equality"), network_of(6)
    version = decisions.tied_version(network)
    K = kernel(network, version)
    assert np.linalg.eigvalsh(K)[-1] == pytest.approx(1.0)
    metric = np.linalg.pinv(K) - (np.eye(6) - 1.0 / 6)
    curvature = np.array([agent.f.L for agent in problem.agents])
    alpha = 1.0 / (curvature / 2 + beta * problem.A.norms**2)
    method = method_for(problem, network, version, npga.Steps(tuple(alpha), beta, gamma, 1.0))
    star = npga.reference(problem)
    zeta_star = problem.A.apply(star.x) - problem.A.apply(star.x).mean(axis=0)
    state = method.start(*problem.start())
    values = []
    for _ in range(60):
        x, lam, zeta = state.x - star.x, state.lam - star.lam, method.memory(state) - zeta_star
        values.append(
            (x**2 / np.repeat(alpha, problem.sizes)).sum() - 2 * (problem.A.apply(x) * lam).sum()
            + (lam**2).sum() / beta + beta / gamma * (zeta * (metric @ zeta)).sum()
        )  # fmt: skip
        state = method.advance(state, 1)
    assert min(values) >= -1e-9 * values[0]
    assert np.diff(values).max() <= 1e-9 * values[0]


def test_the_version_is_nids_with_the_largest_c_that_keeps_k_below_one():
    for network in (network_of(7), npga.Network.ring(8), npga.Network.complete(5)):
        version = decisions.tied_version(network)
        assert np.linalg.eigvalsh(kernel(network, version))[-1] == pytest.approx(1.0)
        assert decisions.tied_version(network, npga.version("nids", c=0.1)) == version
    half = npga.version("exact-diffusion")
    assert decisions.tied_version(network, half) is half
    others = [v for v in npga.versions() if v.name not in ("nids", "exact-diffusion")]
    assert [decisions.tied_version(network, v) for v in others] == [None] * len(others)


def test_the_steps_are_tied_to_beta():
    problem = random_problem(1, 5, 3, "quadratic", "zero", "equality")
    steps = tied_steps(problem, 0.3)
    bound = [a.f.L + 0.55 * 0.3 * np.linalg.norm(npga.problem.dense_block(a.A), 2) ** 2 for a in problem.agents]
    assert steps.alpha == pytest.approx(1.0 / np.array(bound))
    assert (steps.beta, steps.gamma, steps.theta) == (0.3, 1.9, 0.6)


def test_the_sums_of_all_agents_are_those_of_their_parts():
    problem, network = random_problem(3, 5, 4, "quadratic", "l1", "squared-loss"), network_of(5)
    method = AdaptiveNpga(problem, network, decisions.tied_version(network))
    marks = decisions.leg_marks(0)
    state = method.advance(method.start(*problem.start()), int(marks[-1]))
    samples, (x, lam, _) = state.taken(), state.begun
    beta, sizes = state.place[2], problem.sizes
    alpha, norms = method.at(state).steps.per_agent(5), problem.A.norms
    whole = decisions.leg_sums((x, lam), samples, marks, np.repeat(alpha, sizes), np.repeat(norms, sizes), beta)
    total = decisions.LegSums(0.0, 0.0, np.zeros_like(whole.gram))
    cuts = np.cumsum(sizes)[:-1]
    for i in range(5):
        mine = [
            decisions.LegSample(*(np.split(v, cuts)[i] if v.ndim == 1 else v[i] for v in sample)) for sample in samples
        ]
        part = decisions.leg_sums((np.split(x, cuts)[i], lam[i]), mine, marks, alpha[i], norms[i], beta)
        total = total.plus(part)
    assert total.dual == pytest.approx(whole.dual)
    assert total.primal == pytest.approx(whole.primal)
    assert total.gram == pytest.approx(whole.gram, abs=1e-12 * np.trace(whole.gram))


def test_beta_follows_the_drift():
    def after(a, b, leg=0):
        return decisions.next_beta(decisions.LegSums(a, b, np.eye(2)), 1.0, leg, 1.0)

    assert after(1.0, 1.0) == 1.0
    assert after(4.0, 1.0) == 1.0  # a factor of two is left alone
    assert after(1e4, 1.0) == pytest.approx(1e2)
    assert after(1e4, 1.0, leg=10) == pytest.approx(np.sqrt(10.0))
    assert after(1.0, 1e4) == pytest.approx(1e-2)
    assert after(0.0, 1.0) == pytest.approx(1e-3)
    assert after(1.0, 0.0) == pytest.approx(1e3)
    assert after(0.0, 0.0) == 1.0


def test_a_linear_iteration_is_brought_to_rest():
    """Samples of s -> M s + q with as many modes as samples minus one combine to the fixed point."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    M, q = turn @ np.diag([0.99, 0.9, -0.5, 0.2]) @ turn.T, rng.standard_normal(4)
    states = [np.zeros(4)]
    for _ in range(5):
        states.append(M @ states[-1] + q)
    moves = np.diff(states, axis=0)
    weights = decisions.combination(moves @ moves.T)
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ np.array(states[1:]) == pytest.approx(np.linalg.solve(np.eye(4) - M, q), rel=1e-3)


def test_nothing_is_combined_where_nothing_moves():
    assert decisions.combination(np.zeros((3, 3))) is None
    assert decisions.combination(np.eye(1)) is None
    assert decisions.combination(np.full((2, 2), np.nan)) is None
