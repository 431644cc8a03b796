"""Agreeing without a coordinator: maxima over all agents, and the bound on the residual that they imply.

Let z = sum_i A_i x_i, z_hat = sum_i A_i x_hat_i, and let lam be the mean of the lam_i. The recursion sets
v = lam_prev - u + beta A x_hat, and the u_i add up to zero because the columns of B^2 and C do. So every agent has its
own estimate of z_hat,

    z_i = (n / beta) (v_i - lam_prev_i),     with mean z_hat exactly,

and the residual of `npga.problem.residual` has a bound made of maxima over agents and links. With D the diameter,
a = max over links |lam_i - lam_j|, b = max over links |z_i - z_j| and c = max_i |A_i x_i - A_i x_hat_i|:

    |lam - lam_i| <= D a,     |z - z_i| <= n c + D b,
    r_x <= sqrt(n) (max(1, alpha/s) max_i R_i + sigma D a),
    r_z <= 2 (n c + D b) + max(1, t beta/n) max_i P_i + t D a,

where R_i = |x_i - prox_{alpha g}(x_i - alpha (grad f_i + A_i^T lam_i))| / alpha is the length of the agent's own next
step, and P_i = |z_i - prox_{(n/beta) h}(z_i + (n/beta) lam_i)|. Both use that proximal maps are nonexpansive, that
R(s) decreases in s and s R(s) increases, and that P(t) increases in t and P(t)/t decreases. The scales that the
residual divides by are bounded from below by maxima over agents in the same way. Agents round what they contribute up
to powers of two (`coarse`), and `bound` takes half of it wherever it needs a value from below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.functions import Function
from npga.problem import Agent, coupling_point, natural_curvature, spectral_norm, stationarity_gap
from npga.runtimes._faults import Diverged
from npga.solver import State
from npga.steps import Steps

Array = NDArray[Any]
Share = Callable[[int, Mapping[int, Array]], Mapping[int, Mapping[int, Array]]]


class Agreement:
    """What the agents of one party find out together with all others, in rounds that are counted apart.

    Parameters
    ----------
    own
        What each agent of this party measures of itself.
    h, n, diameter, steps
        Coupling function, number of agents, diameter of the network, steps: known to all.
    share
        One round: called with its number and a vector for each own agent, returns what each hears.
    """

    def __init__(
        self, own: Mapping[int, OwnMeasures], h: Function, n: int, diameter: int, steps: Steps, share: Share
    ) -> None:
        self._own, self._h, self._n, self._diameter, self._steps, self._share = own, h, n, diameter, steps, share
        self._rounds = 0
        self._facts = np.zeros(3)

    def largest(self, own: Mapping[int, Array]) -> Array:
        """Maxima over all agents of the network, known to each after as many rounds as the diameter."""
        values = dict(own)
        for _ in range(self._diameter):
            heard = self._round(values)
            values = {i: np.max([values[i], *heard[i].values()], axis=0) for i in values}
        return next(iter(values.values()))

    def share_facts(self) -> None:
        """Once, before the first residual."""
        self._facts = self.largest({i: coarse(own.facts()) for i, own in self._own.items()})

    def residual(self, states: Mapping[int, State]) -> float:
        """A bound on the residual of the whole problem, the same number at every agent."""
        views = {i: self._own[i].view(state) for i, state in states.items()}
        heard = self._round(views)
        measured = {i: coarse(self._own[i].measure(state, views[i], heard[i])) for i, state in states.items()}
        for i, values in measured.items():
            if not np.isfinite(values).all():
                raise Diverged(i)
        return bound(self._facts, self.largest(measured), self._h, self._n, self._diameter, self._steps)

    def _round(self, vectors: Mapping[int, Array]) -> Mapping[int, Mapping[int, Array]]:
        self._rounds += 1
        return self._share(self._rounds, vectors)


class OwnMeasures:
    """What one agent measures of itself.

    Parameters
    ----------
    agent, h, n, steps
        Its own part and the shared one.
    """

    def __init__(self, agent: Agent, h: Function, n: int, steps: Steps) -> None:
        self._agent, self._At, self._h = agent, agent.A.T, h
        self._alpha, self._beta, self._t = steps.alpha, steps.beta, n / steps.beta

    def facts(self) -> Array:
        """[L_i, 1 if L_i is infinite else 0, sigma_i]; their maxima are shared once, before the first iteration."""
        L = self._agent.f.L if self._agent.A.shape[1] else 0.0
        return np.array([L if np.isfinite(L) else 0.0, float(not np.isfinite(L)), spectral_norm(self._agent.A)])

    def view(self, state: State) -> Array:
        """lam_i and z_i, for the neighbours."""
        return np.concatenate([state.lam, self._t * (state.v - state.lam_prev)]).astype(np.float64)

    def measure(self, state: State, mine: Array, views: Mapping[int, Array]) -> Array:
        """The numbers whose maxima `bound` needs."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._measure(state, mine, views)

    def _measure(self, state: State, mine: Array, views: Mapping[int, Array]) -> Array:
        alpha, t = self._alpha, self._t
        lam, z = np.split(mine, 2)
        x = np.asarray(state.x, dtype=np.float64)
        gradient, pull = self._agent.f.grad(state.x), np.asarray(self._At @ state.lam)
        apart = [np.split(mine - view, 2) for view in views.values()]
        return np.array([
            stationarity_gap(self._agent.g, x, gradient + pull, alpha),
            max((_norm(first) for first, _ in apart), default=0.0),
            max((_norm(second) for _, second in apart), default=0.0),
            _norm(state.Ax - (state.v - state.lam_prev + state.u) / self._beta),  # v = lam_prev - u + beta A x_hat
            _norm(z - coupling_point(self._h, z, lam, t)),
            _norm(x), _norm(gradient), _norm(pull), _norm(state.Ax), _norm(lam),
        ])  # fmt: skip


