"""Instance certificates hold along runs, agree with other formulations, and refute what is unstable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

import instance_table
import npga
from helpers.families import VERSIONS
from helpers.instance_runs import matrices, members, run, worst_excess
from helpers.oracles import square_root
from npga import functions as fn
from npga.experiments import ElasticNetExperiment, LogisticCoupled
from npga.theory import InstanceCertificate, certify_instance, states
from npga.theory._feedback import setting
from npga.theory._matrix_inequality import (
    RateSearch,
    holds,
    is_bounded_below,
    pairs,
    remembering,
    riccati,
    supply,
)
from npga.theory._multipliers import multipliers

NETWORK = npga.Network.ring(4)


def small(seed=0, h=None, g=None, f=None, n=4, p=2, sizes=None):
    """A small problem with full row rank."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 1, 2][:n] if sizes is None else sizes
    agents = [
        npga.Agent(
            rng.standard_normal((p, d)) / np.sqrt(p), fn.Zero() if not d else f or fn.SquaredNorm(1.0), g or fn.Zero()
        )
        for d in sizes
    ]
    return npga.Problem(agents, h or fn.SquaredLoss(rng.standard_normal(p), 0.8))


def steps_for(problem, gamma=0.8, theta=0.5, size=0.6):
    alpha = 0.7 / max(problem.l, 1.0)
    return npga.Steps(alpha, size / (alpha * problem.sigma**2), gamma, theta)


SETUPS = {
    "affine": {"g": None, "h": None},
    "equality": {"h": fn.Equality([0.3, -0.2])},
    "g": {"g": fn.L1(0.2)},
    "g-joint": {"g": fn.L2(0.2)},
    "h-smooth": {"h": fn.Logistic([1.0, -1.0], 1.5)},
    "h-rough": {"h": fn.Ball([1.0, 2.0], 0.5)},
    "f": {"f": fn.Huber(0.4, 1.0) + fn.SquaredNorm(0.5)},
    "all": {"f": fn.Huber(0.4, 0.5) + fn.SquaredNorm(0.8), "g": fn.L1(0.1), "h": fn.Huber(0.3, 0.7)},
    "relay": {"sizes": [2, 0, 1, 2], "g": fn.L1(0.2)},
    "narrow": {"p": 8, "h": fn.Huber(0.3, 0.7), "sizes": [1, 1, 1, 2]},
    "dependent-equality": {"p": 8, "h": fn.Equality(np.zeros(8)), "sizes": [1, 1, 1, 2]},
}


@pytest.mark.parametrize("name", SETUPS)
def test_proved_and_true_along_runs(name):
    problem = small(**SETUPS[name])
    version, steps = npga.version("nids"), steps_for(problem)
    cert = npga.certify(problem, NETWORK, "nids", steps).instance
    assert cert.standing == "proved", cert.reason
    assert cert.verify()
    assert cert.radius <= cert.rate < 1.0 <= cert.constant
    rng = np.random.default_rng(1)
    others = list(members(problem, rng)) if name != "dependent-equality" else []
    for member in [problem, *others] if others else []:
        assert worst_excess(member, NETWORK, version, steps, cert, 4, 200, rng) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in SETUPS if one != "dependent-equality"])
def test_two_hundred_starts(name):
    problem = small(**SETUPS[name])
    rng = np.random.default_rng(2)
    for row in VERSIONS:
        version, steps = npga.version(row), steps_for(problem, gamma=0.6, theta=0.3, size=0.3)
        cert = certify_instance(problem, NETWORK.lazy(), version, steps)
        if cert.standing == "proved":
            for member in [problem, *members(problem, rng), *members(problem, rng)]:
                assert worst_excess(member, NETWORK.lazy(), version, steps, cert, 200, 300, rng) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("row", instance_table.rows(), ids=lambda row: f"{row['problem']}-{row['version']}")
