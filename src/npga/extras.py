"""Optional dependencies: imported when they are used, and named with their extra when they are missing.

`show_progress` is what everything that takes long tells its progress to: a bar of rich in a terminal, lines elsewhere.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from npga.errors import MissingExtraError

# Told with the share that is done, or None where nobody knows, and a few words.
Tell = Callable[[float | None, str], None]
# Seconds between two lines where there is no terminal.
PAUSE = 10.0


def load(module: str, extra: str, purpose: str, package: str | None = None) -> Any:
    """A module such as "matplotlib.pyplot", imported now; where it is missing, what needs it and which extra has it.

    `package` is its name where that differs from the module's, such as "grpcio" for "grpc".
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package or module.split(".")[0], extra, purpose) from None


@contextmanager
def show_progress(title: str, enabled: bool = True) -> Iterator[Tell | None]:
    """Whom to tell about progress; None when nobody wants to know. A bar needs rich; lines, in a log, need nothing."""
    if not enabled:
        yield None
        return
    with _bar(title) if sys.stdout.isatty() else _lines(title) as tell:
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
