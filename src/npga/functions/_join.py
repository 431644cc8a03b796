"""The functions of many agents as few functions: what lets one vectorised call serve all of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby

import numpy as np

from npga.functions._base import Function
from npga.functions._elementwise import Elementwise
from npga.functions._linear import Zero
from npga.functions._parameters import Parameter
from npga.functions._separable_sum import SeparableSum, check_blocks


def join(parts: Sequence[Function], sizes: Sequence[int]) -> Function:
    """Sum over consecutive blocks of coordinates, with neighbours of one elementwise class fused.

    The result has the values of ``SeparableSum(parts, sizes)``. Runs of parts of the same elementwise class
    become one function of that class, whose parameters are the parts' laid end to end; a parameter that is
    the same number in all of them stays a number. Blocks of size 0 are dropped, and a single function is
    returned bare.

    Parameters
    ----------
    parts
        One function per block.
    sizes
        Number of coordinates of each block.
    """
    check_blocks("join", parts, sizes)
    blocks = [(part, int(size)) for part, size in zip(parts, sizes, strict=True) if size > 0]
    if not blocks:
        return Zero()
    fused, lengths = [], []
    for _, group in groupby(enumerate(blocks), key=_family):
        run = [block for _, block in group]
        fused.append(_fuse(run))
        lengths.append(sum(size for _, size in run))
    return fused[0] if len(fused) == 1 else SeparableSum(fused, lengths)


def _family(numbered: tuple[int, tuple[Function, int]]) -> Hashable:
    position, (part, _) = numbered
    return type(part) if isinstance(part, Elementwise) else position


def _fuse(run: list[tuple[Function, int]]) -> Function:
    first = run[0][0]
    if len(run) == 1 or not isinstance(first, Elementwise):
        return first
    sizes = [size for _, size in run]
    columns = zip(*(part.parameters for part, _ in run if isinstance(part, Elementwise)), strict=True)
    return type(first)(*(_lay_end_to_end(column, sizes) for column in columns))


def _lay_end_to_end(column: tuple[Parameter, ...], sizes: list[int]) -> Parameter:
    if all(isinstance(p, float) and p == column[0] for p in column):
        return column[0]
    # Numbers take the type of the vectors they join, so that a float32 problem stays float32.
    vectors = [p for p in column if not isinstance(p, float)]
    dtype = np.result_type(*vectors) if vectors else np.float64
    return np.concatenate([np.broadcast_to(np.asarray(p, dtype), size) for p, size in zip(column, sizes, strict=True)])
