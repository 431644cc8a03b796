"""job.toml: everything the parties share, and where each finds what is its own.

The shared part is the same at every party and has a digest that the hello compares; the private part of an agent is
one .npz file or one Python function, and nobody needs another's.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npga.errors import InputError, nearest
from npga.files import write_text
from npga.functions import Function
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.runtimes._data_files import (
    FUNCTION_KINDS,
    call_entry,
    function_arrays,
    is_entry,
    load_function,
    read_arrays,
    read_function,
    save_agent,
    save_function,
)
from npga.runtimes._link import Layout
from npga.steps import Steps

FORMAT = 1
DEFAULT_PORT = 17000
_SECTIONS = {
    "problem": ("p", "dtype", "h", "agents", "data"),
    "network": ("n", "edges", "weights", "mixing", "lazy"),
    "version": ("name", "c", "B2", "C", "D", "basis"),
    "steps": ("alpha", "beta", "gamma", "theta", "file"),
    "stop": ("max_iters", "tol", "check_every"),
    "run": ("checkpoint_rounds", "patience", "connect", "metrics_seconds"),
}


@dataclass(frozen=True)
class Stop:
    """When a run ends: after `max_iters`, or when the agents find their residual below `tol`."""

    max_iters: int = 100_000
    tol: float | None = None
    check_every: int = 50


@dataclass(frozen=True)
class Patience:
    """Times in seconds, and how often the state is saved.

    Parameters
    ----------
    checkpoint_rounds
        Least number of rounds between two checkpoints; 0 saves none. Otherwise larger than the diameter.
    patience
        How long a message may take.
    connect
        How long a neighbour may take to come.
    metrics_seconds
        Least time between two lines of metrics.
    """

    checkpoint_rounds: int = 1000
    patience: float = 10.0
    connect: float = 30.0
    metrics_seconds: float = 0.2


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
    network, version, steps, h, p, dtype, stop, times
        The shared part.
    agents
        Where the private parts are: a path with "{agent}" in it, or "module:function".
    parties
        The processes.
    """

    path: Path
    name: str
    network: Network
    version: Version
    steps: Steps
    h: Function
    p: int
    dtype: np.dtype[Any]
    stop: Stop
    times: Patience
    agents: str
    parties: tuple[PartySpec, ...]

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.network.n

    @property
    def layout(self) -> Layout:
        """Agents and parties as the file says."""
        return Layout(self.network, [party.agents for party in self.parties])

    @property
    def checkpoint_iterations(self) -> int:
        """Iterations between two checkpoints; 0 when none are saved."""
        return -(-self.times.checkpoint_rounds // self.version.rounds)

    @cached_property
    def digest(self) -> str:
        """Digest of what all must share; addresses, certificates, patience and private parts are not in it."""
        shared = {
            "format": FORMAT,
            "name": self.name,
            "p": self.p,
            "dtype": self.dtype.name,
            "n": self.n,
            "edges": self.network.edges.tolist(),
            "weights": {op: self.version.edge_weights(self.network, op).tolist() for op in self._ops},
            "version": [self.version.name, repr(self.version.formula), self.version.rounds],
            "polynomials": None if self._ops != ("gossip",) else list(self.version.kernel_polynomials(self.steps.beta)),
            "steps": vars(self.steps),
            "stop": vars(self.stop),
            "checkpoint_rounds": self.times.checkpoint_rounds,
        }
        digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode())
        if type(self.h).__name__ in FUNCTION_KINDS:
            for key, array in sorted(function_arrays(self.h, "h").items()):
                digest.update(key.encode() + array.dtype.str.encode() + array.tobytes())
        else:
            digest.update(repr(self.h).encode())
        return digest.hexdigest()[:24]

    @property
    def _ops(self) -> tuple[str, ...]:
        return self.version.schedule(self.steps.beta, self.network).ops


