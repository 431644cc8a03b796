"""Three rows of CONTRIBUTING's table "to add X, touch Y", done: what is written here is all that each of them takes."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import npga
from npga import functions as fn
from npga.functions import Elementwise, KernelForm, Kind
from npga.networks import Look, VersionRow, version_rows
from npga.solver import METHODS, Iterate, Method, MethodRow

STEPS = npga.Steps(alpha=0.3, beta=0.2, gamma=0.9)


def problem_with(g):
    """Five agents with two variables each, coupled by a squared loss."""
    rng = np.random.default_rng(7)
    agents = [npga.Agent(rng.standard_normal((3, 2)) / 2, fn.Quadratic(np.eye(2), rng.standard_normal(2)), g)
              for _ in range(5)]  # fmt: skip
    return npga.Problem(agents, fn.SquaredLoss(rng.standard_normal(3), 0.7))


# ------------------------------------------------------------------ a function, with a kernel


class Tent(Elementwise):
    """f(x) = w sum_j max(-x_j, 2 x_j): a loss that minds too much twice as much as too little."""

    kind = "tent"
    names = ("weight",)
    _scaled = ("weight",)

    def __init__(self, weight=1.0):
        self._store(weight=float(weight))

    def _terms(self, x):
        return self.weight * np.maximum(-x, 2.0 * x)

    def _prox(self, x, t):
        return x - np.clip(x, -t * self.weight, 2.0 * t * self.weight)  # x minus its projection on t [-w, 2 w]

    def kernel(self, size):
        return (KernelForm(Kind.KINKED, size, a=-self.weight, b=2.0 * self.weight),)


def test_a_new_function_is_checked_joined_compiled_and_right():
    assert fn.check(Tent(0.4), dim=3).ok
    problem, network = problem_with(Tent(0.4)), npga.Network.ring(5)
    runs = {
        path: npga.solve(problem, network, "nids", STEPS, tol=1e-12, path=path) for path in ("vectorised", "compiled")
    }
    assert runs["compiled"].path == "compiled"
    assert runs["compiled"].status.ok
    np.testing.assert_allclose(runs["compiled"].x, runs["vectorised"].x, atol=1e-11)
    x = cp.Variable(10)
    rows = np.hstack([agent.A for agent in problem.agents])
    q = np.concatenate([agent.f.q for agent in problem.agents])
    tent = 0.4 * cp.sum(cp.maximum(-x, 2 * x))
    loss = 0.35 * cp.sum_squares(rows @ x - problem.h.target)
    cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 + q @ x + tent + loss)).solve(solver="CLARABEL", tol_gap_abs=1e-12)
    np.testing.assert_allclose(runs["compiled"].x, x.value, atol=1e-6)
    assert (np.abs(x.value) < 1e-6).any()  # some of them sit at the kink


def test_multiples_and_translates_of_it_are_compiled_too():
    shifted = (2.0 * Tent(0.2)).shift(np.array([0.1, -0.2]))
    problem, network = problem_with(shifted), npga.Network.ring(5)
    runs = [
        npga.solve(problem, network, "extra", STEPS, max_iters=60, tol=None, path=p) for p in ("vectorised", "auto")
    ]
    assert runs[1].path == "compiled"
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-12)


# ------------------------------------------------------------------ a version


@pytest.fixture
def toy_row(monkeypatch):
    """B^2 = (I - W)^2 / 2, C = 0, D = (I + W^2) / 2."""
    row = VersionRow(
        "NPGA-Toy",
        "nobody",
        ((0.5, -1.0, 0.5), (0.0,), (0.5, 0.0, 0.5)),
        ("(1/2)(I - W)^2", "0", "(1/2)(I + W^2)"),
        Look("Toy", "#123456", "-", "*"),
    )
    monkeypatch.setitem(version_rows(), "toy", row)


@pytest.mark.usefixtures("toy_row")
def test_a_new_version_is_listed_solved_certified_and_tuned():
    problem, network = problem_with(fn.L1(0.1)), npga.Network.ring(5).lazy()
    row = next(row for row in npga.versions() if row.name == "toy")
    assert (row.family, row.rounds) == ("ATC", 2)
    result = npga.solve(problem, network, "toy", STEPS, tol=1e-10)
    assert result.status.ok
    assert result.path == "compiled"
    assert result.rounds == 2 * result.iterations
    np.testing.assert_allclose(result.x, npga.reference(problem).x, atol=1e-8)
    assert npga.certify(problem, network, "toy").theorems["4+"].applies
    assert npga.tune(problem, network, "toy", method="search", max_seconds=2.0).version.name == "toy"


# ------------------------------------------------------------------ a method


class DualAscent(Method[Iterate]):
    """Dual gradient ascent in one place, for f = |x - c|^2 / 2 and g = 0: x(lam) is in closed form.

    x+ = c - A^T lam,   lam+ = prox_{beta h*}(lam + beta A x+)
    """

    name = "dual-ascent"
    kind = Iterate

    def __init__(self, problem, network, steps):
        self.problem, self.network, self.steps = problem, network, steps

    def start(self, x0, lam0):
        return Iterate(x0, lam0, np.zeros_like(lam0))

    def advance(self, state, iterations):
        problem, beta = self.problem, self.steps.beta
        for _ in range(iterations):
            x = problem.f.center - problem.A.adjoint(state.lam)
            lam = problem.h.conj_prox(state.lam[0] + beta * problem.A.apply(x).sum(axis=0), beta)
            state = Iterate(x, np.tile(lam, (problem.n, 1)), state.lam, iteration=state.iteration + 1)
        return state


ROW = MethodRow(
    name="dual-ascent",
    solves="f = |x - c|^2 / 2, g = 0",
    rounds="0",
    vectors="0",
    inside="each agent's own problem, in closed form",
    reference="nobody",
    make=lambda problem, network, _, steps: DualAscent(problem, network, steps),
    refuses=lambda problem: None if problem.g.is_zero else "it has a g",
)


def test_a_new_method_is_listed_run_metered_saved_and_refuses(monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "dual-ascent", ROW)
    rng = np.random.default_rng(3)
    agents = [
        npga.Agent(rng.standard_normal((3, 2)) / 3, fn.SquaredNorm(1.0, rng.standard_normal(2))) for _ in range(5)
    ]
    problem, network = npga.Problem(agents, fn.Equality(np.ones(3))), npga.Network.ring(5)
    assert npga.methods()[-1].name == "dual-ascent"
    options = {"method": "dual-ascent", "steps": npga.Steps(1.0, 0.3)}
    star = npga.reference(problem).x
    result = npga.solve(problem, network, tol=1e-10, reference=star, **options)
    assert result.status.ok
    assert result.rounds == 0
    assert result.trace["gap"][-1] < 1e-8
    whole = npga.solve(problem, network, max_iters=30, tol=None, **options)
    npga.solve(problem, network, max_iters=13, tol=None, checkpoint=tmp_path / "run.npz", **options)
    rest = npga.solve(
        problem, network, max_iters=30, tol=None, checkpoint=tmp_path / "run.npz", resume=True, **options
    )  # fmt: skip
    np.testing.assert_array_equal(whole.lam, rest.lam)
    with pytest.raises(ValueError, match="dual-ascent cannot solve this problem: it has a g"):
        npga.solve(problem_with(fn.L1(0.1)), network, **options)
