"""Agreeing without a coordinator: maxima over all agents, and the bound on the residual that they imply.

Let z = sum_i A_i x_i, z_hat = sum_i A_i x_hat_i, and let lam be the mean of the lam_i. The recursion sets
v = lam_prev - u + beta A x_hat, and the u_i add up to zero because the columns of B^2 and C do. So every agent has its
own estimate of z_hat,

    z_i = (n / beta) (v_i - lam_prev_i),     with mean z_hat exactly,

and the residual of `npga.problem.residual` has a bound made of maxima over agents and links. With D the diameter, let
a, b be the largest |lam_i - lam_j| and |z_i - z_j| over links and c the largest |A_i x_i - A_i x_hat_i|. Then

    |lam - lam_i| <= l = D a,        |z - z_i| <= e = n c + D b.

**Agents.** m(s), the move of x_i in a proximal step s at lam_i, changes by at most s |A_i| l at lam, m(s) increases and
m(s)/s decreases. What it is relative to is at least X = max(|x_i|, c s G) with G = max(|grad f_i|, 15 K_i/16), where
K_i is taken at lam_i and l is small enough for 15/16 of it to be safe. So

    stationarity <= max_i q_i m(s_i)/X_i + l max_i q_i s_i |A_i|/X_i

with s_i = 1/curvature and q_i how often its moves count; a flat agent does not know its s, and takes the worst,
|x_i|/(c G).

**Rows.** With t a step of h that is at least the true one, and P the move of z_i in a step t0 of h at lam_i,

    |z+ - z| <= r = max(1, t/t0) P + 2 e + t l,        relative to at least  S - e - r,

S being the largest |z_i|, or |A_i x_i| where the sum of large terms is small. All of it holds row by row, or for rows
that h does not take apart together, so that P and S are vectors. A step t is max_i |a_i|^2 s_i: shared once for curved
agents, and E max_i |a_i|^2/G_i^2 for flat ones, E being the largest energy.

Agents round what they contribute up to powers of two (`coarse`), and `bound` takes half of it wherever it needs a value
from below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.functions import Function
from npga.networks import Schedule, drive
from npga.problem import FORCES, Agent, Problem
from npga.runtimes._faults import BadMessage, Diverged, Peer
from npga.runtimes._job import Job
from npga.solver import State

Array = NDArray[Any]
Share = Callable[[int, Mapping[int, Array]], Mapping[int, Mapping[int, Array]]]
Lams = Mapping[int, Mapping[int, tuple[Array, Array]]]

# Says that nothing is known, and survives a round of maxima.
_HUGE = 2.0**900
# The step of a flat agent whose x_i is zero: m(s)/s is largest for short ones.
_SHORT = 2.0**-40
# Single terms count as the size of a row where they are so many times their sum.
_SMALL_SUM = 10.0


class Agreement:
    """What the agents of one party find out together with all others, in `rounds` that are counted apart.

    `share` carries out one: called with its number and a vector for each own agent, it returns what each hears.
    `witnesses` are what own agents can recompute of their neighbours, `beta` the step that the states were made with.
    """

    def __init__(
        self,
        own: Mapping[int, OwnMeasures],
        n: int,
        diameter: int,
        share: Share,
        witnesses: Mapping[int, Witness] | None = None,
    ) -> None:
        self._own, self._n, self._diameter, self._share = own, n, diameter, share
        self._witnesses = witnesses or {}
        self.beta = 1.0
        self.rounds = 0
        self._facts = Facts(np.zeros(2))

    def largest(self, own: Mapping[int, Array]) -> Array:
        """Maxima over all agents of the network, known to each after as many rounds as the diameter."""
        values: Mapping[int, Array] = own
        told: Mapping[int, Array] = {}
        for _ in range(self._diameter):
            heard = self.round(values)
            for i, before in told.items():
                _check_maxima(heard[i], before)
            told, values = values, {i: np.max([values[i], *heard[i].values()], axis=0) for i in values}
        return next(iter(values.values()))

    def share_facts(self) -> None:
        """Once, before the first residual."""
        self._facts = Facts(self.largest({i: coarse(own.facts()) for i, own in self._own.items()}))

    def recompute(self, states: Mapping[int, State], inboxes: Mapping[int, Mapping[int, Array]]) -> Lams:
        """The lam of neighbours after an iteration, for each own agent, as far as what they sent in it tells."""
        return {
            i: witness.lams(states[i].v, inboxes[i], self.beta)
            for i, witness in self._witnesses.items()
            if i in inboxes
        }

    def residual(self, states: Mapping[int, State], now: Lams | None = None, before: Lams | None = None) -> float:
        """A bound on the residual of the whole problem, the same number at every agent.

        `now` and `before` are what `recompute` made of this iteration and the one before; neighbours that show
        something else are refused.
        """
        beta, facts = self.beta, self._facts
        views = {i: self._own[i].view(state, beta) for i, state in states.items()}
        heard = self.round(views)
        for i, lams in (now or {}).items():
            self._witnesses[i].check(heard[i], lams, (before or {}).get(i, {}), beta)
        measured = {
            i: coarse(self._own[i].measure(state, views[i], heard[i], facts, beta)) for i, state in states.items()
        }
        for i, values in measured.items():
            if not np.isfinite(values).all():
                raise Diverged(i)
        return bound(facts, self.largest(measured), self._n, self._diameter, beta)

    def round(self, vectors: Mapping[int, Array]) -> Mapping[int, Mapping[int, Array]]:
        """One round: each own agent's vector to its neighbours; what each own agent hears."""
        self.rounds += 1
        return self._share(self.rounds, vectors)


