"""The iterates are the paper's: against the literal y-form and against published recursions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import npga
from helpers import oracles
from helpers.families import COUPLING, DRAWN, VERSIONS, random_problem, tame_steps
from npga import functions as fn
from npga.solver import Npga, local_agents, run_agents


def network_for(version, n, seed):
    """Plain W for the versions that take it as it is, W' for those that need it to stay tame."""
    network = npga.Network.erdos_renyi(n, 0.5, seed=seed)
    return network if version in ("extra", "p2d2", "exact-diffusion", "nids", "dlm") else network.lazy()


def with_tame_c(name, network, steps):
    """DLM with c beta lambda_max(L) = 1/2; the others as they are."""
    if name != "dlm":
        return npga.version(name)
    return npga.version("dlm", c=0.5 / (steps.beta * network.laplacian_spectrum[-1]))


def y_form(problem, network, version, steps, iterations, **start):
    B2, C, D = (M.toarray() for M in version.matrices(network, beta=steps.beta))
    return oracles.y_form(problem, B2, C, D, steps, iterations, **start)


def advance(problem, network, version, steps, iterations, x0=None, lam0=None):
    method = Npga(problem, network, version, steps)
    x0 = np.zeros(problem.d) if x0 is None else x0
    state = method.start(x0, np.zeros((problem.n, problem.p)) if lam0 is None else lam0)
    return method.advance(state, iterations)


def relative(a, b):
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-3)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_equals_the_y_form_after_500_iterations(name, theta):
    problem = random_problem(3, n=7, p=5, smooth="quadratic", proximable="l1", coupling="squared-loss")
    network = network_for(name, 7, 5)
    steps = tame_steps(problem, gamma=0.6, theta=theta)
    version = with_tame_c(name, network, steps)
    x, lam = y_form(problem, network, version, steps, 500)[-1]
    state = advance(problem, network, version, steps, 500)
    assert relative(state.x, x) < 1e-10
    assert relative(state.lam, lam) < 1e-10


@settings(max_examples=60, deadline=None)
@given(**DRAWN)
def test_equals_the_y_form_on_random_problems(seed, name, smooth, proximable, coupling, matrices, theta):
    problem = random_problem(seed, 6, 4, smooth, proximable, coupling, matrices)
    network = network_for(name, 6, seed % 1000)
    steps = tame_steps(problem, gamma=0.5, theta=theta)
    version = with_tame_c(name, network, steps)
    rng = np.random.default_rng(seed)
    x0, lam0 = rng.standard_normal(problem.d), rng.standard_normal((6, 4))
    x, lam = y_form(problem, network, version, steps, 500, x0=problem.split(x0), lam0=lam0)[-1]
    state = advance(problem, network, version, steps, 500, x0, lam0)
    scale = 1.0 + np.abs(x).max(initial=0.0) + np.abs(lam).max()
    assert np.abs(state.x - x).max(initial=0.0) < 1e-10 * scale
    assert np.abs(state.lam - lam).max() < 1e-10 * scale


@pytest.mark.parametrize("coupling", sorted(COUPLING))
@pytest.mark.parametrize("name", VERSIONS)
def test_every_coupling_and_version_for_a_few_iterations(name, coupling):
    problem = random_problem(11, 5, 3, "quadratic", "box", coupling, "mixed")
    network = network_for(name, 5, 2)
    steps = tame_steps(problem, gamma=0.9, theta=1.0)
    version = with_tame_c(name, network, steps)
    for k, (x, lam) in enumerate(y_form(problem, network, version, steps, 20), start=1):
        state = advance(problem, network, version, steps, k)
        assert relative(state.x, x) < 1e-12
        assert relative(state.lam, lam) < 1e-11


