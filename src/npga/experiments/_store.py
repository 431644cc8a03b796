"""Finished units on disk, so that an interrupted run goes on where it stood."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import npga
from npga.experiments._experiment import Experiment
from npga.experiments._protocol import Protocol
from npga.experiments._unit import Unit


@dataclass(frozen=True)
class Task:
    """One unit that is to be done."""

    experiment: Experiment
    repetition: int
    version: str
    protocol: Protocol

    @property
    def label(self) -> str:
        """What a progress bar says."""
        return f"{self.experiment.name} {self.version} draw {self.repetition}"

    @property
    def key(self) -> str:
        """Digest of all that the outcome depends on: another choice, another key."""
        rules = asdict(self.protocol)
        rules.pop("versions")
        parts = {
            "npga": npga.__version__,
            "choices": self.experiment.choices(),
            "repetition": self.repetition,
            "version": self.version,
            "protocol": rules,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Store:
    """The folder of finished units.

    Parameters
    ----------
    folder
        Made when the first unit is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.experiment.name}-{task.repetition:03d}-{task.version}-{task.key[:12]}.json.gz"

    def load(self, task: Task) -> tuple[Unit, dict[str, Any]] | None:
        """The unit and the facts of its instance, or None if it is not there."""
        path = self._path(task)
        if not path.exists():
            return None
        stored = json.loads(gzip.decompress(path.read_bytes()))
        return Unit(stored["runs"], stored["points"]), stored["facts"]

    def save(self, task: Task, unit: Unit, facts: dict[str, Any]) -> None:
        """Write a unit, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(task)
        unfinished = path.with_suffix(".part")
        text = json.dumps({"facts": facts, "runs": unit.runs, "points": unit.points})
        unfinished.write_bytes(gzip.compress(text.encode(), 6, mtime=0))
        os.replace(unfinished, path)

    def forget(self, task: Task) -> None:
        """Remove a unit."""
        self._path(task).unlink(missing_ok=True)
