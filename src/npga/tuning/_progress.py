"""A line in the terminal that says how tuning is getting on (rich)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from npga.errors import MissingExtraError

Observer = Callable[[str, int, float], None]


@contextmanager
def progress(title: str, enabled: bool) -> Iterator[Observer | None]:
    """An observer that shows stage, number of trials and best value; None when not enabled."""
    if not enabled:
        yield None
        return
    try:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        raise MissingExtraError("rich", "progress", "progress=True") from None
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[work]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=None, work="")

        def observe(stage: str, done: int, best: float) -> None:
            bar.update(task, work=f"{stage}, {done} trials, now {best:.4g}")

        yield observe
