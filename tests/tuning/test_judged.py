"""What tuning is judged by: a dense grid of real runs inside the paper's box, and long runs."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from helpers.dense_grid import best_of_grid, combinations
from helpers.families import VERSIONS
from helpers.held_out import PROBLEMS, network
from npga.solver import method_for
from npga.tuning import measure, tune


def grid_for(kind, name, points=None):
    problem, net = PROBLEMS[kind](), network()
    solution = npga.reference(problem)
    return best_of_grid(problem, net, npga.version(name), solution.x, points=points and points(problem)), solution


def tuned_for(kind, name, solution, seed):
    """A tuning, and the iterations to 1e-8 that a run with it takes."""
    problem, net = PROBLEMS[kind](), network()
    tuned = tune(problem, net, name, reference=solution, seed=seed)
    return tuned, measure(problem, net, tuned.version, tuned.steps, solution.x).iterations


def test_tuned_steps_match_a_coarse_grid():
    grid, solution = grid_for("elastic-net", "npga-i", lambda problem: combinations(problem, alphas=5, betas=6))
    assert tuned_for("elastic-net", "npga-i", solution, 0)[1] <= 1.05 * grid.iterations


def test_where_runs_do_not_end_at_the_best_radius_slower_steps_are_taken():
    """The best radii of EXTRA here are those of a linearisation that runs from zero never come near."""
    problem, net = PROBLEMS["elastic-net"](), network()
    tuned = tune(problem, net, "extra", seed=0)
    failed = [trial for trial in tuned.trials if trial.stage == "run" and not np.isfinite(trial.iterations)]
    assert failed
    assert tuned.measured <= 1.05 * 405  # the best of the dense grid


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extra", "nids", "npga-i"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_tuned_steps_match_a_dense_grid_at_a_tenth_of_its_work(kind, name):
    assert len(combinations(PROBLEMS[kind]())) == 5000
    grid, solution = grid_for(kind, name)
    for seed in range(3):
        tuned, mine = tuned_for(kind, name, solution, seed)
        print(f"{kind} {name} seed {seed}: {mine:.0f} iterations, grid {grid.iterations:.0f}; "
              f"work {tuned.work:,}, grid {grid.work:,.0f} (least {grid.least_work:,})")  # fmt: skip
        assert mine <= 1.05 * grid.iterations
        assert tuned.work <= 0.1 * grid.work


@pytest.mark.slow
@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("method", ["spectral", "search"])
def test_nothing_diverges_in_a_hundred_thousand_iterations(kind, name, method):
    problem, net = PROBLEMS[kind](), network()
    star = npga.reference(problem).x
    tuned = tune(problem, net, name, method)
    run = method_for(problem, net, tuned.version, tuned.steps)
    state = run.start(np.zeros(problem.d), np.zeros((problem.n, problem.p)))
    for _ in range(100):
        state = run.advance(state, 1000)
        assert np.linalg.norm(state.x - star) <= 10.0 * np.linalg.norm(star)
    assert np.linalg.norm(state.x - star) <= 1e-8 * np.linalg.norm(star)