def test_two_hundred_starts_on_the_instances_of_the_table(row):
    """What docs/theory/instances.md says is proved: certified again, and followed along runs."""
    problem, network = instance_table.pose(row["problem"])
    if "rate" in row:
        version = npga.version(row["version"]) if row["c"] is None else npga.version(row["version"], c=row["c"])
        cert = certify_instance(problem, network, version, npga.Steps(**row["steps"]))
        assert cert.standing == "proved"
        assert cert.verify()
        assert 1.0 - cert.rate >= 0.9 * (1.0 - row["rate"])
    assert instance_table.followed(row)["used"] <= 1.0


@pytest.mark.slow
def test_two_thousand_states():
    """Experiment II with the loss in h: 27 parties, 100 rows. A minute of processor time."""
    instance = LogisticCoupled().build()
    version, steps = npga.version("nids"), npga.Steps(alpha=7.1, beta=7e-4, gamma=0.7, theta=0.5)
    assert states(instance.problem) == 2069
    cert = npga.certify(instance.problem, instance.network, version, steps).instance
    assert cert.standing == "proved"
    assert cert.verify()
    assert np.log(1e-6) / np.log(cert.rate) < 1500
    own = (instance.network, version, steps)
    assert worst_excess(instance.problem, *own, cert, 10, 200, np.random.default_rng(0)) <= 1.0


def test_the_rate_of_an_affine_iteration_is_its_radius():
    problem = small()
    cert = certify_instance(problem, NETWORK, npga.version("extra"), steps_for(problem))
    assert cert.standing == "proved"
    assert not cert.multipliers
    assert 1.0 - cert.rate >= 0.9 * (1.0 - cert.radius)


def test_a_conjugate_multiplier_proves_more():
    """The elastic net of the paper's size: a rate that no weights reach without the w of the iteration before."""
    instance = ElasticNetExperiment().build()
    steps = npga.Steps(alpha=2.158, beta=0.04455, gamma=4.13, theta=0.0)
    search = RateSearch(setting(instance.problem, instance.network, npga.version("nids"), steps))
    rate = 1.0 - 0.7 * (1.0 - search.radius)
    assert search.multipliers.at_rate(rate, conjugate=False) is None
    weights = search.refined(rate, conjugate=True)
    assert weights is not None
    proof = search.solve(rate, weights)
    assert proof is not None
    size = states(instance.problem)
    assert proof.P[0].shape[0] == size + instance.problem.d
    assert any(one.kind == "conjugate" and t > 0.0 for one, t in proof.weights)
    rng = np.random.default_rng(5)
    cert = InstanceCertificate("proved", "", rate=proof.rate, constant=proof.constant)
    own = (instance.network, npga.version("nids"), steps)
    for member in [instance.problem, *members(instance.problem, rng)]:
        assert worst_excess(member, *own, cert, 2, 150, rng) <= 1.0


def test_the_functions_in_V_make_up_for_an_indefinite_P():
    """Directions of Covtype off the range of A: P has a negative eigenvalue, |xi|_P^2 + 2 c <u, W w> is positive."""
    instance = LogisticCoupled().build()
    steps = npga.Steps(alpha=7.1, beta=0.0014, gamma=0.69, theta=0.56)
    at = setting(instance.problem, instance.network, npga.version("nids"), steps)
    every = multipliers(at)
    given = {"h static": 0.084, "h delayed": 0.428, "h conjugate (neighbours)": 0.488}
    t = np.array([given.get(one.name, 0.0) for one in every])
    loop = remembering(at.loops()[1], every, t)
    rho = 1.0 - 0.25 * (1.0 - np.abs(np.linalg.eigvals(loop.F)).max())
    P = riccati(loop, supply(at, loop, every, t, rho), rho, 1e-3)
    assert np.linalg.eigvalsh(P)[0] < -0.1
    assert not is_bounded_below(at, loop, every, t, P, 0.0)
    assert is_bounded_below(at, loop, every, t, P, 0.7)
    assert holds(at, loop, every, t, rho, P)
    n, xi = at.n, np.random.default_rng(0).standard_normal(loop.states)
    u, w = xi[:n], xi[-n:]
    assert xi @ pairs(at, loop, every, t, 0.7) @ xi == pytest.approx(2 * 0.7 * 0.428 * u @ at.mixing @ w, rel=1e-6)


