"""One process of a run: it holds one or more agents and drives them over any link."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.runtimes._errors import Diverged
from npga.runtimes._frame import Kind
from npga.runtimes._job import Job
from npga.runtimes._keeper import Keeper
from npga.runtimes._layout import Layout
from npga.runtimes._link import Hello, Link, nothing
from npga.runtimes._meter import Meter
from npga.runtimes._private import build_agent, load_part
from npga.runtimes._stopping import Ruler, bound

Array = NDArray[Any]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How a party ended.

    Parameters
    ----------
    x, lam
        Solution of each of its agents.
    iterations, rounds
        Work done, over all sessions of a resumed run.
    converged, residual
        Whether the agents found their bound on the residual below the tolerance, and that bound (nan: not asked).
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
    residual: float
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
    report
        Called with a line about the progress at every check of the stopping rule.
    """

    def __init__(
        self,
        job: Job,
        layout: Layout,
        me: int,
        link: Link,
        out: Path | None = None,
        resume: bool = False,
        report: Report | None = None,
    ) -> None:
        self.job, self.layout, self.me, self.link = job, layout, me, link
        parts = {i: load_part(job, i) for i in layout.parties[me]}
        self.agents = {i: build_agent(job, i, part) for i, part in parts.items()}
        self._rulers = {i: Ruler(part.agent, job.h, job.n, job.steps) for i, part in parts.items()}
        self._neighbours = {i: job.network.neighbors(i).tolist() for i in self.agents}
        self._links = sum(len(row) for row in self._neighbours.values())
        saving = out is not None and job.checkpoint_iterations > 0
        self._keepers = {i: Keeper(out / "checkpoints", i, job.digest) for i in self.agents} if out and saving else {}
        self._finished = out is not None and all((out / f"agent{i}.npz").exists() for i in self.agents)
        self._resume, self._report = resume, report
        self.meter = Meter(None if out is None else out / f"party{me}.jsonl", me, job.times.metrics_seconds)
        self._control = 0
        self._facts = np.zeros(3)

    def run(self) -> Outcome:
        """Open the link, agree on the start, iterate to the end; on an error tell the neighbours and raise it."""
        try:
            self.link.open(self._hello())
            start = self._agree_on_start()
            if self.job.stop.tol is not None:
                self._facts = self._largest({i: ruler.facts() for i, ruler in self._rulers.items()})
            converged, residual = self._iterate()
            self.meter.line(self.link, self._iteration, force=True)
        except BaseException as error:
            self.meter.line(self.link, self._iteration, force=True, error=str(error))
            self.link.close(error)
            raise
        finally:
            self.meter.close()
        self.link.close()
        states = {i: agent.state for i, agent in self.agents.items()}
        return Outcome(
            x={i: state.x for i, state in states.items()},
            lam={i: state.lam for i, state in states.items()},
            iterations=self._iteration,
            rounds=next(iter(states.values())).rounds,
            converged=converged,
            residual=residual,
            resumed_from=start,
            totals=self.meter.totals(self.link),
        )

    @property
    def _iteration(self) -> int:
        return next(iter(self.agents.values())).state.iteration

    def _hello(self) -> Hello:
        held = [set(keeper.iterations()) for keeper in self._keepers.values()]
        common = sorted(set.intersection(*held)) if held else []
        if common and not self._resume:
            if not self._finished:
                raise InputError(
                    f"the directory holds checkpoints of an unfinished run (iterations {common}); pass --resume to go "
                    "on from them, or choose another directory"
                )
            for keeper in self._keepers.values():
                keeper.clear()
        job = self.job
        return Hello(
            party=self.me, agents=self.layout.parties[self.me], job=job.digest, p=job.p, dtype=job.dtype.name,
            checkpoint_rounds=job.times.checkpoint_rounds, checkpoints=tuple(common) if self._resume else (),
        )  # fmt: skip

    def _agree_on_start(self) -> int:
        """The newest iteration that all agents have saved: the least of everybody's newest."""
        newest = {i: (keeper.iterations() or [0])[-1] for i, keeper in self._keepers.items()} if self._resume else {}
        mine = {i: np.array([-float(newest.get(i, 0)), float(self._resume)]) for i in self.agents}
        oldest, resuming = self._largest(mine).tolist()
        if bool(resuming) != self._resume:
            raise InputError("another party resumes and this one does not; start all with --resume, or none")
        start = int(-oldest)
        if start:
            for i, agent in self.agents.items():
                agent.state = self._keepers[i].load(start)
        return start

    def _iterate(self) -> tuple[bool, float]:
        stop, save = self.job.stop, self.job.checkpoint_iterations
        residual = float("nan")
        while self._iteration < stop.max_iters:
            self._advance()
            iteration = self._iteration
            if stop.tol is not None and (iteration % stop.check_every == 0 or iteration == stop.max_iters):
                residual = self._residual()
                if self._report is not None:
                    self._report(f"iteration {iteration}: residual at most {residual:.1e}, wanted {stop.tol:.1e}")
                if residual <= stop.tol:
                    return True, residual
            if self._keepers and iteration % save == 0:
                for i, keeper in self._keepers.items():
                    keeper.save(self.agents[i].state)
            self.meter.line(self.link, iteration)
        return False, residual

    def _advance(self) -> None:
        """One iteration of every agent."""
        runs = {i: agent.run(1) for i, agent in self.agents.items()}
        outbox = {i: next(run) for i, run in runs.items()}
        while outbox:
            number = next(iter(outbox.values()))[0]
            inboxes = self._share(Kind.DATA, number, {i: vector for i, (_, vector) in outbox.items()}, self._compute)
            outbox = {}
            for i, run in runs.items():
                try:
                    outbox[i] = run.send(inboxes[i])
                except StopIteration:
                    continue

    def _compute(self) -> None:
        """What needs no message, while messages travel."""
        begun = time.perf_counter()
        for agent in self.agents.values():
            agent.compute()
        self.meter.waiting -= time.perf_counter() - begun

    def _share(
        self, kind: Kind, number: int, vectors: Mapping[int, Array], meanwhile: Callable[[], None] = nothing
    ) -> dict[int, dict[int, Array]]:
        """One round: every own agent's vector to all its neighbours, in memory where they live here too."""
        size = 0
        for i, vector in vectors.items():
            size = vector.size
            if not np.isfinite(vector).all():
                raise Diverged(i)
        begun = time.perf_counter()
        known = {**vectors, **self.link.exchange(kind, number, vectors, meanwhile)}
        self.meter.waiting += time.perf_counter() - begun
        self.meter.sent(kind is Kind.CONTROL, self._links, self._links * size)
        return {i: {j: known[j] for j in self._neighbours[i]} for i in vectors}

    def _control_round(self, vectors: Mapping[int, Array]) -> dict[int, dict[int, Array]]:
        self._control += 1
        return self._share(Kind.CONTROL, self._control, vectors)

    def _largest(self, own: Mapping[int, Array]) -> Array:
        """Maxima over all agents of the network, known to each after as many rounds as the diameter."""
        values = dict(own)
        for _ in range(self.job.network.diameter):
            heard = self._control_round(values)
            values = {i: np.max([values[i], *heard[i].values()], axis=0) for i in values}
        return next(iter(values.values()))

    def _residual(self) -> float:
        """A bound on the residual of the whole problem, the same number at every agent."""
        views = {i: self._rulers[i].view(agent.state) for i, agent in self.agents.items()}
        heard = self._control_round(views)
        measured = {i: self._rulers[i].measure(agent.state, views[i], heard[i]) for i, agent in self.agents.items()}
        for i, values in measured.items():
            if not np.isfinite(values).all():
                raise Diverged(i)
        job = self.job
        return bound(self._facts, self._largest(measured), job.n, job.network.diameter, job.steps)
