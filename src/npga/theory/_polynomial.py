"""Ranges of polynomials over the spectrum of a gossip matrix.

B^2, C, D and the gaps of Assumptions 7 and 9 are polynomials in one matrix K (I - W, or the Laplacian), so their
eigenvalues off the vector of ones are the values of the polynomials at the eigenvalues k of K off the vector of
ones. Up to a few thousand agents all k are known. Beyond that only the extreme ones are, and the range over the
whole interval between them is a rigorous enclosure: a polynomial of low degree takes its extremes at the ends or
where its derivative vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Exact: TypeAlias = tuple[Fraction, ...]

# Eigenvalues of K from LAPACK are right up to a small multiple of eps |K|; Lanczos stops at 1e-11 |K|.
_DENSE_ERROR, _LANCZOS_ERROR = 16.0 * np.finfo(float).eps, 1e-10


@dataclass(frozen=True)
class Range:
    """Enclosure of the eigenvalues of one matrix on the vectors orthogonal to ones.

    Attributes
    ----------
    low, high
        Every eigenvalue lies between them.
    seen_low, seen_high
        Smallest and largest eigenvalue that is known to occur; equal to `low` and `high` when all are known.
    nearest
        Smallest absolute value among the known eigenvalues.
    at_low, at_high
        Eigenvalues of the gossip matrix (W or L) responsible for `low` and `high`; nan for explicit matrices.
    error
        Bound on rounding in all of these.
    """

    low: float
    high: float
    seen_low: float
    seen_high: float
    nearest: float
    at_low: float = np.nan
    at_high: float = np.nan
    error: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether both ends are eigenvalues, not just bounds."""
        return self.low == self.seen_low and self.high == self.seen_high


# The range over no eigenvalues at all: a lone agent has nothing orthogonal to ones.
EMPTY = Range(np.inf, -np.inf, np.inf, -np.inf, np.inf)


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of K off the vector of ones: all of them, or the interval that they lie in.

    Attributes
    ----------
    known
        Eigenvalues that occur, ascending.
    complete
        Whether these are all; otherwise they are the two extreme ones, from Lanczos.
    basis
        "W" when K = I - W, so that messages can speak of eigenvalues of W; "L" when K = L.
    """

    known: FloatArray
    complete: bool
    basis: str

    def range(self, polynomial: Exact) -> Range:
        """Range of a polynomial, coefficients lowest first, with the eigenvalues of W or L responsible."""
        if not self.known.size:
            return EMPTY
        values = _evaluate(polynomial, self.known)
        points, all_values = self.known, values
        if not self.complete:
            # The ends themselves are known up to the accuracy of Lanczos: move them outwards by that much.
            slack = _LANCZOS_ERROR * float(self.known[-1])
            ends = np.array([max(float(self.known[0]) - slack, 0.0), float(self.known[-1]) + slack])
            points = np.concatenate([ends, _critical(polynomial, *ends)])
            all_values = _evaluate(polynomial, points)
        lowest, highest = int(np.argmin(all_values)), int(np.argmax(all_values))
        return Range(
            low=float(all_values[lowest]),
            high=float(all_values[highest]),
            seen_low=float(values.min()),
            seen_high=float(values.max()),
            nearest=float(np.abs(values).min()),
            at_low=self._name(points[lowest]),
            at_high=self._name(points[highest]),
            error=self._error(polynomial, max(abs(points[lowest]), abs(points[highest]))),
        )

    def _name(self, k: float) -> float:
        return float(1.0 - k if self.basis == "W" else k)

    def _error(self, polynomial: Exact, k: float) -> float:
        # First-order error of p(k) from an error in k, and the rounding of Horner's rule.
        relative = _DENSE_ERROR if self.complete else _LANCZOS_ERROR
        absolute = [abs(float(c)) for c in polynomial]
        slope = sum(j * c * k ** (j - 1) for j, c in enumerate(absolute) if j)
        size = sum(c * k**j for j, c in enumerate(absolute))
        return float(slope * relative * self.known[-1] + 4.0 * np.finfo(float).eps * size)


def exact(coefficients: tuple[float, ...]) -> Exact:
    """Coefficients as fractions, so that what cancels cancels exactly."""
    return tuple(Fraction(value) for value in coefficients)


def minus(a: Exact, b: Exact) -> Exact:
    """Difference of two polynomials, without trailing zeros."""
    size = max(len(a), len(b))
    padded = [(*x, *[Fraction(0)] * (size - len(x))) for x in (a, b)]
    return _trim([x - y for x, y in zip(*padded, strict=True)])


def times(a: Exact, b: Exact) -> Exact:
    """Product of two polynomials, without trailing zeros."""
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return _trim(product)


def _trim(coefficients: list[Fraction]) -> Exact:
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients.pop()
    return tuple(coefficients)


def _evaluate(polynomial: Exact, k: FloatArray) -> FloatArray:
    return np.asarray(np.polynomial.polynomial.polyval(k, [float(c) for c in polynomial]), dtype=np.float64)


def _critical(polynomial: Exact, low: float, high: float) -> FloatArray:
    """Real zeros of the derivative inside the interval."""
    derivative = np.polynomial.polynomial.polyder([float(c) for c in polynomial])
    roots = np.polynomial.polynomial.polyroots(derivative) if np.any(derivative[1:]) else np.zeros(0)
    # A double zero may come out as a complex pair: its real part counts too.
    real = np.real(roots[np.abs(np.imag(roots)) <= 1e-6 * (1.0 + np.abs(roots))])
    return np.asarray(real[(real > low) & (real < high)], dtype=np.float64)
