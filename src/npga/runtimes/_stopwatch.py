"""How long a party has been waiting for its neighbours: one timer for the whole run instead of one for each round.

Whoever waits longer than its patience says so to its neighbours, once. A party that hears this from the one it waits
for extends its own wait and leaves the naming to him; so the one that is named in the end is the one that is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LOOKS = 10
_LONGEST_TICK = 0.5


class Stopwatch:
    """Cancels the task that waits when its time is over, and sets `expired`.

    Parameters
    ----------
    loop
        The event loop; it need not run all the time.
    patience, grace
        Seconds until `late` is called, and from then until the end.
    late
        Called once in each wait that outlasts the patience.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, patience: float, grace: float, late: Callable[[], None]
    ) -> None:
        self._loop, self.patience, self._grace, self._late = loop, patience, grace, late
        self._tick = min(patience / _LOOKS, _LONGEST_TICK)
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self._from = self._until = 0.0
        self.expired = False
        self.party = -1

    def start(self) -> None:
        """The running task begins to wait."""
        self._task, self._told = asyncio.current_task(), False
        self._from = self._loop.time()
        self._until = self._from + self.patience + self._grace
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._look)

    def extend(self) -> None:
        """The one it waits for is alive and waits as well."""
        self._until = self._loop.time() + self.patience + 2 * self._grace

    def stop(self) -> None:
        """The wait is over."""
        self._task = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._tick, self._look)
        if self._task is None:
            return
        now = self._loop.time()
        if now > self._until:
            self.expired = True
            self._task.cancel()
        elif now > self._from + self.patience and not self._told:
            self._told = True
            self._late()
