"""Steps that no job names: the parties find them together, on the way, or from the theorems alone.

What an agent adds to a decision goes up a tree of the network, whose root is an agent in the middle of it: each adds
what its children said, in the order of their numbers, to its own. The root chooses, and the choice goes down. So
everybody works with the same bits, whatever the engine and whatever the machines, and a decision costs twice the depth
of the tree in rounds, which are counted. The decisions themselves are those of `npga.solve`, and `AdaptiveAgent` of
`npga.tuning` is the agent's side of them.

The numbers to begin with, the maximum of |A_i| and the sum of |A_i|_F^2/L_i, are made of powers of two (`coarse`): the
first beta may be wrong by far more without harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.functions import Function
from npga.networks import Network
from npga.problem import Agent, Problem, spectral_norm
from npga.runtimes._agreement import Agreement, coarse
from npga.runtimes._faults import BadMessage, Diverged, Peer
from npga.runtimes._job import Job
from npga.solver import LocalAgent
from npga.steps import Steps
from npga.tuning import AdaptiveAgent

Array = NDArray[Any]
Inboxes = Mapping[int, Mapping[int, Array]]
# Inside the bound on gamma, which is not attained; the part of the bound on alpha where the rates are best.
_BELOW, _HALF = 0.99, 0.5


class NoStepsHelp(Diverged):
    """The iterates grow, however small the steps."""

    def __init__(self, agent: int) -> None:
        super().__init__(agent)
        self.args = (
            "the iterates grow whatever the steps: check that gradients are finite and that their L holds "
            "(npga.functions.check), and that the problem has a solution",
        )


class Tree:
    """A tree of shortest ways from an agent in the middle of the network to all others.

    The middle is that of a longest way, found by two searches; where several agents would do, as root or as parent, it
    is the one with the least number.
    """

    def __init__(self, network: Network) -> None:
        self._network, agents = network, range(network.n)
        one_end = self._farthest(self._levels(0))
        there = self._levels(one_end)
        back = self._levels(self._farthest(there))
        self.root = min(agents, key=lambda i: (max(there[i], back[i]), there[i] + back[i], i))
        self.level = self._levels(self.root)
        self.depth = max(self.level)
        nearer = [[j for j in network.neighbors(i).tolist() if self.level[j] < self.level[i]] for i in agents]
        self.parent = [min(found, default=i) for i, found in zip(agents, nearer, strict=True)]
        self.children: list[list[int]] = [[] for _ in agents]
        for i in agents:
            if i != self.root:
                self.children[self.parent[i]].append(i)

    def _levels(self, root: int) -> list[int]:
        """Links between the root and each agent."""
        level, ring = {root: 0}, [root]
        while ring:
            near = {j: level[i] + 1 for i in ring for j in self._network.neighbors(i).tolist() if j not in level}
            level |= near
            ring = sorted(near)
        return [level[i] for i in range(self._network.n)]

    @staticmethod
    def _farthest(levels: list[int]) -> int:
        return max(range(len(levels)), key=lambda i: (levels[i], -i))


class Council:
    """What the agents of one party decide together with all others, in rounds that `agreement` carries and counts."""

    def __init__(self, network: Network, agreement: Agreement) -> None:
        self._network, self._agreement = network, agreement
        self.rounds = 0

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self._network)

    def decide(self, own: Mapping[int, Array], choose: Callable[[Array], Array], size: int) -> Array:
        """What `choose` makes of the sum of all agents' vectors, `size` numbers: chosen once, the same everywhere."""
        tree, sums = self._tree, dict(own)
        for level in range(tree.depth, 0, -1):
            heard = self._round({i: one if tree.level[i] == level else np.zeros_like(one) for i, one in sums.items()})
            for i in sums:
                if tree.level[i] == level - 1:
                    for child in tree.children[i]:
                        sums[i] = sums[i] + heard[i][child]
        chosen = {i: choose(one) if i == tree.root else np.zeros(size) for i, one in sums.items()}
        for level in range(tree.depth):
            heard = self._round(chosen)
            chosen |= {i: np.array(heard[i][tree.parent[i]]) for i in chosen if tree.level[i] == level + 1}
        return next(iter(chosen.values()))

    def refusal(self) -> BadMessage:
        """What to raise of a choice that cannot be one."""
        root = self._tree.root
        return BadMessage(
            Peer(f"agent {root}", root), "it, or one that passed its choice of steps on, sent none that can be"
        )

    def largest(self, own: Mapping[int, Array]) -> Array:
        """Maxima over all agents."""
        before = self._agreement.rounds
        found = self._agreement.largest(own)
        self.rounds += self._agreement.rounds - before
        return found

    def _round(self, vectors: Mapping[int, Array]) -> Inboxes:
        self.rounds += 1
        return self._agreement.round(vectors)


