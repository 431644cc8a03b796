"""Time for tuning, and who is told how it is getting on."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """Whether there is time left, and who is told about progress.

    Parameters
    ----------
    seconds
        Time; None for as much as it takes.
    observe
        Called with the stage, the number of trials and the best value.
    begun
        When the time began to run; now by default.
    """

    def __init__(
        self, seconds: float | None, observe: Callable[[str, int, float], None] | None, begun: float | None = None
    ) -> None:
        self._seconds, self._observe = seconds, observe
        self._begun = time.perf_counter() if begun is None else begun

    @property
    def spent(self) -> bool:
        """Whether the time is over."""
        return self._seconds is not None and time.perf_counter() - self._begun >= self._seconds

    def until(self, share: float) -> Budget:
        """A budget that ends when this share of the time is over."""
        return Budget(None if self._seconds is None else share * self._seconds, self._observe, self._begun)

    def tell(self, stage: str, done: int, best: float) -> None:
        """Report progress: the stage, trials so far, and the best value."""
        if self._observe is not None:
            self._observe(stage, done, best)
