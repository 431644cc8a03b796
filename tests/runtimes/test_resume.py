"""Fail-stop and resume: nothing that was saved is lost, and the result has the bits of an uninterrupted run."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import npga
from helpers.rehearsal import finish, make_job, solution, start_hostile, start_party
from npga.errors import InputError
from npga.runtimes import ExitCode, launch, read_job
from npga.runtimes._saved_state import SavedStates
from npga.solver import State


@pytest.mark.parametrize("version", ["diging"])
def test_kill_one_of_thirteen_and_resume(tmp_path, version):
    path, problem, network, chosen, steps = make_job(
        tmp_path, 13, 5, version, keys=True, max_iters=150, checkpoint_rounds=20
    )
    out, at = tmp_path / "out", random.Random(version).randrange(60, 280)
    villain = start_hostile(path, 7, out, "--fault", "kill", "--at", at)
    said = finish([start_party(path, k, out) for k in range(13) if k != 7], 60)
    assert finish([villain], 10)[0][0] == -9
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
    path, *_ = make_job(tmp_path, 3, 4, "nids", keys=True, tol=1e-9, check_every=30, checkpoint_rounds=40)
    villain = start_hostile(path, 0, tmp_path / "out", "--fault", "kill", "--at", 130)
    finish([start_party(path, k, tmp_path / "out") for k in (1, 2)], 40)
    finish([villain], 10)
    resumed = launch(path, "grpc", tmp_path / "out", resume=True)
    straight = launch(path, "inprocess", tmp_path / "straight")
    assert resumed.iterations == straight.iterations
    assert resumed.converged
    np.testing.assert_array_equal(resumed.x, straight.x)


def state(iteration):
    rng = np.random.default_rng(iteration)
    arrays = [rng.standard_normal(3) for _ in range(6)]
    return State(*arrays, kept=(rng.standard_normal(3),), iteration=iteration, rounds=2 * iteration)


def test_two_generations_are_kept_and_read_back_bit_for_bit(tmp_path):
    saved = SavedStates(tmp_path, 4, "digest")
    assert saved.iterations() == []
    for k in (10, 20, 30):
        saved.save(state(k))
    assert saved.iterations() == [20, 30]
    found = saved.load(20)
    assert (found.iteration, found.rounds) == (20, 40)
    for name, array in state(20).arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array)
    (tmp_path / "agent4-40.part").write_bytes(b"half a file, left by a process that died while writing")
    (tmp_path / "agent44-40.npz").write_bytes(b"another agent's")
    assert saved.iterations() == [20, 30]


def test_a_checkpoint_of_another_job_is_refused(tmp_path):
    SavedStates(tmp_path, 0, "one").save(state(10))
    with pytest.raises(InputError, match="belongs to a job with digest one"):
        SavedStates(tmp_path, 0, "two").load(10)
    with pytest.raises(InputError, match=r"has checkpoints of iterations \[10\]"):
        SavedStates(tmp_path, 0, "one").load(20)


def test_an_unfinished_run_is_not_overwritten_by_accident(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=100, checkpoint_rounds=30)
    job = read_job(path)
    for i in range(3):
        SavedStates(tmp_path / "out" / "checkpoints", i, job.digest).save(state(30))
    with pytest.raises(npga.runtimes.LaunchError, match="unfinished run"):
        launch(path, "inprocess", tmp_path / "out")


def test_a_party_that_forgets_to_resume_stops_everyone(tmp_path):
    path, *_ = make_job(tmp_path, 3, keys=True, max_iters=100, checkpoint_rounds=30)
    said = finish([start_party(path, k, tmp_path / f"out{k}", *(["--resume"] if k else [])) for k in range(3)], 40)
    assert all(code == ExitCode.BAD_INPUT and "start all with --resume, or none" in words for code, words in said), said


def test_checkpoints_closer_than_the_diameter_are_refused(tmp_path):
    path, *_ = make_job(tmp_path, 5, max_iters=100)
    diameter = read_job(path).network.diameter
    path.write_text(path.read_text().replace("[run]", f"[run]\ncheckpoint_rounds = {diameter}"))
    with pytest.raises(InputError, match="more than the diameter"):
        read_job(path)
