"""Experiment I: ridge regression with a ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npga import functions as fn
from npga.errors import InputError
from npga.experiments._boston import load_boston
from npga.experiments._experiment import Experiment
from npga.experiments._instance import Instance, divide
from npga.problem import Agent, Problem

# Thirteen parties hold one feature each, the last one also the column of ones.
BOSTON_SIZES = [1] * 12 + [2]


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
