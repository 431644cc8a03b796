"""Being told to end, and what becomes of the others: real processes, a deadline each."""

from __future__ import annotations

import json
import os
import signal
import time

import numpy as np
import pytest

from helpers.rehearsal import LONG, alive, finish, make_job, solution, start, start_party, wait_for
from npga.runtimes import ExitCode, LaunchError, launch
from npga.runtimes._launch import _lock


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
        said = finish(parties)
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


def test_a_rank_that_is_stopped_tells_the_others_and_all_save(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=10**7, checkpoint_rounds=10**6, metrics_seconds=0.05)
    out = tmp_path / "out"

    def stop_one(_processes):
        wait_for(lambda: running(out, 1))
        os.kill(json.loads((out / "party1.json").read_text())["pid"], signal.SIGTERM)

    with pytest.raises(LaunchError, match="agent 1: stopped by SIGTERM"):
        launch(path, "mpi", out, watch=stop_one)
    rows = [json.loads((out / f"party{k}.json").read_text()) for k in range(3)]
    assert [row["state"] for row in rows] == ["failed", "stopped", "failed"]
    assert [row["code"] for row in rows] == [ExitCode.TRY_AGAIN, 128 + signal.SIGTERM, ExitCode.TRY_AGAIN]
    assert all("lost agent" in row["error"] and "it was stopped" in row["error"] for row in (rows[0], rows[2]))
    assert newest_in_common(out) > 20


def newest_in_common(out):
    names = [(out / "checkpoints").glob(f"agent{i}-*.npz") for i in range(3)]
    return max(set.intersection(*({int(file.stem.split("-")[1]) for file in files} for files in names)))


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
        said = finish(parties)
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
        launcher.communicate(timeout=LONG)
    pids = [json.loads((out / f"party{k}.json").read_text())["pid"] for k in range(3)]
    wait_for(lambda: not any(alive(pid) for pid in pids))


IN_A_CALLBACK = """
import asyncio, os, signal, sys
from npga.runtimes import net

class Loop(asyncio.SelectorEventLoop):
    def call_soon(self, callback, *arguments, context=None):
        caller = sys._getframe(1).f_locals.get("self")
        if 20 < self.round < 10**6 and "handle_events" in str(getattr(caller, "_callback", "")):
            self.round = 10**6
            os.kill(os.getpid(), signal.SIGTERM)  # the handler runs before the next line
        return super().call_soon(callback, *arguments, context=context)

def exchange(self, kind, number, *more):
    loop.round = max(loop.round, number)
    return honest(self, kind, number, *more)

loop, honest = Loop(), net.GrpcLink.exchange
loop.round, net.GrpcLink.exchange, asyncio.new_event_loop = 0, exchange, lambda: loop
net.main()
"""


def test_a_signal_inside_a_callback_of_grpc_ends_the_party_in_order(tmp_path):
    """There an exception is printed as ignored, and the message that the callback was about to hand over is lost."""
    path, *_ = make_job(tmp_path, 2, keys=True, max_iters=10**7, checkpoint_rounds=10**6, metrics_seconds=0.05)
    out = tmp_path / "out"
    parties = [start("-c", IN_A_CALLBACK, path, "--party", 0, "--out", out), start_party(path, 1, out)]
    said = finish(parties)
    assert [code for code, _ in said] == [128 + signal.SIGTERM, ExitCode.TRY_AGAIN], said
    assert "ignored" not in said[0][1]
    assert "agent 0: it was stopped" in said[1][1]
    assert json.loads((out / "party0.json").read_text())["state"] == "stopped"
    assert len(list((out / "checkpoints").glob("agent0-[1-9]*.npz"))) == 2


