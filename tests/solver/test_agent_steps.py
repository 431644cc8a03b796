"""An alpha for each agent: NPGA on the problem in scaled variables, x_i = s_i x_i' with s_i^2 = alpha_i / alpha."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.families import VERSIONS
from npga import functions as fn
from npga.solver import Npga, Pga, local_agents, run_agents

ALPHAS = (0.3, 0.05, 0.8, 0.1, 0.4)
FREE = 0.25  # the one alpha of the scaled problem
PROXIMABLE = {
    "zero": lambda s: fn.Zero(),
    "l1": lambda s: fn.L1(0.3 * s),
    "l2": lambda s: fn.L2(0.3 * s),
    "box": lambda s: fn.Box(-0.5 / s, 0.4 / s),
}


def posed(scales, proximable, dtype=np.float64):
    """The same problem in variables x_i / s_i; agent 3 is a relay."""
    rng = np.random.default_rng(4)
    agents = []
    for i, s in enumerate(scales):
        d = 0 if i == 3 else int(rng.integers(1, 4))
        A, root, q = rng.standard_normal((3, d)), rng.standard_normal((d, d)), rng.standard_normal(d)
        A /= max(np.linalg.norm(A, 2) if d else 1.0, 1e-9)
        f = fn.Quadratic(s**2 * (np.eye(d) + 0.1 * root @ root.T), s * q) if d else fn.Zero()
        agents.append(npga.Agent((s * A).astype(dtype), f, PROXIMABLE[proximable](s), name=f"party {i}"))
    return npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(3), 0.7))


def both(proximable):
    """The problem as it is, the scaled one, and the factor of every coordinate."""
    scales = np.sqrt(np.array(ALPHAS) / FREE)
    problem, scaled = posed(np.ones(5), proximable), posed(scales, proximable)
    return problem, scaled, np.repeat(scales, problem.sizes)


@pytest.mark.parametrize("proximable", sorted(PROXIMABLE))
@pytest.mark.parametrize("name", VERSIONS)
def test_equals_npga_in_scaled_variables(name, proximable):
    problem, scaled, factors = both(proximable)
    network, version = npga.Network.ring(5).lazy(), npga.version(name)
    x0, lam0 = np.linspace(-1, 1, problem.d), np.linspace(-1, 1, 15).reshape(5, 3)
    own = Npga(problem, network, version, npga.Steps(ALPHAS, 0.2, 0.7, 0.5))
    free = Npga(scaled, network, version, npga.Steps(FREE, 0.2, 0.7, 0.5))
    a, b = own.start(x0, lam0), free.start(x0 / factors, lam0)
    for _ in range(60):
        a, b = own.advance(a, 1), free.advance(b, 1)
        np.testing.assert_allclose(a.x, factors * b.x, atol=1e-12)
        np.testing.assert_allclose(a.lam, b.lam, atol=1e-12)


def test_pga_too():
    problem, scaled, factors = both("l1")
    own, free = (
        Pga(p, npga.Network.ring(5), npga.Steps(alpha, 0.05, theta=1.0))
        for p, alpha in ((problem, ALPHAS), (scaled, FREE))
    )
    a, b = (method.advance(method.start(*method.problem.start()), 80) for method in (own, free))
    np.testing.assert_allclose(a.x, factors * b.x, atol=1e-12)


@pytest.mark.parametrize("path", ["auto", "vectorised"])
def test_solve_and_its_certificate_of_work(path):
    problem, network = posed(np.ones(5), "l1"), npga.Network.ring(5)
    result = npga.solve(problem, network, "nids", npga.Steps(ALPHAS, 0.3, 0.9), tol=1e-11, path=path)
    assert result.status.ok
    assert result.steps.alpha == ALPHAS
    np.testing.assert_allclose(result.x, npga.reference(problem).x, atol=1e-8)


def test_equal_numbers_have_the_bits_of_one():
    problem, network = posed(np.ones(5), "l2"), npga.Network.ring(5)
    runs = [
        npga.solve(problem, network, "extra", npga.Steps(alpha, 0.3), max_iters=70, tol=None, path="vectorised")
        for alpha in (0.2, (0.2,) * 5)
    ]
    np.testing.assert_array_equal(runs[0].lam, runs[1].lam)


def test_single_precision_stays_single():
    problem = posed(np.ones(5), "l1", np.float32)
    result = npga.solve(
        problem, npga.Network.ring(5), "extra", npga.Steps(ALPHAS, 0.3), max_iters=20, path="vectorised"
    )
    assert (result.x.dtype, result.lam.dtype) == (np.float32, np.float32)


def test_each_local_agent_has_its_own_number():
    problem, network, version = posed(np.ones(5), "l1"), npga.Network.ring(5), npga.version("nids")
    steps = npga.Steps(ALPHAS, 0.3, 0.9, 0.4)
    agents = local_agents(problem, network, version, steps)
    run_agents(agents, network, 40)
    whole = Npga(problem, network, version, steps)
    state = whole.advance(whole.start(*problem.start()), 40)
    np.testing.assert_allclose(np.concatenate([agent.x for agent in agents]), state.x, atol=1e-13)


def test_checkpoints_and_starts_tell_them_apart(tmp_path):
    problem, network, file = posed(np.ones(5), "l1"), npga.Network.ring(5), tmp_path / "run.npz"
    steps = npga.Steps(ALPHAS, 0.3)
    whole = npga.solve(problem, network, "nids", steps, max_iters=90, tol=None)
    half = npga.solve(problem, network, "nids", steps, max_iters=40, tol=None, checkpoint=file)
    rest = npga.solve(problem, network, "nids", steps, max_iters=90, tol=None, checkpoint=file, resume=True)
    started = npga.solve(problem, network, "nids", steps, max_iters=50, tol=None, start=half)
    np.testing.assert_array_equal(whole.lam, rest.lam)
    np.testing.assert_array_equal(whole.lam, started.lam)
    with pytest.raises(ValueError, match="belongs to a run with steps"):
        npga.solve(problem, network, "nids", npga.Steps(ALPHAS[::-1], 0.3), checkpoint=file, resume=True)


def test_the_agent_with_too_long_a_step_is_named():
    problem, network = posed(np.ones(5), "zero"), npga.Network.ring(5)
    steps = npga.Steps((0.3, 0.3, 40.0, 0.3, 0.3), 0.1)
    result = npga.solve(problem, network, "extra", steps)
    assert result.status is npga.Status.DIVERGED
    assert "reduce alpha (now 40 for agent 2 (party 2)" in result.message
    with pytest.raises(ValueError, match="alpha holds 2 numbers and there are 5 agents"):
        npga.solve(problem, network, "extra", npga.Steps((0.1, 0.2), 0.1))
