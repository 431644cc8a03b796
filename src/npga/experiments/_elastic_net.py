"""Experiment III: elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npga import functions as fn
from npga.errors import InputError
from npga.experiments._boston import load_boston
from npga.experiments._experiment import Experiment
from npga.experiments._instance import Instance, divide
from npga.experiments._ridge import BOSTON_SIZES
from npga.problem import Agent, Problem


@dataclass(frozen=True, kw_only=True)
class ElasticNet(Experiment):
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
