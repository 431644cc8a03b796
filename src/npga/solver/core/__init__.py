"""The compiled core: loops and formulas in C++, how they are built (`_build`), found and loaded.

Reading order of the sources: plan (what they are given), products, elementwise, functions, schedules, measure, core.
A checkout whose library is missing or older than its sources builds it at first use, when there is a compiler; where
that does not work, `find_core` says why, and NumPy runs instead. ``NPGA_CORE`` names another library.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
from ctypes import CFUNCTYPE, c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from npga.solver.core import _build

_log = logging.getLogger("npga")


class Struct(ctypes.Structure):
    """Fields by name; a pointer is given an address, or an array, which lives as long as the struct."""

    def __init__(self, **fields: Any) -> None:
        self.given = fields
        super().__init__(**{k: v.ctypes.data if isinstance(v, np.ndarray) else v for k, v in fields.items()})


def _declared() -> Any:
    """The structs of plan.h by name, with their fields; a pointer is an address."""
    text = re.sub(r"//.*", "", (_build.HERE / "plan.h").read_text(encoding="utf-8"))
    kinds: dict[str, Any] = {"Int": c_int64, "double": c_double}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.DOTALL):
        fields = [
            (item.strip(" *"), c_void_p if "*" in item else kinds[kind])
            for kind, items in re.findall(r"(?:const )?([\w:]+)(?:<T>)?([^;]+);", body)
            for item in items.split(",")
        ]
        kinds[name] = type(name, (Struct,), {"_fields_": fields, "__doc__": f"{name} of plan.h."})
    return SimpleNamespace(**kinds)


structs = _declared()
# What core.cpp lists, in its order; calls release the interpreter's lock.
_ENTRIES = {
    "prepare": CFUNCTYPE(None, c_void_p),
    "sweep": CFUNCTYPE(c_int64, *[c_void_p] * 4, c_int64, *[c_void_p] * 2),
}


class Core:
    """A loaded library; `calls` are its functions by name and by the bytes of a number, 4 or 8."""

    def __init__(self, path: Path, variant: str) -> None:
        self.path, self.variant = path, variant
        self.library = ctypes.CDLL(str(path))
        self.calls: dict[tuple[str, int], Any] = {}
        for size in (4, 8):
            addresses = (c_void_p * len(_ENTRIES)).in_dll(self.library, f"entries_{8 * size}")
            for (name, kind), address in zip(_ENTRIES.items(), addresses, strict=True):
                self.calls[name, size] = kind(address)

    def knows(self, kind: int) -> bool:
        """Whether there is a formula for a kind of function."""
        return bool(self.library.knows(c_int64(kind)))


@cache
def find_core() -> Core | str:
    """The compiled core of this machine, or why there is none."""
    try:
        if chosen := os.environ.get("NPGA_CORE"):
            return Core(Path(chosen), "chosen by NPGA_CORE")
        paths = _libraries()
        baseline = Core(paths["baseline"], "baseline")
        return Core(paths["v3"], "x86-64-v3") if "v3" in paths and baseline.library.has_v3() else baseline
    except (_build.BuildError, OSError) as error:
        _log.warning("there is no compiled core here, so that NumPy runs instead: %s", error)
        return str(error)


def _libraries() -> dict[str, Path]:
    paths = _build.libraries()
    if all(path.exists() for path in paths.values()):
        return paths
    if not _build.sources():
        raise _build.BuildError(f"the installed package has no library for this machine in {_build.BUILT}")
    _log.warning("building the compiled core, whose sources have changed: some ten seconds, once")
    return _build.build()


def core_status() -> tuple[bool, str]:
    """Whether there is a compiled core, and which one, or why not: for `npga doctor`."""
    found = find_core()
    return (False, found) if isinstance(found, str) else (True, f"{found.variant}, {found.path.name}")
