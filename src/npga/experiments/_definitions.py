"""The three experiments of Li and Su (2024), section V, and what they have in common.

What the paper gives is fixed: the numbers of parties and samples, the division of the columns, the Erdos-Renyi graph
with probability 0.3 and the Laplacian mixing. What it leaves open is a field with a default, and every field is
recorded with the results.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npga import functions as fn
from npga.errors import InputError
from npga.experiments._datasets import Dataset, load_boston, load_covtype
from npga.networks import Network
from npga.problem import Agent, Problem
from npga.solver import Reference, reference

Array = NDArray[np.float64]

# Thirteen parties hold one feature each, the last one also the column of ones.
BOSTON_SIZES = [1] * 12 + [2]
# Twenty-seven parties hold two features each, the last one also the column of ones.
COVTYPE_SIZES = [2] * 26 + [3]


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
        """Rows of the paper's X = [X_raw, 1], their targets, and the facts of the draw."""
        everything = np.column_stack([table.X, np.ones(len(table.X))])
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


@dataclass(frozen=True, kw_only=True)
class Ridge(Experiment):
    """min over theta of (1/2)|theta|^2 subject to |X theta - Y| <= delta.

    f_i = (1/2)|x_i|^2, g_i = 0, A_i = X_i, h the indicator of the ball; 10 rows of the Boston table with full row rank,
    13 parties.

    Parameters
    ----------
    radius
        delta as a part of |Y|, between 0 and 1: at 1 the solution is 0.
    """

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "Experiment I: ridge regression, Boston"
    theorems: ClassVar[str] = "1, 2"
    _axis: ClassVar[str] = "boston-full-rank"

    radius: float = 0.1

    def build(self, repetition: int = 0) -> Instance:
        """The problem, network and solution of one repetition."""
        if not 0.0 < self.radius < 1.0:
            raise InputError(f"radius is {self.radius}; expected a part of |Y| between 0 and 1")
        X, y, facts = self._draw(load_boston(self.scaling), repetition, full_rank=True)
        delta = self.radius * float(np.linalg.norm(y))
        agents = [Agent(A=block, f=fn.SquaredNorm(1.0)) for block in divide(X, BOSTON_SIZES)]
        return self._finish(Problem(agents, fn.Ball(y, delta)), repetition, facts | {"delta": delta})


@dataclass(frozen=True, kw_only=True)
class LogisticExperiment(Experiment):
    """min over theta of (1/p) sum_j ln(1 + exp(-y_j theta.x_j)) + (rho/2)|theta|^2, as the paper poses it.

    f_i = (rho/2)|x_i|^2 and A_i = X_i for 27 parties; party 28 holds the labels, z, the loss as its f and A = -I;
    h is the indicator of {0}. The loss is not strongly convex, so that no theorem allows any step (Theorem 3 asks for
    mu > 0); the iteration converges all the same.

    Parameters
    ----------
    rho
        Weight of the regularisation; 1/p is scikit-learn's default C = 1.
    full_table
        Draw the rows from all 581,012 rows of Covtype (``npga data fetch covtype``) and not from the 2,000 shipped.
    """

    name: ClassVar[str] = "logistic"
    title: ClassVar[str] = "Experiment II: logistic regression, Covtype, the paper's pose"
    theorems: ClassVar[str] = "3, which needs a strongly convex f_28"
    target: ClassVar[float] = 1e-8
    # The linearised iteration has 5,755 dimensions here, and spectral tuning takes minutes for each version.
    tuning: ClassVar[tuple[str, int]] = ("search", 6)
    _axis: ClassVar[str] = "covtype"

    samples: int = 100
    scaling: str = "min-max"
    rho: float = 0.01
    full_table: bool = False

    def build(self, repetition: int = 0) -> Instance:
        """The problem, network and solution of one repetition."""
        agents, y, facts = self._parties(repetition)
        loss = fn.Logistic(y, 1.0 / self.samples)
        agents.append(Agent(A=-np.eye(self.samples), f=loss, name="labels"))
        return self._finish(Problem(agents, fn.Equality(np.zeros(self.samples))), repetition, facts)

    def _parties(self, repetition: int) -> tuple[list[Agent], Array, dict[str, Any]]:
        """The 27 parties that hold features, and the labels."""
        if not self.rho > 0.0:
            raise InputError(f"rho is {self.rho}; expected a number > 0")
        X, y, facts = self._draw(load_covtype(self.scaling, full=self.full_table), repetition, full_rank=False)
        facts |= {"positive_labels": int((y > 0).sum()), "varying_columns": int((np.ptp(X, axis=0) > 0).sum())}
        return [Agent(A=block, f=fn.SquaredNorm(self.rho)) for block in divide(X, COVTYPE_SIZES)], y, facts


