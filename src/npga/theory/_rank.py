"""Whether A = [A_1 ... A_n] has full row rank, and how far it is from losing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from npga.problem import Problem

FloatArray: TypeAlias = npt.NDArray[np.float64]

_DENSE_GRAM = 4000  # largest p whose p x p Gram matrix is decomposed
# Work p^2 d up to which singular values are computed at once, and up to which they decide what the Gram matrix cannot.
_SMALL, _LARGEST_SVD = 10**8, 2 * 10**10
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Fact:
    """A yes, no or unknown (None), a margin, and a sentence."""

    holds: bool | None
    margin: float
    reason: str


def row_rank(problem: Problem, A: FloatArray | None) -> Fact:
    """Full row rank of A, through the smallest eigenvalue of the p x p matrix A A^T."""
    p, d = problem.p, problem.d
    if d < p:
        return Fact(False, 0.0, f"A has {p} rows and only {d} columns, so its rows are dependent")
    gram = None if A is not None and p * p * d <= _SMALL else _gram(problem, A)
    if gram is not None:
        eigenvalues = np.linalg.eigvalsh(gram)
        least, most = float(eigenvalues[0]), float(eigenvalues[-1])
        rounding = 4.0 * d * _EPS * most
    if gram is None or least <= rounding:
        if A is None or p * p * d > _LARGEST_SVD:
            return _diagonal_dominance(problem)
        values = np.linalg.svd(A, compute_uv=False)  # twice the digits of the Gram matrix
        least, most = float(values[-1]) ** 2, float(values[0]) ** 2
        rounding = (4.0 * d * _EPS) ** 2 * most
    if least <= rounding:
        return Fact(
            False,
            0.0,
            f"A A^T has eigenvalues from {least:.1e} to {most:.3g}: its rows are dependent up to rounding",
        )
    return Fact(True, least, f"A A^T >= {least:.3g} I (largest eigenvalue {most:.3g})")


def _gram(problem: Problem, A: FloatArray | None) -> FloatArray | None:
    if problem.p > _DENSE_GRAM:
        return None
    if A is not None:
        return np.asarray(A @ A.T)
    gram = np.zeros((problem.p, problem.p))
    for block in problem.A.blocks:
        if isinstance(block, LinearOperator):
            gram += np.asarray(block @ (block.T @ np.eye(problem.p)))
        else:
            square = block @ block.T
            gram += square.toarray() if sparse.issparse(square) else square
    return gram


def _diagonal_dominance(problem: Problem) -> Fact:
    """Gershgorin's lower bound on A A^T for sparse blocks with more rows than can be decomposed."""
    unknown = f"A has {problem.p} rows, too many to decompose, and A A^T is not diagonally dominant"
    if not all(sparse.issparse(block) for block in problem.A.blocks):
        return Fact(None, 0.0, f"A has {problem.p} rows, too many to decompose A A^T")
    stacked = sparse.hstack(list(problem.A.blocks), format="csr").astype(np.float64)
    gram = stacked @ stacked.T
    diagonal = gram.diagonal()
    bound = float((2.0 * diagonal - np.asarray(abs(gram).sum(axis=1)).ravel()).min())
    if bound <= 4.0 * problem.d * _EPS * float(diagonal.max()):
        return Fact(None, 0.0, unknown)
    return Fact(True, bound, f"A A^T >= {bound:.3g} I by Gershgorin's bound")
