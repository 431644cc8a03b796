"""Logarithms in every coordinate: logistic loss, barrier -ln x and entropy x ln x.

The prox of the logistic loss has no closed form: it is the root of an increasing function, found for all coordinates
at once. The other two have one, but derivatives that are unbounded at the edge of the domain, so neither has the
Lipschitz gradient that the role f needs; they are g or h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, wrightomega, xlogy

from npga.functions._kernel_form import KernelForm, Kind
from npga.functions._parameters import Array, Step
from npga.functions._piecewise import Labelled, Weighted

# Newton needs about 20 steps in the worst case met here; what is left after 60 is bisected.
NEWTON_STEPS = 60


class Logistic(Labelled):
    """Logistic loss, f(z) = sum_j w_j ln(1 + exp(-y_j z_j)).

    Parameters
    ----------
    labels
        Classes y, each -1 or +1.
    weight
        Positive number, or one per label.
    """

    @property
    def L(self) -> float:
        """A quarter of the largest weight: sigma(v) sigma(-v) <= 1/4."""
        return float(np.max(self.weight)) / 4.0

    def _terms(self, x: Array) -> Array:
        return self.weight * np.logaddexp(0.0, -self.labels * x)

    def _grad(self, x: Array) -> Array:
        return np.asarray(-self.weight * self.labels * expit(-self.labels * x))

    def _prox(self, x: Array, t: Step) -> Array:
        # With v = y u and a = y x the prox solves F(v) = v - a - s sigma(-v) = 0, s = t w, and 0 < sigma <
        # 1 puts the root in [a, a + s]. F is convex on v <= 0 and concave on v >= 0, so Newton started from
        # the point of the bracket nearest to 0 approaches the root from one side and never leaves the
        # bracket.
        a = self.labels * x
        s = np.broadcast_to(t * self.weight, a.shape).astype(a.dtype, copy=False)
        eps = 2.0 * np.finfo(a.dtype).eps

        def residual(v: Array) -> tuple[Array, Array, Array]:
            p = expit(-v)
            return v - a - s * p, 1.0 + s * p * expit(v), eps * (np.abs(v) + np.abs(a) + s * p)

        lower, upper = a, a + s
        return self.labels * increasing_root(residual, lower, upper, np.clip(np.zeros_like(a), lower, upper))

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # Moreau's x - t u with u = prox_{f/t}(x/t) equals f'(u); the gradient does not cancel when t is
        # large.
        return self._grad(self._prox(x / t, 1.0 / t))

    def _hess(self, x: Array) -> Array:
        return np.asarray(self.weight * expit(x) * expit(-x))

    def _prox_jac(self, x: Array, t: Step) -> Array:
        return 1.0 / (1.0 + t * self._hess(self._prox(x, t)))

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.LOGISTIC, size, a=self.labels, b=self.weight),)


def increasing_root(
    residual: Callable[[Array], tuple[Array, Array, Array]], lower: Array, upper: Array, start: Array
) -> Array:
    """Solve F(v) = 0 in every coordinate by Newton's method kept inside a shrinking bracket, F(lower) <= 0 <= F(upper).

    `residual` is v -> (F(v), F'(v), rounding error of F(v)), with F' > 0. A coordinate is finished when |F| is at most
    the rounding error of its own evaluation, or when the next step would not change v. Bisection takes over where
    Newton leaves the bracket or is slow; it ends because a bracket between two neighbouring floats has no midpoint.
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


class NegLog(Weighted):
    """Logarithmic barrier, f(x) = -sum_j w_j ln x_j on x > 0: proportional fairness in network utility.

    The conjugate is f*(y) = -sum_j w_j (1 + ln(-y_j/w_j)) on y < 0.

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    def _terms(self, x: Array) -> Array:
        inside = x > 0.0
        return np.where(inside, -self.weight * np.log(np.where(inside, x, 1.0)), np.inf).astype(x.dtype, copy=False)

    def _prox(self, x: Array, t: Step) -> Array:
        return _positive_root(x, t * self.weight)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # v (v - x) = t w with v < 0: the mirror image of the prox.
        return -_positive_root(-x, t * self.weight)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # u - s/u = x gives u'(1 + s/u^2) = 1.
        s = t * self.weight
        u = _positive_root(x, s)
        return np.asarray(u / (u + s / u))

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.NEG_LOG, size, a=self.weight),)


def _positive_root(x: Array, s: Step) -> Array:
    """u > 0 with u (u - x) = s: (x + sqrt(x^2 + 4 s))/2, written without cancellation for x < 0."""
    far = np.abs(x) + np.hypot(x, 2.0 * np.sqrt(s))
    return np.asarray(np.where(x >= 0.0, 0.5 * far, 2.0 * s / far), dtype=x.dtype)


class Entropy(Weighted):
    """Negative entropy, f(x) = sum_j w_j x_j ln x_j on x >= 0, with 0 ln 0 = 0.

    The conjugate is f*(y) = sum_j w_j exp(y_j/w_j - 1).

    Parameters
    ----------
    weight
        Positive number, or one per coordinate.
    """

    def _terms(self, x: Array) -> Array:
        inside = x >= 0.0
        kept = np.where(inside, x, 1.0)
        return np.where(inside, self.weight * xlogy(kept, kept), np.inf).astype(x.dtype, copy=False)

    def _prox(self, x: Array, t: Step) -> Array:
        s = t * self.weight
        return np.asarray(s * _omega(x, s), dtype=x.dtype)

    def _conj_prox(self, x: Array, t: Step) -> Array:
        # With s = w/t and y of the prox of f/t at x/t: v = x - w y, and v = w (1 + ln(s y)) where that would cancel.
        s = self.weight / t
        y = _omega(x / t, s)
        logarithm = np.log(np.where(y > 1.0, s * y, 1.0))
        return np.asarray(np.where(y > 1.0, self.weight * (1.0 + logarithm), x - self.weight * y), dtype=x.dtype)

    def _prox_jac(self, x: Array, t: Step) -> Array:
        # u'(1 + s/u) = 1, so u' = y/(1 + y).
        y = _omega(x, t * self.weight)
        return np.asarray(y / (1.0 + y), dtype=x.dtype)

    def kernel(self, size: int) -> tuple[KernelForm, ...]:
        return (KernelForm(Kind.ENTROPY, size, a=self.weight),)


def _omega(x: Array, s: Step) -> Array:
    """y > 0 with y + ln y = x/s - 1 - ln s, Wright's omega function: u = s y solves u + s (ln u + 1) = x."""
    return np.asarray(wrightomega(np.asarray(x / s - 1.0 - np.log(s), dtype=np.float64)), dtype=x.dtype)
