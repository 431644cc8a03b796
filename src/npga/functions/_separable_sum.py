"""Sums over blocks of coordinates, and the functions of many agents as few: one vectorised call serves all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag

from npga.errors import FunctionError
from npga.functions._base import Elementwise, Function, Value
from npga.functions._calculus import OfParts
from npga.functions._kernel_form import KernelForm
from npga.functions._parameters import Array, Parameter, Step
from npga.functions._squares import Zero


def check_blocks(owner: str, parts: Sequence[Function], sizes: Sequence[int]) -> None:
    """Raise unless every part is a function that accepts its size."""
    if len(parts) != len(sizes):
        raise FunctionError(f"{owner}: got {len(parts)} parts and {len(sizes)} sizes; expected one size per part")
    for position, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if not isinstance(part, Function):
            raise FunctionError(
                f"{owner}: part {position} is a {type(part).__name__}; expected a function; wrap callables in Custom"
            )
        if size < 0 or (part.dim is not None and part.dim != size):
            wanted = "a size that is not negative" if part.dim is None else f"size {part.dim}"
            raise FunctionError(f"{owner}: part {position}, {part!r}, got size {size}; expected {wanted}")


class SeparableSum(OfParts):
    """Sum over consecutive blocks of coordinates, f(x) = sum_b f_b(x_b).

    Parameters
    ----------
    parts
        The functions f_b.
    sizes
        Number of coordinates of each block.
    """

    sizes: tuple[int, ...]

    def __init__(self, parts: Sequence[Function], sizes: Sequence[int]) -> None:
        check_blocks("SeparableSum", parts, sizes)
        if not any(sizes):
            raise FunctionError(
                "SeparableSum: there are no coordinates; expected a block that is not empty; use Zero()"
            )
        kept = [(part, int(size)) for part, size in zip(parts, sizes, strict=True) if size > 0]
        self._set(parts=tuple(part for part, _ in kept), sizes=tuple(size for _, size in kept))

    @property
    def dim(self) -> int | None:
        """Sum of the sizes."""
        return sum(self.sizes)

    @property
    def mu(self) -> float:
        """Smallest of the parts."""
        return min(part.mu for part in self.parts)

    @property
    def L(self) -> float:
        """Largest of the parts."""
        return max(part.L for part in self.parts)

    @property
    def _per_coordinate(self) -> bool:
        return True

    def _blocks(self) -> Iterator[tuple[Function, slice]]:
        start = 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            yield part, slice(start, start + size)
            start += size

    def _value(self, x: Array) -> Value:
        return sum(part.value(x[..., block]) for part, block in self._blocks())

    def _value_within(self, x: Array, tol: float) -> Value:
        return sum(part.value(x[..., block], tol) for part, block in self._blocks())

    def _grad(self, x: Array) -> Array:
        return np.concatenate([part.grad(x[..., block]) for part, block in self._blocks()], axis=-1)

    def _prox(self, x: Array, t: Step) -> Array:
        return np.concatenate([part.prox(x[..., own], _own(t, own)) for part, own in self._blocks()], axis=-1)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        return np.concatenate([part.conj_prox(x[..., own], _own(t, own)) for part, own in self._blocks()], axis=-1)

    def _hess(self, x: Array) -> Array:
        return _diagonal([part.hess(x[block]) for part, block in self._blocks()])

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return _diagonal([part.prox_jac(x[block], _own(t, block)) for part, block in self._blocks()])

    def _conj_prox_jac(self, x: Array, t: Step) -> Array:
        return _diagonal([part.conj_prox_jac(x[block], _own(t, block)) for part, block in self._blocks()])

    def kernel(self, size: int) -> tuple[KernelForm, ...] | None:  # noqa: ARG002
        """Those of the parts, one after the other; None if one of them has none."""
        forms = [part.kernel(own) for part, own in zip(self.parts, self.sizes, strict=True)]
        return None if None in forms else tuple(form for own in forms if own is not None for form in own)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Sum of the parts cast to `dtype`."""
        return SeparableSum([part.astype(dtype) for part in self.parts], self.sizes)

    def __repr__(self) -> str:
        shown = ", ".join(f"{part!r} on {size}" for part, size in zip(self.parts[:3], self.sizes[:3], strict=True))
        more = len(self.parts) - 3
        return f"SeparableSum({shown}{f', and {more} more' if more > 0 else ''})"


def _own(t: Step, block: slice) -> Step:
    """The steps of a block: its slice of one step per coordinate, or what serves all of them."""
    return t if isinstance(t, float) or t.shape[-1] == 1 else t[..., block]


def _diagonal(blocks: list[Array]) -> Array:
    """Blocks along a diagonal: a 1-D diagonal when all are, else a matrix."""
    if all(block.ndim == 1 for block in blocks):
        return np.concatenate(blocks)
    return np.asarray(block_diag(*(np.diag(block) if block.ndim == 1 else block for block in blocks)))


def join(parts: Sequence[Function], sizes: Sequence[int]) -> Function:
    """Sum over consecutive blocks of coordinates, with neighbours of one elementwise class fused.

    The result has the values of ``SeparableSum(parts, sizes)``. Runs of parts of the same elementwise class
    become one function of that class, whose parameters are the parts' laid end to end; a parameter that is
    the same number in all of them stays a number. Blocks of size 0 are dropped, and a single function is
    returned bare.

    Parameters
    ----------
    parts
        One function per block.
    sizes
        Number of coordinates of each block.
    """
    check_blocks("join", parts, sizes)
    blocks = [(part, int(size)) for part, size in zip(parts, sizes, strict=True) if size > 0]
    if not blocks:
        return Zero()
    fused, lengths = [], []
    for _, group in groupby(enumerate(blocks), key=_family):
        run = [block for _, block in group]
        fused.append(_fuse(run))
        lengths.append(sum(size for _, size in run))
    return fused[0] if len(fused) == 1 else SeparableSum(fused, lengths)


def _family(numbered: tuple[int, tuple[Function, int]]) -> Hashable:
    position, (part, _) = numbered
    return type(part) if isinstance(part, Elementwise) else position


def _fuse(run: list[tuple[Function, int]]) -> Function:
    first = run[0][0]
    if len(run) == 1 or not isinstance(first, Elementwise):
        return first
    sizes = [size for _, size in run]
    columns = zip(*(part.parameters for part, _ in run if isinstance(part, Elementwise)), strict=True)
    return type(first)(*(_lay_end_to_end(column, sizes) for column in columns))


def _lay_end_to_end(column: tuple[Parameter, ...], sizes: list[int]) -> Parameter:
    if all(isinstance(p, float) and p == column[0] for p in column):
        return column[0]
    # Numbers take the type of the vectors they join, so that a float32 problem stays float32.
    vectors = [p for p in column if not isinstance(p, float)]
    dtype = np.result_type(*vectors) if vectors else np.float64
    return np.concatenate([np.broadcast_to(np.asarray(p, dtype), size) for p, size in zip(column, sizes, strict=True)])
