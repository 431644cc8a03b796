"""What the three experiments of Li and Su (2024), section V, have in common.

What the paper gives is fixed: the numbers of parties and samples, the division of the columns, the Erdos-Renyi graph
with probability 0.3 and the Laplacian mixing. What it leaves open is a field with a default, and every field is
recorded with the results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from npga.experiments._dataset import Dataset
from npga.experiments._instance import (
    Array,
    Instance,
    draw_rows,
    matrix_facts,
    network_facts,
    seed_of,
    with_intercept,
)
from npga.networks import Network
from npga.problem import Problem
from npga.solver import reference


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """The choices that all experiments have.

    Parameters
    ----------
    seed
        The draws of rows and of networks follow from it; see `seed_of`.
    samples
        Number of rows p (the paper: 10, 100 and 10).
    scaling
        How the table is scaled; see `load_boston` and `load_covtype`.
    edge_probability
        Of the Erdos-Renyi graph (the paper: 0.3), which is redrawn until it is connected.
    tau_c
        The constant c in W = I - L/tau, tau = largest degree + c.

    Attributes
    ----------
    name, title, theorems
        What it is called, and the theorems that the paper has in mind for it.
    target
        Relative distance to x* that every version must reach.
    tuning
        Method of `npga.tune`, and from how many seeds: the same for every version.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    theorems: ClassVar[str]
    target: ClassVar[float] = 1e-10
    tuning: ClassVar[tuple[str, int]] = ("spectral", 1)
    _axis: ClassVar[str]  # experiments of one axis share the draws of rows

    seed: int = 0
    samples: int = 10
    scaling: str = "z-score"
    edge_probability: float = 0.3
    tau_c: float = 1.0

    @abstractmethod
    def build(self, repetition: int = 0) -> Instance:
        """The problem, network and solution of one repetition."""

    def choices(self) -> dict[str, Any]:
        """Every choice, ready for JSON."""
        return {"experiment": self.name, **asdict(self), "mixing": "laplacian", "x0": 0.0, "lam0": 0.0}

    def _draw(self, table: Dataset, repetition: int, *, full_rank: bool) -> tuple[Array, Array, dict[str, Any]]:
        """Rows of [X_raw, 1], their targets, and the facts of the draw."""
        everything = with_intercept(table.X)
        seed = seed_of(self.seed, self._axis, "rows", repetition)
        rows, draws = draw_rows(everything, self.samples, seed, full_rank=full_rank)
        X, y = everything[rows], table.y[rows]
        facts = {
            "data": table.name, "scaling": table.scaling, "labels": table.labels, "rows": rows.tolist(),
            "rows_seed": seed, "draws": draws, **matrix_facts(X),
        }  # fmt: skip
        return X, y, facts

    def _finish(self, problem: Problem, repetition: int, facts: dict[str, Any]) -> Instance:
        """Add the network and the solution."""
        seed = seed_of(self.seed, self._axis, "network", repetition)
        network = Network.erdos_renyi(problem.n, self.edge_probability, seed=seed, c=self.tau_c)
        star = reference(problem)
        solved = {"solution_kkt": star.kkt, "solution_objective": star.objective}
        return Instance(problem, network, star, facts | network_facts(network) | solved)
