"""Parties that are started again while others wait, agree on the start or iterate: nobody else has to be."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from test_frames import hello
from test_resume import stores, vote

from helpers.rehearsal import HERE, LONG, PINNED, make_job, solution
from npga.runtimes import BadMessage, ExitCode, MessageKind, PeerLost, read_job
from npga.runtimes._faults import Farewell, Reason
from npga.runtimes._neighbourhood import Neighbourhood
from npga.runtimes._wire import pack_bytes, pack_roll, read_farewell, run_number, unpack_roll
from npga.runtimes.net import own_identity

ITERATIONS = 300
# Says that it has begun, and then waits for a word before it sends its first message.
HELD = """
import os, sys, time
from pathlib import Path
from npga.runtimes import _saved_state, net
honest, here = _saved_state.PartyStates.agree, Path(sys.argv.pop())
def agree(*arguments):
    (here / f"begun-{os.getpid()}").touch()
    while os.environ["HOLD"] and (here / "hold").exists():
        time.sleep(0.02)
    return honest(*arguments)
_saved_state.PartyStates.agree = agree
net.main()
"""


class Stage:
    """Parties of one job, each with a log of all that it says; `starts` has the processes of each."""

    def __init__(self, directory, n, **options):
        self.path, *self.parts = make_job(
            directory, n, keys=True, **{"max_iters": ITERATIONS, "patience": 20.0} | options
        )
        self.directory, self.out, self.n = directory, directory / "out", n
        self.starts = {k: [] for k in range(n)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for party in (party for parties in self.starts.values() for party in parties):
            party.kill()
            party.wait()

    def start(self, k, *more, code=None, **environment):
        module = ["-m", "npga.runtimes.net"] if code is None else ["-c", code]
        options = [str(self.path), "--party", str(k), "--out", str(self.out), "--log", "info", *map(str, more)]
        with (self.directory / f"said{k}.txt").open("a") as log:
            party = subprocess.Popen(
                [sys.executable, *module, *options], stderr=log, stdout=log, env=os.environ | PINNED | environment
            )
        self.starts[k].append(party)
        return party

    def start_doomed(self, k, at, *more):
        """A process that kills itself before it sends the messages of a round."""
        options = ["--party", str(k), "--out", str(self.out), "--fault", "kill", "--at", str(at), *more]
        command = [sys.executable, str(HERE / "hostile.py"), str(self.path), *options]
        self.starts[k].append(subprocess.Popen(command, env=os.environ | PINNED))

    def said(self, k):
        path = self.directory / f"said{k}.txt"
        return path.read_text() if path.exists() else ""

    def wait_for(self, condition, may_end=False):
        """Until this is so; nobody's last process may end badly before, unless it is what is waited for."""
        deadline = time.monotonic() + LONG
        while not condition():
            ended = [k for k, parties in self.starts.items() if parties and parties[-1].poll() not in (None, 0)]
            assert may_end or not ended, {k: self.said(k)[-2000:] for k in ended}
            assert time.monotonic() < deadline, {k: self.said(k)[-2000:] for k in range(self.n)}
            time.sleep(0.02)

    def heard(self, k, party, times):
        """Party k has heard of so many processes of another."""
        lines = [line for line in self.said(k).splitlines() if "here now" in line]
        return sum(f"agent {party}" in line for line in lines) >= times

    def iteration(self, k):
        path = self.out / f"party{k}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return json.loads(lines[-1])["iteration"] if lines else 0

    def end(self):
        """Exit codes of the last process of each."""
        last = [parties[-1] for parties in self.starts.values()]
        self.wait_for(lambda: all(party.poll() is not None for party in last), may_end=True)
        return [self.starts[k][-1].returncode for k in range(self.n)]

    def same_bits(self, processes):
        """All have ended well, nobody had more than so many processes, and the result is that of one undisturbed."""
        assert self.end() == [0] * self.n, {k: self.said(k) for k in range(self.n)}
        assert [len(self.starts[k]) for k in range(self.n)] == processes
        x, lam, _ = solution(*self.parts, ITERATIONS)
        files = [np.load(self.out / f"agent{i}.npz") for i in range(self.n)]
        np.testing.assert_array_equal(np.concatenate([file["x"] for file in files]), x)
        np.testing.assert_array_equal(np.stack([file["lam"] for file in files]), lam)


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_restarts_do_not_chase_each_other(tmp_path, resume):
    """On a path 2 - 0 - 1 - 3 one end has begun and dawdles; the others are killed in turn, and come back."""
    with Stage(tmp_path, 4) as stage:
        held, hold = stage.directory, stage.directory / "hold"
        hold.touch()
        for k in range(4):
            stage.start(k, *resume, held, code=HELD, HOLD="yes" if k == 2 else "")
        stage.wait_for(lambda: len(list(held.glob("begun-*"))) == 4)
        for times, k, witness in ((2, 3, 0), (2, 1, 0), (3, 3, 0), (3, 1, 0)):
            stage.starts[k][-1].kill()
            stage.starts[k][-1].wait()
            stage.start(k, *resume, held, code=HELD, HOLD="")
            stage.wait_for(lambda k=k, witness=witness, times=times: stage.heard(witness, k, times))
        hold.unlink()
        stage.same_bits([1, 3, 1, 3])
        assert "going on from iteration" not in stage.said(0)


