"""`npga.compare`: tuned alike, counted alike, resumed, refused with a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import npga
from helpers.families import random_problem
from npga import functions as fn
from npga.cli import application
from npga.errors import InputError
from npga.solver import Record, Trace
from npga.tuning import Entry
from npga.tuning._compare import last_above

NETWORK = npga.Network.erdos_renyi(6, 0.5, seed=1)
PROBLEM = random_problem(1, 6, 3, "quadratic", "zero", "equality")


@pytest.fixture(scope="module")
def found():
    methods = ["nids", npga.version("nids", chebyshev=2), "extra", "pga", "dc-admm", "dual-exact"]
    return npga.compare(PROBLEM, NETWORK, methods, budget=20_000, seeds=2)


def test_everything_is_solved_and_counted(found):
    assert found.labels == ("nids", "nids, 2 rounds", "extra", "pga", "dc-admm", "dual-exact")
    assert all(row["status"] == "converged" for row in found.rows)
    for row in found.rows:
        rounds = {"pga": 0, "nids, 2 rounds": 2}.get(row["method"], 1)
        assert row["rounds"] == rounds * row["iterations"]
        assert row["floats_sent"] == 2 * len(NETWORK.edges) * 3 * row["rounds"]
        assert min(error for _, _, error in row["curve"]) <= 1e-10
    assert found.draws == [0, 1]


def test_no_method_needs_fewer_iterations_than_the_centralised_one(found):
    medians = {line["method"]: line["iterations"] for line in found.summary()}
    assert medians["pga"] <= 1.1 * min(medians.values())


def test_the_count_is_the_last_time_above_the_tolerance():
    gaps = [1.0, 1e-3, 1e-9, 1e-6, 1e-9, 1e-10]
    trace = Trace([Record(10 * k, 10 * k, gap, gap, 0.0, 0.0) for k, gap in enumerate(gaps)])
    assert trace.iteration[last_above(trace, "gap", 1e-8)] == 40
    assert last_above(trace, "gap", 2.0) == 0


def test_the_run_stays_below_from_there_on(found):
    row = found.of("extra")[0]
    steps = npga.Steps(*(row[name] for name in ("alpha", "beta", "gamma", "theta")))
    star = npga.reference(PROBLEM).x
    run = npga.solve(PROBLEM, NETWORK, "extra", steps, gap_tol=1e-10, tol=None, reference=star, record_every=1)
    above = run.trace.iteration[run.trace.gap > 1e-8]
    assert above[-1] < row["iterations"] <= above[-1] + max(2, run.iterations // 1000)


def test_tables_and_figures(found, tmp_path):
    assert "dc-admm" in found.table
    assert found.to_latex().count(r"\\") == 7
    assert found.to_html().count("<tr>") == 7
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert len(found.to_pandas()) == 12
    for k, options in enumerate(
        [{}, {"kind": "profile"}, {"by": "seconds", "cost": (1e-3, 1e-2)}, {"by": "iterations"}]
    ):
        found.plot(tmp_path / f"{k}.png", **options)
        assert (tmp_path / f"{k}.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="cost"):
        found.plot(by="seconds")
    with pytest.raises(InputError, match="did you mean"):
        found.of("nid")


def test_inner_iterations_are_those_up_to_the_last_time_above():
    found = npga.compare(PROBLEM, NETWORK, ["id2a"], budget=2_000).of("id2a")[0]
    assert found["inner_iterations"] == found["rounds"] == found["gradients"]
    assert found["messages"] == 2 * len(NETWORK.edges) * found["rounds"]


def test_solve_as_it_comes_is_a_line_too():
    found = npga.compare(PROBLEM, NETWORK, ["npga"]).of("npga")[0]
    star = npga.reference(PROBLEM).x
    run = npga.solve(PROBLEM, NETWORK, tol=None, gap_tol=1e-10, reference=star)
    assert found["status"] == "converged"
    assert 0 < found["iterations"] <= run.iterations


def test_where_the_tuner_finds_nothing_a_search_from_classical_steps_follows(monkeypatch):
    def nothing(*args, **options):
        raise InputError("no stable steps were found")

    monkeypatch.setattr("npga.tuning._compare.tune", nothing)
    found = npga.compare(PROBLEM, NETWORK, ["nids", "dcpa"], budget=20_000)
    assert [row["status"] for row in found.rows] == ["converged", "converged"]
    assert found.of("dcpa")[0]["theta"] == 1.0


def test_a_consensus_problem_is_solved_by_the_rows_of_puda():
    rng = np.random.default_rng(3)
    functions = [fn.LeastSquares(rng.standard_normal((5, 2)), rng.standard_normal(5)) for _ in range(6)]
    consensus = npga.ConsensusProblem(functions)
    found = npga.compare(consensus, NETWORK, ["nids", "extra", "dc-admm"], budget=5_000)
    assert [row["status"] for row in found.rows] == ["converged", "converged", "refused"]
    assert found.of("nids")[0]["rounds"] == found.of("nids")[0]["iterations"]
    with pytest.raises(InputError, match="puda solves P2"):
        npga.solve(PROBLEM, NETWORK, method="puda")
    assert "ConsensusProblem" in npga.compare(PROBLEM, NETWORK, ["puda"]).rows[0]["why"]


def test_an_interrupted_comparison_goes_on(tmp_path, monkeypatch):
    store = tmp_path / "rows.jsonl"
    first = npga.compare(PROBLEM, NETWORK, ["dc-admm"], budget=5_000, store=store)
    with store.open("a") as file:
        file.write('{"key": "half a li')  # what a kill leaves
    monkeypatch.setattr("npga.tuning._compare._Case.run", None)
    again = npga.compare(PROBLEM, NETWORK, ["dc-admm"], budget=5_000, store=store)
    assert again.rows == tuple(json.loads(json.dumps(first.rows)))


def test_what_cannot_be_solved_has_a_line_that_says_why():
    ball = random_problem(2, 6, 3, "quadratic", "zero", "ball")
    found = npga.compare(
        ball, NETWORK, [Entry("mine", version=npga.version("nids"), steps=npga.Steps(0.1, 0.1)), "dc-admm"]
    )
    assert [row["status"] for row in found.rows] == ["converged", "refused"]
    assert "Equality" in found.table


def test_a_run_that_does_not_arrive_says_how_far_it_came(monkeypatch):
    slow = Entry("slow", version=npga.version("nids"), steps=npga.Steps(1e-4, 1e-4))
    row = npga.compare(PROBLEM, NETWORK, [slow], max_iters=50).rows[0]
    assert row["status"] == "limit"
    assert row["why"].startswith("after 50 iterations its error is ")
    monkeypatch.setattr("npga.tuning._compare._INNER", 2)
    inside = Entry("inside", method="id2a", steps=npga.Steps(1e-4, 1e-4))
    row = npga.compare(PROBLEM, NETWORK, [inside], max_iters=20).rows[0]
    assert row["status"] == "limit"
    assert "inner ones" in row["why"]


def test_inner_iterations_count_towards_the_budget(monkeypatch):
    spent, solve = [], npga.tuning._compare.solve_with

    def counted(*args, **options):
        result = solve(*args, **options)
        spent.append(result.iterations + result.inner_iterations)
        return result

    monkeypatch.setattr("npga.tuning._compare.solve_with", counted)
    found = npga.compare(PROBLEM, NETWORK, ["id2a"], budget=6_000)
    assert found.rows[0]["status"] == "converged"
    assert sum(spent[:-2]) <= 2 * 6_000  # the last two runs are not the search's


def test_ctrl_c_is_no_result(tmp_path, monkeypatch):
    def pressed(*args, **options):
        return solve(*args, **options | {"callback": lambda *_: True})

    solve = npga.tuning._compare.solve_with
    monkeypatch.setattr("npga.tuning._compare.solve_with", pressed)
    with pytest.raises(KeyboardInterrupt):
        npga.compare(PROBLEM, NETWORK, ["dc-admm"], store=tmp_path / "rows.jsonl")
    assert not (tmp_path / "rows.jsonl").exists()


def test_lines_of_a_figure_differ_and_the_cheapest_is_named_first():
    labels = [*npga.networks.version_rows(), *(f"m{k}" for k in range(20))]
    curve = [[k, k, 10.0**-k] for k in range(11)]

    def figure(dearest):
        costs = np.linspace(100, dearest, len(labels)).round().astype(int)[::-1]
        rows = [
            {
                "draw": 0,
                "method": label,
                "status": "converged",
                "rounds": int(cost),
                "floats_per_round": 1.0,
                "curve": curve,
            }
            for label, cost in zip(labels, costs, strict=True)
        ]
        return npga.tuning.Comparison(tuple(rows), tuple(labels), 1e-8).plot().axes[0]

    axes = figure(900)
    assert axes.get_xscale() == "linear"
    assert [line.get_text() for line in axes.get_legend().get_texts()] == labels[::-1]
    drawn = [line for line in axes.lines if line.get_label() in labels and line.get_label() != "dcda"]
    looks = {
        (line.get_color(), str(line.get_linestyle()), str(line._dash_pattern), line.get_linewidth()) for line in drawn
    }
    assert len(looks) == len(drawn)
    assert figure(9000).get_xscale() == "log"


def test_draws_may_be_a_function():
    def draw(seed):
        return random_problem(seed, 6, 3, "quadratic", "zero", "equality"), NETWORK

    mine = Entry("mine", version=npga.version("nids"), steps=npga.Steps(0.1, 0.1))
    found = npga.compare(draw, methods=[mine], seeds=[4, 7])
    assert found.draws == [4, 7]
    for seed, row in zip([4, 7], found.of("mine"), strict=True):
        alone = npga.compare(*draw(seed), methods=[mine])
        assert row["iterations"] == alone.of("mine")[0]["iterations"]
    assert found.of("mine")[0]["iterations"] != found.of("mine")[1]["iterations"]


def test_bad_arguments_fail_first():
    with pytest.raises(InputError, match="did you mean 'nids'"):
        npga.compare(PROBLEM, NETWORK, ["nidss"])
    with pytest.raises(InputError, match="twice"):
        npga.compare(PROBLEM, NETWORK, ["nids", "nids"])
    with pytest.raises(InputError, match="without a network"):
        npga.compare(PROBLEM, methods=["nids"])


def test_the_command(tmp_path):
    out = CliRunner().invoke(
        application(), ["compare", "elastic-net", "--methods", "extra,pga", "--budget", "20000", "--out", str(tmp_path)]
    )
    assert out.exit_code == 0, out.output
    assert "extra" in out.output
    assert {"comparison.txt", "comparison.tex", "comparison.html", "gap.png", "profile.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    wrong = CliRunner().invoke(application(), ["compare", "elastic-nett"])
    assert wrong.exit_code == 2


def test_the_same_budget_gives_the_same_rows():
    runs = [npga.compare(PROBLEM, NETWORK, ["nids", "dc-admm"], budget=4_000) for _ in range(2)]
    for one, two in zip(*(run.rows for run in runs), strict=True):
        assert all(
            one[name] == two[name] for name in ("iterations", "rounds", "alpha", "beta", "gamma", "theta", "curve")
        )
    with pytest.raises(InputError, match="expected iterations"):
        npga.compare(PROBLEM, NETWORK, ["nids"], budget=10.0)