def _check_maxima(heard: Mapping[int, Array], told: Array) -> None:
    """Whoever was told a value in the round before has a maximum of at least that, if it follows the protocol."""
    for j, maxima in heard.items():
        if (maxima < told).any():
            raise BadMessage(Peer(f"agent {j}", j), "its maximum is below a value that it had been told")


class Witness:
    """What an agent can recompute of its neighbours from what it has heard: their lam, and with it what they show.

    Where a version sends v, once in an iteration, lam_j = prox of (beta/n) h* at (D v)_j, and (D v)_j is made of v_j
    and of the v of j's neighbours. Whoever has heard all of these knows lam_j, and with the one before it also z_j: a
    leaf's only neighbour, the hub of a star, everybody in a complete graph. For other neighbours and other versions
    what they show has to be believed. `rows` has the weights {k: w_jk} of each neighbour j whose neighbours are the
    agent's own too.
    """

    def __init__(
        self, rows: Mapping[int, Mapping[int, float]], agent: int, schedule: Schedule, h: Function, n: int
    ) -> None:
        self._rows = {j: sorted(row.items()) for j, row in rows.items()}
        self._agent, self._schedule, self._h, self._n = agent, schedule, h, n

    def lams(self, own: Array, inbox: Mapping[int, Array], beta: float) -> dict[int, tuple[Array, Array]]:
        """(v_j, lam_j) of each such neighbour, from the agent's own v and those that came in the iteration."""
        sent, found = {**inbox, self._agent: own}, {}
        for j, row in self._rows.items():

            def differences(vector: Array | None, _op: str, row: Any = row) -> Array:
                assert vector is not None, "a version that sends v multiplies v"
                return np.asarray(sum(vector.dtype.type(weight) * (vector - sent[k]) for k, weight in row))

            Dv, _ = drive(self._schedule.combine(sent[j]), differences)
            found[j] = np.array(sent[j]), self._h.conj_prox(Dv, beta / self._n)
        return found

    def check(
        self,
        views: Mapping[int, Array],
        now: Mapping[int, tuple[Array, Array]],
        before: Mapping[int, tuple[Array, Array]],
        beta: float,
    ) -> None:
        """Refuse a neighbour that shows a lam or a z which does not follow from what it sent."""
        for j, (v, lam) in now.items():
            shown, z = np.split(views[j], 2)
            allowed = np.sqrt(np.finfo(v.dtype).eps) * (np.abs(v).max() + np.abs(lam).max())
            apart = np.abs(shown - lam).max()
            if j in before:
                apart = max(apart, np.abs(beta / self._n * z - (v - before[j][1])).max())
            if not apart <= allowed:
                raise BadMessage(Peer(f"agent {j}", j), "what it shows of itself does not follow from what it sent")


