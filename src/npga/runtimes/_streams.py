"""Long-lived bidirectional gRPC streams with mutual TLS and pinned certificates, one for each pair of neighbours.

Every certificate is self-signed, and a party trusts exactly its neighbours' certificates: they are the only roots. The
accepting end compares, after the handshake, the peer's certificate itself with the pinned ones. The dialling end has
the one pinned certificate as its only root, so no other can complete the handshake; gRPC shows a client no certificate.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from npga.errors import InputError
from npga.extras import load
from npga.runtimes._faults import PeerLost, printable
from npga.runtimes._keys import Identity, certificate_name, fingerprint

SERVICE, METHOD = "npga.Link", "Edge"
_RETRY_SECONDS = 0.1
_LEAST_KEEPALIVE_MS = 1000
_LOOKS = 10
_LONGEST_TICK = 0.5


@cache
def import_grpc() -> Any:
    """`grpc` with its asyncio part, or the sentence that says how to get it."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # a neighbour that ends is news of ours, not of the transport
    load("grpc.aio", "net", "the gRPC engine", "grpcio")
    return load("grpc", "net", "the gRPC engine", "grpcio")


class Stream(Protocol):
    """Either end of a stream."""

    async def read(self) -> Any:
        """The next message, or grpc.aio.EOF."""

    async def write(self, message: bytes) -> None:
        """Send a message."""


