"""Functions that are linear or quadratic piece by piece: absolute value, hinge, pinball, elastic net, Huber.

The first three are f(x) = sum_j max(a_j (x_j - c_j), b_j (x_j - c_j)) with slopes a <= b on the two sides of the kink
c. Their conjugate is f*(y) = c.y on a <= y <= b, whence

    prox_{t f*}(x) = clip(x - t c, a, b),        prox_{t f}(x) = x - clip(x - c, t a, t b).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npga.functions._base import Elementwise
from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Array, Parameter, Step, nonnegative, parameter, positive, require, signs


class Weighted(Elementwise):
    """An elementwise function with a weight and nothing else."""

    _scaled = ("weight",)

    weight: Parameter

    def __init__(self, weight: npt.ArrayLike = 1.0) -> None:
        self._store(weight=positive(type(self).__name__, "weight", weight))


class Labelled(Elementwise):
    """A loss of class labels, with weights."""

    _scaled = ("weight",)

    labels: Parameter
    weight: Parameter

    def __init__(self, labels: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        owner = type(self).__name__
        self._store(labels=signs(owner, "labels", labels), weight=positive(owner, "weight", weight))


class _Kinked(Elementwise):
    """sum_j max(a_j (x_j - c_j), b_j (x_j - c_j)), given its slopes (a, b) and its kink c."""

    # Set once by the constructor of each class.
    _left: Parameter
    _right: Parameter
    _kink: Parameter

    def _terms(self, x: Array) -> Array:
        r = x - self._kink
        return np.maximum(self._left * r, self._right * r)

    def _prox(self, x: Array, t: Step) -> Array:
        return x - np.clip(x - self._kink, t * self._left, t * self._right)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        return np.clip(x - t * self._kink, self._left, self._right)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        r = x - self._kink
        return ((r < t * self._left) | (r > t * self._right)).astype(x.dtype)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.KINKED, size, a=self._left, b=self._right, c=self._kink),)


class L1(_Kinked, Weighted):
    """Weighted absolute values, f(x) = sum_j w_j |x_j|.

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    def __init__(self, weight: npt.ArrayLike = 1.0) -> None:
        super().__init__(weight)
        self._set(_left=-self.weight, _right=self.weight, _kink=0.0)


class Hinge(_Kinked, Labelled):
    """Hinge loss of support vector machines, f(z) = sum_j w_j max(0, 1 - y_j z_j).

    Parameters
    ----------
    labels
        Classes y, each -1 or +1.
    weight
        Positive number, or one per label.
    """

    def __init__(self, labels: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        super().__init__(labels, weight)
        # The kink is at z = 1/y = y; the slope is -w y on the side of the wrong class and 0 on the other.
        half = 0.5 * self.weight
        self._set(_left=-half * (self.labels + 1.0), _right=-half * (self.labels - 1.0), _kink=self.labels)


class Quantile(_Kinked):
    """Pinball loss of quantile regression, f(z) = sum_j w_j max(tau_j r_j, (tau_j - 1) r_j), r = target - z.

    Parameters
    ----------
    target
        Observations: a vector, or one number for all.
    tau
        Level of the quantile, strictly between 0 and 1; 0.5 gives half the absolute error.
    weight
        Positive number, or one per observation.
    """

    _scaled = ("weight",)
    _shifted = ("target",)

    target: Parameter
    tau: Parameter
    weight: Parameter

    def __init__(self, target: npt.ArrayLike, tau: npt.ArrayLike, weight: npt.ArrayLike = 1.0) -> None:
        level = positive("Quantile", "tau", tau)
        require("Quantile", "tau", np.asarray(level), np.asarray(level) < 1.0, "a level strictly between 0 and 1")
        self._store(
            target=parameter("Quantile", "target", target),
            tau=level,
            weight=positive("Quantile", "weight", weight),
        )
        self._set(_left=-self.weight * self.tau, _right=self.weight * (1.0 - self.tau), _kink=self.target)


class ElasticNet(Elementwise):
    """Elastic net, f(x) = sum_j l1_j |x_j| + (l2_j/2) x_j^2.

    It has a gradient when l1 is zero, and is then a weighted square.

    Parameters
    ----------
    l1, l2
        Weights of the two terms: numbers that are not negative, or one per coordinate.
    """

    _scaled = ("l1", "l2")

    l1: Parameter
    l2: Parameter

    def __init__(self, l1: npt.ArrayLike, l2: npt.ArrayLike) -> None:
        self._store(l1=nonnegative("ElasticNet", "l1", l1), l2=nonnegative("ElasticNet", "l2", l2))

    @property
    def mu(self) -> float:
        """Smallest l2."""
        return float(np.min(self.l2))

    @property
    def L(self) -> float:
        """Largest l2 when l1 is zero, else infinite."""
        return float(np.max(self.l2)) if self.has_grad else np.inf

    @property
    def has_grad(self) -> bool:
        """Whether l1 is zero."""
        return not np.any(self.l1)

    has_hess = is_quadratic = has_grad

    @property
    def is_zero(self) -> bool:
        """Whether both weights are zero."""
        return self.has_grad and not np.any(self.l2)

    def _terms(self, x: Array) -> Array:
        return self.l1 * np.abs(x) + 0.5 * self.l2 * np.square(x)

    def _grad(self, x: Array) -> Array:
        return self.l2 * x

    def _prox(self, x: Array, t: Step) -> Array:
        clipped = np.clip(x, -t * self.l1, t * self.l1)
        return np.asarray((x - clipped) / (1.0 + t * self.l2))

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # f*(y) = max(|y| - l1, 0)^2 / (2 l2): what |x| exceeds l1 by shrinks by l2/(t + l2).
        clipped = np.clip(x, -self.l1, self.l1)
        return np.asarray(clipped + self.l2 / (t + self.l2) * (x - clipped))

    def _hess(self, x: Array) -> Array:
        return np.zeros_like(x) + self.l2

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return (np.abs(x) > t * self.l1).astype(x.dtype) / (1.0 + t * self.l2)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.ELASTIC, size, a=self.l1, b=self.l2),)


