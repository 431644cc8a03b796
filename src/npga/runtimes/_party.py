"""One process of a run: it holds one or more agents and drives them over any link, the seam to the engines."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from npga.networks import LossyNetwork
from npga.runtimes._agreement import Agreement, OwnMeasures, witness
from npga.runtimes._data_files import OwnPart, read_own_part
from npga.runtimes._faults import NOTICE, Diverged, StartedAgain, Stopped
from npga.runtimes._found_steps import Council, FoundSteps, adaptive_agent, certified_steps
from npga.runtimes._job import Job, Layout
from npga.runtimes._saved_state import states_of
from npga.runtimes._timeline import Logbook
from npga.runtimes._wire import Hello, MessageKind, in_range
from npga.solver import LocalAgent, State
from npga.steps import Steps
from npga.tuning import AdaptiveState

Array = NDArray[Any]
LOG = logging.getLogger("npga.runtimes")
LEVELS = ("error", "warning", "info", "debug")


def nothing() -> None:
    """Nothing to do while messages travel."""


class Link(Protocol):
    """How one party, the process of one or more agents, talks to the parties it shares links with.

    `waits_for` are the parties whose message of this round is not here, and `waited` is how long they were waited for
    so far, as far as the engine can tell them apart; `bytes_sent` and `bytes_received` count all messages.
    """

    waited: dict[int, float]

    @property
    def waits_for(self) -> tuple[int, ...]: ...

    @property
    def bytes_sent(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    def open(self, hello: Hello) -> Mapping[int, Hello]:
        """Connect, say hello and check the neighbours'; returns theirs by party.

        Raises PeerLost when a neighbour does not come, BadMessage when it is about to run something else. Called once
        more after StartedAgain, it waits until all have come again.
        """

    def exchange(
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        """Send the vectors of the own agents in round `number`; return those of all remote neighbours, by agent.

        `meanwhile` is called once while the messages travel. Raises PeerLost, PeerSlow or BadMessage; and StartedAgain
        when a party of the network is there anew, and all are to agree once more on where to go on.
        """

    def close(self, error: BaseException | None = None) -> None:
        """End, and tell the neighbours why; never raises."""


class Alone:
    """The link of a party that holds every agent: nobody to greet, to hear from or to tell."""

    bytes_sent = bytes_received = 0
    waits_for: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.waited: dict[int, float] = {}

    def open(self, hello: Hello) -> Mapping[int, Hello]:  # noqa: ARG002
        return {}

    def exchange(
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, Array]:
        del kind, number, vectors
        meanwhile()
        return {}

    def close(self, error: BaseException | None = None) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a party ended.

    Parameters
    ----------
    x, lam
        Solution of each of its agents.
    iterations, rounds
        Work done, over all sessions of a resumed run.
    converged, kkt
        Whether the agents found their bound on the residual below the tolerance, and that bound (nan: not asked); it is
        one if all parties follow the protocol.
    resumed_from
        Iteration that this session began at.
    totals
        Traffic and times of this session.
    """

    x: dict[int, Array]
    lam: dict[int, Array]
    iterations: int
    rounds: int
    converged: bool
    kkt: float
    resumed_from: int
    totals: dict[str, Any]


