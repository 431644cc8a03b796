"""Saved states of one agent: written whole, verified before they are used, and enough of them to agree on one.

All agents save after the same iterations, more rounds apart than the network's diameter, and keep two generations. An
agent that has finished round r has heard from agents at distance d what they sent after round r - d, so the newest
generations of any two agents are at most one apart, and the oldest of the newest is held by all. A party that ends in
an orderly way saves its last few iterations as well: no agent is further ahead than the diameter, so these too have one
in common, and nothing is lost.

Each file carries the digest of the job, the agent, the iteration and a hash of everything in it. One that cannot be
read or whose hash is wrong is passed over, for an older one; one of another job or another agent is refused.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.files import replacing
from npga.runtimes._data_files import PRIVATE
from npga.runtimes._faults import ResumeError
from npga.runtimes._job import Job
from npga.solver import State
from npga.tuning import AdaptiveState

Array = NDArray[Any]
_KEPT = 2
_BROKEN = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, TypeError, NotImplementedError)


class SavedStates:
    """The states, of type `kind`, of agent `agent` in `directory`, for the job with this digest.

    A generation is saved `every` so many iterations; what is saved in between is kept until the next one.
    """

    def __init__(self, directory: Path, agent: int, digest: str, every: int = 1, kind: type[State] = State) -> None:
        self._directory, self._agent, self._digest, self._every = directory, agent, digest, max(every, 1)
        self._kind = kind

    def _path(self, iteration: int) -> Path:
        return self._directory / f"agent{self._agent}-{iteration}.npz"

    def iterations(self) -> list[int]:
        """Iterations of which there is a file, ascending."""
        pattern = re.compile(rf"agent{self._agent}-(\d+)\.npz")
        names = (pattern.fullmatch(path.name) for path in self._directory.glob(f"agent{self._agent}-*.npz"))
        return sorted(int(match[1]) for match in names if match)

    def usable(self) -> tuple[list[int], list[str]]:
        """Iterations whose files are whole, ascending, and a sentence for each file that is not."""
        good, complaints = [], []
        for iteration in self.iterations():
            try:
                self.load(iteration)
                good.append(iteration)
            except DamagedStateError as error:
                complaints.append(str(error))
        return good, complaints

    def save(self, state: State, kkt: float | None = None) -> None:
        """Write the state; `kkt` is the residual that a finished run ended with.

        An interrupted write leaves the older files as they are.
        """
        arrays = state.arrays() | {
            "digest": np.array(self._digest), "agent": np.array(self._agent), "iteration": np.array(state.iteration),
            "rounds": np.array(state.rounds), "finished": np.array(kkt is not None),
            "kkt": np.array(np.nan if kkt is None else kkt),
        }  # fmt: skip
        with replacing(self._path(state.iteration), durable=True, mode=PRIVATE) as file:
            np.savez(file, **arrays, hash=np.array(_hash(arrays)))  # type: ignore[arg-type]
        generations = [k for k in self.iterations() if k % self._every == 0]
        if generations:
            kept = generations[-_KEPT:]
            self.remove(k for k in self.iterations() if k < kept[-1] and k not in kept)

    def load(self, iteration: int) -> tuple[State, float | None]:
        """The state after an iteration, verified, and the residual that the run ended with there.

        That is nan if it was not asked for, and None if the run had not ended.
        """
        path = self._path(iteration)
        if not path.exists():
            raise InputError(
                f"agent {self._agent} has checkpoints of iterations {self.iterations()} and the parties agreed on "
                f"{iteration}; restore that file, or start again without --resume"
            )
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
            said = str(stored.pop("hash"))
            facts = {key: stored[key].item() for key in ("digest", "agent", "iteration", "rounds", "finished", "kkt")}
        except _BROKEN as error:
            raise DamagedStateError(f"{path} cannot be read ({type(error).__name__}); it is passed over") from None
        if said != _hash(stored):
            raise DamagedStateError(f"{path} has been changed since it was written; it is passed over")
        for key in facts:
            del stored[key]
        self._expect(path, iteration, facts)
        ended = facts["kkt"] if facts["finished"] else None
        return self._kind.from_arrays(stored, iteration, int(facts["rounds"])), ended

    def _expect(self, path: Path, iteration: int, facts: dict[str, Any]) -> None:
        if facts["digest"] != self._digest:
            raise InputError(
                f"{path} belongs to a job with digest {facts['digest']}, but this one has {self._digest}; resume with "
                "the same job.toml, or choose another directory"
            )
        if (facts["agent"], facts["iteration"]) != (self._agent, iteration):
            raise InputError(
                f"{path} holds agent {facts['agent']} after iteration {facts['iteration']}; expected agent "
                f"{self._agent} after {iteration}: put the right file back, or take this one away"
            )

    def remove(self, iterations: Iterable[int]) -> None:
        """Remove the files of these iterations."""
        for iteration in list(iterations):
            self._path(iteration).unlink(missing_ok=True)

    def put_aside(self, iterations: Iterable[int]) -> None:
        """Move the files of these iterations to a folder of their own."""
        for iteration in iterations:
            aside = self._directory / "aside"
            aside.mkdir(exist_ok=True)
            self._path(iteration).replace(aside / self._path(iteration).name)


class PartyStates:
    """The states of all agents of a party: remembered, saved, and agreed on with all others.

    Without a `directory`, and with `every` = 0, nothing is saved; `reach` is how many iterations one agent can be ahead
    of another.
    """

    def __init__(
        self,
        directory: Path | None,
        agents: Sequence[int],
        digest: str,
        every: int,
        reach: int,
        kind: type[State] = State,
    ) -> None:
        self._directory, self._every, self._agents = directory, every, agents
        saving = directory is not None and every > 0
        self._saved = (
            {i: SavedStates(directory, i, digest, every, kind) for i in agents} if directory and saving else {}
        )
        self._recent: deque[dict[int, State]] = deque(maxlen=reach + 1)
        self.complaints: list[str] = []

    def _usable(self) -> list[int]:
        """Iterations that every agent of this party can go on from, ascending."""
        held: list[set[int]] = []
        for saved in self._saved.values():
            good, complaints = saved.usable()
            held.append(set(good))
            self.complaints += complaints
        return sorted(set.intersection(*held)) if held else []

    def prepare(self, resume: bool) -> None:
        """Before anything is sent: a start from zero does not write over a run that has not ended."""
        if resume:
            return
        self.refuse_unfinished()
        for saved in self._saved.values():
            saved.remove(saved.iterations())

    def refuse_unfinished(self) -> None:
        """Raise if there are states of a run that has not ended."""
        found = self._usable()
        if found and found[-1] and any(saved.load(found[-1])[1] is None for saved in self._saved.values()):
            raise InputError(
                f"{self._directory} holds checkpoints of an unfinished run (iterations {found}); pass --resume to go "
                "on from them, or choose another directory"
            )

    @property
    def are_saved(self) -> bool:
        """Whether there is anything to go on from after a restart."""
        return bool(self._saved)

    def agree(self, largest: Callable[[Mapping[int, Array]], Array], resume: bool | None, from_zero: bool) -> int:
        """The newest iteration that all agents of the network can go on from, by maxima over all of them.

        0 when nobody has saved anything. Where some have and others have not, or nothing is in common, progress would
        be lost: that is refused, unless a party without a state says that a start from zero is meant. A party that
        says neither that it resumes nor that it does not (None) goes with the others.
        """
        mine = [] if resume is False else self._usable()

        def ask(*values: float) -> list[float]:
            found: list[float] = largest(dict.fromkeys(self._agents, np.array(values, dtype=float))).tolist()
            return found

        newest = mine[-1] if mine else 0
        lacks = 2 if resume is False else not mine  # 1: there is nothing to resume, not even of iteration 0
        low, high, some, lacking, zero = ask(-newest, newest, resume is True, lacks, from_zero and not mine)
        if some and lacking > 1:
            raise ResumeError("some parties resume and others do not; start all with --resume, or none")
        start = int(-low)
        while start and ask(start not in mine)[0]:
            start = int(-ask(-max((k for k in mine if k < start), default=0))[0])
        if high and not start and lacking and not zero:
            whose = "another party" if mine else f"this party (in {self._directory})"
            raise ResumeError(
                f"there are saved states of up to iteration {high:g}, and {whose} has none that fits; restore its "
                "directory, or let it say --from-zero, and all begin again at 0"
            )
        self._leave(start)
        return start

    def save_start(self, states: dict[int, State], largest: Callable[[Mapping[int, Array]], Array]) -> None:
        """At zero too all have a state before anyone goes on: who is killed early on has not lost one."""
        if self._every:
            if not self._usable():
                self._save(states)
            largest(dict.fromkeys(self._agents, np.zeros(1)))

    def _leave(self, start: int) -> None:
        """What is newer than the start will be computed again; what a start from zero gives up is put aside."""
        for saved in self._saved.values():
            newer = [k for k in saved.iterations() if k > start]
            saved.remove(newer) if start else saved.put_aside(newer)

    def load(self, iteration: int) -> tuple[dict[int, State], float | None]:
        """The states after an iteration, and the residual that the run ended with there, if it did."""
        found = {i: saved.load(iteration) for i, saved in self._saved.items()}
        ended = [residual for _, residual in found.values()]
        return {i: state for i, (state, _) in found.items()}, None if None in ended else ended[0]

    def remember(self, states: dict[int, State]) -> None:
        """Keep the states of the last few iterations in memory, and save those of a generation."""
        self._recent.append(states)
        if self._saved and next(iter(states.values())).iteration % self._every == 0:
            self._save(states)

    def _save(self, states: dict[int, State], kkt: float | None = None) -> None:
        for i, saved in self._saved.items():
            saved.save(states[i], kkt)

    def save_recent(self) -> None:
        """Save what is in memory: the run ends before it has finished."""
        for states in self._recent:
            if next(iter(states.values())).iteration:
                self._save(states)

    def save_end(self, states: dict[int, State], kkt: float) -> None:
        """Save the state that a run finished with, to be continued from."""
        if next(iter(states.values())).iteration:
            self._save(states, kkt)


def states_of(job: Job, agents: Sequence[int], out: Path | None) -> PartyStates:
    """The states of these agents, in the directory of their party."""
    reach = -(-job.network.diameter // job.version.rounds)
    kind = AdaptiveState if job.steps is None and not job.certified else State
    where = None if out is None else out / "checkpoints"
    return PartyStates(where, agents, job.digest, job.checkpoint_iterations, reach, kind)


class DamagedStateError(InputError):
    """A file that was written whole and no longer is."""


def _hash(arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
