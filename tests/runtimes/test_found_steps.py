"""Jobs without steps: the parties find them together, on the way or from theorems."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import npga
from helpers.families import random_problem
from helpers.rehearsal import finish, free_addresses, solution, start_hostile, start_party
from npga import functions as fn
from npga.errors import InputError
from npga.experiments import EXPERIMENTS
from npga.runtimes import (
    Alone,
    BadMessage,
    Diverged,
    ExitCode,
    Layout,
    OwnPart,
    Party,
    keygen,
    launch,
    read_job,
    write_job,
)
from npga.runtimes._agreement import Agreement
from npga.runtimes._found_steps import Council, Tree
from npga.tuning import AdaptiveNpga, AdaptiveState, tied_version


def a_job(directory, n=5, coupling="ball", steps=None, version=None, seed=2, problem=None, **options):
    problem = random_problem(seed, n, 4, "quadratic", "l1", coupling) if problem is None else problem
    network = npga.Network.erdos_renyi(n, 0.5, seed=seed)
    path = write_job(directory, problem, network, version, steps, addresses=free_addresses(n), **options)
    return path, problem, network


def in_one_process(path, out=None, link=None, **options):
    job = read_job(path)
    party = Party(job, Layout(job.network, [range(job.n)]), 0, link or Alone(), out, **options)
    return party, party.run()


def whole(outcome):
    x, lam = ([found[i] for i in sorted(found)] for found in (outcome.x, outcome.lam))
    return np.concatenate(x), np.array(lam)


def legs(party):
    return party._own_states()[0].legs


def test_all_engines_end_with_the_same_bits_and_counts(tmp_path):
    path, problem, _ = a_job(tmp_path, 4, tol=1e-6, check_every=30, max_iters=3000, patience=300.0, connect=300.0)
    one = launch(path, "inprocess", tmp_path / "one")
    assert one.converged
    assert one.steps_rounds > 0
    for engine, options in (("mpi", {"ranks": 2}), ("grpc", {})):
        other = launch(path, engine, tmp_path / engine, **options)
        np.testing.assert_array_equal(other.x, one.x)
        np.testing.assert_array_equal(other.lam, one.lam)
        for name in ("iterations", "rounds", "control_rounds", "steps_rounds", "kkt"):
            assert getattr(other, name) == getattr(one, name)
    assert problem.kkt(one.x, one.lam).kkt <= one.kkt <= 1e-6


@pytest.mark.parametrize("coupling", ["equality", "squared-loss", "less-equal", "huber", "logistic"])
def test_a_run_without_steps_converges_and_its_bound_holds(tmp_path, coupling):
    path, problem, _ = a_job(tmp_path, 6, coupling, tol=1e-7, check_every=25, max_iters=20_000)
    party, done = in_one_process(path)
    assert done.converged
    assert problem.kkt(*whole(done)).kkt <= done.kkt * (1 + 1e-9)
    assert done.totals["control_rounds"] > done.totals["steps_rounds"] > 0
    assert all(leg.iteration <= done.iterations for leg in legs(party))


def test_the_decisions_are_those_of_one_process(tmp_path):
    path, problem, network = a_job(tmp_path, max_iters=70)
    job = read_job(path)
    alone = AdaptiveNpga(problem, network, job.version)
    state = alone.start(np.zeros(problem.d), np.zeros((problem.n, problem.p)))
    state = alone.advance(state, 70)
    party = Party(job, Layout(network, [range(problem.n)]), 0, Alone())
    found = party._found
    found.begin = lambda: [agent.begin(alone._first) for agent in found.agents.values()]
    x, lam = whole(party.run())
    assert [replace(leg, beta=0.0) for leg in legs(party)] == [replace(leg, beta=0.0) for leg in state.legs]
    np.testing.assert_allclose([leg.beta for leg in legs(party)], [leg.beta for leg in state.legs], rtol=1e-6)
    np.testing.assert_allclose(x, state.x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(lam, state.lam, rtol=1e-6, atol=1e-8)
    assert party._own_states()[0].iteration == 70


class Cut(Alone):
    """A link that breaks after so many rounds."""

    def __init__(self, rounds):
        super().__init__()
        self.left = rounds

    def exchange(self, *arguments, **options):
        self.left -= 1
        if self.left < 0:
            raise OSError("cut")
        return super().exchange(*arguments, **options)


@pytest.mark.parametrize("rounds", [60, 83, 110, 151])
def test_a_run_that_goes_on_has_the_bits_of_one_that_never_stopped(tmp_path, rounds):
    path, *_ = a_job(tmp_path, tol=1e-6, check_every=13, max_iters=2000, checkpoint_rounds=10)
    whole_party, undisturbed = in_one_process(path)
    out = tmp_path / "out"
    with pytest.raises(OSError, match="cut"):
        in_one_process(path, out, Cut(rounds))
    party, done = in_one_process(path, out, resume=True)
    assert done.resumed_from > 0
    assert (done.iterations, done.kkt) == (undisturbed.iterations, undisturbed.kkt)
    for one, other in zip(whole(done), whole(undisturbed), strict=True):
        np.testing.assert_array_equal(one, other)
    assert legs(party) == legs(whole_party)


class Understated(fn.Quadratic):
    """States an L that is a hundred times too small."""

    L = property(lambda self: 0.01 * super().L)


def test_an_understated_curvature_is_mended(tmp_path):
    """Where the file says too little, as f of a party's own code may."""
    path, *_ = a_job(tmp_path, 4, "equality", tol=1e-6, max_iters=5000)
    rng = np.random.default_rng(0)
    f = [Understated(np.diag([1.0, 30.0 + i, 2.0]), np.ones(3)) for i in range(4)]
    parts = {i: OwnPart(npga.Agent(rng.standard_normal((4, 3)), f[i]), None, None) for i in range(4)}
    job = read_job(path)
    party = Party(job, Layout(job.network, [range(4)]), 0, Alone(), parts=parts)
    assert party.run().converged
    assert all(state.seen[0] > 20.0 for state in party._own_states().values())


