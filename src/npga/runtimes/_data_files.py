"""Functions and agents in files: names, numbers and arrays; nothing in them runs code when it is read.

A function is the name of its class and the arguments of its constructor. In a TOML file it is a table,

    h = { kind = "SquaredLoss", target = "@y", weight = 0.1 }      "@y": the array y of an .npz beside the file

and in an .npz the same table, flattened: ``h.kind = "SquaredLoss"``, ``h.target``, ``h.weight``. One reader serves
both, for problem files and for jobs alike. What consists of code has an entry point "module:function" instead.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from npga import functions
from npga.errors import InputError, nearest
from npga.files import replacing
from npga.functions import Function
from npga.problem import Agent, Problem

if TYPE_CHECKING:
    from npga.runtimes._job import Job

Array = NDArray[Any]
PRIVATE = 0o600  # permissions of what belongs to one party alone
_ZIP_HEADS = (b"PK\x03\x04", b"PK\x05\x06")  # of an .npz with arrays and of one without
_NOT_STORED = ("Custom", "Elementwise", "Function")
FUNCTION_KINDS = tuple(
    sorted(
        name
        for name in functions.__all__
        if inspect.isclass(item := getattr(functions, name)) and issubclass(item, Function) and name not in _NOT_STORED
    )
)


# Reading


def read_function(table: Any, arrays: Mapping[str, Array], owner: str) -> Function:
    """The function that a table describes.

    Parameters
    ----------
    table
        ``{"kind": ..., argument: value}``; a value is a number, a list, an array, "@name" for one of `arrays`, or
        a table or a list of tables where the argument is a function or several.
    arrays
        The arrays that "@name" means.
    owner
        What error messages call it, such as "f of agent 3".
    """
    if not isinstance(table, Mapping) or "kind" not in table:
        raise InputError(f"{owner} is {table!r}; expected a table such as {{ kind = 'L1', weight = 0.1 }}")
    kind = str(table["kind"])
    if kind not in FUNCTION_KINDS:
        raise InputError(f"{owner} has the kind {kind!r}; {nearest(kind, FUNCTION_KINDS)}")
    maker = getattr(functions, kind)
    signature = inspect.signature(maker).parameters
    values = {}
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in signature:
            raise InputError(
                f"{owner} is a {kind} and has no {key!r}; it has {', '.join(signature) or 'no parameters'}"
            )
        values[key] = _read_value(value, arrays, f"{key} of {owner}")
    missing = [key for key, item in signature.items() if item.default is item.empty and key not in values]
    if missing:
        raise InputError(f"{owner} is a {kind} without {', '.join(missing)}; expected a number or '@array'")
    function: Function = maker(**values)
    return function


def _read_value(value: Any, arrays: Mapping[str, Array], owner: str) -> Any:
    if isinstance(value, Mapping):
        return read_function(value, arrays, owner)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        return tuple(read_function(item, arrays, f"{owner}[{k}]") for k, item in enumerate(value))
    if isinstance(value, str) and value.startswith("@"):
        return named_array(arrays, value[1:], owner)
    if isinstance(value, str):
        raise InputError(f"{owner} is the text {value!r}; expected a number, a list, a table or '@array'")
    return value


def named_array(arrays: Mapping[str, Array], name: str, owner: str) -> Array:
    """The array of this name, for whom it is named."""
    if name not in arrays:
        raise InputError(f"{owner} names the array {name!r}; {nearest(name, arrays)}")
    return arrays[name]


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of an .npz; one that would have to run code is refused."""
    if not path.exists():
        raise InputError(f"{path} does not exist; put the file there, or correct the name")
    try:
        with path.open("rb") as raw:
            if raw.read(4) not in _ZIP_HEADS:  # NumPy would take it for a pickle, and say how to load that unsafely
                raise zipfile.BadZipFile("it does not begin like one" if path.stat().st_size else "it is empty")
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, OSError) and error.strerror:
            why = f"cannot be read ({error.strerror}); expected an .npz: correct the path or its permissions"
        else:
            why = f"is not a whole .npz of numbers ({error}); write it again with numpy.savez"
        raise InputError(f"{path} {why}") from None