def test_steps_outside_every_theorem_are_proved():
    problem = small(g=fn.L1(0.2))
    cert = npga.certify(problem, NETWORK, "nids", npga.Steps(0.5, 0.5, gamma=1.2, theta=1.2))
    assert not cert.covered
    assert cert.instance.standing == "proved"


def test_where_a_theorem_applies_the_instance_is_proved_too():
    for seed, (h, g) in enumerate(
        [(fn.Equality([0.1, 0.2]), None), (None, fn.L1(0.1)), (fn.Ball([1.0, 1.0], 0.2), None)]
    ):
        problem = small(seed, h=h, g=g)
        for row in ("nids", "extra", "npga-ii"):
            cert = npga.certify(problem, NETWORK.lazy(), row)
            if cert.covered:
                assert cert.instance.standing == "proved", (seed, row, cert.instance.reason)
                # A theorem can be tight; the search for rates stops at a part of what is left.
                assert 1.0 - cert.instance.rate >= 0.9 * (1.0 - np.sqrt(cert.best.rate))


def test_refuted_steps_diverge_on_the_example():
    problem = small(h=fn.Logistic([1.0, -1.0], 8.0))
    version, steps = npga.version("nids"), npga.Steps(1.9, 3.0, 1.9, 1.0)
    cert = certify_instance(problem, NETWORK, version, steps)
    assert cert.standing == "refuted"
    assert cert.radius > 1.0
    assert "radius" in cert.reason
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape) for shape in (problem.d, (4, 2), (4, 2))]
    zero = np.zeros(problem.d), np.zeros(2), np.zeros((4, 2))
    sizes = run(cert.example, NETWORK, version, steps, zero, start, 60)
    assert sizes[-1] > 1e3 * sizes[0]


def test_too_large_is_unknown_with_size_and_limit():
    problem = small()
    cert = certify_instance(problem, NETWORK, npga.version("nids"), steps_for(problem), limit=10)
    assert cert.standing == "unknown"
    assert "20 states" in cert.reason
    assert "limit is 10" in cert.reason


def test_an_altered_certificate_does_not_verify():
    from dataclasses import replace

    problem = small(g=fn.L1(0.2))
    cert = certify_instance(problem, NETWORK, npga.version("nids"), steps_for(problem))
    assert cert.verify()
    assert not replace(cert, rate=cert.radius * 0.98).verify()
    assert not replace(cert, P=tuple(-one for one in cert.P)).verify()


def test_single_agent_matrices_and_an_alpha_for_each_agent():
    alone = npga.Problem([npga.Agent(np.eye(2), fn.SquaredNorm(1.0), fn.L1(0.3))], fn.SquaredLoss([1.0, 2.0], 0.5))
    assert (
        certify_instance(alone, npga.Network.complete(1), npga.version("nids"), npga.Steps(0.5, 0.5)).standing
        == "proved"
    )
    problem, W = small(g=fn.L1(0.2)), NETWORK.lazy().W.toarray()
    mine = npga.Version.from_matrices("mine", 0.5 * (np.eye(4) - W), None, W)
    steps = npga.Steps((0.5, 0.4, 0.6, 0.3), 0.5, 1.0, 0.2)
    cert = certify_instance(problem, NETWORK, mine, steps)
    assert cert.standing == "proved"
    assert worst_excess(problem, NETWORK, mine, steps, cert, 5, 200, np.random.default_rng(0)) <= 1.0


# ------------------------------------------------------------------ another formulation


