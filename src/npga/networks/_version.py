"""A version of NPGA: the three network matrices B^2, C and D as polynomials in one gossip matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from npga.errors import NetworkError, VersionError
from npga.networks._exchange import Chebyshev, ChebyshevSchedule, PolynomialSchedule, Schedule
from npga.networks._graphs import is_positive
from npga.networks._mixing import weighted_laplacian
from npga.networks._network import Network

if TYPE_CHECKING:
    from npga.networks._matrix_version import MatrixVersion

FloatArray = npt.NDArray[np.float64]
Coefficients = tuple[float, ...]
Rows = Mapping[str, Mapping[int, float]]
_STEPS = ("alpha", "beta", "gamma", "theta")
_ROUNDING = Fraction(1, 10**12)  # a sum of typed decimals this close to 0 or 1 means 0 or 1


class KernelPolynomials(NamedTuple):
    """B^2, C and D as coefficients of powers of K, lowest first, without trailing zeros."""

    b: Coefficients
    c: Coefficients
    d: Coefficients


class Matrices(NamedTuple):
    """The three network matrices as n x n SciPy CSR arrays."""

    B2: Any
    C: Any
    D: Any


@dataclass(frozen=True, eq=False)
class Spectra:
    """Eigenvalues of B^2, C and D.

    Attributes
    ----------
    B2, C, D : ndarray of shape (n,)
        The eigenvalues.
    joint : bool
        Whether index k of the three arrays belongs to one common eigenvector. Otherwise (explicit matrices)
        each array is ascending on its own.
    consensus : int or None
        Index of the vector of ones, where the eigenvalues are exactly 0, 0 and 1; None unless joint.
    """

    B2: FloatArray
    C: FloatArray
    D: FloatArray
    joint: bool
    consensus: int | None


class Look(NamedTuple):
    """How a version is drawn: its label, and colour, dashes, marker and width of its line, as matplotlib takes them."""

    label: str
    color: str = "#000000"
    dashes: str | tuple[int, tuple[int, ...]] = "-"
    marker: str = ""
    filled: bool = True
    width: float = 1.5


@dataclass(frozen=True, repr=False)
class Version:
    """A version of NPGA, written as polynomials. Immutable.

    Parameters
    ----------
    name : str
        What it is called.
    B2, C, D : sequence of float
        Coefficients in powers of the gossip matrix, lowest first: [1, 0, -1] is I - W^2. C defaults to 0 and
        D to I. Fixed points are solutions only if B^2 1 = 0, C 1 = 0 and D 1 = 1; anything else is refused.
    basis : {"W", "L"}
        The gossip matrix: the mixing matrix or the graph Laplacian.
    times_beta : bool
        Whether B^2 and C are multiplied by the step beta (as in DLM).
    c : float, optional
        The tunable constant of a table row, already part of the coefficients.
    reference : str
        Where it was published; empty for your own.
    fixed : mapping
        Steps that the version prescribes, such as {"theta": 1.0}.
    title : str
        Name for plots and tables; defaults to `name`.
    formulas : sequence of three str, optional
        How to print B^2, C and D; generated from the coefficients by default.
    largest_c : float
        Largest c of a table row with |D| <= 1 for every mixing matrix, as all theorems ask.
    paper_c : float
        Largest c of a table row that the paper allows for every mixing matrix: Assumptions 4(iii) and 9.
    tunes_c : bool
        Whether tuning may search the constant c of the table row of this name.
    chebyshev : int
        Rounds in place of each one: the gossip matrix is replaced by its Chebyshev polynomial of this degree, for the
        spectrum of the network at hand.
    look : Look, optional
        Label, colour, dashes and marker in figures; by default a plain line labelled with the title.

    Examples
    --------
    >>> mine = Version(name="mine", B2=[1, -1], D=[0, 0, 1])
    >>> mine.family, mine.rounds, mine.formula["D"]
    ('ATC', 2, 'W^2')
    """

    name: str
    B2: Sequence[float]
    C: Sequence[float] = (0.0,)
    D: Sequence[float] = (1.0,)
    basis: str = "W"
    times_beta: bool = False
    c: float | None = None
    reference: str = ""
    fixed: Mapping[str, float] = field(default_factory=dict, hash=False)
    title: str = ""
    formulas: Sequence[str] | None = field(default=None, compare=False)
    largest_c: float = field(default=math.inf, compare=False)
    paper_c: float = field(default=math.inf, compare=False)
    tunes_c: bool = field(default=False, compare=False)
    chebyshev: int = 1
    look: Look = field(default=Look(""), compare=False)
    _ops: ClassVar[tuple[str, ...]] = ("gossip",)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise VersionError(f"name={self.name!r} arrived; expected a non-empty name for the version")
        if self.basis not in ("W", "L"):
            raise VersionError(f"basis={self.basis!r} arrived; expected 'W' (mixing matrix) or 'L' (Laplacian)")
        unknown = set(self.fixed) - set(_STEPS)
        if unknown:
            raise VersionError(f"fixed holds {sorted(unknown)}; expected steps among {', '.join(_STEPS)}")
        if self.c is not None and not is_positive(self.c):
            raise VersionError(f"c = {self.c!r} arrived for {self.name!r}; expected a finite number c > 0")
        if isinstance(self.chebyshev, bool) or not isinstance(self.chebyshev, int) or self.chebyshev < 1:
            raise VersionError(f"chebyshev={self.chebyshev!r} arrived; expected a whole number of rounds >= 1")
        for key in ("B2", "C", "D"):
            object.__setattr__(self, key, self._read(key))
        object.__setattr__(self, "fixed", {step: float(value) for step, value in self.fixed.items()})
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "look", self.look if self.look.label else self.look._replace(label=self.title))
        self._require_solutions()

    def _read(self, key: str) -> Coefficients:
        return _read_coefficients(getattr(self, key), key)

    def _require_solutions(self) -> None:
        b, c, d = self._kernel
        for found, wanted, what in ((b[0], 0, "B^2 1 = 0"), (c[0], 0, "C 1 = 0"), (d[0], 1, "D 1 = 1")):
            if found != wanted:
                rule = "add up to" if self.basis == "W" else "start with"
                raise VersionError(
                    f"version {self.name!r} violates {what}: the coefficients {rule} {found:g} instead of "
                    f"{wanted}; otherwise a fixed point of the iteration is not a solution. For example "
                    "B2=[1, -1] is I - W, C=[0] is 0 and D=[0, 1] is W"
                )
        if len(b) == 1:
            raise VersionError(f"version {self.name!r} has B2 = 0, so agents never agree; B2=[1, -1] is I - W")

    @classmethod
    def from_matrices(cls, name: str, B2: Any, C: Any = None, D: Any = None) -> MatrixVersion:
        """Version of explicit symmetric n x n matrices with the graph's sparsity; C defaults to 0, D to I."""
        from npga.networks._matrix_version import MatrixVersion

        return MatrixVersion.read(name, B2, C, D)

    @cached_property
    def _kernel(self) -> KernelPolynomials:
        return KernelPolynomials(
            _in_powers_of_kernel(tuple(self.B2), self.basis, 0),
            _in_powers_of_kernel(tuple(self.C), self.basis, 0),
            _in_powers_of_kernel(tuple(self.D), self.basis, 1),
        )

    def kernel_polynomials(self, beta: float | None = None) -> KernelPolynomials:
        """B^2, C and D in powers of K = I - W (basis "W") or K = L, which edge differences evaluate.

        `beta` is needed only by versions whose matrices contain it (DLM). With `chebyshev` > 1 they depend on the
        network, and powers of K would lose digits: `plain` and `mixed` are the version and the network to look at.
        """
        if self.chebyshev > 1:
            raise VersionError(
                f"version {self.name!r} with chebyshev={self.chebyshev} is no polynomial in powers of K; use its "
                "matrices(network), or version.plain on version.mixed(network)"
            )
        if not self.times_beta:
            return self._kernel
        if beta is None or not is_positive(beta):
            raise VersionError(
                f"the matrices of {self.name!r} contain the step beta, and beta={beta!r} arrived; pass a "
                "finite beta > 0"
            )
        b, c, d = self._kernel
        step = float(beta)
        return KernelPolynomials(tuple(step * x for x in b), tuple(step * x for x in c), d)

    @property
    def family(self) -> str:
        """Either "CTA" (combine then adapt, D = I) or "ATC" (adapt then combine)."""
        return "CTA" if len(self._kernel.d) == 1 else "ATC"

    @property
    def rounds(self) -> int:
        """Vectors sent to each neighbour per iteration: deg D + max(deg C, deg B^2 - deg D, 0), times `chebyshev`."""
        return self.chebyshev * PolynomialSchedule(self._kernel).rounds

    @property
    def plain(self) -> Version:
        """The same without its Chebyshev polynomial."""
        return self if self.chebyshev == 1 else replace(self, chebyshev=1)

    def mixed(self, network: Network) -> Network:
        """The network on which `plain` iterates as this version does on `network`: W is the polynomial, and dense."""
        if self.chebyshev == 1:
            return network
        if self.basis != "W":
            raise VersionError(f"version {self.name!r} mixes with the Laplacian; only I - W has a mixed network")
        K = weighted_laplacian(network.n, network.edges, network.weights).toarray()
        K = self.polynomial(network)(lambda u: K @ u, np.eye(network.n))
        return Network.from_W(np.eye(network.n) - (K + K.T) / 2.0)

    def polynomial(self, network: Network) -> Chebyshev:
        """What takes the place of the gossip matrix on this network."""
        if self.basis == "L":
            low, high = network.laplacian_extremes()
        else:
            least, most = network.extreme_eigenvalues()
            low, high = 1.0 - most, 1.0 - least
        # To ten digits, so that parties on unlike machines have the same polynomial.
        return Chebyshev(self.chebyshev, float(f"{low:.9e}"), float(f"{high:.9e}"))

    @property
    def polynomials(self) -> dict[str, list[float]]:
        """Coefficients as typed, in powers of the gossip matrix, lowest first."""
        return {"B2": list(self.B2), "C": list(self.C), "D": list(self.D)}

    @property
    def formula(self) -> dict[str, str]:
        """B^2, C and D as text."""
        if self.formulas is not None:
            return dict(zip(("B2", "C", "D"), self.formulas, strict=True))
        text = {key: _render(value, self.basis) for key, value in self.polynomials.items()}
        if self.times_beta:
            text |= {key: f"beta ({text[key]})" for key in ("B2", "C") if text[key] != "0"}
        return text

    def schedule(self, beta: float | None = None, network: Network | None = None) -> Schedule:
        """Messages of one iteration; `network` is needed only where `chebyshev` > 1, or its links change."""
        keeps_z = network is not None and not network.has_fixed_links
        messages = PolynomialSchedule(self.plain.kernel_polynomials(beta), keeps_z=keeps_z)
        if self.chebyshev == 1:
            return messages
        if network is None:
            raise VersionError(f"version {self.name!r} has chebyshev={self.chebyshev}; pass the network it runs on")
        if network.changes:
            raise NetworkError(
                f"version {self.name!r} has chebyshev={self.chebyshev}, which needs the spectrum of one network, and "
                "this one changes; use chebyshev=1"
            )
        return ChebyshevSchedule(messages, self.polynomial(network))

    def edge_weights(self, network: Network, op: str = "gossip") -> FloatArray:
        """Weights, one per link of `network.edges`, that a request of the schedule named `op` stands for."""
        if op != "gossip":
            raise VersionError(f"op={op!r} arrived; the messages of a polynomial version are all 'gossip'")
        return network.weights if self.basis == "W" else np.ones(len(network.edges))

    def row(self, network: Network, i: int) -> Rows | Callable[[int], Rows]:
        """Agent i's weights {op: {neighbour: weight}}; on a network that changes, a function of the iteration."""
        if network.changes:
            return lambda iteration: self._row(network.links(iteration, 0)[0], i)
        return self._row(network, i)

    def _row(self, network: Network, i: int) -> Rows:
        mine = np.flatnonzero((network.edges == i).any(axis=1))
        others = (network.edges[mine].sum(axis=1) - i).tolist()
        return {op: dict(zip(others, self.edge_weights(network, op)[mine].tolist(), strict=True)) for op in self._ops}

    def matrices(self, network: Network, beta: float | None = None) -> Matrices:
        """B^2, C and D on this network, as sparse n x n matrices."""
        K = weighted_laplacian(network.n, network.edges, self.edge_weights(network))
        if self.chebyshev > 1:
            identity = sparse.eye_array(network.n, format="csr")
            K = sparse.csr_array(self.polynomial(network)(lambda u: K @ u, identity))
        return Matrices(*(_evaluate_matrix(polynomial, K) for polynomial in self.plain.kernel_polynomials(beta)))

    def spectra(self, network: Network, beta: float | None = None) -> Spectra:
        """Eigenvalues of B^2, C and D on this network, joint because the three matrices commute."""
        kernel = 1.0 - network.spectrum if self.basis == "W" else network.laplacian_spectrum
        consensus = network.n - 1 if self.basis == "W" else 0
        if self.chebyshev > 1:
            kernel = self.polynomial(network).values(kernel)
        b, c, d = (_evaluate(polynomial, kernel) for polynomial in self.plain.kernel_polynomials(beta))
        return Spectra(b, c, d, joint=True, consensus=consensus)

    def __repr__(self) -> str:
        text = ", ".join(f"{key}={value!r}" for key, value in self.formula.items())
        constant = "" if self.c is None else f", c={self.c:g}"
        constant += "" if self.chebyshev == 1 else f", chebyshev={self.chebyshev}"
        return f"Version({self.name!r}, {text}{constant}, rounds={self.rounds})"


