"""Identities between value, gradient, prox, conjugate prox and their derivatives, and the points that test them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from npga.errors import FunctionError
from npga.functions._base import Function
from npga.functions._parameters import Array

# Distances from the origin: near enough to meet kinks, far enough to meet tails.
SCALES = (0.1, 1.0, 3.0, 30.0)
STEPS = (0.02, 0.5, 1.0, 7.0, 60.0)


@dataclass(frozen=True)
class Sample:
    """A function, random points where it is examined, and points of its domain among them or beside them."""

    f: Function
    points: Array
    domain: Array
    rng: np.random.Generator

    @classmethod
    def draw(cls, f: Function, dim: int, count: int, seed: int) -> Sample:
        """Draw points, and find points of the domain: those with a finite value, and images of the prox."""
        rng = np.random.default_rng(seed)
        scales = np.resize(SCALES, count)[:, None]
        points = scales * rng.standard_normal((count, dim))
        candidates = [np.zeros((1, dim)), points]
        if f.has_prox:
            candidates.extend(np.stack([f.prox(x, t) for x in points]) for t in (0.5, 7.0))
        candidate = np.concatenate(candidates)
        finite = np.isfinite([float(f.value(x)) for x in candidate])
        return cls(f, points, candidate[finite], rng)

    def steps(self) -> Iterator[tuple[Array, float]]:
        """Every point, with the steps in turn."""
        yield from zip(self.points, np.resize(STEPS, len(self.points)).tolist(), strict=True)

    def pairs(self, among: Array) -> Iterator[tuple[Array, Array]]:
        """Random pairs among given points, and pairs that differ in one coordinate."""
        count = len(among)
        for i, j in self.rng.integers(count, size=(2 * count, 2)):
            yield among[i], among[j]
        for i, x in enumerate(among):
            y = x.copy()
            y[i % x.size] += self.rng.choice(SCALES) * self.rng.standard_normal()
            yield x, y

    def neighbours(self, u: Array) -> Iterator[Array]:
        """Points near u, in random and coordinate directions, and points of the domain, on the way and there."""
        for size in 10.0 ** np.arange(-5.0, 2.0):
            yield u + size * self.rng.standard_normal(u.size)
            for sign in (-1.0, 1.0):
                v = u.copy()
                v[self.rng.integers(u.size)] += sign * size
                yield v
        for p in self.domain[self.rng.permutation(len(self.domain))[:8]]:
            for way in (0.001, 0.3, 1.0):
                yield u + way * (p - u)


def domain(sample: Sample) -> float:
    """0 if the function is finite somewhere on the sample."""
    return 0.0 if len(sample.domain) else np.inf


def gradient(sample: Sample) -> float | None:
    """Gradient against central differences of the value, in every coordinate."""
    f = sample.f
    if not f.has_grad:
        return None

    def error(x: Array) -> float:
        h = 6e-6 * (1.0 + np.abs(x).max())
        slopes = np.array([(f.value(x + h * e) - f.value(x - h * e)) / (2.0 * h) for e in np.eye(x.size)])
        # Differences lose digits in proportion to the value, which can be much larger than its slope.
        size = 1.0 + np.abs(slopes).max() + 1e-4 * abs(f.value(x))
        return float(np.abs(slopes - f.grad(x)).max() / size)

    return worst(error(x) for x in sample.domain)


def prox_inequality(sample: Sample) -> float | None:
    """With u = prox(x, t): f(v) >= f(u) + (x - u).(v - u)/t for all v, which no other u satisfies."""
    f = sample.f
    if not f.has_prox:
        return None

    def errors(x: Array, t: float) -> Iterator[float]:
        u = f.prox(x, t)
        fu = float(f.value(u))
        if not np.isfinite(fu):
            yield np.inf
            return
        reach = (np.linalg.norm(x) + np.linalg.norm(u)) / t
        for v in sample.neighbours(u):
            fv = float(f.value(v))
            if fv < np.inf or np.isnan(fv):
                size = 1.0 + abs(fu) + abs(fv) + np.linalg.norm(v - u) * reach
                yield float((fu + (x - u) @ (v - u) / t - fv) / size)

    return worst(error for x, t in sample.steps() for error in errors(x, t))


def prox_equation(sample: Sample) -> float | None:
    """With u = prox(x, t) and a gradient: u + t grad(u) = x."""
    f = sample.f
    if not (f.has_prox and f.has_grad):
        return None

    def error(x: Array, t: float) -> float:
        u = f.prox(x, t)
        slope = t * f.grad(u)
        return float(np.abs(u + slope - x).max() / (1.0 + np.abs(x).max() + np.abs(slope).max()))

    return worst(error(x, t) for x, t in sample.steps())


def moreau(sample: Sample) -> float | None:
    """Moreau's identity for f and for f*: x = conj_prox(x, t) + t prox(x/t, 1/t), and with the two exchanged."""
    f = sample.f
    if not f.has_prox:
        return None
    return worst(
        gap(first(x, t) + t * second(x / t, 1.0 / t), x)
        for first, second in ((f.conj_prox, f.prox), (f.prox, f.conj_prox))
        for x, t in sample.steps()
    )


def firmness(sample: Sample) -> float | None:
    """Firm non-expansiveness: |prox(x) - prox(y)|^2 <= (prox(x) - prox(y)).(x - y)."""
    f = sample.f
    if not f.has_prox:
        return None

    def error(x: Array, y: Array, t: float) -> float:
        d = f.prox(x, t) - f.prox(y, t)
        return float(d @ (d - (x - y)) / (1.0 + np.abs(x).max() + np.abs(y).max()) ** 2)

    steps = itertools.cycle(STEPS)
    return worst(error(x, y, t) for (x, y), t in zip(sample.pairs(sample.points), steps, strict=False))


