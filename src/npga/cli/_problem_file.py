"""A problem in a file: TOML for what it says, an .npz beside it for the arrays.

docs/cli.md shows the format: [problem] with A (or columns and sizes), f, g and h, and [[problem.agent]] for what is
different for one agent; [network] with edges, or a kind and its numbers; [solve] with version, steps and limits, all
optional. "@name" means the array of that name, and "{agent}" the number of the agent. A function may hold others;
`npga.runtimes.read_function` reads them here and in the jobs of agents that are apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, nearest
from npga.networks import Network, Version
from npga.networks import version as find_version
from npga.problem import Agent, Problem
from npga.runtimes import named_array, read_arrays, read_function, read_toml
from npga.steps import Steps

Arrays = dict[str, NDArray[Any]]
NETWORKS: dict[str, tuple[Callable[..., Network], tuple[str, ...]]] = {
    "path": (Network.path, ("n",)),
    "ring": (Network.ring, ("n",)),
    "star": (Network.star, ("n",)),
    "complete": (Network.complete, ("n",)),
    "grid": (Network.grid, ("rows", "cols")),
    "erdos-renyi": (Network.erdos_renyi, ("n", "p", "seed")),
    "random-geometric": (Network.random_geometric, ("n", "radius", "seed")),
    "barabasi-albert": (Network.barabasi_albert, ("n", "m", "seed")),
}
_KEYS = {
    "the file": ("data", "problem", "network", "solve"),
    "[problem]": ("A", "columns", "sizes", "f", "g", "h", "agent"),
    "[[problem.agent]]": ("index", "f", "g"),
    "[solve]": ("version", "c", "steps", "max_iters", "max_seconds", "tol"),
    "solve.steps": ("alpha", "beta", "gamma", "theta"),
}


@dataclass(frozen=True)
class ProblemFile:
    """What a problem file says; None for what it leaves to the program."""

    problem: Problem
    network: Network
    version: Version | None
    steps: Steps | None
    max_iters: int
    max_seconds: float | None
    tol: float


def read_problem(path: Path) -> ProblemFile:
    """Read a problem file and its arrays."""
    table = read_toml(path, "a problem file (`npga solve --help` shows one)")
    _known(table, "the file")
    for section in ("problem", "network"):
        if not isinstance(table.get(section), dict):
            raise InputError(f"{path} has no section [{section}]; expected one (`npga solve --help` shows a file)")
    arrays = read_arrays(path.parent / str(table["data"])) if "data" in table else {}
    problem = _problem(table["problem"], arrays)
    return ProblemFile(problem, _network(table["network"], arrays), *_solve(table.get("solve", {})))


def _known(table: Any, where: str) -> None:
    if not isinstance(table, dict):
        raise InputError(f"{where} is {table!r}; expected a table with {', '.join(_KEYS[where])}")
    for key in table:
        if key not in _KEYS[where]:
            raise InputError(f"unknown key {key!r} in {where}; {nearest(key, _KEYS[where])}")


def _problem(table: Any, arrays: Arrays) -> Problem:
    _known(table, "[problem]")
    for key in ("f", "h"):
        if key not in table:
            raise InputError(f"[problem] has no {key}; expected a function such as {{ kind = 'SquaredNorm' }}")
    blocks = _blocks(table, arrays)
    own = [{"f": table["f"], "g": table.get("g", {"kind": "Zero"})} for _ in blocks]
    for row in table.get("agent", []):
        _known(row, "[[problem.agent]]")
        index = row.get("index")
        if not isinstance(index, int) or not 0 <= index < len(blocks):
            raise InputError(f"[[problem.agent]] has index {index!r}; expected a number from 0 to {len(blocks) - 1}")
        own[index] |= {key: value for key, value in row.items() if key != "index"}
    agents = []
    for i, (A, parts) in enumerate(zip(blocks, own, strict=True)):
        f, g = (read_function(_of_agent(parts[key], i), arrays, f"{key} of agent {i}") for key in ("f", "g"))
        agents.append(Agent(A=A, f=f, g=g))
    return Problem(agents, read_function(table["h"], arrays, "h"))


def _of_agent(value: Any, i: int) -> Any:
    """The value with the number of the agent in the place of {agent}, tables and lists within it too."""
    if isinstance(value, str):
        return value.replace("{agent}", str(i))
    if isinstance(value, dict):
        return {key: _of_agent(item, i) for key, item in value.items()}
    return [_of_agent(item, i) for item in value] if isinstance(value, list) else value


def _blocks(table: Mapping[str, Any], arrays: Arrays) -> list[NDArray[Any]]:
    """A_0, A_1, ...: one array each, or the columns of one array."""
    if ("A" in table) == ("columns" in table):
        raise InputError("[problem] needs one of A = 'A{agent}' (an array each) and columns = 'X' with sizes = [...]")
    if "columns" in table:
        X, sizes = named_array(arrays, str(table["columns"]).removeprefix("@"), "problem.columns"), table.get("sizes")
        fits = isinstance(sizes, list) and all(isinstance(size, int) and size >= 0 for size in sizes)
        if X.ndim != 2 or not isinstance(sizes, list) or not fits or sum(sizes) != X.shape[1]:
            raise InputError(
                f"problem.sizes is {sizes!r}; expected whole numbers that add up to the columns of {X.shape}"
            )
        return np.split(X, np.cumsum(sizes)[:-1], axis=1)
    pattern = str(table["A"]).removeprefix("@")
    if "{agent}" not in pattern:
        raise InputError(f"problem.A is {pattern!r}; expected a name with {{agent}} in it, such as 'A{{agent}}'")
    count = 0
    while pattern.replace("{agent}", str(count)) in arrays:
        count += 1
    if not count:
        raise InputError(f"problem.A is {pattern!r}, and the data hold no {pattern.replace('{agent}', '0')!r}; they "
                         f"hold {', '.join(sorted(arrays)) or 'nothing'}")  # fmt: skip
    return [arrays[pattern.replace("{agent}", str(i))] for i in range(count)]


def _network(table: Mapping[str, Any], arrays: Arrays) -> Network:
    options: dict[str, Any] = dict(table)
    lazy, kind, edges = options.pop("lazy", False), options.pop("kind", None), options.pop("edges", None)
    mixing = options.get("mixing", "laplacian")
    if isinstance(mixing, str) and mixing.startswith("@"):
        options["mixing"] = named_array(arrays, mixing[1:], "network.mixing")
    if (kind is None) == (edges is None):
        raise InputError(f"[network] needs edges = [[0, 1], ...] or kind = one of {', '.join(NETWORKS)}")
    if kind is not None and kind not in NETWORKS:
        raise InputError(f"network.kind is {kind!r}; {nearest(str(kind), NETWORKS)}")
    if kind is None:
        named = isinstance(edges, str) and edges.startswith("@")
        options["edges"] = named_array(arrays, edges[1:], "network.edges") if named else edges
    maker, needs = (Network.from_edges, ("n",)) if kind is None else NETWORKS[kind]
    allowed = (*needs, "mixing", "c")
    for key in options:
        if key not in (*allowed, "edges"):
            raise InputError(f"unknown key {key!r} in [network]; {nearest(key, allowed)}")
    for key in needs:
        if kind is not None and key not in options and key != "seed":
            raise InputError(f"a network of kind {kind!r} needs {key}; add `{key} = ...` to [network]")
    network = maker(**options)
    return network.lazy() if lazy else network


def _solve(table: Any) -> tuple[Version | None, Steps | None, int, float | None, float]:
    _known(table, "[solve]")
    version = None if "version" not in table else find_version(table["version"], c=table.get("c"))
    steps = table.get("steps")
    if steps is not None:
        _known(steps, "solve.steps")
        missing = [name for name in ("alpha", "beta") if name not in steps]
        if missing:
            raise InputError(f"solve.steps has no {' and no '.join(missing)}; expected alpha and beta at least")
        if version is None:
            raise InputError("solve.steps was given without solve.version; steps belong to a version: name it")
    limits = table.get("max_iters", 100_000), table.get("max_seconds"), table.get("tol", 1e-8)
    return version, None if steps is None else Steps(**steps), *limits
