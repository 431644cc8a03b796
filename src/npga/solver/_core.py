"""The compiled core as Python sees it: its structs by named fields, and its functions.

A checkout whose library is missing or older than its sources builds it at first use, when there is a compiler. Where
that does not work, `core` says why, and NumPy runs instead. ``NPGA_CORE`` names another library to load.
"""

from __future__ import annotations

import ctypes
import logging
import os
from ctypes import Structure, c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from npga.solver.core import _build

_Fields = list[tuple[str, Any]]


def _each(kind: Any, names: str) -> _Fields:
    return [(name, kind) for name in names.split()]


class Matrix(Structure):
    """One matrix where it lies in memory; see plan.hpp for this and all that follow."""

    _fields_ = (
        _each(c_int64, "form rows columns") + _each(c_void_p, "data") + _each(c_int64, "lead")
        + _each(c_void_p, "indices pointers entry_rows")
    )  # fmt: skip


class Segment(Structure):
    """One formula on a run of coordinates."""

    _fields_ = (
        _each(c_int64, "kind start stop groups") + _each(c_void_p, "ends members") + _each(Matrix, "matrix")
        + _each(c_void_p, "vector") + _each(c_double, "weight")
    )  # fmt: skip


class Function(Structure):
    """A function of all coordinates."""

    _fields_ = (
        _each(c_int64, "count") + _each(c_void_p, "segments a b c ready_a ready_b ready_c") + _each(c_int64, "copies")
    )  # fmt: skip


class Plan(Structure):
    """A problem on a network under a version and steps."""

    _fields_ = (
        _each(c_int64, "n p d") + _each(c_double, "beta theta") + _each(c_void_p, "alpha matrices offsets")
        + _each(Function, "f g h") + _each(c_void_p, "groups") + _each(c_int64, "group_count")
        + _each(c_void_p, "f_bounds g_bounds links neighbours weights b c d_powers")
        + _each(c_int64, "new_powers kept_powers degree") + _each(c_void_p, "carry scale")
    )  # fmt: skip


class Arrays(Structure):
    """The arrays of a run."""

    _fields_ = _each(
        c_void_p, "x x_new x_hat force lam lam_prev v u kept message reply Ax source rest rest_new change total"
    )

    def turn(self) -> None:
        """The new iterates become the last ones, and what was written as a reply is the message now."""
        self.trade("x", "x_new")
        self.trade("lam", "lam_prev")
        self.trade("message", "reply")

    def trade(self, one: str, other: str) -> None:
        """Two arrays trade places."""
        kept = getattr(self, one)
        setattr(self, one, getattr(self, other))
        setattr(self, other, kept)


class Chunk(Structure):
    """Rows of the dual arrays, in panels."""

    _fields_ = _each(c_int64, "first last rows")


class Task(Structure):
    """A piece of an iteration for one thread."""

    _fields_ = _each(c_int64, "first last power pause") + _each(c_void_p, "chunks pulls scratch work")


class Gauge(Structure):
    """What a measurement must know beside the plan."""

    _fields_ = (
        _each(c_double, "energy least_step largest_step slack") + _each(c_int64, "g_is_zero h_is_indicator blocks")
        + _each(c_void_p, "curvature counts squares bounds is_hard is_smooth reference")
        + _each(c_void_p, "agents dual primal columns matrix")
    )  # fmt: skip


class Findings(Structure):
    """What is measured."""

    _fields_ = _each(c_double, "kkt energy size spread gap objective largest increment")


class Stopping(Structure):
    """What the stopping test compares with: limits, and what they are relative to."""

    _fields_ = _each(c_double, "tol gap_tol growth size distance first_increment first_size")


PHASES = ("begin", "deepen", "exchange", "step", "combine", "pull", "move", "dual")
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "prepare": (None, [c_void_p]),
    "sweep": (c_int64, [c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p]),
    "apply": (c_double, [c_void_p, c_int64, c_void_p, c_double, c_double, c_void_p, c_void_p]),
    **dict.fromkeys(PHASES, (c_double, [c_void_p, c_void_p, c_void_p])),
}


class CoreError(Exception):
    """There is no compiled core here; the message says why."""


class Core:
    """A loaded library; its functions by name, for one type of numbers."""

    def __init__(self, library: ctypes.CDLL, variant: str, path: Path) -> None:
        self.variant, self.path = variant, path
        self._library = library
        self._functions: dict[tuple[str, int], Any] = {}
        for name, (result, arguments) in _SIGNATURES.items():
            for bits in (32, 64):
                function = getattr(library, f"{name}_{bits}")
                function.restype, function.argtypes = result, arguments
                self._functions[name, bits // 8] = function

    def knows(self, kind: int) -> bool:
        """Whether there is a formula for a kind of function."""
        return bool(self._library.knows(c_int64(kind)))

    def __call__(self, name: str, dtype: np.dtype[Any]) -> Any:
        """The function for float32 or float64; it releases the interpreter's lock."""
        return self._functions[name, dtype.itemsize]


@cache
def _found() -> Core | str:
    try:
        chosen = os.environ.get("NPGA_CORE")
        return _open(Path(chosen), "chosen by NPGA_CORE") if chosen else _best(_libraries())
    except (_build.BuildError, OSError) as error:
        logging.getLogger("npga").warning("there is no compiled core here, so that NumPy runs instead: %s", error)
        return str(error)


def _libraries() -> dict[str, Path]:
    paths = _build.libraries()
    if all(path.exists() for path in paths.values()):
        return paths
    if not _build.sources():
        raise _build.BuildError(f"the installed package has no library for this machine in {_build.BUILT}")
    logging.getLogger("npga").warning("building the compiled core, whose sources have changed: some ten seconds, once")
    return _build.build()


def _best(paths: dict[str, Path]) -> Core:
    baseline = _open(paths["baseline"], "baseline")
    if "v3" in paths and ctypes.CDLL(str(paths["baseline"])).has_v3():
        return _open(paths["v3"], "x86-64-v3")
    return baseline


def _open(path: Path, variant: str) -> Core:
    return Core(ctypes.CDLL(str(path)), variant, path)


def core() -> Core:
    """The compiled core of this machine; raises `CoreError` where there is none."""
    found = _found()
    if isinstance(found, str):
        raise CoreError(found)
    return found


def core_status() -> tuple[bool, str]:
    """Whether there is a compiled core, and which one, or why not: for `npga doctor`."""
    found = _found()
    return (False, found) if isinstance(found, str) else (True, f"{found.variant}, {found.path.name}")
