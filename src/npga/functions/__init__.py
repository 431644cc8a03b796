"""Convex functions: value, gradient, prox, prox of the conjugate, and the facts that theory reads.

This room owns the mathematics of f, g and h and imports errors alone. In reading order:

    base              what every function can do and says about itself
    elementwise       sums over coordinates, of which most functions are one
    linear, squares, elastic_net, huber, kinked, intervals, logistic, logarithms        sums over coordinates
    norms, ball, simplex, quadratic, least_squares                          functions of a whole block
    calculus          multiples and translates
    sums              f + g where the prox of the sum is known, or its gradient
    separable_sum     sums over blocks, and the functions of many agents as few
    custom            the user's own callables
    kernel_form       how a function is told to a compiled kernel
    parameters        numbers, vectors and matrices, checked
    check, identities what every function must obey, and whether its facts are true

Every function acts along the last axis, so one call serves a whole stack of points. Start with

>>> from npga import functions as fn
>>> f = fn.L1(weight=0.5)
>>> f.prox([2.0, -0.2, -0.75], t=1.0).tolist()
[1.5, 0.0, -0.25]
>>> fn.check(f, dim=3).ok
True
"""

from npga.functions._ball import Ball
from npga.functions._base import Function
from npga.functions._calculus import Scaled, Shifted
from npga.functions._check import CheckReport, Finding, check
from npga.functions._custom import Custom
from npga.functions._elastic_net import ElasticNet
from npga.functions._elementwise import Elementwise
from npga.functions._huber import Huber
from npga.functions._intervals import Box, Equality, GreaterEqual, LessEqual, NonNegative
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._kinked import L1, Hinge, Quantile
from npga.functions._least_squares import LeastSquares
from npga.functions._linear import Linear, Zero
from npga.functions._logarithms import Entropy, NegLog
from npga.functions._logistic import Logistic
from npga.functions._norms import L2, GroupL2
from npga.functions._quadratic import Quadratic
from npga.functions._separable_sum import SeparableSum, join
from npga.functions._simplex import Simplex
from npga.functions._squares import SquaredLoss, SquaredNorm
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
