"""A job: everything the parties share, who holds which agents, and where each finds what is its own.

The shared part is the same at every party and has a digest that the hello compares; the private part of an agent is
one file or one Python function, and nobody needs another's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from npga.errors import InputError
from npga.functions import Function
from npga.networks import Network, Schedule, Version
from npga.networks import version as find_version
from npga.runtimes._data_files import call_entry, function_arrays, is_entry, load_function, read_arrays, read_function
from npga.runtimes._faults import Peer
from npga.runtimes._job_file import (
    DEFAULT_PORT,
    FORMAT,
    JobTables,
    PartyTable,
    Patience,
    ProblemTable,
    StepsTable,
    Stop,
    in_table,
    read_tables,
    version_without_steps,
)
from npga.steps import Steps


@dataclass(frozen=True)
class Border:
    """What passes between a party and one neighbouring party, in ascending order of the agents.

    Parameters
    ----------
    ours
        Own agents with a neighbour over there: their vectors are sent, each once.
    theirs
        The other side's agents with a neighbour here.
    """

    ours: tuple[int, ...]
    theirs: tuple[int, ...]


class Layout:
    """Agents assigned to parties.

    Parameters
    ----------
    network
        Who is linked with whom.
    parties
        The agents of every party; together all of them, each once.
    """

    def __init__(self, network: Network, parties: Sequence[Sequence[int]]) -> None:
        self.network = network
        self.parties = tuple(tuple(sorted(int(i) for i in agents)) for agents in parties)
        held = sorted(i for agents in self.parties for i in agents)
        if held != list(range(network.n)) or not all(self.parties):
            raise InputError(
                f"the parties hold the agents {held}; expected each of 0..{network.n - 1} once and no party empty"
            )

    @classmethod
    def even(cls, network: Network, count: int) -> Layout:
        """Contiguous blocks of nearly equal size on `count` processes."""
        if not 1 <= count <= network.n:
            raise InputError(
                f"{count} processes for {network.n} agents; expected between 1 and {network.n}, so that each holds one"
            )
        return cls(network, [block.tolist() for block in np.array_split(np.arange(network.n), count)])

    @cached_property
    def party_of(self) -> dict[int, int]:
        """The party of every agent."""
        return {i: party for party, agents in enumerate(self.parties) for i in agents}

    def borders(self, party: int) -> dict[int, Border]:
        """Neighbouring parties, ascending, with what passes between."""
        ours: dict[int, set[int]] = {}
        theirs: dict[int, set[int]] = {}
        for i in self.parties[party]:
            for j in self.network.neighbors(i).tolist():
                other = self.party_of[j]
                if other != party:
                    ours.setdefault(other, set()).add(i)
                    theirs.setdefault(other, set()).add(j)
        return {q: Border(tuple(sorted(ours[q])), tuple(sorted(theirs[q]))) for q in sorted(ours)}

    def title(self, party: int) -> Peer:
        """How messages call a party."""
        agents = self.parties[party]
        if len(agents) == 1:
            return Peer(f"agent {agents[0]}", agents[0])
        return Peer(f"party {party} (agents {agents[0]} to {agents[-1]})", agents[0])


@dataclass(frozen=True)
class PartySpec:
    """One process of the job: its agents, where it listens (None: it only dials), its pinned certificate, its key."""

    agents: tuple[int, ...]
    address: str | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Job:
    """A job, read and checked; made by `read_job`.

    Parameters
    ----------
    path, name
        The file and its title.
    network, version, h, p, dtype, stop, times
        The shared part.
    steps, certified
        Step sizes; None where the parties find them, on the way or, if `certified`, within the bounds of theorems.
    agents
        Where the private parts are: a path with "{agent}" in it, or "module:function".
    trust_code
        Whether functions that the job names may be called.
    parties
        The processes.
    """

    path: Path
    name: str
    network: Network
    version: Version
    steps: Steps | None
    h: Function
    p: int
    dtype: np.dtype[Any]
    stop: Stop
    times: Patience
    agents: str
    parties: tuple[PartySpec, ...]
    trust_code: bool = False
    certified: bool = False

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.network.n

    @property
    def layout(self) -> Layout:
        """Agents and parties as the file says."""
        return Layout(self.network, [party.agents for party in self.parties])

    def party(self, k: int) -> PartySpec:
        """The party of this number."""
        if not 0 <= k < len(self.parties):
            raise InputError(f"party {k} arrived; {self.path} has the parties 0 to {len(self.parties) - 1}")
        return self.parties[k]

    @property
    def limits(self) -> str:
        """When a run ends and when it saves, in words to compare; agreed at the start of each run."""
        stop = self.stop
        tol = "none" if stop.tol is None else repr(stop.tol)
        return f"max_iters {stop.max_iters}, tol {tol}, check_every {stop.check_every}"

    @property
    def checkpoint_iterations(self) -> int:
        """Iterations between two checkpoints; 0 when none are saved."""
        return -(-self.times.checkpoint_rounds // self.version.rounds)

    @cached_property
    def digest(self) -> str:
        """Digest of what makes a state one of this job; limits, addresses, certificates, patience are not in it."""
        plain = self.version.plain
        shared = {
            "format": FORMAT,
            "name": self.name,
            "p": self.p,
            "dtype": self.dtype.name,
            "n": self.n,
            "edges": self.network.edges.tolist(),
            "weights": {op: self.version.edge_weights(self.network, op).tolist() for op in self._ops},
            "version": [self.version.name, repr(self.version.formula), self.version.rounds],
            "polynomials": None if self._ops != ("gossip",) else list(plain.kernel_polynomials(self._beta)),
            "steps": ("certified" if self.certified else "found") if self.steps is None else asdict(self.steps),
        }
        if not self.network.is_steady:
            shared["fate"] = self.network.fingerprint()
        digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode())
        digest.update(_fingerprint(self.h, self.p))
        return digest.hexdigest()[:24]

    @property
    def _ops(self) -> tuple[str, ...]:
        return self.schedule.ops

    @property
    def schedule(self) -> Schedule:
        """The version's plan of exchanges."""
        return self.version.schedule(self._beta, self.network)

    def weights(self, i: int) -> Any:
        """Agent i's row of every operator of the version, as `LocalAgent` takes it."""
        return self.version.row(self.network, i)

    @property
    def _beta(self) -> float:
        """Beta for matrices that contain it; those of a version that finds its steps do not."""
        return 1.0 if self.steps is None else self.steps.beta


