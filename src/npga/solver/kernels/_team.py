"""A few threads that run kernels side by side.

Kernels release the interpreter's lock, so Python's own threads do. They sleep while they wait, which keeps a busy
machine usable, and they may be used from any thread and after a fork. One round takes some 50 microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run all calls, the first one on this thread; returns their results in order."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="npga")
    others = [_pool.submit(call) for call in calls[1:]]
    first = calls[0]()
    return [first, *(future.result() for future in others)]