@pytest.mark.parametrize(
    "network",
    [npga.Network.path(7), npga.Network.star(6), npga.Network.erdos_renyi(12, 0.3, seed=1), npga.Network.complete(1)],
)
def test_sums_are_formed_in_one_order_and_chosen_once(network):
    tree, calls = Tree(network), []
    assert tree.depth <= (network.diameter + 2) // 2
    values = {i: np.array([0.1 * i, 1.0]) for i in range(network.n)}

    def share(number, vectors):
        return {i: {j: vectors[j] for j in network.neighbors(i).tolist()} for i in vectors}

    agreement = Agreement({}, network.n, network.diameter, share)
    council = Council(network, agreement)

    def choose(total):
        calls.append(total)
        return np.array([total[0], total[1], 7.0])

    chosen = council.decide(values, choose, 3)
    np.testing.assert_allclose(chosen, [0.05 * network.n * (network.n - 1), network.n, 7.0])
    assert len(calls) == 1
    assert agreement.rounds == council.rounds == 2 * tree.depth


@pytest.mark.parametrize("h", [fn.SquaredLoss(np.ones(2)), fn.Equality(np.ones(2))], ids=["smooth", "equality"])
def test_certified_steps_are_inside_the_bounds_of_a_theorem(tmp_path, h):
    rng = np.random.default_rng(5)
    g = fn.L1(0.1) if np.inf > h.L else fn.Zero()
    agents = [npga.Agent(rng.standard_normal((2, 3)), fn.SquaredNorm(0.5 + 0.3 * i), g) for i in range(5)]
    path, problem, network = a_job(tmp_path, 5, steps="certified", problem=npga.Problem(agents, h), tol=1e-6)
    party, done = in_one_process(path)
    assert done.converged
    assert done.totals["steps_rounds"] == network.diameter
    certificate = npga.certify(problem, network, read_job(path).version, npga.Steps(**party.logbook.steps))
    assert certificate.covered, str(certificate)


