"""Problem P1 of Li and Su (2024) and everything that is checked about it.

    min over x_1..x_n of  sum_i f_i(x_i) + g_i(x_i)  +  h(sum_i A_i x_i)

Agent i alone knows f_i, g_i and A_i (p x d_i); h is known to all.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from npga.errors import ProblemError
from npga.functions import Function, Zero, join
from npga.networks import Network
from npga.problem._blocks import BlockOperator, dense_block
from npga.problem._residual import Residual, Units, duals_are_unique, error_bound, natural_curvature, residual

Array = NDArray[Any]


@dataclass(frozen=True)
class Agent:
    """What one agent knows and nobody else.

    Parameters
    ----------
    A
        The p x d_i coupling matrix: an array, a SciPy sparse matrix or a SciPy LinearOperator. ``d_i = 0`` makes
        the agent a relay that only passes messages on.
    f
        Smooth part of the cost; needs a gradient.
    g
        Second part of the cost; needs a proximal operator.
    name
        Used in messages.
    """

    A: Any
    f: Function
    g: Function = field(default_factory=Zero)
    name: str | None = None


class Problem:
    """Problem P1, min over x of sum_i f_i(x_i) + g_i(x_i) + h(sum_i A_i x_i), checked once and never changed.

    Parameters
    ----------
    agents
        One `Agent` for each node of the network, in the order of its nodes.
    h
        The coupling function; needs a proximal operator.

    Attributes
    ----------
    n, p, d
        Numbers of agents, of coupling rows and of all variables.
    sizes
        Numbers of variables d_i.
    f, g
        The sums over agents, as functions of the concatenated x.
    A
        diag(A_1, ..., A_n) as a `BlockOperator`.
    dtype
        float32 if every A_i is float32, else float64.

    Raises
    ------
    ProblemError
        If shapes do not match, data are not finite, or a function cannot take its role. The message names the
        agent.
    """

    def __init__(self, agents: Sequence[Agent], h: Function) -> None:
        agents = tuple(agents)
        if not agents:
            raise ProblemError("no agents arrived; expected at least one npga.Agent(A=..., f=..., g=...)")
        for i, agent in enumerate(agents):
            if not isinstance(agent, Agent):
                raise ProblemError(f"agents[{i}] is a {type(agent).__name__}; expected npga.Agent(A=..., f=..., g=...)")
        blocks = [_matrix(agent, _title(agent, i)) for i, agent in enumerate(agents)]
        self.p = _rows(blocks, agents)
        self.dtype = _dtype(blocks)
        blocks = [_cast(block, self.dtype) for block in blocks]
        for i, (agent, block) in enumerate(zip(agents, blocks, strict=True)):
            title = _title(agent, i)
            _role(agent.f, "f", "a gradient", "has_grad", block.shape[1], title)
            _role(agent.g, "g", "a proximal operator", "has_prox", block.shape[1], title)
        _role(h, "h", "a proximal operator", "has_prox", self.p, "the coupling function h")
        self.agents = tuple(
            Agent(block, agent.f.astype(self.dtype), agent.g.astype(self.dtype), agent.name)
            for agent, block in zip(agents, blocks, strict=True)
        )
        self.h = h.astype(self.dtype)
        self.A = BlockOperator(blocks, self.p, self.dtype)
        self.f, self.g = (join([getattr(agent, role) for agent in self.agents], self.sizes.tolist()) for role in "fg")

    def __repr__(self) -> str:
        return f"Problem(n={self.n}, p={self.p}, d={self.d}, h={self.h!r}, dtype={self.dtype.name})"

    @property
    def n(self) -> int:
        """Number of agents."""
        return len(self.agents)

    @property
    def d(self) -> int:
        """Number of variables of all agents together."""
        return self.A.d

    @property
    def sizes(self) -> Array:
        """Numbers of variables d_1, ..., d_n."""
        return self.A.sizes

    @cached_property
    def mu(self) -> float:
        """Strong convexity modulus of f: the smallest mu_i (Assumption 3). Relays do not count."""
        return min((a.f.mu for a in self._owners), default=0.0)

    @cached_property
    def l(self) -> float:  # noqa: E743
        """Smoothness constant of f: the largest l_i (Assumption 3)."""
        return max((a.f.L for a in self._owners), default=0.0)

    @cached_property
    def sigma(self) -> float:
        """Largest singular value of diag(A_1, ..., A_n)."""
        return float(self.A.norms.max())

    @cached_property
    def curvature(self) -> float:
        """A natural unit of cost / x^2: l, or l_h sigma^2 where f has no curvature, or 0 where neither has one."""
        return natural_curvature(self.l, self.h.L, self.sigma)

    units = cached_property(Units)

    @property
    def _owners(self) -> list[Agent]:
        return [a for a, size in zip(self.agents, self.sizes, strict=True) if size]

    @cached_property
    def gathered(self) -> Problem:
        """The same problem in one place: a single agent that knows every f_i, g_i and A_i."""
        blocks = [sparse.csr_array(b) if sparse.issparse(b) else b for b in self.A.blocks]
        if all(sparse.issparse(block) for block in blocks):
            A = sparse.hstack(blocks, format="csr")
        else:
            A = np.hstack([dense_block(block) for block in blocks]).astype(self.dtype)
        return Problem([Agent(A, self.f, self.g)], self.h)

    def split(self, x: Array) -> list[Array]:
        """The blocks x_1, ..., x_n of a concatenated x."""
        return np.split(x, self.A.offsets[1:-1])

    def join(self, x: ArrayLike | Sequence[ArrayLike], name: str = "x") -> Array:
        """The concatenated x from a (d,) array or a list of blocks, checked."""
        if isinstance(x, (list, tuple)) and len(x) == self.n and all(np.ndim(b) == 1 for b in x):
            for i, (block, size) in enumerate(zip(x, self.sizes, strict=True)):
                if np.shape(block) != (size,):
                    raise ProblemError(
                        f"{name}: block of {self.title(i)} has shape {np.shape(block)}; "
                        f"expected ({size},), the number of columns of its A"
                    )
            x = np.concatenate([np.asarray(block) for block in x])
        return self._checked(x, (self.d,), name, f"(d,) = ({self.d},), or one array for each agent")

    def dual(self, lam: ArrayLike, name: str = "lam") -> Array:
        """An n x p dual array from an (n, p) array or one (p,) row for all agents, checked."""
        if np.shape(lam) == (self.p,):
            lam = np.broadcast_to(np.asarray(lam), (self.n, self.p))
        return self._checked(lam, (self.n, self.p), name, f"(n, p) = {(self.n, self.p)} or (p,) = ({self.p},)")

    def _checked(self, values: Any, shape: tuple[int, ...], name: str, expected: str) -> Array:
        array = np.array(values, dtype=self.dtype)
        if array.shape != shape:
            raise ProblemError(f"{name} has shape {array.shape}; expected {expected}")
        if not np.isfinite(array).all():
            where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
            raise ProblemError(f"{name} holds {array[where]} at position {where}; expected finite numbers")
        return array

    def start(self, x0: ArrayLike | None = None, lam0: ArrayLike | None = None) -> tuple[Array, Array]:
        """x and lam to start from, checked; zero where nothing is given."""
        x = np.zeros(self.d, self.dtype) if x0 is None else self.join(x0, "x0")
        lam = np.zeros((self.n, self.p), self.dtype) if lam0 is None else self.dual(lam0, "lam0")
        return x, lam

    def title(self, i: int) -> str:
        """Agent i in messages, with its name if it has one."""
        return _title(self.agents[i], i)

    def expect(self, network: Network, steady: bool = True) -> None:
        """Refuse a network that does not have one node for each agent, or changes where it must not."""
        if not isinstance(network, Network):
            raise ProblemError(f"network is a {type(network).__name__}; expected npga.Network(graph) or a constructor")
        if network.n != self.n:
            raise ProblemError(
                f"the network has {network.n} nodes and the problem {self.n} agents; expected one agent for each "
                "node (an agent without variables, A of shape (p, 0), can fill a node that only passes messages on)"
            )
        if steady and not network.is_steady:
            raise ProblemError(
                f"a {network.kind} arrived, about which nothing is proved; expected a steady network here: take "
                "network.nominal, which stands for it, and give npga.solve a version and steps to run on the other"
            )

    def objective(self, x: ArrayLike | Sequence[ArrayLike], tol: float | None = None) -> float:
        """sum_i f_i(x_i) + g_i(x_i) + h(sum_i A_i x_i); infinite outside the domains of g and h.

        Parameters
        ----------
        x
            A (d,) array or one array for each agent.
        tol
            How far x may be off the constraints: an indicator among g and h counts as met where each of its bounds
            is, up to ``tol * (1 + |bound|)``. Rounding alone is allowed by default, which the x of a run stopped at a
            residual of 1e-8 does not meet.
        """
        x = self.join(x)
        return float(self.f(x) + self.g.value(x, tol) + self.h.value(self.A.apply(x).sum(axis=0), tol))

    def kkt(self, x: ArrayLike | Sequence[ArrayLike], lam: ArrayLike) -> Residual:
        """Residual of the optimality conditions at (x, mean of lam); see `npga.problem.residual`."""
        x = self.join(x)
        return residual(self, x, self.A.apply(x), self._one_dual(lam))

    def error_bound(self, x: ArrayLike | Sequence[ArrayLike], lam: ArrayLike) -> float:
        """A number that |x - x*| does not exceed; infinity where strong convexity gives none.

        There is one where every f_i + g_i is strongly convex and h is smooth, or h is an equality and g is zero.
        """
        x = self.join(x)
        return error_bound(self, x, self._one_dual(lam))

    def duals_are_unique(self, x: ArrayLike | Sequence[ArrayLike], lam: ArrayLike) -> bool | None:
        """Whether no other multiplier goes with the solution x; None where that is too much work to find out."""
        return duals_are_unique(self, self.join(x), self._one_dual(lam))

    def _one_dual(self, lam: ArrayLike) -> Array:
        if np.shape(lam) == (self.p,):
            return self._checked(lam, (self.p,), "lam", "")
        return np.asarray(self.dual(lam).mean(axis=0))

    @cached_property
    def fingerprint(self) -> str:
        """Short digest of the data, so that a checkpoint is resumed only on the problem it belongs to.

        A LinearOperator counts with its shape alone, a callable with its name.
        """
        digest = hashlib.sha256()
        for agent in self.agents:
            _digest(digest, agent.A)
            _digest(digest, agent.f)
            _digest(digest, agent.g)
        _digest(digest, self.h)
        return digest.hexdigest()[:16]


def _title(agent: Agent, i: int) -> str:
    return f"agent {i}" if agent.name is None else f"agent {i} ({agent.name})"


def _matrix(agent: Agent, title: str) -> Any:
    """A_i as float ndarray, CSR array or LinearOperator, finite and two-dimensional."""
    A = agent.A
    if isinstance(A, LinearOperator):
        return A
    if sparse.issparse(A):
        A, values = sparse.csr_array(A), A.data
    else:
        try:
            A = np.asarray(A)
        except ValueError as error:
            raise ProblemError(f"A of {title} is not a matrix: {error}") from error
        if A.dtype.kind not in "fiub":
            raise ProblemError(
                f"A of {title} has dtype {A.dtype}; expected real numbers (an array, a SciPy sparse matrix or a "
                "LinearOperator)"
            )
        values = A
    if A.ndim != 2:
        hint = "; write A.reshape(-1, 1) for one variable" if A.ndim == 1 else ""
        raise ProblemError(f"A of {title} has shape {A.shape}; expected two dimensions (p, d_i){hint}")
    if not np.isfinite(values).all():
        bad = values[~np.isfinite(values)].flat[0]
        raise ProblemError(f"A of {title} holds {bad}; expected finite numbers: clean or drop those entries")
    return A


def _rows(blocks: Sequence[Any], agents: Sequence[Agent]) -> int:
    """The common number of rows p, taken from the first agent that is not alone with it."""
    counts = [block.shape[0] for block in blocks]
    p = max(set(counts), key=lambda rows: (counts.count(rows), -counts.index(rows)))
    for i, (rows, agent) in enumerate(zip(counts, agents, strict=True)):
        if rows != p:
            raise ProblemError(
                f"A of {_title(agent, i)} has {rows} rows; expected p = {p} as the other agents: every A_i maps "
                "to the same coupling space"
            )
    if p == 0:
        raise ProblemError("every A has 0 rows; expected p >= 1: without coupling the agents are independent")
    return int(p)


def _dtype(blocks: Sequence[Any]) -> np.dtype[Any]:
    owned = [block.dtype for block in blocks if block.shape[1]]
    single = bool(owned) and all(dtype == np.float32 for dtype in owned)
    return np.dtype(np.float32 if single else np.float64)


def _cast(block: Any, dtype: np.dtype[Any]) -> Any:
    return aslinearoperator(block) if isinstance(block, LinearOperator) else block.astype(dtype, copy=False)


def _role(function: Any, role: str, need: str, fact: str, size: int, title: str) -> None:
    """Refuse a function that cannot take its role, or whose dimension is another one."""
    owner = title if role == "h" else f"{role} of {title}"
    if not isinstance(function, Function):
        raise ProblemError(
            f"{owner} is a {type(function).__name__}; expected a function of npga.functions (wrap callables with "
            "fn.Custom(value=..., grad=..., prox=...))"
        )
    if not getattr(function, fact):
        other = "g" if role == "f" else "f"
        move = "" if role == "h" else f", or move it to {other} if that role suits it"
        raise ProblemError(
            f"{owner} is {function!r}, which has no {need.split()[-1]}; the role {role} needs {need}: choose another "
            f"function{move}"
        )
    if function.dim is not None and function.dim != size:
        raise ProblemError(
            f"{owner} is {function!r}, a function of {function.dim} variables; expected {size}, the number of "
            f"{'rows' if role == 'h' else 'columns'} of A"
        )


def _digest(digest: Any, item: Any) -> None:
    if isinstance(item, LinearOperator):
        digest.update(repr(item.shape).encode())
    elif sparse.issparse(item):
        for part in (item.data, item.indices, item.indptr):
            digest.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(item, np.ndarray):
        digest.update(repr((item.shape, item.dtype.str)).encode())
        digest.update(np.ascontiguousarray(item).tobytes())
    else:
        try:
            digest.update(pickle.dumps(item, protocol=5))
        except (pickle.PicklingError, AttributeError, TypeError):  # lambdas and closures of fn.Custom
            digest.update(repr(item).encode())
