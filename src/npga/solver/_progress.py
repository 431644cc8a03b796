"""A progress bar for a run (rich)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from npga.errors import MissingExtraError
from npga.solver._loop import Run


@contextmanager
def progress_bar(
    name: str, tol: float | None, max_iters: int, enabled: bool
) -> Iterator[list[Callable[[Run[Any]], None]]]:
    """Observers that show how far log10 of the residual has come on its way to `tol`; none when not enabled."""
    if not enabled:
        yield []
        return
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        raise MissingExtraError("rich", "progress", "progress=True") from None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[work]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(name, total=1.0, work="")

        def observe(run: Run[Any]) -> None:
            record = run.trace[-1]
            done = record.iteration / max(max_iters, 1)
            if tol and 0.0 < record.kkt < 1.0 and tol < 1.0:
                done = max(done, math.log(record.kkt) / math.log(tol))
            work = f"iteration {record.iteration}, round {record.round}, kkt {record.kkt:.1e}"
            bar.update(task, completed=min(done, 1.0), work=work)

        yield [observe]