class Huber(Elementwise):
    """Huber loss, f(x) = sum_j w_j huber(x_j - c_j).

    huber(r) is r^2/2 for |r| <= delta and delta |r| - delta^2/2 beyond. The conjugate is
    f*(y) = sum_j y_j^2 / (2 w_j) + c_j y_j on |y_j| <= w_j delta_j.

    Parameters
    ----------
    delta
        Distance at which the loss turns linear: a positive number, or one per coordinate.
    weight
        Positive number, or one per coordinate.
    center
        Minimiser c: a number or a vector.
    """

    _scaled = ("weight",)
    _shifted = ("center",)

    delta: Parameter
    weight: Parameter
    center: Parameter

    def __init__(self, delta: npt.ArrayLike, weight: npt.ArrayLike = 1.0, center: npt.ArrayLike = 0.0) -> None:
        self._store(
            delta=positive("Huber", "delta", delta),
            weight=positive("Huber", "weight", weight),
            center=parameter("Huber", "center", center),
        )

    @property
    def L(self) -> float:
        """Largest weight."""
        return float(np.max(self.weight))

    def _terms(self, x: Array) -> Array:
        # With q the part of |r| up to delta: q^2/2 + delta (|r| - q), one expression for both branches.
        r = np.abs(x - self.center)
        q = np.minimum(r, self.delta)
        return self.weight * (0.5 * np.square(q) + self.delta * (r - q))

    def _grad(self, x: Array) -> Array:
        return self.weight * np.clip(x - self.center, -self.delta, self.delta)

    def _prox(self, x: Array, t: Step) -> Array:
        # u = x - s clip(u - c, -delta, delta), and u - c = (x - c)/(1 + s) inside.
        s = t * self.weight
        return x - s * np.clip((x - self.center) / (1.0 + s), -self.delta, self.delta)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        limit = self.weight * self.delta
        return np.clip((x - t * self.center) / (1.0 + t / self.weight), -limit, limit)

    def _hess(self, x: Array) -> Array:
        return self.weight * (np.abs(x - self.center) <= self.delta).astype(x.dtype)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        s = t * self.weight
        inside = (np.abs(x - self.center) <= (1.0 + s) * self.delta).astype(x.dtype)
        return 1.0 - s / (1.0 + s) * inside

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.HUBER, size, a=self.weight, b=self.delta, c=self.center),)
