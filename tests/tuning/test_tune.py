"""`npga.tune`: what each method returns, says and refuses."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from helpers.held_out import elastic_net, equality_ridge, network
from npga import functions as fn
from npga.errors import InputError
from npga.theory import certify
from npga.tuning import Linearisation, landscape, measure, rate, tune
from npga.tuning._search import Budget, OutOfTimeError, search_steps
from npga.tuning._spectral import tune_spectral
from npga.tuning._tune import best_degree

NETWORK = npga.Network.erdos_renyi(6, 0.5, seed=2)


@pytest.fixture(scope="module")
def problem():
    return random_problem(1, coupling="squared-loss")


@pytest.fixture(scope="module")
def tuned(problem):
    return tune(problem, NETWORK, "nids")


def test_theorem_steps_are_inside_the_bounds_and_converge_at_the_proved_rate(problem):
    found = tune(problem, NETWORK.lazy(), "extra", "theorem")
    certificate = certify(problem, NETWORK.lazy(), found.version, found.steps)
    assert certificate.covered
    assert found.rate == pytest.approx(math.sqrt(certificate.best.rate), rel=1e-6)
    assert found.work == 0
    assert "linear convergence by Theorem" in found.message


def test_the_spectral_rate_is_no_worse_than_the_proved_one(problem):
    proved = tune(problem, NETWORK.lazy(), "extra", "theorem")
    found = tune(problem, NETWORK.lazy(), "extra", "spectral")
    assert found.rate <= proved.rate


def test_no_theorem_is_an_error_that_says_what_to_do():
    basis_pursuit = npga.Problem([npga.Agent(np.eye(2), fn.Zero(), fn.L1(1.0))] * 6, fn.Equality([1.0, 2.0]))
    with pytest.raises(InputError, match="use method='spectral' or 'search'"):
        tune(basis_pursuit, NETWORK, "nids", "theorem")


def test_the_message_tells_the_truth_about_theorems_and_the_run(problem, tuned):
    covered = certify(problem, NETWORK, tuned.version, tuned.steps).covered
    assert ("within a theorem" in tuned.message) == covered
    assert ("outside every theorem" in tuned.message) == (not covered)
    result = npga.solver.solve(
        problem, NETWORK, tuned.version, tuned.steps, reference=npga.reference(problem).x, tol=None, gap_tol=1e-8
    )
    assert result.iterations == pytest.approx(tuned.measured, abs=0.1 * tuned.measured + 5)
    assert f"{tuned.measured:.0f} iterations" in tuned.message


def test_within_theorems_keeps_gamma_at_most_one(problem):
    found = tune(problem, NETWORK, "extra", within_theorems=True)
    assert found.steps.gamma <= 1.0
    assert max(trial.steps.gamma for trial in found.trials) <= 1.0


def test_within_theorems_keeps_the_c_of_nids_at_most_a_half(problem):
    found = tune(problem, NETWORK, "nids", within_theorems=True)
    assert max(trial.version.c for trial in found.trials) <= 0.5
    assert max(trial.steps.gamma for trial in found.trials) <= 1.0


@pytest.mark.parametrize("method", ["spectral", "search"])
def test_the_same_seed_gives_the_same_steps(problem, method):
    first, again = (tune(problem, NETWORK, "npga-ii", method, seed=3) for _ in range(2))
    assert first.steps == again.steps
    assert [t.steps for t in first.trials] == [t.steps for t in again.trials]


def test_the_time_of_the_centralised_solution_counts():
    """Where it is not found in its part of the time, trial runs choose, and the message says so."""
    found = tune(random_problem(3, 6, 3, "zero", "l1", "equality"), NETWORK, "nids", max_seconds=1e-9)
    assert found.method == "search"
    assert "no centralised solution" in found.message
    assert "max_seconds" in found.message


def test_a_problem_without_a_solution_is_refused():
    agents = [npga.Agent(np.ones((2, 1)), fn.SquaredNorm(1.0)) for _ in range(6)]
    with pytest.raises(InputError, match="No point satisfies the coupling"):
        tune(npga.Problem(agents, fn.Equality([1.0, 2.0])), NETWORK, "nids")


@pytest.mark.parametrize("method", ["spectral", "search"])
def test_time_is_respected(method):
    problem, net = elastic_net(), network()
    tune(problem, net, "extra", method, max_seconds=0.0)  # everything is compiled
    begun = time.process_time()
    found = tune(problem, net, "extra", method, max_seconds=0.5)
    assert time.process_time() - begun < 5.0
    assert math.isfinite(found.rate)


@pytest.mark.parametrize("run", [tune_spectral, search_steps])
@pytest.mark.parametrize("after", [1, 3])
def test_ctrl_c_returns_the_best_so_far(problem, run, after):
    seen = []

    def interrupt(done, words):
        seen.append((done, words))
        if len(seen) == after:
            raise KeyboardInterrupt

    found = run(problem, NETWORK, npga.version("extra"), budget=Budget(None, interrupt))
    assert len(seen) == after
    assert found.rate < 1.0


def test_search_needs_no_derivatives_and_spectral_says_that_it_does():
    def plain():
        return fn.Custom(value=lambda x: 0.5 * x @ x, grad=lambda x: x, mu=1.0, L=1.0)

    custom = npga.Problem([npga.Agent(np.eye(2), plain()) for _ in range(6)], fn.Equality([1.0, 2.0]))
    with pytest.raises(InputError, match="second derivatives"):
        tune(custom, NETWORK, "nids")
    found = tune(custom, NETWORK, "nids", "search")
    result = npga.solver.solve(custom, NETWORK, found.version, found.steps, max_iters=5000)
    assert result.x == pytest.approx(np.tile([1.0, 2.0], 6) / 6, abs=1e-6)


@pytest.mark.parametrize("method", ["spectral", "search"])
def test_a_solution_at_zero_can_be_tuned_for(method):
    rng = np.random.default_rng(0)
    agents = [npga.Agent(rng.standard_normal((2, 2)), fn.SquaredNorm(1.0)) for _ in range(4)]
    zero, ring = npga.Problem(agents, fn.Equality([0.0, 0.0])), npga.Network.ring(4)
    found = tune(zero, ring, "extra", method=method)
    result = npga.solver.solve(zero, ring, found.version, found.steps, x0=np.ones(8), max_iters=5000)
    assert result.x == pytest.approx(np.zeros(8), abs=1e-6)


@pytest.mark.parametrize("method", ["spectral", "search"])
def test_explicit_matrices_can_be_tuned(problem, method):
    W = NETWORK.W.toarray()
    mine = npga.Version.from_matrices("mine", np.eye(6) - W, D=W)
    found = tune(problem, NETWORK, mine, method, max_seconds=3.0)
    assert found.version is mine
    assert found.rate < 1.0


def test_long_evaluations_look_at_the_clock():
    """A radius and a run that would go on for long end with the time."""
    problem, net, version = elastic_net(), network(), npga.version("extra")
    slow = npga.Steps(1e-6, 1e-6)
    solution = npga.reference(problem)
    linear = Linearisation(problem, solution.x, solution.lam).at(slow)
    spent = Budget(0.0, None)
    with pytest.raises(OutOfTimeError):
        rate(linear, net, version, slow, check=spent.check)
    with pytest.raises(OutOfTimeError):
        measure(problem, net, version, slow, solution.x, limit=10**9, check=spent.check)


def test_what_is_measured_is_the_last_iteration_above_the_target(problem):
    solution = npga.reference(problem)
    found = tune(problem, NETWORK, "nids", reference=solution)
    run = npga.solver.solve(
        problem, NETWORK, found.version, found.steps, reference=solution.x, tol=None, record_every=1,
        max_iters=int(1.2 * found.measured),
    )  # fmt: skip
    above = run.trace["iteration"][run.trace["gap"] > 1e-8]
    assert found.measured == pytest.approx(above[-1], abs=0.02 * found.measured + 1)


def test_the_tuned_constant_is_not_lost(problem, tuned):
    assert tuned.version.c != npga.version("nids").c
    ways = [
        npga.solve(problem, NETWORK, *way)
        for way in ((tuned.version, tuned.steps), ("nids", tuned.steps), (None, tuned), ("nids", tuned))
    ]
    assert [result.version for result in ways] == [tuned.version] * 4
    assert len({result.iterations for result in ways}) == 1
    plain = npga.Steps(*(getattr(tuned.steps, name) for name in ("alpha", "beta", "gamma", "theta")))
    assert npga.solve(problem, NETWORK, "nids", plain, max_iters=5).version == npga.version("nids")
    assert repr(tuned.steps) == repr(plain)
    with pytest.raises(InputError, match="tuned for nids"):
        npga.solve(problem, NETWORK, "extra", tuned)


def test_rankings_are_by_iterations_rounds_or_cost(problem):
    names = ("extra", "npga-i", "diging")
    solution = npga.reference(problem)

    def rank(**how):
        return tune(problem, NETWORK, versions=names, reference=solution, max_seconds=2.0, **how)

    for ranking, price in (
        (rank(), lambda t: t.iterations(0.1)),
        (rank(by="rounds"), lambda t: t.version.rounds * t.iterations(0.1)),
        (rank(cost=(2.0, 3.0)), lambda t: (2.0 + 3.0 * t.version.rounds) * t.iterations(0.1)),
    ):
        assert sorted(t.version.name for t in ranking) == sorted(names)
        assert list(ranking.costs) == pytest.approx([price(t) for t in ranking])
        assert list(ranking.costs) == sorted(ranking.costs)
        assert ranking.best is ranking[0]
        assert [row["version"] for row in ranking.to_dicts()] == [t.version.name for t in ranking]
        assert str(ranking).count("\n") == 1 + len(names)


def test_trials_are_a_table(tuned):
    table = tuned.trials.to_pandas()
    assert len(table) == len(tuned.trials)
    assert table["work"].sum() == tuned.work
    assert {"sample", "descent", "run", "confirm"} == set(table["stage"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"version": "nids", "method": "spectre"}, "spectral"),
        ({}, "either version= .* or versions="),
        ({"version": "nids", "versions": "all"}, "either version= .* or versions="),
        ({"versions": ["nids"], "by": "colour", "max_seconds": 0.5}, "expected 'iterations' or 'rounds'"),
    ],
)
def test_bad_input_is_refused(problem, arguments, text):
    with pytest.raises(InputError, match=text):
        tune(problem, NETWORK, **arguments)


def test_a_network_of_another_size_is_refused(problem):
    with pytest.raises(InputError, match="7 nodes and the problem 6 agents"):
        tune(problem, npga.Network.ring(7), "nids")


def test_iterations_need_an_accuracy_between_zero_and_one(tuned):
    assert tuned.iterations(0.01) == pytest.approx(2.0 * tuned.iterations(0.1))
    with pytest.raises(InputError, match="between 0 and 1"):
        tuned.iterations(10.0)


def test_the_landscape_is_lowest_near_the_tuned_point(tmp_path):
    problem, net = equality_ridge(), network()
    solution = npga.reference(problem)
    found = tune(problem, net, "npga-i", reference=solution)
    picture = landscape(found, problem, points=7, span=20.0, reference=solution)
    assert picture.radius.shape == (7, 7)
    assert picture.best == pytest.approx(found.rate, abs=1e-5 * (1.0 - found.rate))
    assert picture.radius[3, 3] == pytest.approx(picture.best, abs=0.02 * (1.0 - picture.best))
    assert picture.radius.min() > 1.0 - 1.5 * (1.0 - picture.best)
    assert not picture.stable[-1, -1]  # twenty times both steps
    assert np.isinf(picture.iterations_per_digit[-1, -1])
    picture.plot(tmp_path / "landscape.png")
    assert (tmp_path / "landscape.png").stat().st_size > 10_000


@pytest.mark.parametrize(("arguments", "text"), [({"points": 1}, "at least 2"), ({"span": 0.5}, "above 1")])
def test_a_landscape_needs_a_grid(problem, tuned, arguments, text):
    with pytest.raises(InputError, match=text):
        landscape(tuned, problem, **arguments)


def test_where_rounds_count_chebyshev_degrees_are_ranked_too(monkeypatch):
    monkeypatch.setattr("npga.tuning._tune.DEGREES", (2, 3))
    problem, ring = random_problem(3, 12, 2, "squared-norm", "zero", "equality"), npga.Network.ring(12)
    found = tune(problem, ring, versions="all", method="theorem", by="rounds")
    degrees = {(t.version.name, t.version.chebyshev) for t in found}
    assert {degree for _, degree in degrees} == {1, 2, 3}
    deep = next(t for t in found if t.version.chebyshev == 3)
    assert f"{deep.version.name}:3" in str(found)
    assert [row["chebyshev"] for row in found.to_dicts()] == [t.version.chebyshev for t in found]
    run = npga.solve(problem, ring, steps=deep)
    assert run.status.ok
    assert run.version.chebyshev == 3
    assert {t.version.chebyshev for t in tune(problem, ring, versions="all", method="theorem")} == {1}


def test_the_best_degree_is_looked_for_until_two_in_a_row_are_no_better():
    asked = []

    def price(degree):
        asked.append(degree)
        return {2: 5.0, 3: 7.0, 5: 4.0, 8: 6.0, 13: 5.0}[degree]

    assert best_degree(price, 9.0) == 5
    assert asked == [2, 3, 5, 8, 13]
    assert best_degree(price, 3.0) == 1
    assert best_degree(price, 9.0, most=4) == 2


def test_a_reference_that_is_not_exact_does_not_spoil_the_runs():
    """An outside solver's answer, right to ten digits: no run can be measured against it to eleven."""
    problem, where = elastic_net(), network()
    exact = npga.reference(problem)
    x = exact.x + 1e-10 * np.random.default_rng(0).standard_normal(exact.x.shape)
    rough = npga.solver.Reference(x, exact.lam, problem.kkt(x, exact.lam).kkt, exact.objective, (0, 0))
    assert rough.kkt > 1e-10
    solved_again = tune(problem, where, "npga-i", reference=rough)
    assert solved_again.measured == tune(problem, where, "npga-i", reference=exact).measured
    as_it_is = tune_spectral(problem, where, npga.version("npga-i"), solution=rough, budget=Budget(None, None))
    assert 0.2 * solved_again.measured < as_it_is.measured < solved_again.measured  # to fewer digits, and said so
    assert f"a run reached {1e4 * rough.kkt:g} in" in as_it_is.message