def _read_coefficients(values: Iterable[Any], what: str) -> Coefficients:
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


def _in_powers_of_kernel(coefficients: Coefficients, basis: str, constant: int) -> Coefficients:
    """Substitute W = I - K (basis "W"), or L = K, in exact arithmetic.

    Each float is read as the decimal that prints it, so that 0.3 - 0.2 - 0.1 is zero. The constant term must
    come out as `constant`: it is returned as found otherwise, for the caller to refuse.
    """
    typed = [Fraction(repr(value)) for value in coefficients]
    powers = list(typed)
    if basis == "W":  # (I - K)^j = sum over i of binom(j, i) (-K)^i
        for i in range(len(typed)):
            powers[i] = sum((math.comb(j, i) * typed[j] for j in range(i, len(typed))), Fraction(0)) * (-1) ** i
    if abs(powers[0] - constant) <= _ROUNDING * max(abs(value) for value in (*typed, Fraction(constant))):
        powers[0] = Fraction(constant)
    while len(powers) > 1 and powers[-1] == 0:
        powers.pop()
    return tuple(float(value) for value in powers)


def _evaluate(polynomial: Coefficients, x: FloatArray) -> FloatArray:
    """Values of the polynomial at the numbers `x`."""
    return np.asarray(np.polynomial.polynomial.polyval(x, polynomial), dtype=np.float64)


def _evaluate_matrix(polynomial: Coefficients, K: Any) -> Any:
    """Value of the polynomial at the sparse matrix K, by Horner's rule."""
    identity = sparse.eye_array(K.shape[0], format="csr")
    value = polynomial[-1] * identity
    for coefficient in polynomial[-2::-1]:
        value = K @ value + coefficient * identity
    value = sparse.csr_array(value)
    value.eliminate_zeros()
    return value


def _render(coefficients: Sequence[float], symbol: str) -> str:
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
