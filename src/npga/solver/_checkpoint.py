"""A run in one file: written atomically, resumed with the same bits."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import InputError
from npga.files import replacing
from npga.solver._loop import Meter, Method, Run, Yardstick
from npga.solver._result import COLUMNS, Record, Trace

_FORMAT = 2


class Saver:
    """Saves a run now and then, and reads it back.

    Parameters
    ----------
    path
        The file.
    method, meter
        Who runs, which identifies the run, and who measures it.
    seconds
        Least time between two saves on the way.
    """

    def __init__(self, path: Path, method: Method[Any], meter: Meter[Any], seconds: float) -> None:
        self._path, self._method, self._meter, self._pause = path, method, meter, seconds
        self._saved = time.monotonic()

    def __call__(self, run: Run[Any]) -> None:
        """Save if the last save is long enough ago; an observer of the loop."""
        if time.monotonic() - self._saved >= self._pause:
            self.save(run)

    def save(self, run: Run[Any]) -> None:
        """Write the state, the trace and what identifies the run; an interrupted write leaves the old file."""
        head = {
            "format": _FORMAT,
            "identity": self._method.identity,
            "iteration": run.state.iteration,
            "rounds": run.state.rounds,
            "inner": run.state.inner,
            "seconds": run.seconds,
            "meter": asdict(self._meter.yardstick),
        }
        columns = {f"trace_{name}": run.trace[name] for name in COLUMNS}
        with replacing(self._path, durable=True) as file:
            np.savez(file, head=np.array(json.dumps(head)), **run.state.arrays(), **columns)
        self._saved = time.monotonic()

    def load(self) -> Run[Any]:
        """Read a run back; refuse one of another method, problem, network, version or steps."""
        path = self._path
        if not path.exists():
            raise InputError(f"no checkpoint at {path}; leave resume=True out to begin one there")
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        head = json.loads(str(stored.pop("head")))
        if head["format"] != _FORMAT:
            raise InputError(f"{path} has format {head['format']}; this release of npga reads format {_FORMAT}")
        identity = json.loads(json.dumps(self._method.identity))  # a tuple is read back as a list
        for key, value in identity.items():
            found = head["identity"].get(key)
            if found != value:
                raise InputError(
                    f"{path} belongs to a run with {key} {found}, but this one has {value}; resume with the same "
                    "arguments, or choose another file"
                )
        columns = [stored.pop(f"trace_{name}").tolist() for name in COLUMNS]
        trace = Trace([Record(*row) for row in zip(*columns, strict=True)])
        self._meter.yardstick = Yardstick(**head["meter"])
        state = self._method.kind.from_arrays(stored, head["iteration"], head["rounds"], head.get("inner", 0))
        return Run(state, trace, seconds=head["seconds"])