def y_form_step(problem, network, version, steps):
    """(x, lam, y) -> (x+, lam+, y+) and w -> the same, unscaled and with the square root B, as dense matrices.

    w are the errors of the subgradients of g and of h* themselves; f is quadratic.
    """
    n, p, d = problem.n, problem.p, problem.d
    B2, C, D = (np.kron(M, np.eye(p)) for M in matrices(network, version, steps))
    B, A = square_root(B2), block_diag(*(agent.A for agent in problem.agents))
    H = block_diag(*(np.diag(agent.f.hess(np.zeros(agent.A.shape[1]))) for agent in problem.agents))
    eye, N = np.eye(d), n * p
    x = np.hstack([eye - steps.alpha * H, -steps.alpha * A.T, np.zeros((d, N)), -steps.alpha * eye, np.zeros((d, N))])
    now = np.eye(d, x.shape[1])
    v = steps.beta * A @ ((1 + steps.theta) * x - steps.theta * now)
    v[:, d : d + N] += np.eye(N) - C
    v[:, d + N : d + 2 * N] -= B
    y = np.eye(N, x.shape[1], d + N) + steps.gamma * B @ v
    lam = D @ v
    lam[:, 2 * N + 2 * d :] -= steps.beta / n * np.eye(N)
    return np.vstack([x, lam, y]), B


@pytest.mark.parametrize("h", [fn.Ball([1.0, 2.0], 0.5), fn.Equality([0.4, 0.1])], ids=["ball", "equality"])
def test_the_inequality_in_the_y_form(h):
    """V+ - rho^2 V + 2 sum t <w, u> is not positive for any error and any w, in unscaled variables with B itself."""
    problem = small(h=h)
    version, steps = npga.version("extra"), steps_for(problem, size=0.3, gamma=0.5, theta=0.0)
    cert = certify_instance(problem, NETWORK.lazy(), version, steps)
    assert cert.standing == "proved", cert.reason
    step, B = y_form_step(problem, NETWORK.lazy(), version, steps)
    n, p, d = problem.n, problem.p, problem.d
    rng, rho2 = np.random.default_rng(0), cert.rate**2
    E = np.linalg.qr(np.hstack([np.ones((n, 1)), rng.standard_normal((n, n - 1))]))[0]
    basis = _helmert(n)
    assert abs(basis.T @ E[:, 0]).max() < 1e-12

    def value(state, w_before):
        x, lam, y = np.split(state, [d, d + n * p])
        zeta = np.kron(basis.T, np.eye(p)) @ (B @ y)
        xi = np.r_[x / np.sqrt(steps.alpha), lam / np.sqrt(steps.beta), zeta / np.sqrt(steps.beta)]
        # A w that is remembered is a state too, in units of lam: sqrt(beta) w/n.
        kept = np.sqrt(steps.beta) / n * w_before if cert.P[0].shape[0] > xi.size else w_before[:0]
        xi = np.r_[xi, kept]
        return xi @ cert.P[0] @ xi

    for _ in range(200):
        full = rng.standard_normal(step.shape[1]) * 10.0 ** rng.uniform(-2, 2, step.shape[1])
        w_g, w_h = full[2 * n * p + d : 2 * n * p + 2 * d], full[2 * n * p + 2 * d :]
        w_before = rng.standard_normal(n * p) * 10.0 ** rng.uniform(-2, 2, n * p)
        w_g[:] = 0.0
        if h.is_point:
            w_h[:] = 0.0
        state, new = full[: d + 2 * n * p], step @ full
        supplied = _supplied(cert, problem, NETWORK.lazy(), state, new, w_h, w_before)
        before = value(state, w_before)
        total = value(new, w_h) - rho2 * before + supplied
        assert total <= 1e-9 * (before + abs(supplied))


def _supplied(cert, problem, network, state, new, w_h, w_before):
    """sum t s from the names of the multipliers alone, for an h whose curvature has no limits."""
    n, p, d = problem.n, problem.p, problem.d
    rho2, W = cert.rate**2, network.W.toarray()
    lam, lam_new = state[d : d + n * p].reshape(n, p), new[d : d + n * p].reshape(n, p)
    ways = {"": np.eye(n), " (neighbours)": W, " (mean)": np.full((n, n), 1 / n)}
    total = 0.0
    for name, t in cert.multipliers.items():
        kind = name.split(" ")[1]
        M = ways[name.removeprefix(f"h {kind}")]
        w, past = w_h.reshape(n, p) / n, w_before.reshape(n, p) / n
        if kind == "conjugate":
            total += 2 * t * np.sum((w - rho2 * M @ past) * lam_new)
            continue
        joined = lam_new if name == "h static" else lam_new - M @ lam_new
        u = lam_new - rho2 * M @ lam if kind == "delayed" else joined
        total += 2 * t * np.sum(w * u)
    return total


