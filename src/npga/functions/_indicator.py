"""What indicators share: the values 0 and infinity, and the tolerance with which membership is decided."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from npga.functions._base import Array, Function, Value


class Indicator(Function):
    """Base of the indicators of closed convex sets: 0 on the set, infinity off it.

    A point belongs to the set when each inequality ``left <= bound`` that defines it holds up to
    ``TOLERANCE * (1 + |bound|)``, so that projections, which are rounded, belong. In float32 the tolerance is
    16 units of rounding, about 2e-6.
    """

    TOLERANCE: ClassVar[float] = 1e-9

    is_indicator = True

    def _slack(self, x: Array) -> float:
        return max(self.TOLERANCE, 16.0 * float(np.finfo(x.dtype).eps))

    def _verdict(self, x: Array, member: Array | np.bool) -> Value:
        return np.where(member, x.dtype.type(0.0), x.dtype.type(np.inf))[()]
