"""What the theorems need to know about the network matrices B^2, C and D.

B^2, C and D are polynomials in one matrix K (I - W, or the Laplacian), so their eigenvalues off the vector of ones are
the values of the polynomials at the eigenvalues k of K off the vector of ones. Up to a few thousand agents all k are
known. Beyond that only the extreme ones are, and the range over the whole interval between them is a rigorous
enclosure: a polynomial of low degree takes its extremes at the ends or where its derivative vanishes. Explicit
matrices are decomposed.

All conditions of the theorems that join the three matrices read, off the vector of ones,

    gamma B^2  <=  I - D (m I - C') D,      C' = e C - f C^2,      with numbers m <= 1 and e, f >= 0,

and so do the prices that they pay, which is why `Modes` answers three questions about this inequality: the largest
gamma, what is left over at a given gamma, and the largest m for C' = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.polynomial.polynomial import polyadd, polyder, polymul, polyroots, polysub, polyval
from scipy.linalg import eigh

from npga.networks import MatrixVersion, Network, Version

FloatArray: TypeAlias = npt.NDArray[np.float64]
Polynomial: TypeAlias = npt.NDArray[np.object_]  # coefficients as fractions, lowest first

ALL_EIGENVALUES = 3000  # up to here all eigenvalues are computed, beyond it the extreme ones
_EXPLICIT_ERROR = 1e-12  # rounding of a dense eigenvalue of a matrix of 3000 rows, relative to its norm
# Eigenvalues of K from LAPACK are right up to a small multiple of eps |K|; Lanczos stops at 1e-11 |K|.
_DENSE_ERROR, _LANCZOS_ERROR = 16.0 * float(np.finfo(float).eps), 1e-10
_HALVINGS = 50


class Enclosed(NamedTuple):
    """A largest number: a lower bound on it, its value at the known eigenvalues, and the one responsible (or nan)."""

    value: float
    seen: float
    at: float = np.nan

    @property
    def exact(self) -> bool:
        """Whether the bound is the number itself."""
        return self.value == self.seen


class Modes(Protocol):
    """The inequality gamma B^2 <= I - D (m I - e C + f C^2) D off the vector of ones."""

    def largest_gamma(self, m: float, e: float = 0.0, f: float = 0.0) -> Enclosed:
        """The largest gamma for which it holds; 0 if there is none, infinite for a lone agent."""

    def slack(self, gamma: float, m: float, e: float = 0.0, f: float = 0.0) -> float:
        """Smallest eigenvalue of the right side less the left, or a lower bound on it."""

    def norm_change(self, gamma: float) -> float:
        """1 - w, where w <= 1 is the largest number with w D^2 <= I - gamma B^2; 1 if there is no positive one."""


@dataclass(frozen=True)
class MatrixFacts:
    """Eigenvalues of the network matrices off the vector of ones, for one value of beta."""

    B2: Range
    C: Range
    D: Range
    C_is_zero: bool
    modes: Modes  # how the three go together

    @property
    def sigma_C(self) -> float:
        """Largest singular value of C, or an upper bound."""
        return 0.0 if self.C_is_zero else max(self.C.high, -self.C.low, 0.0)

    @property
    def sigma_B2(self) -> float:
        """Square of the largest singular value of B, or an upper bound; 0 for a lone agent."""
        return max(self.B2.high, 0.0)

    @property
    def least_B2(self) -> float:
        """Square of the smallest nonzero singular value of B, or a lower bound; infinite for a lone agent."""
        return self.B2.low

    @property
    def sigma_D(self) -> float:
        """Largest singular value of D off the vector of ones, or an upper bound."""
        return max(self.D.high, -self.D.low, 0.0)


def matrix_facts(network: Network, version: Version, beta: float) -> MatrixFacts | None:
    """Facts about B^2, C and D on this network, or None when they cannot be had (explicit matrices, n > 3000).

    `beta` matters only to versions whose matrices contain it.
    """
    if isinstance(version, MatrixVersion):
        return _explicit(network, version) if network.n <= ALL_EIGENVALUES else None
    spectrum = _spectrum(network, version.basis)
    b, c, d = (exact(part) for part in version.kernel_polynomials(beta))
    parts = (b, c, polymul(d, d), polysub(exact((1.0,)), polymul(d, d)))
    return MatrixFacts(
        B2=spectrum.range(b),
        C=spectrum.range(c),
        D=spectrum.range(d),
        C_is_zero=not any(c),
        modes=_KnownModes(spectrum, *parts) if spectrum.complete else _IntervalModes(spectrum, *parts),
    )


def _spectrum(network: Network, basis: str) -> Spectrum:
    if network.n == 1:
        return Spectrum(np.zeros(0), True, basis)
    if network.n <= ALL_EIGENVALUES:
        known = 1.0 - network.spectrum[-2::-1] if basis == "W" else network.laplacian_spectrum[1:]
        return Spectrum(np.asarray(known), True, basis)
    if basis == "W":
        smallest, second = network.extreme_eigenvalues()
        ends = (1.0 - second, 1.0 - smallest)
    else:
        ends = network.laplacian_extremes()
    return Spectrum(np.array(ends), False, basis)


class _KnownModes:
    """All joint eigenvalues b, c, d are known: the inequality is gamma b <= 1 - d^2 (m - e c + f c^2)."""

    def __init__(self, spectrum: Spectrum, b: Polynomial, c: Polynomial, d2: Polynomial, rest: Polynomial) -> None:
        k = spectrum.known
        self._spectrum = spectrum
        self._b, self._d2, self._rest = (evaluate(part, k) for part in (b, d2, rest))
        self._d2c, self._d2c2 = (evaluate(polymul(d2, part), k) for part in (c, polymul(c, c)))

    def _right(self, m: float, e: float = 0.0, f: float = 0.0) -> FloatArray:
        return self._rest + (1.0 - m) * self._d2 + e * self._d2c - f * self._d2c2

    def largest_gamma(self, m: float, e: float = 0.0, f: float = 0.0) -> Enclosed:
        if not self._b.size:
            return Enclosed(np.inf, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(self._b > 0.0, self._right(m, e, f) / self._b, 0.0)
        least = int(np.argmin(ratios))
        value = max(float(ratios[least]), 0.0)
        return Enclosed(value, value, self._spectrum.name(float(self._spectrum.known[least])))

    def slack(self, gamma: float, m: float, e: float = 0.0, f: float = 0.0) -> float:
        return float(np.min(self._right(m, e, f) - gamma * self._b, initial=np.inf))

    def norm_change(self, gamma: float) -> float:
        # w d^2 <= 1 - gamma b, so 1 - w is (gamma b - (1 - d^2))/d^2 where that is positive.
        with np.errstate(divide="ignore", invalid="ignore"):
            prices = (gamma * self._b - self._rest) / self._d2
        prices = np.where(self._d2 > 0.0, prices, np.where(gamma * self._b > 1.0, 1.0, 0.0))
        return float(np.clip(np.max(prices, initial=0.0), 0.0, 1.0))


class _IntervalModes:
    """Only the ends of the spectrum of K are known: every polynomial is bounded over the interval between them."""

    def __init__(self, spectrum: Spectrum, b: Polynomial, c: Polynomial, d2: Polynomial, rest: Polynomial) -> None:
        self._spectrum, self._b, self._d2, self._rest = spectrum, b, d2, rest
        self._d2c, self._d2c2 = polymul(d2, c), polymul(d2, polymul(c, c))
        self._ends = _KnownModes(spectrum, b, c, d2, rest)
        self._top = 1.0 / max(spectrum.range(b).high, np.finfo(float).tiny)
        self.largest_gamma = cache(self._largest_gamma)  # a search, and theorems ask for few different ones

    def _left_over(self, gamma: float, m: float, e: float = 0.0, f: float = 0.0) -> Polynomial:
        one = self._rest
        for factor, part in ((1.0 - m, self._d2), (e, self._d2c), (-f, self._d2c2), (-gamma, self._b)):
            one = polyadd(one, Fraction(factor) * part)
        return one

    def _largest_gamma(self, m: float, e: float = 0.0, f: float = 0.0) -> Enclosed:
        seen = self._ends.largest_gamma(m, e, f)
        low, high = 0.0, max(seen.value, self._top)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            # Divided by k, which is positive, so that what vanishes with k does not drown in rounding.
            divided = self._left_over(middle, m, e, f)
            holds = self._spectrum.range(divided[1:] if divided[0] == 0 and len(divided) > 1 else divided).low >= 0.0
            low, high = (middle, high) if holds else (low, middle)
        return Enclosed(min(low, seen.value), seen.value, seen.at)

    def slack(self, gamma: float, m: float, e: float = 0.0, f: float = 0.0) -> float:
        return self._spectrum.range(self._left_over(gamma, m, e, f)).low

    def norm_change(self, gamma: float) -> float:
        low, high = 0.0, 1.0
        if self.largest_gamma(1.0).value >= gamma:
            return 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            holds = self.slack(gamma, 1.0 - middle) >= 0.0
            low, high = (low, middle) if holds else (middle, high)
        return high


class _ExplicitModes:
    """Matrices that need not commute, on a basis of the vectors orthogonal to ones."""

    def __init__(self, B2: FloatArray, C: FloatArray, D: FloatArray) -> None:
        n = len(B2)
        basis = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]
        parts = (B2, D @ D, D @ C @ D, D @ C @ C @ D)
        self._b, self._d2, self._dcd, self._dc2d = (basis.T @ part @ basis for part in parts)
        self._one = np.eye(n - 1)

    def _right(self, m: float, e: float = 0.0, f: float = 0.0) -> FloatArray:
        return np.asarray(self._one - m * self._d2 + e * self._dcd - f * self._dc2d)

    def largest_gamma(self, m: float, e: float = 0.0, f: float = 0.0) -> Enclosed:
        if not self._one.size:
            return Enclosed(np.inf, np.inf)
        right = self._right(m, e, f)
        if np.linalg.eigvalsh(right)[0] <= _EXPLICIT_ERROR:
            return Enclosed(0.0, 0.0)
        value = 1.0 / max(float(eigh(self._b, right, eigvals_only=True)[-1]), np.finfo(float).tiny)
        return Enclosed(value, value)

    def slack(self, gamma: float, m: float, e: float = 0.0, f: float = 0.0) -> float:
        return float(np.linalg.eigvalsh(self._right(m, e, f) - gamma * self._b)[0]) if self._one.size else np.inf

    def norm_change(self, gamma: float) -> float:
        if not self._one.size:
            return 0.0
        norm = self._one - gamma * self._b
        if np.linalg.eigvalsh(norm)[0] <= _EXPLICIT_ERROR:
            return 1.0 if np.linalg.eigvalsh(self._right(1.0) - gamma * self._b)[0] < -_EXPLICIT_ERROR else 0.0
        return max(1.0 - 1.0 / max(float(eigh(self._d2, norm, eigvals_only=True)[-1]), 1.0), 0.0)


def _explicit(network: Network, version: MatrixVersion) -> MatrixFacts:
    B2, C, D = (matrix.toarray() for matrix in version.matrices(network))
    return MatrixFacts(B2=_range(B2), C=_range(C), D=_range(D), C_is_zero=not C.any(), modes=_ExplicitModes(B2, C, D))


def _range(matrix: FloatArray) -> Range:
    """Range of the eigenvalues of a symmetric matrix with eigenvector ones, off that vector."""
    n = len(matrix)
    if n == 1:
        return EMPTY
    top = 2.0 * float(np.abs(matrix).sum(axis=1).max())
    # Above Gershgorin's bound the vector of ones owns the last eigenvalue.
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2.0 + top / n)[:-1]
    low, high = float(values[0]), float(values[-1])
    return Range(low, high, low, high, float(np.abs(values).min()), error=_EXPLICIT_ERROR * top)


@dataclass(frozen=True)
class Range:
    """Enclosure of the eigenvalues of one matrix on the vectors orthogonal to ones."""

    low: float  # every eigenvalue lies between these two
    high: float
    seen_low: float  # smallest and largest eigenvalue that is known to occur
    seen_high: float
    nearest: float  # smallest absolute value among the known eigenvalues
    at_low: float = np.nan  # eigenvalues of W or L responsible for `low` and `high`; nan for explicit matrices
    at_high: float = np.nan
    error: float = 0.0  # bound on rounding in all of these

    @property
    def exact(self) -> bool:
        """Whether both ends are eigenvalues, not just bounds."""
        return self.low == self.seen_low and self.high == self.seen_high


# The range over no eigenvalues at all: a lone agent has nothing orthogonal to ones.
EMPTY = Range(np.inf, -np.inf, np.inf, -np.inf, np.inf)


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of K off the vector of ones: all of them, or the interval that they lie in."""

    known: FloatArray  # eigenvalues that occur, ascending
    complete: bool  # whether these are all; otherwise they are the two extreme ones, from Lanczos
    basis: str  # "W" when K = I - W, so that messages can speak of eigenvalues of W; "L" when K = L

    def range(self, polynomial: Polynomial) -> Range:
        """Range of a polynomial, coefficients lowest first, with the eigenvalues of W or L responsible."""
        if not self.known.size:
            return EMPTY
        values = evaluate(polynomial, self.known)
        points, all_values = self.known, values
        if not self.complete:
            # The ends themselves are known up to the accuracy of Lanczos: move them outwards by that much.
            slack = _LANCZOS_ERROR * float(self.known[-1])
            ends = np.array([max(float(self.known[0]) - slack, 0.0), float(self.known[-1]) + slack])
            points = np.concatenate([ends, _critical(polynomial, *ends)])
            all_values = evaluate(polynomial, points)
        lowest, highest = int(np.argmin(all_values)), int(np.argmax(all_values))
        return Range(
            low=float(all_values[lowest]),
            high=float(all_values[highest]),
            seen_low=float(values.min()),
            seen_high=float(values.max()),
            nearest=float(np.abs(values).min()),
            at_low=self.name(points[lowest]),
            at_high=self.name(points[highest]),
            error=self._error(polynomial, max(abs(points[lowest]), abs(points[highest]))),
        )

    def name(self, k: float) -> float:
        """The eigenvalue of W or L that belongs to the eigenvalue k of K."""
        return float(1.0 - k if self.basis == "W" else k)

    def _error(self, polynomial: Polynomial, k: float) -> float:
        # First-order error of p(k) from an error in k, and the rounding of Horner's rule.
        relative = _DENSE_ERROR if self.complete else _LANCZOS_ERROR
        absolute = [abs(float(c)) for c in polynomial]
        slope = sum(j * c * k ** (j - 1) for j, c in enumerate(absolute) if j)
        size = sum(c * k**j for j, c in enumerate(absolute))
        return float(slope * relative * self.known[-1] + 4.0 * np.finfo(float).eps * size)


def exact(coefficients: Sequence[float]) -> Polynomial:
    """Coefficients as fractions, so that what cancels cancels exactly."""
    return np.array([Fraction(value) for value in coefficients])


def evaluate(polynomial: Polynomial, k: FloatArray) -> FloatArray:
    """Values of a polynomial, coefficients lowest first."""
    return np.asarray(polyval(k, polynomial.astype(np.float64)), dtype=np.float64)


def _critical(polynomial: Polynomial, low: float, high: float) -> FloatArray:
    """Real zeros of the derivative inside the interval."""
    derivative = polyder(polynomial.astype(np.float64))
    roots = polyroots(derivative) if np.any(derivative[1:]) else np.zeros(0)
    # A double zero may come out as a complex pair: its real part counts too.
    real = np.real(roots[np.abs(np.imag(roots)) <= 1e-6 * (1.0 + np.abs(roots))])
    return np.asarray(real[(real > low) & (real < high)], dtype=np.float64)
