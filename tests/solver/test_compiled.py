"""The compiled path gives the paper's iterates, the vectorised path's up to rounding, and says what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator
from test_recursion import network_for, with_tame_c

import npga
from helpers import oracles
from helpers.families import COUPLING, DRAWN, PROXIMABLE, SMOOTH, VERSIONS, random_problem, tame_steps
from npga import functions as fn
from npga.solver import Npga, method_for
from npga.solver._compiled import CompiledNpga

ARRAYS = ("x", "lam", "lam_prev", "v", "u")


def start(method, seed=1):
    rng = np.random.default_rng(seed)
    problem = method.problem
    x0, lam0 = rng.standard_normal(problem.d), rng.standard_normal((problem.n, problem.p))
    return method.start(x0.astype(problem.dtype), lam0.astype(problem.dtype))


def difference(a, b):
    """Largest difference of two states, relative to one plus their size."""
    pairs = [(getattr(a, name), getattr(b, name)) for name in ARRAYS] + list(zip(a.kept, b.kept, strict=True))
    return max(np.abs(x - y).max(initial=0.0) / (1.0 + np.abs(x).max(initial=0.0)) for x, y in pairs)


def both(problem, network, version, steps):
    return Npga(problem, network, version, steps), CompiledNpga(problem, network, version, steps)


@pytest.mark.parametrize("theta", [0.0, 0.7])
@pytest.mark.parametrize("name", VERSIONS)
def test_equals_the_y_form_of_the_paper(name, theta):
    problem = random_problem(3, n=7, p=5, smooth="quadratic", proximable="l1", coupling="squared-loss")
    network = network_for(name, 7, 5)
    steps = tame_steps(problem, gamma=0.6, theta=theta)
    version = with_tame_c(name, network, steps)
    B2, C, D = (M.toarray() for M in version.matrices(network, beta=steps.beta))
    x, lam = oracles.y_form(problem, B2, C, D, steps, 500)[-1]
    method = CompiledNpga(problem, network, version, steps)
    state = method.advance(method.start(np.zeros(problem.d), np.zeros((7, 5))), 500)
    assert np.linalg.norm(state.x - x) < 1e-10 * np.linalg.norm(x)
    assert np.linalg.norm(state.lam - lam) < 1e-10 * np.linalg.norm(lam)


def test_a_run_that_overflowed_is_measured_without_a_warning():
    problem = random_problem(3, n=5, p=3, smooth="quadratic", proximable="l1", coupling="squared-loss")
    method = CompiledNpga(problem, npga.Network.ring(5), npga.version("nids"), npga.Steps(alpha=1e3, beta=1e3))
    meter = method.meter(np.zeros(problem.d), np.ones(problem.d))
    state = start(method)
    while np.abs(state.lam).max() < 1e160:  # whose square is infinite
        state = method.advance(state, 1)
    assert np.isnan(meter.measure(state, 0.0).record.consensus)


@settings(max_examples=60, deadline=None)
@given(**DRAWN | {"matrices": st.sampled_from(["dense", "sparse"])})
def test_random_problems_equal_the_vectorised_path(seed, name, smooth, proximable, coupling, matrices, theta):
    problem = random_problem(seed, 6, 4, smooth, proximable, coupling, matrices)
    network = network_for(name, 6, seed % 1000)
    steps = tame_steps(problem, gamma=0.5, theta=theta)
    vectorised, compiled = both(problem, network, with_tame_c(name, network, steps), steps)
    a, b = start(vectorised), start(compiled)
    for count in (1, 1, 2, 16):
        a, b = vectorised.advance(a, count), compiled.advance(b, count)
        assert difference(a, b) < 1e-12
    assert (a.iteration, a.rounds) == (b.iteration, b.rounds)


WRAPPED = {
    "scaled": lambda f: fn.Scaled(f, 1.7),
    "shifted": lambda f: fn.Shifted(f, 0.3),
    "both": lambda f: fn.Shifted(fn.Scaled(fn.Shifted(f, -0.2), 0.6), 0.5),
}


@pytest.mark.parametrize("wrap", sorted(WRAPPED))
@pytest.mark.parametrize("kind", sorted(SMOOTH))
def test_calculus_of_smooth_functions(kind, wrap):
    check_functions(WRAPPED[wrap](SMOOTH[kind](np.random.default_rng(0), 4)), fn.Zero(), fn.SquaredLoss(0.5))


@pytest.mark.parametrize("wrap", sorted(WRAPPED))
@pytest.mark.parametrize("kind", sorted(PROXIMABLE))
def test_calculus_of_proximable_functions(kind, wrap):
    check_functions(fn.SquaredNorm(), WRAPPED[wrap](PROXIMABLE[kind](np.random.default_rng(0), 4)), fn.SquaredLoss(0.5))


@pytest.mark.parametrize("wrap", sorted(WRAPPED))
@pytest.mark.parametrize("kind", sorted(COUPLING))
def test_calculus_of_couplings(kind, wrap):
    rng = np.random.default_rng(0)
    check_functions(fn.SquaredNorm(), fn.L1(0.1), WRAPPED[wrap](COUPLING[kind](rng, rng.standard_normal(6))))


@pytest.mark.parametrize("coupling", [fn.L2(0.4), fn.Simplex(2.0), fn.GroupL2([0.3, 0.8], [0, 1, 0, 0, 1, 1])])
def test_block_functions_as_coupling(coupling):
    check_functions(fn.SquaredNorm(), fn.Zero(), coupling)


def test_sums_of_unlike_parts():
    mixed = fn.SeparableSum([fn.L1(0.2), fn.Ball(0.1, 0.5), fn.Box(-1.0, 1.0)], [1, 2, 1])
    smooth = fn.SeparableSum([fn.Logistic([1.0, -1.0]), fn.Huber(0.3)], [2, 2])
    check_functions(smooth, mixed, fn.SeparableSum([fn.Equality(0.1), fn.SquaredLoss(0.2), fn.L2(0.4)], [2, 2, 2]))
    check_functions(smooth, fn.Shifted(mixed, np.arange(4.0)), fn.Hinge(1.0))


def check_functions(f, g, h):
    rng = np.random.default_rng(5)
    agents = [npga.Agent(0.5 * rng.standard_normal((6, 4)), f, g) for _ in range(3)]
    agents.append(npga.Agent(np.zeros((6, 0)), fn.Zero()))
    problem = npga.Problem(agents, h)
    steps = npga.Steps(0.1, 0.3, 0.7, 0.4)
    vectorised, compiled = both(problem, npga.Network.ring(4), npga.version("npga-ii"), steps)
    a, b = start(vectorised), start(compiled)
    for _ in range(4):
        a, b = vectorised.advance(a, 5), compiled.advance(b, 5)
        assert difference(a, b) < 1e-12


def test_every_layout_of_a_matrix_is_read_in_place():
    rng = np.random.default_rng(2)
    wide = rng.standard_normal((40, 100))
    blocks = [
        wide[:, :20],
        np.asfortranarray(wide[:, 20:40]),
        wide[::2, 40:60].repeat(2, 0),
        wide.T[60:80].T,
        wide[:, 80:],
    ]
    strided = np.ones((80, 40))[::2, ::2]
    problem = npga.Problem(
        [npga.Agent(A, fn.SquaredNorm(0.1), fn.L1(0.01)) for A in [*blocks, strided]], fn.Equality(0.0)
    )
    vectorised, compiled = both(problem, npga.Network.ring(6), npga.version("extra"), npga.Steps(0.01, 0.01))
    assert difference(vectorised.advance(start(vectorised), 20), compiled.advance(start(compiled), 20)) < 1e-12
    packed = compiled.plan.parts.packed
    assert all(np.shares_memory(matrix.given["data"], A) for matrix, A in zip(packed[:5], blocks, strict=True))


@pytest.mark.parametrize("matrices", ["dense", "sparse"])
def test_single_precision_stays_single(matrices):
    problem = random_problem(7, proximable="elastic-net", coupling="logistic", matrices=matrices)
    agents = [replace(agent, A=agent.A.astype(np.float32)) for agent in problem.agents]
    single = npga.Problem(agents, problem.h)
    assert single.dtype == np.float32
    steps = tame_steps(problem)
    vectorised, compiled = both(single, npga.Network.ring(6), npga.version("nids"), steps)
    a, b = vectorised.advance(start(vectorised), 50), compiled.advance(start(compiled), 50)
    assert all(getattr(b, name).dtype == np.float32 for name in ARRAYS)
    assert difference(a, b) < 5e-6


def test_bits_do_not_depend_on_where_a_run_pauses():
    problem = random_problem(8, proximable="l1", coupling="squared-loss")
    method = CompiledNpga(problem, npga.Network.ring(6), npga.version("npga-ii"), tame_steps(problem, theta=0.5))
    whole, pieces = method.advance(start(method), 60), start(method)
    for count in (1, 7, 22, 30):
        pieces = method.advance(pieces, count)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))


@pytest.mark.parametrize("name", ["extra", "npga-ii"])
def test_stops_at_the_first_state_that_is_not_finite(name):
    problem = random_problem(8, coupling="squared-loss")
    steps = npga.Steps(alpha=40.0, beta=90.0)
    vectorised, compiled = both(problem, npga.Network.ring(6), npga.version(name), steps)
    a, b = vectorised.advance(start(vectorised), 5000), compiled.advance(start(compiled), 5000)
    assert 10 < a.iteration == b.iteration < 5000
    result = npga.solve(problem, npga.Network.ring(6), name, steps)
    assert (result.status, result.path) == (npga.Status.DIVERGED, "compiled")


def test_nothing_that_was_passed_in_is_changed():
    problem = random_problem(8, proximable="l1", coupling="squared-loss")
    matrices = [agent.A.copy() for agent in problem.agents]
    method = CompiledNpga(problem, npga.Network.ring(6), npga.version("extra"), tame_steps(problem))
    state = start(method)
    before = {name: getattr(state, name).copy() for name in ARRAYS}
    method.advance(state, 10)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(state, name), before[name])
    for agent, A in zip(problem.agents, matrices, strict=True):
        np.testing.assert_array_equal(agent.A, A)


# ------------------------------------------------------------------ which path


def simple(A=None, f=None, g=None, h=None):
    A = np.ones((2, 3)) if A is None else A
    agents = [npga.Agent(np.eye(2), fn.SquaredNorm()), npga.Agent(A, f or fn.SquaredNorm(), g or fn.Zero(), name="bob")]
    return npga.Problem(agents, h or fn.Equality(1.0))


CUSTOM = fn.Custom(value=lambda x: 0.0 * x.sum(), grad=lambda x: 0.0 * x, prox=lambda x, t: x, L=0.0)


@pytest.mark.parametrize(
    ("problem", "culprit"),
    [
        (simple(A=aslinearoperator(np.ones((2, 3)))), r"A of agent 1 \(bob\)"),
        (simple(f=CUSTOM), r"f of agent 1 \(bob\)"),
        (simple(g=CUSTOM), r"g of agent 1 \(bob\)"),
        (simple(g=fn.Quadratic(np.eye(3))), r"g of agent 1 \(bob\)"),
        (simple(h=CUSTOM), "h is"),
    ],
)
def test_what_has_no_kernel_runs_vectorised_and_is_named(problem, culprit):
    network, steps = npga.Network.path(2), npga.Steps(0.1, 0.1)
    result = npga.solve(problem, network, "extra", steps, max_iters=20)
    assert result.path == "vectorised"
    with pytest.raises(npga.errors.InputError, match=culprit):
        npga.solve(problem, network, "extra", steps, path="compiled")


def test_explicit_matrices_run_vectorised():
    network = npga.Network.path(2)
    version = npga.Version.from_matrices("mine", np.eye(2) - network.W.toarray())
    assert npga.solve(simple(), network, version, npga.Steps(0.1, 0.1), max_iters=5).path == "vectorised"
    with pytest.raises(npga.errors.InputError, match="explicit matrices"):
        npga.solve(simple(), network, version, npga.Steps(0.1, 0.1), path="compiled")


def test_asking_for_a_path():
    network, steps = npga.Network.path(2), npga.Steps(0.1, 0.1)
    for asked, ran in (("auto", "compiled"), ("compiled", "compiled"), ("vectorised", "vectorised")):
        assert npga.solve(simple(), network, "extra", steps, max_iters=5, path=asked).path == ran
        assert method_for(simple(), network, npga.version("extra"), steps, asked).path == ran
    with pytest.raises(npga.errors.InputError, match="expected one of auto, compiled, vectorised"):
        npga.solve(simple(), network, "extra", steps, path="fast")


def test_importing_npga_imports_nothing_heavy():
    heavy = ("networkx", "scipy.sparse.linalg", "cvxpy")
    code = f"import sys, npga; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