def read_toml(path: Path, expected: str) -> dict[str, Any]:
    """A TOML file, or a sentence that says why it is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected {expected}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML ({error}); expected {expected}, as text in UTF-8") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); expected {expected}: correct the path or its permissions"
        ) from None


def load_function(path: Path, name: str = "h") -> Function:
    """Read the function `name` of an .npz."""
    return read_function(_stored(read_arrays(path), name), {}, name)


def load_agent(path: Path) -> tuple[Agent, Array | None, Array | None]:
    """Read the private part of one agent, with its x0 and lam0 where they are given."""
    arrays = read_arrays(path)
    A = _stored(arrays, "A")
    if A is None:
        raise InputError(f"{path} holds {', '.join(sorted(arrays))}; expected the agent's coupling matrix under 'A'")
    f, g = (_stored(arrays, name) for name in ("f", "g"))
    agent = Agent(A, read_function(f, {}, "f"), read_function({"kind": "Zero"} if g is None else g, {}, "g"))
    return agent, arrays.get("x0"), arrays.get("lam0")


def load_agent_table(path: Path, i: int) -> Any:
    """Read the private part of agent i from a TOML file of its own: functions as tables, or its own entry point.

    ``entry = "module:function"`` is called with i, because the file is the party's own word; otherwise
    ``data = "agent.npz"``, ``A = "@A"``, ``f = {...}``, ``g = {...}`` and, if wanted, x0 and lam0 as "@name".
    """
    table = read_toml(path, "the private part of an agent")
    keys = ("entry", "data", "A", "f", "g", "x0", "lam0")
    for key in table:
        if key not in keys:
            raise InputError(f"unknown key {key!r} in {path}; {nearest(key, keys)}")
    if "entry" in table:
        return call_entry(str(table["entry"]), path.parent, i)
    arrays = read_arrays(path.parent / str(table["data"])) if "data" in table else {}
    for key in ("A", "f"):
        if key not in table:
            raise InputError(f"{path} has no {key!r}; expected A and f, or entry = 'module:function'")
    A, x0, lam0 = (_read_value(table.get(key), arrays, key) for key in ("A", "x0", "lam0"))
    f, g = (read_function(table.get(key, {"kind": "Zero"}), arrays, f"{key} in {path}") for key in ("f", "g"))
    return Agent(A if not isinstance(A, list) else np.array(A, dtype=float), f, g), x0, lam0


def _stored(arrays: Mapping[str, Array], name: str) -> Any:
    """What an .npz holds under a name: a table (a function), a list, a sparse matrix, an array, a number, or None."""
    beginning = f"{name}."
    if f"{name}.kind" in arrays:
        keys = dict.fromkeys(key[len(beginning) :].split(".")[0] for key in arrays if key.startswith(beginning))
        return {key: _stored(arrays, beginning + key) for key in keys}
    if f"{name}.indptr" in arrays:
        data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
        return sparse.csr_array((data, indices, indptr), shape=tuple(arrays[f"{name}.shape"]))
    if f"{name}.count" in arrays:
        return tuple(_stored(arrays, f"{name}.{k}") for k in range(int(arrays[f"{name}.count"])))
    if name not in arrays:
        return None
    value = arrays[name]
    return value.item() if value.ndim == 0 else value


class OwnPart(NamedTuple):
    """What one agent alone knows."""

    agent: Agent
    x0: Array | None
    lam0: Array | None


def read_own_part(job: Job, i: int) -> OwnPart:
    """Agent i of a job, checked against the shared part; nobody else's data are touched."""
    path = job.path.parent / job.agents.replace("{agent}", str(i))
    if is_entry(job.agents):
        found: Any = call_entry(job.agents, job.path.parent, i) if job.trust_code else None
    else:
        found = load_agent_table(path, i) if path.suffix == ".toml" else load_agent(path)
    part = OwnPart(*found) if isinstance(found, tuple) and len(found) == 3 else OwnPart(found, None, None)
    if not isinstance(part.agent, Agent):
        raise InputError(f"agent {i} is a {type(part.agent).__name__}; expected an npga.Agent, or (agent, x0, lam0)")
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
    return OwnPart(
        agent, _start(part.x0, A.shape[1], job, f"x0 of agent {i}"), _start(part.lam0, rows, job, f"lam0 of {i}")
    )


def _start(values: Array | None, size: int, job: Job, name: str) -> Array | None:
    if values is None:
        return None
    array = np.array(values, dtype=job.dtype)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}; expected ({size},) finite numbers")
    return array


# Writing


def save_function(path: Path, function: Function, name: str = "h") -> None:
    """Write one function."""
    _save(path, function_arrays(function, name))


def save_parts(directory: Path, problem: Problem, x0: ArrayLike | None, lam0: ArrayLike | None) -> None:
    """Write what all parties share of a problem, and the private part of every agent."""
    save_function(directory / "shared" / "h.npz", problem.h)
    blocks = [None] * problem.n if x0 is None else problem.split(problem.join(x0, "x0"))
    duals = [None] * problem.n if lam0 is None else list(problem.dual(lam0, "lam0"))
    for i, agent in enumerate(problem.agents):
        save_agent(directory / "private" / f"agent{i}.npz", agent, blocks[i], duals[i])


def save_agent(path: Path, agent: Agent, x0: Array | None = None, lam0: Array | None = None) -> None:
    """Write the private part of one agent: A, f, g and its start; only its owner may read the file."""
    if isinstance(agent.A, LinearOperator):
        raise InputError(
            "A is a LinearOperator, which consists of code and cannot be stored; name a Python entry point "
            '"module:function" in job.toml that builds the agent'
        )
    arrays = _value_arrays(agent.A, "A") | function_arrays(agent.f, "f") | function_arrays(agent.g, "g")
    for name, start in (("x0", x0), ("lam0", lam0)):
        if start is not None:
            arrays[name] = np.asarray(start)
    _save(path, arrays, PRIVATE)


def function_arrays(function: Function, name: str) -> dict[str, Array]:
    """The arrays that describe a function, by name."""
    kind = type(function).__name__
    if kind not in FUNCTION_KINDS:
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


def _save(path: Path, arrays: Mapping[str, Array], mode: int | None = None) -> None:
    with replacing(path, mode=mode) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


# Code


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
