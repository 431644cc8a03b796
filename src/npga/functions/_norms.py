"""Euclidean norms, not squared: of the whole vector (`L2`) and of groups of coordinates (`GroupL2`).

For f(x) = w |x| the conjugate is the indicator of |y| <= w, so prox_{t f*} projects onto that ball and
prox_{t f}(x) = x max(1 - t w/|x|, 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._base import Function, Parametric, Value
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Array, Parameter, Step, cast, freeze, positive, scalar, show


def norm(x: Array) -> Array:
    """Euclidean norm along the last axis, which is kept with length 1."""
    return np.asarray(np.sqrt(np.square(x).sum(axis=-1, keepdims=True)))


def quotient(a: Any, b: Array) -> Array:
    """Quotient a/b, and infinity where b is zero."""
    shape = np.broadcast_shapes(np.shape(a), b.shape)
    out: Array = np.full(shape, np.inf, dtype=b.dtype)
    np.divide(a, b, out=out, where=b > 0.0)
    return out


def shrink_jacobian(x: Array, s: float) -> Array:
    """Jacobian of x -> x max(1 - s/|x|, 0): (1 - s/|x|) I + (s/|x|) x x^T/|x|^2 outside the ball of radius s."""
    length = norm(x)
    if length[0] <= s:
        return np.zeros((x.size, x.size), dtype=x.dtype)
    ratio, normal = s / length, x / length
    return np.asarray((1.0 - ratio) * np.eye(x.size, dtype=x.dtype) + ratio * np.outer(normal, normal))


class L2(Parametric):
    """Euclidean norm, not squared, f(x) = w |x|.

    Parameters
    ----------
    weight
        Positive number.
    """

    weight: float

    def __init__(self, weight: float = 1.0) -> None:
        self._set(weight=scalar("L2", "weight", positive("L2", "weight", weight)))

    def _value(self, x: Array) -> Value:
        return self.weight * norm(x)[..., 0]

    def _prox(self, x: Array, t: Step) -> Array:
        return x * np.maximum(1.0 - quotient(t * self.weight, norm(x)), 0.0)

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        return x * np.minimum(quotient(self.weight, norm(x)), 1.0)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return shrink_jacobian(x, float(t) * self.weight)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.NORM, size, a=self.weight),)


class GroupL2(Function):
    """Sum of Euclidean norms of groups, f(x) = sum_G w_G |x_G|.

    Parameters
    ----------
    weight
        Positive number, or one per group.
    groups
        Index arrays, one per group, which together hold every coordinate once; or one integer label per
        coordinate, and then groups are ordered by label.
    """

    weight: Parameter
    groups: tuple[Array, ...]

    def __init__(self, weight: npt.ArrayLike, groups: Sequence[Any] | Array) -> None:
        members = _partition(groups)
        checked = positive("GroupL2", "weight", weight)
        if not isinstance(checked, float) and checked.size != len(members):
            raise FunctionError(
                f"GroupL2: weight has {checked.size} entries for {len(members)} groups; "
                "expected one number or one per group"
            )
        sizes = [m.size for m in members]
        labels = np.empty(sum(sizes), dtype=np.intp)
        order = np.concatenate(members)
        labels[order] = np.repeat(np.arange(len(members)), sizes)
        # Coordinates sorted by group, and where each group starts: what reduceat needs.
        starts = np.cumsum([0, *sizes[:-1]])
        self._set(weight=checked, groups=members, _labels=freeze(labels), _order=freeze(order), _starts=freeze(starts))

    _labels: Array
    _order: Array
    _starts: Array

    @property
    def dim(self) -> int | None:
        """Number of coordinates in all groups."""
        return self._labels.size

    def _norms(self, x: Array) -> Array:
        return np.sqrt(np.add.reduceat(np.square(x)[..., self._order], self._starts, axis=-1))

    def _value(self, x: Array) -> Value:
        return (self.weight * self._norms(x)).sum(axis=-1)

    def _prox(self, x: Array, t: Step) -> Array:
        factors = np.maximum(1.0 - quotient(t * self.weight, self._norms(x)), 0.0)
        return x * factors[..., self._labels]

    def _conj_prox(self, x: Array, t: Step) -> Array:  # noqa: ARG002
        factors = np.minimum(quotient(self.weight, self._norms(x)), 1.0)
        return x * factors[..., self._labels]

    def _prox_jac(self, x: Array, t: Step) -> Array:
        jac = np.zeros((x.size, x.size), dtype=x.dtype)
        steps = np.broadcast_to(t * self.weight, len(self.groups))
        for group, s in zip(self.groups, steps, strict=True):
            jac[np.ix_(group, group)] = shrink_jacobian(x[group], float(s))
        return jac

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        weights = np.broadcast_to(self.weight, len(self.groups))[self._labels]
        return (KernelForm(Kind.GROUPS, size, a=weights, groups=self.groups),)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Copy whose weights have type `dtype`."""
        return GroupL2(cast(self.weight, dtype), self.groups)

    def __repr__(self) -> str:
        return f"GroupL2(weight={show(self.weight)}, groups=<{len(self.groups)} of {self.dim} coordinates>)"


def _partition(groups: Sequence[Any] | Array) -> tuple[Array, ...]:
    """Return groups as index arrays, or raise unless they hold each of 0..d-1 exactly once."""
    expected = "index arrays that hold every coordinate 0..d-1 once, or one integer label per coordinate"
    try:
        if all(np.ndim(group) == 0 for group in groups):
            labels = np.asarray(groups)
            members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        else:
            labels, members = None, [np.array(group) for group in groups]
    except (TypeError, ValueError):
        raise FunctionError(f"GroupL2: groups is {groups!r}; expected {expected}") from None
    arrays = members if labels is None else [labels]
    if not members or any(a.ndim != 1 or a.size == 0 or a.dtype.kind not in "iu" for a in arrays):
        raise FunctionError(f"GroupL2: groups has an empty group or entries that are not integers; expected {expected}")
    flat = np.sort(np.concatenate(members))
    if not np.array_equal(flat, np.arange(flat.size)):
        wrong = int(np.flatnonzero(flat != np.arange(flat.size))[0])
        raise FunctionError(f"GroupL2: groups lack coordinate {wrong}, or repeat one before it; expected {expected}")
    return tuple(freeze(m.astype(np.intp)) for m in members)
