"""Sharing resources: every agent wants something, the total is given.

    min over x of   sum_i cost_i(x_i)    subject to   sum_i A_i x_i = b  or  <= b,    x_i in its box.

The graphs are rings, grids, random ones and the real ones that NetworkX ships. Costs, boxes and totals are drawn from a
generator seeded with the case's seed; `A_i` is the identity (each row is a resource) or a positive matrix of needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

import npga
from npga import functions as fn
from suite.case import Case, Instance, Solution, by_clarabel, stacked

# ---------------------------------------------------------------- graphs

GRAPHS: dict[str, Callable[[int], npga.Network]] = {
    "ring100": lambda seed: npga.Network.ring(100),  # noqa: ARG005
    "path20": lambda seed: npga.Network.path(20),  # noqa: ARG005
    "star20": lambda seed: npga.Network.star(20),  # noqa: ARG005
    "grid10x10": lambda seed: npga.Network.grid(10, 10),  # noqa: ARG005
    "complete20": lambda seed: npga.Network.complete(20),  # noqa: ARG005
    "er30": lambda seed: npga.Network.erdos_renyi(30, 0.2, seed=seed),
    "ba50": lambda seed: npga.Network.barabasi_albert(50, 2, seed=seed),
    "geometric40": lambda seed: npga.Network.random_geometric(40, 0.3, seed=seed),
    "hypercube64": lambda seed: npga.Network(nx.hypercube_graph(6)),  # noqa: ARG005
    "karate": lambda seed: npga.Network(nx.karate_club_graph()),  # noqa: ARG005
    "davis": lambda seed: npga.Network(nx.davis_southern_women_graph()),  # noqa: ARG005
    "florentine": lambda seed: npga.Network(nx.florentine_families_graph()),  # noqa: ARG005
    "miserables": lambda seed: npga.Network(nx.les_miserables_graph()),  # noqa: ARG005
}
DRAWN = ("er30", "ba50", "geometric40")

# ---------------------------------------------------------------- costs


def quadratic(graph: str, seed: int, resources: int = 1) -> Instance:
    """Each agent near its wish c_i, weighted w_i from 0.1 to 10, within [0, 2 c_i]; the total is 80 % of the wishes."""
    network, rng = GRAPHS[graph](seed), np.random.default_rng(seed)
    n = network.n
    weight, wish = 10.0 ** rng.uniform(-1, 1, (n, resources)), rng.uniform(1.0, 5.0, (n, resources))
    agents = [
        npga.Agent(np.eye(resources), fn.SquaredNorm(weight[i], center=wish[i]), fn.Box(0.0, 2.0 * wish[i]))
        for i in range(n)
    ]
    total = 0.8 * wish.sum(axis=0)
    problem = npga.Problem(agents, fn.Equality(total))

    def solve() -> Solution:
        import cvxpy as cp

        w, c = weight.ravel(), wish.ravel()

        def pose(x: Any, z: Any) -> Any:
            return 0.5 * cp.sum(cp.multiply(w, cp.square(x - c))), [z == total, x >= 0, x <= 2.0 * c]

        return by_clarabel(stacked(problem), pose)

    return Instance(problem, network, solve)


def needs(graph: str, seed: int, rows: int = 5, each: int = 3) -> Instance:
    """Products x_i >= 0 with quadratic profit and needs A_i > 0 of shared materials, of which there is half enough."""
    network, rng = GRAPHS[graph](seed), np.random.default_rng(seed)
    n = network.n
    blocks = rng.uniform(0.1, 1.0, (n, rows, each))
    price, slope = rng.uniform(5.0, 10.0, (n, each)), rng.uniform(1.0, 3.0, (n, each))
    stock = 0.5 * np.einsum("irk,ik->r", blocks, price / slope)
    agents = [
        npga.Agent(blocks[i], fn.SquaredNorm(slope[i], center=price[i] / slope[i]), fn.NonNegative()) for i in range(n)
    ]
    problem = npga.Problem(agents, fn.LessEqual(stock))

    def solve() -> Solution:
        import cvxpy as cp

        s, p = slope.ravel(), price.ravel()

        def pose(x: Any, z: Any) -> Any:
            return 0.5 * cp.sum(cp.multiply(s, cp.square(x - p / s))), [z <= stock, x >= 0]

        return by_clarabel(stacked(problem), pose)

    return Instance(problem, network, solve)


def robust(graph: str, seed: int) -> Instance:
    """As `quadratic`, with Huber costs: agents far from their wish complain linearly. x need not be unique."""
    network, rng = GRAPHS[graph](seed), np.random.default_rng(seed)
    n = network.n
    weight, wish = rng.uniform(0.5, 2.0, n), rng.uniform(1.0, 5.0, n)
    agents = [npga.Agent(np.ones((1, 1)), fn.Huber(0.5, weight[i], wish[i]), fn.Box(0.0, 10.0)) for i in range(n)]
    total = 0.8 * wish.sum()
    problem = npga.Problem(agents, fn.Equality([total]))

    def solve() -> Solution:
        import cvxpy as cp

        def pose(x: Any, z: Any) -> Any:
            return 0.5 * cp.sum(cp.multiply(weight, cp.huber(x - wish, 0.5))), [z == total, x >= 0, x <= 10]

        return by_clarabel(stacked(problem), pose)

    return Instance(problem, network, solve, unique=False)


def knapsack(graph: str, seed: int) -> Instance:
    """Linear costs within boxes and one budget: the cheapest first, one agent in between."""
    network, rng = GRAPHS[graph](seed), np.random.default_rng(seed)
    n = network.n
    cost, size = rng.uniform(1.0, 10.0, n), rng.uniform(1.0, 5.0, n)
    agents = [npga.Agent(np.ones((1, 1)), fn.Linear([cost[i]]), fn.Box(0.0, [size[i]])) for i in range(n)]
    total = 0.6 * size.sum()
    problem = npga.Problem(agents, fn.Equality([total]))

    def solve() -> Solution:
        from scipy.optimize import linprog

        found = linprog(cost, A_eq=np.ones((1, n)), b_eq=[total], bounds=np.column_stack([np.zeros(n), size]))
        return Solution(found.x, -found.eqlin.marginals, found.fun, "SciPy HiGHS")

    return Instance(problem, network, solve)


def charging(graph: str, seed: int, hours: int = 24) -> Instance:
    """Valley filling: n cars charge over a night, each its own energy, so that the total load is as flat as it can be.

    x_i >= 0 with a given sum; h = |base + sum_i x_i|^2 / 2; a small 0.01 |x_i|^2 / 2 is the battery's wear.
    """
    network, rng = GRAPHS[graph](seed), np.random.default_rng(seed)
    n = network.n
    base = n * (2.0 + np.cos(2.0 * np.pi * (np.arange(hours) - 19.0) / 24.0) + 0.1 * rng.standard_normal(hours))
    energy = rng.uniform(5.0, 15.0, n)
    agents = [npga.Agent(np.eye(hours), fn.SquaredNorm(0.01), fn.Simplex(energy[i])) for i in range(n)]
    problem = npga.Problem(agents, fn.SquaredLoss(-base))

    def solve() -> Solution:
        import cvxpy as cp

        def pose(x: Any, z: Any) -> Any:
            cars = cp.reshape(x, (n, hours), order="C")
            cost = 0.5 * cp.sum_squares(z + base) + 0.005 * cp.sum_squares(x)
            return cost, [x >= 0, cp.sum(cars, axis=1) == energy]

        return polished(by_clarabel(stacked(problem), pose))

    def polished(answer: Solution) -> Solution:
        """Cones leave five digits here: the linear equations of the hours in which a car charges give the others."""
        used, x = answer.x > 1e-6 * answer.x.max(), np.full(n * hours, -1.0)
        while (x < 0.0).any():
            loads, owner = np.tile(np.eye(hours), n)[:, used], np.repeat(np.eye(n), hours, axis=1)[:, used]
            system = np.block([[loads.T @ loads + 0.01 * np.eye(used.sum()), owner.T], [owner, np.zeros((n, n))]])
            x = np.zeros(n * hours)
            x[used] = np.linalg.solve(system, np.concatenate([-loads.T @ base, energy]))[: used.sum()]
            used = x > 0.0
        load = base + x.reshape(n, hours).sum(axis=0)
        return Solution(x, load, 0.5 * load @ load + 0.005 * x @ x, "cvxpy, Clarabel; NumPy solve")

    return Instance(problem, network, solve)


def _case(cost: Callable[..., Instance], graph: str, **settings: Any) -> Case:
    source = "NetworkX, drawn costs" if graph in ("karate", "davis", "florentine", "miserables") else "drawn"
    name = f"share-{cost.__name__}-{graph}" + (f"-{settings['resources']}" if "resources" in settings else "")
    return Case(name, source, partial(cost, graph, **settings), drawn=True)


ALLOCATION = [
    _case(quadratic, "ring100"),
    _case(quadratic, "grid10x10"),
    _case(quadratic, "complete20"),
    _case(quadratic, "er30"),
    _case(quadratic, "ba50"),
    _case(quadratic, "karate"),
    _case(quadratic, "miserables"),
    _case(quadratic, "path20", resources=4),
    _case(quadratic, "hypercube64", resources=3),
    _case(needs, "florentine"),
    _case(needs, "davis"),
    _case(needs, "geometric40"),
    _case(robust, "karate"),
    _case(robust, "star20"),
    _case(knapsack, "florentine"),
    _case(knapsack, "er30"),
    _case(charging, "complete20"),
    _case(charging, "davis"),
]
