"""A version of NPGA given by explicit matrices instead of polynomials."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError, VersionError
from npga.networks._exchange import MatrixSchedule
from npga.networks._mixing import (
    TOLERANCE,
    entries_on_edges,
    read_only,
    read_symmetric,
    require_row_sums,
    weighted_laplacian,
)
from npga.networks._network import Network
from npga.networks._version import KernelPolynomials, Matrices, Spectra, Version

FloatArray = npt.NDArray[np.float64]


class MatrixVersion(Version):
    """A version whose B^2, C and D are symmetric n x n matrices with the graph's sparsity.

    Made by `Version.from_matrices`; `B2`, `C` and `D` are SciPy CSR arrays. The rows of B^2, C and I - D sum
    to zero, so each is an edge-difference operator, determined by one number per link; only those are used.
    """

    _ops = ("B2", "C", "D")

    @classmethod
    def read(cls, name: str, B2: Any, C: Any = None, D: Any = None) -> MatrixVersion:
        """Check the matrices and build the version; None means C = 0 and D = I."""
        n = read_symmetric(B2, "B2", VersionError).shape[0]
        no_C, no_D = sparse.csr_array((n, n), dtype=np.float64), sparse.eye_array(n, format="csr")
        return cls(name=name, B2=B2, C=no_C if C is None else C, D=no_D if D is None else D)

    def _matrix(self, key: str) -> Any:
        return getattr(self, key)

    def _off_diagonal(self, key: str) -> Any:
        return sparse.csr_array(sparse.triu(self._matrix(key), k=1))

    def _read(self, key: str) -> Any:
        return read_only(read_symmetric(self._matrix(key), key, VersionError))

    def _require_solutions(self) -> None:
        shape = self._matrix("B2").shape
        for key, total in (("B2", 0.0), ("C", 0.0), ("D", 1.0)):
            matrix = self._matrix(key)
            if matrix.shape != shape:
                raise VersionError(f"B2 has shape {shape} and {key} has shape {matrix.shape}; expected equal shapes")
            require_row_sums(matrix, total, key, VersionError)
        if shape[0] > 1 and not self._has("B2"):
            raise VersionError(f"version {self.name!r} has B2 = 0, so agents never agree; for example use I - W")

    def _has(self, key: str) -> bool:
        """Whether the edge-difference operator of `key` is not zero: B^2 != 0, C != 0, D != I."""
        return bool(self._off_diagonal(key).nnz)

    @property
    def _ratio(self) -> float | None:
        """The number with C = ratio B^2, if there is one."""
        b, c = self._off_diagonal("B2"), self._off_diagonal("C")
        if not c.nnz:
            return 0.0
        ratio = float((b * c).sum() / (b * b).sum())
        gap = abs(c - ratio * b)
        return ratio if gap.max() <= TOLERANCE * abs(c).max() else None

    @property
    def family(self) -> str:
        """Either "CTA" (combine then adapt, D = I) or "ATC" (adapt then combine)."""
        return "ATC" if self._has("D") else "CTA"

    @property
    def rounds(self) -> int:
        """Vectors sent to each neighbour per iteration: 1, or 2 if C needs a message of its own."""
        return self.schedule().rounds

    @property
    def polynomials(self) -> NoReturn:
        """Explicit matrices have none."""
        raise VersionError(self._no_polynomials)

    @property
    def _no_polynomials(self) -> str:
        return (
            f"version {self.name!r} was given by explicit matrices and has no polynomials; use "
            "matrices(network), or define it by Version(name, B2=[...], C=[...], D=[...])"
        )

    @property
    def formula(self) -> dict[str, str]:
        """B^2, C and D as text."""
        plain = {"B2": "0", "C": "0", "D": "I"}
        return {key: f"{key} (given)" if self._has(key) else plain[key] for key in self._ops}

    def kernel_polynomials(self, beta: float | None = None) -> KernelPolynomials:  # noqa: ARG002
        """Explicit matrices have none."""
        raise VersionError(self._no_polynomials)

    def schedule(self, beta: float | None = None, network: Network | None = None) -> MatrixSchedule:  # noqa: ARG002
        """Messages of one iteration; `beta` plays no part, and of the network only whether its links change."""
        if network is not None and network.changes:
            raise NetworkError(f"version {self.name!r} is given by matrices of one network, and this one changes")
        keeps_z = network is not None and not network.has_fixed_links
        return MatrixSchedule(has_C=self._has("C"), has_D=self._has("D"), ratio=self._ratio, keeps_z=keeps_z)

    def edge_weights(self, network: Network, op: str = "B2") -> FloatArray:
        """Weights m_ij, one per link, of the operator `op`: -B2_ij, -C_ij, and D_ij for I - D."""
        if op not in self._ops:
            raise VersionError(f"op={op!r} arrived; expected one of {', '.join(self._ops)}")
        matrix = self._matrix(op)
        if matrix.shape[0] != network.n:
            raise VersionError(
                f"version {self.name!r} has {matrix.shape[0]} x {matrix.shape[0]} matrices and the network "
                f"{network.n} agents; expected one row per agent"
            )
        entries = entries_on_edges(matrix, network.edges, op, VersionError)
        return entries if op == "D" else -entries

    def matrices(self, network: Network, beta: float | None = None) -> Matrices:  # noqa: ARG002
        """B^2, C and D as the iteration uses them on this network; `beta` plays no part."""
        K = {op: weighted_laplacian(network.n, network.edges, self.edge_weights(network, op)) for op in self._ops}
        D = sparse.csr_array(sparse.eye_array(network.n, format="csr") - K["D"])
        for matrix in (K["B2"], K["C"], D):
            matrix.eliminate_zeros()
        return Matrices(K["B2"], K["C"], D)

    def spectra(self, network: Network, beta: float | None = None) -> Spectra:  # noqa: ARG002
        """Eigenvalues of B^2, C and D, each ascending on its own: the matrices need not commute."""
        b, c, d = (np.linalg.eigvalsh(matrix.toarray()) for matrix in self.matrices(network))
        return Spectra(b, c, d, joint=False, consensus=None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixVersion):
            return NotImplemented
        same = (abs(self._matrix(op) - other._matrix(op)).nnz == 0 for op in self._ops)
        shapes = self._matrix("B2").shape == other._matrix("B2").shape
        return self.name == other.name and shapes and all(same)

    def __hash__(self) -> int:
        return hash((self.name, self._matrix("B2").shape, self._matrix("B2").nnz))
