"""MPI: the same bits as in one process on any number of ranks, and the counts of the solver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import npga
from helpers.families import VERSIONS
from helpers.rehearsal import HERE, LONG, PINNED, make_job, solution
from npga.runtimes import Alone, ExitCode, Layout, MessageKind, Party, launch, read_job
from npga.runtimes._launch import _oversubscribe, find_mpiexec
from npga.runtimes._wire import HEADER_SIZE

ITERATIONS = 30


def mpiexec(ranks, *arguments, launcher=None):
    launcher = [find_mpiexec()] if launcher is None else [launcher, *_oversubscribe(launcher)]
    command = [*launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=os.environ | PINNED, check=False)


def same_bits_for_all_ten(tmp_path, ranks, launcher=None):
    n = 28 if ranks == 28 else 13
    made = {v: make_job(tmp_path / v, n, 6, v, max_iters=ITERATIONS) for v in VERSIONS}
    jobs = [made[v][0] for v in VERSIONS]
    done = mpiexec(ranks, HERE / "many_jobs.py", f"mpi{ranks}", 0, *jobs, launcher=launcher)
    assert done.returncode == 0, done.stderr
    for name, (path, problem, network, version, steps) in made.items():
        x, lam, traffic = solution(problem, network, version, steps, ITERATIONS)
        out = path.parent / f"mpi{ranks}"
        files = [np.load(out / f"agent{i}.npz") for i in range(n)]
        rows = [json.loads((out / f"party{k}.json").read_text()) for k in range(ranks)]
        np.testing.assert_array_equal(np.concatenate([file["x"] for file in files]), x, err_msg=name)
        np.testing.assert_array_equal(np.stack([file["lam"] for file in files]), lam, err_msg=name)
        assert {row["rounds"] for row in rows} == {traffic.rounds}
        assert sum(row["messages"] for row in rows) == traffic.messages
        assert sum(row["floats_sent"] for row in rows) == traffic.floats_sent
        if ranks == n:  # then every message of an agent is one on the wire
            floats = traffic.floats_sent + sum(row["control_floats_sent"] for row in rows)
            messages = traffic.messages + sum(row["control_messages"] for row in rows)
            assert sum(row["bytes_sent"] for row in rows) == 8 * floats + HEADER_SIZE * messages


@pytest.mark.parametrize("ranks", [2, 5, 13, 28])
def test_any_number_of_ranks_gives_the_same_bits_for_all_ten_versions(tmp_path, ranks):
    same_bits_for_all_ten(tmp_path, ranks)


def test_agents_that_share_a_rank_send_a_boundary_vector_once(tmp_path):
    """Agents 0..5 on a complete graph and two ranks: each side sends three vectors, not nine."""
    network = npga.Network.complete(6)
    borders = Layout.even(network, 2).borders(0)
    assert borders[1].ours == (0, 1, 2)
    assert borders[1].theirs == (3, 4, 5)


def test_launch_and_the_plain_command_agree(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 5, 4, "npga-i", max_iters=50)
    done = launch(path, "mpi", tmp_path / "out")
    x, _, _ = solution(problem, network, version, steps, 50)
    np.testing.assert_array_equal(done.x, x)
    plain = mpiexec(3, "-m", "npga.runtimes.mpi", path, "--out", tmp_path / "plain")
    assert plain.returncode == 0, plain.stderr
    found = [np.load(tmp_path / "plain" / f"agent{i}.npz")["x"] for i in range(5)]
    np.testing.assert_array_equal(np.concatenate(found), x)


@pytest.fixture
def open_mpi(monkeypatch):
    """The launcher of Open MPI, with its library chosen; Debian's is older than MPI 4."""
    libraries = ("/usr/lib/x86_64-linux-gnu/libmpi.so.40", "/usr/lib/aarch64-linux-gnu/libmpi.so.40")
    library = next((path for path in libraries if os.path.exists(path)), None)
    launcher = "/usr/bin/mpiexec.openmpi"
    if library is None or not os.path.exists(launcher):
        pytest.skip("Open MPI is not installed: no mpiexec.openmpi, or no libmpi.so.40")
    monkeypatch.setenv("MPI4PY_LIBMPI", library)
    return launcher


@pytest.mark.parametrize("ranks", [5, 13])
def test_open_mpi_gives_the_same_bits(tmp_path, open_mpi, ranks):
    same_bits_for_all_ten(tmp_path, ranks, open_mpi)


def test_launch_with_open_mpi(tmp_path, open_mpi):
    path, problem, network, version, steps = make_job(tmp_path, 5, 4, "nids", max_iters=50)
    done = launch(path, "mpi", tmp_path / "out", mpiexec=open_mpi)
    np.testing.assert_array_equal(done.x, solution(problem, network, version, steps, 50)[0])


def hostile(tmp_path, fault):
    path, *_ = make_job(tmp_path, 4, max_iters=1_000_000, patience=3.0)
    began = time.monotonic()
    done = mpiexec(4, HERE / "hostile_mpi.py", path, tmp_path / "out", fault)
    assert time.monotonic() - began < 40
    assert done.returncode != 0
    return done.stderr + done.stdout


