"""What functions are built from: numbers, vectors, dense and sparse matrices, checked; and what matrices are used for.

Everything that passes is a private read-only copy in float64, or in float32 when it arrived so. Numbers
become Python floats, which follow the type of the arrays they meet. Matrices give products along the last axis,
extreme eigenvalues and resolvents.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from npga.errors import FunctionError

Array: TypeAlias = npt.NDArray[Any]
Step: TypeAlias = float | Array
Parameter: TypeAlias = float | Array
Matrix: TypeAlias = Any  # dense ndarray or scipy.sparse.csr_array

# Up to this size all eigenvalues are computed; above it Lanczos finds the two extreme ones.
DENSE_LIMIT = 1500
# Restarts of about 20 products each, after which another way is taken.
LANCZOS_RESTARTS = 300
# How many factorisations, one per step t, a function keeps.
CACHE_SIZE = 8


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
        checked: Matrix = sparse
        stored, where = sparse.data, f"{name}.data"
    else:
        checked = stored = real(owner, name, value)
        where = name
    require(owner, where, stored, np.isfinite(stored), "finite numbers; remove NaN and infinities from the data")
    freeze(stored)
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


def apply(matrix: Matrix, x: Array) -> Array:
    """Multiply each point of a stack by the matrix."""
    if not sp.issparse(matrix):
        return np.asarray(x @ matrix.T)
    rows = x.reshape(-1, x.shape[-1])
    return np.asarray((matrix @ rows.T).T.reshape(*x.shape[:-1], matrix.shape[0]))


def dense(matrix: Matrix) -> Array:
    """Return the matrix as a dense array."""
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def extreme_eigenvalues(matrix: Matrix) -> tuple[float, float]:
    """Smallest and largest eigenvalue of a symmetric matrix, in float64.

    Lanczos values are moved outwards by their residual, so that they bound the eigenvalue that they approximate.
    """
    if matrix.shape[0] <= DENSE_LIMIT or not sp.issparse(matrix):
        values = np.linalg.eigvalsh(dense(matrix).astype(np.float64, copy=False))
        return float(values[0]), float(values[-1])
    return _lanczos(matrix, "SA"), _lanczos(matrix, "LA")


def _lanczos(matrix: Matrix, which: str) -> float:
    matrix = sp.csc_array(matrix, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    outwards = 1.0 if which == "LA" else -1.0
    size = float(abs(matrix).sum(axis=1).max())
    try:
        values, vectors = spla.eigsh(matrix, k=1, which=which, v0=start, tol=1e-10, maxiter=LANCZOS_RESTARTS)
    except spla.ArpackNoConvergence:
        if which == "LA":
            return size  # Gershgorin: no eigenvalue exceeds the largest row sum of absolute values
        # Eigenvalues that crowd near 0, as those of a Laplacian do: spread them by inverting just below 0.
        values, vectors = spla.eigsh(matrix, k=1, sigma=-1e-8 * size, which="LM", v0=start)
    value, vector = float(values[0]), vectors[:, 0]
    return value + outwards * float(np.linalg.norm(matrix @ vector - value * vector))


class SparseResolvent:
    """(I + s K)^-1 for a sparse symmetric positive semidefinite K, with one LU factorisation kept per recent s."""

    def __init__(self, K: Matrix) -> None:
        # SuperLU works in float64; so do the factors, whatever the type of K.
        self._K = sp.csc_array(K, dtype=np.float64)
        self._factors: OrderedDict[float, Any] = OrderedDict()

    def __call__(self, x: Array, s: Step) -> Array:
        """Apply the resolvent to each point of a stack, with one s for all or one per point."""
        if isinstance(s, float):
            rows = x.reshape(-1, x.shape[-1])
            return np.asarray(self._factor(s).solve(rows.T.astype(np.float64)).T.reshape(x.shape).astype(x.dtype))
        steps = np.broadcast_to(s, (*x.shape[:-1], 1))[..., 0]
        out = np.empty_like(x)
        for value in np.unique(steps):
            chosen = steps == value
            out[chosen] = self(x[chosen], float(value))
        return out

    def _factor(self, s: float) -> Any:
        if s in self._factors:
            self._factors.move_to_end(s)
        else:
            identity = sp.eye_array(self._K.shape[0], format="csc")
            self._factors[s] = spla.splu(sp.csc_array(identity + s * self._K))
            if len(self._factors) > CACHE_SIZE:
                self._factors.popitem(last=False)
        return self._factors[s]

    def __getstate__(self) -> dict[str, Any]:
        # SuperLU factors cannot be pickled; they are made again on demand.
        return {"_K": self._K, "_factors": OrderedDict()}
