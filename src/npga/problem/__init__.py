"""The problem: agents (f, g, A) and h, with shapes and roles checked once.

This room owns the problem and its residual; it imports functions, networks and errors. In reading order:

    problem     agents and coupling, checked; objective and residual at a point
    blocks      diag(A_1, ..., A_n) applied to all agents at once, and spectral norms
    residual    the scale-free residual of the optimality conditions
"""

from npga.problem._blocks import BlockOperator, dense_block, spectral_norm
from npga.problem._consensus import ConsensusProblem
from npga.problem._problem import Agent, Problem
from npga.problem._residual import Residual, coupling_point, natural_curvature, residual, stationarity_gap

__all__ = [
    "Agent",
    "BlockOperator",
    "ConsensusProblem",
    "Problem",
    "Residual",
    "coupling_point",
    "dense_block",
    "natural_curvature",
    "residual",
    "spectral_norm",
    "stationarity_gap",
]
