"""Keys, pinned certificates, and gRPC streams with mutual TLS, one for each pair of neighbours.

Every certificate is self-signed, and a party trusts exactly its neighbours' certificates: they are the only roots. The
accepting end compares, after the handshake, the peer's certificate itself with the pinned ones. The dialling end has
the one pinned certificate as its only root, so no other can complete the handshake; gRPC shows a client no certificate.

Strangers cost little: connections are bounded in number, those that do not shake hands are closed, and nobody listens
while no neighbour is missing.
"""

from __future__ import annotations

import asyncio
import datetime
import inspect
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from npga.errors import InputError
from npga.extras import load
from npga.runtimes._faults import PeerLost, printable
from npga.runtimes._job import Job

SERVICE, METHOD = "npga.Link", "Edge"
_RETRY_SECONDS = 0.1
LEAST_KEEPALIVE_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_CONNECTIONS = 128
_STREAMS = 8
_REMEMBERED = 8
_FOR_EVER = 1e9
_TIMES_THE_LIMIT = 4
_YEARS = 2


# Keys


def _cryptography() -> Any:
    return load("cryptography.x509", "net", "keygen")


def make_key(key: Path, certificate: Path, name: str) -> None:
    """Write a new private key (readable by its owner alone) and a self-signed certificate for it.

    The certificate may not sign others (CA:FALSE), so nobody who trusts it trusts anything else through it.
    """
    x509 = _cryptography()
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    for path in (key, certificate):
        if path.exists():
            raise InputError(f"{path} exists already; move it away first, so that no key in use is lost")
        path.parent.mkdir(parents=True, exist_ok=True)
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    usages = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))


def keygen(job: Job, party: int | None = None) -> list[Path]:
    """Make the key and certificate of one party, or of all (for a rehearsal), where job.toml says."""
    made = []
    for k in range(len(job.parties)) if party is None else [party]:
        spec = job.party(k)
        if spec.key is None or spec.certificate is None:
            raise InputError(f"party {k} has no 'key' and 'certificate' in {job.path}; add the two file names")
        make_key(spec.key, spec.certificate, f"party-{k}.npga")
        made += [spec.key, spec.certificate]
    return made


@dataclass(frozen=True)
class Identity:
    """The own key and certificate, and the pinned certificates of the neighbours, all in PEM."""

    key: bytes
    certificate: bytes
    pinned: Mapping[int, bytes]

    @staticmethod
    def read(key: Path, certificate: Path, pinned: Mapping[int, Path]) -> Identity:
        """Read the files; refuse a key that others can read or another's, and certificates out of date."""
        for path in (key, certificate, *pinned.values()):
            if not path.exists():
                raise InputError(f"{path} does not exist; make it with `npga keygen job.toml`, or ask its owner for it")
        if key.stat().st_mode & 0o077:
            raise InputError(f"others may read {key}; expected mode 600: run chmod 600 {key}")
        own = _certificate(certificate)
        if _public(own.public_key()) != _public(_private_key(key).public_key()):
            raise InputError(
                f"{key} is not the key of {certificate}; make both anew with `npga keygen`, or find the right"
            )
        keys = {_public(own.public_key()): certificate}
        for path in pinned.values():
            public = _public(_certificate(path).public_key())
            if public in keys:
                raise InputError(f"{path} and {keys[public]} have the same key; every party makes a key of its own")
            keys[public] = path
        pems = {party: path.read_bytes() for party, path in pinned.items()}
        return Identity(key.read_bytes(), certificate.read_bytes(), pems)


def _certificate(path: Path) -> Any:
    """A certificate that can be read and is valid today."""
    x509 = _cryptography()
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, OSError, x509.ExtensionNotFound) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).partition(". See")[0]
        raise InputError(
            f"{path} is not a certificate as `npga keygen` makes it ({why}); ask its owner for it, or make another"
        ) from None
    now = datetime.datetime.now(datetime.UTC)
    for when, late, word in (
        (found.not_valid_before_utc, found.not_valid_before_utc > now, "begins"),
        (found.not_valid_after_utc, found.not_valid_after_utc < now, "ended"),
    ):
        if late:
            raise InputError(
                f"{path} {word} on {when:%Y-%m-%d %H:%M} UTC; look at the clock, or make another with keygen"
            )
    return found


