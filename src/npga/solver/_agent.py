"""One agent, without input or output, and the loop that drives all of them in one process.

The agent holds its own f_i, g_i, A_i, its row of the gossip matrix, h, n and the steps. It yields
``(round, vector)`` whenever its neighbours must hear from it, and is sent ``{neighbour: vector}``. Nothing else
passes in or out, so the same object runs in one process, over MPI and over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.errors import InputError
from npga.functions import Function
from npga.networks import CompressedNetwork, Network, Rows, Schedule, Version, drive
from npga.problem import Agent, Problem
from npga.solver._recursion import State, iterate, memory, primal, start
from npga.steps import Steps

Array = NDArray[Any]
Inbox = Mapping[int, Array]


class _Own:
    """A_i as the recursion wants it."""

    def __init__(self, A: Any) -> None:
        self._A, self._At = A, A.T

    def apply(self, x: Array) -> Array:
        return np.asarray(self._A @ x)

    def adjoint(self, lam: Array) -> Array:
        return np.asarray(self._At @ lam)


class LocalAgent:
    """The part of NPGA that one agent runs.

    Parameters
    ----------
    agent
        Its private f_i, g_i and A_i.
    h, n
        The public coupling function and the number of agents.
    weights
        For each operator of the version, the weights {neighbour: w_ij} of its own edges; "gossip" alone unless
        the version was given by explicit matrices. On a network that changes, a function of the iteration.
    schedule
        The version's plan of exchanges.
    steps
        Step sizes, with its own alpha.
    x0, lam0
        Start of x_i and lam_i; zero when not given.
    """

    def __init__(
        self,
        agent: Agent,
        h: Function,
        n: int,
        weights: Rows | Callable[[int], Rows],
        schedule: Schedule,
        steps: Steps,
        x0: Array | None = None,
        lam0: Array | None = None,
    ) -> None:
        p, d = agent.A.shape
        dtype = agent.A.dtype
        self._own: Any = SimpleNamespace(f=agent.f, g=agent.g, A=_Own(agent.A), h=h, n=n)
        self._rows = weights
        self._weights = _ascending(weights(0) if callable(weights) else weights)
        self._ahead: tuple[State, tuple[Array, Array]] | None = None
        self._schedule, self.steps = schedule, steps
        x = np.zeros(d, dtype) if x0 is None else x0
        lam = np.zeros(p, dtype) if lam0 is None else lam0
        self.state: State = start(x, lam, schedule.kept_size)

    def restart(self, steps: Steps, x: Array, lam: Array, zeta: Array) -> None:
        """Go on under other steps from x, lam and the memory zeta = z/beta; iterations and rounds are counted on."""
        self.steps = steps
        z = np.asarray(steps.beta * zeta, lam.dtype)
        begun = start(x, lam, self._schedule.kept_size, z)
        self.state = replace(begun, iteration=self.state.iteration, rounds=self.state.rounds)

    def memory(self) -> Array:
        """The memory z = B y after the last iteration, of a version that needs no message for it."""
        return drive(memory(self._schedule, self.steps.gamma, self.state), _unanswered)

    @property
    def steps(self) -> Steps:
        """Step sizes, with its own alpha."""
        return self._steps

    @steps.setter
    def steps(self, steps: Steps) -> None:
        self._steps, self._alpha, self._ahead = steps, steps.single_alpha("a single agent"), None

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Agents that it hears from, ascending."""
        return tuple(sorted({j for row in self._weights.values() for j, _ in row}))

    def compute(self) -> tuple[Array, Array]:
        """x+ and A x_hat+ of the current iteration, computed once.

        They need no message. A driver may call this while messages travel; nobody has to, and the bits are the same.
        """
        if self._ahead is None or self._ahead[0] is not self.state:
            self._ahead = self.state, primal(self._own, self._alpha, self.steps.theta, self.state)
        return self._ahead[1]

    @property
    def x(self) -> Array:
        """The agent's own variables."""
        return self.state.x

    @property
    def lam(self) -> Array:
        """The agent's copy of the dual variable."""
        return self.state.lam

    def run(self, iterations: int | None = None) -> Generator[tuple[int, Array], Inbox, None]:
        """Yield (round, vector) for the neighbours, receive {neighbour: vector}; for ever if no number is given."""
        done = 0
        while iterations is None or done < iterations:
            if callable(self._rows):
                self._weights = _ascending(self._rows(self.state.iteration))
            step = iterate(self._own, self.steps, self._schedule, self.state, self.compute)
            number, sent, inbox = self.state.rounds, self.lam, {}
            try:
                request = next(step)
                while True:
                    vector, op = request
                    if vector is not None:
                        number, sent = number + 1, vector
                        inbox = dict((yield number, vector))
                    request = step.send(self._differences(sent, inbox, op))
            except StopIteration as stop:
                self.state = stop.value
            done += 1

    def _differences(self, own: Array, inbox: Inbox, op: str) -> Array:
        """sum_j w_ij (u_i - u_j), in ascending order of the neighbours; one whose message was lost is left out."""
        total = np.zeros_like(own)
        for neighbour, weight in self._weights[op]:
            if neighbour in inbox:
                total += own.dtype.type(weight) * (own - inbox[neighbour])
        return total


