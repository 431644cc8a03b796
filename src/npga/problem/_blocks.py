"""The block-diagonal operator diag(A_1, ..., A_n) applied to all agents at once.

With x the concatenation of the blocks x_i and lam the n x p array whose row i belongs to agent i,

    apply(x)     = rows  A_i x_i            (n x p)
    adjoint(lam) = concatenation of  A_i^T lam_i   (d,)

Small dense blocks of equal width are stacked into one batched product, sparse blocks into one block-diagonal
matrix; large dense blocks and linear operators are visited one by one, where a loop costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

Array = NDArray[Any]

# Above this many entries one matrix-vector product costs more than a turn of the Python loop, and a stacked
# copy would double the memory.
_STACK_LIMIT = 1 << 14
# Up to this size a Gram matrix is formed to get a spectral norm; beyond it Lanczos is used.
_GRAM_LIMIT = 1500
# Up to this many entries a linear operator is written out to see its rows.
_DENSE_LIMIT = 1 << 22


class _Stacked:
    """Dense blocks of one width, as one (k, p, d) array."""

    def __init__(self, blocks: Sequence[Any], agents: Sequence[int], columns: Sequence[Array]) -> None:
        self.A = np.stack([blocks[i] for i in agents])
        self.agents = np.asarray(agents)
        self.columns = np.stack([columns[i] for i in agents])  # (k, d)

    def apply(self, x: Array, out: Array) -> None:
        out[self.agents] = np.matmul(self.A, x[self.columns][:, :, None])[:, :, 0]

    def adjoint(self, lam: Array, out: Array) -> None:
        out[self.columns] = np.matmul(lam[self.agents][:, None, :], self.A)[:, 0, :]


class _BlockDiagonal:
    """Sparse blocks, as one block-diagonal CSR matrix."""

    def __init__(self, blocks: Sequence[Any], agents: Sequence[int], columns: Sequence[Array]) -> None:
        self.A = sparse.block_diag([blocks[i] for i in agents], format="csr")
        self.At = self.A.T
        self.agents = np.asarray(agents)
        self.columns = np.concatenate([columns[i] for i in agents])

    def apply(self, x: Array, out: Array) -> None:
        out[self.agents] = (self.A @ x[self.columns]).reshape(len(self.agents), -1)

    def adjoint(self, lam: Array, out: Array) -> None:
        out[self.columns] = self.At @ lam[self.agents].ravel()


class _Single:
    """One block by itself."""

    def __init__(self, block: Any, agent: int, columns: Array) -> None:
        self.A, self.At = block, block.T
        self.agent = agent
        self.columns = slice(int(columns[0]), int(columns[-1]) + 1)

    def apply(self, x: Array, out: Array) -> None:
        out[self.agent] = self.A @ x[self.columns]

    def adjoint(self, lam: Array, out: Array) -> None:
        out[self.columns] = self.At @ lam[self.agent]


_Group = _Stacked | _BlockDiagonal | _Single


class BlockOperator:
    """diag(A_1, ..., A_n) for dense, sparse and matrix-free blocks.

    Parameters
    ----------
    blocks
        The matrices A_i, already checked: p rows each, one dtype.
    p
        Number of rows of every block.
    dtype
        The dtype of all products.
    """

    def __init__(self, blocks: Sequence[Any], p: int, dtype: np.dtype[Any]) -> None:
        self.blocks = tuple(blocks)
        self.p = p
        self.dtype = dtype
        self.sizes = np.array([block.shape[1] for block in self.blocks], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def n(self) -> int:
        """Number of agents."""
        return len(self.blocks)

    @property
    def d(self) -> int:
        """Number of variables of all agents together."""
        return int(self.offsets[-1])

    @cached_property
    def _groups(self) -> list[_Group]:
        columns = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in range(self.n)]
        stacked: dict[int, list[int]] = {}
        scattered: list[int] = []
        groups: list[_Group] = []
        for i, block in enumerate(self.blocks):
            if not self.sizes[i]:
                continue  # a relay: its row of A x stays zero
            if sparse.issparse(block):
                scattered.append(i)
            elif isinstance(block, np.ndarray) and block.size <= _STACK_LIMIT:
                stacked.setdefault(int(self.sizes[i]), []).append(i)
            else:
                groups.append(_Single(block, i, columns[i]))
        groups += [_Stacked(self.blocks, agents, columns) for agents in stacked.values()]
        if scattered:
            groups.append(_BlockDiagonal(self.blocks, scattered, columns))
        return groups

    def apply(self, x: Array) -> Array:
        """Rows A_i x_i, an n x p array."""
        out = np.zeros((self.n, self.p), dtype=self.dtype)
        for group in self._groups:
            group.apply(x, out)
        return out

    def adjoint(self, lam: Array) -> Array:
        """Concatenation of A_i^T lam_i."""
        out = np.zeros(self.d, dtype=self.dtype)
        for group in self._groups:
            group.adjoint(lam, out)
        return out

    @cached_property
    def norms(self) -> Array:
        """Spectral norms sigma_max(A_i), one for each agent."""
        return np.array([spectral_norm(block) for block in self.blocks])

    @cached_property
    def row_squares(self) -> Array:
        """Squared norms of the rows, n x p in double precision; rows that cannot be told apart count alike."""
        return np.array([_row_squares(block, norm) for block, norm in zip(self.blocks, self.norms, strict=True)])


def _row_squares(block: Any, norm: float) -> Array:
    if isinstance(block, LinearOperator):
        if block.shape[0] * block.shape[1] > _DENSE_LIMIT:
            return np.full(block.shape[0], norm**2)
        block = dense_block(block)
    if sparse.issparse(block):
        return np.asarray(block.multiply(block).sum(axis=1), np.float64).reshape(-1)
    return np.asarray(np.einsum("kj,kj->k", block, block, dtype=np.float64))


def column_squares(block: Any) -> Array:
    """Squared norms of the columns of a dense, sparse or matrix-free block, in double precision."""
    return _row_squares(block.T, 0.0)


def dense_block(block: Any) -> Array:
    """A dense, sparse or matrix-free block as an array in double precision."""
    if isinstance(block, LinearOperator):
        block = block @ np.eye(block.shape[1])
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


def spectral_norm(block: Any) -> float:
    """Largest singular value of a dense, sparse or matrix-free block.

    Dense and sparse blocks whose smaller side is moderate go through their Gram matrix, whose largest eigenvalue
    keeps full relative accuracy; the others through Lanczos from a fixed start vector.
    """
    rows, columns = block.shape
    small = min(rows, columns)
    if small == 0:
        return 0.0
    if isinstance(block, LinearOperator) or small > _GRAM_LIMIT:
        return _lanczos_norm(block)
    gram = block.T @ block if columns <= rows else block @ block.T
    dense = np.asarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)
    return float(np.sqrt(max(np.linalg.eigvalsh(dense)[-1], 0.0)))


def _lanczos_norm(block: Any) -> float:
    columns = block.shape[1]
    if columns == 1:
        return float(np.linalg.norm(block @ np.ones(1)))
    transpose = block.T
    gram = LinearOperator((columns, columns), matvec=lambda x: transpose @ (block @ np.ravel(x)), dtype=np.float64)
    if columns == 2:  # ARPACK needs k < n - 1
        return float(np.sqrt(np.linalg.eigvalsh(gram @ np.eye(2))[-1]))
    start = np.random.default_rng(0).standard_normal(columns)
    return float(np.sqrt(max(eigsh(gram, k=1, v0=start, tol=1e-12, return_eigenvectors=False)[0], 0.0)))
