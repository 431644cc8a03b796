"""job.toml as a file: a strict schema for reading it, and writing it from a problem that is in one place.

What the schema does not know is refused with the nearest name it does know, and every sentence names file, table and
key. Nothing is converted: "1e-6" is not a number, 3.0 is not a whole number, nan is not a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked

from npga.errors import InputError, nearest
from npga.files import write_text
from npga.networks import ChangingNetwork, CompressedNetwork, LossyNetwork, Network, Version
from npga.networks import version as find_version
from npga.problem import Problem, expect_p1
from npga.runtimes._data_files import read_toml, save_parts
from npga.runtimes._faults import printable
from npga.steps import Steps
from npga.tuning import tied_version

FORMAT = 1
DEFAULT_PORT = 17000
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_MOST_AGENTS = 1_000_000
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, lt=_MOST_AGENTS)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


@checked(config=ConfigDict(extra="forbid"), frozen=True)
class Stop:
    """When a run ends: after `max_iters`, or when the agents find their residual below `tol`."""

    max_iters: Annotated[int, Field(ge=0, lt=2**53, strict=True)] = 100_000
    tol: NotNegative | None = None
    check_every: Annotated[int, Field(ge=1, lt=2**53, strict=True)] = 50


@checked(config=ConfigDict(extra="forbid"), frozen=True)
class Patience:
    """Times in seconds, and how often the state is saved.

    Parameters
    ----------
    checkpoint_rounds
        Least number of rounds between two checkpoints; 0 saves none. Otherwise larger than the diameter.
    patience
        How long a message may take.
    connect
        How long the parties may take to come, counted from the last that came.
    outage
        How long a connection may be missing between two messages before a neighbour counts as lost; 0: not at all.
    metrics_seconds
        Least time between two lines of metrics.
    """

    checkpoint_rounds: Annotated[int, Field(ge=0, lt=2**53, strict=True)] = 1000
    patience: Positive = 10.0
    connect: Positive = 30.0
    outage: NotNegative = 120.0
    metrics_seconds: NotNegative = 0.2


class _Table(BaseModel):
    model_config = _STRICT


class ProblemTable(_Table):
    """[problem]: what is coupled, and where the parts are."""

    p: Annotated[int, Field(ge=1, lt=2**31)]
    h: Text | dict[str, Any]
    agents: Text
    dtype: Literal["float64", "float32"] = "float64"
    data: Text | None = None


class NetworkTable(_Table):
    """[network]: links, how they mix, and for rehearsals how they change or fail."""

    edges: list[Annotated[list[Number], Field(min_length=2, max_length=2)]]
    n: Annotated[int, Field(ge=1, le=_MOST_AGENTS)] | None = None
    weights: list[Finite] | list[list[Finite]] | None = None
    mixing: Literal["laplacian", "metropolis", "best-constant", "fastest"] = "laplacian"
    lazy: bool = False
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    burst: Positive | None = None
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0

    def build(self) -> Network:
        """The network that the table describes."""
        steady = self._steady()
        return steady.lossy(self.drop, self.burst, self.seed) if self.drop else steady

    def _steady(self) -> Network:
        edges, n = self.edges, self.n
        if self.weights is None:
            network = Network.from_edges(edges, n, mixing=self.mixing)
            return network.lazy() if self.lazy else network
        given: list[Any] = self.weights
        table = given if given and isinstance(given[0], list) else [given]
        for weights in table:
            if len(weights) != len(edges):
                raise InputError(f"{len(weights)} weights for {len(edges)} edges; expected one each")
        size = n if n is not None else max((max(edge) for edge in edges), default=0) + 1
        if any(max(edge) >= size for edge in edges):
            raise InputError(f"edges name the agent {max(max(edge) for edge in edges)} and n is {size}; expected less")
        if table is given:  # one list for each graph of a sequence
            return ChangingNetwork.from_weights(size, edges, table)
        W = np.zeros((size, size))
        for (i, j), weight in zip(edges, table[0], strict=True):
            W[i, j] = W[j, i] = weight
        W[np.diag_indices(size)] = 1.0 - W.sum(axis=1)
        return Network.from_edges(edges, size, mixing=W)


class VersionChoice(_Table):
    """[version]: a row of `npga.versions()`, or coefficients of one's own."""

    name: Text
    c: Positive | None = None
    B2: list[Finite] | None = None
    C: list[Finite] | None = None
    D: list[Finite] | None = None
    basis: Literal["W", "L"] = "W"
    chebyshev: Annotated[int, Field(ge=1, le=1000)] = 1

    def build(self) -> Version:
        """The version that the table describes."""
        if self.B2 is None:
            return find_version(self.name, c=self.c, chebyshev=self.chebyshev)
        if self.c is not None:
            raise InputError("c belongs to the rows of `npga.versions()`; leave it out where B2 is given")
        return Version(**self.model_dump(exclude_none=True))