def read_job(path: str | Path) -> Job:
    """Read job.toml and the shared files that it names."""
    path = Path(path).resolve()
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a job.toml, such as `npga.runtimes.write_job` writes")
    with path.open("rb") as file:
        try:
            table = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not valid TOML: {error}") from None
    _known_keys(table, path)
    problem, network = table["problem"], _network(table["network"])
    dtype = np.dtype(problem.get("dtype", "float64"))
    if dtype not in (np.float32, np.float64):
        raise InputError(f"problem.dtype is {dtype.name}; expected float64 or float32")
    job = Job(
        path=path,
        name=str(table.get("name", path.parent.name)),
        network=network,
        version=_version(table["version"]),
        steps=_steps(table["steps"], path.parent),
        h=_coupling(problem, path.parent).astype(dtype),
        p=int(problem["p"]),
        dtype=dtype,
        stop=Stop(**table.get("stop", {})),
        times=Patience(**table.get("run", {})),
        agents=str(problem["agents"]),
        parties=_parties(table.get("party", []), network.n, path.parent),
    )
    _check(job)
    return job


def _known_keys(table: Mapping[str, Any], path: Path) -> None:
    if table.get("format", FORMAT) != FORMAT:
        raise InputError(f"{path} has format {table['format']}; this release of npga reads format {FORMAT}")
    for section, keys in _SECTIONS.items():
        if section not in table and section not in ("stop", "run"):
            raise InputError(f"{path} has no section [{section}]; expected one with {', '.join(keys)}")
        for key in table.get(section, {}):
            if key not in keys:
                raise InputError(f"{path}: unknown key {key!r} in [{section}]; {nearest(key, keys)}")
    for key in ("p", "h", "agents"):
        if key not in table["problem"]:
            raise InputError(f"{path}: {key!r} is missing from [problem]; expected p, h and agents")


def _coupling(table: Mapping[str, Any], base: Path) -> Function:
    """The function h, from a table, an .npz, or an entry point."""
    h = table["h"]
    if isinstance(h, dict):
        return read_function(h, read_arrays(base / table["data"]) if "data" in table else {}, "h")
    found: Function = call_entry(h, base) if is_entry(h) else load_function(base / h)
    return found


def _network(table: Mapping[str, Any]) -> Network:
    n, edges = table.get("n"), table.get("edges", [])
    if "weights" in table:
        size = int(n) if n is not None else int(np.max(edges)) + 1
        W = np.zeros((size, size))
        for (i, j), weight in zip(edges, table["weights"], strict=True):
            W[i, j] = W[j, i] = weight
        W[np.diag_indices(size)] = 1.0 - W.sum(axis=1)
        return Network.from_edges(edges, size, mixing=W)
    network = Network.from_edges(edges, n, mixing=table.get("mixing", "laplacian"))
    return network.lazy() if table.get("lazy", False) else network


def _version(table: Mapping[str, Any]) -> Version:
    if "B2" in table:
        return Version(**table)
    return find_version(table["name"], c=table.get("c"))


def _steps(table: Mapping[str, Any], base: Path) -> Steps:
    if "file" in table:
        found = json.loads((base / table["file"]).read_text())
        table = found.get("steps", found)
    return Steps(**{name: table[name] for name in ("alpha", "beta", "gamma", "theta") if name in table})


def _parties(rows: list[dict[str, Any]], n: int, base: Path) -> tuple[PartySpec, ...]:
    if not rows:
        return tuple(PartySpec((i,), f"127.0.0.1:{DEFAULT_PORT + i}") for i in range(n))
    return tuple(
        PartySpec(
            agents=tuple(row["agents"]),
            address=row.get("address"),
            certificate=base / row["certificate"] if "certificate" in row else None,
            key=base / row["key"] if "key" in row else None,
        )
        for row in rows
    )


def _check(job: Job) -> None:
    """What can be told before any private part is read."""
    if job.h.dim not in (None, job.p):
        raise InputError(f"h is {job.h!r}, a function of {job.h.dim} variables; expected p = {job.p}")
    for name in job.version.fixed:
        if getattr(job.steps, name) != job.version.fixed[name]:
            raise InputError(f"{job.version.name} fixes {name} = {job.version.fixed[name]:g}; put that into [steps]")
    rounds, diameter = job.times.checkpoint_rounds, job.network.diameter
    if 0 < rounds <= diameter:
        raise InputError(
            f"checkpoint_rounds is {rounds} and the network's diameter {diameter}; expected more than the diameter, so "
            "that the two newest checkpoints of any two agents have one in common"
        )
    if job.stop.max_iters < 0 or job.stop.check_every < 1:
        raise InputError(f"{job.stop} arrived; expected max_iters >= 0 and check_every >= 1")
    Layout(job.network, [party.agents for party in job.parties])


