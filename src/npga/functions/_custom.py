"""A convex function from the user's own callables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._base import Function, Value
from npga.functions._parameters import Array, Step

Pointwise: TypeAlias = Callable[[Array], Any]
Stepped: TypeAlias = Callable[[Array, Any], Any]

ROLES = ("value", "grad", "prox", "conj_prox", "hess", "prox_jac")


def _declared(name: str) -> Any:
    return property(lambda self: self._facts[name], doc="As declared.")


def _given(role: str) -> Any:
    return property(lambda self: self._calls[role] is not None, doc="Whether its callable was given.")


class Custom(Function):
    """A function given by callables; `npga.functions.check` tests whether they and the facts agree.

    Callables act on one vector, and on a stack of points row by row; with ``vectorized=True`` they take a
    stack as it is. The facts are taken on trust. Of `prox` and `conj_prox` one is enough: Moreau's identity
    gives the other.

    Parameters
    ----------
    value
        x -> f(x); infinity outside the domain.
    grad
        x -> gradient, if f has one.
    prox
        (x, t) -> argmin over u of f(u) + |u - x|^2 / (2 t), if it is known.
    mu, L
        Modulus of strong convexity, and Lipschitz constant of the gradient.
    conj_prox
        (x, t) -> prox of t f*.
    hess
        x -> Hessian, as its diagonal or as a matrix.
    prox_jac
        (x, t) -> Jacobian of the prox, as its diagonal or as a matrix.
    is_indicator, is_zero, is_point, is_quadratic, is_separable
        Further facts, as in `Function`.
    dim
        Number of coordinates, or None for any.
    vectorized
        Whether value, grad, prox and conj_prox act along the last axis of arrays of any shape.
    name
        Text for `repr`.
    """

    def __init__(
        self,
        value: Pointwise,
        grad: Pointwise | None = None,
        prox: Stepped | None = None,
        mu: float = 0.0,
        L: float = np.inf,
        *,
        conj_prox: Stepped | None = None,
        hess: Pointwise | None = None,
        prox_jac: Stepped | None = None,
        is_indicator: bool = False,
        is_zero: bool = False,
        is_point: bool = False,
        is_quadratic: bool = False,
        is_separable: bool = False,
        dim: int | None = None,
        vectorized: bool = False,
        name: str = "Custom",
    ) -> None:
        given = (value, grad, prox, conj_prox, hess, prox_jac)
        calls = dict(zip(ROLES, given, strict=True))
        for role, call in calls.items():
            if not callable(call) and (role == "value" or call is not None):
                raise FunctionError(f"{name}: {role} is {call!r}; expected a callable; wrap constants in a lambda")
        if not 0.0 <= mu <= L:
            raise FunctionError(f"{name}: mu is {mu} and L is {L}; expected 0 <= mu <= L; check the two constants")
        facts = {
            "dim": dim,
            "mu": float(mu),
            "L": float(L),
            "is_indicator": is_indicator or is_point,  # a point is an indicator
            "is_zero": is_zero,
            "is_point": is_point,
            "is_quadratic": is_quadratic,
            "is_separable": is_separable,
        }
        self._set(_calls=calls, _facts=facts, _vectorized=vectorized, _name=name)

    _calls: dict[str, Callable[..., Any] | None]
    _facts: dict[str, Any]
    _vectorized: bool
    _name: str

    dim, mu, L = _declared("dim"), _declared("mu"), _declared("L")
    is_indicator, is_zero, is_point = _declared("is_indicator"), _declared("is_zero"), _declared("is_point")
    is_quadratic, is_separable = _declared("is_quadratic"), _declared("is_separable")
    has_grad, has_hess, has_prox_jac = _given("grad"), _given("hess"), _given("prox_jac")

    @property
    def has_prox(self) -> bool:
        """Whether a prox was given, of the function or of its conjugate."""
        return self._calls["prox"] is not None or self._calls["conj_prox"] is not None

    def _value(self, x: Array) -> Value:
        return self._ask("value", x, (), x.shape[:-1])[()]

    def _grad(self, x: Array) -> Array:
        return self._ask("grad", x, (), x.shape)

    def _prox(self, x: Array, t: Step) -> Array:
        if self._calls["prox"] is None:
            return x - t * self._ask("conj_prox", x / t, (1.0 / t,), x.shape)
        return self._ask("prox", x, (t,), x.shape)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        if self._calls["conj_prox"] is None:
            return super()._conj_prox(x, t)
        return self._ask("conj_prox", x, (t,), x.shape)

    def _hess(self, x: Array) -> Array:
        return self._call("hess", x)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return self._call("prox_jac", x, t)

    def _ask(self, role: str, x: Array, steps: tuple[Step, ...], shape: tuple[int, ...]) -> Array:
        """Answer for a stack of points: in one call if the callable is vectorised, else row by row."""
        if self._vectorized or x.ndim == 1:
            plain = tuple(float(t[0]) if x.ndim == 1 and np.shape(t) == (1,) else t for t in steps)  # type: ignore[index]
            answer = self._call(role, x, *plain)
        else:
            rows = x.reshape(-1, x.shape[-1])
            columns = [np.broadcast_to(t, (*x.shape[:-1], np.shape(t)[-1] if np.ndim(t) else 1)) for t in steps]
            flat = [column.reshape(len(rows), -1) for column in columns]
            per_row = [[float(t[0]) if t.size == 1 else t for t in column] for column in flat]
            answers = [self._call(role, row, *ts) for row, *ts in zip(rows, *per_row, strict=True)]
            answer = np.stack(answers).reshape(x.shape[:-1] + answers[0].shape) if answers else np.zeros(shape, x.dtype)
        if answer.shape != shape:
            raise FunctionError(
                f"{self!r}: {role} answered with shape {answer.shape} to an argument of shape {x.shape}; "
                f"expected {shape}; check the callable, and whether it is vectorized"
            )
        return answer

    def _call(self, role: str, x: Array, *steps: Step) -> Array:
        call = self._calls[role]
        assert call is not None  # the public methods have checked
        # A copy that cannot be written: the caller's array stays as it was, whatever the callable does.
        point = x.copy()
        point.flags.writeable = False
        return np.array(call(point, *steps), dtype=x.dtype)

    def astype(self, dtype: npt.DTypeLike) -> Function:  # noqa: ARG002
        """Return the function itself: answers always take the type of the argument."""
        return self

    def __repr__(self) -> str:
        given = ", ".join(role for role, call in self._calls.items() if call is not None)
        return f"{self._name}({given})"
