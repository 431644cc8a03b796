"""Checks of what functions are built from: numbers, vectors, dense and sparse matrices.

Everything that passes is a private read-only copy in float64, or in float32 when it arrived so. Numbers
become Python floats, which follow the type of the arrays they meet.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from npga.errors import FunctionError
from npga.functions._base import Array

Parameter: TypeAlias = float | Array
Matrix: TypeAlias = Any  # dense ndarray or scipy.sparse.csr_array


def real(owner: str, name: str, value: npt.ArrayLike) -> Array:
    """Copy `value` as a real array, in float32 if it is so and in float64 otherwise."""
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError
        return np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64, order="C")
    except (TypeError, ValueError):
        raise FunctionError(
            f"{owner}: {name} is {value!r}; expected a real number or array of real numbers; convert it first"
        ) from None


def freeze(array: Array) -> Array:
    """Make the array read-only, and return it."""
    array.flags.writeable = False
    return array


def require(owner: str, name: str, array: Array, valid: Array | np.bool, expected: str) -> None:
    """Raise the error that names the first entry of `array` that is not `valid`."""
    if np.all(valid):
        return
    position = tuple(int(i) for i in np.argwhere(~np.atleast_1d(valid))[0])
    where = "" if array.ndim == 0 else f" at position {position[0] if array.ndim == 1 else position}"
    raise FunctionError(f"{owner}: {name} is {np.atleast_1d(array)[position]}{where}; expected {expected}")


def parameter(owner: str, name: str, value: npt.ArrayLike, *, finite: bool = True) -> Parameter:
    """Check a number, or a vector with one number per coordinate."""
    array = real(owner, name, value)
    if array.ndim > 1 or array.size == 0:
        raise FunctionError(
            f"{owner}: {name} has shape {array.shape}; expected a number or a vector with one entry per "
            "coordinate; flatten it, or use Zero() for a block without coordinates"
        )
    if finite:
        require(owner, name, array, np.isfinite(array), "finite numbers; remove NaN and infinities from the data")
    else:
        require(owner, name, array, ~np.isnan(array), "a number or an infinity; remove NaN from the data")
    return float(array) if array.ndim == 0 else freeze(array)


def positive(owner: str, name: str, value: npt.ArrayLike) -> Parameter:
    """Check a positive number, or a vector of them."""
    checked = parameter(owner, name, value)
    array = np.asarray(checked)
    require(owner, name, array, array > 0.0, f"a positive number; drop the term (Zero()) where {name} is 0")
    return checked


def nonnegative(owner: str, name: str, value: npt.ArrayLike) -> Parameter:
    """Check a number that is not negative, or a vector of them."""
    checked = parameter(owner, name, value)
    array = np.asarray(checked)
    require(owner, name, array, array >= 0.0, "a number that is not negative; check its sign")
    return checked


def signs(owner: str, name: str, value: npt.ArrayLike) -> Parameter:
    """Check class labels -1 and +1."""
    checked = parameter(owner, name, value)
    array = np.asarray(checked)
    require(owner, name, array, np.abs(array) == 1.0, f"-1 or +1; for {name} 0 and 1 pass 2 * {name} - 1")
    return checked


def scalar(owner: str, name: str, checked: Parameter) -> float:
    """Insist that a checked parameter is one number."""
    if isinstance(checked, float):
        return checked
    raise FunctionError(f"{owner}: {name} has shape {checked.shape}; expected one number")


def matrix(owner: str, name: str, value: Any) -> Matrix:
    """Check a matrix, dense or in compressed sparse rows."""
    if sp.issparse(value):
        sparse = sp.csr_array(value, copy=True)
        sparse.sum_duplicates()
        sparse = sparse.astype(np.float32 if sparse.dtype == np.float32 else np.float64)
        require(
            owner,
            f"{name}.data",
            sparse.data,
            np.isfinite(sparse.data),
            "finite numbers; remove NaN and infinities",
        )
        freeze(sparse.data)
        checked: Matrix = sparse
    else:
        checked = real(owner, name, value)
        require(
            owner,
            name,
            checked,
            np.isfinite(checked),
            "finite numbers; remove NaN and infinities from the data",
        )
        freeze(checked)
    if checked.ndim != 2 or 0 in checked.shape:
        raise FunctionError(
            f"{owner}: {name} has shape {checked.shape}; expected a matrix with rows and columns; "
            "use Zero() for a block without coordinates"
        )
    return checked


def cast(checked: Any, dtype: npt.DTypeLike) -> Any:
    """Change the floating type of a parameter; numbers stay Python floats."""
    return checked if isinstance(checked, float) else checked.astype(dtype)


def show(value: Any) -> str:
    """Short text of a parameter, for `repr`."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if getattr(value, "ndim", 0) == 1 and value.size <= 4:
        return "[" + ", ".join(f"{v:.6g}" for v in value) + "]"
    kind = "sparse" if sp.issparse(value) else "array"
    return f"<{kind} {'x'.join(map(str, value.shape))}>"
