"""Write a job: job.toml and the shared files for all, one private file for each agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from npga.errors import InputError
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Problem
from npga.runtimes._job import DEFAULT_PORT, FORMAT
from npga.runtimes._parts import save_agent, save_function
from npga.steps import Steps


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
    if network.n != problem.n:
        raise InputError(
            f"the network has {network.n} nodes and the problem {problem.n} agents; expected equal numbers"
        )
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
    path.write_text("\n".join(lines) + "\n")
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