def bound(facts: Array, maxima: Array, h: Function, n: int, diameter: int, steps: Steps) -> float:
    """An upper bound on the residual `problem.kkt(x, lam).kkt`, from maxima over all agents, rounded by `coarse`."""
    step, a, b, c, near, _, gradient, pull, Ax, lam = maxima.tolist()
    smooth, unbounded, sigma = facts.tolist()
    least_x, least_gradient, least_pull, least_Ax, least_lam = (maxima[5:] / 2).tolist()
    l_f, root, spread = np.inf if unbounded else smooth, np.sqrt(n), diameter * a
    pulled = max(least_pull - sigma * spread, 0.0)
    curvature, least_curvature = natural_curvature(l_f, h.L, sigma), natural_curvature(l_f / 2, h.L, sigma / 2)
    # Where f and h have no curvature, s and t are ratios of norms over all agents, each between its maximum and root
    # times it. The least s and the largest t are wanted; t = sigma^2 / curvature is 1 / l_h where that of h counts.
    pulls = root * max(gradient, pull + sigma * spread), max(least_gradient, pulled)
    s = 1.0 / curvature if curvature else _least_ratio(least_x, *pulls)
    if curvature and sigma:
        t = sigma**2 / least_curvature if 0.0 < l_f < np.inf else 1.0 / h.L
    else:
        t = _largest_ratio(root * Ax, lam, least_lam - spread)
    r_x = root * (max(1.0, steps.alpha / s) * step + sigma * spread)
    r_z = 2.0 * (n * c + diameter * b) + max(1.0, t * steps.beta / n) * near + t * spread
    scale_x = max(least_gradient, pulled, least_x * least_curvature)
    return float(max(_relative(r_x, scale_x), _relative(r_z, least_Ax)))


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


def _least_ratio(numerator: float, above: float, below: float) -> float:
    """Least a / b with b between `below` and `above`; the ratio counts as 1 where a or b is zero."""
    if numerator == 0.0 or above == 0.0:
        return 1.0
    return numerator / above if below > 0.0 else min(1.0, numerator / above)


def _largest_ratio(numerator: float, above: float, below: float) -> float:
    """Largest a / b with a at most `numerator` and b between `below` and `above`; 1 where a or b is zero."""
    if numerator == 0.0 or above == 0.0:
        return 1.0
    return max(1.0, numerator / below) if below > 0.0 else np.inf


def _relative(size: float, scale: float) -> float:
    """Return size / scale; where the scale is not known to be positive nothing is known of a positive size."""
    if size == 0.0:
        return 0.0
    return size / scale if scale > 0.0 else np.inf
