"""Check a job before anything starts: ``python -m npga.runtimes.preflight job.toml --party 3``.

Every party runs this at about the same time, each with its own files. For every link it tells whether the neighbour is
reachable, shows its pinned certificate, has the same job and the same p, and how far its clock is off.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from npga import __version__
from npga.errors import NpgaError
from npga.runtimes._data_files import read_own_part
from npga.runtimes._faults import ExitCode, LinkError, PeerLost
from npga.runtimes._job import Job, Layout, read_job
from npga.runtimes._neighbourhood import CHECK_SECONDS, HELLO_SECONDS, Neighbourhood, ends
from npga.runtimes._party import hello_of
from npga.runtimes._streams import expiry, import_grpc
from npga.runtimes._wire import Hello
from npga.runtimes.inprocess import parse_options
from npga.runtimes.net import own_identity

_CLOCK_SECONDS = 5.0
_MESSAGE_BYTES = 64 * 1024


@dataclass(frozen=True)
class CheckLine:
    """One line of a check: who looked, at what, whether all is well, what was seen, and whether to think about it."""

    party: int
    subject: str
    ok: bool
    detail: str
    warning: bool = False


def check_party(job: Job, me: int, key: Path | None = None) -> list[CheckLine]:
    """Look at the own files and at every neighbour, from one party's side."""
    job.party(me)
    findings = [_own_files(job, me), *_privacy(job, me)]
    try:
        import_grpc()
        near = Onlooker(job, me, own_identity(job, me, key), _MESSAGE_BYTES)
    except NpgaError as error:
        return [*findings, CheckLine(me, "key and certificates", False, str(error))]
    findings.append(_own_certificate(job, me))
    try:
        answers = asyncio.run(near.look_at_all(hello_of(job, job.layout, me)))
        findings += [_neighbour(job, me, q, answer, near.clock_offsets.get(q, 0.0)) for q, answer in answers.items()]
    except NpgaError as error:
        findings.append(CheckLine(me, "links", False, str(error)))
    return findings


class Onlooker(Neighbourhood):
    """The neighbours of a party, looked at without a run: hellos that say so, and disturb nobody."""

    async def look_at_all(self, hello: Hello) -> dict[int, Hello | BaseException]:
        """Every neighbour's hello, or what is wrong."""
        self._hello = replace(hello, check=True)
        self._came = {q: asyncio.get_running_loop().create_future() for q in self.sessions}
        self._prepare(self._answer)
        if self._acceptor is not None:
            await self._listen_again()
        found = await asyncio.gather(*map(self._look_at, self.sessions), return_exceptions=True)
        await asyncio.sleep(CHECK_SECONDS)  # whoever dials this party has its answer by then
        await self.close(CHECK_SECONDS)
        return dict(zip(self.sessions, found, strict=True))

    async def _answer(self, q: int, stream: Any) -> None:
        with contextlib.suppress(LinkError, *ends()):
            async with asyncio.timeout(HELLO_SECONDS):
                message = await stream.read()
                if isinstance(message, bytes):
                    await stream.write(self._greeting(self.sessions[q], False))
                    if not self._came[q].done():
                        self._came[q].set_result(message)
                    await stream.read()  # until the other end has seen the answer

    async def _look_at(self, q: int) -> Hello:
        session, seconds = self.sessions[q], self._times.connect
        if q not in self._diallers and not (self._acceptor and self._acceptor.listening):
            address = self._job.parties[self._me].address
            raise PeerLost(session.peer, f"not looked at: {address} is in use, by this party's own run perhaps")
        if q in self._diallers:
            greeting = partial(self._greeting, session, False)
            _, message = await self._diallers[q].connect(greeting, session.peer, seconds)
        else:
            try:
                message = await asyncio.wait_for(self._came[q], seconds)
            except TimeoutError:
                raise PeerLost(session.peer, f"it did not connect within {seconds:g} s") from None
        other = self._hear_hello(session, message)
        self._hello.agree(other, q, self._layout)
        return other


def _own_files(job: Job, me: int) -> CheckLine:
    try:
        parts = [read_own_part(job, i) for i in job.layout.parties[me]]
    except NpgaError as error:
        return CheckLine(me, "own data", False, str(error))
    sizes = [part.agent.A.shape[1] for part in parts]
    return CheckLine(me, "own data", True, f"p = {job.p}, variables {sizes}, job {job.digest}")


def onlookers(layout: Layout, agent: int) -> list[int]:
    """The parties that see all that an agent sends and receives, and so can work out A_i A_i^T (docs/privacy.md).

    An agent sends the same vector to all its neighbours. So a party sees the messages of its own agents' neighbours,
    and it sees all of agent i's when these include i and every neighbour of i that is not its own.
    """
    near = {agent, *layout.network.neighbors(agent).tolist()}
    found = []
    for party, agents in enumerate(layout.parties):
        seen = set(agents).union(*(layout.network.neighbors(i).tolist() for i in agents))
        if agent not in agents and near <= seen:
            found.append(party)
    return found


def _privacy(job: Job, me: int) -> list[CheckLine]:
    layout, lines = job.layout, []
    for i in layout.parties[me]:
        who = onlookers(layout, i)
        if who:
            names = ", ".join(layout.title(q) for q in who)
            only = " is its only neighbour and" if len(layout.borders(me)) == 1 else ""
            detail = f"{names}{only} sees all that it sends and receives, and can work out A A^T: see docs/privacy.md"
            lines.append(CheckLine(me, f"privacy of agent {i}", True, detail, warning=True))
    return lines


def _own_certificate(job: Job, me: int) -> CheckLine:
    end = expiry(Path(str(job.parties[me].certificate)).read_bytes())
    left = (end - datetime.datetime.now(datetime.UTC)).days
    return CheckLine(me, "own certificate", left > 0, f"valid until {end:%Y-%m-%d}, {left} days")


def _neighbour(job: Job, me: int, other: int, answer: Hello | BaseException, offset: float) -> CheckLine:
    subject = f"link to {job.layout.title(other)}"
    if not isinstance(answer, Hello):
        return CheckLine(me, subject, False, str(answer))
    words = [f"same job and p, clock {offset:+.1f} s, npga {answer.release}"]
    clocks = abs(offset) <= _CLOCK_SECONDS
    if not clocks:
        words.append("set one of the clocks: certificates and metrics need them")
    if answer.release != __version__:
        words.append(f"here it is {__version__}; the protocol is the same")
    return CheckLine(me, subject, clocks, "; ".join(words))


def main() -> None:
    """Entry point of the module: one JSON line for each finding; exit code 1 if one is bad."""
    options = parse_options(__doc__)
    try:
        findings = check_party(read_job(options.job, options.trust_code), options.party or 0, options.key)
    except NpgaError as error:
        print(f"npga: {error}", file=sys.stderr)
        sys.exit(ExitCode.BAD_INPUT)
    for finding in findings:
        print(json.dumps(asdict(finding)), flush=True)
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


if __name__ == "__main__":
    main()
