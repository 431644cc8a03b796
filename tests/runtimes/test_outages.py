"""Connections that are cut, stall, are half closed or slow: the run goes on by itself, with the same bits."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time

import numpy as np
import pytest

from helpers.proxy import Proxy
from helpers.rehearsal import finish, free_addresses, make_job, solution, start_party
from npga.runtimes import ExitCode


class Rehearsal:
    """A job whose parties reach one another through proxies, one in front of each."""

    def __init__(self, directory, n, **options):
        fronts, self.backs = free_addresses(n), free_addresses(n)
        self.path, self.problem, self.network, self.version, self.steps = make_job(
            directory, n, keys=True, addresses=fronts, metrics_seconds=0.05, **options
        )
        self.n, self.out, self.options = n, directory / "out", options
        text = self.path.read_text()
        self.jobs = [directory / f"job{k}.toml" for k in range(n)]
        for job, front, back in zip(self.jobs, fronts, self.backs, strict=True):
            job.write_text(text.replace(f'"{front}"', f'"{back}"'))
        self.proxies = [Proxy(front, back) for front, back in zip(fronts, self.backs, strict=True)]

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        for proxy in self.proxies:
            self._stack.enter_context(proxy)
        self.parties = [self.start(k) for k in range(self.n)]
        return self

    def start(self, k, *more):
        return start_party(self.jobs[k], k, self.out, "--progress", *more)

    def __exit__(self, *_):
        for party in self.parties:
            party.kill()
        self._stack.close()

    def iteration(self, k=0):
        path = self.out / f"party{k}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return json.loads(lines[-1])["iteration"] if lines else 0

    def wait_for(self, iteration, k=0, seconds=120):
        deadline = time.monotonic() + seconds
        while self.iteration(k) < iteration:
            assert time.monotonic() < deadline
            assert all(party.poll() in (None, 0) for party in self.parties), finish(self.parties, 1)
            time.sleep(0.05)

    def same_bits(self, seconds=180):
        said = finish(self.parties, seconds)
        assert [code for code, _ in said] == [0] * self.n, said
        x, lam, _ = solution(self.problem, self.network, self.version, self.steps, self.options["max_iters"])
        files = [np.load(self.out / f"agent{i}.npz") for i in range(self.n)]
        np.testing.assert_array_equal(np.concatenate([file["x"] for file in files]), x)
        np.testing.assert_array_equal(np.stack([file["lam"] for file in files]), lam)
        return [words for _, words in said]


def test_connections_that_are_cut_are_opened_again(tmp_path):
    with Rehearsal(tmp_path, 3, max_iters=1500, patience=20.0) as run:
        for iteration in (100, 500, 900):
            run.wait_for(iteration)
            for proxy in run.proxies:
                proxy.cut()
        words = run.same_bits()
    assert any("is connected again" in line for line in words)


@pytest.mark.parametrize("end", [0, 1])
def test_a_half_closed_connection_is_opened_again(tmp_path, end):
    """Only one end is told; the other finds out when its pings are not answered, or when it is dialled anew."""
    with Rehearsal(tmp_path, 3, max_iters=1000, patience=6.0) as run:
        run.wait_for(200)
        run.proxies[0].half_close(end)
        run.same_bits()


@pytest.mark.slow
def test_a_stall_longer_than_the_patience_is_an_outage(tmp_path):
    with Rehearsal(tmp_path, 4, max_iters=1000, patience=3.0) as run:
        run.wait_for(200)
        for proxy in run.proxies[:2]:
            proxy.stall()
        time.sleep(12)
        for proxy in run.proxies[:2]:
            proxy.flow()
        run.same_bits()


@pytest.mark.slow
def test_a_slow_path_only_takes_time(tmp_path):
    with Rehearsal(tmp_path, 3, max_iters=60, patience=4.0) as run:
        run.proxies[0].delay(0.4)
        run.same_bits(300)


@pytest.mark.slow
def test_an_outage_of_one_link_does_not_end_those_far_away(tmp_path):
    """A path of parties: the last two cannot talk for several times the patience, and all others wait for them."""
    with Rehearsal(tmp_path, 5, max_iters=600, patience=2.0, version="nids") as run:
        run.wait_for(100)
        for proxy in run.proxies[:2]:
            proxy.refuse()
            proxy.cut()
        time.sleep(15)
        for proxy in run.proxies[:2]:
            proxy.refuse(False)
        run.same_bits()


def test_beyond_the_outage_everyone_ends_with_try_again_and_state_on_disk(tmp_path):
    with Rehearsal(tmp_path, 3, max_iters=10**6, patience=5.0, outage=2.0) as run:
        run.wait_for(100)
        for proxy in run.proxies:
            proxy.refuse()
            proxy.cut()
        said = finish(run.parties, 120)
        assert [code for code, _ in said] == [ExitCode.TRY_AGAIN] * 3, said
        assert all("no connection for 2 s" in words or "it lost agent" in words for _, words in said)
        assert all(list((run.out / "checkpoints").glob(f"agent{i}-*.npz")) for i in range(3))


def test_long_messages_are_sent_again(tmp_path):
    """Longer than the transport's window, so that both ends write while they read."""
    with Rehearsal(tmp_path, 3, p=60_000, max_iters=60, patience=20.0) as run:
        for iteration in (5, 20, 35):
            run.wait_for(iteration)
            for proxy in run.proxies:
                proxy.cut()
        run.same_bits()


def test_a_frozen_process_that_wakes_goes_on(tmp_path):
    with Rehearsal(tmp_path, 3, max_iters=1500, patience=2.0) as run:
        run.wait_for(200)
        run.parties[1].send_signal(signal.SIGSTOP)
        timer = threading.Timer(7.0, run.parties[1].send_signal, [signal.SIGCONT])
        timer.start()
        run.same_bits()