@dataclass(frozen=True, kw_only=True)
class LogisticCoupled(LogisticExperiment):
    """The same regression with the loss in h: 27 parties, h(z) = (1/p) sum_j ln(1 + exp(-y_j z_j)).

    h is 1/(4p)-smooth and every f_i is strongly convex, so that Theorem 4 applies. All parties know the labels.
    """

    name: ClassVar[str] = "logistic-coupled"
    title: ClassVar[str] = "Experiment II: logistic regression, Covtype, the loss in h"
    theorems: ClassVar[str] = "4"
    tuning: ClassVar[tuple[str, int]] = ("search", 2)  # each prox of the loss is 100 scalar equations

    def build(self, repetition: int = 0) -> Instance:
        """The problem, network and solution of one repetition."""
        agents, y, facts = self._parties(repetition)
        return self._finish(Problem(agents, fn.Logistic(y, 1.0 / self.samples)), repetition, facts)


@dataclass(frozen=True, kw_only=True)
class ElasticNetExperiment(Experiment):
    """min over theta of |X theta - Y|^2/(2p) + alpha rho |theta|_1 + alpha (1 - rho)/2 |theta|^2.

    f_i = alpha (1 - rho)/2 |x_i|^2, g_i = alpha rho |x_i|_1, A_i = X_i, h(z) = |z - Y|^2/(2p); 10 rows of the Boston
    table, 13 parties.

    Parameters
    ----------
    alpha, rho
        Weight of the regularisation and the part of it that is l1.
    """

    name: ClassVar[str] = "elastic-net"
    title: ClassVar[str] = "Experiment III: elastic net, Boston"
    theorems: ClassVar[str] = "4"
    _axis: ClassVar[str] = "boston"

    alpha: float = 0.1
    rho: float = 0.5

    def build(self, repetition: int = 0) -> Instance:
        """The problem, network and solution of one repetition."""
        if not (self.alpha > 0.0 and 0.0 < self.rho < 1.0):
            raise InputError(f"alpha is {self.alpha} and rho {self.rho}; expected alpha > 0 and 0 < rho < 1")
        X, y, facts = self._draw(load_boston(self.scaling), repetition, full_rank=False)
        l1, l2 = self.alpha * self.rho, self.alpha * (1.0 - self.rho)
        agents = [Agent(A=block, f=fn.SquaredNorm(l2), g=fn.L1(l1)) for block in divide(X, BOSTON_SIZES)]
        return self._finish(Problem(agents, fn.SquaredLoss(y, 1.0 / self.samples)), repetition, facts)


EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind for kind in (Ridge, LogisticExperiment, LogisticCoupled, ElasticNetExperiment)
}


@dataclass(frozen=True)
class Instance:
    """What one repetition of an experiment runs on.

    Parameters
    ----------
    problem, network
        P1 and the graph.
    reference
        x* and lam*, from a centralised method.
    facts
        Rows drawn, rank, condition number, seeds, links, parameters, accuracy of x*: plain numbers and text.
    """

    problem: Problem
    network: Network
    reference: Reference
    facts: dict[str, Any]

    @property
    def solution(self) -> Array:
        """The point x* that gaps are measured to."""
        return self.reference.x


def seed_of(seed: int, *axes: str | int) -> int:
    """A 32-bit seed for one named axis, such as ("ridge", "network", 3).

    It is a digest, so that neighbouring repetitions share nothing: a network that is redrawn with seed + 1 until it is
    connected does not run into the draw of the next repetition.
    """
    text = "/".join(str(part) for part in (seed, *axes))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def draw_rows(X: Array, samples: int, seed: int, *, full_rank: bool) -> tuple[NDArray[np.int64], int]:
    """Ascending row numbers of a draw without replacement, and how many draws it took to reach full row rank."""
    if not 1 <= samples <= len(X):
        raise InputError(f"{samples} samples were asked for; expected between 1 and the {len(X)} rows of the table")
    rng = np.random.default_rng(seed)
    for draw in range(1, 1001):
        rows = np.sort(rng.choice(len(X), samples, replace=False))
        if not full_rank or np.linalg.matrix_rank(X[rows]) == samples:
            return rows, draw
    raise InputError(
        f"none of 1000 draws of {samples} rows has full row rank; expected at most {X.shape[1]} samples, the number of "
        "columns"
    )


def divide(X: Array, sizes: Sequence[int]) -> list[Array]:
    """X = [X_1, ..., X_n] by numbers of columns."""
    return [np.ascontiguousarray(block) for block in np.split(X, np.cumsum(sizes)[:-1], axis=1)]


def matrix_facts(X: Array) -> dict[str, Any]:
    """Rank, and condition number over the singular values that are not zero."""
    values = np.linalg.svd(X, compute_uv=False)
    rank = int(np.linalg.matrix_rank(X))
    return {"shape": list(X.shape), "rank": rank, "condition_number": float(values[0] / values[rank - 1])}


def network_facts(network: Network) -> dict[str, Any]:
    """What is needed to make the network again, and its spectrum's ends."""
    least, second = network.extreme_eigenvalues()
    return {
        "agents": network.n,
        "links": len(network.edges),
        "edges": network.edges.tolist(),
        "mixing": network.mixing,
        "tau": network.tau,
        "network_seed_used": network.seed,
        "smallest_eigenvalue_of_W": least,
        "second_eigenvalue_of_W": second,
    }
