"""Functions made from one function: multiples and translates; and the facts of functions made from several."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._base import Function, Value
from npga.functions._kernel_form import KernelForm
from npga.functions._parameters import Array, Parameter, Step, cast, parameter, positive, scalar, show


def _of_f(name: str) -> Any:
    return property(lambda self: getattr(self.f, name), doc="That of f.")


class _Affine(Function):
    """x -> w f(x - c), with the facts of f unless a subclass says otherwise.

    The conjugate is y -> w f*(y/w) + c.y, so its prox is x -> w prox_{(t/w) f*}((x - t c)/w).
    """

    f: Function
    weight: float = 1.0
    center: Parameter = 0.0

    dim, mu, L = _of_f("dim"), _of_f("mu"), _of_f("L")
    is_indicator, is_zero, is_point = _of_f("is_indicator"), _of_f("is_zero"), _of_f("is_point")
    is_quadratic, is_separable = _of_f("is_quadratic"), _of_f("is_separable")
    has_grad, has_hess = _of_f("has_grad"), _of_f("has_hess")
    has_prox, has_prox_jac = _of_f("has_prox"), _of_f("has_prox_jac")
    _per_coordinate = _of_f("_per_coordinate")

    def _value(self, x: Array) -> Value:
        return self.weight * self.f.value(x - self.center)

    def _value_within(self, x: Array, tol: float) -> Value:
        return self.weight * self.f.value(x - self.center, tol)

    def _grad(self, x: Array) -> Array:
        return self.weight * self.f.grad(x - self.center)

    def _prox(self, x: Array, t: Step) -> Array:
        return self.center + self.f.prox(x - self.center, self.weight * t)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        return self.weight * self.f.conj_prox((x - t * self.center) / self.weight, t / self.weight)

    def _hess(self, x: Array) -> Array:
        return self.weight * self.f.hess(x - self.center)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return self.f.prox_jac(x - self.center, self.weight * t)

    def _conj_prox_jac(self, x: Array, t: Step) -> Array:
        return self.f.conj_prox_jac((x - t * self.center) / self.weight, t / self.weight)


class Scaled(_Affine):
    """Multiple of a function, x -> w f(x), also written ``w * f``.

    Parameters
    ----------
    f
        The function.
    weight
        Positive number w.
    """

    def __init__(self, f: Function, weight: float) -> None:
        self._set(f=f, weight=scalar("Scaled", "weight", positive("Scaled", "weight", weight)))

    @property
    def mu(self) -> float:
        """Weight times that of f."""
        return self.weight * self.f.mu

    @property
    def L(self) -> float:
        """Weight times that of f."""
        return self.weight * self.f.L

    def scale(self, weight: float) -> Function:
        """``weight * (w f)`` as one multiple of f."""
        return Scaled(self.f, scalar("Scaled", "weight", positive("Scaled", "weight", weight)) * self.weight)

    def kernel(self, size: int) -> tuple[KernelForm, ...] | None:
        """Those of f, multiplied."""
        forms = self.f.kernel(size)
        return None if forms is None else tuple(form.scaled(self.weight) for form in forms)

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Multiple of ``f.astype(dtype)``."""
        return Scaled(self.f.astype(dtype), self.weight)

    def __repr__(self) -> str:
        return f"Scaled({self.f!r}, weight={show(self.weight)})"


class Shifted(_Affine):
    """Translate of a function, x -> f(x - c), also written ``f.shift(c)``.

    Parameters
    ----------
    f
        The function.
    center
        Translation c: a vector, or one number for all coordinates.
    """

    def __init__(self, f: Function, center: npt.ArrayLike) -> None:
        checked = parameter("Shifted", "center", center)
        if not isinstance(checked, float) and f.dim not in (None, checked.size):
            raise FunctionError(
                f"Shifted: center has {checked.size} entries for {f!r}; expected {f.dim}, one per coordinate"
            )
        self._set(f=f, center=checked)

    @property
    def dim(self) -> int | None:
        """That of f, or the length of the center."""
        return self.f.dim if isinstance(self.center, float) else self.center.size

    def kernel(self, size: int) -> tuple[KernelForm, ...] | None:
        """Those of f, translated."""
        forms = self.f.kernel(size)
        if forms is None:
            return None
        centers = np.split(np.broadcast_to(self.center, size), np.cumsum([form.size for form in forms])[:-1])
        return tuple(form.shifted(center) for form, center in zip(forms, centers, strict=True))

    def astype(self, dtype: npt.DTypeLike) -> Function:
        """Translate of ``f.astype(dtype)``."""
        return Shifted(self.f.astype(dtype), cast(self.center, dtype))

    def __repr__(self) -> str:
        return f"Shifted({self.f!r}, center={show(self.center)})"


def _of_all(name: str) -> Any:
    return property(lambda self: all(getattr(part, name) for part in self.parts), doc="Whether it holds for all parts.")


class OfParts(Function):
    """A sum of functions that has what all its parts have, unless a subclass says otherwise."""

    parts: tuple[Function, ...]

    is_zero, is_point, is_quadratic = _of_all("is_zero"), _of_all("is_point"), _of_all("is_quadratic")
    is_separable, has_grad, has_hess = _of_all("is_separable"), _of_all("has_grad"), _of_all("has_hess")
    has_prox, has_prox_jac = _of_all("has_prox"), _of_all("has_prox_jac")

    @property
    def is_indicator(self) -> bool:
        """Whether the parts that are not zero are indicators, at least one of them."""
        return not self.is_zero and all(part.is_indicator or part.is_zero for part in self.parts)