def _unanswered(_vector: Array | None, _op: str) -> Array:
    raise InputError("the memory of this version needs a message; expected one whose D v leaves B^2 v behind, as NIDS")


def local_agents(
    problem: Problem,
    network: Network,
    version: Version,
    steps: Steps,
    x0: ArrayLike | None = None,
    lam0: ArrayLike | None = None,
) -> list[LocalAgent]:
    """All agents of a problem, each with its own part only; messages are not compressed here."""
    problem.expect(network, steady=isinstance(network, CompressedNetwork))
    schedule = version.schedule(steps.beta, network)
    blocks = [None] * problem.n if x0 is None else problem.split(problem.join(x0, "x0"))
    duals = [None] * problem.n if lam0 is None else list(problem.dual(lam0, "lam0"))
    own = [replace(steps, alpha=alpha) for alpha in steps.per_agent(problem.n)]
    rows = [version.row(network, i) for i in range(problem.n)]
    return [
        LocalAgent(agent, problem.h, problem.n, rows[i], schedule, own[i], blocks[i], duals[i])
        for i, agent in enumerate(problem.agents)
    ]


def _ascending(rows: Rows) -> dict[str, list[tuple[int, float]]]:
    return {op: sorted(row.items()) for op, row in rows.items()}


@dataclass
class Traffic:
    """What really passed between the agents."""

    rounds: int = 0
    messages: int = 0
    floats_sent: int = 0


def run_agents(agents: Sequence[LocalAgent], network: Network, iterations: int) -> Traffic:
    """Drive all agents in one process, carrying every message by hand and counting it, the lost ones too."""
    if len(agents) != network.n:
        raise InputError(f"{len(agents)} agents arrived for a network of {network.n}; expected one for each node")
    traffic = Traffic()
    runs = [agent.run(iterations) for agent in agents]
    outbox = [next(run, None) for run in runs]
    while all(message is not None for message in outbox):
        sent = [message for message in outbox if message is not None]
        traffic.rounds += 1
        inboxes: list[dict[int, Array]] = [{} for _ in runs]
        for i, (number, _) in enumerate(sent):
            if number != sent[0][0]:
                raise InputError(f"agent {i} is in round {number}, agent 0 in round {sent[0][0]}")
        now, up = network.links(agents[0].state.iteration, sent[0][0] - 1)
        for k, (i, j) in enumerate(now.edges.tolist()):
            if up is None or up[k]:
                inboxes[j][i], inboxes[i][j] = sent[i][1], sent[j][1]
            traffic.messages += 2
            traffic.floats_sent += sent[i][1].size + sent[j][1].size
        outbox = [_send(run, inbox) for run, inbox in zip(runs, inboxes, strict=True)]
    return traffic


def _send(run: Generator[tuple[int, Array], Inbox, None], inbox: Inbox) -> tuple[int, Array] | None:
    try:
        return run.send(inbox)
    except StopIteration:
        return None
