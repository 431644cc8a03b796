"""The predicted rate: against dense eigenvalues, and against what runs do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import theilslopes

import npga
from helpers.dense_jacobian import radius
from helpers.families import VERSIONS, random_problem
from helpers.held_out import ball_ridge, elastic_net, equality_ridge, logistic, network
from npga import functions as fn
from npga.experiments import EXPERIMENTS
from npga.solver import method_for
from npga.tuning import Linearisation, _radius, rate

KINDS = [
    {"smooth": "squared-norm", "coupling": "equality"},
    {"smooth": "quadratic", "coupling": "squared-loss", "proximable": "elastic-net"},
    {"smooth": "least-squares", "coupling": "ball"},
    {"smooth": "squared-norm", "coupling": "less-equal", "proximable": "l1"},
    {"smooth": "quadratic", "coupling": "huber", "proximable": "group-l2"},
    {"smooth": "squared-norm", "coupling": "logistic", "proximable": "box"},
    {"smooth": "quadratic", "coupling": "equality", "matrices": "mixed"},
    {"smooth": "squared-norm", "coupling": "quantile", "proximable": "simplex"},
]


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_rate_is_the_spectral_radius_of_the_dense_jacobian(name, kind):
    seed = 3 + KINDS.index(kind)
    problem, net, version = (
        random_problem(seed, **kind),
        npga.Network.erdos_renyi(6, 0.5, seed=seed),
        npga.version(name),
    )
    solution = npga.reference(problem)
    linearisation = Linearisation(problem, solution.x, solution.lam)
    alpha = 0.4 / problem.curvature
    steps = npga.Steps(alpha, 0.2 / (alpha * problem.sigma**2), gamma=0.7, theta=0.5)
    found = rate(linearisation.at(steps), net, version, steps)
    expected = radius(problem, net, version, steps, solution.x, solution.lam)
    assert found.converged
    assert found.radius == pytest.approx(expected, abs=1e-6 * abs(1.0 - expected))


@pytest.mark.parametrize("name", ["extra", "nids", "npga-i"])
def test_a_start_from_nearby_steps_saves_work_and_keeps_the_rate(name):
    problem, net, version = equality_ridge(), network(), npga.version(name)
    solution = npga.reference(problem)
    linearisation = Linearisation(problem, solution.x, solution.lam)
    before, here = npga.Steps(0.11, 0.5, 1.6, 0.5), npga.Steps(0.11, 0.505, 1.6, 0.5)
    near = rate(linearisation.at(before), net, version, before)
    cold, warm = (rate(linearisation.at(here), net, version, here, near=start) for start in (None, near))
    assert warm.radius == pytest.approx(cold.radius, abs=1e-6 * (1.0 - cold.radius))
    assert warm.iterations <= cold.iterations


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.1), (0.5, 0.3), (1.0, 1.5), (1.0, 4.0)])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
def test_a_start_from_far_slower_steps_does_not_keep_their_long_stretches(alpha, beta, tolerance):
    """In hundreds of iterations too many the modes here shrink to rounding, or overflow where they are unstable."""
    problem = random_problem(0, n=13, p=3, smooth="squared-norm", coupling="equality", sizes=[4] * 13)
    net, version = npga.Network.erdos_renyi(13, 0.5, seed=0), npga.version("nids")
    solution = npga.reference(problem)
    linearisation = Linearisation(problem, solution.x, solution.lam)
    slow = npga.Steps(2e-4 / problem.curvature, 0.3 * problem.curvature / problem.sigma**2)
    here = npga.Steps(alpha / problem.curvature, beta * problem.curvature / (alpha * problem.sigma**2))
    near = rate(linearisation.at(slow), net, version, slow)
    assert near.stretch > 500
    found = rate(linearisation.at(here), net, version, here, near=near, tolerance=tolerance)
    expected = radius(problem, net, version, here, solution.x, solution.lam)
    assert found.radius == pytest.approx(expected, abs=10 * tolerance * abs(1.0 - expected))


def test_no_mode_is_taken_for_the_slowest_while_the_stretch_is_too_short():
    """With eight iterations at a time a mode of 0.9989 looks settled long before the one of 0.99991 is seen."""
    problem = random_problem(3819, n=12, p=3, smooth="squared-norm", coupling="less-equal", proximable="l1")
    net, version = npga.Network.path(12), npga.version("aug-dgm")
    solution = npga.reference(problem)
    steps = npga.Steps(0.5429405508621956, 0.00383272591776015, 0.177997315375313, 0.5590093239984275)
    linear = Linearisation(problem, solution.x, solution.lam).at(steps)
    expected = radius(problem, net, version, steps, solution.x, solution.lam)
    for seed in range(3):
        found = rate(linear, net, version, steps, seed, tolerance=1e-3)
        assert found.radius == pytest.approx(expected, abs=1e-2 * (1.0 - expected))


@pytest.mark.parametrize("broken", [False, True])
def test_what_cannot_be_told_apart_ends_unsettled(monkeypatch, broken):
    """All eigenvalues of an orthogonal matrix are equally slow; and LAPACK may fail to order close ones."""

    def fail(*_):
        raise linalg.LinAlgError

    if broken:
        monkeypatch.setattr(_radius, "_cut", fail)
    Q = linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))[0]
    limits = _radius._KrylovLimits(tolerance=1e-7, cutoff=np.inf, fillings=3, longest=8)
    look = _radius._krylov_schur(lambda u: 0.5 * Q @ u, np.ones(300), 8, limits)
    assert not look.settled
    assert look.products == 40 if broken else 40 < look.products < 120
    assert look.radius == pytest.approx(0.5**0.125, rel=1e-2)


def test_unstable_steps_have_a_radius_above_one():
    problem, net, version = equality_ridge(), network(), npga.version("extra")
    solution = npga.reference(problem)
    steps = npga.Steps(1.0 / problem.curvature, 20.0 / problem.sigma**2)
    found = rate(Linearisation(problem, solution.x, solution.lam).at(steps), net, version, steps)
    assert found.radius > 1.0
    expected = radius(problem, net, version, steps, solution.x, solution.lam)
    assert found.radius == pytest.approx(expected, rel=1e-6)


def test_a_cutoff_ends_the_computation_early():
    problem, net, version = equality_ridge(), network(), npga.version("extra")
    solution = npga.reference(problem)
    steps = npga.Steps(0.01 / problem.curvature, 1.0 / problem.sigma**2)
    linear = Linearisation(problem, solution.x, solution.lam).at(steps)
    full, short = rate(linear, net, version, steps), rate(linear, net, version, steps, cutoff=0.9)
    assert short.iterations < full.iterations
    assert short.radius > 0.9
    assert full.radius > 0.9


def envelope_rate(problem, net, version, steps, star, spacing=4):
    """Contraction per iteration by robust regression on the envelope of the gap between 1e-7 and 1e-12."""
    method = method_for(problem, net, version, steps)
    state = method.start(np.zeros(problem.d), np.zeros((problem.n, problem.p)))
    seen, gaps, scale = [], [], np.linalg.norm(star)
    while state.iteration < 60_000:
        state = method.advance(state, spacing)
        seen.append(state.iteration)
        gaps.append(np.linalg.norm(state.x - star) / scale)
        if max(gaps[-20:]) < 1e-12:
            break
    seen, gaps = np.array(seen), np.array(gaps)
    # A decaying oscillation is below its envelope most of the time: take what no later gap exceeds.
    envelope = np.maximum.accumulate(gaps[::-1])[::-1]
    phase = (envelope < 1e-7) & (envelope > 1e-12) & (gaps == envelope)
    assert phase.sum() >= 10
    return float(np.exp(theilslopes(np.log(gaps[phase]), seen[phase]).slope))


PHASES = {"equality": equality_ridge, "ball": ball_ridge, "elastic-net": elastic_net, "logistic": logistic}
# alpha and beta at which all ten versions are stable.
AT = {"equality": (0.1, 0.15), "ball": (0.1, 0.15), "elastic-net": (0.5, 0.05), "logistic": (0.1, 0.15)}


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("kind", PHASES)
def test_the_predicted_rate_is_what_a_run_settles_into(kind, name):
    problem, net, version = PHASES[kind](), network(), npga.version(name)
    solution = npga.reference(problem)
    steps = npga.Steps(*AT[kind], gamma=0.9, theta=0.0)
    found = rate(Linearisation(problem, solution.x, solution.lam).at(steps), net, version, steps)
    assert found.radius < 1.0
    measured = envelope_rate(problem, net, version, steps, solution.x)
    assert 1.0 - measured == pytest.approx(1.0 - found.radius, rel=0.02)


def test_a_crowd_of_equally_slow_modes_is_no_obstacle():
    """Experiment II with NIDS: no mode stands apart, and stretches that are too long would show rounding alone."""
    instance = EXPERIMENTS["logistic"]().build(0)
    version = npga.version("nids", c=1.10517)
    steps = npga.Steps(27.2532, 8.28342e-4, gamma=0.449329, theta=0.6)
    linear = Linearisation(instance.problem, instance.reference.x, instance.reference.lam).at(steps)
    found = rate(linear, instance.network, version, steps)
    method = method_for(linear, instance.network, version, steps)
    rng = np.random.default_rng(5)
    state = method.start(rng.standard_normal(linear.d), rng.standard_normal((linear.n, linear.p)))
    norms = []
    for _ in range(2):
        state = method.advance(state, 1000)
        norms.append(np.linalg.norm(state.lam - state.lam.mean(axis=0)) + np.linalg.norm(state.x))
    measured = (norms[1] / norms[0]) ** 1e-3
    assert 1.0 - found.radius == pytest.approx(1.0 - measured, rel=0.05)
    assert found.iterations < 20_000


def test_the_linearisation_says_whether_it_is_exact():
    def exact(problem):
        solution = npga.reference(problem)
        return Linearisation(problem, solution.x, solution.lam).exact

    assert exact(equality_ridge())
    assert not exact(ball_ridge())
    assert not exact(elastic_net())
    assert not exact(logistic())


@pytest.mark.parametrize(("role", "text"), [("f", "f of agent 1"), ("h", "h does")])
def test_functions_without_second_derivatives_are_named(role, text):
    def plain(mu):
        return fn.Custom(value=lambda x: 0.5 * x @ x, grad=lambda x: x, prox=lambda x, t: x / (1 + t), mu=mu, L=1.0)

    f = [fn.SquaredNorm(1.0), plain(1.0) if role == "f" else fn.SquaredNorm(1.0)]
    problem = npga.Problem(
        [npga.Agent(np.eye(2), one) for one in f], plain(0.0) if role == "h" else fn.SquaredLoss([1.0, 2.0])
    )
    with pytest.raises(npga.errors.InputError, match=text):
        Linearisation(problem, np.zeros(4), np.zeros(2))
