"""Checkpoints of one agent: written atomically, the two newest kept.

All agents save after the same iterations, more rounds apart than the network's diameter. An agent that has finished
round r has heard from agents at distance d what they sent after round r - d, so the newest checkpoints of any two
agents are at most one generation apart, and the oldest of the newest is held by all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.files import replacing
from npga.runtimes._data_files import PRIVATE
from npga.solver import State

Array = NDArray[Any]
_KEPT = 2


class SavedStates:
    """The checkpoints of agent `agent` in `directory`, for the job with this digest."""

    def __init__(self, directory: Path, agent: int, digest: str) -> None:
        self._directory, self._agent, self._digest = directory, agent, digest

    def _path(self, iteration: int) -> Path:
        return self._directory / f"agent{self._agent}-{iteration}.npz"

    def iterations(self) -> list[int]:
        """Iterations that can be gone on from, ascending."""
        pattern = re.compile(rf"agent{self._agent}-(\d+)\.npz")
        names = (pattern.fullmatch(path.name) for path in self._directory.glob(f"agent{self._agent}-*.npz"))
        return sorted(int(match[1]) for match in names if match)

    def save(self, state: State) -> None:
        """Write the state; an interrupted write leaves the older files as they are."""
        arrays = state.arrays() | {"digest": np.array(self._digest), "rounds": np.array(state.rounds)}
        with replacing(self._path(state.iteration), durable=True, mode=PRIVATE) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        for old in self.iterations()[:-_KEPT]:
            self._path(old).unlink()

    def load(self, iteration: int) -> State:
        """Read the state after `iteration`; refuse one of another job."""
        path = self._path(iteration)
        if not path.exists():
            raise InputError(
                f"agent {self._agent} has checkpoints of iterations {self.iterations()} and the parties agreed on "
                f"{iteration}; restore that file, or start again without --resume"
            )
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        digest = str(stored.pop("digest"))
        if digest != self._digest:
            raise InputError(
                f"{path} belongs to a job with digest {digest}, but this one has {self._digest}; resume with the same "
                "job.toml, or choose another directory"
            )
        return State.from_arrays(stored, iteration, int(stored.pop("rounds")))

    def clear(self) -> None:
        """Remove every checkpoint."""
        for iteration in self.iterations():
            self._path(iteration).unlink()
