"""A run in one file: written atomically, resumed with the same bits."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from npga.errors import InputError
from npga.solver._loop import Meter, Run
from npga.solver._method import Npga
from npga.solver._state import State
from npga.solver._trace import COLUMNS, Record, Trace

_FORMAT = 1


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

    def __init__(self, path: Path, method: Npga, meter: Meter, seconds: float) -> None:
        self._path, self._method, self._meter, self._pause = path, method, meter, seconds
        self._saved = time.monotonic()

    def __call__(self, run: Run) -> None:
        """Save if the last save is long enough ago; an observer of the loop."""
        if time.monotonic() - self._saved >= self._pause:
            self.save(run)

    def save(self, run: Run) -> None:
        """Write the state, the trace and what identifies the run; an interrupted write leaves the old file."""
        head = {
            "format": _FORMAT,
            "identity": self._method.identity,
            "iteration": run.state.iteration,
            "rounds": run.state.rounds,
            "seconds": run.seconds,
            "meter": self._meter.memory(),
        }
        columns = {f"trace_{name}": run.trace[name] for name in COLUMNS}
        temporary = self._path.with_name(self._path.name + ".part")
        with temporary.open("wb") as file:
            np.savez(file, head=np.array(json.dumps(head)), **run.state.arrays(), **columns)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        self._saved = time.monotonic()

    def load(self) -> Run:
        """Read a run back; refuse one that belongs to another problem, network, version or steps."""
        path = self._path
        if not path.exists():
            raise InputError(f"no checkpoint at {path}; leave resume=True out to begin one there")
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        head = json.loads(str(stored.pop("head")))
        if head["format"] != _FORMAT:
            raise InputError(f"{path} has format {head['format']}; this release of npga reads format {_FORMAT}")
        for key, value in self._method.identity.items():
            if head["identity"][key] != value:
                raise InputError(
                    f"{path} belongs to a run with {key} {head['identity'][key]}, but this one has {value}; resume "
                    "with the same arguments, or choose another file"
                )
        columns = [stored.pop(f"trace_{name}").tolist() for name in COLUMNS]
        trace = Trace([Record(*row) for row in zip(*columns, strict=True)])
        self._meter.restore(head["meter"])
        state = State.from_arrays(stored, head["iteration"], head["rounds"])
        return Run(state, trace, seconds=head["seconds"])