@pytest.mark.parametrize(
    ("words", "f", "g", "h"),
    [
        ("not strongly convex", fn.Linear([1.0]), fn.Zero(), fn.Equality([1.0])),
        ("has a g", fn.SquaredNorm(1.0), fn.L1(1.0), fn.Equality([1.0])),
        ("neither smooth nor an equality", fn.SquaredNorm(1.0), fn.Zero(), fn.LessEqual([1.0])),
    ],
)
def test_where_no_theorem_applies_a_certified_job_is_refused(tmp_path, words, f, g, h):
    agents = [npga.Agent(np.ones((1, 1)), fn.SquaredNorm(1.0)), npga.Agent(np.ones((1, 1)), f, g)]
    path = write_job(tmp_path, npga.Problem(agents, h), npga.Network.path(2), steps="certified")
    with pytest.raises(InputError, match=words):
        in_one_process(path)


def test_what_a_job_may_say_of_steps(tmp_path):
    path, _, network = a_job(tmp_path)
    job = read_job(path)
    assert job.steps is None
    assert job.version.c == pytest.approx(tied_version(network).c, rel=1e-5)
    assert job.version.c < tied_version(network).c
    for kind in ("extra", "dlm"):
        with pytest.raises(InputError, match=r"needs \[steps\]"):
            a_job(tmp_path, version=kind)
    with pytest.raises(InputError, match="without a version"):
        a_job(tmp_path, steps=npga.Steps(0.1, 0.1))
    with pytest.raises(InputError, match="at most 1/lambda_max"):
        a_job(tmp_path, version=npga.version("nids", c=1.99))
    assert read_job(a_job(tmp_path, version=npga.version("nids", c=0.25))[0]).version.c == 0.25
    assert read_job(a_job(tmp_path, version="exact-diffusion")[0]).steps is None
    text = path.read_text()
    path.write_text(text + "\n[steps]\ncertified = true\nalpha = 1.0\n")
    with pytest.raises(InputError, match="certified and alpha are both given"):
        read_job(path)
    path.write_text(text + "\n[steps]\ncertified = true\n")
    assert read_job(path).certified
    numbers = text.replace("[version]", "[problem2]").split("[problem2]")
    path.write_text(numbers[0] + "[steps]\nalpha = 1.0\nbeta = 1.0\n" + "[stop]" + text.split("[stop]")[1])
    with pytest.raises(InputError, match=r"expected \[version\] as well"):
        read_job(path)
    path.write_text(text + "\n[steps]\ncertified = true\n")
    assert read_job(path).digest != job.digest


def test_a_job_may_name_an_alpha_for_each_agent(tmp_path):
    steps = npga.Steps((0.1, 0.2, 0.05, 0.1, 0.15), 0.1, 0.9, 0.5)
    path, problem, network = a_job(tmp_path, steps=steps, version="nids", max_iters=30)
    assert read_job(path).steps == steps
    x, lam, _ = solution(problem, network, npga.version("nids"), steps, 30)
    found = whole(in_one_process(path)[1])
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], lam)
    path.write_text(path.read_text().replace("[0.1, 0.2,", "[0.2,"))
    with pytest.raises(InputError, match="holds 4 numbers and there are 5 agents"):
        read_job(path)


def test_where_no_steps_help_the_run_says_so(tmp_path):
    path, *_ = a_job(tmp_path, 3)
    job = read_job(path)
    party = Party(job, Layout(job.network, [range(3)]), 0, Alone())
    grows = [0.0]

    def choose(total):
        grows[0] += 1
        chosen = np.zeros(party._found._one.choice_size)
        chosen[:3] = 1.0 if grows[0] < 3 else 2.0, party._found.beta, 10.0
        return chosen

    party._found._one.choose_leg = choose
    with pytest.raises(Diverged, match="whatever the steps"):
        party.run()
    states = party._own_states()
    assert all(isinstance(state, AdaptiveState) for state in states.values())
    assert [leg.retreated for leg in legs(party)] == [True, True]