def _private_key(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, OSError) as error:
        raise InputError(f"{path} is not a private key without a password ({type(error).__name__})") from None


def _public(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    raw: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return raw


def certificate_name(pem: bytes) -> str:
    """The name that a certificate carries; used to address the pinned one, never to recognise it."""
    x509 = _cryptography()
    extensions = x509.load_pem_x509_certificate(pem).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return str(names.get_values_for_type(x509.DNSName)[0])


def fingerprint(pem: bytes) -> bytes:
    """SHA-256 of the certificate itself."""
    x509 = _cryptography()
    from cryptography.hazmat.primitives import hashes

    digest: bytes = x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256())
    return digest


def expiry(pem: bytes) -> datetime.datetime:
    """When a certificate ends."""
    end: datetime.datetime = _cryptography().load_pem_x509_certificate(pem).not_valid_after_utc
    return end


# Streams


@cache
def import_grpc() -> Any:
    """`grpc` with its asyncio part, or the sentence that says how to get it."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # a neighbour that ends is news of ours, not of the transport
    load("grpc.aio", "net", "the gRPC engine", "grpcio")
    return load("grpc", "net", "the gRPC engine", "grpcio")


def channel_options(message_bytes: int, patience: float, neighbours: int = 1) -> list[tuple[str, Any]]:
    """Options of both ends: a frozen peer is noticed by unanswered pings, and messages may be as long as p needs.

    A ping after half the patience without a word, and the other half for its answer: so a connection on which nothing
    arrives is given up when the patience is over and not before, however long the way or the message. Without
    `ping_timeout_ms` a frozen peer is found only after the transport's own, much longer, timeout. A message that is
    somewhat too long gets through, so that it can be refused by name; the transport drops what is far too long.
    """
    ping = int(1000 * max(patience / 2, LEAST_KEEPALIVE_SECONDS))
    return [
        ("grpc.keepalive_time_ms", ping),
        ("grpc.keepalive_timeout_ms", ping),
        ("grpc.http2.ping_timeout_ms", ping),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", ping // 2),
        ("grpc.http2.min_ping_interval_without_data_ms", ping // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", _TIMES_THE_LIMIT * message_bytes),
        ("grpc.max_allowed_incoming_connections", _CONNECTIONS + 2 * neighbours),
        ("grpc.max_concurrent_streams", _STREAMS),
        ("grpc.server_handshake_timeout_ms", int(1000 * _HANDSHAKE_SECONDS)),
        ("grpc.enable_retries", 0),
        ("grpc.so_reuseport", 0),
    ]


class Acceptor:
    """The listening end: it hands over streams of pinned neighbours and refuses everybody else.

    `arrive` is called with a neighbour's number and its new stream, which ends when the call returns.
    """

    def __init__(
        self,
        address: str,
        identity: Identity,
        options: list[tuple[str, Any]],
        arrive: Callable[[int, Any], Awaitable[None]],
    ) -> None:
        self._grpc = import_grpc()
        self._parties = {fingerprint(pem): party for party, pem in identity.pinned.items()}
        self._address, self._options, self._arrive = address, options, arrive
        self._credentials = self._grpc.ssl_server_credentials(
            [(identity.key, identity.certificate)], b"".join(identity.pinned.values()), require_client_auth=True
        )
        self._server: Any = None
        self._resting: dict[Any, asyncio.Future[None]] = {}
        self.refused: deque[str] = deque(maxlen=_REMEMBERED)

    async def listen(self) -> None:
        """Begin to listen, if it does not yet."""
        if self._server is not None:
            return
        server = self._grpc.aio.server(options=self._options)
        handlers = {METHOD: self._grpc.stream_stream_rpc_method_handler(self._edge)}
        server.add_generic_rpc_handlers((self._grpc.method_handlers_generic_handler(SERVICE, handlers),))
        try:
            server.add_secure_port(self._address, self._credentials)
        except RuntimeError as error:
            words = f"cannot listen on {self._address} ({error}); choose a free port in job.toml"
            raise InputError(words) from None
        self._server = server
        await server.start()

    @property
    def listening(self) -> bool:
        """Whether new streams may come."""
        return self._server is not None

    def rest(self) -> None:
        """Listen no longer; the streams that have come go on."""
        if self._server is not None:
            self._resting = {server: end for server, end in self._resting.items() if not end.done()}
            self._resting[self._server] = asyncio.ensure_future(self._server.stop(_FOR_EVER))
            self._server = None

    async def _edge(self, _requests: Any, context: Any) -> None:
        shown = context.auth_context().get("x509_pem_cert", [b""])[0]
        party = self._parties.get(fingerprint(shown)) if shown else None
        if party is None:
            self.refused.append(context.peer())
            await context.abort(self._grpc.StatusCode.PERMISSION_DENIED, "this certificate is not a neighbour's")
            return
        await self._arrive(party, context)

    async def close(self, grace: float) -> None:
        """End every stream; what was written has `grace` seconds to leave."""
        self.rest()
        await asyncio.gather(*(server.stop(grace) for server in self._resting))


class Dialler:
    """The dialling end of one stream after the other; one attempt may take `attempt` seconds."""

    def __init__(
        self, address: str, party: int, identity: Identity, options: list[tuple[str, Any]], attempt: float = 20.0
    ) -> None:
        self._grpc = import_grpc()
        pinned = identity.pinned[party]
        self._address, self._attempt = address, attempt
        credentials = self._grpc.ssl_channel_credentials(pinned, identity.key, identity.certificate)
        target = [("grpc.ssl_target_name_override", certificate_name(pinned))]
        backoff = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.min_reconnect_backoff_ms", int(1000 * attempt)),
        ]
        self._channel = self._grpc.aio.secure_channel(address, credentials, options + target + backoff)
        self._method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self._final = {
            self._grpc.StatusCode.PERMISSION_DENIED, self._grpc.StatusCode.UNAUTHENTICATED,
            self._grpc.StatusCode.UNIMPLEMENTED,
        }  # fmt: skip
        self.reason = "no answer"

    async def connect(self, hello: Callable[[], bytes], peer: str, seconds: float) -> tuple[Any, bytes]:
        """Dial until the other end answers the hello with its own; returns the stream and that hello."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            call, code = self._method(), None
            try:
                async with asyncio.timeout(min(left, self._attempt)):
                    await call.write(hello())
                    answer = await call.read()
                if answer is not self._grpc.aio.EOF:
                    return call, answer
                code, self.reason = await call.code(), await call.details()
            except breaks():
                code, self.reason = await call.code(), await call.details()
            except TimeoutError:
                call.cancel()
            except asyncio.CancelledError:
                call.cancel()
                raise
            if code is not None and code in self._final:
                raise PeerLost(peer, f"it refused the connection ({code.name}: {printable(self.reason)})")
            await asyncio.sleep(_RETRY_SECONDS)
        raise PeerLost(peer, self.missing(seconds))

    def missing(self, seconds: float) -> str:
        """What to say when the other end has not been reached for so long."""
        return f"no connection to {self._address} within {seconds:g} s ({printable(self.reason)})"

    async def close(self, grace: float) -> None:
        """End the stream; what was written has `grace` seconds to leave."""
        await self._channel.close(grace)


@cache
def breaks() -> tuple[type[BaseException], ...]:
    """What a stream raises when it has broken."""
    grpc = import_grpc()
    return grpc.aio.AioRpcError, grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError


async def ending(stream: Any, error: BaseException | None = None) -> str:
    """Why a stream has ended."""
    if isinstance(error, import_grpc().aio.AioRpcError):
        return f"{error.code().name}: {printable(error.details())}"
    if error is not None:
        return f"the connection broke ({printable(error or type(error).__name__)})"
    code = getattr(stream, "code", None)
    if code is None or not inspect.iscoroutinefunction(code):
        return "the connection ended without a farewell: it was killed, is frozen, or is cut off"
    status, details = await stream.code(), await stream.details()
    return f"the connection ended ({status.name}: {printable(details or 'no reason given')})"


def is_too_long(error: BaseException) -> bool:
    """Whether the transport of a dialling end has dropped a message for its length; an accepting one is not told."""
    grpc = import_grpc()
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
