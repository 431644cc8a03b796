"""Many runs side by side are the runs one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from test_compiled import difference

import npga
from helpers.families import VERSIONS, random_problem, tame_steps
from npga import functions as fn
from npga.solver import Npga, batch
from npga.solver._batch import SeparateRuns
from npga.solver._lane_batch import LaneBatch

CASES = [
    ("squared-norm", "l1", "squared-loss", "dense"),
    ("quadratic", "group-l2", "ball", "sparse"),
    ("logistic", "simplex", "logistic", "dense"),
    ("huber", "elastic-net", "hinge", "dense"),
    ("linear", "box", "equality", "sparse"),
    ("least-squares", "l2", "huber", "dense"),
]


def grid(problem, count=20):
    base = tame_steps(problem, gamma=0.6)
    rng = np.random.default_rng(0)
    return [
        replace(base, alpha=base.alpha * rng.uniform(0.2, 1), gamma=rng.uniform(0.2, 1), theta=rng.uniform())
        for _ in range(count)
    ]


@pytest.mark.parametrize("path", ["lanes", "separate"])
@pytest.mark.parametrize("case", CASES, ids=["-".join(case) for case in CASES])
def test_every_run_is_the_one_that_runs_alone(case, path):
    problem = random_problem(4, 6, 4, *case)
    network = npga.Network.ring(6).lazy()
    names = [name for name in VERSIONS if name != "dlm"]
    steps = grid(problem)
    versions = [npga.version(names[k % len(names)]) for k in range(len(steps))]
    runs = batch(problem, network, versions, steps, path=path)
    runs.advance(7)
    runs.advance(8)
    alone = []
    for version, own in zip(versions, steps, strict=True):
        method = Npga(problem, network, version, own)
        alone.append(method.advance(method.start(np.zeros(problem.d), np.zeros((6, 4))), 15))
    for k, state in enumerate(alone):
        mine = runs.state(k)
        assert difference(replace(state, kept=()), replace(mine, kept=())) < 1e-12
        assert mine.iteration == 15
    star = np.ones(problem.d)
    np.testing.assert_allclose(runs.residuals(), [problem.kkt(s.x, s.lam).kkt for s in alone], rtol=1e-9)
    np.testing.assert_allclose(runs.gaps(star), [np.linalg.norm(s.x - star) for s in alone], rtol=1e-12)
    assert runs.finite.all()
    assert runs.finite.shape == (20,)


@pytest.mark.parametrize("path", ["lanes", "separate"])
def test_keeping_some_runs(path):
    problem = random_problem(4, 6, 4, proximable="l1", coupling="squared-loss")
    network, steps = npga.Network.ring(6), grid(problem, 150)
    runs, all_runs = (batch(problem, network, npga.version("extra"), steps, path=path) for _ in range(2))
    chosen = [140, 3, 77, 64]
    runs.advance(9)
    runs.keep(chosen)
    runs.advance(11)
    all_runs.advance(20)
    assert runs.size == 4
    for k, original in enumerate(chosen):
        assert difference(all_runs.state(original), runs.state(k)) == 0.0
    runs.keep(runs.residuals() >= runs.residuals().max())
    assert runs.size == 1
    with pytest.raises(npga.errors.InputError, match="between 0 and 0"):
        runs.keep([1])


@pytest.mark.parametrize("path", ["lanes", "separate"])
def test_a_run_that_diverges_leaves_the_others_alone(path):
    problem = random_problem(8, coupling="squared-loss")
    steps = [tame_steps(problem), npga.Steps(40.0, 90.0), tame_steps(problem, gamma=0.9)]
    runs = batch(problem, npga.Network.ring(6), npga.version("extra"), steps, path=path)
    runs.advance(1500)
    assert runs.finite.tolist() == [True, False, True]
    assert np.isnan(runs.residuals()).tolist() == [False, True, False]
    assert runs.residuals()[[0, 2]].max() < 1e-6
    assert not np.isfinite(runs.gaps(np.zeros(problem.d)))[1]


def test_a_state_can_go_on_by_itself():
    problem = random_problem(4, proximable="l1", coupling="squared-loss")
    network, steps = npga.Network.ring(6).lazy(), grid(problem, 3)
    version = npga.version("npga-ii")
    runs = batch(problem, network, version, steps, path="lanes")
    runs.advance(10)
    method = Npga(problem, network, version, steps[1])
    ahead = method.advance(runs.state(1), 5)
    runs.advance(5)
    assert difference(ahead, runs.state(1)) < 1e-13
    assert ahead.rounds == runs.state(1).rounds


def test_how_runs_are_laid_out():
    steps = [npga.Steps(0.1, 0.1)] * 2
    small, large = random_problem(1), random_problem(1, n=20, p=200)
    version = npga.version("extra")
    assert isinstance(batch(small, npga.Network.ring(6), version, steps), LaneBatch)
    assert isinstance(batch(large, npga.Network.ring(20), version, steps), SeparateRuns)
    A = aslinearoperator(np.ones((2, 3)))
    free = npga.Problem([npga.Agent(A, fn.SquaredNorm()), npga.Agent(np.eye(2), fn.SquaredNorm())], fn.Equality(1.0))
    runs = batch(free, npga.Network.path(2), version, steps)
    runs.advance(3)
    assert isinstance(runs, SeparateRuns)
    with pytest.raises(npga.errors.InputError, match="A of agent 0"):
        batch(free, npga.Network.path(2), version, steps, path="lanes")
    mixed = batch(small, npga.Network.ring(6), [version, npga.version("dlm")], steps)
    assert isinstance(mixed, SeparateRuns)


@pytest.mark.parametrize(("versions", "steps"), [([], []), ([npga.version("extra")], [npga.Steps(1.0, 1.0)] * 2)])
def test_runs_must_match(versions, steps):
    with pytest.raises(npga.errors.InputError, match="one of each for each run"):
        batch(random_problem(1), npga.Network.ring(6), versions, steps)
