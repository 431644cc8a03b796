"""Experiment II: logistic regression, as the paper poses it and with the loss in h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from npga import functions as fn
from npga.errors import InputError
from npga.experiments._covtype import load_covtype
from npga.experiments._experiment import Experiment
from npga.experiments._instance import Array, Instance, divide
from npga.problem import Agent, Problem

# Twenty-seven parties hold two features each, the last one also the column of ones.
COVTYPE_SIZES = [2] * 26 + [3]


@dataclass(frozen=True, kw_only=True)
class Logistic(Experiment):
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
class LogisticCoupled(Logistic):
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
