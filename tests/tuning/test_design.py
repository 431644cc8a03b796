"""`npga.design`: versions found by search."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import npga
from helpers.dense_jacobian import radius
from helpers.families import random_problem
from npga.errors import InputError
from npga.theory import certify
from npga.tuning import _search, design, tune
from npga.tuning._space import DesignSpace, Pattern, patterns

NETWORK = npga.Network.erdos_renyi(6, 0.4, seed=4)


@pytest.fixture(scope="module")
def problem():
    return random_problem(21, p=3, coupling="equality")


@pytest.fixture(scope="module")
def solution(problem):
    return npga.reference(problem)


@pytest.fixture(scope="module")
def designed(problem, solution):
    return design(problem, NETWORK, degree=1, rounds=1, reference=solution)


def test_the_patterns_of_one_and_two_rounds():
    assert patterns(1, 1) == [Pattern(0, 1, 1), Pattern(1, 0, 1)]
    assert patterns(2, 2) == [Pattern(0, 2, 2), Pattern(1, 1, 2), Pattern(2, 0, 2)]
    assert patterns(2, 4) == [Pattern(2, 2, 2)]
    assert all(pattern.rounds == 2 for pattern in patterns(2, 2))


def test_a_design_is_a_version_that_solves(problem, solution, designed):
    assert isinstance(designed, npga.Version)
    assert designed.rounds == 1
    assert designed.rate < 1.0
    dense = radius(problem, NETWORK, designed, designed.steps, solution.x, solution.lam)
    assert designed.rate == pytest.approx(dense, abs=1e-5 * (1.0 - dense))
    result = npga.solver.solve(problem, NETWORK, designed, designed.steps, reference=solution.x)
    assert result.x == pytest.approx(solution.x, abs=1e-6)
    assert "outside every theorem" in designed.message or "within a theorem" in designed.message


def test_a_design_is_at_least_as_good_as_the_rows_of_its_rounds(problem, solution, designed):
    rows = tune(problem, NETWORK, versions=["extra", "p2d2", "exact-diffusion", "nids", "dlm"], reference=solution)
    assert designed.measured <= 1.01 * rows.best.measured


def test_assumption_4_is_kept(problem, solution):
    found = design(problem, NETWORK, 1, 1, constraints="assumption-4", reference=solution)
    answers = certify(problem, NETWORK, found, found.steps).assumptions
    assert all(answers[key].holds for key in ("4.i", "4.ii", "4.iii", "4.iv"))
    B2, C, D = (M.toarray() for M in found.matrices(NETWORK))
    assert np.linalg.eigvalsh(B2)[[0, -1]] == pytest.approx(np.clip(np.linalg.eigvalsh(B2)[[0, -1]], 0, 1), abs=1e-12)
    assert np.linalg.eigvalsh(C)[0] >= -1e-12
    assert np.linalg.eigvalsh(C)[-1] < 1.0
    assert D.min() >= -1e-12


@pytest.mark.slow
def test_two_rounds_are_no_slower_an_iteration_than_one(problem, solution, designed):
    two = design(problem, NETWORK, 2, 2, reference=solution)
    assert two.rounds <= 2
    assert two.measured <= 1.01 * designed.measured
    rows = tune(problem, NETWORK, versions="all", reference=solution)
    assert two.measured <= 1.01 * rows.best.measured


def test_the_same_seed_designs_the_same_version(problem, solution, designed):
    again = design(problem, NETWORK, degree=1, rounds=1, reference=solution)
    assert again == designed
    assert again.steps == designed.steps
    assert hash(again) == hash(designed)


def test_time_runs_out_with_the_best_so_far(problem, solution):
    found = design(problem, NETWORK, 2, per="round", reference=solution, max_seconds=1.5)
    assert found.rate < 1.0
    assert found.seconds < 30.0


def test_a_short_time_is_shared_between_rows_patterns_and_runs(problem, solution, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(_search, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))  # a second a look
    found = design(problem, NETWORK, 2, 2, reference=solution, max_seconds=6000.0)
    tried = [trial for trial in found.trials if trial.stage == "descent"]
    names = {trial.version.name for trial in tried}
    assert {"extra", "nids", "diging", "atc-tracking", "aug-dgm", "npga-i", "npga-ii"} <= names
    largest = [Pattern.of(trial.version) for trial in tried if trial.version.name == "designed"]
    assert set(patterns(2, 2)) <= set(largest)
    assert any(trial.stage == "run" for trial in found.trials)


def test_rows_embed_in_the_space(problem):
    steps = npga.Steps(0.1, 0.2, 0.7, 0.3)
    for name, pattern in (("diging", Pattern(0, 2, 2)), ("nids", Pattern(1, 1, 2)), ("aug-dgm", Pattern(2, 0, 2))):
        row, space = npga.version(name), DesignSpace(problem, NETWORK, pattern)
        version, found = space.decode(space.encode(row, steps))
        assert (found.alpha, found.beta, found.gamma, found.theta) == pytest.approx((0.1, 0.2, 1.0, 0.3))
        B2, C, D = (M.toarray() for M in row.matrices(NETWORK))
        for mine, theirs in zip(version.matrices(NETWORK), (0.7 * B2, C, D), strict=True):
            assert mine.toarray() == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"degree": 0}, "degree is 0"),
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 1.5}, "rounds is 1.5"),
        ({"per": "second"}, "'iteration' or 'round'"),
        ({"constraints": "none"}, "'stability' or 'assumption-4'"),
    ],
)
def test_bad_input_is_refused(problem, arguments, text):
    with pytest.raises(InputError, match=text):
        design(problem, NETWORK, **arguments)


def test_a_network_of_another_size_is_refused(problem):
    with pytest.raises(InputError, match="7 nodes and the problem 6 agents"):
        design(problem, npga.Network.ring(7))


def test_per_round_a_chebyshev_degree_may_be_chosen():
    problem, ring = random_problem(3, 16, 2, "squared-norm", "zero", "equality"), npga.Network.ring(16)
    solution = npga.reference(problem)
    found = design(problem, ring, 1, per="round", reference=solution, max_seconds=8.0)
    run = npga.solver.solve(problem, ring, found, found.steps, reference=solution.x, gap_tol=1e-8, tol=None)
    assert run.status.ok
    assert run.rounds == run.iterations * found.rounds
    assert found.rounds % found.chebyshev == 0
    limited = design(problem, ring, 1, 1, per="round", reference=solution, max_seconds=2.0)
    assert (limited.rounds, limited.chebyshev) == (1, 1)