class StepsTable(_Table):
    """[steps]: numbers, or the file that has them, or that they shall be found in bounds of theorems."""

    alpha: Positive | Annotated[list[Positive], Field(min_length=1)] | None = None
    beta: Positive | None = None
    gamma: Positive | None = None
    theta: NotNegative | None = None
    file: Text | None = None
    certified: bool | None = None


def _address(text: str) -> str:
    found = re.fullmatch(r"(?:[^\s:]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", text)
    if found is None or not 0 < int(found[1]) < 2**16:
        raise ValueError("expected HOST:PORT, the port between 1 and 65535")
    return text


class PartyTable(_Table):
    """One [[party]]: a process."""

    agents: Annotated[list[Number], Field(min_length=1)]
    address: Annotated[str, AfterValidator(_address)] | None = None
    certificate: Text | None = None
    key: Text | None = None


class JobTables(_Table):
    """All of job.toml."""

    problem: ProblemTable
    network: NetworkTable
    version: VersionChoice | None = None
    steps: StepsTable | None = None
    format: int = FORMAT
    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")] | None = None
    stop: Stop = Stop()
    run: Patience = Patience()
    party: list[PartyTable] = []


# Reading


def read_tables(path: Path) -> JobTables:
    """job.toml against the schema; every mistake in it is named at once."""
    table = read_toml(path, "a job.toml, such as `npga.runtimes.write_job` writes")
    if table.get("format", FORMAT) != FORMAT:
        raise InputError(f"{path} has format {table['format']!r}; this release of npga reads format {FORMAT}")
    try:
        return JobTables.model_validate(table)
    except ValidationError as error:
        lines = dict.fromkeys(_sentence(item) for item in error.errors(include_url=False))
        raise InputError("\n".join(f"{path}: {line}" for line in lines)) from None


def _sentence(mistake: Any) -> str:
    """One mistake: which table, which key, what arrived, what was expected."""
    where, kind = mistake["loc"], mistake["type"]
    if len(where) == 1:
        known = _keys(JobTables)
        if kind == "missing":
            return f"no section [{where[0]}]; expected one with {', '.join(_keys(_MODELS[where[0]]))}"
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            return f"unknown key or table {printable(where[0])!r}; {nearest(str(where[0]), known)}"
        return f"{where[0]} is {printable(repr(mistake['input']))}; {_expected(mistake)}"
    title, *rest = where
    section = f"[{title}]"
    if title == "party" and isinstance(rest[0], int):
        section = f"[[party]] number {rest.pop(0)}"
    if not rest:
        return f"{section} is {printable(repr(mistake['input']))}; expected a table"
    key = rest[0]
    known = _keys(_MODELS[title])
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown key {printable(key)!r} in {section}; {nearest(str(key), known)}"
    if kind == "missing":
        return f"{key!r} is missing from {section}; expected {', '.join(known)}"
    entry = "".join(f"[{part}]" for part in rest[1:] if isinstance(part, int))
    return f"{key}{entry} in {section} is {printable(repr(mistake['input']))}; {_expected(mistake)}"


def _expected(mistake: Any) -> str:
    words: str = mistake["msg"]
    for said, better in _BETTER.items():
        words = words.replace(said, better)
    return words


_BETTER = {
    "Value error, ": "", "Input should be": "expected", "String should": "expected a text that should",
    "List should have": "expected a list that has",
}  # fmt: skip
_MODELS: dict[Any, Any] = {
    "problem": ProblemTable, "network": NetworkTable, "version": VersionChoice, "steps": StepsTable, "stop": Stop,
    "run": Patience, "party": PartyTable,
}  # fmt: skip


def _keys(model: Any) -> tuple[str, ...]:
    fields = getattr(model, "model_fields", None) or model.__dataclass_fields__
    return tuple(fields)


