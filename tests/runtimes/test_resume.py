"""Fail-stop and resume: nothing that was saved is lost, and the result has the bits of an uninterrupted run."""

from __future__ import annotations

import json
import random
import shutil
import threading

import numpy as np
import pytest

import npga
from helpers.rehearsal import LONG, finish, make_job, solution, start_hostile, start_party
from npga.errors import InputError
from npga.runtimes import ExitCode, launch, read_job, read_metrics
from npga.runtimes._saved_state import PartyStates, SavedStates
from npga.solver import State


@pytest.mark.parametrize("version", ["diging"])
def test_kill_one_of_thirteen_and_resume(tmp_path, version):
    path, problem, network, chosen, steps = make_job(
        tmp_path, 13, 5, version, keys=True, outage=0.0, max_iters=150, checkpoint_rounds=20
    )
    out, at = tmp_path / "out", random.Random(version).randrange(60, 280)
    villain = start_hostile(path, 7, out, "--fault", "kill", "--at", at)
    said = finish([start_party(path, k, out) for k in range(13) if k != 7])
    assert finish([villain])[0][0] == -9
    assert all(code == ExitCode.TRY_AGAIN and "lost agent 7" in words for code, words in said), said
    done = launch(path, "grpc", out, resume=True)
    rows = [json.loads((out / f"party{k}.json").read_text()) for k in range(13)]
    begun = {row["resumed_from"] for row in rows}
    assert len(begun) == 1
    assert max(at - 2 * 22, 1) / 2 - 10 < begun.pop() <= at / 2
    x, lam, _ = solution(problem, network, chosen, steps, 150)
    np.testing.assert_array_equal(done.x, x)
    np.testing.assert_array_equal(done.lam, lam)


def test_a_stopping_run_resumes_to_the_same_end(tmp_path):
    path, *_ = make_job(tmp_path, 3, 4, "nids", keys=True, tol=1e-9, check_every=30, checkpoint_rounds=40, outage=0.0)
    villain = start_hostile(path, 0, tmp_path / "out", "--fault", "kill", "--at", 130)
    finish([start_party(path, k, tmp_path / "out") for k in (1, 2)])
    finish([villain])
    resumed = launch(path, "grpc", tmp_path / "out", resume=True)
    straight = launch(path, "inprocess", tmp_path / "straight")
    assert resumed.iterations == straight.iterations
    assert resumed.converged
    np.testing.assert_array_equal(resumed.x, straight.x)


def state(iteration):
    rng = np.random.default_rng(iteration)
    arrays = [rng.standard_normal(3) for _ in range(5)]
    return State(*arrays, kept=(rng.standard_normal(3),), iteration=iteration, rounds=2 * iteration)


def test_two_generations_are_kept_and_read_back_bit_for_bit(tmp_path):
    states = SavedStates(tmp_path, 4, "digest")
    assert states.iterations() == []
    for k in (10, 20, 30):
        states.save(state(k))
    assert states.iterations() == [20, 30]
    found, _ = states.load(20)
    assert (found.iteration, found.rounds) == (20, 40)
    for name, array in state(20).arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array)
    (tmp_path / "agent4-40.part").write_bytes(b"half a file, left by a process that died while writing")
    (tmp_path / "agent44-40.npz").write_bytes(b"another agent's")
    assert states.iterations() == [20, 30]


def test_a_checkpoint_of_another_job_is_refused(tmp_path):
    SavedStates(tmp_path, 0, "one").save(state(10))
    with pytest.raises(InputError, match="belongs to a job with digest one"):
        SavedStates(tmp_path, 0, "two").load(10)
    with pytest.raises(InputError, match=r"has checkpoints of iterations \[10\]"):
        SavedStates(tmp_path, 0, "one").load(20)


def test_an_unfinished_run_is_not_overwritten_by_accident(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=100, checkpoint_rounds=30)
    job = read_job(path)
    for i in range(3):
        # killed parties: they have no iteration in common, and each alone is unfinished
        SavedStates(tmp_path / "out" / "checkpoints", i, job.digest).save(state(30 + 30 * i))
    (tmp_path / "out" / "party0.jsonl").write_text('{"of": "that run"}\n')
    (tmp_path / "out" / "party0.json").write_text("{}")
    with pytest.raises(InputError, match=r"unfinished run .* pass --resume to go on from them, or choose another"):
        launch(path, "inprocess", tmp_path / "out")
    said = finish([start_party(path, 0, tmp_path / "out")])
    assert said[0][0] == ExitCode.BAD_INPUT
    assert "unfinished run" in said[0][1]
    assert (tmp_path / "out" / "party0.jsonl").read_text().startswith('{"of": "that run"}\n')
    assert len(list((tmp_path / "out" / "checkpoints").iterdir())) == 3


