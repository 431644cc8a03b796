"""The linear rate that a run settles into: the spectral radius of the linearised iteration J.

J is never formed. Arnoldi's method runs on J^m, a stretch of m iterations of the solver on the linearised problem: with
m in the hundreds the eigenvalues that decide the rate stand apart from the crowd that decays quickly, so a few Krylov
vectors suffice, and each costs one compiled call. The state is (x, lam, z), z = B y; a start with y = 0 keeps z in the
range of B, which is the subspace that a run can reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver import method_for
from npga.steps import Steps

Array = NDArray[Any]
Stretch = Callable[[Array, int], Array]

_KRYLOV = 24
# A Ritz pair counts when its residual is below this part of its value.
_CONVERGED = 1e-3
_LONGEST = 1 << 13


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
    """

    radius: float
    converged: bool
    iterations: int


def rate(
    linear: Problem, network: Network, version: Version, steps: Steps, seed: int = 0, cutoff: float = np.inf
) -> Rate:
    """Spectral radius of NPGA on a linearised problem (see `Linearisation.at`).

    Ritz values approach the radius from within, so the computation ends early when they exceed `cutoff`: the radius
    does too, and a caller who looks for less need not know by how much.
    """
    stretch, size = _stretch(linear, network, version, steps)
    start = np.random.default_rng(seed).standard_normal(size)
    start[linear.d + linear.n * linear.p :] = 0.0  # y = 0
    work, m, begun = 0, 32, stretch(start, 32)
    work += 32
    while True:
        found, settled = _arnoldi(lambda u, m=m: stretch(u, m), begun)
        work += m * _KRYLOV
        radius = float(found ** (1.0 / m))
        if settled or found > 10.0 or m >= _LONGEST or radius > cutoff:
            return Rate(radius, settled, work)
        # Long enough that the slowest mode loses a good part of itself, within reason.
        decay = -np.log(min(radius, 1.0 - 1e-7))
        m = int(np.clip(0.5 / decay, 2 * m, _LONGEST))


def _stretch(linear: Problem, network: Network, version: Version, steps: Steps) -> tuple[Stretch, int]:
    """U -> J^m u for u = (x, lam, z) flattened, and the length of u."""
    method = method_for(linear, network, version, steps)
    d, dual = linear.d, linear.n * linear.p
    shape = (linear.n, linear.p)

    def apply(u: Array, m: int) -> Array:
        lam, z = u[d : d + dual].reshape(shape), u[d + dual :].reshape(shape)
        state = method.advance(method.start(u[:d].copy(), lam.copy(), z / steps.beta), m)
        z = steps.beta * method.memory(state)
        z -= z.mean(axis=0)  # rounding must not leave the range of B, where J has the eigenvalue one
        return np.concatenate([state.x, state.lam.ravel(), z.ravel()])

    return apply, d + 2 * dual


def _arnoldi(apply: Callable[[Array], Array], start: Array) -> tuple[float, bool]:
    """Largest modulus among the Ritz values of an operator, and whether its residual is small."""
    if not np.abs(start).max() < 1e150:
        return np.inf, True
    norm = np.linalg.norm(start)
    if norm == 0.0:
        return 0.0, True
    steps = min(_KRYLOV, start.size)
    basis, hessenberg = np.zeros((steps + 1, start.size)), np.zeros((steps + 1, steps))
    basis[0] = start / norm
    for k in range(steps):
        y = apply(basis[k])
        if not np.abs(y).max() < 1e150:  # squares must not overflow; nan counts too
            return np.inf, True
        for _ in range(2):  # twice is enough to be orthogonal
            h = basis[: k + 1] @ y
            hessenberg[: k + 1, k] += h
            y = y - h @ basis[: k + 1]
        hessenberg[k + 1, k] = size = float(np.linalg.norm(y))
        if size <= 1e-14 * np.abs(hessenberg[: k + 1, k]).max(initial=0.0) or size < 1e-290:
            return float(np.abs(np.linalg.eigvals(hessenberg[: k + 1, : k + 1])).max()), True  # an invariant subspace
        basis[k + 1] = y / size
    values, vectors = np.linalg.eig(hessenberg[:steps])
    top = int(np.abs(values).argmax())
    wrong = hessenberg[steps, steps - 1] * abs(vectors[-1, top])
    return float(abs(values[top])), bool(wrong <= _CONVERGED * abs(values[top]))
