"""Files that are written whole or not at all: an interruption leaves the old one as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when the block ends without an error; folders are made.

    `durable` waits until the disk has it, so that it is there after a loss of power too. `mode` is the permissions,
    such as 0o600 for what is private; those of the process's umask by default.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write a text, whole or not at all, with these permissions."""
    with replacing(path, mode=mode) as file:
        file.write(text.encode("utf-8"))