def stacking(sample: Sample) -> float:
    """Calls on a stack of points, with one step for all and with one step each, against one call per point."""
    f = sample.f
    half = len(sample.points) // 2
    stack = sample.points[: 2 * half].reshape(2, half, -1)
    steps = np.array([0.5, 7.0]).reshape(2, 1, 1)

    def each(call: Callable[[Array, float], Array]) -> Array:
        return np.array([[call(x, float(t)) for x in rows] for rows, t in zip(stack, steps.ravel(), strict=True)])

    errors = [gap(f.value(stack), each(lambda x, _: f.value(x)))]
    if f.has_grad:
        errors.append(gap(f.grad(stack), each(lambda x, _: f.grad(x))))
    for call in (f.prox, f.conj_prox) if f.has_prox else ():
        errors.append(gap(call(stack, steps), each(call)))
        errors.append(gap(call(stack, 0.5)[0], each(call)[0]))
    return worst(errors)


def arguments(sample: Sample) -> float:
    """0 if no call writes into its argument."""
    f, x = sample.f, sample.points.copy()
    f.value(x)
    if f.has_grad:
        f.grad(x)
    if f.has_prox:
        f.prox(x, 0.5)
        f.conj_prox(x, 0.5)
    return gap(x, sample.points)


def hessian(sample: Sample) -> float | None:
    """Hessian against finite differences of the gradient."""
    f = sample.f
    return _derivative(f.grad, f.hess, sample.domain) if f.has_hess and f.has_grad else None


def prox_jacobian(sample: Sample) -> float | None:
    """Jacobians of prox and conj_prox against finite differences."""
    f = sample.f
    if not (f.has_prox_jac and f.has_prox):
        return None
    return worst(
        _derivative(partial(call, t=t), partial(derivative, t=t), sample.points)
        for call, derivative in ((f.prox, f.prox_jac), (f.conj_prox, f.conj_prox_jac))
        for t in (0.5, 7.0)
    )


def kernel(sample: Sample) -> float | None:
    """The formulas that a compiled kernel is told, against the value: gradient and prox follow from it."""
    f, dim = sample.f, sample.points.shape[1]
    forms = f.kernel(dim)
    if forms is None:
        return None
    if sum(form.size for form in forms) != dim:
        raise FunctionError(f"kernel({dim}) has forms of {[form.size for form in forms]} coordinates; expected {dim}")
    ends = np.cumsum([form.size for form in forms])[:-1]

    met = np.concatenate([sample.points, sample.domain])
    told = [sum(form.value(part) for form, part in zip(forms, np.split(x, ends), strict=True)) for x in met]
    return worst(gap(np.asarray(told_here), np.asarray(f.value(x))) for told_here, x in zip(told, met, strict=True))


def _derivative(call: Callable[[Array], Array], derivative: Callable[[Array], Array], points: Array) -> float:
    def error(x: Array) -> float:
        differences, given = jacobian(call, x), derivative(x)
        if differences is None:
            return 0.0
        return gap(np.diag(given) if given.ndim == 1 else given, differences)

    return worst(error(x) for x in points)


def jacobian(call: Callable[[Array], Array], x: Array) -> Array | None:
    """Jacobian of a map by finite differences; None at a kink, where the two one-sided differences disagree."""
    h = 1e-6 * (1.0 + np.abs(x).max())
    here = call(x)
    forward = np.stack([(call(x + h * e) - here) / h for e in np.eye(x.size)], axis=-1)
    backward = np.stack([(here - call(x - h * e)) / h for e in np.eye(x.size)], axis=-1)
    if np.abs(forward - backward).max() > 1e-3 * (1.0 + np.abs(forward).max()):
        return None
    return np.asarray(0.5 * (forward + backward))


def gap(a: Array, b: Array) -> float:
    """Largest difference between two arrays, relative to one plus their size; infinite when they do not compare."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return np.inf
    # Equal infinities agree.
    differs = a != b
    a, b = a[differs], b[differs]
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.inf
    size = 1.0 + np.abs(np.concatenate([a, b])).max(initial=0.0)
    return float(np.abs(a - b).max(initial=0.0) / size)


def worst(errors: Iterable[float]) -> float:
    """Largest of some errors and 0; NaN if one of them is NaN."""
    return float(np.max(list(errors), initial=0.0))


IDENTITIES = (
    ("domain", 0.0, "no point with a finite value was found near the origin", domain),
    ("gradient", 1e-6, "grad disagrees with finite differences of value", gradient),
    ("prox inequality", 1e-11, "prox does not minimise f(u) + |u - x|^2/(2t)", prox_inequality),
    ("prox equation", 1e-9, "prox and grad disagree: u + t grad(u) is not x", prox_equation),
    ("Moreau", 1e-9, "prox and conj_prox disagree with Moreau's identity", moreau),
    ("firmness", 1e-10, "prox is not firmly non-expansive, so it is the prox of no convex function", firmness),
    ("stacking", 1e-10, "a stack of points gives other results than one point at a time", stacking),
    ("arguments", 0.0, "a call changed its argument", arguments),
    ("Hessian", 1e-5, "hess disagrees with finite differences of grad", hessian),
    ("prox Jacobian", 1e-5, "prox_jac disagrees with finite differences of prox or conj_prox", prox_jacobian),
    ("kernel", 1e-9, "the formula that kernel() names is another function than value, so compiled runs differ", kernel),
)