def witness(job: Job, i: int) -> Witness | None:
    """What agent i can recompute of its neighbours; None where that is nothing."""
    schedule, network = job.schedule, job.network
    if not network.is_steady or (schedule.rounds, schedule.kept_size, schedule.ops) != (1, 1, ("gossip",)):
        return None
    heard = {i, *network.neighbors(i).tolist()}
    rows = {j: job.weights(j)["gossip"] for j in heard - {i} if heard.issuperset(network.neighbors(j).tolist())}
    return Witness(rows, i, schedule, job.h, job.n) if rows else None


class OwnMeasures:
    """What one agent measures of itself."""

    def __init__(self, agent: Agent, h: Function, n: int) -> None:
        self._agent, self._At, self._h, self._n = agent, agent.A.T, h, n
        own = Problem([agent], h)
        self._units, self._squares, self._bounds = own.units, own.units.squares, own.units.bounds
        whole = len(self._squares) == 1
        self._norms = own.A.norms if whole else np.sqrt(self._squares.sum(axis=1))
        self._is_flat = (np.diff(own.units.offsets) > 0) & ~own.units.is_curved
        self._largest_squares = np.maximum.reduceat(self._squares, self._bounds[:-1], axis=1)

    def facts(self) -> Array:
        """Steps of the rows by its curvature, then its squared rows where it has none; shared once, at the start."""
        units, nothing = self._units, np.zeros_like(self._largest_squares)
        curved = np.divide(
            self._largest_squares, units.curvature[:, None], out=nothing.copy(), where=units.is_curved[:, None]
        )
        flat = np.where(self._is_flat[:, None], self._largest_squares, nothing)
        return np.concatenate([curved.max(axis=0), flat.max(axis=0)])

    def view(self, state: State, beta: float) -> Array:
        """lam_i and z_i, for the neighbours."""
        return np.concatenate([state.lam, self._n / beta * (state.v - state.lam_prev)]).astype(np.float64)

    @np.errstate(over="ignore", invalid="ignore")
    def measure(self, state: State, mine: Array, views: Mapping[int, Array], facts: Facts, beta: float) -> Array:
        """The numbers whose maxima `bound` needs."""
        lam, z = np.split(mine, 2)
        apart = [np.split(mine - view, 2) for view in views.values()]
        steps = facts.first_steps(self._n / beta)
        along = np.repeat(steps, np.diff(self._bounds))
        near = self._h.prox(z + along * lam, along)
        Ax = self._agent.A @ state.x
        sums, terms = self._of_rows(z), self._of_rows(np.asarray(Ax, np.float64))
        scalars, flat_rows = self._agent_part(state, lam)
        links = [max((_norm(pair[k]) for pair in apart), default=0.0) for k in (0, 1)]
        ahead = _norm(Ax - (state.v - state.lam_prev + state.u) / beta)  # v = lam_prev - u + beta A x_hat
        rows = [self._of_rows(z - near), np.where(terms > _SMALL_SUM * sums, terms, sums)]
        return np.concatenate([[*links, ahead, *scalars], *rows, *([flat_rows] if facts.is_flat else [])])

    def _agent_part(self, state: State, lam: Array) -> tuple[tuple[float, ...], Array]:
        """m/X, s |A_i|/X, 16 max_k |a_ik| / K_i where K_i counts, the energy, |x_i| |A_i|; and steps of the rows.

        They are maxima over the pieces of the agent, most often one (see `npga.problem.residual`).
        """
        x, units, flat = np.asarray(state.x, dtype=np.float64), self._units, self._is_flat
        if not x.size:
            return (0.0,) * 5, np.zeros(self._largest_squares.shape[1])
        gradient, pull = self._agent.f.grad(state.x), np.asarray(self._At @ state.lam)
        (size, slope, pulled), terms = (units.of_pieces(values) for values in (x, gradient, pull)), units.terms(lam)
        force = np.maximum(slope, 0.9375 * terms)
        doubt = np.where(force > slope, _quotient(16.0 * np.sqrt(self._squares.max(axis=1)), terms), 0.0)
        longest = np.where(size > 0.0, np.where(force > 0.0, _quotient(size, FORCES * force), 1.0), _SHORT)
        s = np.where(flat, longest, _quotient(1.0, units.curvature))
        scale = np.where(flat & (size > 0.0), size, np.maximum(size, FORCES * s * force))
        energy = np.where(flat, size * np.maximum(np.maximum(slope, pulled), terms), units.curvature * size**2)
        along = float(s[0]) if len(s) == 1 else s[units.owner]
        moved = units.of_pieces(x - self._agent.g.prox(x - along * (gradient + pull), along))
        lengths = (float((units.counts * _quotient(part, scale)).max()) for part in (moved, s * self._norms))
        reach = float(np.where(flat, size * self._norms, 0.0).max())
        rows = np.where(flat[:, None], _quotient(self._largest_squares, np.square(force)[:, None]), 0.0)
        return (*lengths, float(doubt.max()), float(energy.max()), reach), rows.max(axis=0)

    def _of_rows(self, values: Array) -> Array:
        return np.asarray(np.sqrt(np.add.reduceat(np.square(values), self._bounds[:-1])))


