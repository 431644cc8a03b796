"""The problem: agents (f, g, A) and h, with shapes and roles checked once."""

from npga.problem._blocks import BlockOperator, dense_block, spectral_norm
from npga.problem._problem import Agent, Problem
from npga.problem._residual import Residual, coupling_point, natural_curvature, residual, stationarity_gap

__all__ = [
    "Agent",
    "BlockOperator",
    "Problem",
    "Residual",
    "coupling_point",
    "dense_block",
    "natural_curvature",
    "residual",
    "spectral_norm",
    "stationarity_gap",
]
