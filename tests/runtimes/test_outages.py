"""Connections that are cut, stall, are half closed or slow: the run goes on by itself, with the same bits."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from helpers.proxy import Rehearsal
from helpers.rehearsal import finish
from npga.runtimes import ExitCode


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
        run.same_bits()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "seconds"), [(4, 0.6), (200_000, 65536 / 1e6)], ids=["a round trip of 1.2 s", "200,000 numbers at 1 MB/s"]
)
def test_the_patience_and_no_keepalive_decides_how_slow_a_path_may_be(tmp_path, p, seconds):
    with Rehearsal(tmp_path, 3, p=p, max_iters=4, patience=60.0) as run:
        for proxy in run.proxies:
            proxy.delay(seconds)  # for each piece of 64 kB at most
        run.same_bits()


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
        said = finish(run.parties)
        assert [code for code, _ in said] == [ExitCode.TRY_AGAIN] * 3, said
        assert all("no connection for 2 s" in words or "it lost agent" in words for _, words in said)
        assert all(list((run.out / "checkpoints").glob(f"agent{i}-[1-9]*.npz")) for i in range(3))


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