def channel_options(message_bytes: int, patience: float) -> list[tuple[str, Any]]:
    """Options of both ends: a frozen peer is noticed by unanswered pings, and messages may be as long as p needs.

    A ping after half the patience without a word, and the other half for its answer: so a connection on which nothing
    arrives is given up when the patience is over and not before, however long the way or the message. Without
    `ping_timeout_ms` a frozen peer is found only after the transport's own, much longer, timeout.
    """
    ping = max(int(500 * patience), _LEAST_KEEPALIVE_MS)
    return [
        ("grpc.keepalive_time_ms", ping),
        ("grpc.keepalive_timeout_ms", ping),
        ("grpc.http2.ping_timeout_ms", ping),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", ping // 2),
        ("grpc.http2.min_ping_interval_without_data_ms", ping // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.enable_retries", 0),
        ("grpc.so_reuseport", 0),
    ]


class Acceptor:
    """The listening end: it hands over streams of pinned neighbours and refuses everybody else."""

    def __init__(self, address: str, identity: Identity, options: list[tuple[str, Any]]) -> None:
        grpc = import_grpc()
        self._parties = {fingerprint(pem): party for party, pem in identity.pinned.items()}
        self._arrived: dict[int, asyncio.Future[Stream]] = {}
        self._closed = asyncio.Event()
        self.refused: list[str] = []
        self._server = grpc.aio.server(options=options)
        handlers = {METHOD: grpc.stream_stream_rpc_method_handler(self._edge)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        credentials = grpc.ssl_server_credentials(
            [(identity.key, identity.certificate)], b"".join(identity.pinned.values()), require_client_auth=True
        )
        try:
            self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise InputError(f"cannot listen on {address} ({error}); choose a free port in job.toml") from None

    async def start(self) -> None:
        """Begin to listen."""
        await self._server.start()

    def stream(self, party: int) -> asyncio.Future[Stream]:
        """The stream of a neighbour, when it has come."""
        return self._arrived.setdefault(party, asyncio.get_running_loop().create_future())

    async def _edge(self, _requests: Any, context: Any) -> None:
        grpc = import_grpc()
        shown = context.auth_context().get("x509_pem_cert", [b""])[0]
        party = self._parties.get(fingerprint(shown)) if shown else None
        if party is None:
            self.refused.append(context.peer())
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate is not a neighbour's")
            return
        future = self.stream(party)
        if future.done():
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "this neighbour is connected already")
            return
        future.set_result(context)
        await self._closed.wait()

    async def close(self, grace: float) -> None:
        """End every stream; what was written has `grace` seconds to leave."""
        self._closed.set()
        await self._server.stop(grace)


class Dialler:
    """The dialling end of one stream."""

    def __init__(self, address: str, party: int, identity: Identity, options: list[tuple[str, Any]]) -> None:
        self._grpc = import_grpc()
        pinned = identity.pinned[party]
        self._address = address
        credentials = self._grpc.ssl_channel_credentials(pinned, identity.key, identity.certificate)
        target = [("grpc.ssl_target_name_override", certificate_name(pinned))]
        backoff = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = self._grpc.aio.secure_channel(address, credentials, options + target + backoff)
        self._method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")

    async def connect(self, hello: Callable[[], bytes], peer: str, seconds: float) -> tuple[Stream, bytes]:
        """Dial until the other end answers the hello with its own; returns the stream and that hello."""
        deadline, reason = time.monotonic() + seconds, "no answer"
        while (left := deadline - time.monotonic()) > 0:
            call = self._method()
            try:
                async with asyncio.timeout(left):
                    await call.write(hello())
                    answer = await call.read()
                if answer is not self._grpc.aio.EOF:
                    return call, answer
                code, reason = await call.code(), await call.details()
            except (self._grpc.aio.AioRpcError, asyncio.InvalidStateError):
                code, reason = await call.code(), await call.details()
            except TimeoutError:
                call.cancel()
                break
            if code is not self._grpc.StatusCode.UNAVAILABLE:
                raise PeerLost(peer, f"it refused the connection ({code.name}: {printable(reason)})")
            await asyncio.sleep(_RETRY_SECONDS)
        raise PeerLost(peer, f"no connection to {self._address} within {seconds:g} s ({printable(reason)})")

    async def close(self, grace: float) -> None:
        """End the stream; what was written has `grace` seconds to leave."""
        await self._channel.close(grace)


def breaks() -> tuple[type[BaseException], ...]:
    """What a stream raises when it has broken."""
    grpc = import_grpc()
    return grpc.aio.AioRpcError, grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError


async def read_message(stream: Stream, peer: str) -> bytes:
    """The next message of a stream; PeerLost when there will be none."""
    grpc = import_grpc()
    try:
        message = await stream.read()
    except grpc.aio.AioRpcError as error:
        raise PeerLost(peer, f"{error.code().name}: {printable(error.details())}") from None
    except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.BaseError, grpc.aio.UsageError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # this task was cancelled, not the call that it reads from
        raise PeerLost(peer, f"the connection broke ({printable(error or type(error).__name__)})") from None
    if message is grpc.aio.EOF:
        raise PeerLost(peer, await _farewell(stream))
    found: bytes = message
    return found


async def _farewell(stream: Stream) -> str:
    code = getattr(stream, "code", None)
    if code is None or not inspect.iscoroutinefunction(code):
        return "the connection ended without a farewell: it was killed, is frozen, or is cut off"
    status, details = await stream.code(), await stream.details()  # type: ignore[attr-defined]
    return f"the connection ended ({status.name}: {printable(details or 'no reason given')})"


class Stopwatch:
    """How long a party has been waiting: one timer for the whole run instead of one for each round.

    It cancels the task that waits when its time is over, and sets `expired`. Whoever waits longer than its patience
    says so to its neighbours, once. A party that hears this from the one it waits for extends its own wait and leaves
    the naming to that one; so the one that is named in the end is the one that is silent.

    Parameters
    ----------
    loop
        The event loop; it need not run all the time.
    patience, grace
        Seconds until `late` is called, and from then until the end.
    late
        Called once in each wait that outlasts the patience.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, patience: float, grace: float, late: Callable[[], None]
    ) -> None:
        self._loop, self.patience, self._grace, self._late = loop, patience, grace, late
        self._tick = min(patience / _LOOKS, _LONGEST_TICK)
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self._from = self._until = 0.0
        self.expired = False
        self.party = -1

    def start(self) -> None:
        """The running task begins to wait."""
        self._task, self._told = asyncio.current_task(), False
        self._from = self._loop.time()
        self._until = self._from + self.patience + self._grace
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._look)

    def extend(self) -> None:
        """The one it waits for is alive and waits as well; that counts once in each wait, so nobody waits for ever."""
        self._until = self._from + 2 * (self.patience + self._grace)

    def stop(self) -> None:
        """The wait is over."""
        self._task = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._tick, self._look)
        if self._task is None:
            return
        now = self._loop.time()
        if now > self._until:
            self.expired = True
            self._task.cancel()
        elif now > self._from + self.patience and not self._told:
            self._told = True
            self._late()
