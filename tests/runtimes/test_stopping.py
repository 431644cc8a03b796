"""Agents that stop by themselves: what they find bounds the residual of the whole problem, at every iterate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers.families import DRAWN, random_problem, tame_steps, uneven
from helpers.rehearsal import make_job, solution
from npga.runtimes import Alone, BadMessage, Job, Outcome, OwnPart, Party, PartySpec, Patience, Stop, launch
from npga.runtimes._agreement import witness
from npga.solver import local_agents, run_agents


def job_of(problem, network, version, steps, stop):
    """A job in memory, with one party for all agents."""
    return Job(
        path=None, name="test", network=network, version=version, steps=steps, h=problem.h, p=problem.p,
        dtype=problem.dtype, stop=stop, times=Patience(checkpoint_rounds=0), agents="",
        parties=(PartySpec(tuple(range(problem.n))),),
    )  # fmt: skip


def outcome(problem, network, version, steps, stop):
    """Run all agents in this process, from a problem in memory."""
    parts = {i: OwnPart(agent, None, None) for i, agent in enumerate(problem.agents)}
    job = job_of(problem, network, version, steps, stop)
    done: Outcome = Party(job, job.layout, 0, Alone(), parts=parts).run()
    return (
        done,
        np.concatenate([done.x[i] for i in range(problem.n)]),
        np.array([done.lam[i] for i in range(problem.n)]),
    )


@settings(max_examples=150, deadline=None)
@given(**DRAWN, iterations=st.sampled_from([1, 2, 5, 20, 100, 400]), units=st.booleans())
def test_the_bound_holds_at_every_iterate(seed, name, smooth, proximable, coupling, matrices, theta, iterations, units):
    problem = random_problem(seed, 6, 4, smooth, proximable, coupling, matrices)
    if units:
        problem = uneven(problem, seed)
    network = npga.Network.erdos_renyi(6, 0.4, seed=seed % 1000).lazy()
    steps = tame_steps(problem, theta=theta)
    version = npga.version(name)
    if name == "dlm":
        version = npga.version("dlm", c=0.25 / (steps.beta * network.laplacian_spectrum[-1]))
    stop = Stop(max_iters=iterations, tol=0.0, check_every=iterations)
    done, x, lam = outcome(problem, network, version, steps, stop)
    true = problem.kkt(x, lam).kkt
    # Sums of n vectors are known up to their rounding only, here some 1e-16 times the sizes of v and lam.
    assert true <= done.kkt * (1 + 1e-9) + 1e-12


CASES = [
    ("extra", "squared-norm", "zero", "equality"),
    ("nids", "quadratic", "l1", "squared-loss"),
    ("exact-diffusion", "quadratic", "box", "less-equal"),
    ("npga-ii", "squared-norm", "elastic-net", "ball"),
    ("aug-dgm", "least-squares", "l1", "huber"),
    ("diging", "squared-norm", "non-negative", "logistic"),
]


@pytest.mark.parametrize(("name", "smooth", "proximable", "coupling"), CASES)
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_a_run_stops_with_the_residual_that_was_asked_for(name, smooth, proximable, coupling, tol):
    problem = random_problem(5, 7, 3, smooth, proximable, coupling)
    network = npga.Network.ring(7).lazy()
    steps = tame_steps(problem, gamma=0.6)
    done, x, lam = outcome(problem, network, npga.version(name), steps, Stop(200_000, tol, 25))
    assert done.converged
    assert done.iterations < 200_000
    true = problem.kkt(x, lam).kkt
    assert true <= done.kkt <= tol
    if coupling not in ("less-equal", "huber"):
        # Not long after it was reached either: every agent is measured against its own size, which for one at zero is a
        # hundredth of what the forces on it would do, and to that it must know lam. Where lam is at a bound of the
        # domain of h* it stands still while the agents' v still go on agreeing, and only they can tell that: there a
        # run stops later than it might.
        spread = np.linalg.norm(lam - lam.mean(axis=0)) / np.linalg.norm(lam)
        assert max(true, spread) > 1e-4 * tol


@pytest.mark.parametrize(("name", "coupling"), [("nids", "squared-loss"), ("exact-diffusion", "less-equal")])
def test_what_a_witness_recomputes_is_what_its_neighbours_have(name, coupling):
    """The hub of a star has heard all that the lam of a leaf is made of; a leaf knows the hub only if it is alone."""
    problem, network, version = random_problem(5, 5, 3, coupling=coupling), npga.Network.star(5), npga.version(name)
    steps = tame_steps(problem, gamma=0.6)
    job = job_of(problem, network, version, steps, Stop())
    agents = local_agents(problem, network, version, steps)
    run_agents(agents, network, 6)
    before = [agent.state for agent in agents]
    sent = {i: agent.state.v for i, agent in enumerate(agents)}
    hub = witness(job, 0)
    lams = hub.lams(sent[0], sent, steps.beta)
    assert sorted(lams) == [1, 2, 3, 4]
    assert witness(job, 1) is None
    for j, (v, lam) in lams.items():
        np.testing.assert_array_equal(v, before[j].v)
        np.testing.assert_array_equal(lam, before[j].lam)
    views = {j: np.concatenate([before[j].lam, 5 / steps.beta * (before[j].v - before[j].lam_prev)]) for j in lams}
    run_before = {j: (v, before[j].lam_prev) for j, (v, _) in lams.items()}
    hub.check(views, lams, run_before, steps.beta)
    for entry in (0, 4):
        spoilt = {j: np.where(np.arange(6) == entry, 1.001 * view + 0.001, view) for j, view in views.items()}
        with pytest.raises(BadMessage, match="agent 1: what it shows of itself"):
            hub.check(spoilt, lams, run_before, steps.beta)
    assert witness(job_of(problem, network, npga.version("extra"), steps, Stop()), 0) is None


def test_the_rounds_of_stopping_are_counted():
    """Once the facts and the start, then a view and as many rounds as the diameter for each check.

    A round of maxima has eight numbers and two for each of the three rows, one of the facts two for each row.
    """
    problem = random_problem(5, 6, 3)
    network = npga.Network.path(6)
    done, _, _ = outcome(problem, network, npga.version("nids"), tame_steps(problem), Stop(60, 0.0, 20))
    assert done.totals["control_rounds"] == 5 + 5 + 3 * (1 + 5)
    assert done.totals["rounds"] == 60
    links = 2 * len(network.edges)
    assert done.totals["control_messages"] == links * done.totals["control_rounds"]
    assert done.totals["control_floats_sent"] == links * (5 * 5 + 5 * 6 + 3 * (6 + 5 * 14))


def test_stopping_on_two_processes_ends_at_one_iteration_with_the_same_bits(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path, 5, 4, "nids", tol=1e-7, check_every=20)
    done = launch(path, "grpc", tmp_path / "out")
    assert done.converged
    assert done.kkt <= 1e-7
    x, _, _ = solution(problem, network, version, steps, done.iterations)
    np.testing.assert_array_equal(done.x, x)
    assert problem.kkt(done.x, done.lam).kkt <= 1e-7
