"""Functions that are sums over coordinates, f(x) = sum_j phi(x_j; parameters_j).

Each parameter is one number for all coordinates or a vector with one per coordinate, so the functions of
several agents can be laid end to end as one function of the same class. Where the prox has no closed form, it is the
root of an increasing function, found for all coordinates at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._base import Array, Function, Value
from npga.functions._parameters import Parameter, cast, parameter, show

# Newton needs about 20 steps in the worst case met here; what is left after 60 is bisected.
NEWTON_STEPS = 60


class Elementwise(Function):
    """Base of the functions that act on each coordinate by itself.

    ``type(f)(*f.parameters)`` builds f again, and `kind` names its closed form for code generators.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters, in the order of the constructor."""

    # The parameters that w multiplies in w f, and those to which c is added in f(. - c) (None: no closed
    # form).
    _scaled: ClassVar[tuple[str, ...]] = ()
    _shifted: ClassVar[tuple[str, ...] | None] = None

    def _store(self, **parameters: Parameter) -> None:
        lengths = {name: p.size for name, p in parameters.items() if not isinstance(p, float)}
        if len(set(lengths.values())) > 1:
            listing = ", ".join(f"{name} {size}" for name, size in lengths.items())
            raise FunctionError(
                f"{type(self).__name__}: the parameters have different lengths ({listing}); "
                "expected numbers, or vectors of one length"
            )
        self._set(**parameters, _dim=next(iter(lengths.values()), None))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Numbers or vectors with one entry per coordinate, in the order of the constructor."""
        return tuple(getattr(self, name) for name in self.names)

    @property
    def dim(self) -> int | None:
        """Length of the vector parameters, or None when all parameters are numbers."""
        return self.__dict__.get("_dim")

    @property
    def is_separable(self) -> bool:
        """True: a sum over coordinates."""
        return True

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Copy whose vector parameters have type `dtype`."""
        return self._rebuild(*(cast(p, dtype) for p in self.parameters))

    def scale(self, weight: float) -> Function:
        """Multiple, ``weight * f``, of the same class."""
        if not 0.0 < weight < np.inf:
            return super().scale(weight)
        return self._rebuild(*(p * weight if n in self._scaled else p for n, p in self._items()))

    def shift(self, center: npt.ArrayLike) -> Function:
        """Translate, x -> f(x - center), of the same class where that has a parameter for it."""
        if self._shifted is None:
            return super().shift(center)
        moved = parameter(type(self).__name__, "center of the shift", center)
        return self._rebuild(*(p + moved if n in self._shifted else p for n, p in self._items()))

    def _items(self) -> zip[tuple[str, Parameter]]:
        return zip(self.names, self.parameters, strict=True)

    def _rebuild(self, *parameters: Any) -> Self:
        return type(self)(*parameters)

    def _terms(self, x: Array) -> Array:
        """Value of phi at every coordinate."""
        raise NotImplementedError

    def _value(self, x: Array) -> Value:
        return self._terms(x).sum(axis=-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={show(p)}' for n, p in self._items())})"


def smallest(p: Parameter) -> float:
    """Smallest entry of a parameter."""
    return float(np.min(p))


def largest(p: Parameter) -> float:
    """Largest entry of a parameter."""
    return float(np.max(p))


def filled(p: Parameter, x: Array) -> Array:
    """Repeat the parameter in a new array of the shape of x."""
    return np.zeros_like(x) + p


def increasing_root(
    residual: Callable[[Array], tuple[Array, Array, Array]], lower: Array, upper: Array, start: Array
) -> Array:
    """Solve F(v) = 0 in every coordinate by Newton's method kept inside a shrinking bracket.

    A coordinate is finished when |F| is at most the rounding error of its own evaluation, or when the next
    step would not change v. Bisection takes over where Newton leaves the bracket or is slow; it ends
    because a bracket between two neighbouring floats has no midpoint.

    Parameters
    ----------
    residual
        v -> (F(v), F'(v), rounding error of F(v)), with F' > 0.
    lower, upper
        Bracket: F(lower) <= 0 <= F(upper).
    start
        First guess inside the bracket.
    """
    v, eps, step = start, np.finfo(start.dtype).eps, 0
    while True:
        F, slope, noise = residual(v)
        lower = np.where(F < 0.0, v, lower)
        upper = np.where(F > 0.0, v, upper)
        middle = lower + 0.5 * (upper - lower)
        newton = v - F / slope
        inside = (lower <= newton) & (newton <= upper)
        following = np.where(inside & (step < NEWTON_STEPS), newton, middle)
        finished = (np.abs(F) <= noise) | np.isnan(F) | (np.abs(following - v) <= eps * np.abs(v))
        if np.all(finished):
            return v
        v, step = np.where(finished, v, following), step + 1
