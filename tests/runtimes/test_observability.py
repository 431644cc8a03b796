"""What a party tells of itself: lines, words, metrics, and the picture of a run in the terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from helpers.rehearsal import LONG, finish, make_job, start_party
from npga.cli import application
from npga.errors import InputError
from npga.runtimes import Alone, Layout, Party, read_job, read_last, read_metrics
from npga.runtimes._timeline import Logbook, health, serve_metrics

app = application()
run = CliRunner().invoke


def finished_run(directory):
    """A real run in one process, and where it left its files."""
    path, *_ = make_job(directory, 3, max_iters=400, tol=1e-4, check_every=20, metrics_seconds=0.0)
    out = directory / "out"
    said = run(app, ["launch", str(path), "--out", str(out)])
    assert said.exit_code == 0, said.output
    return path, out


def until(condition):
    """Wait for it, with a deadline that no load reaches."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_lines_have_residual_steps_and_the_times_of_a_round(tmp_path):
    path, out = finished_run(tmp_path)
    lines, steps = read_metrics(out)[0], read_job(path).steps
    assert lines[0]["residual"] is None
    assert lines[-1]["residual"] == json.loads((out / "summary.json").read_text())["kkt"]
    for line in lines:
        assert line["steps"] == vars(steps)
        assert line["waiting_per_round"] >= 0
    rounds = [line["rounds"] + line["control_rounds"] for line in lines]
    spent = sum(
        (line["waiting_per_round"] + line["computing_per_round"]) * max(later - before, 1)
        for line, before, later in zip(lines, [0, *rounds], rounds, strict=False)
    )
    assert spent == pytest.approx(lines[-1]["seconds"])


def test_a_party_that_waits_says_for_whom(tmp_path):
    link = Alone()
    link.waits_for, link.waited = (2,), {2: 0.5, 4: 0.25}
    logbook = Logbook(tmp_path / "party0.jsonl", 0, 1e9, link)
    logbook.iteration = 7
    logbook.beat()
    until(lambda: (tmp_path / "party0.jsonl").stat().st_size)
    logbook.close()
    line = read_last(tmp_path)[0]
    assert (line["iteration"], line["waits_for"], line["waited_for"]) == (7, [2], {"2": 0.5, "4": 0.25})
    (tmp_path / "party0.json").write_text('{"state": "running", "agents": [0, 1, 2]}')
    said = run(app, ["watch", str(tmp_path), "--once"])
    assert said.exit_code == 0, said.output
    assert re.search(r"0 to 2 .* running .* party 2, now .* s ago", said.output)


def test_watch_shows_a_finished_run_and_ends(tmp_path):
    _, out = finished_run(tmp_path)
    said = run(app, ["watch", str(out)])
    assert said.exit_code == 0, said.output
    last = read_last(out)[0]
    assert f"1 finished; iteration {last['iteration']}; residual at most {last['residual']:.1e}" in said.output
    assert run(app, ["watch", str(tmp_path / "nowhere")]).exit_code == 2


def test_watch_follows_a_run_until_it_ends(tmp_path):
    _, out = finished_run(tmp_path)
    status = out / "party0.json"
    ended = status.read_text()
    status.write_text(ended.replace('"finished"', '"running"'))
    threading.Timer(
        1.0, status.write_text, [ended.replace('"finished"', '"failed"').replace("{", '{"error": "lost", ', 1)]
    ).start()
    said = run(app, ["watch", str(out)])
    assert said.exit_code == 0, said.output
    assert "party 0: lost" in said.output
    assert "1 failed" in said.output


def test_log_levels(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=4, tol=1e-30, check_every=2)

    def said(*options):
        command = [sys.executable, "-m", "npga.runtimes.inprocess", str(path), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False).stderr.splitlines()

    assert said() == []
    assert [line.split(":")[0] for line in said("--log", "info")] == ["iteration 2", "iteration 4"]
    rounds = [line for line in said("--log", "debug") if line.startswith("round")]
    assert [line.split(" (")[1].split(")")[0] for line in rounds].count("data") == 4
    assert "invalid choice: 'loud'" in said("--log", "loud")[-1]


def read(server, path):
    host, port = server.server_address
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=LONG) as answer:
        return answer.read().decode()


def test_metrics_are_served_on_this_machine_and_hold_nothing_private(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=40, tol=1e-30, check_every=20)
    job = read_job(path)
    party = Party(job, Layout(job.network, [range(3)]), 0, Alone())
    server = serve_metrics("0", party.logbook, job.times.patience)
    try:
        assert server.server_address[0] == "127.0.0.1"
        assert json.loads(read(server, "/health"))["state"] == "connecting"
        done = party.run()
        text = read(server, "/metrics")
        values = dict(re.findall(r"^npga_(\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE))
        assert float(values["rounds_total"]) == done.rounds
        assert float(values["residual"]) == done.kkt
        assert float(values["beta"]) == job.steps.beta
        assert set(values) == {
            "rounds_total", "control_rounds_total", "messages_total", "control_messages_total", "bytes_sent_total",
            "bytes_received_total", "waiting_seconds_total", "computing_seconds_total", "iteration", "residual",
            "silence_seconds", "beta", "gamma", "theta",
        }  # fmt: skip
        assert json.loads(read(server, "/health")) | {"seconds": 0} == {
            "state": "running", "iteration": 39, "seconds": 0, "waits_for": [],
        } | {"iteration": party.logbook.iteration}  # fmt: skip
        with pytest.raises(urllib.error.HTTPError, match="404"):
            read(server, "/private")
        party.link.waits_for, party.logbook.last_round = (1,), -1e9
        assert health(party.logbook, job.times.patience)[0] is False
        with pytest.raises(urllib.error.HTTPError, match="503"):
            read(server, "/health")
        with pytest.raises(InputError, match="choose another port"):
            serve_metrics(f"127.0.0.1:{server.server_address[1]}", party.logbook, 1.0)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(InputError, match="HOST:PORT"):
        serve_metrics("here", party.logbook, 1.0)


@pytest.mark.slow
def test_watch_names_the_party_that_is_frozen(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=10**7, keys=True, patience=60.0, connect=60.0, metrics_seconds=0.0)
    out = tmp_path / "out"
    out.mkdir()
    processes = [start_party(path, k, out, "--metrics", "0") for k in range(3)]
    try:
        until(lambda: all((out / f"party{k}.jsonl").exists() for k in range(3)))
        until(lambda: all(row.get("iteration", 0) > 10 for row in read_last(out).values()))
        processes[1].send_signal(signal.SIGSTOP)
        until(lambda: any(row.get("waits_for") == [1] for row in read_last(out).values()))
        assert "party 1, now" in run(app, ["watch", str(out), "--once"]).output
    finally:
        processes[1].send_signal(signal.SIGCONT)
        processes[0].terminate()
        finish(processes)
