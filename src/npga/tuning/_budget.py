"""Time for tuning, and who is told how it is getting on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Budget:
    """Whether there is time left, and who is told about progress."""

    def __init__(self, seconds: float | None, observe: Callable[[str, int, float], None] | None) -> None:
        self._end = math.inf if seconds is None else time.perf_counter() + seconds
        self._observe = observe

    @property
    def spent(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() >= self._end

    def tell(self, stage: str, done: int, best: float) -> None:
        """Report progress: the stage, trials so far, and the best value."""
        if self._observe is not None:
            self._observe(stage, done, best)
