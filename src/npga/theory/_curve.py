r"""How strongly the agents couple when those that disagree may move: a function of one number.

    g(x) = eta_min( sum_i A_i (I + x A_i^T A_i)^{-1} A_i^T ),     x >= 0,

a p x p matrix. g(0) = eta_min(A A^T) and g falls with x. Every term of x A_i (I + x A_i^T A_i)^{-1} A_i^T is a concave
and increasing function of x in the order of symmetric matrices (its eigenvalues are x s^2/(1 + x s^2)), and eta_min is
concave and increasing too, so G(x) = x g(x) is concave and increasing. Hence the chord between two points of its graph
lies below the graph: with g computed on a grid, linear interpolation of G is a proved lower bound, and one matrix
decomposition per grid point serves all steps of all theorems.
"""

from __future__ import annotations

import math

import numpy as np

from npga.theory._rank import FloatArray

_PER_OCTAVE = 4  # grid points for each doubling of x: the chord is then below the graph by less than 0.4 percent
_SMALL, _LARGE = 1e-3, 1e6  # of x sigma^2: outside, g >= eta/(1 + x sigma^2) and G >= G(end) are used


class Curve:
    """Lower bounds on g, computed where they are asked for and remembered.

    Parameters
    ----------
    blocks
        The matrices A_i, dense.
    eta
        Smallest eigenvalue of A A^T, or a lower bound.
    sigma
        Largest singular value of the A_i.
    """

    def __init__(self, blocks: list[FloatArray], eta: float, sigma: float) -> None:
        self._blocks, self._eta, self._square = blocks, eta, sigma * sigma
        self._factors: tuple[FloatArray, FloatArray] | None = None
        self._known: dict[int, float] = {}

    def __call__(self, x: float) -> float:
        """A number that is at most g(x), and close to it."""
        scaled = x * self._square
        simple = self._eta / (1.0 + scaled)  # because A_i^T A_i <= sigma^2 I
        if scaled <= _SMALL:
            return simple
        position = _PER_OCTAVE * math.log2(min(scaled, _LARGE))
        low, high = math.floor(position), math.ceil(position)
        a, b = self._grid(low), self._grid(high)
        if scaled >= _LARGE or low == high:
            return max(simple, self._product(low) / x)
        weight = (x - a) / (b - a)
        return max(simple, ((1.0 - weight) * self._product(low) + weight * self._product(high)) / x)

    def _grid(self, k: int) -> float:
        return float(2.0 ** (k / _PER_OCTAVE)) / self._square

    def _product(self, k: int) -> float:
        """A lower bound on G = x g(x) at a grid point: the computed eigenvalue less what rounding may have added."""
        if k not in self._known:
            if self._factors is None:
                parts = [np.linalg.svd(block, full_matrices=False)[:2] for block in self._blocks if block.size]
                self._factors = np.hstack([u for u, _ in parts]), np.concatenate([s for _, s in parts]) ** 2
            U, squares = self._factors
            x = self._grid(k)
            M = (U * (x * squares / (1.0 + x * squares))) @ U.T
            values = np.linalg.eigvalsh(M)
            self._known[k] = max(float(values[0] - 4.0 * U.shape[1] * np.finfo(float).eps * values[-1]), 0.0)
        return self._known[k]
