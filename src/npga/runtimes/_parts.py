"""Functions and agents as named arrays in an .npz file: no pickles, nothing that runs code when read.

A function is stored under its class name and the arguments of its constructor; `f.kind = "L1"`, `f.weight = 0.1`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from npga import functions
from npga.errors import InputError, nearest
from npga.functions import Function
from npga.problem import Agent

Array = NDArray[Any]
_NOT_STORED = ("Custom", "Elementwise", "Function")
KINDS = sorted(
    name
    for name in functions.__all__
    if inspect.isclass(item := getattr(functions, name)) and issubclass(item, Function)
    and name not in _NOT_STORED
)  # fmt: skip


def function_arrays(function: Function, name: str) -> dict[str, Array]:
    """The arrays that describe a function."""
    kind = type(function).__name__
    if kind not in KINDS:
        raise InputError(
            f"{name} is {function!r}, which consists of code and cannot be stored; name a Python entry point "
            '"module:function" in job.toml that builds it'
        )
    arrays = {f"{name}.kind": np.array(kind)}
    for argument in inspect.signature(type(function)).parameters:
        arrays |= _value_arrays(getattr(function, argument), f"{name}.{argument}")
    return arrays


def _value_arrays(value: Any, name: str) -> dict[str, Array]:
    if isinstance(value, Function):
        return function_arrays(value, name)
    if sparse.issparse(value):
        rows = sparse.csr_array(value)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
        return {f"{name}.{part}": array for part, array in parts.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], (Function, np.ndarray)):
        arrays = {f"{name}.count": np.array(len(value))}
        for k, item in enumerate(value):
            arrays |= _value_arrays(item, f"{name}.{k}")
        return arrays
    return {name: np.asarray(value)}


def read_function(arrays: Mapping[str, Array], name: str) -> Function:
    """The function that `function_arrays` described."""
    kind = str(arrays[f"{name}.kind"]) if f"{name}.kind" in arrays else ""
    if kind not in KINDS:
        raise InputError(f"{name}.kind is {kind!r}; expected the name of a function: {nearest(kind, KINDS)}")
    maker = getattr(functions, kind)
    arguments = {}
    for argument, parameter in inspect.signature(maker).parameters.items():
        value = _read_value(arrays, f"{name}.{argument}")
        if value is not None:
            arguments[argument] = value
        elif parameter.default is inspect.Parameter.empty:
            raise InputError(
                f"{name} is of kind {kind} and {name}.{argument} is missing; expected an array of that name"
            )
    function: Function = maker(**arguments)
    return function


def _read_value(arrays: Mapping[str, Array], name: str) -> Any:
    if f"{name}.kind" in arrays:
        return read_function(arrays, name)
    if f"{name}.indptr" in arrays:
        data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        return sparse.csr_array((data, indices, indptr), shape=tuple(arrays[f"{name}.shape"]))
    if f"{name}.count" in arrays:
        return tuple(_read_value(arrays, f"{name}.{k}") for k in range(int(arrays[f"{name}.count"])))
    if name not in arrays:
        return None
    value = arrays[name]
    return value.item() if value.ndim == 0 else value


def save_function(path: Path, function: Function, name: str = "h") -> None:
    """Write one function."""
    _save(path, function_arrays(function, name))


def load_function(path: Path, name: str = "h") -> Function:
    """Read one function."""
    return read_function(_load(path), name)


def save_agent(path: Path, agent: Agent, x0: Array | None = None, lam0: Array | None = None) -> None:
    """Write the private part of one agent: A, f, g and its start."""
    if isinstance(agent.A, LinearOperator):
        raise InputError(
            "A is a LinearOperator, which consists of code and cannot be stored; name a Python entry point "
            '"module:function" in job.toml that builds the agent'
        )
    arrays = _value_arrays(agent.A, "A") | function_arrays(agent.f, "f") | function_arrays(agent.g, "g")
    for name, start in (("x0", x0), ("lam0", lam0)):
        if start is not None:
            arrays[name] = np.asarray(start)
    _save(path, arrays)


def load_agent(path: Path) -> tuple[Agent, Array | None, Array | None]:
    """Read the private part of one agent, with its x0 and lam0 where they are given."""
    arrays = _load(path)
    A = _read_value(arrays, "A")
    if A is None:
        raise InputError(f"{path} holds {', '.join(sorted(arrays))}; expected the agent's coupling matrix under 'A'")
    if "g.kind" not in arrays:
        arrays["g.kind"] = np.array("Zero")
    agent = Agent(A, read_function(arrays, "f"), read_function(arrays, "g"))
    return agent, arrays.get("x0"), arrays.get("lam0")


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _load(path: Path) -> dict[str, Array]:
    if not path.exists():
        raise InputError(f"{path} does not exist; job.toml names it: put the file there, or correct the name")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
