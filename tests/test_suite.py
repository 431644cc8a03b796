"""The suite's problems and the answers of others agree: these satisfy the optimality conditions of those."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from suite import CASES, measure, report

QUICK = [
    "dispatch-30-buses",
    "opf-9",
    "opf-39-tight",
    "opf-57-congested",
    "ridge-diabetes-complete3",
    "lasso-diabetes-complete5",
    "quantile-diabetes-er10",
    "hinge-iris-path4",
    "logistic-iris-star4",
    "share-needs-florentine",
    "share-knapsack-florentine",
    "lp-small-er10",
    "lp-equal-er10",
    "assignment-er8",
    "flow-florentine",
    "utility-florentine",
    "pursuit-er10",
    "portfolio-ba10",
]


def agrees(name, seed):
    instance = CASES[name].build(seed)
    assert instance.network.n == instance.problem.n
    answer = instance.solve()
    assert instance.problem.kkt(answer.x, answer.lam).kkt < 1e-5
    assert instance.violation(answer.x) < 1e-8
    assert instance.objective(answer.x) == pytest.approx(answer.objective, rel=1e-9)


@pytest.mark.parametrize("name", QUICK)
def test_the_answer_of_others_satisfies_our_optimality_conditions(name):
    agrees(name, 0)


EVERY = [(c.name, seed) for c in CASES.values() for seed in range(5 if c.drawn else 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), EVERY)
def test_all_answers_satisfy_our_optimality_conditions(name, seed):
    agrees(name, seed)


@pytest.mark.parametrize(
    "name",
    [
        "dispatch-300-buses",
        "ridge-rows-5000-er10",
        "hinge-breast-cancer-er10",
        "sparse-logistic-breast-cancer-ring6",  # Newton steps must not run away: far out every residual is small
        "lp-equal-ring15",
    ],
)
def test_our_reference_is_the_answer_of_others(name):
    instance = CASES[name].build()
    answer, found = instance.solve(), npga.reference(instance.problem)
    assert found.status.ok
    assert instance.objective(found.x) == pytest.approx(answer.objective, rel=1e-9)
    np.testing.assert_allclose(found.x, answer.x, atol=1e-8 * np.abs(answer.x).max())


@pytest.mark.parametrize(
    "name",
    [
        "dispatch-14-buses",
        "opf-14",
        "ridge-diabetes-ring10",
        "logistic-iris-star4",
        "share-needs-davis",
        "share-charging-davis",
        "lp-small-er10",
    ],
)
def test_a_warm_start_is_not_slower_than_a_cold_one(name):
    """Going on after a rough run, and the problem with slightly different matrices."""
    problem, network = (instance := CASES[name].build()).problem, instance.network
    full, rough = (npga.solve(problem, network, tol=tol) for tol in (1e-8, 1e-3))
    assert npga.solve(problem, network, start=full).iterations == 0
    assert npga.solve(problem, network, start=rough).iterations <= full.iterations
    moved = npga.Problem([npga.Agent(1.001 * agent.A, agent.f, agent.g) for agent in problem.agents], problem.h)
    cold, warm = npga.solve(moved, network), npga.solve(moved, network, start=full)
    assert cold.status.ok
    assert warm.status.ok
    assert warm.iterations <= 1.25 * cold.iterations  # a different schedule of legs alone makes such a difference


@pytest.mark.parametrize(
    ("name", "value"),
    [("dispatch-118-buses", 125947.8727), ("opf-9", 5216.0266), ("opf-30", 565.2060), ("opf-57", 41006.7353)],
)
def test_power_cases_have_their_published_cost(name, value):
    assert CASES[name].build().solve().objective == pytest.approx(value, abs=5e-5)


def test_there_are_fifty_problems_and_each_is_the_same_twice():
    assert len(CASES) >= 50
    for name in ("dispatch-30-buses", "lasso-diabetes-complete5", "share-quadratic-er30", "pursuit-er10"):
        first, second = (CASES[name].build(1) for _ in range(2))
        assert first.problem.fingerprint == second.problem.fingerprint
        np.testing.assert_array_equal(first.network.edges, second.network.edges)


def test_a_point_that_misses_the_constraints_is_seen():
    instance = CASES["opf-9"].build()
    answer = instance.solve()
    assert instance.violation(1.01 * answer.x) > 1e-3
    assert instance.objective(answer.x) < instance.objective(1.01 * answer.x)


def row(case, kind, rounds, error=1e-9, status="converged", seed=0):
    return {"case": case, "seed": seed, "kind": kind, "code": "x", "status": status, "rounds": rounds, "seconds": 1.0,
            "kkt": 1e-9, "x_error": error, "objective_error": error, "violation": 0.0}  # fmt: skip


def test_verdicts_count_what_is_solved_and_name_what_is_wrong():
    rows = [
        row("opf-9", "default", 200),
        row("opf-9", "tuned", 100),
        row("opf-30", "default", 400, error=1e-3),
        row("opf-30", "tuned", 100),
        row("opf-14", "default", 10, status="max_iters"),
        row("opf-14", "tuned", 10),
    ]
    text = "\n".join(report.verdicts(rows))
    assert "default: 1 of 3 instances solved" in text
    assert "median 2.00, worst 2.0 (opf-9, seed 0), over 1 instances" in text
    assert "opf-30 (seed 0, default)" in text
    assert "opf-14 (seed 0, max iters)" in text


def test_a_run_is_measured_against_the_answer_of_others():
    instance = CASES["opf-9"].build()
    found = measure.run(instance, "default", 0, instance.solve())
    assert found["status"] == "converged"
    assert not measure.wrong(found)
    assert measure.wrong(found | {"x_error": 1e-4})


def test_results_are_remembered_and_a_cut_line_is_skipped(tmp_path):
    memory = measure.Memory(tmp_path)
    memory.add(row("opf-9", "default", 5))
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"case": "opf-9", "se')
    measure.Memory(tmp_path).add(row("opf-9", "tuned", 7))
    again = measure.Memory(tmp_path)
    assert again.get(row("opf-9", "default", 0))["rounds"] == 5
    assert again.get(row("opf-9", "tuned", 0))["rounds"] == 7
    assert again.get(row("opf-9", "pga", 0)) is None
