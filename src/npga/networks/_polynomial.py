"""Polynomials in one gossip matrix: exact change of variable, evaluation, and printing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import VersionError

FloatArray = npt.NDArray[np.float64]
Coefficients = tuple[float, ...]
ROUNDING = Fraction(1, 10**12)  # a sum of typed decimals this close to 0 or 1 means 0 or 1


class KernelPolynomials(NamedTuple):
    """B^2, C and D as coefficients of powers of K, lowest first, without trailing zeros."""

    b: Coefficients
    c: Coefficients
    d: Coefficients


def read_coefficients(values: Iterable[Any], what: str) -> Coefficients:
    """Coefficients as typed, as floats; refuses what is not a non-empty list of finite numbers."""
    try:
        coefficients = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        coefficients = ()
    if not coefficients or not all(math.isfinite(value) for value in coefficients):
        raise VersionError(
            f"{what} = {values!r} arrived; expected a list of finite coefficients in powers of the gossip "
            "matrix, lowest first: [1, 0, -1] is I - W^2. For explicit matrices use Version.from_matrices"
        )
    return coefficients


def in_powers_of_kernel(coefficients: Coefficients, basis: str, constant: int) -> Coefficients:
    """Substitute W = I - K (basis "W"), or L = K, in exact arithmetic.

    Each float is read as the decimal that prints it, so that 0.3 - 0.2 - 0.1 is zero. The constant term must
    come out as `constant`: it is returned as found otherwise, for the caller to refuse.
    """
    typed = [Fraction(repr(value)) for value in coefficients]
    powers = list(typed)
    if basis == "W":  # (I - K)^j = sum over i of binom(j, i) (-K)^i
        for i in range(len(typed)):
            powers[i] = sum((math.comb(j, i) * typed[j] for j in range(i, len(typed))), Fraction(0)) * (-1) ** i
    if abs(powers[0] - constant) <= ROUNDING * max(abs(value) for value in (*typed, Fraction(constant))):
        powers[0] = Fraction(constant)
    while len(powers) > 1 and powers[-1] == 0:
        powers.pop()
    return tuple(float(value) for value in powers)


def degree(polynomial: Coefficients) -> int:
    """Highest power; 0 for constants, zero included."""
    return len(polynomial) - 1


def evaluate(polynomial: Coefficients, x: FloatArray) -> FloatArray:
    """Values of the polynomial at the numbers `x`."""
    return np.asarray(np.polynomial.polynomial.polyval(x, polynomial), dtype=np.float64)


def evaluate_matrix(polynomial: Coefficients, K: Any) -> Any:
    """Value of the polynomial at the sparse matrix K, by Horner's rule."""
    identity = sparse.eye_array(K.shape[0], format="csr")
    value = polynomial[-1] * identity
    for coefficient in polynomial[-2::-1]:
        value = K @ value + coefficient * identity
    value = sparse.csr_array(value)
    value.eliminate_zeros()
    return value


def render(coefficients: Sequence[float], symbol: str) -> str:
    """Text such as "I - W^2" or "0.5 I - 0.5 W"."""
    text = ""
    for power, value in enumerate(coefficients):
        if value == 0:
            continue
        factor = "" if abs(value) == 1 else f"{abs(value):g} "
        base = "I" if power == 0 else symbol if power == 1 else f"{symbol}^{power}"
        sign = ("-" if value < 0 else "") if not text else (" - " if value < 0 else " + ")
        text += sign + factor + base
    return text or "0"
