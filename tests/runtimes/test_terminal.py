"""The commands launch, check, keygen and timeline, and the metrics behind the last one."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import npga.cli
from helpers.rehearsal import LONG, make_job, solution
from npga.cli import application
from npga.errors import InputError
from npga.runtimes import ExitCode, plot_timeline, read_metrics

app = application()
run = CliRunner().invoke


def test_launch_writes_results_summary_metrics_and_draws_them(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 4, max_iters=60, metrics_seconds=0.0)
    out = tmp_path / "out"
    said = run(app, ["launch", str(path), "--out", str(out)])
    assert said.exit_code == 0, said.output
    x, lam, traffic = solution(problem, network, version, steps, 60)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["rounds"], summary["messages"], summary["floats_sent"]) == (
        traffic.rounds, traffic.messages, traffic.floats_sent,
    )  # fmt: skip
    assert summary["seconds"] > summary["slowest_seconds"] > 0
    assert f"{traffic.messages} messages" in said.output
    with np.load(out / "solution.npz") as file:
        np.testing.assert_array_equal(file["x"], x)
        np.testing.assert_array_equal(file["lam"], lam)
    lines = read_metrics(out)[0]
    assert [line["iteration"] for line in lines] == [*range(1, 61), 60]
    for line in lines:
        assert line["seconds"] == pytest.approx(line["waiting"] + line["computing"])
    figure = tmp_path / "timeline.png"
    assert run(app, ["timeline", str(out), "--figure", str(figure)]).exit_code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_killed_process_leaves_readable_metrics(tmp_path):
    (tmp_path / "party0.jsonl").write_text(
        '{"time": 2.0, "seconds": 1.0, "waiting": 0.4, "computing": 0.6, "iteration": 3}\n{"time": 3.0, "sec'
    )
    (tmp_path / "party1.jsonl").write_text(
        '{"time": 2.5, "seconds": 1.0, "waiting": 0.4, "computing": 0.6, "iteration": 3, "error": "lost agent 0"}\n'
    )
    assert [len(lines) for lines in read_metrics(tmp_path).values()] == [1, 1]
    assert plot_timeline(tmp_path, tmp_path / "t.svg").stat().st_size > 1000
    with pytest.raises(InputError, match="no metrics"):
        read_metrics(tmp_path / "nowhere")


def test_errors_are_one_sentence(tmp_path):
    for arguments in (
        ["launch", str(tmp_path / "no.toml")],
        ["keygen", str(tmp_path / "no.toml")],
        ["check", "no.toml"],
    ):
        said = run(app, arguments)
        assert said.exit_code == 2
        assert "does not exist" in said.output
    path, *_ = make_job(tmp_path, 3)
    said = run(app, ["launch", str(path), "--engine", "mpy"])
    assert said.exit_code == 2
    assert "did you mean 'mpi'" in said.output


def test_keygen_makes_one_or_all_and_never_overwrites(tmp_path):
    path, *_ = make_job(tmp_path, 3)
    assert run(app, ["keygen", str(path), "--party", "1"]).exit_code == 0
    assert sorted(file.name for file in (tmp_path / "certificates").iterdir()) == ["1.crt"]
    said = run(app, ["keygen", str(path)])
    assert said.exit_code == 2
    assert "exists already" in said.output


def test_progress_is_reported_at_every_check(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=60, tol=1e-30, check_every=20)
    command = [sys.executable, "-m", "npga.runtimes.inprocess", str(path), "--progress"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == ExitCode.NOT_MET
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["iteration 20", "iteration 40", "iteration 60"]


def test_without_typer_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"npga\[cli\]"):
        npga.cli.main()
