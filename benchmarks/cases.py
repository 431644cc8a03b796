"""The cases: elastic net over a network, NPGA-EXTRA, from 13 agents to 10,000."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
from scipy import sparse

import npga
from npga import functions as fn

RIDGE, LASSO = 0.1, 0.01


@dataclass(frozen=True)
class Case:
    """n agents, p coupling rows, d variables in all; `degree` for a random regular graph, else Erdos-Renyi."""

    name: str
    n: int
    p: int
    d: int
    degree: int | None = None
    density: float | None = None
    link_probability: float = 0.3
    order: str = "C"

    def build(self):
        """Problem, network and steps; always the same."""
        rng = np.random.default_rng(0)
        sizes = np.full(self.n, self.d // self.n)
        sizes[: self.d - sizes.sum()] += 1
        target = rng.standard_normal(self.p)
        agents = [npga.Agent(self._block(rng, int(size)), fn.SquaredNorm(RIDGE), fn.L1(LASSO)) for size in sizes]
        problem = npga.Problem(agents, fn.SquaredLoss(target, 1.0 / self.p))
        if self.degree is None:
            network = npga.Network.erdos_renyi(self.n, self.link_probability, seed=0)
        else:
            network = npga.Network(nx.random_regular_graph(self.degree, self.n, seed=0))
        return problem, network, npga.Steps(alpha=0.5, beta=0.02, gamma=0.9, theta=0.0)

    def _block(self, rng, size):
        if self.density is None:
            block = rng.standard_normal((self.p, size))
            block /= np.sqrt(self.p)
            return np.asarray(block, order=self.order)
        count = int(self.p * size * self.density)
        entries = (rng.standard_normal(count), (rng.integers(self.p, size=count), rng.integers(size, size=count)))
        return sparse.csr_array(sparse.coo_array(entries, shape=(self.p, size)))


CASES = {
    case.name: case
    for case in (
        Case("S", 13, 10, 14),
        Case("M", 28, 100, 155),
        Case("M2", 100, 1000, 2000),
        Case("graph", 10_000, 50, 40_000, degree=8),
        Case("L", 64, 20_000, 4_000),
        Case("sparse", 32, 200_000, 50_000, density=1e-4),
    )
}


def traffic(problem):
    """Bytes that one iteration must move: every A_i once, and lam, lam_prev, v, u read and lam, v, u written."""
    entries = 0
    for agent in problem.agents:
        if sparse.issparse(agent.A):
            entries += agent.A.data.nbytes + 2 * agent.A.indices.nbytes
        else:
            entries += agent.A.nbytes
    return entries + 7 * problem.n * problem.p * problem.dtype.itemsize
