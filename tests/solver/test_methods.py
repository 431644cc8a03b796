"""Any method runs in the one loop: the table, the centralised method, and methods of one's own."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import make_regression
from sklearn.linear_model import ElasticNet

import npga
from helpers.families import COUPLING, MATRICES, PROXIMABLE, SMOOTH, random_problem
from npga import functions as fn
from npga.solver import METHODS, Iterate, Method, MethodRow

STEPS = npga.Steps(alpha=0.3, beta=0.05, theta=0.7)


def ring(n=6):
    return npga.Network.ring(n)


# ------------------------------------------------------------------ the table


def test_the_table_lists_what_runs():
    table = npga.methods()
    assert [row.name for row in table][:2] == ["npga", "pga"]
    assert "name" in repr(table)
    assert "Li & Su 2024" in repr(table)
    assert table.to_dicts()[1]["rounds"] == "0"
    assert "<td>pga</td>" in table._repr_html_()
    assert len(table[:1]) == 1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"method": "pgg"}, "did you mean 'pga'"),
        ({"method": 3}, "method 3 is unknown"),
        ({"method": "pga", "version": "nids"}, "version = 'nids' arrived for the method pga"),
        ({"method": "pga", "steps": npga.Steps(0.1, 0.1, 0.9)}, "pga has no gamma"),
        ({"method": "id2a", "path": "compiled"}, "id2a has no kernel"),
        ({"method": "pga", "network": npga.Network.ring(5)}, "network has 5 nodes"),
        ({"method": "pga", "steps": (0.1, 0.1)}, "steps is a tuple"),
    ],
)
def test_bad_input_is_refused_before_the_first_iteration(kwargs, message):
    calls = []
    arguments = {"problem": random_problem(17), "network": ring()} | kwargs
    with pytest.raises(ValueError, match=message):
        npga.solve(**arguments, callback=lambda *_: calls.append(1))
    assert not calls


# ------------------------------------------------------------------ the centralised method


def literal_pga(problem, steps, x, lam):
    """Equation (pga), with A = [A_1, ..., A_n] as one dense matrix."""
    A = np.hstack([agent.A @ np.eye(agent.A.shape[1]) for agent in problem.agents])
    blocks = np.split(np.arange(problem.d), problem.A.offsets[1:-1])
    while True:
        grad = np.concatenate([agent.f.grad(x[b]) for agent, b in zip(problem.agents, blocks, strict=True)])
        moved = x - steps.alpha * (grad + A.T @ lam)
        new = np.concatenate([
            agent.g.prox(moved[b], steps.alpha) for agent, b in zip(problem.agents, blocks, strict=True)
        ])  # fmt: skip
        raised = lam + steps.beta * A @ (new + steps.theta * (new - x))
        # Moreau: prox_{beta h*}(v) = v - beta prox_{h/beta}(v/beta).
        lam = raised - steps.beta * problem.h.prox(raised / steps.beta, 1.0 / steps.beta)
        x = new
        yield x, lam


@pytest.mark.parametrize("coupling", sorted(COUPLING))
@pytest.mark.parametrize("matrices", MATRICES)
def test_iterates_are_those_of_the_equation(coupling, matrices):
    kinds = sorted(SMOOTH), sorted(PROXIMABLE)
    k = sorted(COUPLING).index(coupling)
    problem = random_problem(k, 6, 4, kinds[0][k % len(kinds[0])], kinds[1][k % len(kinds[1])], coupling, matrices)
    rng = np.random.default_rng(k)
    x0, lam0 = rng.standard_normal(problem.d), rng.standard_normal(problem.p)
    states = {}
    npga.solve(
        problem, ring(), method="pga", steps=STEPS, x0=x0, lam0=lam0, max_iters=50, record_every=1, tol=None,
        callback=lambda record, state: states.update({record.iteration: state}),
    )  # fmt: skip
    for iteration, (x, lam) in zip(range(1, 51), literal_pga(problem, STEPS, x0, lam0), strict=False):
        np.testing.assert_allclose(states[iteration].x, x, atol=1e-12)
        np.testing.assert_allclose(states[iteration].lam, lam[None], atol=1e-12)


def test_it_needs_no_message_and_counts_like_the_others():
    problem = random_problem(17, coupling="squared-loss")
    result = npga.solve(problem, ring(), method="pga", tol=1e-10)
    assert result.status is npga.Status.CONVERGED
    assert (result.method, result.version, result.path) == ("pga", None, "compiled")
    assert (result.rounds, result.messages, result.floats_sent) == (0, 0, 0)
    assert result.lam.shape == (problem.n, problem.p)
    assert (result.lam == result.lam[0]).all()
    assert problem.kkt(result.x, result.lam).kkt <= 1e-10
    assert result.trace["consensus"].max() == 0.0
    assert "pga: converged after" in str(result)
    with pytest.raises(ValueError, match="pga is not a version of NPGA"):
        _ = result.certificate


@pytest.mark.parametrize("coupling", ["equality", "ball", "logistic"])
@pytest.mark.parametrize("matrices", ["dense", "sparse"])
def test_the_compiled_form_gives_the_vectorised_iterates(coupling, matrices):
    problem = random_problem(23, 7, 5, "quadratic", "l1", coupling, matrices)
    star, steps = npga.reference(problem).x, npga.Steps(0.1, 0.05, theta=0.7)
    options = {"steps": steps, "max_iters": 300, "tol": None, "reference": star, "lam0": np.arange(5.0)}
    a, b = (npga.solve(problem, ring(7), method="pga", path=path, **options) for path in ("vectorised", "compiled"))
    assert (a.path, b.path) == ("vectorised", "compiled")
    for name in ("iteration", "gap", "kkt", "objective"):
        np.testing.assert_allclose(a.trace[name], b.trace[name], rtol=1e-7, atol=1e-12)
    for name in ("x", "lam", "lam_prev"):
        np.testing.assert_allclose(getattr(a.state, name), getattr(b.state, name), rtol=0, atol=1e-12)
    onwards = [npga.solve(problem, ring(7), "nids", npga.Steps(0.1, 0.05), start=one, max_iters=50) for one in (a, b)]
    np.testing.assert_allclose(onwards[0].x, onwards[1].x, rtol=0, atol=1e-11)


def test_what_is_not_compiled_says_why():
    problem = random_problem(17, coupling="equality")
    steps = npga.Steps(tuple(0.1 for _ in range(problem.n)), 0.1)
    result = npga.solve(problem, ring(), method="pga", steps=steps, max_iters=5)
    assert (result.path, "alpha for each agent" in result.path_reason) == ("vectorised", True)
    result = npga.solve(problem, ring(), method="dc-admm", max_iters=5)
    assert (result.path, result.path_reason) == ("vectorised", "dc-admm has no kernel")
    result = npga.solve(problem, ring(), method="pga", max_iters=5)
    assert (result.path, result.path_reason) == ("compiled", "")


def test_elastic_net_is_scikit_learns():
    X, y = make_regression(20, 10, n_informative=4, noise=1.0, random_state=1)
    X, y = X / np.linalg.norm(X, axis=0), y / np.linalg.norm(y)
    l1, l2 = 0.003, 0.02
    agents = [npga.Agent(A=block, f=fn.SquaredNorm(l2), g=fn.L1(l1)) for block in np.array_split(X, 5, axis=1)]
    problem = npga.Problem(agents, fn.SquaredLoss(y, 1 / 20))
    result = npga.solve(problem, ring(5), method="pga", tol=1e-12)
    assert result.status.ok
    model = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-15, max_iter=10**6)
    np.testing.assert_allclose(result.x, model.fit(X, y).coef_, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_an_equality_with_a_box_is_cvxpys(seed):
    rng = np.random.default_rng(seed)
    A, q = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 2))
    b = np.einsum("ipd,id->p", A, rng.uniform(-0.5, 0.5, (4, 2)))
    agents = [npga.Agent(A[i], fn.Quadratic(np.eye(2), q[i]), fn.Box(-1.0, 1.0)) for i in range(4)]
    result = npga.solve(npga.Problem(agents, fn.Equality(b)), ring(4), method="pga", tol=1e-11)
    x = cp.Variable((4, 2))
    total = sum(A[i] @ x[i] for i in range(4))
    cost = cp.sum_squares(x) / 2 + cp.sum(cp.multiply(q, x))
    cp.Problem(cp.Minimize(cost), [total == b, cp.abs(x) <= 1]).solve(solver="CLARABEL", tol_gap_abs=1e-12)
    assert result.status.ok
    np.testing.assert_allclose(result.x.reshape(4, 2), x.value, atol=1e-6)


@pytest.mark.parametrize("smooth", ["linear", "zero"])
def test_chosen_steps_are_safe_without_curvature(smooth):
    problem = random_problem(3, 6, 3, smooth, "box", "squared-loss")
    result = npga.solve(problem, ring(), method="pga", tol=1e-8)
    assert result.status.ok


def test_divergence_names_a_step():
    problem = random_problem(17, coupling="squared-loss")
    result = npga.solve(problem, ring(), method="pga", steps=npga.Steps(0.3, 50.0), max_iters=5000)
    assert result.status is npga.Status.DIVERGED
    assert "reduce beta" in result.message


# ------------------------------------------------------------------ going on


def test_resume_and_start_give_the_same_bits(tmp_path):
    problem, file = random_problem(5, proximable="l1", coupling="ball"), tmp_path / "run.npz"
    options = {"method": "pga", "steps": STEPS, "tol": None}
    whole = npga.solve(problem, ring(), max_iters=300, **options)
    half = npga.solve(problem, ring(), max_iters=111, checkpoint=file, **options)
    resumed = npga.solve(problem, ring(), max_iters=300, checkpoint=file, resume=True, **options)
    started = npga.solve(problem, ring(), max_iters=189, start=half, **options)
    for other in (resumed, started):
        np.testing.assert_array_equal(other.x, whole.x)
        np.testing.assert_array_equal(other.lam, whole.lam)
    assert resumed.iterations == 300


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    problem, file = random_problem(5), tmp_path / "run.npz"
    npga.solve(problem, ring(), method="pga", steps=STEPS, max_iters=5, checkpoint=file)
    with pytest.raises(ValueError, match="belongs to a run with method pga, but this one has npga"):
        npga.solve(problem, ring(), "extra", STEPS, checkpoint=file, resume=True)
    with pytest.raises(ValueError, match="belongs to a run with steps"):
        npga.solve(problem, ring(), method="pga", checkpoint=file, resume=True)


def test_each_method_goes_on_from_the_others_solution():
    problem = random_problem(17, proximable="l1", coupling="squared-loss")
    central = npga.solve(problem, ring(), method="pga", tol=1e-13)
    assert central.status.ok
    npga_steps = npga.Steps(0.2, 0.4, 0.6, 0.5)
    version = npga.solve(problem, ring(), "extra", npga_steps, start=central, max_iters=20, tol=None)
    assert version.trace["kkt"].max() < 1e-11
    again = npga.solve(problem, ring(), method="pga", start=version, max_iters=20, tol=None)
    assert again.trace["kkt"].max() < 1e-11


# ------------------------------------------------------------------ a method of one's own


class Penalty(Method[Iterate]):
    """Gradient descent on f(x) + h(A x) for a smooth h, in which every agent tells all others its A_i x_i."""

    name = "penalty"
    kind = Iterate
    vectors = 2

    def __init__(self, problem, network, steps):
        self.problem, self.network, self.steps, self.rounds = problem, network, steps, network.n

    def start(self, x0, lam0):
        return Iterate(x0, lam0, np.zeros_like(lam0))

    def advance(self, state, iterations):
        for _ in range(iterations):
            price = self.problem.h.grad(self.problem.A.apply(state.x).sum(axis=0))
            lam = np.tile(price, (self.problem.n, 1))
            x = state.x - self.steps.alpha * (self.problem.f.grad(state.x) + self.problem.A.adjoint(lam))
            counts = {"iteration": state.iteration + 1, "rounds": state.rounds + self.rounds}
            state = Iterate(x, lam, state.lam, **counts)
        return state


def test_a_method_object_runs_like_the_others(tmp_path):
    problem, network = random_problem(17, coupling="squared-loss"), ring()
    method = Penalty(problem, network, npga.Steps(0.1, 1.0))
    result = npga.solve(problem, network, method=method, tol=1e-9, checkpoint=tmp_path / "run.npz")
    assert result.status.ok
    assert result.rounds == 6 * result.iterations
    assert result.floats_sent == 2 * problem.p * result.messages == 2 * problem.p * 12 * result.rounds
    np.testing.assert_allclose(result.x, npga.reference(problem).x, atol=1e-7)
    longer = npga.solve(problem, network, method=method, tol=None, max_iters=result.iterations + 9)
    resumed = npga.solve(problem, network, method=method, tol=None, max_iters=result.iterations + 9, resume=True,
                         checkpoint=tmp_path / "run.npz")  # fmt: skip
    np.testing.assert_array_equal(resumed.lam, longer.lam)
    with pytest.raises(ValueError, match="made for another problem"):
        npga.solve(problem, ring(), method=method)
    with pytest.raises(ValueError, match="leave version and steps out"):
        npga.solve(problem, network, steps=STEPS, method=method)


def test_a_row_makes_a_method_known_by_name(monkeypatch):
    needs = "it needs a gradient of h"
    row = MethodRow("penalty", "smooth h, g = 0", "n", "2 n", "nothing", "nobody",
                    make=lambda problem, network, _, steps: Penalty(problem, network, steps),
                    refuses=lambda problem: None if problem.h.has_grad else needs)  # fmt: skip
    monkeypatch.setitem(METHODS, "penalty", row)
    problem = random_problem(17, coupling="squared-loss")
    assert npga.solve(problem, ring(), method="penalty", steps=npga.Steps(0.1, 1.0)).status.ok
    assert npga.methods()[-1].name == "penalty"
    with pytest.raises(ValueError, match="penalty needs steps"):
        npga.solve(problem, ring(), method="penalty")
    with pytest.raises(ValueError, match="penalty cannot solve this problem: it needs a gradient of h"):
        npga.solve(random_problem(17, coupling="equality"), ring(), method="penalty")


def test_what_is_absent_says_why():
    assert "IDEA (Li & Su 2022)" in repr(npga.methods())
    with pytest.raises(ValueError, match="continuous-time"):
        npga.solve(random_problem(17), ring(), method="IDEA")