@pytest.mark.parametrize("engine", ["inprocess", "mpi", "grpc"])
def test_a_launch_begins_its_lines_anew_and_a_resumed_one_goes_on_with_them(tmp_path, engine):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=60, checkpoint_rounds=30)
    out = tmp_path / "out"

    def mark(*parties):
        for k in parties:
            with (out / f"party{k}.jsonl").open("a") as file:
                file.write(json.dumps({"time": 0.0, "marked": True}) + "\n")

    def marked():
        return [k for k, lines in read_metrics(out).items() if any("marked" in line for line in lines)]

    launch(path, "grpc", out)
    mark(0, 1, 2)
    assert marked() == [0, 1, 2]
    launch(path, engine, out)
    assert marked() == []
    assert list(read_metrics(out)) == ([0] if engine == "inprocess" else [0, 1, 2])
    mark(0)
    launch(path, engine, out, resume=True)
    assert marked() == [0]
    assert "marked" not in read_metrics(out)[0][-1]


def test_a_party_by_itself_begins_its_lines_anew(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=60, checkpoint_rounds=30)
    finish([start_party(path, k, tmp_path / f"out{k}") for k in range(3)])
    (tmp_path / "out1" / "party1.jsonl").write_text("of the earlier run\n")
    finish([start_party(path, k, tmp_path / f"out{k}") for k in range(3)])
    assert read_metrics(tmp_path / "out1")[1][-1]["iteration"] == 60


def test_a_party_that_forgets_to_resume_stops_everyone(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=100, checkpoint_rounds=30)
    said = finish([start_party(path, k, tmp_path / f"out{k}", *(["--resume"] if k else [])) for k in range(3)])
    assert all(code == ExitCode.BAD_INPUT and "start all with --resume, or none" in words for code, words in said), said


def test_checkpoints_closer_than_the_diameter_are_refused(tmp_path):
    path, *_ = make_job(tmp_path, 5, max_iters=100)
    diameter = read_job(path).network.diameter
    path.write_text(path.read_text().replace("[run]", f"[run]\ncheckpoint_rounds = {diameter}"))
    with pytest.raises(InputError, match="more than the diameter"):
        read_job(path)


def saved(directory, agent, digest="digest", every=1):
    return SavedStates(directory, agent, digest, every)


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "junk", "changed"])
def test_a_damaged_file_is_passed_over_for_an_older_one(tmp_path, damage):
    states = saved(tmp_path, 0)
    for k in (10, 20):
        states.save(state(k))
    path = tmp_path / "agent0-20.npz"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    if damage == "changed":  # a whole file, but not what was written
        with np.load(path) as file:
            np.savez(path, **{**file, "x": file["x"] + 1.0})
    else:
        path.write_bytes({"cut": data[:-40], "empty": b"", "flip": data, "junk": b"x" * 500}[damage])
    good, complaints = states.usable()
    assert good == [10]
    assert len(complaints) == 1
    assert "agent0-20.npz" in complaints[0]


def test_another_agents_file_under_this_name_is_refused(tmp_path):
    saved(tmp_path, 1).save(state(10))
    (tmp_path / "agent1-10.npz").rename(tmp_path / "agent0-10.npz")
    with pytest.raises(InputError, match="holds agent 1 after iteration 10; expected agent 0"):
        saved(tmp_path, 0).usable()
    (tmp_path / "agent0-10.npz").rename(tmp_path / "agent1-30.npz")
    with pytest.raises(InputError, match="after iteration 10; expected agent 1 after 30"):
        saved(tmp_path, 1).usable()


def vote(stores, resume=None, from_zero=None, **names):
    """What parties with these states agree on: every question is answered with the maxima over all of them."""
    n = len(stores)
    resume, from_zero = resume or [True] * n, from_zero or [False] * n
    answers, meet = [None] * n, threading.Barrier(n)
    results = [None] * n

    def run(k):
        def largest(own):
            answers[k] = next(iter(own.values()))
            meet.wait(LONG)
            found = np.max([a for a in answers if a is not None], axis=0)
            meet.wait(LONG)
            return found

        try:
            results[k] = stores[k].agree(largest, resume[k], from_zero[k])
        except InputError as error:
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    return results


def stores(tmp_path, *held, every=10):
    """Parties of one agent each, with states of these iterations."""
    made = []
    for k, iterations in enumerate(held):
        for iteration in iterations:
            path = tmp_path / str(k)
            SavedStates(path, k, "digest", 1_000_000).save(state(iteration))
        made.append(PartyStates(tmp_path / str(k), [k], "digest", every, 3))
    return made