@pytest.mark.parametrize("name", VERSIONS)
def test_a_loop_over_agents_that_pass_messages_gives_the_same(name):
    problem = random_problem(4, 6, 3, "logistic", "l2", "ball", "mixed")
    network = network_for(name, 6, 1)
    steps = tame_steps(problem, theta=0.5)
    version = with_tame_c(name, network, steps)
    agents = local_agents(problem, network, version, steps)
    traffic = run_agents(agents, network, 60)
    state = advance(problem, network, version, steps, 60)
    np.testing.assert_allclose(np.concatenate([a.x for a in agents]), state.x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.array([a.lam for a in agents]), state.lam, rtol=1e-12, atol=1e-14)
    assert traffic.rounds == state.rounds == 60 * version.rounds
    assert traffic.messages == 2 * len(network.edges) * traffic.rounds
    assert traffic.floats_sent == problem.p * traffic.messages


# The paper's column "Communication rounds" of Table II.
ROUNDS = dict(zip(VERSIONS, (2, 1, 1, 1, 2, 2, 1, 1, 2, 2), strict=True))


@pytest.mark.parametrize("name", VERSIONS)
def test_rounds_counted_by_an_instrumented_exchange(name):
    problem = random_problem(4)
    network = network_for(name, 6, 1)
    steps = tame_steps(problem)
    method = Npga(problem, network, with_tame_c(name, network, steps), steps)
    method.advance(method.start(np.zeros(problem.d), np.zeros((6, 4))), 10)
    assert method.exchange.rounds == 10 * ROUNDS[name]


