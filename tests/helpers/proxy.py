"""A TCP proxy between parties that cuts, stalls, half closes or delays what passes through it; a job behind such."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

from helpers.rehearsal import LONG, finish, free_addresses, make_job, solution, start_party


class Proxy:
    """Listens on `front`, forwards to `back`; its faults may be called from any thread.

    Parameters
    ----------
    front, back
        Addresses "host:port".
    """

    def __init__(self, front: str, back: str) -> None:
        self._front, self._back = front, back
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._uninformed: set[asyncio.StreamWriter] = set()
        self._flowing, self._refusing, self._delay = asyncio.Event(), False, 0.0
        self._flowing.set()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.connections = 0

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(LONG)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        host, port = self._front.rsplit(":", 1)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, host, int(port)))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for writer in {*self._uninformed, *(end for pair in self._pairs for end in pair)}:
            writer.transport.abort()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._back.rsplit(":", 1)
        try:
            if self._refusing:
                raise ConnectionError
            other, onward = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        self._pairs.append((writer, onward))
        await asyncio.gather(self._pump(reader, onward), self._pump(other, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        if writer not in self._uninformed:
            writer.transport.abort()

    def _do(self, what, *arguments) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)

    def cut(self) -> None:
        """Both ends of every connection are reset."""
        self._do(self._abort, (0, 1))

    def half_close(self, end: int = 0) -> None:
        """The dialling (0) or the accepting (1) end is reset; the other is told nothing, and hears nothing more."""
        self._do(self._abort, (end,))

    def _abort(self, ends) -> None:
        for pair in self._pairs:
            self._uninformed.update(pair[end] for end in {0, 1} - set(ends))
            for end in ends:
                pair[end].transport.abort()
        self._pairs = []

    def stall(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._do(self._flowing.clear)

    def flow(self) -> None:
        """What was held up passes."""
        self._do(self._flowing.set)

    def refuse(self, refusing: bool = True) -> None:
        """New connections are reset at once."""
        self._refusing = refusing

    def delay(self, seconds: float) -> None:
        """Every piece takes so much longer."""
        self._delay = seconds


class Rehearsal:
    """A job whose parties reach one another through proxies, one in front of each."""

    def __init__(self, directory, n, **options):
        fronts, self.backs = free_addresses(n), free_addresses(n)
        self.path, self.problem, self.network, self.version, self.steps = make_job(
            directory, n, keys=True, addresses=fronts, metrics_seconds=0.05, **options
        )
        self.n, self.out, self.options, self.always = n, directory / "out", options, ()
        text = self.path.read_text()
        self.jobs = [directory / f"job{k}.toml" for k in range(n)]
        for job, front, back in zip(self.jobs, fronts, self.backs, strict=True):
            job.write_text(text.replace(f'"{front}"', f'"{back}"'))
        self.proxies = [Proxy(front, back) for front, back in zip(fronts, self.backs, strict=True)]

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        for proxy in self.proxies:
            self._stack.enter_context(proxy)
        self.parties = [self.start(k, *self.always) for k in range(self.n)]
        return self

    def start(self, k, *more):
        return start_party(self.jobs[k], k, self.out, "--progress", *more)

    def __exit__(self, *_):
        for party in self.parties:
            party.kill()
        self._stack.close()

    def iteration(self, k=0):
        path = self.out / f"party{k}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return json.loads(lines[-1])["iteration"] if lines else 0

    def wait_for(self, iteration, k=0):
        deadline = time.monotonic() + LONG
        while self.iteration(k) < iteration:
            assert time.monotonic() < deadline
            assert all(party.poll() in (None, 0) for party in self.parties), finish(self.parties, 1)
            time.sleep(0.05)

    def same_bits(self):
        said = finish(self.parties)
        assert [code for code, _ in said] == [0] * self.n, said
        self.compare()
        return [words for _, words in said]

    def compare(self):
        """The results on disk are those of an undisturbed run, bit by bit."""
        with threadpool_limits(1):  # as the parties are: a long product on two threads has other bits
            x, lam, _ = solution(self.problem, self.network, self.version, self.steps, self.options["max_iters"])
        files = [np.load(self.out / f"agent{i}.npz") for i in range(self.n)]
        np.testing.assert_array_equal(np.concatenate([file["x"] for file in files]), x)
        np.testing.assert_array_equal(np.stack([file["lam"] for file in files]), lam)
