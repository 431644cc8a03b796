"""The problem: agents (f, g, A) and h, with shapes and roles checked once.

This room owns the problem and its residual; it imports functions, networks and errors. In reading order:

    problem     agents and coupling, checked; objective and residual at a point
    blocks      diag(A_1, ..., A_n) applied to all agents at once, and spectral norms
    residual    by how much one more step would change anything: the residual of the optimality conditions; how far a
                point is from the solution at most, and whether its prices are the only ones
    consensus   agents that agree on one x, as such a problem
"""

from npga.problem._blocks import BlockOperator, dense_block, spectral_norm
from npga.problem._consensus import ConsensusProblem, expect_p1
from npga.problem._problem import Agent, Problem
from npga.problem._residual import FORCES, LEAST, Residual, Units, residual

__all__ = [
    "FORCES",
    "LEAST",
    "Agent",
    "BlockOperator",
    "ConsensusProblem",
    "Problem",
    "Residual",
    "Units",
    "dense_block",
    "expect_p1",
    "residual",
    "spectral_norm",
]
