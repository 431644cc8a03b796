"""One predicate shared by the constants c, tau and beta."""

from __future__ import annotations

import math
from numbers import Real


def is_positive(value: object) -> bool:
    """Whether `value` is a finite real number above zero; booleans are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(value) and float(value) > 0