@pytest.mark.parametrize(
    ("held", "start"),
    [
        (([10, 20], [10, 20]), 20),
        (([10, 20], [20, 30]), 20),
        (([10, 20, 21, 22, 23], [10, 20, 22, 23, 24]), 23),
        (([10, 20, 21, 22, 23], [10, 20]), 20),
        (([10, 20, 25, 26], [20, 30]), 20),
        (([10, 15, 16], [10, 20], [10, 14, 15]), 10),
        (([], []), 0),
    ],
)
def test_the_newest_state_that_all_have_is_found(tmp_path, held, start):
    made = stores(tmp_path, *held)
    assert vote(made) == [start] * len(held)
    for k, _ in enumerate(held):
        assert all(iteration <= start for iteration in saved(tmp_path / str(k), k).iterations())


def test_a_lost_state_is_said_and_a_start_from_zero_needs_a_word(tmp_path):
    first, second = vote(stores(tmp_path / "a", [10, 20], []))
    assert "another party has none" in str(first)
    assert "this party" in str(second)
    assert "--from-zero" in str(second)
    assert saved(tmp_path / "a" / "0", 0).iterations() == [10, 20]
    made = stores(tmp_path / "b", [10, 20], [])
    assert vote(made, from_zero=[True, False])[0] != 0  # not the word of the one that has its state
    assert vote(made, from_zero=[False, True]) == [0, 0]
    assert sorted(path.name for path in (tmp_path / "b" / "0" / "aside").iterdir()) == [
        "agent0-10.npz",
        "agent0-20.npz",
    ]


def test_parties_that_do_not_resume_alike_are_all_told(tmp_path):
    for error in vote(stores(tmp_path, [10], [10]), resume=[True, False]):
        assert "start all with --resume, or none" in str(error)


def test_a_run_that_ended_is_continued_with_larger_limits(tmp_path):
    path, problem, network, version, steps = make_job(
        tmp_path, 3, max_iters=40, checkpoint_rounds=15, metrics_seconds=1e6
    )
    launch(path, "inprocess", tmp_path / "out")
    path.write_text(path.read_text().replace("max_iters = 40", "max_iters = 73"))
    done = launch(path, "inprocess", tmp_path / "out", resume=True)
    row = json.loads((tmp_path / "out" / "party0.json").read_text())
    assert (row["resumed_from"], done.iterations) == (40, 73)
    np.testing.assert_array_equal(done.x, solution(problem, network, version, steps, 73)[0])
    again = launch(path, "inprocess", tmp_path / "out", resume=True)
    assert again.iterations == 73
    np.testing.assert_array_equal(again.x, done.x)
    lines = read_metrics(tmp_path / "out")[0]
    assert [line["iteration"] for line in lines if "error" not in line][-3:] == [40, 73, 73]


def test_a_run_that_converged_stays_converged_when_it_is_resumed(tmp_path):
    path, *_ = make_job(tmp_path, 3, 4, "nids", tol=1e-6, check_every=30, checkpoint_rounds=40)
    first = launch(path, "inprocess", tmp_path / "out")
    second = launch(path, "inprocess", tmp_path / "out", resume=True)
    assert first.converged
    assert second.converged
    assert (second.iterations, second.kkt) == (first.iterations, first.kkt)
    np.testing.assert_array_equal(second.x, first.x)
    path.write_text(path.read_text().replace("tol = 1e-06", "tol = 1e-09"))
    third = launch(path, "inprocess", tmp_path / "out", resume=True)
    assert third.converged
    assert third.iterations > first.iterations


def test_old_results_do_not_count_for_a_new_run(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=200, checkpoint_rounds=15)
    launch(path, "inprocess", tmp_path / "out")
    for name in ("agent0.npz", "summary.json", "solution.npz"):
        assert (tmp_path / "out" / name).exists()
    (tmp_path / "private" / "agent1.npz").rename(tmp_path / "private" / "away.npz")
    with pytest.raises(npga.runtimes.LaunchError, match=r"agent1\.npz does not exist"):
        launch(path, "inprocess", tmp_path / "out")
    assert not (tmp_path / "out" / "summary.json").exists()
    assert not (tmp_path / "out" / "solution.npz").exists()


def test_a_lost_directory_stops_everyone_until_its_owner_says_from_zero(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 3, keys=True, max_iters=60, checkpoint_rounds=25)
    outs = [tmp_path / f"out{k}" for k in range(3)]
    assert [code for code, _ in finish([start_party(path, k, outs[k]) for k in range(3)])] == [0, 0, 0]
    shutil.rmtree(outs[1])
    path.write_text(path.read_text().replace("max_iters = 60", "max_iters = 90"))
    said = finish([start_party(path, k, outs[k], "--resume") for k in range(3)])
    assert [code for code, _ in said] == [ExitCode.BAD_INPUT] * 3, said
    assert "this party" in said[1][1]
    said = finish([start_party(path, k, outs[k], "--resume", *["--from-zero"] * (k == 1)) for k in range(3)])
    assert [code for code, _ in said] == [0, 0, 0], said
    x = np.concatenate([np.load(outs[k] / f"agent{k}.npz")["x"] for k in range(3)])
    np.testing.assert_array_equal(x, solution(problem, network, version, steps, 90)[0])
