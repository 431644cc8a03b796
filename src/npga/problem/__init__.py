"""The problem: agents (f, g, A) and h, with shapes and roles checked once."""

from npga.problem._blocks import BlockOperator, dense_block, spectral_norm
from npga.problem._problem import Agent, Problem
from npga.problem._residual import Residual, residual

__all__ = ["Agent", "BlockOperator", "Problem", "Residual", "dense_block", "residual", "spectral_norm"]