def test_the_others_go_on_with_a_party_that_was_killed_and_comes_back(tmp_path):
    """From the newest state that all have, in the same processes; again and again."""
    with Stage(tmp_path, 4, checkpoint_rounds=20) as stage:
        for k in (0, 1, 2):
            stage.start(k)
        stage.start_doomed(3, 45)
        assert stage.starts[3][0].wait(LONG) == -signal.SIGKILL
        stage.start_doomed(3, 105, "--resume")
        assert stage.starts[3][1].wait(LONG) == -signal.SIGKILL
        stage.start(3, "--resume")
        stage.same_bits([1, 1, 1, 3])
        assert stage.said(2).count("agent 3 has been started again") == 2  # three links away
        begun = re.findall(r"going on from iteration (\d+)", stage.said(2))
        assert [int(iteration) // 20 for iteration in begun] == [2, 5]


def test_a_party_that_leaves_while_others_wait_is_waited_for(tmp_path):
    with Stage(tmp_path, 3) as stage:
        stage.start(0)
        first = stage.start(1)
        stage.wait_for(lambda: stage.heard(0, 1, 1))
        first.send_signal(signal.SIGTERM)
        stage.wait_for(lambda: "agent 1 has left" in stage.said(0), may_end=True)
        assert first.wait(LONG) == 128 + signal.SIGTERM
        stage.start(1)
        stage.start(2)
        stage.same_bits([1, 2, 1])


def test_without_saved_states_nobody_can_go_back(tmp_path):
    with Stage(tmp_path, 3, checkpoint_rounds=0, max_iters=10**7, metrics_seconds=0.0) as stage:
        for k in range(3):
            stage.start(k)
        stage.wait_for(lambda: stage.iteration(0) > 10)
        stage.starts[1][-1].kill()
        stage.start(1)
        stage.wait_for(lambda: all(stage.starts[k][0].poll() is not None for k in (0, 2)), may_end=True)
        assert [stage.starts[k][0].returncode for k in (0, 2)] == [ExitCode.TRY_AGAIN] * 2
        assert "lost agent 1: it has been started again, and so must this party be: with --resume" in stage.said(0)


YESTERDAY = """
import time
from npga.runtimes import net
honest = time.time_ns
time.time_ns = lambda: honest() - 86_400_000_000_000
net.main()
"""


def test_a_clock_that_was_set_back_does_not_make_a_process_an_old_one(tmp_path):
    with Stage(tmp_path, 3, checkpoint_rounds=20) as stage:
        stage.start_doomed(0, 45)
        for k in (1, 2):
            stage.start(k)
        assert stage.starts[0][0].wait(LONG) == -signal.SIGKILL
        stage.start(0, "--resume", code=YESTERDAY)
        stage.same_bits([2, 1, 1])


# The rules one by one


@pytest.fixture
def near(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, connect=2.0)
    found = Neighbourhood(job := read_job(path), 0, own_identity(job, 0, None), 1000)
    found._hello = hello()
    return found


def test_waiting_ends_however_often_somebody_comes_anew(near):
    """Each new process is a sign of life, from which `connect` counts; all of it is bounded too."""

    async def wait():
        waiting, seconds = asyncio.ensure_future(near.gather(True)), 0
        while not waiting.done():
            await asyncio.sleep(0)
            near._learn({1: 1000 + seconds})
            near.pass_time(1.0, -1)
            seconds += 1
        with pytest.raises(PeerLost, match="did not connect within 2 s"):
            waiting.result()
        return seconds

    assert 15 < asyncio.run(wait()) < 30


def test_who_hears_of_a_newer_process_of_its_party_outdoes_it_or_ends(near):
    """At its start that was an earlier one, whose clock was ahead; in a run somebody has started another."""
    session = near.sessions[1]

    async def hear():
        near._learn({0: 1000})
        near._learn({0: 2000}, session)
        assert near._roll == (2001, 0, 0)
        near._has_begun = True
        near._learn({0: 3000}, session)
        assert near._roll == (2001, 0, 0)

    asyncio.run(hear())
    assert isinstance(session.failure, BadMessage)
    assert "agent 0: others have heard of a newer process of this party, and only one may run" in str(session.failure)


def test_a_roll_comes_back_and_anything_else_is_none():
    roll = (3, 0, 2**53 - 1)
    word = pack_roll(7, 1, roll)
    assert unpack_roll(word, 7, 1, 3) == roll
    assert unpack_roll(word, 8, 1, 3) is None
    assert unpack_roll(word, 7, 2, 3) is None
    assert unpack_roll(word, 7, 1, 4) is None
    assert unpack_roll(word[:-1], 7, 1, 3) is None
    assert unpack_roll(pack_roll(7, 1, (3, 0, 2**53)), 7, 1, 3) is None


def test_every_gathering_is_a_run_of_its_own():
    ends = hello(), hello(1)
    assert run_number(*ends, roll=(1, 2)) == run_number(*ends[::-1], roll=(1, 2))
    assert len({run_number(*ends, roll=roll) for roll in [(), (1, 2), (1, 3)]}) == 3


def test_a_farewell_of_an_earlier_process_is_passed_over(near):
    """Its successor is there already, and what it said last comes late."""
    bye = pack_bytes(7, 1, MessageKind.BYE, Farewell(Reason.REFUSED, 1).pack())
    assert isinstance(read_farewell(bye, 7, "agent 1"), PeerLost)
    assert read_farewell(bye, 8, "agent 1") is None
    assert read_farewell(bye[:-20], 7, "agent 1") is None
    session = near.sessions[1]
    session.link = 8
    assert near._hear(session, bye)
    assert session.failure is None
    session.link = 7
    assert not near._hear(session, bye)  # in a run it is for whoever reads


@pytest.mark.parametrize("other", [True, False, None])
def test_who_has_not_begun_goes_with_the_others(tmp_path, other):
    assert vote(stores(tmp_path, [], []), resume=[None, other]) == [0, 0]


def test_who_has_not_begun_does_not_make_others_lose_what_they_have(tmp_path):
    for error in vote(stores(tmp_path, [], [10, 20]), resume=[None, True]):
        assert "up to iteration 20" in str(error)


def test_who_has_begun_does_not_go_with_one_that_does_not_resume(tmp_path):
    for error in vote(stores(tmp_path, [0], []), resume=[True, False]):
        assert "start all with --resume, or none" in str(error)
