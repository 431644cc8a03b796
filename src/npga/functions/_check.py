"""Test whether a function obeys the identities of convex analysis, and whether its facts are true."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npga.errors import FunctionError
from npga.functions import _check_calls, _check_facts
from npga.functions._base import Function
from npga.functions._report import CheckReport, Finding
from npga.functions._sample import Sample

# (name, tolerance, what a failure means, worst relative error on a sample or None where the check does not
# apply)
Row = tuple[str, float, str, Callable[[Sample], float | None]]
ROWS: tuple[Row, ...] = (*_check_calls.ROWS, *_check_facts.ROWS)


def check(f: Function, dim: int | None = None, seed: int = 0, samples: int = 24) -> CheckReport:
    """Test a function against the mathematics: calls against one another, and facts against values.

    The gradient is compared with finite differences in every coordinate, the prox with the inequality that
    defines it, the prox of the conjugate with Moreau's identity, stacked calls with single ones, Hessian
    and Jacobians with finite differences, and each fact with what it promises. Passing is evidence on
    random points, not proof.

    Parameters
    ----------
    f
        The function.
    dim
        Number of coordinates to check with; by default that of the function, or 5.
    seed
        Of the random points.
    samples
        Number of random points.

    Examples
    --------
    >>> from npga import functions as fn
    >>> report = fn.check(fn.Custom(value=lambda x: x @ x, grad=lambda x: -2 * x), dim=3)
    >>> report.ok
    False
    """
    if dim is None:
        dim = 5 if f.dim is None else f.dim
    if dim < 1 or samples < 4 or f.dim not in (None, dim):
        raise FunctionError(
            f"check of {f!r}: got dim {dim} and {samples} samples; expected the dim of the function (at least 1) "
            "and at least 4 samples"
        )
    try:
        sample = Sample.draw(f, dim, samples, seed)
    except Exception as error:
        return CheckReport(repr(f), (Finding("value and prox", np.inf, 0.0, _complaint(error)),))
    return CheckReport(repr(f), tuple(_find(row, sample) for row in ROWS))


def _find(row: Row, sample: Sample) -> Finding:
    name, tolerance, sentence, measure = row
    # A callable of the user's may raise anything; a report of all findings is worth more than the first
    # traceback.
    try:
        return Finding(name, measure(sample), tolerance, sentence)
    except Exception as error:
        return Finding(name, np.inf, tolerance, _complaint(error))


def _complaint(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"
