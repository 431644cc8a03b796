"""What every convex function of this room can do and says about itself.

A function f is closed, proper and convex on R^d and acts along the LAST axis: an array of shape (n, d) is n
points, and one call answers for all of them. Subclasses write the underscored methods; the public ones here
check their arguments once, in one place. Most functions are sums over coordinates, f(x) = sum_j phi(x_j;
parameters_j): each parameter is one number for all coordinates or a vector with one per coordinate, so the functions
of several agents can be laid end to end as one function of the same class.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from npga.errors import FunctionError
from npga.functions._kernel_form import KernelForm
from npga.functions._parameters import Array, Parameter, Step, cast, parameter, show

# A NumPy scalar for one point, an array for a stack of points: like a NumPy reduction, it depends on the
# argument.
Value: TypeAlias = Any


class Function(ABC):
    """A closed proper convex function on R^d.

    Objects are immutable: parameters are copied on the way in, and arrays among them are read-only.
    """

    kind: ClassVar[str] = ""
    """Name of the closed form of an elementwise function; empty for all others."""

    # NumPy scalars must leave `np.float64(2.0) * f` to `__rmul__`.
    __array_ufunc__ = None

    # ---------------------------------------------------------------- facts

    @property
    def dim(self) -> int | None:
        """Number of coordinates d, or None when any number is accepted."""
        return None

    @property
    def mu(self) -> float:
        """Modulus of strong convexity: f - (mu/2)|x|^2 is convex. 0 for indicators."""
        return 0.0

    @property
    def L(self) -> float:
        """Lipschitz constant of the gradient; infinite when f is not smooth."""
        return np.inf

    @property
    def is_indicator(self) -> bool:
        """Whether f takes the values 0 and infinity, and no others."""
        return False

    @property
    def is_zero(self) -> bool:
        """Whether f is identically zero."""
        return False

    @property
    def is_point(self) -> bool:
        """Whether f is the indicator of a single point."""
        return False

    @property
    def is_quadratic(self) -> bool:
        """Whether f is finite with a constant Hessian (linear functions included)."""
        return False

    @property
    def is_separable(self) -> bool:
        """Whether f is a sum of functions of one coordinate each."""
        return False

    @property
    def has_grad(self) -> bool:
        """Whether `grad` is available."""
        return type(self)._grad is not Function._grad

    @property
    def has_prox(self) -> bool:
        """Whether `prox` and `conj_prox` are available."""
        return type(self)._prox is not Function._prox

    @property
    def has_hess(self) -> bool:
        """Whether `hess` is available."""
        return type(self)._hess is not Function._hess

    @property
    def has_prox_jac(self) -> bool:
        """Whether `prox_jac` and `conj_prox_jac` are available."""
        return type(self)._prox_jac is not Function._prox_jac

    # ---------------------------------------------------------------- calls

    def value(self, x: npt.ArrayLike, tol: float | None = None) -> Value:
        """f(x), of shape ``x.shape[:-1]``; a scalar when x is one point.

        Parameters
        ----------
        x
            One point, or a stack of points along the leading axes.
        tol
            How far x may be off the set of an indicator, ``tol * (1 + |bound|)`` for each bound; rounding alone
            by default.
        """
        x = self._point(x)
        return self._value(x) if tol is None else self._value_within(x, float(tol))

    __call__ = value

    def grad(self, x: npt.ArrayLike) -> Array:
        """Gradient of f at x, of the shape of x."""
        self._need(self.has_grad, "gradient", "use the function where a prox is enough, as g or h")
        return self._grad(self._point(x))

    def prox(self, x: npt.ArrayLike, t: npt.ArrayLike) -> Array:
        """Minimise f(u) + |u - x|^2 / (2 t) over u.

        Parameters
        ----------
        x
            One point, or a stack of points along the leading axes.
        t
            Positive number, or array that broadcasts against x with last dimension 1 (one number per
            point). A separable function also takes one number per coordinate, and every other function
            if they are the same for all of its coordinates.
        """
        self._need(self.has_prox, "prox", "use the function where a gradient is enough, as f")
        return self._prox(*self._point_and_step(x, t))

    def conj_prox(self, x: npt.ArrayLike, t: npt.ArrayLike) -> Array:
        """Prox of the convex conjugate: minimise f*(u) + |u - x|^2 / (2 t) over u."""
        self._need(self.has_prox, "prox of its conjugate", "use the function where a gradient is enough, as f")
        return self._conj_prox(*self._point_and_step(x, t))

    def hess(self, x: npt.ArrayLike) -> Array:
        """Hessian of f at the one point x: its diagonal (1-D) when f is separable, else a matrix (2-D)."""
        self._need(self.has_hess, "Hessian", "use a first-order method")
        return self._hess(self._single(x))

    def prox_jac(self, x: npt.ArrayLike, t: npt.ArrayLike) -> Array:
        """Generalized Jacobian of ``prox(., t)`` at the one point x, one element of it: a diagonal or a matrix."""
        self._need(self.has_prox_jac, "Jacobian of its prox", "use a first-order method")
        return self._prox_jac(*self._single_and_step(x, t))

    def conj_prox_jac(self, x: npt.ArrayLike, t: npt.ArrayLike) -> Array:
        """Generalized Jacobian of ``conj_prox(., t)`` at the one point x, one element of it."""
        self._need(self.has_prox_jac, "Jacobian of its prox", "use a first-order method")
        return self._conj_prox_jac(*self._single_and_step(x, t))

    def kernel(self, size: int) -> tuple[KernelForm, ...] | None:  # noqa: ARG002
        """Formulas of consecutive runs of coordinates, `size` in all, as kernels read them; None if there are none."""
        return None

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> Function:
        """The function with array parameters of type `dtype` (float32 or float64)."""

    # ---------------------------------------------------------------- calculus

    def scale(self, weight: float) -> Function:
        """Multiple, ``weight * f``, in closed form where the class has one."""
        from npga.functions._calculus import Scaled

        return Scaled(self, weight)

    def shift(self, center: npt.ArrayLike) -> Function:
        """Translate, x -> f(x - center), in closed form where the class has one."""
        from npga.functions._calculus import Shifted

        return Shifted(self, center)

    def __mul__(self, weight: object) -> Function:
        return self.scale(float(weight)) if isinstance(weight, int | float | np.number) else NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: object) -> Function:
        """Sum, where its prox is known or both have gradients; see `npga.functions.Sum`."""
        from npga.functions._sums import add

        return add(self, other) if isinstance(other, Function) else NotImplemented

    def __radd__(self, other: object) -> Function:
        # sum([f, g]) begins with 0.
        return self if isinstance(other, int | float) and other == 0 else NotImplemented

    # ---------------------------------------------------------------- mathematics, written by subclasses

    @abstractmethod
    def _value(self, x: Array) -> Value: ...

    def _value_within(self, x: Array, tol: float) -> Value:  # noqa: ARG002
        return self._value(x)

    def _grad(self, x: Array) -> Array:
        raise NotImplementedError

    def _prox(self, x: Array, t: Step) -> Array:
        raise NotImplementedError

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # Moreau: x = prox_{t f*}(x) + t prox_{f/t}(x/t).
        return x - t * self._prox(x / t, 1.0 / t)

    def _hess(self, x: Array) -> Array:
        raise NotImplementedError

    def _prox_jac(self, x: Array, t: Step) -> Array:
        raise NotImplementedError

    def _conj_prox_jac(self, x: Array, t: Step) -> Array:
        jac = self._prox_jac(x / t, 1.0 / t)
        return (1.0 - jac) if jac.ndim == 1 else np.eye(x.size, dtype=jac.dtype) - jac

    # ---------------------------------------------------------------- arguments

    def _point(self, x: npt.ArrayLike) -> Array:
        x = np.asarray(x)
        if x.dtype != np.float64 and x.dtype != np.float32:
            x = x.astype(np.float64)
        if x.ndim == 0 or (self.dim is not None and x.shape[-1] != self.dim):
            length = "at least one axis" if self.dim is None else f"{self.dim} coordinates along the last axis"
            raise FunctionError(
                f"{self!r} got an argument of shape {x.shape}; expected {length}; "
                "pass one point as a vector, or a stack of points as rows"
            )
        return x

    def _single(self, x: npt.ArrayLike) -> Array:
        x = self._point(x)
        if x.ndim != 1:
            raise FunctionError(f"{self!r} got an argument of shape {x.shape}; expected one point; call once per row")
        return x

    def _single_and_step(self, x: npt.ArrayLike, t: npt.ArrayLike) -> tuple[Array, Step]:
        x = self._single(x)
        if np.ndim(t) == 0 or np.shape(t) != x.shape:
            return x, self._scalar_step(t)  # type: ignore[arg-type]
        x, steps = self._point_and_step(x, t)
        return x, float(steps[0]) if np.size(steps) == 1 else steps  # type: ignore[index]

    def _scalar_step(self, t: float) -> float:
        if np.ndim(t) != 0 or not 0.0 < t < np.inf:
            raise FunctionError(f"{self!r} got the step t = {t}; expected one positive finite number")
        return float(t)

    def _point_and_step(self, x: npt.ArrayLike, t: npt.ArrayLike) -> tuple[Array, Step]:
        x = self._point(x)
        if np.ndim(t) == 0:
            # A Python float, unlike a NumPy scalar, leaves float32 as it is.
            return x, self._scalar_step(t)  # type: ignore[arg-type]
        t = np.asarray(t, dtype=x.dtype)
        if not np.all((t > 0.0) & (t < np.inf)):
            raise FunctionError(
                f"{self!r} got steps t between {t.min()} and {t.max()}; expected positive finite numbers"
            )
        if t.shape[-1] != 1 and not (self._per_coordinate and t.shape[-1] == x.shape[-1]):
            t = self._one_step_per_point(x, t)
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, t.shape)), t

    @property
    def _per_coordinate(self) -> bool:
        """Whether the prox takes a step for each coordinate; sums leave it to their parts."""
        return self.is_separable

    def _one_step_per_point(self, x: Array, t: Array) -> Array:
        if t.shape[-1] == x.shape[-1] and np.array_equal(t, np.broadcast_to(t[..., :1], t.shape)):
            return t[..., :1]
        raise FunctionError(
            f"{self!r} got steps t of shape {t.shape} for an argument of shape {x.shape}; expected last dimension 1, "
            "one step per point; write t[..., None]. Only a sum over coordinates takes a step for each of them"
        )

    def _need(self, available: bool, what: str, remedy: str) -> None:
        if not available:
            raise FunctionError(f"{self!r} has no {what}; one was asked for; {remedy}")

    # ---------------------------------------------------------------- immutability

    def _set(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    def __setattr__(self, name: str, value: object) -> None:
        raise FunctionError(f"{self!r} is immutable and {name!r} was assigned; build a new function instead")

    def __delattr__(self, name: str) -> None:
        raise FunctionError(f"{self!r} is immutable and {name!r} was deleted; build a new function instead")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling loses the read-only flag.
        for attribute in state.values():
            if isinstance(attribute, np.ndarray):
                attribute.flags.writeable = False
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Parametric(Function):
    """Base of the functions that the parameters of their constructor define, numbers, vectors and matrices."""

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters: those of the constructor, in its order."""

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            cls.names = tuple(inspect.signature(cls).parameters)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Copy whose array parameters have type `dtype`."""
        return type(self)(*(cast(getattr(self, name), dtype) for name in self.names))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={show(getattr(self, name))}' for name in self.names)})"


class Elementwise(Parametric):
    """Base of the functions that act on each coordinate by itself.

    ``type(f)(*f.parameters)`` builds f again, and `kind` names its closed form for code generators.
    """

    # The parameters that w multiplies in w f, and those to which c is added in f(. - c) (None: no closed
    # form).
    _scaled: ClassVar[tuple[str, ...]] = ()
    _shifted: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = vars(cls).get("kind", re.sub(r"\B(?=[A-Z])", "_", cls.__name__).lower())

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

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The function whose vector parameters have type `dtype`; itself if they have it already."""
        same = all(isinstance(p, float) or p.dtype == dtype for p in self.parameters)
        return self if same else super().astype(dtype)

    @property
    def dim(self) -> int | None:
        """Length of the vector parameters, or None when all parameters are numbers."""
        return self.__dict__.get("_dim")

    @property
    def is_separable(self) -> bool:
        """True: a sum over coordinates."""
        return True

    def scale(self, weight: float) -> Function:
        """Multiple, ``weight * f``, of the same class."""
        if not 0.0 < weight < np.inf:
            return super().scale(weight)
        return self._with(self._scaled, lambda p: p * weight)

    def shift(self, center: npt.ArrayLike) -> Function:
        """Translate, x -> f(x - center), of the same class where that has a parameter for it."""
        if self._shifted is None:
            return super().shift(center)
        moved = parameter(type(self).__name__, "center of the shift", center)
        return self._with(self._shifted, lambda p: p + moved)

    def _with(self, names: tuple[str, ...], change: Callable[[Parameter], Parameter]) -> Self:
        """The function with some of its parameters changed."""
        return type(self)(*(change(p) if n in names else p for n, p in zip(self.names, self.parameters, strict=True)))

    def _terms(self, x: Array) -> Array:
        """Value of phi at every coordinate."""
        raise NotImplementedError

    def _value(self, x: Array) -> Value:
        return self._terms(x).sum(axis=-1)