class TestPublishedRecursions:
    """With h an equality, NPGA is the named method on the dual problem with an inexact gradient."""

    iterations = 200

    def setup_method(self):
        self.problem = random_problem(21, 6, 4, "quadratic", "l1", "equality")
        self.network = npga.Network.erdos_renyi(6, 0.5, seed=3)
        self.W = self.network.W.toarray()
        self.b = np.asarray(self.problem.h.b)
        self.zero = np.zeros((6, 4))

    def npga_run(self, name, steps, **options):
        version = npga.version(name, **options)
        method = Npga(self.problem, self.network, version, steps)
        state, out = method.start(np.zeros(self.problem.d), self.zero), []
        for _ in range(self.iterations):
            state = method.advance(state, 1)
            out.append(state.lam)
        return out

    def compare(self, ours, theirs):
        scale = max(np.abs(row).max() for row in theirs)
        assert np.abs(ours[0]).max() > 0
        for mine, other in zip(ours, theirs, strict=True):
            assert np.abs(mine - other).max() < 1e-10 * scale

    @pytest.mark.parametrize("theta", [0.0, 1.0])
    @pytest.mark.parametrize(
        ("name", "recursion"),
        [
            ("diging", oracles.diging),
            ("extra", oracles.extra),
            ("exact-diffusion", oracles.exact_diffusion),
            ("aug-dgm", oracles.aug_dgm),
            ("atc-tracking", oracles.atc_tracking),
        ],
    )
    def test_method(self, name, recursion, theta):
        steps = npga.Steps(alpha=0.2, beta=0.2, gamma=1.0, theta=theta)
        gradient = oracles.DualGradient(self.problem, self.b, 0.2, theta)
        self.compare(self.npga_run(name, steps), recursion(gradient, self.zero, self.W, 0.2, self.iterations))

    @pytest.mark.parametrize("c", [0.3, 0.5, 0.7])
    def test_nids(self, c):
        steps = npga.Steps(alpha=0.2, beta=0.2, gamma=1.0)
        gradient = oracles.DualGradient(self.problem, self.b, 0.2, 0.0)
        theirs = oracles.nids(gradient, self.zero, self.W, 0.2, c, self.iterations)
        self.compare(self.npga_run("nids", steps, c=c), theirs)

    def test_dlm(self):
        steps = npga.Steps(alpha=0.2, beta=0.2, gamma=1.0)
        gradient = oracles.DualGradient(self.problem, self.b, 0.2, 0.0)
        L = self.network.laplacian.toarray()
        theirs = oracles.dlm(gradient, self.zero, L, 0.2, 0.3, self.iterations)
        self.compare(self.npga_run("dlm", steps, c=0.3), theirs)

    def test_dcda(self):
        steps = npga.Steps(alpha=0.2, beta=0.2)
        result = npga.solve(self.problem, self.network, "dcda", steps, max_iters=self.iterations, tol=None)
        x, lam = oracles.dcda(self.problem, self.b, self.W, 0.2, 0.2, self.iterations)[-1]
        np.testing.assert_allclose(result.x, x, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(result.lam, lam, rtol=1e-10, atol=1e-12)
        assert (result.steps.theta, result.steps.gamma) == (0.0, 1.0)

    @pytest.mark.parametrize("coupling", ["equality", "squared-loss", "ball"])
    def test_dcpa(self, coupling):
        problem = random_problem(21, 6, 4, "quadratic", "l1", coupling)
        steps = npga.Steps(alpha=0.2, beta=0.2, gamma=0.8)
        result = npga.solve(problem, self.network, "dcpa", steps, max_iters=self.iterations, tol=None)
        x, lam = oracles.dcpa(problem, self.W, 0.2, 0.2, 0.8, self.iterations)
        np.testing.assert_allclose(result.x, x, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(result.lam, lam, rtol=1e-10, atol=1e-12)
        assert result.steps.theta == 1.0


@pytest.mark.parametrize(("one", "other"), [(("p2d2", 1.0), "extra"), (("nids", 0.5), "exact-diffusion")])
def test_special_cases_are_the_same_bits(one, other):
    problem = random_problem(8, proximable="l1", coupling="squared-loss")
    network = npga.Network.ring(6)
    steps = tame_steps(problem)
    a = advance(problem, network, npga.version(one[0], c=one[1]), steps, 100)
    b = advance(problem, network, npga.version(other), steps, 100)
    np.testing.assert_array_equal(a.lam, b.lam)


@pytest.mark.parametrize("name", [v for v in VERSIONS if v != "dlm"])
def test_explicit_matrices_give_the_same_iterates(name):
    problem = random_problem(8, proximable="l1", coupling="squared-loss")
    network = npga.Network.complete(6).lazy()  # powers of W keep the sparsity of a complete graph
    steps = tame_steps(problem, theta=0.3)
    version = npga.version(name)
    mine = npga.Version.from_matrices("mine", *(M.toarray() for M in version.matrices(network)))
    a = advance(problem, network, version, steps, 200)
    b = advance(problem, network, mine, steps, 200)
    np.testing.assert_allclose(b.lam, a.lam, rtol=1e-10, atol=1e-12)
    agents = local_agents(problem, network, mine, steps)
    traffic = run_agents(agents, network, 200)
    np.testing.assert_allclose(np.array([agent.lam for agent in agents]), a.lam, rtol=1e-10, atol=1e-12)
    assert traffic.rounds == 200 * mine.rounds


def test_centralised_pga_is_npga_with_one_agent():
    """Chambolle and Pock (2011) with a gradient step: x+, then lam+ from 2 x+ - x."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((5, 3)), rng.standard_normal(5)
    problem = npga.Problem([npga.Agent(A, fn.SquaredNorm(0.5), fn.L1(0.1))], fn.SquaredLoss(y, 0.3))
    steps = npga.Steps(alpha=0.1, beta=0.2, gamma=0.9, theta=1.0)
    x, lam = np.zeros(3), np.zeros(5)
    for _ in range(50):
        new = np.sign(u := x - 0.1 * (0.5 * x + A.T @ lam)) * np.maximum(np.abs(u) - 0.01, 0.0)
        lam = (lam + 0.2 * A @ (2 * new - x) - 0.2 * y) / (1 + 0.2 / 0.3)
        x = new
    for name in VERSIONS:
        state = advance(problem, npga.Network.complete(1), npga.version(name), steps, 50)
        np.testing.assert_allclose(state.x, x, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(state.lam[0], lam, rtol=1e-12, atol=1e-14)