@contextmanager
def in_table(path: Path, section: str) -> Iterator[None]:
    """What is wrong with a value is told with its file and table."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}, [{section}]: {error}") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, OSError) as error:
        raise InputError(
            f"{path}, [{section}]: {printable(error or type(error).__name__)}; correct the table"
        ) from None


# Writing


def write_job(
    directory: str | Path,
    problem: Problem,
    network: Network,
    version: str | Version | None = None,
    steps: Any = None,
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
        As for `npga.solve`; `steps` may also be the result of `npga.tune`, whose steps are taken. Without steps the
        parties find them on the way (NIDS, exact diffusion); "certified" lets them use what theorems allow and no more.
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
        The keys of `Patience`: `checkpoint_rounds`, `patience`, `connect` and the others.

    Returns
    -------
    Path
        The job.toml.
    """
    directory = Path(directory)
    steps = getattr(steps, "steps", steps)
    if steps is not None and steps != "certified" and not isinstance(steps, Steps):
        raise InputError(f"steps is a {type(steps).__name__}; expected npga.Steps, the result of npga.tune, or nothing")
    expect_p1(problem)
    problem.expect(network, steady=isinstance(network, CompressedNetwork) or not isinstance(steps, Steps))
    tables = _version_and_steps(network, version, steps)
    held = [[i] for i in range(problem.n)] if parties is None else [list(map(int, agents)) for agents in parties]
    listen = [f"127.0.0.1:{DEFAULT_PORT + k}" for k in range(len(held))] if addresses is None else list(addresses)
    if len(listen) != len(held):
        raise InputError(f"{len(listen)} addresses for {len(held)} parties; expected one each (None: it only dials)")
    save_parts(directory, problem, x0, lam0)
    lines = [f"format = {FORMAT}", f"name = {json.dumps(name)}"]
    lines += _section("problem", {
        "p": problem.p, "dtype": problem.dtype.name, "h": "shared/h.npz", "agents": "private/agent{agent}.npz",
    })  # fmt: skip
    lines += _section("network", _network_table(network)) + tables
    lines += _section("stop", {"max_iters": max_iters, "tol": tol, "check_every": check_every})
    lines += _section("run", times)
    for k, (agents, address) in enumerate(zip(held, listen, strict=True)):
        files = {"certificate": f"certificates/{k}.crt", "key": f"private/{k}.key"}
        lines += _section("[party]", {"agents": agents, "address": address} | files)
    write_text(path := directory / "job.toml", "\n".join(lines) + "\n")
    return path


def _version_and_steps(network: Network, version: str | Version | None, steps: Any) -> list[str]:
    """[version] and, unless the parties are free to find them, [steps]."""
    if not isinstance(steps, Steps):
        chosen = version_without_steps(network, "nids" if version is None else version)
        table = [] if steps is None else _section("steps", {"certified": True})
    elif version is None:
        raise InputError("steps were given without a version; steps belong to one: pass version as well")
    else:
        chosen = find_version(version)
        table = _section("steps", vars(steps) | dict(chosen.fixed))
    return _section("version", _version_table(chosen)) + table


def version_without_steps(network: Network, asked: str | Version) -> Version:
    """The version that a job without steps runs: one that leaves beta alone to choose.

    A name alone gets c = 1/lambda_max(I - W), rounded down, so that machines whose eigenvalues differ in the last bits
    agree; the c of a `Version` stays.
    """
    version = find_version(asked)
    if version.chebyshev > 1 or not network.is_steady:
        raise InputError("chebyshev and links that change or drop need [steps]: those found are for plain networks")
    tied = tied_version(network, version)
    if tied is None:
        raise InputError(f"{version.name} needs [steps]; without them expected nids or exact-diffusion")
    if tied.c is None:
        return version
    if isinstance(asked, Version) and asked.c is not None:
        if asked.c > tied.c:
            raise InputError(f"c is {asked.c:g}; without [steps] expected at most 1/lambda_max(I - W) = {tied.c:.6g}")
        return asked
    return find_version(tied.name, c=float(f"{tied.c * (1.0 - 1e-6):.6g}"))


def _network_table(network: Network) -> dict[str, Any]:
    weights = network.table if isinstance(network, ChangingNetwork) else network.weights.tolist()
    table = {"n": network.n, "edges": network.edges.tolist(), "weights": weights}
    if isinstance(network, LossyNetwork):
        table |= {"drop": network.drop, "burst": network.burst, "seed": network.loss_seed}
    return table


def _version_table(version: Version) -> dict[str, Any]:
    degree = {} if version.chebyshev == 1 else {"chebyshev": version.chebyshev}
    try:
        if find_version(version.name, c=version.c) == version.plain:
            return {"name": version.name, "c": version.c, **degree}
    except InputError:
        pass
    if version.times_beta or not all(isinstance(c, float) for c in version.B2):
        raise InputError(
            f"version {version.name!r} is neither a row of the table nor given by polynomials in W or L; expected one "
            "of these, because job.toml holds coefficients"
        )
    polynomials = {key: [float(c) for c in getattr(version, key)] for key in ("B2", "C", "D")}
    return {"name": version.name, **polynomials, "basis": version.basis, **degree}


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """One TOML table; JSON's numbers, strings and lists are TOML's, and None is left out."""
    return ["", f"[{title}]"] + [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
