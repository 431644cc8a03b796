"""Along real runs at certified steps the paper's Lyapunov functions shrink by delta in every iteration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npga
from helpers import dense_theory as dense
from helpers.families import VERSIONS, random_problem
from npga import functions as fn
from npga.theory import certify

ACCURATE = 1e-9  # residual of a centralised solution that errors can be measured from
KEYS = ("1", "1+", "2", "3", "3+", "4", "4+")
COUPLINGS = ("equality", "ball", "less-equal", "l1", "squared-loss", "huber", "logistic")


def matched(problem, solution, lam):
    """The dual solution whose mean is that of the start where A^T does not see it: that part never changes."""
    A = np.hstack([agent.A for agent in problem.agents])
    U, values, _ = np.linalg.svd(A)
    null = U[:, np.sum(values > 1e-12 * values[0]) :]
    return solution.lam + null @ (null.T @ (lam.mean(axis=0) - solution.lam)) if problem.h.is_point else solution.lam


def excess(problem, solution, x):
    """g(x) - g(x*) - <S*, x - x*> with the subgradient S* = -grad f(x*) - A^T lam* of g at x*."""
    lam = np.tile(solution.lam, (problem.n, 1))
    slope = -problem.f.grad(solution.x) - problem.A.adjoint(lam)
    return problem.g(x) - problem.g(solution.x) - slope @ (x - solution.x)


def check(problem, network, name, cert, iterations, seed, stretch=1.0, keys=KEYS):
    """Follow the literal recursion; return how many theorems were tested. `stretch` exaggerates their promise."""
    covering = [t for t in cert.theorems.values() if t.applies and t.key in keys]
    solution = npga.reference(problem)
    assert solution.kkt <= ACCURATE
    rng = np.random.default_rng(seed)
    for theorem in covering:
        steps = theorem.steps
        k = dense.constants(problem, network, name, steps)
        B2, C, D = dense.table(
            name, network.W.toarray(), network.laplacian.toarray(), steps.beta, dense.default_c(name)
        )
        x = solution.x + 3.0 * rng.standard_normal(problem.d)
        lam = solution.lam + 3.0 * rng.standard_normal((problem.n, problem.p))
        lam_star = matched(problem, solution, lam)
        v_star, y_star = dense.fixed_point(problem, B2, steps, solution.x, lam_star)
        before = None
        if theorem.key not in ("3", "3+"):  # Theorem 3's function contains v, which the start does not define
            start = (x - solution.x, None, -y_star, lam - lam_star, excess(problem, solution, x))
            before = dense.lyapunov(theorem.key, k, steps, *start)
        first = before
        size = np.sum((x - solution.x) ** 2) + steps.alpha / steps.beta * (
            np.sum((lam - lam_star) ** 2) + np.sum(y_star**2) / steps.gamma
        )
        for number, (x1, v, y, lam1) in enumerate(dense.trajectory(problem, B2, C, D, steps, iterations, x, lam), 1):
            errors = (x1 - solution.x, v - v_star, y - y_star, lam1 - lam_star)
            after = dense.lyapunov(theorem.key, k, steps, *errors, excess(problem, solution, x1))
            if before is not None:
                rate = 1 - stretch * theorem.gap
                assert after <= rate * before * (1 + 1e-9), (theorem.key, after / before, rate)
            promised = theorem.constant * theorem.rate ** (number / 2) * np.sqrt(size)
            assert np.linalg.norm(errors[0]) <= promised * (1 + 1e-9)
            first = after if first is None or not np.isfinite(first) else first
            before = after
            if after <= 1e-10 * first:
                break
    return len(covering)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 6),
    p=st.integers(1, 3),
    name=st.sampled_from(VERSIONS),
    lazy=st.booleans(),
    coupling=st.sampled_from(COUPLINGS),
    smooth=st.sampled_from(["squared-norm", "quadratic", "least-squares"]),
    proximable=st.sampled_from(["zero", "zero", "l1", "box", "elastic-net"]),
)
def test_at_the_best_steps_of_each_theorem(seed, n, p, name, lazy, coupling, smooth, proximable):
    sizes = np.random.default_rng(seed).integers(1, 4, n)
    sizes[0] = p
    problem = random_problem(seed, n, p, smooth, proximable, coupling, "dense", sizes)
    network = npga.Network.erdos_renyi(n, 0.6, seed=seed)
    network = network.lazy() if lazy else network
    check(problem, network, name, certify(problem, network, name), 40, seed)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(VERSIONS),
    coupling=st.sampled_from(COUPLINGS),
    theta=st.sampled_from([0.0, 0.2, 1.0, 3.0]),
    fractions=st.tuples(st.floats(0.01, 0.999), st.floats(0.01, 1.0), st.floats(0.01, 0.999)),
    lazy=st.booleans(),
    proximable=st.sampled_from(["zero", "l1", "box", "group-l2", "elastic-net", "squared-norm"]),
)
def test_anywhere_inside_the_bounds(seed, name, coupling, theta, fractions, lazy, proximable):
    problem = random_problem(seed, 5, 2, "quadratic", proximable, coupling, "dense", [2, 1, 1, 3, 1])
    network = npga.Network.erdos_renyi(5, 0.6, seed=seed)
    network = network.lazy() if lazy else network
    wide = certify(problem, network, name, npga.Steps(1e-6, 1e-6, 1e-6, theta)).theorems
    for key in KEYS:
        bounds = wide[key].bounds
        alpha, beta = fractions[0] * bounds["alpha"], fractions[1] * bounds["beta"]
        if not alpha > 0 or not beta > 0:
            continue
        room = certify(problem, network, name, npga.Steps(alpha, beta, 1e-9, theta)).theorems[key].bounds["gamma"]
        if not room > 0:
            continue
        steps = npga.Steps(alpha, beta, fractions[2] * room, theta)
        check(problem, network, name, certify(problem, network, name, steps), 25, seed)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("lazy", [False, True])
def test_dependent_rows_and_extrapolation(name, theta, lazy):
    """Theorem 3+: a consistent equality whose matrix lacks full row rank, with extrapolation, for every version."""
    rng = np.random.default_rng(3)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -2.0]])
    agents = [npga.Agent(A=rows @ rng.standard_normal((2, 2)), f=fn.SquaredNorm(1.0 + i)) for i in range(5)]
    problem = npga.Problem(agents, fn.Equality(rows @ [1.0, 2.0]))
    network = npga.Network.ring(5).lazy() if lazy else npga.Network.ring(5)
    best = certify(problem, network, replace(npga.version(name), fixed={"theta": theta}))
    assert [key for key, t in best.theorems.items() if t.applies] == ["3+"]
    assert check(problem, network, name, best, 120, 0) == 1


@pytest.mark.parametrize("name", VERSIONS)
def test_every_version_is_covered_somewhere_and_shrinks(name):
    """The random families above could in principle miss a version; this one cannot."""
    network = npga.Network.erdos_renyi(6, 0.5, seed=2).lazy()
    tested = 0
    for coupling in ("equality", "ball", "squared-loss"):
        problem = random_problem(4, 6, 3, "quadratic", "zero", coupling, "dense", [3, 1, 2, 1, 1, 2])
        tested += check(problem, network, name, certify(problem, network, name), 150, 0)
    assert tested >= 2


@pytest.mark.parametrize(
    ("key", "name", "coupling"),
    [
        ("1", "extra", "ball"),
        ("1+", "extra", "ball"),
        ("2", "npga-ii", "ball"),
        ("3", "nids", "equality"),
        ("3+", "extra", "equality"),
        ("4", "extra", "huber"),
        ("4+", "nids", "huber"),
    ],
)
def test_a_promise_five_times_as_strong_is_broken(key, name, coupling):
    """The checks above can fail: they do so when every theorem claims five times the decrease."""
    network = npga.Network.path(4).lazy()
    broken = 0
    for seed in range(20):
        problem = random_problem(seed, 4, 2, "squared-norm", "zero", coupling, "dense", [2, 1, 1, 1])
        cert = certify(problem, network, name)
        assert check(problem, network, name, cert, 60, seed, keys=(key,)) == 1
        try:
            check(problem, network, name, cert, 60, seed, stretch=5.0, keys=(key,))
        except AssertionError:
            broken += 1
    assert broken > 0


def test_gamma_one_in_our_theorem():
    network = npga.Network.ring(5).lazy()
    for name in ("aug-dgm", "atc-tracking", "exact-diffusion", "nids", "npga-i", "npga-ii"):
        problem = random_problem(7, 5, 2, "quadratic", "l1", "huber", "dense", [2, 1, 1, 3, 1])
        best = certify(problem, network, name).theorems["4+"].steps
        steps = npga.Steps(best.alpha, best.beta, 1.0, 0.0)
        cert = certify(problem, network, name, steps)
        assert cert.theorems["4+"].applies
        check(problem, network, name, cert, 100, 1)


def test_the_measured_rate_is_never_worse_than_the_certified_one():
    """For quadratics the iteration is linear, so its spectral radius is the rate: at most sqrt(delta)."""
    network = npga.Network.erdos_renyi(5, 0.5, seed=1).lazy()
    for coupling in ("equality", "squared-loss"):
        problem = random_problem(11, 5, 2, "quadratic", "zero", coupling, "dense", [2, 1, 1, 3, 1])
        for name in VERSIONS:
            for theorem in certify(problem, network, name).theorems.values():
                if theorem.applies:
                    assert radius(problem, network, name, theorem.steps) <= np.sqrt(theorem.rate) + 1e-12


def radius(problem, network, name, steps):
    """Spectral radius of one iteration on (x, y, lam), on the directions with y in col(B)."""
    n, p, d = problem.n, problem.p, problem.d
    W, L = network.W.toarray(), network.laplacian.toarray()
    B2, C, D = dense.table(name, W, L, steps.beta, dense.default_c(name))
    B = dense.root(B2)
    t = steps.beta / n

    def step(z):
        x, y, lam = z[:d], z[d : d + n * p].reshape(n, p), z[d + n * p :].reshape(n, p)
        grad = problem.f.grad(x) + problem.A.adjoint(lam)
        new = x - steps.alpha * grad
        v = lam - C @ lam - B @ y + steps.beta * problem.A.apply(new + steps.theta * (new - x))
        dual = np.array([row - t * problem.h.prox(row / t, 1 / t) for row in D @ v])
        return np.concatenate([new, (y + steps.gamma * B @ v).ravel(), dual.ravel()])

    zero = step(np.zeros(d + 2 * n * p))
    M = np.array([step(e) - zero for e in np.eye(d + 2 * n * p)]).T
    centre = np.eye(n) - 1 / n
    project = np.eye(len(M))
    project[d : d + n * p, d : d + n * p] = np.kron(centre, np.eye(p))
    return np.abs(np.linalg.eigvals(project @ M @ project)).max()
