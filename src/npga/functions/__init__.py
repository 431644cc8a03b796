"""Convex functions: value, gradient, prox, prox of the conjugate, and the facts that theory reads.

This room owns the mathematics of f, g and h and imports errors alone. In reading order:

    base           what every function can do and says about itself; sums over coordinates, of which most are one
    squares        Zero, Linear, SquaredNorm, SquaredLoss
    piecewise      L1, Hinge, Quantile, ElasticNet, Huber
    logarithms     Logistic, NegLog, Entropy
    sets           Box, NonNegative, Equality, LessEqual, GreaterEqual; Ball, Simplex
    norms          L2, GroupL2
    quadratic      Quadratic, LeastSquares: with a matrix
    calculus       multiples and translates
    sums           f + g where the prox of the sum is known, or its gradient
    separable_sum  sums over blocks, and the functions of many agents as few
    custom         the user's own callables
    check          whether the facts of a function are true, and a report of it
    identities     what value, gradient and prox owe one another
    kernel_form    how a function is told to a compiled kernel
    parameters     numbers, vectors and matrices, checked

Every function acts along the last axis, so one call serves a whole stack of points. Start with

>>> from npga import functions as fn
>>> f = fn.L1(weight=0.5)
>>> f.prox([2.0, -0.2, -0.75], t=1.0).tolist()
[1.5, 0.0, -0.25]
>>> fn.check(f, dim=3).ok
True
"""

from npga.functions._base import Elementwise, Function
from npga.functions._calculus import Scaled, Shifted
from npga.functions._check import CheckReport, Finding, check
from npga.functions._custom import Custom
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._logarithms import Entropy, Logistic, NegLog
from npga.functions._norms import L2, GroupL2
from npga.functions._piecewise import L1, ElasticNet, Hinge, Huber, Quantile
from npga.functions._quadratic import LeastSquares, Quadratic
from npga.functions._separable_sum import SeparableSum, join
from npga.functions._sets import Ball, Box, Equality, GreaterEqual, LessEqual, NonNegative, Simplex
from npga.functions._squares import Linear, SquaredLoss, SquaredNorm, Zero
from npga.functions._sums import Sum

__all__ = [
    "L1",
    "L2",
    "Ball",
    "Box",
    "CheckReport",
    "Custom",
    "ElasticNet",
    "Elementwise",
    "Entropy",
    "Equality",
    "Finding",
    "Function",
    "GreaterEqual",
    "GroupL2",
    "Hinge",
    "Huber",
    "KernelForm",
    "Kind",
    "LeastSquares",
    "LessEqual",
    "Linear",
    "Logistic",
    "NegLog",
    "NonNegative",
    "Quadratic",
    "Quantile",
    "Scaled",
    "SeparableSum",
    "Shifted",
    "Simplex",
    "SquaredLoss",
    "SquaredNorm",
    "Sum",
    "Zero",
    "check",
    "join",
]