def _helmert(n):
    E = np.zeros((n, n - 1))
    for k in range(1, n):
        E[:k, k - 1], E[k, k - 1] = 1.0, -k
        E[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return E


def test_clarabel_agrees_on_feasibility():
    """The same inequality as a semidefinite program with the multipliers of g: feasible where ours is proved."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    agents = [npga.Agent(rng.standard_normal((1, 1)), fn.SquaredNorm(1.0), fn.L1(0.2)) for _ in range(3)]
    problem, network = npga.Problem(agents, fn.SquaredLoss([1.0], 0.8)), npga.Network.complete(3)
    version, steps = npga.version("nids"), npga.Steps(0.5, 0.4, 0.9, 0.3)
    cert = certify_instance(problem, network, version, steps)
    step = y_form_step_squared_loss(problem, network, version, steps)
    assert _feasible(cvxpy, step, problem, cert.rate)
    assert not _feasible(cvxpy, step, problem, cert.radius - 1e-3)


def y_form_step_squared_loss(problem, network, version, steps):
    """The same with h = (w/2)|z|^2, whose prox divides by 1 + beta/(n w), and y on the range of B; inputs w_g."""
    step, _ = y_form_step(problem, network, version, steps)
    n, p, d = problem.n, problem.p, problem.d
    N = n * p
    step = step[:, : d + 2 * N + d].copy()
    step[d : d + N] /= 1.0 + steps.beta / (n * 0.8)
    T = block_diag(np.eye(d + N), np.kron(_helmert(n), np.eye(p)))
    return T.T @ step @ block_diag(T, np.eye(d))


def _feasible(cvxpy, step, problem, rho):
    """Whether the least s with M <= s I, P >= 0 of trace one, t >= 0 is negative; the w before is a state."""
    N, d = step.shape[0], problem.d
    step = np.block([[step[:, :N], np.zeros((N, d)), step[:, N:]], [np.zeros((d, N + d)), np.eye(d)]])
    S = N + d
    P, s = cvxpy.Variable((S, S), symmetric=True), cvxpy.Variable()
    t, c, e = (cvxpy.Variable(d) for _ in range(3))
    now, before, w = np.eye(d, S + d), np.eye(d, S + d, N), np.eye(d, S + d, S)
    M = step.T @ P @ step
    M = M - rho**2 * np.eye(S, S + d).T @ P @ np.eye(S, S + d) - s * np.eye(S + d)
    for k in range(d):
        static = np.outer(w[k], step[k])
        delayed = np.outer(w[k], step[k] - rho**2 * now[k])
        conjugate = np.outer(w[k] - rho**2 * before[k], step[k])
        for weight, form in ((t[k], static), (c[k], delayed), (e[k], conjugate)):
            M = M + weight * (form + form.T)
    task = cvxpy.Problem(cvxpy.Minimize(s), [P >> 0, cvxpy.trace(P) == 1, M << 0, t >= 0, c >= 0, e >= 0])
    task.solve(solver="CLARABEL")
    return s.value < -1e-7


def test_rows_that_bend_differently_do_not_make_a_certificate_wait():
    """Of 60 rows that A reaches in 3 directions all states split off, unless h bends them differently: 2,400 then."""
    rng = np.random.default_rng(0)
    reach = rng.standard_normal((60, 3))
    agents = [npga.Agent(reach @ rng.standard_normal((3, 1)), fn.SquaredNorm(1.0)) for _ in range(20)]
    network, steps = npga.Network.ring(20), npga.Steps(0.1, 1e-3, 0.9)
    some = np.where(np.arange(60) < 30, 1.0, 0.0)
    for h, lam, known in ((fn.SquaredLoss(some, 1.0), some, True), (fn.LessEqual(1.0 - some), some, False)):
        problem = npga.Problem(agents, h)
        found = npga.certify(problem, network, "nids", steps).at_solution(np.zeros(20), lam)
        assert np.isfinite(found.linearised) == known