def _fingerprint(h: Function, p: int) -> bytes:
    """What tells one h from another: its arrays, or what it does at some points if it consists of code.

    The latter to six digits, so that machines whose libraries round differently agree.
    """
    digest = hashlib.sha256()
    try:
        arrays = sorted(function_arrays(h, "h").items())
    except InputError:
        points = np.random.default_rng(0).standard_normal((3, p))
        digest.update(repr((h.L, h.mu, h.is_indicator)).encode())
        for scale, point in zip((1e-2, 1.0, 1e2), points, strict=True):
            for t in (0.1, 1.0, 10.0):
                near = h.conj_prox(scale * point, t)
                digest.update("".join(f"{value:.5e}," for value in near + 0.0).encode())
        return digest.digest()
    for key, array in arrays:
        digest.update(key.encode() + array.dtype.str.encode() + array.tobytes())
    return digest.digest()


def read_job(path: str | Path, trust_code: bool = False) -> Job:
    """Read job.toml and the shared files that it names.

    Parameters
    ----------
    path
        The file.
    trust_code
        Whether entries "module:function" may be called: whoever wrote the job then runs code on this machine.
    """
    path = Path(path).resolve()
    tables, base = read_tables(path), path.parent
    with in_table(path, "network"):
        network = tables.network.build()
    version, steps = _version_and_steps(tables, network, path)
    dtype = np.dtype(tables.problem.dtype)
    with in_table(path, "problem"):
        h = _coupling(tables.problem, base, trust_code).astype(dtype)
        where = tables.problem.agents
        if not _trusted(where, "agents", trust_code) and "{agent}" not in where and network.n > 1:
            raise InputError(
                f"agents is {where!r}, one file for {network.n} agents; expected {{agent}}, its number, in it"
            )
    with in_table(path, "[party]"):
        parties = _parties(tables.party, network, base)
    job = Job(
        path=path, name=tables.name or path.parent.name, network=network, version=version, steps=steps, h=h,
        p=tables.problem.p, dtype=dtype, stop=tables.stop, times=tables.run, agents=tables.problem.agents,
        parties=parties, trust_code=trust_code, certified=tables.steps is not None and steps is None,
    )  # fmt: skip
    rounds, diameter = job.times.checkpoint_rounds, network.diameter
    if 0 < rounds <= diameter:
        raise InputError(
            f"{path}, [run]: checkpoint_rounds is {rounds} and the network's diameter {diameter}; expected more "
            "than the diameter, so that the two newest checkpoints of any two agents have one in common"
        )
    return job


