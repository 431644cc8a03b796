"""What the theorems need to know about the network matrices B^2, C and D."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from npga.networks import MatrixVersion, Network, Version
from npga.theory._polynomial import EMPTY, FloatArray, Range, Spectrum, exact, minus, times

ALL_EIGENVALUES = 3000  # up to here all eigenvalues are computed, beyond it the extreme ones
_EXPLICIT_ERROR = 1e-12  # rounding of a dense eigenvalue of a matrix of norm about one and 3000 rows


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
