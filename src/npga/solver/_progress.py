"""How far something has come: a bar on a terminal, a line now and then elsewhere.

`show_progress` is what everything that takes long tells its progress to, here and in rooms that build on this one.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from npga.extras import load

if TYPE_CHECKING:
    from npga.solver._loop import Run
    from npga.solver._stopping import Limits

# Told with the share that is done, or None where nobody knows, and a few words.
Tell = Callable[[float | None, str], None]
# Seconds between two lines where there is no terminal.
PAUSE = 10.0


@contextmanager
def show_progress(title: str, enabled: bool = True) -> Iterator[Tell | None]:
    """Whom to tell about progress; None when not enabled.

    Parameters
    ----------
    title
        What is under way.
    enabled
        Whether anybody wants to know. A bar needs rich; lines, in a log, need nothing.
    """
    if not enabled:
        yield None
    elif sys.stdout.isatty():
        with _bar(title) as tell:
            yield tell
    else:
        with _lines(title) as tell:
            yield tell


@contextmanager
def _bar(title: str) -> Iterator[Tell]:
    rich = load("rich.progress", "progress", "progress=True")
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[work]}"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns) as bar:
        task = bar.add_task(title, total=None, work="")

        def tell(done: float | None, words: str) -> None:
            bar.update(task, total=None if done is None else 1.0, completed=done or 0.0, work=words)

        yield tell


@contextmanager
def _lines(title: str) -> Iterator[Tell]:
    """A line after each pause, and the last words at the end."""
    begun = said = time.monotonic()
    last: str | None = None

    def say(line: str) -> None:
        print(line, f"({time.monotonic() - begun:.0f} s)", flush=True)

    def tell(done: float | None, words: str) -> None:
        nonlocal said, last
        last = f"{title}: {words}" if done is None else f"{title}: {100 * done:.0f} %, {words}"
        if time.monotonic() - said >= PAUSE:
            say(last)
            said, last = time.monotonic(), None

    try:
        yield tell
    finally:
        if last is not None:
            say(last)


def run_observer(tell: Tell, limits: Limits) -> Callable[[Run[Any]], None]:
    """An observer of the loop that tells how far log10 of what is wanted small has come on its way to its limit."""

    def share(value: float, wanted: float | None) -> float:
        return math.log(value) / math.log(wanted) if wanted and wanted < 1.0 and 0.0 < value < 1.0 else 0.0

    def observe(run: Run[Any]) -> None:
        record = run.trace[-1]
        done = record.iteration / max(limits.max_iters, 1)
        done = max(done, share(record.kkt, limits.tol), share(record.gap, limits.gap_tol))
        tell(min(done, 1.0), f"iteration {record.iteration}, round {record.round}, kkt {record.kkt:.1e}")

    return observe
