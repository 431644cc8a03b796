"""How the kernels are compiled, and views of memory that cost nothing.

Kernels are module-level functions, compiled at first use for float32 or float64. Those that Python calls are kept on
disk (in ``__pycache__``, or in NUMBA_CACHE_DIR when the package is installed read-only), so that the second process
pays no compilation. Sums may be reassociated and contracted, so that dot products use the vector units; nothing is
assumed about numbers being finite.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import carray, types
from numba.core import event
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
# What only other kernels call needs no entry from Python and no file of its own: it becomes part of its callers.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Numba compares a cached kernel with the file of its own source only, yet kernels of other files are compiled into
# it. So all of them together are its source.
_FILES = sorted(Path(__file__).parent.glob("*.py"))
_STAMP = tuple((file.name, file.stat().st_mtime, file.stat().st_size) for file in _FILES)


class _Notice(event.Listener):  # type: ignore[misc]
    """Says once that kernels are being compiled: without a word the first run on a machine would seem to hang."""

    def __init__(self) -> None:
        self.kernels: set[Any] = set()
        self._said = False

    def on_start(self, event: Any) -> None:
        """Numba begins to compile, having found nothing on disk."""
        if event.data["dispatcher"] in self.kernels and not self._said:
            self._said = True
            logging.getLogger("npga").warning(
                "compiling kernels for this machine: this takes about half a minute, once; later runs find them on disk"
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


_NOTICE = _Notice()
event.register("numba:compile", _NOTICE)


def entry(function: F) -> F:
    """Compile what Python calls, and keep it on disk."""
    dispatcher = numba.njit(**_FLAGS, cache=True)(function)
    dispatcher._cache._cache_file._source_stamp = _STAMP
    _NOTICE.kernels.add(dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def compiled(function: F) -> F:
    """Compile what only other kernels call."""
    return numba.njit(**_FLAGS, **_INNER)(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """Compile into every caller: for what is called inside loops."""
    return numba.njit(**_FLAGS, **_INNER, forceinline=True)(function)  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_context: Any, address: Any, start: Any, like: Any) -> Any:
    """Pointer to entry `start` of the numbers at an address, of the type of `like`: an array or a number."""
    pointer = types.CPointer(getattr(like, "dtype", like))

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.gep(builder.inttoptr(arguments[0], context.get_value_type(pointer)), [arguments[1]])

    return pointer(address, start, like), generate


@inlined
def view(address: int, start: int, count: int, like: Any) -> Any:
    """The `count` entries from `start` of the numbers at an address, of the type of `like`.

    Kernels pass addresses, not arrays: an array is seven machine words and a reference count, which is an atomic
    operation. In loops over rows of ten numbers these would cost more than the arithmetic, and among threads the
    counts would be fought over. Python keeps the memory alive during the call.
    """
    return carray(_pointer(address, start, like), (count,))


@intrinsic  # type: ignore[untyped-decorator]
def _begin(_context: Any, array: Any, start: Any) -> Any:
    pointer = types.CPointer(array.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return pointer(array, start), generate


@inlined
def part(array: Any, start: int, stop: int) -> Any:
    """array[start:stop] of a one-dimensional contiguous array, not counted as a reference and not checked."""
    return carray(_begin(array, start), (stop - start,))


@intrinsic  # type: ignore[untyped-decorator]
def number(_context: Any, like: Any, value: Any) -> Any:
    """A literal in the floating type of `like`: plain literals would turn float32 arithmetic into float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[1], signature.args[1], signature.args[0])

    return like(like, value), generate
