"""Coming together: in any order, more than once, under the eyes of `npga check`, and among strangers."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers.rehearsal import LONG, PINNED, finish, make_job, solution, start, start_party

ITERATIONS = 40
IDLE = """
import socket, sys, time
from contextlib import suppress
host, port = sys.argv[1].rsplit(":", 1)
held = []
for _ in range(int(sys.argv[2])):
    with suppress(OSError):
        held.append(socket.create_connection((host, int(port)), 30))
print(len(held), flush=True)
time.sleep(600)
"""


def prepare(tmp_path, n=3, **options):
    path, *parts = make_job(tmp_path, n, keys=True, max_iters=ITERATIONS, **options)
    text = path.read_text()
    return path, parts, [line.split('"')[1] for line in text.splitlines() if line.startswith("address")]


def listening(address):
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5):
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on {address}")


def same_bits(tmp_path, parties, parts):
    said = finish(parties)
    assert [code for code, _ in said] == [0] * len(parties), said
    found = [np.load(tmp_path / "out" / f"agent{i}.npz")["x"] for i in range(len(parties))]
    np.testing.assert_array_equal(np.concatenate(found), solution(*parts, ITERATIONS)[0])


def test_parties_come_late_again_and_while_others_check(tmp_path):
    """The first waits for several times the patience; the second is killed and started again; somebody checks."""
    path, parts, addresses = prepare(tmp_path, patience=1.0)
    out = tmp_path / "out"
    first, second = start_party(path, 0, out), start_party(path, 1, out)
    listening(addresses[0])
    time.sleep(3)
    second.kill()
    finish([second])
    hurried = tmp_path / "hurried.toml"
    hurried.write_text(path.read_text().replace("connect = 120.0", "connect = 60.0"))
    code, checked, _ = _check(hurried, 2)
    rows = [json.loads(line) for line in checked.splitlines()]
    assert any(row["ok"] and row["subject"] == "link to agent 0" for row in rows), (code, rows)
    time.sleep(1)
    same_bits(tmp_path, [first, start_party(path, 1, out), start_party(path, 2, out)], parts)


def _check(job, k):
    process = start("-m", "npga.runtimes.preflight", job, "--party", k)
    said, error = process.communicate(timeout=LONG)
    return process.returncode, said, error


SLOW_START = """
import time
from npga.runtimes import _saved_state, net
honest = _saved_state.PartyStates.agree
def agree(*arguments):
    time.sleep(8)
    return honest(*arguments)
_saved_state.PartyStates.agree = agree
net.main()
"""


def test_the_first_message_may_take_as_long_as_coming_together(tmp_path):
    """Else parties that start slowly give each other up, start again, and never meet."""
    path, parts, _ = prepare(tmp_path, 4, patience=1.0)
    out = tmp_path / "out"
    slow = start("-c", SLOW_START, path, "--party", 0, "--out", out)
    same_bits(tmp_path, [slow, *(start_party(path, k, out) for k in (1, 2, 3))], parts)


def test_nobody_listens_once_all_have_come(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=10**7, metrics_seconds=0.05, patience=120.0)
    addresses = [line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("address")]
    out = tmp_path / "out"
    parties = [start_party(path, 0, out)]
    listening(addresses[0])
    parties += [start_party(path, k, out) for k in (1, 2)]
    try:
        deadline = time.monotonic() + LONG
        while not all(_iteration(out, k) > 0 for k in range(3)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for host, port in (address.rsplit(":", 1) for address in addresses):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), 5).close()
    finally:
        for party in parties:
            party.terminate()
        finish(parties)


def _iteration(out, k):
    path = out / f"party{k}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1])["iteration"] if lines else 0


def test_idle_connections_do_not_use_up_the_descriptors(tmp_path):
    """Eleven hundred strangers who never say a word, and 1024 descriptors."""
    path, parts, addresses = prepare(tmp_path)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "npga.runtimes.net", str(path), "--party", "0", "--out", str(out)]
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | PINNED,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
    )  # fmt: skip
    listening(addresses[0])
    strangers = [start("-c", IDLE, addresses[0], 550) for _ in range(2)]
    try:
        assert all(int(stranger.stdout.readline()) > 0 for stranger in strangers)
        same_bits(tmp_path, [first, start_party(path, 1, out), start_party(path, 2, out)], parts)
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.communicate()