class FoundSteps:
    """The steps of a party's agents over a run that finds them on the way."""

    def __init__(self, agents: Mapping[int, AdaptiveAgent], council: Council) -> None:
        self.agents, self._council = agents, council
        self._one = next(iter(agents.values()))

    @property
    def steps(self) -> dict[str, Any]:
        """The present ones, for those who watch; alpha by agent."""
        found = vars(self._one.steps) | {"alpha": {str(i): agent.steps.alpha for i, agent in self.agents.items()}}
        return dict(found)

    @property
    def beta(self) -> float:
        """The present beta."""
        return self._one.steps.beta

    def begin(self) -> None:
        """Agree on the first beta."""
        norm = self._council.largest({i: coarse(np.array([one.first_norm()])) for i, one in self.agents.items()})
        parts = {i: coarse(np.array([one.first_part()])) for i, one in self.agents.items()}
        beta = self._council.decide(parts, lambda total: self._one.choose_first(float(norm[0]), float(total[0])), 1)
        if not beta[0] > 0.0:
            raise self._council.refusal()
        for agent in self.agents.values():
            agent.begin(float(beta[0]))

    def is_time(self, iteration: int, every: int) -> bool:
        """Whether the residual is looked at after this iteration: every so often, one later where a leg just began."""
        begun = self._one.begun
        if iteration % every == 0:
            return begun != iteration
        return begun == iteration - 1 > 0 and begun % every == 0

    def step(self, advance: Callable[[], Inboxes], is_last: bool) -> bool:
        """One iteration: the next of a leg, or the one that is tried between two legs; whether a leg has begun.

        `advance` carries out one of NPGA and returns what each own agent heard in it; after the last nothing is tried.
        """
        begun = self._one.begun
        while self._one.is_over and not is_last:
            if self._turn(advance):
                return True
        before = {i: agent.local.state for i, agent in self.agents.items()}
        heard = advance()
        for i, agent in self.agents.items():
            agent.observe(before[i], heard[i])
        return begun != self._one.begun

    def _turn(self, advance: Callable[[], Inboxes]) -> bool:
        """Decide what follows after a leg; whether that took an iteration."""
        agents, one = self.agents, self._one
        parts = {i: agent.leg_part() for i, agent in agents.items()}
        chosen = self._council.decide(parts, one.choose_leg, one.choice_size)
        if not one.is_sound(chosen):
            raise self._council.refusal()
        if one.gives_up(chosen):
            raise NoStepsHelp(next(iter(agents)))
        if one.retreats_at(chosen):
            for agent in agents.values():
                agent.retreat(chosen)
            return False
        cores = {i: agent.local.state for i, agent in agents.items()}
        better = one.tries(chosen) and self._try(chosen, advance)
        for i, agent in agents.items():
            agent.go_on(chosen, agent.local.state if better else cores[i], better)
        return one.tries(chosen)

    def _try(self, chosen: Array, advance: Callable[[], Inboxes]) -> bool:
        """One iteration from the combination; whether it is better than the last of the leg."""
        for agent in self.agents.values():
            agent.combine(chosen)
        before = {i: agent.local.state for i, agent in self.agents.items()}
        heard = advance()
        parts = {i: agent.try_part(before[i], heard[i]) for i, agent in self.agents.items()}
        return bool(self._council.decide(parts, lambda total: self._one.choose_try(chosen, total), 1)[0])


def adaptive_agent(job: Job, i: int, own: Agent, local: LocalAgent) -> AdaptiveAgent:
    """Agent i, finding its steps on the way."""
    share = job.version.kernel_polynomials(1.0)[0][1]  # K = share times the gossip matrix
    weights = {j: share * weight for j, weight in job.weights(i)["gossip"].items()}
    return AdaptiveAgent(Problem([own], job.h), job.network, local, weights)


def certified_steps(agents: Mapping[int, Agent], h: Function, council: Council) -> Steps:
    """Steps inside the bounds of a theorem for NIDS and exact diffusion, from agreed bounds on l, mu and sigma.

    With C = 0, D = I - K, B^2 = K, 0 <= K <= I and theta = 0, Theorem 4+ (h smooth) allows alpha < 1/(2 l - mu), and
    Theorem 3+ (h an equality, every g_i = 0) alpha < 1/l; both allow beta <= mu/sigma^2 and gamma < 1. These grow as l
    and sigma become smaller and mu larger, so that l and sigma may be rounded up and mu down.
    """
    smooth, own = math.inf > h.L, {}
    for i, agent in agents.items():
        owns = agent.A.shape[1] > 0
        L, mu = (agent.f.L, agent.f.mu) if owns else (0.0, math.inf)
        known = [L if math.isfinite(L) else 0.0, 1.0 / mu if mu > 0.0 else 0.0, spectral_norm(agent.A) if owns else 0.0]
        own[i] = coarse(np.array([*known, not math.isfinite(L), not mu > 0.0, owns and not agent.g.is_zero], float))
    l, inverse, sigma, *lacking = council.largest(own).tolist()  # noqa: E741
    said = ("has an f that is not known to be smooth", "has an f that is not strongly convex", "has a g")
    why = [words for words, lacks in zip(said, lacking[: 2 if smooth else 3], strict=False) if lacks]
    if not (smooth or h.is_point):
        raise InputError("no theorem gives steps here: h is neither smooth nor an equality; let the run find its steps")
    if why:
        raise InputError(f"no theorem gives steps here: some agent {why[0]}; let the run find its steps, or state them")
    if not (l and sigma):
        return Steps(1.0, 1.0, _BELOW)
    mu = 1.0 / inverse
    alpha = _BELOW / (2.0 * l - mu) if smooth else _HALF / l
    return Steps(alpha=alpha, beta=mu / sigma**2, gamma=_BELOW)
