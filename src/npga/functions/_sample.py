"""The points, steps and finite differences with which functions are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from npga.functions._base import Array, Function

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
