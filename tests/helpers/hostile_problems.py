"""Random problems in hostile units whose truth is known: a solution by construction, or why there is none.

Each is drawn in plain numbers first. Solvable ones begin with a pair (x, lam) and get costs and bounds for which it
satisfies the optimality conditions; the others begin with what makes a solution impossible. Then money, every agent's
variables and every row of the coupling are counted in units of their own, all of them powers of two so that nothing is
rounded, and curvatures differ by as much; so do, in some, the columns and curvatures within one agent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

import npga
from npga import functions as fn

SOLVABLE = ("curved", "linear", "smooth")
HOPELESS = ("out of reach", "contradiction", "empty row", "ray", "cancelling pair")
KINDS = SOLVABLE + HOPELESS


@dataclass
class Hostile:
    """A problem, the network, and the truth: "solvable", "infeasible" or "unbounded".

    `x` is the solution and `sizes` what errors of each agent are relative to, as in the residual: its own size, 1e-2 of
    the displacement that the forces on it would cause, or 1e-6 of that which the largest energy would; one for each
    coordinate where its columns or curvatures differ by more than a thousand. `plain` holds
    cost, A, b and bounds of a linear program that is infeasible or unbounded if and only if the problem is, in plain
    units.
    """

    problem: npga.Problem
    network: npga.Network
    truth: str
    x: list | None = None
    sizes: list | None = None
    plain: tuple | None = None

    def error(self, x):
        """Largest error of an agent, or of one of its coordinates, relative to its size."""
        parts = zip(self.problem.split(np.asarray(x)), self.x, self.sizes, strict=True)
        return max(
            np.linalg.norm(found - true) / size if np.ndim(size) == 0 else (np.abs(found - true) / size).max()
            for found, true, size in parts
        )

    def confirmed(self):
        """What an independent solver says of the plain linear program: 2 is infeasible, 3 unbounded."""
        cost, A, b, bounds = self.plain
        code = linprog(cost, A_eq=A, b_eq=b, bounds=bounds, options={"presolve": False}).status
        return {0: "solvable", 2: "infeasible", 3: "unbounded"}.get(code, f"linprog says {code}")


class Draw:
    """Sizes, blocks and units of one instance."""

    def __init__(self, seed, spread):
        self.rng = rng = np.random.default_rng(seed)
        self.n, self.p = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        self.counts = rng.integers(1, 4, self.n)
        self.A = [rng.standard_normal((self.p, d)) for d in self.counts]
        if rng.random() < 0.2:  # twins
            self.A[1], self.counts[1] = self.A[0].copy(), self.counts[0]
        if rng.random() < 0.2 and self.n > 2:  # one that takes no part
            self.A[2] = np.zeros_like(self.A[2])
        if rng.random() < 0.2 and self.p > 1:  # a row that says the same twice
            for block in self.A:
                block[1] = block[0]
        if rng.random() < 0.3:  # columns that differ within an agent
            self.A = [block * self.powers(block.shape[1], spread) for block in self.A]
        self.money = self.powers(1, spread)[0]
        self.u, self.v = (self.powers(m, spread) for m in (self.n, self.p))
        several = rng.random() < 0.3  # curvatures that differ within an agent
        self.weights = [self.powers(1, spread) * self.powers(d, several * spread) for d in self.counts]

    def powers(self, size, spread):
        return 2.0 ** self.rng.integers(-spread, spread + 1, size)

    def network(self):
        graph = self.rng.choice(["path", "complete"])
        return getattr(npga.Network, str(graph))(self.n)

    def blocks(self):
        """The blocks in the units of rows and variables."""
        return [self.v[:, None] * block / u for block, u in zip(self.A, self.u, strict=True)]


def hostile(seed, kind, spread):
    """One instance; units and curvatures go from 2^-spread to 2^spread."""
    draw = Draw(seed, spread)
    return _solvable(draw, kind) if kind in SOLVABLE else _hopeless(draw, kind)


# ------------------------------------------------------------------ with a solution


def _solvable(draw, kind):
    rng = draw.rng
    x, lam = [rng.uniform(0.5, 2.0, d) * rng.choice([-1.0, 1.0], d) for d in draw.counts], rng.standard_normal(draw.p)
    if kind == "linear":
        limits, slopes = _vertex(draw, x)
    else:
        limits, slopes = zip(*[_limits(rng, part) for part in x], strict=True)
    z = sum(A @ part for A, part in zip(draw.A, x, strict=True))
    h, lam = _coupling(draw, kind, z, lam)
    agents, sizes = [], []
    for A, block, w, u, part, bounds, slope in zip(
        draw.blocks(), draw.A, draw.weights, draw.u, x, limits, slopes, strict=True
    ):
        force = block.T @ lam + slope  # what the gradient of f must cancel
        apart = _differ(np.linalg.norm(block, axis=0)) or (kind != "linear" and _differ(w))
        norm, of = (np.abs, w) if apart else (np.linalg.norm, w.max())
        size = norm(part)
        if kind == "linear":
            f = fn.Linear(-draw.money * force / u)
        else:
            f = fn.SquaredNorm(draw.money * w / u**2, center=u * (part + force / w))
            terms = np.sqrt(np.square(block).T @ np.square(lam))
            energy = max(w.max() * (part @ part) for w, part in zip(draw.weights, x, strict=True))
            forces = 1e-2 * np.maximum(norm(force), norm(terms)) / of
            size = np.maximum(np.maximum(size, forces), 1e-6 * np.sqrt(energy / of))
        agents.append(npga.Agent(A, f, fn.Zero() if bounds is None else fn.Box(u * bounds[0], u * bounds[1])))
        sizes.append(u * size)
    return Hostile(
        npga.Problem(agents, h), draw.network(), "solvable", [u * y for u, y in zip(draw.u, x, strict=True)], sizes
    )


def _differ(values):
    """Whether numbers, of which zeros do not count, differ by more than a thousand."""
    values = values[values > 0.0]
    return bool(values.size) and values.max() > 1e3 * values.min()


def _limits(rng, x):
    """Bounds around x, or none, and a subgradient of their indicator at x."""
    if rng.random() < 0.4:
        return None, np.zeros_like(x)
    where = rng.integers(-1, 2, x.size)  # at the lower bound, inside, at the upper one
    lo, hi = np.where(where < 0, x, x - rng.uniform(0.5, 2.0, x.size)), np.where(where > 0, x, x + 1.0)
    return (lo, hi), where * rng.uniform(0.2, 2.0, x.size)


def _vertex(draw, x):
    """Bounds at which all but as many coordinates as there are independent rows are held."""
    flat = np.concatenate(x)
    where = draw.rng.choice([-1, 1], flat.size)
    stacked, free = np.hstack(draw.A), 0
    for j in draw.rng.permutation(flat.size):
        chosen = np.append(np.flatnonzero(where == 0), j)
        if free < draw.p and np.linalg.svd(stacked[:, chosen], compute_uv=False)[-1] > 0.3:
            where[j], free = 0, free + 1
    lo, hi = np.where(where < 0, flat, flat - 1.0), np.where(where > 0, flat, flat + 1.0)
    slope = where * draw.rng.uniform(0.2, 2.0, flat.size)
    cut = np.cumsum(draw.counts)[:-1]
    return list(zip(np.split(lo, cut), np.split(hi, cut), strict=True)), np.split(slope, cut)


def _coupling(draw, kind, z, lam):
    """h in the units of the rows, and a multiplier in plain ones."""
    v, rng = draw.v, draw.rng
    if kind == "smooth":
        weight = draw.powers(draw.p, 3)
        return fn.SquaredLoss(v * (z - lam / weight), draw.money * weight / v**2), lam
    if kind == "linear" or rng.random() < 0.5:
        return fn.Equality(v * z), lam
    tight = rng.random(draw.p) < 0.6
    return fn.LessEqual(v * np.where(tight, z, z + 1.0)), np.where(tight, np.abs(lam) + 0.1, 0.0)


# ------------------------------------------------------------------ without


def _hopeless(draw, kind):
    rng, d = draw.rng, int(draw.counts.sum())
    x = rng.uniform(0.1, 1.0, d)
    bounds = np.tile([0.0, 1.0], (d, 1))
    cost = rng.uniform(0.1, 1.0, d)
    if kind in ("ray", "cancelling pair"):
        bounds[:, 1] = np.inf
        draw.counts[0] += 2
        extra = rng.standard_normal(draw.p) if kind == "cancelling pair" else np.zeros(draw.p)
        draw.A[0] = np.column_stack([draw.A[0], extra, -extra])
        at = int(draw.counts[0]) - 2
        cost, x = np.insert(cost, at, [-2.0, 1.0]), np.insert(x, at, [0.5, 0.5])
        bounds = np.insert(bounds, at, [[0.0, np.inf]] * 2, axis=0)
    A = np.hstack(draw.A)
    if kind == "empty row":
        A[0] = 0.0
    if kind == "contradiction":
        A = np.vstack([A, A[:1]])
        draw.v = np.append(draw.v, draw.powers(1, 0 if draw.money == 1.0 else 10))
    b = A @ x
    if kind == "out of reach":
        reach = np.clip(A[0], 0.0, None).sum()
        b[0] = reach + rng.uniform(0.2, 1.0) * np.abs(A[0]).sum()
    elif kind == "empty row":
        b[0] = rng.uniform(0.5, 1.0)
    elif kind == "contradiction":
        b[-1] += rng.uniform(0.2, 1.0) * np.abs(A[0]).sum()
    cut = np.cumsum(draw.counts)[:-1]
    draw.A, draw.p = np.split(A, cut, axis=1), len(b)
    is_linear = kind in ("ray", "cancelling pair") or rng.random() < 0.5
    agents = []
    for block, u, w, c, box in zip(
        draw.blocks(), draw.u, draw.weights, np.split(cost, cut), np.split(bounds, cut), strict=True
    ):
        f = fn.Linear(draw.money * c / u) if is_linear else fn.SquaredNorm(draw.money * w / u**2)
        agents.append(npga.Agent(block, f, fn.Box(u * box[:, 0], u * box[:, 1])))
    truth = "unbounded" if kind in ("ray", "cancelling pair") else "infeasible"
    problem = npga.Problem(agents, fn.Equality(draw.v * b))
    return Hostile(problem, draw.network(), truth, plain=(cost, A, b, bounds))