class Party:
    """The agents of one process.

    Parameters
    ----------
    job
        The job.
    layout, me
        Who holds which agents, and which party this is.
    link
        How the neighbours are reached.
    out
        Directory for checkpoints and metrics; None writes nothing.
    resume
        Go on from the newest checkpoint that all have.
    parts
        What each of its agents alone knows; by default read from where the job says.
    from_zero
        When resuming, begin at zero if this party has lost its state, although others have theirs.
    """

    def __init__(
        self,
        job: Job,
        layout: Layout,
        me: int,
        link: Link,
        out: Path | None = None,
        resume: bool = False,
        parts: Mapping[int, OwnPart] | None = None,
        from_zero: bool = False,
    ) -> None:
        self.job, self.layout, self.me, self.link = job, layout, me, link
        self._parts = {i: read_own_part(job, i) for i in layout.parties[me]} if parts is None else parts
        self._measures = {i: OwnMeasures(part.agent, job.h, job.n) for i, part in self._parts.items()}
        self._witnesses = {i: found for i in self._parts if (found := witness(job, i))}
        self._neighbours = {i: job.network.neighbors(i).tolist() for i in self._parts}
        self._links = sum(len(row) for row in self._neighbours.values())
        self._out, self._from_zero = out, from_zero
        self._resume: bool | None = resume
        self._build()
        self.logbook = Logbook(None if out is None else out / f"party{me}.jsonl", me, job.times.metrics_seconds, link)

    def _build(self) -> None:
        """The agents before their first iteration, and nothing agreed on."""
        job, parts = self.job, self._parts
        self.agents = {i: build_agent(job, i, part) for i, part in parts.items()}
        share = partial(self._share, MessageKind.CONTROL)
        self._agreement = Agreement(self._measures, job.n, job.network.diameter, share, self._witnesses)
        self._inboxes: Mapping[int, Mapping[int, Array]] = {}
        self._council = Council(job.network, self._agreement)
        self._found: FoundSteps | None = None
        if job.steps is None and not job.certified:
            adaptive = {i: adaptive_agent(job, i, part.agent, self.agents[i]) for i, part in parts.items()}
            self._found = FoundSteps(adaptive, self._council)
        self._states = states_of(job, self.layout.parties[self.me], self._out)

    def run(self, deliver: Callable[[Outcome], None] | None = None) -> Outcome:
        """Open the link, agree on the start, iterate to the end; on an error tell the neighbours and raise it.

        `deliver` is called with the outcome before the last farewell, which may wait for others.
        """
        try:
            NOTICE.heed()
            self._states.prepare(bool(self._resume))
            if not self._resume:
                self.logbook.begin_anew()
            LOG.debug("looking for %d neighbours", len(self.layout.borders(self.me)))
            hello = hello_of(self.job, self.layout, self.me)
            self.link.open(hello)
            self.logbook.beat()
            while (outcome := self._run_to_the_end()) is None:
                self.link.open(hello)
                self._build()
            if deliver is not None:
                deliver(outcome)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self.logbook.close()
        with contextlib.suppress(Stopped):  # all is done and written
            self.link.close()
        return outcome

    def _run_to_the_end(self) -> Outcome | None:
        """Agree on the start and iterate to the end; None when a party was started again, and all go back together."""
        try:
            start, ended = self._begin()
            converged, kkt = self._iterate() if ended is None else (True, ended)
        except StartedAgain:
            if self._iteration and not self._states.are_saved:
                raise
            # Who was not told to resume, and has not begun, has nothing to insist on.
            self._resume = True if self._iteration else self._resume or None
            self._states.save_recent()
            return None
        self._states.save_end(self._own_states(), kkt)
        self.logbook.line(self._iteration, force=True)
        states = self._own_states()
        return Outcome(
            x={i: state.x for i, state in states.items()},
            lam={i: state.lam for i, state in states.items()},
            iterations=self._iteration,
            rounds=next(iter(states.values())).rounds,
            converged=converged,
            kkt=kkt,
            resumed_from=start,
            totals=self.logbook.totals(),
        )

    def _give_up(self, error: BaseException) -> None:
        """Leave word at home and with the neighbours, and save what there is, if that is still possible."""
        NOTICE.is_ending = True
        with contextlib.suppress(OSError):
            self.logbook.line(self._iteration, force=True, error=str(error))
        if not isinstance(error, Diverged):
            with contextlib.suppress(OSError):
                self._states.save_recent()
        self.link.close(error)

    def _own_states(self) -> dict[int, State]:
        return {i: agent.state for i, agent in (self._found.agents if self._found else self.agents).items()}

    @property
    def _iteration(self) -> int:
        return next(iter(self.agents.values())).state.iteration

    def _begin(self) -> tuple[int, float | None]:
        """Agree on where to begin; returns the iteration, and the residual if the run had met its tolerance there."""
        start = self._states.agree(self._agreement.largest, self._resume, self._from_zero)
        for complaint in self._states.complaints:
            LOG.warning(complaint)
        if self._out is not None:
            for i in self.agents:
                (self._out / f"agent{i}.npz").unlink(missing_ok=True)  # the result of an earlier run
        ended = None
        if not start:
            self._states.save_start(self._own_states(), self._agreement.largest)
        else:
            LOG.info("going on from iteration %d", start)
            states, kkt = self._states.load(start)
            for i, state in states.items():
                if self._found is not None and isinstance(state, AdaptiveState):
                    self._found.agents[i].resume(state)
                else:
                    self.agents[i].state = state
            ended = kkt if kkt is not None and self.job.stop.tol is not None and kkt <= self.job.stop.tol else None
        if self.job.stop.tol is not None:
            self._agreement.share_facts()
        self._agree_on_steps(start)
        return start, ended

    def _agree_on_steps(self, start: int) -> None:
        """Steps that the job does not name; those of a run that goes on were saved with its state."""
        steps = self.job.steps
        if self._found is not None:
            if not start:
                self._found.begin()
            self._show_steps()
            return
        if steps is None:
            own = {i: part.agent for i, part in self._parts.items()}
            steps = certified_steps(own, self.job.h, self._council)
            for agent in self.agents.values():
                agent.steps = steps
        self._agreement.beta = steps.beta
        self.logbook.steps, self.logbook.steps_rounds = asdict(steps), self._council.rounds

    def _show_steps(self) -> None:
        """Let those who watch know, and those who measure."""
        assert self._found is not None
        if self._found.beta != self.logbook.steps.get("beta"):
            LOG.info("iteration %d: beta = %.3g", self._iteration, self._found.beta)
        self._agreement.beta, self.logbook.steps = self._found.beta, self._found.steps
        self.logbook.steps_rounds = self._council.rounds

    def _iterate(self) -> tuple[bool, float]:
        stop, kkt = self.job.stop, float("nan")
        while self._iteration < stop.max_iters:
            is_last = self._iteration + 1 == stop.max_iters
            before = None
            if stop.tol is not None and self._found is None and (is_last or self._is_time(self._iteration + 1)):
                before = self._agreement.recompute(self._own_states(), self._inboxes)
            self._step(is_last)
            iteration = self._iteration
            if stop.tol is not None and (self._is_time(iteration) or is_last):
                states = self._own_states()
                kkt = self._agreement.residual(states, self._agreement.recompute(states, self._inboxes), before)
                self.logbook.residual = kkt if math.isfinite(kkt) else None
                LOG.info("iteration %d: residual at most %.1e, wanted %.1e", iteration, kkt, stop.tol)
                if kkt <= stop.tol:
                    return True, kkt
            self._states.remember(self._own_states())
            self.logbook.line(iteration)
        return False, kkt

    def _is_time(self, iteration: int) -> bool:
        """Whether to look at the residual."""
        every = self.job.stop.check_every
        return iteration % every == 0 if self._found is None else self._found.is_time(iteration, every)

    def _step(self, is_last: bool) -> None:
        if self._found is None:
            self._advance()
        elif self._found.step(self._advance, is_last):
            self._show_steps()

    def _advance(self) -> Mapping[int, Mapping[int, Array]]:
        """One iteration of every agent; what each heard in its last round."""
        runs = {i: agent.run(1) for i, agent in self.agents.items()}
        outbox = {i: next(run) for i, run in runs.items()}
        inboxes: Mapping[int, Mapping[int, Array]] = {}
        while outbox:
            number = next(iter(outbox.values()))[0]
            inboxes = self._share(
                MessageKind.DATA, number, {i: vector for i, (_, vector) in outbox.items()}, self._compute
            )
            outbox = {}
            for i, run in runs.items():
                try:
                    outbox[i] = run.send(inboxes[i])
                except StopIteration:
                    continue
        self._inboxes = inboxes
        return inboxes

    def _compute(self) -> None:
        """What needs no message, while messages travel."""
        begun = time.perf_counter()
        for agent in self.agents.values():
            agent.compute()
        self.logbook.waiting -= time.perf_counter() - begun

    def _share(
        self, kind: MessageKind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> dict[int, dict[int, Array]]:
        """One round: every own agent's vector to all its neighbours, in memory where they live here too."""
        NOTICE.heed()
        for i, vector in vectors.items():
            if not in_range(vector):
                raise Diverged(i)
        begun = time.perf_counter()
        known = {**vectors, **self.link.exchange(kind, number, vectors, meanwhile)}
        waited = time.perf_counter() - begun
        self.logbook.waiting += waited
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("round %d (%s): %.1f ms at the link", number, kind.name.lower(), 1e3 * waited)
        self.logbook.sent(kind is MessageKind.CONTROL, self._links, self._links * vector.size)
        if kind is MessageKind.DATA and (lost := self._lost(number)):
            return {
                i: {j: known[j] for j in row if (min(i, j), max(i, j)) not in lost}
                for i, row in self._neighbours.items()
            }
        return {i: {j: known[j] for j in row} for i, row in self._neighbours.items()}

    def _lost(self, number: int) -> Collection[tuple[int, int]]:
        """Links that the job says are down in a round: all parties draw them alike, and leave out what arrived."""
        network = self.job.network
        return network.lost(number - 1) if isinstance(network, LossyNetwork) else ()


def hello_of(job: Job, layout: Layout, me: int) -> Hello:
    """What a party says of itself and of its job."""
    return Hello(me, layout.parties[me], job.digest, job.p, job.dtype.name, job.times.checkpoint_rounds, job.limits)


def build_agent(job: Job, i: int, part: OwnPart) -> LocalAgent:
    """The agent's half of the recursion: its own part, its row of the network, h, n and the steps."""
    steps = job.steps or Steps(1.0, 1.0)  # where they are found, they are before the first iteration
    own = replace(steps, alpha=steps.per_agent(job.n)[i])
    return LocalAgent(part.agent, job.h, job.n, job.weights(i), job.schedule, own, part.x0, part.lam0)
