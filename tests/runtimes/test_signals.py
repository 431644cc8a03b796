"""Being told to end, and what becomes of the others: real processes, a deadline each."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.rehearsal import finish, make_job, solution, start, start_party
from npga.runtimes import ExitCode, launch
from npga.runtimes._launch import _lock


def wait_for(condition, seconds=40):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(out, k):
    """Whether party k has written a line about its iterations."""
    path = out / f"party{k}.jsonl"
    return path.exists() and any(json.loads(line)["iteration"] > 20 for line in path.read_text().splitlines()[-1:])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_saves_says_farewell_and_nothing_is_lost(tmp_path, number):
    path, problem, network, version, steps = make_job(
        tmp_path, 3, keys=True, max_iters=10**7, checkpoint_rounds=10**6, metrics_seconds=0.05
    )
    out = tmp_path / "out"
    parties = [start_party(path, k, out) for k in range(3)]
    try:
        wait_for(lambda: running(out, 1))
        parties[1].send_signal(number)
    finally:
        said = finish(parties, 40)
    assert [code for code, _ in said] == [ExitCode.TRY_AGAIN, 128 + number, ExitCode.TRY_AGAIN], said
    assert f"stopped by {number.name}" in said[1][1]
    assert all("it was stopped" in words for _, words in (said[0], said[2]))
    states = [json.loads((out / f"party{k}.json").read_text())["state"] for k in range(3)]
    assert states == ["failed", "stopped", "failed"]
    newest = max(int(file.stem.split("-")[1]) for file in (out / "checkpoints").glob("agent*.npz"))
    path.write_text(path.read_text().replace("max_iters = 10000000", f"max_iters = {newest + 20}"))
    done = launch(path, "grpc", out, resume=True)
    assert json.loads((out / "party0.json").read_text())["resumed_from"] >= newest - 3
    np.testing.assert_array_equal(done.x, solution(problem, network, version, steps, newest + 20)[0])


def test_a_stall_within_the_patience_only_takes_time(tmp_path):
    """2.5 s without a word, twice the keepalive that used to end a run whatever the patience was."""
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=4000, patience=20.0, metrics_seconds=0.05)
    out = tmp_path / "out"
    parties = [start_party(path, k, out) for k in range(3)]
    try:
        wait_for(lambda: running(out, 1))
        parties[1].send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        parties[1].send_signal(signal.SIGCONT)
    finally:
        said = finish(parties, 60)
    assert [code for code, _ in said] == [0, 0, 0], said


@pytest.mark.parametrize("engine", ["grpc", "mpi"])
def test_a_killed_launch_leaves_no_orphan(tmp_path, engine):
    path, *_ = make_job(tmp_path, 3, max_iters=10**7, metrics_seconds=0.05)
    out = tmp_path / "out"
    code = f"from npga.runtimes import launch; launch({str(path)!r}, {engine!r}, {str(out)!r})"
    launcher = start("-c", code)
    try:
        wait_for(lambda: all(running(out, k) for k in range(3)))
    finally:
        launcher.kill()
        launcher.communicate(timeout=10)
    pids = [json.loads((out / f"party{k}.json").read_text())["pid"] for k in range(3)]
    wait_for(lambda: not any(alive(pid) for pid in pids), 20)


def test_a_process_that_drops_the_first_word_ends_with_the_second(tmp_path):
    """As a library does in whose callback the exception arrives."""
    with _lock(tmp_path):
        deaf = start(
            "-c",
            f"""
from pathlib import Path
import time
from npga.runtimes import inprocess
inprocess._ORDERLY_SECONDS = 0.5
with inprocess._heeding_signals():
    inprocess.end_with(Path({str(tmp_path / "launch.lock")!r}))
    print("waiting", flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            print("dropped", flush=True)
""",
        )
        assert "waiting" in deaf.stdout.readline()
        time.sleep(0.5)
        assert deaf.poll() is None
    said, _ = deaf.communicate(timeout=20)
    assert "dropped" in said
    assert deaf.returncode == -signal.SIGTERM


def alive(pid):
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def test_a_second_launch_into_one_directory_is_refused(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=5)
    (tmp_path / "out").mkdir()
    with _lock(tmp_path / "out"), pytest.raises(Exception, match="another launch is running"):
        launch(path, "inprocess", tmp_path / "out")
    assert launch(path, "inprocess", tmp_path / "out").iterations == 5


def test_the_exit_code_tells_whether_the_tolerance_is_met(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=30, tol=1e-12)
    code, _ = finish([start("-m", "npga.runtimes.inprocess", path, "--out", tmp_path / "a")], 40)[0]
    assert code == ExitCode.NOT_MET
    assert not launch(path, "inprocess", tmp_path / "b").converged
