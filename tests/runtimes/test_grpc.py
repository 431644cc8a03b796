"""gRPC with mutual TLS on loopback: the same bits as in one process, and the counts of the solver."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

import numpy as np
import pytest

import npga
from helpers.families import VERSIONS
from helpers.rehearsal import HERE, LONG, finish, free_addresses, instance, make_job, solution, start
from npga.runtimes import ExitCode, launch, read_job, write_job
from npga.runtimes._wire import HEADER_SIZE

ITERATIONS = 30


def read(out, n):
    files = [np.load(out / f"agent{i}.npz") for i in range(n)]
    rows = [json.loads((out / f"party{i}.json").read_text()) for i in range(n)]
    return np.concatenate([file["x"] for file in files]), np.stack([file["lam"] for file in files]), rows


def test_thirteen_processes_give_the_same_bits_for_all_ten_versions(tmp_path):
    made = {v: make_job(tmp_path / v, 13, 6, v, keys=True, max_iters=ITERATIONS) for v in VERSIONS}
    jobs = [made[v][0] for v in VERSIONS]
    said = finish([start(HERE / "many_jobs.py", "grpc", k, *jobs) for k in range(13)])
    assert [code for code, _ in said] == [0] * 13, said
    for name, (path, problem, network, version, steps) in made.items():
        x, lam, traffic = solution(problem, network, version, steps, ITERATIONS)
        found_x, found_lam, rows = read(path.parent / "grpc", 13)
        np.testing.assert_array_equal(found_x, x, err_msg=name)
        np.testing.assert_array_equal(found_lam, lam, err_msg=name)
        assert {row["rounds"] for row in rows} == {traffic.rounds}
        assert sum(row["messages"] for row in rows) == traffic.messages
        assert sum(row["floats_sent"] for row in rows) == traffic.floats_sent


def test_bytes_on_the_wire_are_the_messages_that_were_counted(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 5, 7, "npga-ii", max_iters=20)
    done = launch(path, "grpc", tmp_path / "out")
    assert [log.read_text() for log in (tmp_path / "out" / "logs").iterdir()] == [""] * 5  # of its end nothing is said
    x, _, traffic = solution(problem, network, version, steps, 20)
    np.testing.assert_array_equal(done.x, x)
    assert (done.messages, done.floats_sent) == (traffic.messages, traffic.floats_sent)
    # Everything but the hellos, whose length varies with the clock: a header for each message, 8 bytes for each number.
    numbers = done.floats_sent + done.control_floats_sent
    framed = HEADER_SIZE * (done.messages + done.control_messages) + 8 * numbers
    hellos = done.bytes_sent - framed
    edges = 2 * len(network.edges)
    assert 200 * edges < hellos < 600 * edges


def test_float32_and_long_messages(tmp_path):
    """A message of 100 000 numbers is longer than the transport's window, and both ends write before they read."""
    rng = np.random.default_rng(0)
    agents = [
        npga.Agent(rng.standard_normal((100_000, 2)).astype(np.float32), npga.functions.SquaredNorm(1.0))
        for _ in range(3)
    ]
    problem = npga.Problem(agents, npga.functions.SquaredLoss(rng.standard_normal(100_000).astype(np.float32), 1e-5))
    network, version, steps = npga.Network.complete(3), npga.version("nids"), npga.Steps(1e-3, 1e-3)
    path = write_job(tmp_path, problem, network, version, steps, max_iters=5, addresses=free_addresses(3))
    done = launch(path, "grpc", tmp_path / "out")
    x, lam, _ = solution(problem, network, version, steps, 5)
    assert done.lam.dtype == np.float32
    np.testing.assert_array_equal(done.x, x)
    np.testing.assert_array_equal(done.lam, lam)


