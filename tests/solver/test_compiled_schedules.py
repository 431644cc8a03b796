"""Whatever the order of the work and the number of threads, the iterates are the same."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest
from test_compiled import difference, start
from test_recursion import network_for, with_tame_c

import npga
from helpers.families import VERSIONS, random_problem, tame_steps
from npga import functions as fn
from npga.solver import Npga, _compiled, _packing
from npga.solver._compiled import CompiledNpga, Pace, WorkOrder, schedule_for, together

SCHEDULES = {
    "agents": lambda plan: WorkOrder(plan, 1),
    "agents, two threads": lambda plan: WorkOrder(plan, 2),
    "panels": lambda plan: WorkOrder(plan, 1, 2),
    "panels, three threads": lambda plan: WorkOrder(plan, 3, 2),
    "one panel": lambda plan: WorkOrder(plan, 1, 1000),
}


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(_packing, "_GROUP_BYTES", 400)
    monkeypatch.setattr(_compiled, "_RETRY", 3)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
@pytest.mark.parametrize("name", VERSIONS)
def test_every_schedule_gives_the_vectorised_iterates(name, schedule, monkeypatch):
    monkeypatch.setattr(_compiled, "schedule_for", SCHEDULES[schedule])
    for matrices in ("dense", "sparse"):
        problem = random_problem(3, 7, 5, "squared-norm", "l1", "squared-loss", matrices)
        network = network_for(name, 7, 5)
        steps = tame_steps(problem, 0.6, 0.7)
        version = with_tame_c(name, network, steps)
        vectorised, compiled = Npga(problem, network, version, steps), CompiledNpga(problem, network, version, steps)
        a, b = start(vectorised), start(compiled)
        for count in (1, 3, 20):
            a, b = vectorised.advance(a, count), compiled.advance(b, count)
            assert difference(a, b) < 1e-13


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("schedule", ["agents", "agents, two threads"])
@pytest.mark.parametrize("degree", [2, 5])
@pytest.mark.parametrize("name", VERSIONS)
def test_chebyshev_polynomials_are_compiled_too(name, degree, schedule, monkeypatch):
    monkeypatch.setattr(_compiled, "schedule_for", SCHEDULES[schedule])
    problem = random_problem(3, 7, 5, "squared-norm", "l1", "squared-loss")
    network = npga.Network.complete(7) if name == "diging" else network_for(name, 7, 5)  # one round would be enough
    steps = tame_steps(problem, 0.6, 0.7)
    version = npga.version(with_tame_c(name, network, steps), chebyshev=degree)
    vectorised, compiled = Npga(problem, network, version, steps), CompiledNpga(problem, network, version, steps)
    a, b = start(vectorised), start(compiled)
    for count in (1, 3, 20):
        a, b = vectorised.advance(a, count), compiled.advance(b, count)
        assert difference(a, b) < 1e-12
    assert b.rounds == 24 * degree * npga.version(name).rounds


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("pair", [("agents", "agents, two threads"), ("panels", "panels, three threads")])
def test_threads_do_not_change_the_bits(pair, monkeypatch):
    problem = random_problem(5, 9, 40, "huber", "elastic-net", "logistic", sizes=[3, 20, 1, 0, 17, 2, 5, 16, 4])
    found = []
    for schedule in pair:
        monkeypatch.setattr(_compiled, "schedule_for", SCHEDULES[schedule])
        method = CompiledNpga(problem, npga.Network.ring(9), npga.version("npga-ii"), tame_steps(problem, 0.6, 0.7))
        state = start(method)
        for count in (1, 30, 9):
            state = method.advance(state, count)
        found.append(state)
    for name in ("x", "lam", "v", "u"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_every_schedule_stops_when_lam_is_not_finite(schedule, monkeypatch):
    monkeypatch.setattr(_compiled, "schedule_for", SCHEDULES[schedule])
    problem = random_problem(8, coupling="squared-loss")
    method = CompiledNpga(problem, npga.Network.ring(6), npga.version("extra"), npga.Steps(40.0, 90.0))
    state = method.advance(start(method), 5000)
    assert 10 < state.iteration < 5000
    with np.errstate(over="ignore", invalid="ignore"):
        assert not np.isfinite(state.lam.sum())


def plan_for(n, p, d, h=None, order="C"):
    rng = np.random.default_rng(0)
    agents = [npga.Agent(np.asarray(rng.random((p, d)), order=order), fn.SquaredNorm()) for _ in range(n)]
    problem = npga.Problem(agents, h or fn.Equality(0.0))
    return _packing.Plan(problem, npga.Network.ring(n), npga.version("extra"), npga.Steps(0.1, 0.1))


def test_the_schedule_follows_the_sizes():
    small = schedule_for(plan_for(5, 10, 3))
    assert (small.name, small.threads) == ("agents", 1)
    assert schedule_for(plan_for(4, 8000, 40)).name == "panels"
    assert schedule_for(plan_for(4, 8000, 40, order="F")).name == "panels"
    assert schedule_for(plan_for(4, 8000, 40, fn.Ball(0.0, 1.0))).name == "agents"  # a norm needs all rows at once


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_matrices_by_panels(order):
    rng = np.random.default_rng(1)
    A = [np.asarray(rng.standard_normal((8000, 40)), order=order) / 90 for _ in range(4)]
    problem = npga.Problem([npga.Agent(B, fn.SquaredNorm(0.5), fn.L1(0.1)) for B in A], fn.SquaredLoss(1.0))
    network, steps = npga.Network.ring(4), npga.Steps(0.5, 0.2, theta=1.0)
    vectorised, compiled = (make(problem, network, npga.version("extra"), steps) for make in (Npga, CompiledNpga))
    assert compiled.order.name == "panels"
    assert difference(vectorised.advance(start(vectorised), 12), compiled.advance(start(compiled), 12)) < 1e-12


def test_pace_prefers_what_is_faster_and_looks_again(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_compiled.time, "perf_counter", lambda: clock[0])
    cost = {True: 0.02, False: 0.01}
    ran = []

    def run(count, threaded):
        ran.extend([threaded] * count)
        clock[0] += count * cost[threaded]
        return count

    pace = Pace(2)
    assert pace(run, 4000) == 4000
    assert 0 < ran.count(True) < 400
    cost[False] = 0.1
    ran.clear()
    pace(run, 4000)
    assert ran.count(False) < 400
    assert Pace(1)(run, 7) == 7


def test_what_it_costs_to_start_threads_does_not_decide(monkeypatch):
    """Every call on two threads pays for their start, which a single iteration would not earn back."""
    clock, ran = [0.0], []
    monkeypatch.setattr(_compiled.time, "perf_counter", lambda: clock[0])

    def run(count, threaded):
        ran.extend([threaded] * count)
        clock[0] += 0.0004 + 0.0003 * count if threaded else 0.0006 * count
        return count

    Pace(2)(run, 4000)
    assert ran.count(True) > 3500


def test_short_calls_do_not_decide_on_threads(monkeypatch):
    """Of two iterations in a call the start of the threads is most; a longer one comes later."""
    clock, ran = [0.0], []
    monkeypatch.setattr(_compiled.time, "perf_counter", lambda: clock[0])

    def run(count, threaded):
        ran.extend([threaded] * count)
        clock[0] += 0.001 + 0.0003 * count if threaded else 0.0006 * count
        return count

    pace = Pace(2)
    for count in (10, 2, 4000):
        pace(run, count)
    assert ran.count(True) > 3500
    ran.clear()
    for _ in range(400):  # where all calls are short, what they cost is what counts
        pace(run, 2)
    assert ran.count(False) > 700


@pytest.mark.parametrize("name", ["extra", "nids", "aug-dgm", "npga-ii", "diging"])
def test_pauses_do_not_change_the_bits_at_any_small_size(name):
    """With constants that are no powers of two: a compiler that fuses another product in another caller is seen."""
    for n, p, columns in ((4, 1, 1), (5, 3, 2), (6, 3, 1), (6, 5, 3), (4, 8, 5)):
        rng = np.random.default_rng(p)
        agents = [npga.Agent(rng.standard_normal((p, columns)), fn.SquaredNorm(1.0), fn.L1(0.1)) for _ in range(n)]
        problem = npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(p), 0.5))
        steps = npga.Steps(0.053, 0.047, 0.71, 0.7)
        method = CompiledNpga(problem, npga.Network.ring(n).lazy(), npga.version(name), steps)
        begun = method.start(np.zeros(problem.d), np.zeros((n, p)))
        whole, state, kept = method.advance(begun, 45), begun, []
        for count in (1, 1, 2, 3, 1, 4, 3) * 3:
            state = method.advance(state, count)
            kept.append(state)  # so that every stretch has memory of its own
        for array in ("x", "lam", "u", "v"):
            np.testing.assert_array_equal(getattr(state, array), getattr(whole, array))


def test_memory_of_states_that_are_gone_is_used_again_and_no_other(monkeypatch):
    monkeypatch.setattr(_compiled, "_PAGES", 0)  # small blocks too
    problem, network = random_problem(3, 7, 5, "squared-norm", "l1", "squared-loss"), npga.Network.ring(7)
    method = CompiledNpga(problem, network, npga.version("nids"), tame_steps(problem, 0.6, 0.7))

    def addresses(states):
        return {array.ctypes.data for state in states for array in (state.lam, state.lam_prev, state.u)}

    states = [start(method)]
    for _ in range(5):
        states.append(method.advance(states[-1], 3))
    first, second, row, gone = states[1], states[2], states[3].lam[1], addresses(states[3:])
    gone.remove(states[3].lam.ctypes.data)  # of which there is a view
    kept = [each.copy() for each in (first.x, second.lam, row)]
    assert len(addresses(states[1:])) == 15
    assert all(state.x.base.nbytes == state.x.nbytes for state in states[1:])  # x alone keeps nothing else
    last = states[-1]
    del states
    for _ in range(6):
        last = method.advance(last, 2)
        assert addresses([last]) <= gone
    for before, now in zip(
        kept, (first.x, second.lam, row), strict=True
    ):  # a view of one that is gone keeps its memory
        np.testing.assert_array_equal(before, now)


def test_what_outlives_its_method_keeps_no_memory_that_is_lent_again():
    lender = _compiled.Blocks()
    one, two = (lender.lend((1000, 1000), np.dtype(np.float64)) for _ in range(2))
    free = lender._free
    del two
    (blocks,) = free.values()
    assert len(blocks) == 1
    block = weakref.ref(blocks[0])
    del lender, free, blocks
    gc.collect()
    assert block() is None
    one[:] = 1.0
    assert one.sum() == 1e6


def test_teams_answer_in_order_and_raise():
    names = together([lambda k=k: (k, threading.current_thread().name) for k in range(5)])
    assert [k for k, _ in names] == list(range(5))
    assert any(name.startswith("npga") for _, name in names)
    with pytest.raises(ZeroDivisionError):
        together([lambda: 1, lambda: 1 // 0])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_teams_work_in_a_forked_child():
    assert together([lambda: 1, lambda: 2]) == [1, 2]
    child = os.fork()
    if child == 0:
        os._exit(0 if together([lambda: 1, lambda: 2]) == [1, 2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_number_of_threads_can_be_limited(monkeypatch):
    monkeypatch.setenv("NPGA_THREADS", "1")
    assert schedule_for(plan_for(4, 8000, 40)).threads == 1
