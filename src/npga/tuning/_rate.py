"""The linear rate that a run settles into: the spectral radius of the linearised iteration J.

J is never formed. Arnoldi's method runs on J^m, a stretch of m iterations of the solver on the linearised problem: with
m in the hundreds the eigenvalues that decide the rate stand apart from the crowd that decays quickly, so a few Krylov
vectors suffice, and each costs one compiled call. The state is (x, lam, z), z = B y; a start with y = 0 keeps z in the
range of B, which is the subspace that a run can reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import method_for
from npga.steps import Steps

Array = NDArray[Any]

# Ritz values are looked at when the Krylov space has these dimensions; with a short stretch some of them suffice to
# tell how long it should be.
_LOOKS = (8, 12, 16, 20, 24, 32, 40)
_FEW = 24
_SHORTEST, _LONGEST = 8, 1 << 13
_SETTLE = 4
# In units of `_length`: a stretch after which Ritz values that agree are believed, and one after which rounding shows.
_LONG, _TOO_LONG = 2, 16


@dataclass(frozen=True)
class Rate:
    """A spectral radius and how it was obtained.

    Parameters
    ----------
    radius
        Contraction per iteration; below one means stable.
    converged
        Whether the Ritz value settled; otherwise `radius` is the best estimate.
    iterations
        Work: iterations of the linearised problem.
    stretch
        Iterations m between two Krylov vectors.
    slow
        The modes that decide the rate, summed: a good start for nearby steps; None when they were not found.
    """

    radius: float
    converged: bool
    iterations: int
    stretch: int = _SHORTEST
    slow: Array | None = field(default=None, repr=False, compare=False)


def rate(
    linear: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    seed: int = 0,
    cutoff: float = np.inf,
    near: Rate | None = None,
    tolerance: float = 1e-7,
) -> Rate:
    """Spectral radius of NPGA on a linearised problem (see `Linearisation.at`).

    Parameters
    ----------
    linear, network, version, steps
        What is iterated.
    seed
        Of the start vector.
    cutoff
        The computation ends early when the Ritz values exceed this: a caller who looks for less need not know by how
        much.
    near
        The rate of nearby steps. Starting from its slow modes saves work, and what has not settled with stretches four
        times as long as usual is left at its estimate.
    tolerance
        A Ritz value of J^m counts when its residual is below this part of it. Where many modes are equally slow no
        single one settles; then it also counts when two looks agree on 1 - radius to this part, after a stretch that
        is long enough (below a 1 - radius of about 1e-4 none is).
    """
    stretch, size = _stretch(linear, network, version, steps)
    start = np.random.default_rng(seed).standard_normal(size) / np.sqrt(size)
    start[linear.d + linear.n * linear.p :] = 0.0  # y = 0
    m, longest = _SHORTEST, _LONGEST
    if near is not None and near.slow is not None:
        usual = _length(near.radius)
        start, m, longest = start + near.slow, min(near.stretch, _LONG * usual), min(4 * usual, _LONGEST)
    # Fast modes must be gone from the start, or a slow one that it holds little of is overlooked.
    begun = stretch(start, _SETTLE * m)
    work = _SETTLE * m
    while True:
        look = _arnoldi(partial(stretch, m=m), begun, m, tolerance)
        work += m * look.dimension
        end = min(longest, _TOO_LONG * _length(look.radius))
        if look.settled or look.radius > min(cutoff, 10.0 ** (1 / m)) or m >= end:
            return Rate(look.radius, look.settled, work, m, look.slow if look.settled else None)
        m = min(max(_LONG * _length(look.radius), 2 * m), end)


def _length(radius: float) -> int:
    """A stretch that is long enough for the slowest mode to lose a good part of itself, within reason."""
    return int(np.clip(-0.5 / np.log(np.clip(radius, 1e-3, 1.0 - 1e-7)), _SHORTEST, _LONGEST))


def _stretch(linear: Problem, network: Network, version: Version, steps: Steps) -> tuple[Callable[..., Array], int]:
    """U -> J^m u for u = (x, lam, z) flattened, and the length of u."""
    method = method_for(linear, network, version, steps)
    d, dual = linear.d, linear.n * linear.p
    shape = (linear.n, linear.p)

    def apply(u: Array, m: int) -> Array:
        lam, z = u[d : d + dual].reshape(shape), u[d + dual :].reshape(shape)
        with np.errstate(over="ignore", invalid="ignore"):  # an unstable iteration overflows, and the caller sees it
            state = method.advance(method.start(u[:d].copy(), lam.copy(), z / steps.beta), m)
            z = steps.beta * method.memory(state)
            z -= z.mean(axis=0)  # rounding must not leave the range of B, where J has the eigenvalue one
        return np.concatenate([state.x, state.lam.ravel(), z.ravel()])

    return apply, d + 2 * dual


@dataclass(frozen=True)
class _Look:
    """What a Krylov space of J^m shows."""

    radius: float
    settled: bool
    dimension: int
    slow: Array | None = None


def _arnoldi(apply: Callable[[Array], Array], start: Array, m: int, tolerance: float) -> _Look:
    """Largest modulus among the Ritz values of `apply`, which is J^m, as a radius of J."""
    if not np.abs(start).max() < 1e150:
        return _Look(np.inf, True, 0)
    norm = np.linalg.norm(start)
    if norm == 0.0:
        return _Look(0.0, True, 0)
    most = min(_LOOKS[-1], start.size)
    basis, hessenberg = np.zeros((most + 1, start.size)), np.zeros((most + 1, most))
    basis[0] = start / norm
    before = np.nan
    for k in range(1, most + 1):
        y = apply(basis[k - 1])
        if not np.abs(y).max() < 1e150:  # squares must not overflow; nan counts too
            return _Look(np.inf, True, k)
        for _ in range(2):  # twice is enough to be orthogonal
            h = basis[:k] @ y
            hessenberg[:k, k - 1] += h
            y = y - h @ basis[:k]
        hessenberg[k, k - 1] = size = float(np.linalg.norm(y))
        closed = size <= 1e-14 * np.abs(hessenberg[:k, k - 1]).max(initial=0.0) or size < 1e-290
        if closed or k in _LOOKS or k == most:
            values, vectors = np.linalg.eig(hessenberg[:k, :k])
            top = int(np.abs(values).argmax())
            radius = float(abs(values[top]) ** (1.0 / m))
            wrong = size * abs(vectors[-1, top])
            long = m >= _LONG * _length(radius)
            agree = long and abs(radius - before) <= tolerance * abs(1.0 - radius)
            settled = closed or bool(wrong <= tolerance * abs(values[top])) or agree
            if settled or k == most or (k >= _FEW and not long):
                return _Look(radius, settled, k, _slow(values, vectors) @ basis[:k])
            before = radius
        basis[k] = y / size
    raise AssertionError("the last dimension is always looked at")


def _slow(values: Array, vectors: Array) -> Array:
    """Sum of the Ritz vectors that come near the slowest, of length one."""
    total: Array = np.real(vectors[:, np.abs(values) >= 0.5 * np.abs(values).max()]).sum(axis=1)
    return total / (np.linalg.norm(total) or 1.0)