def test_several_agents_in_a_process(tmp_path):
    parties = [[0, 3], [1, 2, 6], [4], [5, 7]]
    path, problem, network, version, steps = make_job(tmp_path, 8, 5, "aug-dgm", max_iters=25, parties=parties)
    done = launch(path, "grpc", tmp_path / "out")
    x, _, traffic = solution(problem, network, version, steps, 25)
    np.testing.assert_array_equal(done.x, x)
    assert done.messages == traffic.messages


def test_parties_that_only_dial(tmp_path):
    """Only the centre of the star can be reached."""
    problem, _, version, steps = instance(4, 5)
    star = npga.Network.star(4)
    addresses = [*free_addresses(1), None, None, None]
    path = write_job(tmp_path, problem, star, version, steps, max_iters=25, addresses=addresses)
    done = launch(path, "grpc", tmp_path / "out")
    np.testing.assert_array_equal(done.x, solution(problem, star, version, steps, 25)[0])


def test_a_network_that_changes(tmp_path):
    """Parties exchange along all links, use those of the iteration, and find out by themselves when they are done."""
    problem, network, version, _ = instance(5, 4, "extra")
    halves = npga.Network.sequence([network.edges[::2].tolist(), network.edges[1::2].tolist()], 5)
    steps = npga.Steps(0.5 / problem.l, problem.l / problem.sigma**2, 0.8)
    options = {"max_iters": 20_000, "tol": 1e-8, "addresses": free_addresses(5)}
    done = launch(write_job(tmp_path, problem, halves, version, steps, **options), "grpc", tmp_path / "out")
    assert done.converged
    np.testing.assert_array_equal(done.x, solution(problem, halves, version, steps, done.iterations)[0])
    star = npga.reference(problem).x
    assert np.linalg.norm(done.x - star) < 1e-5 * np.linalg.norm(star)


def test_keys_are_private_and_neighbours_without_an_address_are_refused(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, addresses=[None, None, None], max_iters=5)
    job = read_job(path)
    for party in job.parties:
        assert stat.S_IMODE(party.key.stat().st_mode) == 0o600
    code, said = finish([start("-m", "npga.runtimes.net", path, "--party", 0)])[0]
    assert code == ExitCode.BAD_INPUT
    assert "without an address" in said
    job.parties[0].key.chmod(0o644)
    code, said = finish([start("-m", "npga.runtimes.net", path, "--party", 0)])[0]
    assert code == ExitCode.BAD_INPUT
    assert "chmod 600" in said


def test_check_tells_what_is_wrong_with_each_link(tmp_path):
    path, *_ = make_job(tmp_path / "good", 3, max_iters=5, keys=True)
    good = subprocess.run(
        [sys.executable, "-m", "npga.cli", "check", str(path)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert good.returncode == 0, good.stdout + good.stderr
    assert good.stdout.count("same job and p") == 2 * len(read_job(path).network.edges)
    other = path.with_name("other.toml")
    other.write_text(path.read_text().replace("max_iters = 5", "max_iters = 6"))
    sides = [start("-m", "npga.runtimes.preflight", job, "--party", k) for k, job in enumerate((other, path, path))]
    rows = [json.loads(line) for side in sides for line in side.communicate(timeout=LONG)[0].splitlines()]
    bad = [row for row in rows if not row["ok"]]
    assert {row["party"] for row in bad if "compare [stop] of job.toml" in row["detail"]} >= {0}
    assert all("agent 0" in row["subject"] or row["party"] == 0 for row in bad)


@pytest.mark.parametrize("missing", ["certificate", "agent"])
def test_a_missing_file_is_named(tmp_path, missing):
    path, *_ = make_job(tmp_path, 3, max_iters=5, keys=True)
    victim = tmp_path / ("certificates/1.crt" if missing == "certificate" else "private/agent0.npz")
    victim.unlink()
    code, said = finish([start("-m", "npga.runtimes.net", path, "--party", 0)])[0]
    assert code == ExitCode.BAD_INPUT
    assert victim.name in said
    assert "Traceback" not in said
