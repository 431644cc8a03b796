"""A party that dies, freezes, dawdles or lies: real processes, a deadline each, and every party says who and why."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from helpers.rehearsal import finish, make_job, solution, start_hostile, start_party
from npga.runtimes import ExitCode

VILLAIN = 2
LIES = {
    "nan": "is nan; expected finite",
    "inf": "is inf; expected finite",
    "huge": "is 1e+308; expected finite numbers below",
    "long": "in 150064 bytes arrived",
    "short": "3 numbers of type 'd'",
    "cut": "4 numbers of type 'd' in 61 bytes arrived; expected 4",
    "float32": "4 numbers of type 'f'",
    "run": "belongs to run 0000000000003039",
    "sender": "agent 77 sent it",
    "garbage": "it begins with",
    "late": "round 16 arrived; expected kind 1, round 17: a message came twice or late",
    "early": "round 18 arrived; expected kind 1, round 17: a message is missing",
    "duplicate": "round 17 arrived; expected kind 1, round 18: a message came twice or late",
}
SOME = ("nan", "huge", "long", "run", "duplicate")


def stage(tmp_path, fault, at=17, n=4, hostile_is_frozen=False, **options):
    """Run a job in which one party goes wrong; returns (exit code, last words) of the honest ones."""
    path, *_ = make_job(tmp_path, n, keys=True, max_iters=100_000, patience=3.0, outage=0.0, **options)
    out = tmp_path / "out"
    villain = start_hostile(path, VILLAIN, out, "--fault", fault, "--at", at)
    honest = [start_party(path, k, out) for k in range(n) if k != VILLAIN]
    try:
        return finish(honest)
    finally:
        if hostile_is_frozen:
            villain.kill()
        finish([villain])


def everyone_names(said, seen, told, code, villain=VILLAIN):
    """All name the villain; its neighbours say what they have seen, the others what they were told."""
    for found, words in said:
        assert found == code, words
        assert f"agent {villain}" in words
        assert seen in words or told in words
        assert "Traceback" not in words
    assert any(seen in words for _, words in said)


@pytest.mark.parametrize("fault", SOME)
def test_a_lie_is_refused_and_everyone_learns_whose_it_was(tmp_path, fault):
    everyone_names(stage(tmp_path, fault), LIES[fault], "refused a message from agent 2", ExitCode.REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(set(LIES) - set(SOME)))
def test_other_lies(tmp_path, fault):
    everyone_names(stage(tmp_path, fault), LIES[fault], "refused a message from agent 2", ExitCode.REFUSED)


STOPPING_LIES = {
    "lam": "what it shows of itself does not follow from what it sent",
    "z": "what it shows of itself does not follow from what it sent",
    "maxima": "its maximum is below a value that it had been told",
}


@pytest.mark.parametrize("fault", STOPPING_LIES)
def test_lies_in_the_stopping_round_that_can_be_checked_are_refused(tmp_path, fault):
    """The villain is a leaf, so its neighbour has heard all that its lam is made of."""
    said = stage(tmp_path, fault, n=3, version="nids", tol=1e-9, check_every=20)
    everyone_names(said, STOPPING_LIES[fault], "refused a message from agent 2", ExitCode.REFUSED)


def test_a_message_of_an_earlier_run_is_refused(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=40, patience=3.0, checkpoint_rounds=0)
    tape = tmp_path / "tape"
    for fault in ("record", "replay"):
        out = tmp_path / fault
        villain = start_hostile(path, 2, out, "--fault", fault, "--at", 20, "--tape", tape)
        said = finish([start_party(path, k, out) for k in range(2)])
        finish([villain])
        if fault == "record":
            assert [code for code, _ in said] == [0, 0], said
    everyone_names(said, "replayed, or another job", "refused a message from agent 2", ExitCode.REFUSED)


def test_a_killed_party_is_named_by_everyone(tmp_path):
    began = time.monotonic()
    said = stage(tmp_path, "kill", at=random.Random(0).randrange(5, 200))
    assert time.monotonic() - began < 40
    everyone_names(said, "lost agent 2", "", ExitCode.TRY_AGAIN)


def test_a_frozen_party_is_noticed_when_the_patience_is_over(tmp_path):
    """SIGSTOP leaves the connection open: unanswered pings tell, or nothing having arrived."""
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=10**6, patience=4.0, outage=0.0)
    out = tmp_path / "out"
    villain = start_hostile(path, VILLAIN, out, "--fault", "freeze", "--at", 30)
    try:
        said = finish([start_party(path, k, out) for k in range(2)])
    finally:
        villain.kill()
        finish([villain])
    for code, words in said:
        assert code == ExitCode.TRY_AGAIN
        assert "lost agent 2" in words or "gave up waiting for agent 2" in words


def test_a_silent_party_is_given_up(tmp_path):
    said = stage(tmp_path, "silent", hostile_is_frozen=True)
    everyone_names(said, "nothing arrived within 3 s", "gave up waiting for agent 2", ExitCode.TRY_AGAIN)


def test_the_words_of_a_crash_stay_at_home(tmp_path):
    said = stage(tmp_path, "crash")
    everyone_names(said, "agent 2 failed; its operator is told why", "", ExitCode.TRY_AGAIN)
    kept = [path.read_text() for k in range(4) if k != VILLAIN for path in (tmp_path / "out").glob(f"party{k}.json*")]
    assert len(kept) == 6
    assert not any("disk" in words for words in [*kept, *(words for _, words in said)])


def test_a_slow_party_only_takes_time(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 3, keys=True, max_iters=40, patience=5.0)
    out = tmp_path / "out"
    villain = start_hostile(path, VILLAIN, out, "--fault", "slow", "--at", -1)
    said = finish([villain, *(start_party(path, k, out) for k in range(2))])
    assert [code for code, _ in said] == [0, 0, 0], said
    x, _, _ = solution(problem, network, version, steps, 40)
    found = [np.load(out / f"agent{k}.npz")["x"] for k in range(2)]
    np.testing.assert_array_equal(np.concatenate(found), x[: sum(map(len, found))])


def test_divergence_is_reported_as_what_it_is(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=10**6)
    text = path.read_text()
    beta = next(line for line in text.splitlines() if line.startswith("beta"))
    path.write_text(text.replace(beta, "beta = 1e6"))
    said = finish([start_party(path, k, tmp_path / "out") for k in range(3)])
    assert all(code == ExitCode.FAILED and "no longer finite: reduce the steps" in words for code, words in said), said


@pytest.mark.parametrize("patience", [0.02, 0.04])
def test_words_about_waiting_do_not_get_in_the_way_of_messages(tmp_path, patience):
    """Honest parties of which one dawdles longer than the patience in every round, and less than the second after."""
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=60, patience=patience)
    out = tmp_path / "out"
    dawdling = start_hostile(path, VILLAIN, out, "--fault", "slow", "--at", -1)
    said = finish([dawdling, *(start_party(path, k, out) for k in range(2))])
    assert [code for code, _ in said] == [0, 0, 0], said


@pytest.mark.parametrize("word", ["waiting", "outage"])
def test_words_about_waiting_do_not_stretch_the_patience_for_ever(tmp_path, word):
    """Words are passed on, and who is further away waits longer: so all name the one that says them."""
    said = stage(tmp_path, word, n=3, hostile_is_frozen=True)
    told = "it gave up waiting for agent 2 in round 17"
    everyone_names(said, "gave up waiting for agent 2: nothing arrived within 3 s", told, ExitCode.TRY_AGAIN)


@pytest.mark.parametrize("word", ["waiting:1", "outage:1", "waiting:2"])
def test_whoever_passes_on_words_that_are_made_up_is_not_blamed(tmp_path, word):
    """The villain pretends that its words come from far away: it is named, or nobody is."""
    said = stage(tmp_path, word, n=3, hostile_is_frozen=True)
    for code, words in said:
        assert code == ExitCode.TRY_AGAIN, words
        assert "waiting for somebody" in words or "waiting for agent 2" in words or "waiting for agent ?" in words