# Writing


def write_job(
    directory: str | Path,
    problem: Problem,
    network: Network,
    version: str | Version,
    steps: Any,
    *,
    name: str = "job",
    max_iters: int = 100_000,
    tol: float | None = None,
    check_every: int = 50,
    x0: ArrayLike | None = None,
    lam0: ArrayLike | None = None,
    parties: Sequence[Sequence[int]] | None = None,
    addresses: Sequence[str | None] | None = None,
    **times: float,
) -> Path:
    """Split a problem that is in one place into a job for agents that are apart.

    Parameters
    ----------
    directory
        Where job.toml, ``shared/h.npz`` and ``private/agent*.npz`` go. Give each party job.toml, ``shared`` and the
        private files of its own agents.
    problem, network, version, steps
        As for `npga.solve`; `steps` may also be the result of `npga.tune`, whose steps are taken.
    name
        Title of the job.
    max_iters, tol, check_every
        When to stop: after so many iterations, or when the agents find the residual below `tol`, which they ask
        themselves every `check_every` iterations.
    x0, lam0
        Start; zero by default.
    parties, addresses
        Agents of each process (default: one each) and where each listens (default: ports from 17000 on loopback;
        None for a party that only dials).
    times
        `checkpoint_rounds`, `patience`, `connect`, `metrics_seconds`.

    Returns
    -------
    Path
        The job.toml.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    chosen, steps = find_version(version), getattr(steps, "steps", steps)
    if not isinstance(steps, Steps):
        raise InputError(f"steps is a {type(steps).__name__}; expected npga.Steps, or the result of npga.tune")
    problem.expect(network)
    held = [[i] for i in range(problem.n)] if parties is None else [list(map(int, agents)) for agents in parties]
    listen = [f"127.0.0.1:{DEFAULT_PORT + k}" for k in range(len(held))] if addresses is None else list(addresses)
    if len(listen) != len(held):
        raise InputError(f"{len(listen)} addresses for {len(held)} parties; expected one each (None: it only dials)")

    save_function(directory / "shared" / "h.npz", problem.h)
    blocks = [None] * problem.n if x0 is None else problem.split(problem.join(x0, "x0"))
    duals = [None] * problem.n if lam0 is None else list(problem.dual(lam0, "lam0"))
    for i, agent in enumerate(problem.agents):
        save_agent(directory / "private" / f"agent{i}.npz", agent, blocks[i], duals[i])
    stop = {"max_iters": max_iters, "tol": tol, "check_every": check_every}
    lines = [f"format = {FORMAT}", f"name = {json.dumps(name)}"]
    lines += _section("problem", {
        "p": problem.p, "dtype": problem.dtype.name, "h": "shared/h.npz", "agents": "private/agent{agent}.npz",
    })  # fmt: skip
    lines += _section("network", {
        "n": network.n, "edges": network.edges.tolist(), "weights": network.weights.tolist(),
    })  # fmt: skip
    lines += _section("version", _version_table(chosen))
    lines += _section("steps", vars(steps) | dict(chosen.fixed))
    lines += _section("stop", stop) + _section("run", times)
    for k, (agents, address) in enumerate(zip(held, listen, strict=True)):
        files = {"certificate": f"certificates/{k}.crt", "key": f"private/{k}.key"}
        lines += _section("[party]", {"agents": agents, "address": address} | files)
    path = directory / "job.toml"
    write_text(path, "\n".join(lines) + "\n")
    return path


def _version_table(version: Version) -> dict[str, Any]:
    try:
        if find_version(version.name, c=version.c) == version:
            return {"name": version.name, "c": version.c}
    except InputError:
        pass
    if version.times_beta or not all(isinstance(c, float) for c in version.B2):
        raise InputError(
            f"version {version.name!r} is neither a row of the table nor given by polynomials in W or L; expected one "
            "of these, because job.toml holds coefficients"
        )
    polynomials = {key: [float(c) for c in getattr(version, key)] for key in ("B2", "C", "D")}
    return {"name": version.name, **polynomials, "basis": version.basis}


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """One TOML table; JSON's numbers, strings and lists are TOML's, and None is left out."""
    return ["", f"[{title}]"] + [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
