"""Problems whose costs have no curvature, or whose coupling is many rows: linear programs, transport, flows, sparse
recovery, network utility, portfolios.

Data are drawn from a generator seeded with the case's seed, except where a real graph or a real image is named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import linprog

import npga
from npga import functions as fn
from suite.case import Case, Instance, Solution, by_clarabel, stacked

# ---------------------------------------------------------------- linear programs


def linear_program(n: int, each: int, rows: int, graph: str, seed: int, equality: bool = False) -> Instance:
    """min c.x with 0 <= x <= 1 and A x <= b (or = b), feasible by construction: b is A at a random point, and slack."""
    rng = np.random.default_rng(1000 * n + seed)
    A, c = rng.standard_normal((rows, n * each)), rng.standard_normal(n * each)
    b = A @ rng.uniform(0.2, 0.8, n * each)
    if not equality:
        b += 0.1 * rng.uniform(size=rows)
    parts = np.array_split(np.arange(n * each), n)
    agents = [npga.Agent(A[:, part], fn.Linear(c[part]), fn.Box(0.0, 1.0)) for part in parts]
    problem = npga.Problem(agents, fn.Equality(b) if equality else fn.LessEqual(b))
    network = npga.Network.ring(n) if graph == "ring" else npga.Network.erdos_renyi(n, 0.3, seed=seed)
    return Instance(problem, network, partial(_by_highs, c, A, b, (0.0, 1.0), equality))


def _by_highs(c: Any, A: Any, b: Any, bounds: Any, equality: bool = True) -> Solution:
    """HiGHS; its marginals are derivatives of the value by b, so lam is minus them."""
    kind = "eq" if equality else "ub"
    found = linprog(c, bounds=bounds, method="highs", **{f"A_{kind}": A, f"b_{kind}": b})
    if not found.success:
        raise RuntimeError(found.message)
    marginals = (found.eqlin if equality else found.ineqlin).marginals
    return Solution(found.x, -marginals, found.fun, "SciPy HiGHS")


def transport(supply: Any, demand: Any, cost: Any, network: npga.Network, weight: float = 0.0) -> Instance:
    """Each source sends x_i >= 0 with sum supply_i to the sinks, which need `demand`; `weight` adds |x|^2 w/2."""
    n, m = cost.shape
    agents = [
        npga.Agent(
            np.eye(m),
            fn.Quadratic(weight * np.eye(m), cost[i]) if weight else fn.Linear(cost[i]),
            fn.Simplex(float(supply[i])),
        )
        for i in range(n)
    ]
    problem = npga.Problem(agents, fn.Equality(demand))

    def solve() -> Solution:
        if weight:
            import cvxpy as cp

            def pose(x: Any, z: Any) -> Any:
                plan = cp.reshape(x, (n, m), order="C")
                value = cost.ravel() @ x + 0.5 * weight * cp.sum_squares(x)
                return value, [z == demand, x >= 0, cp.sum(plan, axis=1) == supply]

            return by_clarabel(stacked(problem), pose)
        rows = np.vstack([np.tile(np.eye(m), n), np.kron(np.eye(n), np.ones(m))])
        found = _by_highs(cost.ravel(), rows, np.concatenate([demand, supply]), (0.0, None))
        return Solution(found.x, found.lam[:m], found.objective, found.by)

    return Instance(problem, network, solve, unique=bool(weight))


def images(seed: int, weight: float = 0.0) -> Instance:
    """The ink of one handwritten digit moved onto another at the squared distance; a pixel is an agent."""
    from sklearn.datasets import load_digits

    del seed
    pictures = load_digits().images
    first, second = pictures[0] / pictures[0].sum(), pictures[1] / pictures[1].sum()
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"), axis=-1).reshape(-1, 2) / 7.0
    at, to = first.ravel() > 0, second.ravel() > 0
    cost = ((grid[at][:, None] - grid[to][None]) ** 2).sum(axis=-1)
    lattice = nx.Graph(nx.grid_2d_graph(8, 8))
    kept = lattice.subgraph([(r, c) for r in range(8) for c in range(8) if first[r, c] > 0])
    return transport(first.ravel()[at], second.ravel()[to], cost, _numbered(kept), weight)


def assignment(n: int, seed: int) -> Instance:
    """n workers, n tasks, drawn costs: the relaxation has the assignment as its only solution."""
    cost = np.random.default_rng(seed).uniform(size=(n, n))
    return transport(np.ones(n), np.ones(n), cost, npga.Network.erdos_renyi(n, 0.4, seed=seed))


# ---------------------------------------------------------------- flows on real graphs


def flow(graph: str, seed: int, weight: float = 1.0) -> Instance:
    """Cheapest flow on a real graph from nodes that have too much to nodes that lack; a node owns the arcs it begins.

    Row v of the coupling says: what leaves v minus what arrives is the supply of v, -2 to 2 and the rest at the node
    with most links. An arc costs c x + w x^2 / 2 and carries at most 10.
    """
    drawn = getattr(nx, graph)()
    network = npga.Network(drawn)
    rng = np.random.default_rng(seed)
    arcs = np.vstack([network.edges, network.edges[:, ::-1]])
    arcs = arcs[np.argsort(arcs[:, 0], kind="stable")]
    cost = rng.integers(1, 10, len(arcs)).astype(float)
    supply = rng.integers(-2, 3, network.n).astype(float)
    supply[np.bincount(network.edges.ravel()).argmax()] -= supply.sum()
    incidence = np.zeros((network.n, len(arcs)))
    incidence[arcs[:, 0], np.arange(len(arcs))] = 1.0
    incidence[arcs[:, 1], np.arange(len(arcs))] = -1.0
    agents = []
    for v in range(network.n):
        mine = np.flatnonzero(arcs[:, 0] == v)
        f = fn.SquaredNorm(weight, center=-cost[mine] / weight) if weight else fn.Linear(cost[mine])
        agents.append(npga.Agent(incidence[:, mine], f, fn.Box(0.0, 10.0)))
    constant = -float((cost**2).sum()) / (2.0 * weight) if weight else 0.0
    problem = npga.Problem(agents, fn.Equality(supply))

    def solve() -> Solution:
        if not weight:
            return _by_highs(cost, incidence, supply, (0.0, 10.0))
        import cvxpy as cp

        def pose(x: Any, z: Any) -> Any:
            return cost @ x + 0.5 * weight * cp.sum_squares(x), [z == supply, x >= 0, x <= 10.0]

        return by_clarabel(incidence, pose)

    return Instance(problem, network, solve, unique=bool(weight), constant=constant)


def utility(graph: str, seed: int, each: int = 1) -> Instance:
    """Rates on a real graph: every node sends to `each` others along shortest paths, sum of w ln(rate) is maximised.

    Row e of the coupling is the load of link e, at most its capacity (Kelly, Maulloo and Tan, 1998). Links that nobody
    uses are left out.
    """
    drawn = nx.convert_node_labels_to_integers(getattr(nx, graph)())
    network, rng = npga.Network(drawn), np.random.default_rng(seed)
    number = {tuple(link): e for e, link in enumerate(network.edges.tolist())}
    columns: list[list[Any]] = [[] for _ in range(network.n)]
    for v in range(network.n):
        for target in rng.choice(np.delete(np.arange(network.n), v), each, replace=False):
            route = nx.shortest_path(drawn, v, int(target))
            column = np.zeros(len(number))
            for a, b in pairwise(route):
                column[number[min(a, b), max(a, b)]] = 1.0
            columns[v].append(column)
    blocks = [np.column_stack(column) for column in columns]
    used = np.hstack(blocks).sum(axis=1) > 0
    capacity = rng.uniform(1.0, 3.0, len(number))[used]
    weight = rng.uniform(0.5, 2.0, (network.n, each))
    agents = [npga.Agent(block[used], fn.Zero(), minus_log(w)) for block, w in zip(blocks, weight, strict=True)]
    problem = npga.Problem(agents, fn.LessEqual(capacity))

    def solve() -> Solution:
        import cvxpy as cp

        return by_clarabel(stacked(problem), lambda x, z: (-weight.ravel() @ cp.log(x), [z <= capacity]))

    return Instance(problem, network, solve)


def minus_log(weight: Any) -> fn.Function:
    """-sum_j w_j ln x_j; its prox is the positive root u of u^2 - x u - t w = 0."""

    def prox(x: Any, t: Any) -> Any:
        root = np.hypot(x, 2.0 * np.sqrt(t * weight))
        return np.where(x >= 0.0, 0.5 * (x + root), 2.0 * t * weight / (root - np.minimum(x, 0.0)))

    def slope(x: Any, t: Any) -> Any:
        u = prox(x, t)
        return u * u / (u * u + t * weight)

    def value(x: Any) -> Any:
        inside = (x > 0.0).all(axis=-1)
        return np.where(inside, -(weight * np.log(np.where(x > 0.0, x, 1.0))).sum(axis=-1), np.inf)

    return fn.Custom(value, prox=prox, prox_jac=slope, is_separable=True, vectorized=True, name="minus_log")


# ---------------------------------------------------------------- sparse recovery and portfolios


def pursuit(n: int, each: int, rows: int, graph: str, seed: int, noise: float = 0.0) -> Instance:
    """min |x|_1 with A x = b, or |A x - b| <= noise |b|; b comes from a vector with few entries."""
    rng = np.random.default_rng(seed)
    d = n * each
    A = rng.standard_normal((rows, d)) / np.sqrt(rows)
    truth = np.zeros(d)
    truth[rng.choice(d, rows // 5, replace=False)] = rng.standard_normal(rows // 5)
    b = A @ truth
    radius = noise * float(np.linalg.norm(b))
    if noise:
        error = rng.standard_normal(rows)
        b = b + 0.5 * radius * error / np.linalg.norm(error)
    parts = np.array_split(np.arange(d), n)
    agents = [npga.Agent(A[:, part], fn.Zero(), fn.L1(1.0)) for part in parts]
    problem = npga.Problem(agents, fn.Ball(b, radius) if noise else fn.Equality(b))
    network = npga.Network.ring(n) if graph == "ring" else npga.Network.erdos_renyi(n, 0.3, seed=seed)

    def solve() -> Solution:
        if not noise:
            found = _by_highs(np.ones(2 * d), np.hstack([A, -A]), b, (0.0, None))
            return Solution(found.x[:d] - found.x[d:], found.lam, found.objective, found.by)
        import cvxpy as cp

        return by_clarabel(A, lambda x, z: (cp.norm1(x), [cp.norm(z - b) <= radius]))

    return Instance(problem, network, solve)


def portfolio(n: int, each: int, seed: int, periods: int = 120) -> Instance:
    """Mean and variance: n desks hold assets; min |R x|^2 / 2T - m.x / 20 with x >= 0 and sum x = 1.

    Returns R follow three factors and noise of each asset; h stacks the variance with the budget.
    """
    rng = np.random.default_rng(seed)
    d = n * each
    loads = rng.uniform(0.2, 1.2, (3, d))
    R = rng.standard_normal((periods, 3)) @ loads + rng.uniform(0.3, 1.0, d) * rng.standard_normal((periods, d))
    mean = R.mean(axis=0) + 0.1 * loads.sum(axis=0)
    A = np.vstack([(R - R.mean(axis=0)) / np.sqrt(periods), np.ones(d)])
    parts = np.array_split(np.arange(d), n)
    agents = [npga.Agent(A[:, part], fn.Linear(-mean[part] / 20.0), fn.NonNegative()) for part in parts]
    h = fn.SeparableSum([fn.SquaredNorm(1.0), fn.Equality([1.0])], [periods, 1])
    problem = npga.Problem(agents, h)

    def solve() -> Solution:
        import cvxpy as cp

        def pose(x: Any, z: Any) -> Any:
            return 0.5 * cp.sum_squares(z[:-1]) - mean @ x / 20.0, [z[-1] == 1, x >= 0]

        return by_clarabel(A, pose)

    return Instance(problem, npga.Network.barabasi_albert(n, 2, seed=seed), solve)


def _numbered(graph: nx.Graph) -> npga.Network:
    return npga.Network(nx.convert_node_labels_to_integers(graph, ordering="sorted"))


def _drawn(name: str, make: Callable[..., Instance], source: str = "drawn") -> Case:
    return Case(name, source, make, drawn=True)


PROGRAMS = [
    _drawn("lp-small-er10", partial(linear_program, 10, 2, 5, "er")),
    _drawn("lp-wide-er10", partial(linear_program, 10, 5, 10, "er")),
    _drawn("lp-tall-er12", partial(linear_program, 12, 3, 20, "er")),
    _drawn("lp-ring20", partial(linear_program, 20, 3, 10, "ring")),
    _drawn("lp-equal-er10", partial(linear_program, 10, 4, 8, "er", equality=True)),
    _drawn("lp-equal-ring15", partial(linear_program, 15, 3, 10, "ring", equality=True)),
    _drawn("assignment-er8", partial(assignment, 8)),
    Case("transport-digits", "scikit-learn digits, two images", images),
    Case("transport-digits-smooth", "scikit-learn digits, two images", partial(images, weight=1.0)),
    _drawn("flow-florentine", partial(flow, "florentine_families_graph"), "NetworkX, drawn costs"),
    _drawn("flow-karate", partial(flow, "karate_club_graph"), "NetworkX, drawn costs"),
    _drawn("flow-linear-davis", partial(flow, "davis_southern_women_graph", weight=0.0), "NetworkX, drawn costs"),
    _drawn("utility-florentine", partial(utility, "florentine_families_graph", each=2), "NetworkX, drawn routes"),
    _drawn("utility-karate", partial(utility, "karate_club_graph"), "NetworkX, drawn routes"),
    _drawn("pursuit-er10", partial(pursuit, 10, 10, 40, "er")),
    _drawn("pursuit-ring8", partial(pursuit, 8, 16, 50, "ring")),
    _drawn("pursuit-noisy-er10", partial(pursuit, 10, 8, 40, "er", noise=0.05)),
    _drawn("portfolio-ba10", partial(portfolio, 10, 5)),
    _drawn("portfolio-ba20", partial(portfolio, 20, 4)),
]
