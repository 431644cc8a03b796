"""The experiments are the paper's, and x* is what scikit-learn, cvxpy and a closed form find."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from npga.errors import InputError
from npga.experiments import EXPERIMENTS, ElasticNetExperiment, LogisticCoupled, LogisticExperiment, Ridge
from npga.experiments._definitions import seed_of

DRAWS = (0, 1, 2)


def whole(instance):
    """X = [X_1, ..., X_n]."""
    return np.hstack([agent.A for agent in instance.problem.agents])


@pytest.mark.parametrize(
    ("kind", "n", "p", "sizes"),
    [
        (Ridge, 13, 10, [1] * 12 + [2]),
        (LogisticExperiment, 28, 100, [2] * 26 + [3, 100]),
        (LogisticCoupled, 27, 100, [2] * 26 + [3]),
        (ElasticNetExperiment, 13, 10, [1] * 12 + [2]),
    ],
)
def test_shapes_and_divisions_are_the_papers(kind, n, p, sizes):
    instance = kind().build()
    assert (instance.problem.n, instance.problem.p) == (n, p)
    assert instance.problem.sizes.tolist() == sizes
    assert instance.network.n == n
    assert instance.network.mixing == "laplacian"
    assert instance.network.tau == instance.network.degrees.max() + 1
    assert (whole(instance)[:, sum([s for s in sizes if s < 100]) - 1] == 1.0).all()  # the intercept


@pytest.mark.parametrize("draw", DRAWS)
def test_ridge_has_full_row_rank_and_the_closed_form_solution(draw):
    # With X X^T = U S U^T the minimiser is X^T (X X^T + nu I)^{-1} Y, nu > 0 the root of |X theta - Y| = delta.
    instance = Ridge().build(draw)
    X, ball = whole(instance), instance.problem.h
    assert np.linalg.matrix_rank(X) == 10 == instance.facts["rank"]
    values, vectors = np.linalg.eigh(X @ X.T)
    y = vectors.T @ ball.center
    nu = brentq(lambda t: np.linalg.norm(t * y / (values + t)) - ball.radius, 1e-12, 1e6, xtol=1e-15, rtol=1e-15)
    theta = X.T @ (vectors @ (y / (values + nu)))
    np.testing.assert_allclose(instance.solution, theta, rtol=0, atol=1e-9)
    assert ball.radius == pytest.approx(0.1 * np.linalg.norm(ball.center))


def test_ridge_agrees_with_cvxpy():
    import cvxpy as cp

    instance = Ridge().build()
    theta = cp.Variable(14)
    ball = instance.problem.h
    within = cp.norm(whole(instance) @ theta - ball.center) <= ball.radius
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta)), [within])
    program.solve(solver=cp.CLARABEL)
    # Its tolerance of 1e-8 on the cost, which is 1-strongly convex, is one of sqrt(2e-8) on theta.
    assert program.value == pytest.approx(instance.facts["solution_objective"], rel=1e-7)
    np.testing.assert_allclose(instance.solution, theta.value, rtol=0, atol=1.5e-4)


@pytest.mark.parametrize("draw", DRAWS)
def test_elastic_net_agrees_with_scikit_learn(draw):
    from sklearn.linear_model import ElasticNet as Fit

    experiment = ElasticNetExperiment()
    instance = experiment.build(draw)
    model = Fit(alpha=experiment.alpha, l1_ratio=experiment.rho, fit_intercept=False, tol=1e-15, max_iter=1_000_000)
    model.fit(whole(instance), instance.problem.h.target)
    np.testing.assert_allclose(instance.solution, model.coef_, rtol=0, atol=1e-9)
    assert (instance.solution != 0).sum() > 0


@pytest.mark.parametrize("draw", DRAWS)
def test_logistic_agrees_with_scikit_learn_in_both_poses(draw):
    from sklearn.linear_model import LogisticRegression

    experiment = LogisticCoupled()
    instance = experiment.build(draw)
    X, y = whole(instance), instance.problem.h.labels
    model = LogisticRegression(
        C=1.0 / (experiment.samples * experiment.rho), fit_intercept=False, tol=1e-15, solver="newton-cholesky"
    )
    model.fit(X, y)
    np.testing.assert_allclose(instance.solution, model.coef_[0], rtol=0, atol=1e-9)
    # The gradient of the regularised loss vanishes: a certificate that needs no other program.
    gradient = experiment.rho * instance.solution - X.T @ (y * expit(-y * (X @ instance.solution))) / 100
    assert np.abs(gradient).max() < 1e-14
    posed = LogisticExperiment().build(draw)
    np.testing.assert_allclose(posed.solution[:55], instance.solution, rtol=0, atol=1e-9)
    np.testing.assert_allclose(posed.solution[55:], X @ instance.solution, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_draws_repeat_and_differ(name):
    experiment = EXPERIMENTS[name]()
    first, again, other = experiment.build(0), experiment.build(0), experiment.build(1)
    assert first.problem.fingerprint == again.problem.fingerprint
    assert first.network == again.network
    assert np.array_equal(first.solution, again.solution)
    assert first.facts == again.facts
    assert first.facts["rows"] != other.facts["rows"]
    assert first.network != other.network
    assert first.facts["solution_kkt"] < 1e-12


def test_both_poses_of_experiment_two_see_the_same_rows():
    assert LogisticExperiment().build(3).facts["rows"] == LogisticCoupled().build(3).facts["rows"]


def test_every_choice_is_recorded_and_changes_what_it_names():
    assert Ridge(radius=0.3).choices()["radius"] == 0.3
    assert {"seed", "samples", "scaling", "edge_probability", "tau_c", "rho", "full_table"} <= set(
        LogisticExperiment().choices()
    )
    base = Ridge().build().facts
    assert Ridge(seed=1).build().facts["rows"] != base["rows"]
    assert Ridge(tau_c=2.0).build().facts["tau"] == base["tau"] + 1.0
    assert Ridge(radius=0.2).build().facts["delta"] == pytest.approx(2 * base["delta"])
    assert Ridge(samples=5).build().facts["shape"] == [5, 14]


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        (Ridge(samples=15), "full row rank; expected at most 14"),
        (Ridge(samples=0), "between 1 and the 506 rows"),
        (Ridge(radius=1.5), "part of"),
        (ElasticNetExperiment(rho=0.0), "0 < rho < 1"),
        (LogisticExperiment(rho=0.0), "rho is 0.0"),
        (Ridge(scaling="none"), "scaling 'none'"),
    ],
)
def test_bad_choices_are_refused(experiment, words):
    with pytest.raises(InputError, match=words):
        experiment.build()


def test_seeds_of_named_axes_do_not_meet():
    seeds = {
        seed_of(seed, axis, repetition) for seed in range(5) for axis in ("rows", "net") for repetition in range(50)
    }
    assert len(seeds) == 500
    assert max(seeds) < 2**32
