"""Ancestors and rivals of NPGA: each against its published recursion, a reference, or a closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import npga
from helpers import oracles
from helpers.families import random_problem
from npga import functions as fn
from npga.errors import InputError
from npga.networks import Network
from npga.runtimes import launch, write_job
from npga.solver._subproblems import Newton, Subproblems

NETWORK = npga.Network.erdos_renyi(7, 0.45, seed=2)
EQUALITY_ONLY = ("tracking-admm", "dc-admm", "idc-admm")
SMOOTH_F = ("quadratic", "squared-norm", "least-squares", "huber")


def solved(problem, method, **options):
    star = npga.reference(problem).x
    result = npga.solve(problem, NETWORK, method=method, tol=1e-10, max_iters=20_000, reference=star, **options)
    assert result.status.ok, f"{result}"
    assert result.trace.gap[-1] < 1e-8
    return result


# ------------------------------------------------------------------ every method solves the problems of its class


@pytest.mark.parametrize("method", EQUALITY_ONLY)
@pytest.mark.parametrize(("smooth", "proximable"), [("quadratic", "zero"), ("squared-norm", "l1"), ("huber", "box")])
@pytest.mark.parametrize("seed", [0, 1])
def test_admm_solves_equalities(method, smooth, proximable, seed):
    solved(random_problem(seed, 7, 3, smooth, proximable, "equality"), method)


@pytest.mark.parametrize("method", ["id2a", "mid2a"])
@pytest.mark.parametrize("coupling", ["equality", "squared-loss", "less-equal", "ball", "hinge"])
def test_id2a_solves_all_of_p1(method, coupling):
    solved(random_problem(3, 7, 3, "quadratic", "l1", coupling), method)


@pytest.mark.parametrize(
    ("smooth", "proximable"), [("quadratic", "zero"), ("squared-norm", "box"), ("quadratic", "l1")]
)
@pytest.mark.parametrize("coupling", ["equality", "less-equal", "logistic"])
@pytest.mark.parametrize("version", ["nids", "extra"])
def test_dual_exact(smooth, proximable, coupling, version):
    result = solved(random_problem(4, 7, 3, smooth, proximable, coupling), "dual-exact", version=version)
    closed = proximable == "zero" or smooth == "squared-norm"
    assert (result.inner_iterations == 0) == closed


def logistic_pose(p=10, rho=0.02):
    """Six agents with features, and one with labels, margins z as its x, and a loss without strong convexity."""
    rng = np.random.default_rng(0)
    agents = [npga.Agent(rng.uniform(size=(p, 2)), fn.SquaredNorm(rho)) for _ in range(6)]
    agents.append(npga.Agent(-np.eye(p), fn.Logistic(np.sign(rng.standard_normal(p)), 1.0 / p)))
    return npga.Problem(agents, fn.Equality(np.zeros(p)))


@pytest.mark.parametrize("method", [*EQUALITY_ONLY, "id2a", "mid2a"])
def test_the_papers_pose_of_a_logistic_regression(method):
    problem = logistic_pose()
    assert problem.mu == 0.0
    solved(problem, method)
    with pytest.raises(InputError, match="agent 6 is not strongly convex"):
        npga.solve(problem, NETWORK, method="dual-exact")


def test_every_agents_own_problem_is_solved():
    """Newton's method, one step of it, and gradients, side by side, against SciPy's minimiser."""
    rng = np.random.default_rng(1)
    Q = np.diag([1.0, 3.0]) + 0.1
    agents = [
        npga.Agent(rng.standard_normal((4, 3)), fn.Logistic(np.array([1.0, -1.0, 1.0]))),
        npga.Agent(rng.standard_normal((4, 2)), fn.Quadratic(Q, np.ones(2))),
        npga.Agent(rng.standard_normal((4, 2)), fn.Quadratic(Q, np.ones(2)), fn.Box(-0.2, 0.1)),
    ]
    problem = npga.Problem(agents, fn.Equality(np.zeros(4)))
    c = np.array([0.3, 0.2, 0.5])
    own, linear, target = Subproblems(problem, c), 5.0 * rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    x, inner = own.solve(linear, target, np.zeros(problem.d))
    assert inner > 0
    for i, (agent, block) in enumerate(zip(agents, problem.split(x), strict=True)):

        def value(v, agent=agent, i=i):
            gap = agent.A @ v - target[i]
            return float(agent.f(v) + linear[i] @ (agent.A @ v) + c[i] / 2 * gap @ gap)

        bounds = [(-0.2, 0.1)] * 2 if i == 2 else None
        found = optimize.minimize(value, np.zeros(block.size), bounds=bounds, method="L-BFGS-B", tol=1e-14)
        assert value(block) <= found.fun + 1e-12
        pull = agent.f.grad(block) + agent.A.T @ (linear[i] + c[i] * (agent.A @ block - target[i]))
        np.testing.assert_allclose(block, agent.g.prox(block - pull, 1.0), rtol=0, atol=1e-11)


@pytest.mark.parametrize("spread", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("seed", range(40))
def test_newton_ends_where_rounding_begins(seed, spread):
    """Whatever the scales, and however much cancels, within f too; against the same equation in extended precision."""
    rng = np.random.default_rng(seed)
    m, p = rng.integers(1, 6), rng.integers(6, 9)
    A, labels = 10.0 ** rng.integers(-3, 4) * rng.standard_normal((p, m)), np.sign(rng.standard_normal(m))
    c, weight, linear = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-3, 3), 5.0 * rng.standard_normal(p)
    f, bend = fn.Logistic(labels, weight), 0.0
    if spread:  # s/2 |x - q|^2 + s/2 |x + q|^2
        bend, far = 10.0 ** rng.uniform(-2, 2), spread * rng.standard_normal(m)
        f = f + fn.SquaredNorm(bend / 2, far) + fn.SquaredNorm(bend / 2, -far)
    method = Newton(npga.Agent(A, f), c, 1e-13)
    x, steps = method.solve(linear, None, np.zeros(m))
    assert steps < 60
    exact, wide = x.astype(np.longdouble), A.astype(np.longdouble)
    for _ in range(4):
        share = 0.5 * (1.0 - np.tanh(0.5 * labels * exact))
        slope = wide.T @ (linear + c * (wide @ exact)) - weight * labels * share + bend * exact
        hessian = np.diag((weight * share * (1.0 - share) + bend).astype(float)) + c * A.T @ A
        exact = exact - np.linalg.solve(hessian, slope.astype(float))
    rounding = 4.0 * np.finfo(float).eps * np.linalg.norm(np.linalg.inv(hessian), 2) * bend * spread * np.sqrt(m)
    assert np.linalg.norm((x - exact).astype(float)) <= 1e-12 * np.linalg.norm(exact.astype(float)) + rounding


@pytest.mark.parametrize("seed", range(3))
def test_optimal_affine(seed):
    solved(random_problem(seed, 7, 3, "quadratic", "zero", "equality"), "optimal-affine")


def test_what_a_method_cannot_solve_is_refused_with_a_reason():
    ball = random_problem(0, 7, 3, coupling="ball")
    for method in (*EQUALITY_ONLY, "optimal-affine"):
        with pytest.raises(InputError, match="Equality"):
            npga.solve(ball, NETWORK, method=method)
    flat = random_problem(0, 7, 3, smooth="linear", proximable="box")
    with pytest.raises(InputError, match="not strongly convex"):
        npga.solve(flat, NETWORK, method="dual-exact")
    with pytest.raises(InputError, match="g is not zero"):
        npga.solve(random_problem(0, 7, 3, proximable="l1"), NETWORK, method="optimal-affine")
    with pytest.raises(InputError, match="ConsensusProblem"):
        npga.solve(ball, NETWORK, method="puda")


def test_the_table_lists_every_method():
    assert [row.name for row in npga.methods()] == [
        "npga", "pga", "dual-exact", "puda", "tracking-admm", "dc-admm", "idc-admm", "id2a", "mid2a", "optimal-affine",
    ]  # fmt: skip
    assert all(row.solves and row.reference and row.inside for row in npga.methods())


# ------------------------------------------------------------------ against equations written out


def test_dual_exact_is_equation_da2():
    """x*(lam) in closed form, then the y-form line by line."""
    problem = random_problem(5, 7, 3, "quadratic", "zero", "squared-loss")
    version, steps = npga.version("nids"), npga.Steps(alpha=1.0, beta=0.1, gamma=0.8, theta=0.3)
    B2, C, D = (m.toarray() for m in version.matrices(NETWORK))
    B, lam, y, before = oracles.square_root(B2), np.zeros((7, 3)), np.zeros((7, 3)), None
    for _ in range(60):
        Ax = np.array(
            [a.A @ np.linalg.solve(a.f.Q, -a.f.q - a.A.T @ row) for a, row in zip(problem.agents, lam, strict=True)]
        )
        # the recursion starts from A x0 = 0
        before = np.zeros_like(Ax) if before is None else before
        v = lam - C @ lam - B @ y + 0.1 * (Ax + 0.3 * (Ax - before))
        y, before = y + 0.8 * B @ v, Ax
        lam = np.array([problem.h.conj_prox(row, 0.1 / 7) for row in D @ v])
    result = npga.solve(problem, NETWORK, "nids", steps, method="dual-exact", max_iters=60, tol=None)
    np.testing.assert_allclose(result.lam, lam, rtol=0, atol=1e-12)


def test_tracking_admm_is_its_recursion():
    problem = random_problem(6, 7, 3, "quadratic", "zero", "equality")
    c, W, b = 0.4, NETWORK.W.toarray(), problem.h.b
    x = [np.zeros(a.A.shape[1]) for a in problem.agents]
    lam, d = np.zeros((7, 3)), -np.tile(b / 7, (7, 1))
    for _ in range(50):
        l, e, new = W @ lam, W @ d, []  # noqa: E741
        for i, a in enumerate(problem.agents):
            H = a.f.Q + c * a.A.T @ a.A
            new.append(np.linalg.solve(H, -a.f.q - a.A.T @ l[i] + c * a.A.T @ (a.A @ x[i] - e[i])))
        d = e + np.array([a.A @ (s - t) for a, s, t in zip(problem.agents, new, x, strict=True)])
        lam, x = l + c * d, new
    result = npga.solve(problem, NETWORK, steps=npga.Steps(1.0, c), method="tracking-admm", max_iters=50, tol=None)
    np.testing.assert_allclose(result.x, np.concatenate(x), rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.lam, lam, rtol=0, atol=1e-11)


def test_dc_admm_is_its_recursion():
    problem = random_problem(6, 7, 3, "quadratic", "zero", "equality")
    c, b, N = 0.7, problem.h.b / 7, NETWORK.degrees
    y, q = np.zeros((7, 3)), np.zeros((7, 3))
    for _ in range(50):
        ahead = np.zeros_like(y)
        for i, a in enumerate(problem.agents):
            r = sum(y[i] + y[j] for j in NETWORK.neighbors(i)) - (q[i] + b) / c
            H = a.f.Q + a.A.T @ a.A / (2 * c * N[i])
            x = np.linalg.solve(H, -a.f.q - a.A.T @ r / (2 * N[i]))
            ahead[i] = (r + a.A @ x / c) / (2 * N[i])
        y = ahead
        q = q + c * np.array([sum(y[i] - y[j] for j in NETWORK.neighbors(i)) for i in range(7)])
    result = npga.solve(problem, NETWORK, steps=npga.Steps(1.0, c), method="dc-admm", max_iters=50, tol=None)
    np.testing.assert_allclose(result.lam, y, rtol=0, atol=1e-11)


# ------------------------------------------------------------------ consensus


def consensus(seed=0, n=7, m=3, g=None):
    rng = np.random.default_rng(seed)
    functions = [fn.LeastSquares(rng.standard_normal((5, m)), rng.standard_normal(5), 0.3) for _ in range(n)]
    return npga.ConsensusProblem(functions, g=g)


@pytest.mark.parametrize("name", ["diging", "extra", "nids", "exact-diffusion", "aug-dgm", "atc-tracking", "dlm"])
def test_puda_rows_are_the_published_recursions(name):
    problem = consensus()
    step, network = 0.2 / problem.L, NETWORK.lazy()
    version = npga.version("dlm", c=0.3) if name == "dlm" else npga.version(name)
    result = npga.solve(problem, network, version, npga.Steps(1.0, step), max_iters=500, tol=None)
    W, start = network.W.toarray(), np.zeros((7, 3))
    if name == "dlm":
        expected = oracles.dlm(problem.gradients, start, network.laplacian.toarray(), step, 0.3, 500)
    elif name == "nids":
        expected = oracles.nids(problem.gradients, start, W, step, version.c, 500)
    else:
        recursion = getattr(oracles, name.replace("-", "_"))
        expected = recursion(problem.gradients, start, W, step, 500)
    np.testing.assert_allclose(result.x, np.asarray(expected[-1]).reshape(7, 3), rtol=0, atol=1e-11)


def test_p2d2_with_a_common_term():
    """Alghunaim, Yuan and Sayed (2019): z = W~ w - mu grad - B y, y+ = y + B z, w+ = prox(z)."""
    problem, c = consensus(g=fn.L1(0.7)), 0.6
    step = 0.2 / problem.L
    result = npga.solve(problem, NETWORK, npga.version("p2d2", c=c), npga.Steps(1.0, step), max_iters=500, tol=None)
    W, n = NETWORK.W.toarray(), problem.n
    half, B = (np.eye(n) + W) / 2, oracles.square_root(c / 2 * (np.eye(n) - W))
    w, y = np.zeros((n, problem.m)), np.zeros((n, problem.m))
    for _ in range(500):
        z = half @ w - step * problem.gradients(w) - B @ y
        y, w = y + B @ z, problem.g.prox(z, step / n)
    np.testing.assert_allclose(result.x, w, rtol=0, atol=1e-11)


@pytest.mark.parametrize("g", [None, fn.L1(0.7), fn.Box(-0.1, 0.2)])
@pytest.mark.parametrize("version", ["nids", "extra", "exact-diffusion", "p2d2", "atc-tracking"])
def test_consensus_is_solved(g, version):
    cvxpy = pytest.importorskip("cvxpy")
    problem = consensus(1, g=g)
    x = cvxpy.Variable(3)
    cost = sum(0.15 * cvxpy.sum_squares(phi.M @ x - phi.b) for phi in problem.functions)
    if isinstance(g, fn.L1):
        cost += 0.7 * cvxpy.norm1(x)
    limits = [x >= -0.1, x <= 0.2] if isinstance(g, fn.Box) else []
    cvxpy.Problem(cvxpy.Minimize(cost), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    network = NETWORK.lazy() if version == "atc-tracking" else NETWORK
    result = npga.solve(problem, network, version, reference=x.value, tol=1e-11)
    assert result.status.ok
    assert result.x.shape == (7, 3)
    np.testing.assert_allclose(result.x, np.tile(x.value, (7, 1)), atol=2e-7)
    assert result.floats_sent == result.messages * 3


def test_npga_solves_the_consensus_problem_posed_as_p1():
    problem = consensus(2, g=fn.L1(0.7))
    direct = npga.solve(problem, NETWORK, tol=1e-11)
    posed = npga.solve(problem.p1, NETWORK, tol=1e-11)
    np.testing.assert_allclose(np.concatenate(posed.blocks), direct.x.ravel(), atol=1e-8)


@pytest.mark.parametrize("version", ["nids", "extra", "npga-i"])
def test_dual_exact_on_the_dual_of_p2_is_puda(version):
    """With phi = (1/2) x.Q x + q.x, phi* = (1/2) (y - q).Q^-1 (y - q), and h = (L1)* the box, P1 is the dual of P2."""
    rng = np.random.default_rng(3)
    Q = [np.eye(3) + M @ M.T for M in rng.standard_normal((7, 3, 3))]
    q = rng.standard_normal((7, 3))
    primal = npga.ConsensusProblem([fn.Quadratic(*pair) for pair in zip(Q, q, strict=True)], g=fn.L1(0.5))
    inverse = [np.linalg.inv(matrix) for matrix in Q]
    agents = [npga.Agent(A=-np.eye(3), f=fn.Quadratic(M, -M @ row)) for M, row in zip(inverse, q, strict=True)]
    dual = npga.Problem(agents, fn.Box(-0.5, 0.5))
    steps = npga.Steps(1.0, 0.1)
    a = npga.solve(primal, NETWORK, version, steps, max_iters=300, tol=None)
    b = npga.solve(dual, NETWORK, version, steps, method="dual-exact", max_iters=300, tol=None)
    np.testing.assert_allclose(a.x, b.lam, rtol=0, atol=1e-11)


# ------------------------------------------------------------------ one loop, one accounting


ALL = ("pga", "dual-exact", "tracking-admm", "dc-admm", "idc-admm", "id2a", "mid2a", "optimal-affine")


@pytest.mark.parametrize("method", ALL)
def test_rounds_are_those_of_an_instrumented_exchange(method, monkeypatch):
    problem, sent = random_problem(8, 7, 3, "quadratic", "zero", "equality"), []
    plain = Network.differences

    def counted(self, u, weights=None):
        sent.append(u.shape)
        return plain(self, u, weights)

    monkeypatch.setattr(Network, "differences", counted)
    result = npga.solve(problem, NETWORK, method=method, max_iters=5, tol=None)
    vectors = 2 if method == "tracking-admm" else 1
    assert len(sent) == vectors * result.rounds
    assert all(shape == (7, 3) for shape in sent)
    assert result.messages == 2 * len(NETWORK.edges) * result.rounds
    assert result.floats_sent == result.messages * 3 * vectors


@pytest.mark.parametrize("method", ALL)
def test_a_run_resumes_with_the_same_bits(method, tmp_path):
    problem = random_problem(9, 7, 3, "quadratic", "zero", "equality")
    whole = npga.solve(problem, NETWORK, method=method, max_iters=40, tol=None)
    file = tmp_path / "run.npz"
    npga.solve(problem, NETWORK, method=method, max_iters=17, tol=None, checkpoint=file)
    rest = npga.solve(problem, NETWORK, method=method, max_iters=40, tol=None, checkpoint=file, resume=True)
    assert (whole.x == rest.x).all()
    assert (whole.lam == rest.lam).all()
    assert (whole.rounds, whole.inner_iterations) == (rest.rounds, rest.inner_iterations)


CONSENSUS = npga.ConsensusProblem([fn.SquaredNorm(1.0, np.array([k, 1.0])) for k in range(3)])
TAKES_P1 = {
    "certify": lambda problem, folder: npga.certify(problem, npga.Network.ring(3), "nids"),
    "tune": lambda problem, folder: npga.tune(problem, npga.Network.ring(3), "nids"),
    "design": lambda problem, folder: npga.design(problem, npga.Network.ring(3)),
    "reference": lambda problem, folder: npga.reference(problem),
    "write_job": lambda problem, folder: write_job(folder, problem, npga.Network.ring(3)),
}


@pytest.mark.parametrize("name", list(TAKES_P1))
def test_what_takes_p1_alone_says_so_of_a_consensus_problem(tmp_path, name):
    with pytest.raises(InputError, match=r"problem is a ConsensusProblem; expected npga\.Problem.*its p1"):
        TAKES_P1[name](CONSENSUS, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_p1_that_a_consensus_problem_is_runs_as_a_job(tmp_path):
    done = launch(TAKES_P1["write_job"](CONSENSUS.p1, tmp_path / "job"), "inprocess", tmp_path / "out")
    np.testing.assert_allclose(done.x.reshape(3, 2), np.ones((3, 2)), atol=1e-5)
