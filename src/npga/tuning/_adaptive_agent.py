"""One agent of a run that finds its steps on the way: what it measures, and what it does with what all have chosen.

The decisions are those of `npga.tuning._adaptive_steps`, as in a run in one process (`AdaptiveNpga`). What decides is a
sum over agents, so an agent that knows its own block only gives its part of the sum, and hears what was chosen from the
whole of it. Like `LocalAgent`, which it drives, it has no input or output: whoever carries the messages adds the parts
up, lets `choose_first`, `choose_leg` and `choose_try` choose in one place, and tells every agent the same bits.

Two things differ from one process. The products <v, K v'> are sums over the links of this agent,
(1/2) sum_j k_ij <v_i - v_j, v_i' - v_j'>, which need no mean over all agents and keep their digits as well. And whether
r^2 has grown a thousandfold is looked at when a leg is over, not at every sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.networks import Network
from npga.problem import Problem
from npga.solver import LocalAgent, State
from npga.steps import Steps
from npga.tuning import _adaptive_steps as decisions
from npga.tuning._adaptive_run import AdaptiveState, core_fields, steeper_slopes
from npga.tuning._adaptive_steps import LEG_FIELDS, LegSample, LegSums

Array = NDArray[Any]

# What is chosen after a leg: to go on, to take it back, or to give up.
_GO_ON, _RETREAT, _GIVE_UP = 0.0, 1.0, 2.0
# Stands for what is too large for a number: the sum shows growth, and that is what it is asked for.
_HUGE = 1e300
_HEAD = 5
# Weights of a combination add up to one, to this.
_NEAR_ONE = 1e-6


class AdaptiveAgent:
    """An agent whose steps follow the run.

    Parameters
    ----------
    own
        Its one-agent problem: its block and the public h.
    network
        Who talks to whom; known to all.
    local
        Its half of the recursion, of a version that `tied_version` names.
    weights
        k_ij for each neighbour j, with K = c (I - W).
    """

    def __init__(self, own: Problem, network: Network, local: LocalAgent, weights: Mapping[int, float]) -> None:
        self.local, self._weights = local, sorted(weights.items())
        self._own, self._norms = own, own.A.norms
        self._curvature = self._seen = decisions.declared_curvature(own)
        self._facts = decisions.first_facts(own, network, self._curvature)._replace(n=network.n)
        self._place = np.zeros(6)
        self._history = np.zeros((0, 4))
        self._begun: tuple[Array, ...] = ()
        self._samples: tuple[Array, ...] = ()
        self._marks = decisions.leg_marks(0)

    # -------------------------------------------------------------- start

    def first_norm(self) -> float:
        """|A_i|; its maximum over all agents is needed to begin."""
        return self._facts.largest_norm

    def first_part(self) -> float:
        """Its part of the conductance, a sum over all agents that is needed to begin."""
        return self._facts.conductance

    def choose_first(self, largest_norm: float, conductance: float) -> Array:
        """Beta to begin with."""
        facts = self._facts._replace(largest_norm=largest_norm, conductance=conductance)
        return np.array([decisions.first_beta(facts)])

    def begin(self, beta: float) -> None:
        """Begin the first leg where the agent is, with the beta that was chosen."""
        state = self.local.state
        self._place = np.array([0, 0, beta, 1.0, 0, beta])
        self._enter(state.x, state.lam, np.zeros_like(state.lam))

    def _enter(self, x: Array, lam: Array, zeta: Array) -> None:
        """Begin a leg at the present place."""
        self._curvature, self._samples, self._begun = self._seen, (), (x, lam, zeta)
        self._marks = decisions.leg_marks(int(self._place[0]))
        self.local.restart(self._tied(), x, lam, zeta)

    def _tied(self) -> Steps:
        alpha = decisions.tied_alpha(self._curvature, self._norms, self._place[2], self._place[3])
        return Steps(float(alpha[0]), float(self._place[2]), decisions.GAMMA, decisions.THETA)

    @property
    def steps(self) -> Steps:
        """The steps of the present leg, with its own alpha."""
        return self.local.steps

    # -------------------------------------------------------------- a leg

    @property
    def is_over(self) -> bool:
        """Whether the leg is over and all must choose."""
        return len(self._samples) == LEG_FIELDS * len(self._marks)

    @property
    def begun(self) -> int:
        """The iteration after which the leg began; there, the state has no last iteration to be measured by."""
        return int(self._place[1])

    def observe(self, before: State, inbox: Mapping[int, Array]) -> None:
        """Take a sample if it is time for one.

        Parameters
        ----------
        before
            The state before the iteration that is over.
        inbox
            The neighbours' v of that iteration.
        """
        taken = len(self._samples) // LEG_FIELDS
        after = self.local.state
        if taken == len(self._marks) or after.iteration != self._place[1] + self._marks[taken]:
            return
        self._samples = (*self._samples, *self._sample(before, inbox))
        self._seen = steeper_slopes(self._own, self._seen, before.x, after.x)

    def _sample(self, before: State, inbox: Mapping[int, Array]) -> LegSample:
        """The sample of one iteration; its v and K v are differences along the links of this agent."""
        after = self.local.state
        apart = [after.v - inbox[j] for j, _ in self._weights] or [np.zeros_like(after.v)]
        halves = [0.5 * weight * one for one, (_, weight) in zip(apart, self._weights, strict=False)] or apart
        z = self.local.memory()
        moved = after.x - before.x, after.lam - before.lam
        return LegSample(after.x, after.lam, z, *moved, np.concatenate(apart), np.concatenate(halves))

    def leg_part(self) -> Array:
        """Its part of the sums that decide when a leg is over."""
        with np.errstate(over="ignore", invalid="ignore"):
            taken, place = self.state.taken(), self._place
            sums = decisions.leg_sums(self._begun[:2], taken, self._marks, self.steps.alpha, self._norms[0], place[2])
        steeper = float((self._seen > 2.0 * self._curvature).any())
        return _finite([sums.dual, sums.primal, steeper, *sums.gram[np.triu_indices(len(taken))]])

    def choose_leg(self, total: Array) -> Array:
        """What follows from the sums of all agents."""
        number, _, beta, caution, retreats, first = self._place.tolist()
        size = len(self._marks)
        gram = np.zeros((size, size))
        gram[np.triu_indices(size)] = total[3:]
        gram = gram + np.triu(gram, 1).T
        powers = np.diag(gram)
        chosen = np.zeros(_HEAD + size)
        if powers.max() >= _HUGE or powers.max() > decisions.ALARM * powers[0] > 0.0:
            caution *= 1.0 if total[2] else decisions.SMALLER
            chosen[:3] = _RETREAT if retreats < decisions.RETREATS else _GIVE_UP, beta, caution
            return chosen
        weights = decisions.combination(gram)
        after = decisions.next_beta(LegSums(float(total[0]), float(total[1]), gram), beta, int(number), first)
        chosen[:_HEAD] = _GO_ON, after, caution, powers[-1], weights is not None
        chosen[_HEAD:] = 0.0 if weights is None else weights
        return chosen

    def is_sound(self, chosen: Array) -> bool:
        """Whether a choice can be what `choose_leg` returned: it came from elsewhere."""
        kind, beta, caution, last = chosen[:4].tolist()
        near = self._place[5] / decisions.FARTHEST <= beta <= self._place[5] * decisions.FARTHEST
        whole = not self.tries(chosen) or abs(chosen[_HEAD:].sum() - 1.0) < _NEAR_ONE
        return bool(kind in (_GO_ON, _RETREAT, _GIVE_UP) and near and caution >= self._place[3] and last >= 0 and whole)

    @property
    def choice_size(self) -> int:
        """How many numbers `choose_leg` returns."""
        return _HEAD + len(self._marks)

    @staticmethod
    def retreats_at(chosen: Array) -> bool:
        """Whether the leg is to be taken back."""
        return bool(chosen[0] == _RETREAT)

    def retreat(self, chosen: Array) -> None:
        """Begin the leg again, with smaller steps."""
        state, (number, _, beta, _, retreats, first) = self.local.state, self._place.tolist()
        self._note(state.iteration, extrapolated=False, retreated=True)
        self._place = np.array([number, state.iteration, beta, chosen[2], retreats + 1, first])
        self._enter(*self._begun)

    @staticmethod
    def gives_up(chosen: Array) -> bool:
        """Whether the run ends, because no steps help."""
        return bool(chosen[0] == _GIVE_UP)

    @staticmethod
    def tries(chosen: Array) -> bool:
        """Whether one iteration from a combination of the samples shall be tried."""
        return bool(chosen[4])

    def combine(self, chosen: Array) -> None:
        """Put the agent where the combination is, for one iteration."""
        taken, dtype = self.state.taken(), self.local.state.x.dtype
        x, lam, z = (
            np.tensordot(chosen[_HEAD:], [getattr(sample, name) for sample in taken], 1).astype(dtype)
            for name in ("x", "lam", "z")
        )
        self.local.restart(self.steps, x, lam, z / self._place[2].astype(dtype))

    def try_part(self, before: State, inbox: Mapping[int, Array]) -> Array:
        """Its part of r^2 of the iteration that was tried."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _finite(decisions.move_products([self._sample(before, inbox)], self.steps.alpha, self._place[2])[0])

    def choose_try(self, chosen: Array, total: Array) -> Array:
        """1 if the run goes on from what was tried, else 0."""
        return np.array([float(decisions.is_better(float(total[0]), float(chosen[3])))])

    def go_on(self, chosen: Array, core: State, taken: bool) -> None:
        """Begin the next leg at a state of this one, under the steps that were chosen."""
        number, _, _, caution, retreats, first = self._place.tolist()
        self._note(core.iteration - taken, extrapolated=taken, retreated=False)
        count = self.local.state
        self.local.state = replace(core, iteration=count.iteration, rounds=count.rounds)
        zeta = self.local.memory() / self._place[2].astype(core.x.dtype)
        self._place = np.array([number + 1, count.iteration, chosen[1], caution, retreats, first])
        self._enter(core.x, core.lam, zeta)

    def _note(self, iteration: int, extrapolated: bool, retreated: bool) -> None:
        self._history = np.vstack([self._history, [iteration, self._place[2], extrapolated, retreated]])

    # -------------------------------------------------------------- what is saved

    @property
    def state(self) -> AdaptiveState:
        """All that it knows, to be saved."""
        return AdaptiveState(
            **core_fields(self.local.state),
            begun=self._begun,
            samples=self._samples,
            place=self._place,
            curvature=self._curvature,
            seen=self._seen,
            history=self._history,
        )

    def resume(self, state: AdaptiveState) -> None:
        """Go on from what was saved."""
        self._begun, self._samples, self._place = state.begun, state.samples, state.place
        self._curvature, self._seen, self._history = state.curvature, state.seen, state.history
        self._marks = decisions.leg_marks(int(self._place[0]))
        self.local.steps = self._tied()
        self.local.state = State(**core_fields(state))


def _finite(values: Any) -> Array:
    found = np.asarray(values, dtype=float)
    return np.where(np.abs(found) < _HUGE, found, _HUGE)