@pytest.mark.parametrize("engine", ["inprocess", "grpc", "mpi"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_launch_and_all_its_processes_at_once_loses_nothing(tmp_path, engine, number):
    """As Ctrl-C in a terminal and systemd send it; the launcher's own word to its processes comes right after it."""
    path, *_ = make_job(tmp_path, 3, max_iters=10**7, metrics_seconds=0.05, checkpoint_rounds=10**6)
    out, parties = tmp_path / "out", 1 if engine == "inprocess" else 3
    code = f"from npga.runtimes import launch; launch({str(path)!r}, {engine!r}, {str(out)!r})"
    launcher = start("-c", code, start_new_session=True)
    try:
        wait_for(lambda: all(running(out, k) for k in range(parties)))
    finally:
        os.killpg(launcher.pid, number)
        launcher.communicate(timeout=LONG)
    rows = [out / f"party{k}.json" for k in range(parties)]
    wait_for(lambda: all(json.loads(row.read_text())["state"] in ("stopped", "failed") for row in rows))
    assert newest_in_common(out) > 20


WHILE_ENDING = """
import os, signal
from npga.runtimes import inprocess
from npga.runtimes._party import Party
from npga.runtimes._saved_state import PartyStates

status, save, words = inprocess.write_status, PartyStates.save_recent, iter([signal.SIGTERM])

def tell():
    for word in words:  # once
        os.kill(os.getpid(), word)

def late_status(out, party, values):
    if values["state"] != "running" and {place!r} == "status":
        tell()
    status(out, party, values)

def late_save(self):
    if {place!r} == "save":
        tell()
    save(self)

def fail(self, *arguments):
    if self._iteration > 20:
        {ending}
    return share(self, *arguments)

share, Party._share = Party._share, fail
inprocess.write_status, PartyStates.save_recent = late_status, late_save
inprocess.main()
"""
ENDINGS = {
    "stopped": ("os.kill(os.getpid(), signal.SIGINT)", 128 + signal.SIGINT),
    "failed": ("raise OSError('disk full')", ExitCode.FAILED),
}


@pytest.mark.parametrize("place", ["save", "status"])
@pytest.mark.parametrize("state", list(ENDINGS))
def test_a_signal_to_a_process_that_ends_changes_nothing(tmp_path, state, place):
    """As the launcher's word after a terminal's, or one that comes while a failure is written down."""
    path, *_ = make_job(tmp_path, 2, max_iters=10**7, checkpoint_rounds=10**6)
    out, (ending, expected) = tmp_path / "out", ENDINGS[state]
    code = WHILE_ENDING.format(ending=ending, place=place)
    said = finish([start("-c", code, path, "--out", out)])
    assert [code for code, _ in said] == [expected], said
    row = json.loads((out / "party0.json").read_text())
    assert (row["state"], row["code"]) == (state, expected)
    assert len(list((out / "checkpoints").glob("agent0-*.npz"))) == 3  # the start and the two newest


def test_a_signal_after_the_end_ends_the_process_at_once(tmp_path):
    """A run that has finished has nothing left to save, and the end of MPI may take a minute."""
    path, *_ = make_job(tmp_path, 2, max_iters=5)
    out = tmp_path / "out"
    code = """
import os, signal
from npga.runtimes import inprocess
try:
    inprocess.main()
except SystemExit:
    os.kill(os.getpid(), signal.SIGTERM)
"""
    (ended, words), *_ = finish([start("-c", code, path, "--out", out)])
    assert ended == -signal.SIGTERM, words
    assert "Traceback" not in words
    assert json.loads((out / "party0.json").read_text())["state"] == "finished"


def test_a_process_that_drops_the_first_word_is_killed(tmp_path):
    with _lock(tmp_path):
        deaf = start(
            "-c",
            f"""
from pathlib import Path
import time
from npga.runtimes import inprocess
inprocess._ORDERLY_SECONDS = 0.5
inprocess._heed_signals()
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
    said, _ = deaf.communicate(timeout=LONG)
    assert "dropped" in said
    assert deaf.returncode == -signal.SIGKILL


def test_a_full_disk_is_one_sentence_at_home_and_a_farewell_elsewhere(tmp_path):
    """A limit on the size of files: the metrics of party 1 meet it after some iterations."""
    resource = pytest.importorskip("resource")
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=10**7, metrics_seconds=0.0)
    out = tmp_path / "out"
    limits = (30_000, 30_000)
    full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)}
    parties = [start_party(path, k, out, **(full if k == 1 else {})) for k in range(3)]
    said = finish(parties)
    assert [code for code, _ in said] == [ExitCode.TRY_AGAIN, ExitCode.FAILED, ExitCode.TRY_AGAIN], said
    assert "File too large" in said[1][1]
    assert "Traceback" not in said[1][1]
    assert all(
        "agent 1 failed; its operator is told why" in words and "too large" not in words for _, words in said[::2]
    )
    assert json.loads((out / "party1.json").read_text())["state"] == "failed"
    assert newest_in_common(out) > 0


def test_a_second_launch_into_one_directory_is_refused(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=5)
    (tmp_path / "out").mkdir()
    with _lock(tmp_path / "out"), pytest.raises(Exception, match="another launch is running"):
        launch(path, "inprocess", tmp_path / "out")
    assert launch(path, "inprocess", tmp_path / "out").iterations == 5


def test_the_exit_code_tells_whether_the_tolerance_is_met(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=30, tol=1e-12)
    code, _ = finish([start("-m", "npga.runtimes.inprocess", path, "--out", tmp_path / "a")])[0]
    assert code == ExitCode.NOT_MET
    assert not launch(path, "inprocess", tmp_path / "b").converged