LIES = {
    "nan": "refused a message from agent 2: entry 0 is nan",
    "run": "refused a message from agent 2: it belongs to run 0000000000003039",
    "sender": "it says that agent 77 sent it",
    "late": "a message came twice or late",
    "crash": "the disk is full",
    "silent": "gave up waiting for agent 2",
}


@pytest.mark.parametrize("fault", ["nan", "silent"])
def test_a_bad_rank_ends_the_job_and_is_named(tmp_path, fault):
    assert LIES[fault] in hostile(tmp_path, fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(set(LIES) - {"nan", "silent"}))
def test_other_bad_ranks(tmp_path, fault):
    assert LIES[fault] in hostile(tmp_path, fault)


def test_a_frozen_rank_ends_the_job_and_is_named(tmp_path):
    assert "gave up waiting for agent 2: nothing arrived within 3 s, not even" in hostile(tmp_path, "freeze")


STOPS = {
    "start": "gave up waiting for another rank: not all had come within 12 s",
    "hello": "the ranks did not come together within 12 s; try again",
    "end": "results are written, but not all ranks ended within 8 s; try again",
    "finalize": "results are written, but MPI did not end within 4 s; try again",
}


@pytest.mark.parametrize("place", STOPS)
def test_a_rank_that_stops_where_all_wait_for_each_other_ends_the_job_in_time(tmp_path, place):
    """Every collective has a deadline, start and end included; results are on disk before the last barrier."""
    stop_a_rank(tmp_path, place)


@pytest.mark.parametrize("place", STOPS)
def test_a_rank_of_open_mpi_that_stops_ends_the_job_in_time(tmp_path, open_mpi, place):
    stop_a_rank(tmp_path, place, open_mpi)


def stop_a_rank(tmp_path, place, launcher=None):
    path, problem, network, version, steps = make_job(tmp_path, 4, max_iters=40, patience=8.0, connect=12.0)
    out, began = tmp_path / "out", time.monotonic()
    done = mpiexec(4, HERE / "hostile_mpi.py", path, out, f"stop at {place}", launcher=launcher)
    assert time.monotonic() - began < 50
    # MPICH's mpiexec may tell how it ended the rank that stood still in `Finalize`.
    killed = [signal.SIGKILL] if place == "finalize" and launcher is None else []
    assert done.returncode in (ExitCode.TRY_AGAIN, *killed), done
    assert STOPS[place] in done.stderr + done.stdout
    if place in ("end", "finalize"):
        found = [np.load(out / f"agent{i}.npz")["x"] for i in range(4)]
        np.testing.assert_array_equal(np.concatenate(found), solution(problem, network, version, steps, 40)[0])
        states = [json.loads((out / f"party{k}.json").read_text())["state"] for k in range(4)]
        assert states == ["finished"] * 4


def test_a_killed_rank_ends_the_job_and_resume_gives_the_same_bits(tmp_path):
    path, problem, network, version, steps = make_job(
        tmp_path, 5, 4, max_iters=8000, checkpoint_rounds=50, patience=60.0, metrics_seconds=0.01
    )
    out = tmp_path / "out"

    def kill_one(_processes):
        deadline, saved = time.monotonic() + LONG, out / "checkpoints"
        while not all(list(saved.glob(f"agent{i}-[1-9]*.npz")) for i in range(5)) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(json.loads((out / "party3.json").read_text())["pid"], signal.SIGKILL)

    with pytest.raises(npga.runtimes.LaunchError, match="agent 3"):
        launch(path, "mpi", out, watch=kill_one)
    done = launch(path, "mpi", out, resume=True)
    assert json.loads((out / "party0.json").read_text())["resumed_from"] > 0
    np.testing.assert_array_equal(done.x, solution(problem, network, version, steps, 8000)[0])


@pytest.mark.parametrize(("version", "overlaps"), [("extra", True), ("npga-ii", True), ("nids", False)])
def test_the_local_step_runs_while_messages_travel_where_the_version_allows_it(tmp_path, version, overlaps):
    """In the first round of an iteration: before `meanwhile` the step is not yet made, unless the message needs it."""
    path, problem, network, chosen, steps = make_job(tmp_path, 4, 3, version, max_iters=5)
    made = []

    class Watching(Alone):
        def exchange(self, kind, number, vectors, meanwhile=lambda: None):
            agent = party.agents[0]
            if kind is MessageKind.DATA and number == agent.state.rounds + 1:
                before = agent._ahead is not None and agent._ahead[0] is agent.state
                meanwhile()
                made.append((before, agent._ahead[0] is agent.state))
            return {}

    party = Party(read_job(path), Layout(network, [range(4)]), 0, Watching())
    done = party.run()
    assert made == [(not overlaps, True)] * 5
    x = np.concatenate([done.x[i] for i in range(4)])
    np.testing.assert_array_equal(x, solution(problem, network, chosen, steps, 5)[0])


def test_without_mpi4py_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    from npga.runtimes.mpi import import_mpi

    with pytest.raises(npga.errors.MissingExtraError, match=r"npga\[mpi\]"):
        import_mpi()


def test_a_missing_mpiexec_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(npga.errors.InputError, match=r"npga\[mpi\]"):
        find_mpiexec()
