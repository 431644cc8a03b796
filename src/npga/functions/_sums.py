"""Sums f + g of functions of the same variables, where the prox of the sum is known or every part has a gradient.

Two rules cover what has a prox. With a quadratic beside it, completing the square moves everything into the point and
the step (Parikh and Boyd 2014, section 2.2):

    prox_{t (f + q.x + sum_k (d_k/2)|x - c_k|^2)}(x) = prox_{s f}((x - t q + t sum_k d_k c_k)/(1 + t d)),
    d = sum_k d_k,   s = t/(1 + t d)

and on the real line, bounds are met by clipping: prox_{t (f + [lo, hi])}(x) = clip(prox_{t f}(x), lo, hi), so the same
holds for sums over coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._base import Function, Value
from npga.functions._calculus import OfParts
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Array, Parameter, Step
from npga.functions._piecewise import L1, ElasticNet
from npga.functions._sets import Box
from npga.functions._squares import Linear, SquaredNorm, Zero


def add(f: Function, g: Function) -> Function:
    """f + g, as one of the closed forms where there is one, else as a `Sum`."""
    parts: list[Function] = []
    for part in (*_parts(f), *_parts(g)):
        if part.is_zero and part.dim is None:
            continue
        for k, other in enumerate(parts):
            merged = _merged(other, part)
            if merged is not None:
                parts[k] = merged
                break
        else:
            parts.append(part)
    if len(parts) < 2:
        return parts[0] if parts else Zero()
    return Sum(parts)


def _parts(f: Function) -> tuple[Function, ...]:
    return f.parts if isinstance(f, Sum) else (f,)


def _merged(f: Function, g: Function) -> Function | None:
    """Two functions as one of a class that holds both."""
    if None not in (f.dim, g.dim) and f.dim != g.dim:
        return None  # left to `Sum`, which says that they do not match
    if isinstance(f, Linear) and isinstance(g, Linear):
        return Linear(f.c + g.c)
    if isinstance(f, L1) and isinstance(g, L1):
        return L1(f.weight + g.weight)
    nets = [_as_elastic_net(part) for part in (f, g)]
    if nets[0] is not None and nets[1] is not None:
        (l1, l2), (m1, m2) = nets[0], nets[1]
        return ElasticNet(l1 + m1, l2 + m2)
    first, second = _single_form(f), _single_form(g)
    if first is not None and second is not None and first.kind is second.kind is Kind.INTERVAL:
        return Box(np.maximum(first.a, second.a), np.minimum(first.b, second.b))
    return None


def _as_elastic_net(f: Function) -> tuple[Parameter, Parameter] | None:
    if isinstance(f, L1):
        return f.weight, 0.0
    if isinstance(f, SquaredNorm) and not np.any(f.center):
        return 0.0, f.weight
    return (f.l1, f.l2) if isinstance(f, ElasticNet) else None


def _single_form(f: Function) -> KernelForm | None:
    """The kernel form of f if it has one for all coordinates."""
    forms = f.kernel(f.dim or 1)
    return forms[0] if forms is not None and len(forms) == 1 else None


def _number(p: Any) -> Parameter:
    """A parameter whose numbers are Python floats, which follow the type of the arrays they meet."""
    return float(p) if np.ndim(p) == 0 else p


class _Shape(NamedTuple):
    """core(x) + sum_j (tilt_j x_j + (ridge_j/2) x_j^2 + constant_j) on lo <= x <= hi."""

    core: Function
    tilt: Parameter
    ridge: Parameter
    lo: Parameter
    hi: Parameter
    constant: Parameter

    @property
    def is_bounded(self) -> bool:
        return bool(np.any(np.greater(self.lo, -np.inf)) or np.any(np.less(self.hi, np.inf)))

    @property
    def has_prox(self) -> bool:
        uneven = np.ndim(self.ridge) > 0 and float(np.ptp(self.ridge)) > 0.0
        return self.core.has_prox and (self.core.is_separable or not (self.is_bounded or uneven))


class Sum(OfParts):
    """Sum of functions of the same variables, f(x) = sum_k f_k(x), also written ``f + g``.

    It has a gradient where all parts have one. It has a prox where, apart from linear functions and squares
    (`Linear`, `SquaredNorm`, `SquaredLoss`), there is at most one function, with a prox; beside intervals (`Box`,
    `NonNegative`, `Equality`, `LessEqual`, `GreaterEqual`) and squares with a weight for each coordinate that function
    must be a sum over coordinates. What has neither is refused.

    Parameters
    ----------
    parts
        The functions f_k.
    """

    def __init__(self, parts: Sequence[Function]) -> None:
        for position, part in enumerate(parts):
            if not isinstance(part, Function):
                raise FunctionError(
                    f"Sum: part {position} is a {type(part).__name__}; expected a function; wrap callables in Custom"
                )
        dims = {part.dim for part in parts} - {None}
        if len(dims) > 1 or not parts:
            listing = ", ".join(map(repr, parts)) or "no parts"
            raise FunctionError(f"Sum: got {listing}; expected functions of the same number of variables")
        self._set(parts=tuple(parts), _dim=next(iter(dims), None))
        if not (self.has_prox or self.has_grad):
            raise FunctionError(
                f"{' + '.join(map(repr, self.parts))}: the prox of this sum is not known, and not every part has a "
                "gradient; expected at most one function beside linear ones, squares and (for sums over coordinates) "
                "intervals; give one of them to f and the other to g, or to another agent, or wrap the sum in Custom"
            )
        if self._shape is not None and self._shape.is_bounded:
            feasible = self.prox(np.zeros(self.dim or 1), 1.0)
            if not np.isfinite(self.value(feasible)):
                raise FunctionError(f"{self!r} is infinite everywhere; expected parts that meet; widen the bounds")

    @cached_property
    def _shape(self) -> _Shape | None:
        """The parts sorted, or None if no rule gives the prox."""
        cores: list[Function] = []
        tilt, ridge, lo, hi, constant = (_number(start) for start in (0.0, 0.0, -np.inf, np.inf, 0.0))
        for part in self.parts:
            form = _single_form(part)
            if form is not None and form.kind is Kind.LINEAR:
                tilt, constant = tilt + form.a, constant - form.a * form.c
            elif form is not None and form.kind is Kind.SQUARE:
                tilt, ridge = tilt - form.a * form.c, ridge + form.a
                constant = constant + form.b + 0.5 * form.a * form.c * form.c
            elif form is not None and form.kind is Kind.INTERVAL:
                lo, hi = _number(np.maximum(lo, form.a)), _number(np.minimum(hi, form.b))
            elif not part.is_zero:
                cores.append(part)
        shape = _Shape(cores[0] if cores else Zero(), tilt, ridge, lo, hi, constant)
        return shape if len(cores) < 2 and shape.has_prox else None

    # ---------------------------------------------------------------- facts

    @property
    def dim(self) -> int | None:
        """Number of variables of the parts, or None if none of them says."""
        fact: int | None = self.__dict__["_dim"]
        return fact

    @property
    def mu(self) -> float:
        """Sum over the parts, a bound from below; the least second derivative of a quadratic sum over coordinates."""
        if self.is_quadratic and self.is_separable:
            return float(np.min(self._hess(np.zeros(self.dim or 1))))
        return sum(part.mu for part in self.parts)

    @property
    def L(self) -> float:
        """Sum over the parts, a bound from above; the largest second derivative of a quadratic sum over coordinates."""
        if self.is_quadratic and self.is_separable:
            return float(np.max(self._hess(np.zeros(self.dim or 1))))
        return sum(part.L for part in self.parts)

    is_point = False

    @property
    def has_prox(self) -> bool:
        """Whether one of the two rules gives it."""
        return self._shape is not None

    @property
    def has_prox_jac(self) -> bool:
        """Whether it has a prox, made from a function that does."""
        return self._shape is not None and self._shape.core.has_prox_jac

    # ---------------------------------------------------------------- mathematics

    def _value(self, x: Array) -> Value:
        return sum(part.value(x) for part in self.parts)

    def _value_within(self, x: Array, tol: float) -> Value:
        return sum(part.value(x, tol) for part in self.parts)

    def _grad(self, x: Array) -> Array:
        return np.asarray(sum(part.grad(x) for part in self.parts))

    def _hess(self, x: Array) -> Array:
        blocks = [part.hess(x) for part in self.parts]
        if all(block.ndim == 1 for block in blocks):
            return np.asarray(sum(blocks))
        return np.asarray(sum(np.diag(block) if block.ndim == 1 else block for block in blocks))

    def _prox(self, x: Array, t: Step) -> Array:
        shape, y, s, _ = self._completed(x, t)
        return np.clip(shape.core.prox(y, s), shape.lo, shape.hi)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        shape, y, s, shrink = self._completed(x, t)
        u, jac = shape.core.prox(y, s), shape.core.prox_jac(y, s)
        free = ((shape.lo < u) & (u < shape.hi)) * np.asarray(shrink, x.dtype)
        return np.asarray(jac * free if jac.ndim == 1 else free[:, np.newaxis] * jac)

    def _completed(self, x: Array, t: Step) -> tuple[_Shape, Array, Step, Step]:
        """The rule, the point and the step at which its function takes its prox, and 1/(1 + t ridge)."""
        shape = self._shape
        assert shape is not None  # the public methods have checked
        shrink = 1.0 / (1.0 + t * shape.ridge)
        return shape, np.asarray(shrink * (x - t * shape.tilt)), t * shrink, shrink

    def kernel(self, size: int) -> tuple[KernelForm, ...] | None:
        """That of the one function beside the others, BENT; a SQUARE where there is none."""
        shape = self._shape
        forms = None if shape is None else shape.core.kernel(size)
        if shape is None or forms is None or len(forms) > 1:
            return None
        _, tilt, ridge, lo, hi, constant = shape
        if forms[0].kind is Kind.ZERO and np.all(ridge) and not shape.is_bounded:
            # (d/2) x^2 + q x = (d/2)(x + q/d)^2 - q^2/(2 d)
            return (KernelForm(Kind.SQUARE, size, a=ridge, b=constant - 0.5 * tilt * tilt / ridge, c=-tilt / ridge),)
        return (KernelForm(Kind.BENT, size, b=constant, inner=forms[0], tilt=tilt, ridge=ridge, lo=lo, hi=hi),)

    def scale(self, weight: float) -> Function:
        """Sum of the multiples."""
        return Sum([part.scale(weight) for part in self.parts])

    def shift(self, center: npt.ArrayLike) -> Function:
        """Sum of the translates."""
        return Sum([part.shift(center) for part in self.parts])

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Sum of the parts cast to `dtype`."""
        return Sum([part.astype(dtype) for part in self.parts])

    def __repr__(self) -> str:
        return f"Sum([{', '.join(map(repr, self.parts))}])"