class Facts:
    """What all agents know of the steps of h, from the maxima of `OwnMeasures.facts`."""

    def __init__(self, maxima: Array) -> None:
        self.curved, self.squares = np.split(maxima, 2)
        self.is_flat = bool(self.squares.any())

    def first_steps(self, otherwise: float) -> Array:
        """The steps t0 of h that agents measure with."""
        return np.where(self.curved > 0.0, self.curved, otherwise)

    def steps(self, energy: float, flat: Array | None) -> Array:
        """Steps of h that are not less than those of the residual."""
        if flat is None:
            return np.where(self.curved > 0.0, self.curved, 1.0)
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(self.curved, energy * flat if energy else self.squares))


def bound(facts: Facts, maxima: Array, n: int, diameter: int, beta: float) -> float:
    """An upper bound on the residual `problem.kkt(x, lam).kkt`, from maxima over all agents, rounded by `coarse`."""
    a, b, c, u, w, doubt, energy, reach = maxima[:8].tolist()
    rows = np.split(maxima[8:], 3 if facts.is_flat else 2)
    spread, error = diameter * a, n * c + diameter * b
    if doubt * spread > 1.0:
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        t = facts.steps(energy + reach * spread, rows[2] if facts.is_flat else None)
        first = facts.first_steps(n / beta)
        moved = np.maximum(1.0, t / first) * rows[0] + 2.0 * error + (t * spread if spread else 0.0)
        coupling = _quotient(moved, np.maximum(rows[1] / 2.0 - error - moved, 0.0)).max()
        total = max(u + (w * spread if spread else 0.0), float(coupling))
    return float(total) if total < _HUGE else np.inf


def coarse(values: Array) -> Array:
    """The least powers of two that are not below; zeros stay.

    The first round of a maximum shows every neighbour the agent's own values, so they are shown to a factor of two
    only. The maximum of what is rounded up is at least the true one, and less than twice that.
    """
    mantissa, exponent = np.frexp(values)
    with np.errstate(over="ignore"):
        return np.where(mantissa == 0.5, values, np.where(values > 0.0, np.ldexp(1.0, exponent), values))


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def _quotient(above: Any, below: Any) -> Any:
    """above / below; 0/0 is 0, and what nothing is known of is huge, but a number."""
    above, below = np.broadcast_arrays(np.asarray(above, float), np.asarray(below, float))
    known = below > 0.0
    found = np.divide(above, below, out=np.where(above > 0.0, _HUGE, 0.0), where=known)
    return np.minimum(found, _HUGE)