@pytest.mark.parametrize("wrong", [{1: -1.0}, {1: 1e30}, {0: 5.0}, {2: 0.0}, {4: 1.0}], ids=str)
def test_a_choice_that_cannot_be_one_is_refused(tmp_path, wrong):
    path, *_ = a_job(tmp_path, 3)
    job = read_job(path)
    party = Party(job, Layout(job.network, [range(3)]), 0, Alone())
    one = party._found._one

    def choose(_total):
        chosen = np.zeros(one.choice_size)
        chosen[1:3] = one.steps.beta, 1.0
        chosen[list(wrong)] = list(wrong.values())
        return chosen

    one.choose_leg = choose
    with pytest.raises(BadMessage, match="choice of steps"):
        party.run()


def test_lines_tell_the_steps_of_the_moment(tmp_path):
    path, *_ = a_job(tmp_path, max_iters=40, metrics_seconds=0.0)
    party, _ = in_one_process(path, tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "party0.jsonl").read_text().splitlines()]
    assert lines[-1]["steps"]["beta"] == party._found.beta
    assert set(lines[-1]["steps"]["alpha"]) == {"0", "1", "2", "3", "4"}
    assert lines[-1]["steps_rounds"] == party._council.rounds


@pytest.mark.slow
@pytest.mark.parametrize("at", [40, 53, 75])
def test_a_party_that_is_killed_between_processes_costs_no_bit(tmp_path, at):
    options = {"patience": 300.0, "connect": 300.0, "outage": 0.0, "checkpoint_rounds": 10}
    path, *_ = a_job(tmp_path, 4, tol=1e-6, check_every=30, max_iters=3000, **options)
    keygen(read_job(path))
    out = tmp_path / "out"
    killed = start_hostile(path, 2, out, "--fault", "kill", "--at", at)
    said = finish([start_party(path, k, out) for k in (0, 1, 3)])
    assert finish([killed])[0][0] == -9
    assert all(code == ExitCode.TRY_AGAIN for code, _ in said), said
    resumed, straight = launch(path, "grpc", out, resume=True), launch(path, "inprocess", tmp_path / "straight")
    assert json.loads((out / "party0.json").read_text())["resumed_from"] > 0
    assert (resumed.iterations, resumed.kkt) == (straight.iterations, straight.kkt)
    np.testing.assert_array_equal(resumed.x, straight.x)
    np.testing.assert_array_equal(resumed.lam, straight.lam)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "elastic-net"])
def test_experiments_one_and_three_between_processes_take_at_most_twice_the_rounds_of_tuned_steps(tmp_path, name):
    """All rounds are counted, those of agreeing too; the figures of docs/runtimes.md are what this prints."""
    instance = EXPERIMENTS[name]().build(0)
    problem, network = instance.problem, instance.network
    tuned = npga.tune(problem, network, "nids")
    rounds = {}
    for kind, version, steps in (("found", None, None), ("tuned", tuned.version, tuned)):
        where = free_addresses(problem.n)
        options = {"tol": 1e-8, "addresses": where, "patience": 300.0, "connect": 300.0}
        path = write_job(tmp_path / kind, problem, network, version, steps, **options)
        done = launch(path, "grpc", tmp_path / kind / "out")
        assert done.converged
        assert problem.kkt(done.x, done.lam).kkt <= done.kkt
        rounds[kind] = done.rounds + done.control_rounds
        counts = {
            key: getattr(done, key) for key in ("rounds", "control_rounds", "steps_rounds", "messages", "bytes_sent")
        }
        print(f"{name}, {kind} steps, {problem.n} processes: {rounds[kind]} in all, {counts}, residual {done.kkt:.1e}")
    assert rounds["found"] <= 2 * rounds["tuned"]
