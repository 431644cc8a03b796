"""Whether several threads are worth their while, found out by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

# A piece of work after which the choice is looked at again, and how many pieces pass before the loser is tried again.
_PIECE_SECONDS = 0.1
_RETRY = 40


class Pace:
    """Runs iterations on one thread or on several, whichever has been faster.

    Threads wait for one another in every iteration. On an idle machine they pay; where other processes compete for the
    cores they can be a hundred times slower than one thread. The kernels give the same bits either way, so the choice
    may change in the middle of a run.

    Parameters
    ----------
    threads
        How many threads there are; with one there is nothing to choose.
    """

    def __init__(self, threads: int) -> None:
        self._choices = (True, False) if threads > 1 else (False,)
        self._seconds: dict[bool, float] = {}
        self._warm: set[bool] = set()
        self._pieces = 0

    @property
    def seconds(self) -> float:
        """Seconds of an iteration lately; 0 when not known yet."""
        return min(self._seconds.values(), default=0.0)

    def note(self, threaded: bool, seconds: float, iterations: int) -> None:
        """Remember how long some iterations took; not the first call, which loads or compiles kernels."""
        if threaded in self._warm and iterations:
            self._seconds[threaded] = seconds / iterations
        self._warm.add(threaded)

    def _choose(self) -> bool:
        for choice in self._choices:
            if choice not in self._seconds:
                return choice
        self._pieces += 1
        faster = min(self._choices, key=lambda choice: self._seconds[choice])
        return faster if self._pieces % _RETRY or len(self._choices) == 1 else not faster

    def __call__(self, run: Callable[[int, bool, bool], int], iterations: int) -> int:
        """Call ``run(iterations, threaded, last)``, which returns how many were run, in pieces; returns their sum."""
        done = 0
        while done < iterations:
            threaded = self._choose()
            known = self._seconds.get(threaded)
            piece = 1 if known is None else max(1, int(_PIECE_SECONDS / max(known, 1e-9)))
            piece = min(piece if len(self._choices) > 1 else iterations, iterations - done)
            begun = time.perf_counter()
            ran = run(piece, threaded, done + piece == iterations)
            self.note(threaded, time.perf_counter() - begun, ran)
            done += ran
            if ran < piece:
                break
        return done
