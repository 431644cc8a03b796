"""The private part of one agent, from its file or from a Python entry point."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from npga.errors import InputError
from npga.problem import Agent, Problem
from npga.runtimes._parts import load_agent
from npga.solver import LocalAgent

if TYPE_CHECKING:
    from npga.runtimes._job import Job

Array = NDArray[Any]


class Part(NamedTuple):
    """What one agent alone knows."""

    agent: Agent
    x0: Array | None
    lam0: Array | None


def is_entry(text: str) -> bool:
    """Whether `text` names a Python entry point "module:function" rather than a file."""
    module, colon, function = text.rpartition(":")
    return bool(colon) and all(word.isidentifier() for word in [*module.split("."), function])


def call_entry(text: str, base: Path, *arguments: int) -> Any:
    """Call "module:function"; modules beside job.toml are found as well."""
    module, _, function = text.rpartition(":")
    sys.path.insert(0, str(base))
    try:
        return getattr(importlib.import_module(module), function)(*arguments)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the entry point {text!r} cannot be used: {error}; put {module}.py beside job.toml"
        ) from error
    finally:
        sys.path.remove(str(base))


def load_part(job: Job, i: int) -> Part:
    """Agent i of a job, checked against the shared part; nobody else's data are touched."""
    if is_entry(job.agents):
        found = call_entry(job.agents, job.path.parent, i)
        part = Part(*found) if isinstance(found, tuple) else Part(found, None, None)
    else:
        part = Part(*load_agent(job.path.parent / job.agents.format(agent=i)))
    agent = Problem([part.agent], job.h).agents[0]  # shapes and roles
    rows = agent.A.shape[0]
    if rows != job.p:
        raise InputError(f"A of agent {i} has {rows} rows; expected p = {job.p} as job.toml says")
    if isinstance(agent.A, LinearOperator) and agent.A.dtype != job.dtype:
        raise InputError(
            f"A of agent {i} is a LinearOperator of {agent.A.dtype}; expected {job.dtype} as job.toml says: "
            "an operator cannot be converted, so build it with that dtype"
        )
    A = agent.A if isinstance(agent.A, LinearOperator) else agent.A.astype(job.dtype, copy=False)
    agent = Agent(A, agent.f.astype(job.dtype), agent.g.astype(job.dtype), agent.name)
    return Part(
        agent, _start(part.x0, A.shape[1], job, f"x0 of agent {i}"), _start(part.lam0, rows, job, f"lam0 of {i}")
    )


def _start(values: Array | None, size: int, job: Job, name: str) -> Array | None:
    if values is None:
        return None
    array = np.array(values, dtype=job.dtype)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}; expected ({size},) finite numbers")
    return array


def build_agent(job: Job, i: int, part: Part) -> LocalAgent:
    """The agent's half of the recursion: its own part, its row of the network, h, n and the steps."""
    schedule = job.version.schedule(job.steps.beta)
    weights: dict[str, dict[int, float]] = {op: {} for op in schedule.ops}
    for op in schedule.ops:
        for (a, b), weight in zip(job.network.edges.tolist(), job.version.edge_weights(job.network, op), strict=True):
            if i in (a, b):
                weights[op][b if a == i else a] = float(weight)
    return LocalAgent(part.agent, job.h, job.n, weights, schedule, job.steps, part.x0, part.lam0)