def _trusted(text: str, key: str, trust_code: bool) -> bool:
    """Whether `text` is an entry point; one that nobody has vouched for is refused."""
    if not is_entry(text):
        return False
    if not trust_code:
        raise InputError(
            f"{key} is {text!r}, a Python function, and calling it runs whatever its author wrote; read the code, then "
            "pass --trust-code (trust_code=True in Python)"
        )
    return True


def _coupling(table: ProblemTable, base: Path, trust_code: bool) -> Function:
    """The function h, from a table, an .npz, or an entry point."""
    if isinstance(table.h, dict):
        h = read_function(table.h, {} if table.data is None else read_arrays(base / table.data), "h")
    elif _trusted(table.h, "h", trust_code):
        h = call_entry(table.h, base)
        if not isinstance(h, Function):
            raise InputError(f"{table.h!r} returned a {type(h).__name__}; expected a function of npga.functions")
    else:
        h = load_function(base / table.h)
    if h.dim not in (None, table.p):
        raise InputError(f"h is a {type(h).__name__} of {h.dim} variables; expected p = {table.p}")
    return h


def _version_and_steps(tables: JobTables, network: Network, path: Path) -> tuple[Version, Steps | None]:
    """What runs, and with which steps; None where the parties find them."""
    table = tables.version
    with in_table(path, "version"):
        version = find_version("nids") if table is None else table.build()
    with in_table(path, "steps"):
        steps = None if tables.steps is None else _steps(tables.steps, version, network, path.parent)
        if steps is not None and table is None:
            raise InputError("steps belong to a version; expected [version] as well")
    if steps is None:
        own = table is not None and (table.c or version.chebyshev > 1)
        with in_table(path, "version"):
            version = version_without_steps(network, version if own else version.name)
    return version, steps


def _steps(table: StepsTable, version: Version, network: Network, base: Path) -> Steps | None:
    values: dict[str, Any] = table.model_dump(exclude_none=True)
    if values.pop("certified", False):
        if values:
            raise InputError(f"certified and {', '.join(values)} are both given; expected one of them")
        return None
    name = values.pop("file", None)
    if name is not None:
        if values:
            raise InputError(f"file and {', '.join(values)} are both given; expected one of them")
        found = json.loads((base / name).read_text(encoding="utf-8"))
        values = found.get("steps", found) if isinstance(found, dict) else {}
        values = {key: values[key] for key in ("alpha", "beta", "gamma", "theta") if key in values}
    missing = [key for key in ("alpha", "beta") if key not in values]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing; expected alpha and beta at least, or file = '...', or no section [steps]"
        )
    steps = Steps(**values)
    steps.per_agent(network.n)
    for key, value in version.fixed.items():
        if getattr(steps, key) != value:
            raise InputError(f"{version.name} fixes {key} = {value:g}; put that into [steps]")
    return steps


def _parties(rows: list[PartyTable], network: Network, base: Path) -> tuple[PartySpec, ...]:
    if not rows:
        return tuple(PartySpec((i,), f"127.0.0.1:{DEFAULT_PORT + i}") for i in range(network.n))
    parties = tuple(
        PartySpec(
            agents=tuple(row.agents),
            address=row.address,
            certificate=None if row.certificate is None else base / row.certificate,
            key=None if row.key is None else base / row.key,
        )
        for row in rows
    )
    Layout(network, [party.agents for party in parties])
    for name in ("address", "certificate", "key"):
        given = [getattr(party, name) for party in parties if getattr(party, name) is not None]
        twice = next((item for k, item in enumerate(given) if item in given[:k]), None)
        if twice is not None:
            raise InputError(f"two parties have the {name} {str(twice)!r}; expected one each")
    return parties
