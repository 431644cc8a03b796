"""What the theorems need to know about the network matrices B^2, C and D.

B^2, C, D and the gaps of Assumptions 7 and 9 are polynomials in one matrix K (I - W, or the Laplacian), so their
eigenvalues off the vector of ones are the values of the polynomials at the eigenvalues k of K off the vector of
ones. Up to a few thousand agents all k are known. Beyond that only the extreme ones are, and the range over the
whole interval between them is a rigorous enclosure: a polynomial of low degree takes its extremes at the ends or
where its derivative vanishes. Explicit matrices are decomposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.networks import MatrixVersion, Network, Version

FloatArray: TypeAlias = npt.NDArray[np.float64]
Polynomial: TypeAlias = tuple[Fraction, ...]

ALL_EIGENVALUES = 3000  # up to here all eigenvalues are computed, beyond it the extreme ones
_EXPLICIT_ERROR = 1e-12  # rounding of a dense eigenvalue of a matrix of norm about one and 3000 rows
# Eigenvalues of K from LAPACK are right up to a small multiple of eps |K|; Lanczos stops at 1e-11 |K|.
_DENSE_ERROR, _LANCZOS_ERROR = 16.0 * np.finfo(float).eps, 1e-10


@dataclass(frozen=True)
class Entry:
    """Smallest entry of D and where it is; None where D is too large to form and its sign cannot be told."""

    value: float | None
    row: int = 0
    column: int = 0


@dataclass(frozen=True)
class MatrixFacts:
    """Eigenvalues of the network matrices off the vector of ones, for one value of beta.

    Attributes
    ----------
    B2, C, D
        Ranges of their eigenvalues.
    gap7, gap9
        Ranges of the eigenvalues of I - B^2 - D^2 and of I - B^2 - D (I - C) D.
    C_is_zero
        Whether C = 0.
    entry
        Smallest entry of D.
    """

    B2: Range
    C: Range
    D: Range
    gap7: Range
    gap9: Range
    C_is_zero: bool
    entry: Entry

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


def matrix_facts(network: Network, version: Version, beta: float, entry: Entry | None = None) -> MatrixFacts | None:
    """Facts about B^2, C and D on this network, or None when they cannot be had (explicit matrices, n > 3000).

    Parameters
    ----------
    network, version, beta
        Where the matrices come from; beta matters only to versions whose matrices contain it.
    entry
        Smallest entry of D, if it is known already: D never contains beta.
    """
    entry = smallest_entry(network, version) if entry is None else entry
    if isinstance(version, MatrixVersion):
        return _explicit(network, version, entry) if network.n <= ALL_EIGENVALUES else None
    spectrum = _spectrum(network, version.basis)
    b, c, d = (exact(part) for part in version.kernel_polynomials(beta))
    one = exact((1.0,))
    d_squared = times(d, d)
    room = minus(one, b)
    return MatrixFacts(
        B2=spectrum.range(b),
        C=spectrum.range(c),
        D=spectrum.range(d),
        gap7=spectrum.range(minus(room, d_squared)),
        gap9=spectrum.range(minus(room, times(d_squared, minus(one, c)))),
        C_is_zero=not any(c),
        entry=entry,
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


def _explicit(network: Network, version: MatrixVersion, entry: Entry) -> MatrixFacts:
    B2, C, D = (matrix.toarray() for matrix in version.matrices(network))
    identity = np.eye(network.n)
    room = identity - B2
    return MatrixFacts(
        B2=_range(B2),
        C=_range(C),
        D=_range(D),
        gap7=_range(room - D @ D),
        gap9=_range(room - D @ (identity - C) @ D),
        C_is_zero=not C.any(),
        entry=entry,
    )


def _range(matrix: FloatArray) -> Range:
    """Range of the eigenvalues of a symmetric matrix with eigenvector ones, off that vector."""
    n = len(matrix)
    if n == 1:
        return EMPTY
    top = 2.0 * float(np.abs(matrix).sum(axis=1).max()) + 1.0
    # Above Gershgorin's bound the vector of ones owns the last eigenvalue.
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2.0 + top / n)[:-1]
    low, high = float(values[0]), float(values[-1])
    return Range(
        low, high, low, high, float(np.abs(values).min()), error=_EXPLICIT_ERROR * max(1.0, abs(low), abs(high))
    )


def smallest_entry(network: Network, version: Version) -> Entry:
    """Smallest entry of D: read off the matrix, or, for large networks, its sign off the coefficients."""
    if network.n <= ALL_EIGENVALUES or version.family == "CTA" or isinstance(version, MatrixVersion):
        # Any beta will do: D does not contain it.
        D = sparse.coo_array(version.matrices(network, beta=1.0).D)
        worst = int(np.argmin(D.data)) if D.nnz else 0
        if D.nnz and (D.data[worst] < 0.0 or D.nnz == network.n**2):
            return Entry(float(D.data[worst]), int(D.row[worst]), int(D.col[worst]))
        return Entry(0.0)
    nonnegative = bool(np.all(network.weights >= 0.0)) and float(network.W.diagonal().min()) >= 0.0
    if nonnegative and version.basis == "W" and all(value >= 0.0 for value in version.D):
        return Entry(0.0)
    return Entry(None)


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

    def range(self, polynomial: Polynomial) -> Range:
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

    def _error(self, polynomial: Polynomial, k: float) -> float:
        # First-order error of p(k) from an error in k, and the rounding of Horner's rule.
        relative = _DENSE_ERROR if self.complete else _LANCZOS_ERROR
        absolute = [abs(float(c)) for c in polynomial]
        slope = sum(j * c * k ** (j - 1) for j, c in enumerate(absolute) if j)
        size = sum(c * k**j for j, c in enumerate(absolute))
        return float(slope * relative * self.known[-1] + 4.0 * np.finfo(float).eps * size)


def exact(coefficients: tuple[float, ...]) -> Polynomial:
    """Coefficients as fractions, so that what cancels cancels exactly."""
    return tuple(Fraction(value) for value in coefficients)


def minus(a: Polynomial, b: Polynomial) -> Polynomial:
    """Difference of two polynomials, without trailing zeros."""
    size = max(len(a), len(b))
    padded = [(*x, *[Fraction(0)] * (size - len(x))) for x in (a, b)]
    return _trim([x - y for x, y in zip(*padded, strict=True)])


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """Product of two polynomials, without trailing zeros."""
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return _trim(product)


def _trim(coefficients: list[Fraction]) -> Polynomial:
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients.pop()
    return tuple(coefficients)


def _evaluate(polynomial: Polynomial, k: FloatArray) -> FloatArray:
    return np.asarray(np.polynomial.polynomial.polyval(k, [float(c) for c in polynomial]), dtype=np.float64)


def _critical(polynomial: Polynomial, low: float, high: float) -> FloatArray:
    """Real zeros of the derivative inside the interval."""
    derivative = np.polynomial.polynomial.polyder([float(c) for c in polynomial])
    roots = np.polynomial.polynomial.polyroots(derivative) if np.any(derivative[1:]) else np.zeros(0)
    # A double zero may come out as a complex pair: its real part counts too.
    real = np.real(roots[np.abs(np.imag(roots)) <= 1e-6 * (1.0 + np.abs(roots))])
    return np.asarray(real[(real > low) & (real < high)], dtype=np.float64)
