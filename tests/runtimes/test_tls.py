"""Who may connect: a pinned neighbour and nobody else."""

from __future__ import annotations

import asyncio
import datetime

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from helpers.rehearsal import LONG, finish, free_addresses, make_job, start_party
from npga.errors import InputError
from npga.runtimes import ExitCode, PeerLost, read_job
from npga.runtimes._streams import Acceptor, Dialler, Identity, channel_options, make_key
from npga.runtimes.preflight import check_party

OPTIONS = channel_options(1 << 20, 2.0)
PEM = serialization.Encoding.PEM


def pair(directory, name):
    make_key(directory / f"{name}.key", directory / f"{name}.crt", f"{name}.npga")
    return (directory / f"{name}.key").read_bytes(), (directory / f"{name}.crt").read_bytes()


def minted(issuer_key, issuer_certificate, name, is_ca=False):
    """A new key, and a certificate for `name` that the issuer signs."""
    signer = serialization.load_pem_private_key(issuer_key, None)
    issuer = x509.load_pem_x509_certificate(issuer_certificate)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, certificate.public_bytes(PEM)


class Stage:
    """Party 0 listens, party 1 is its neighbour; the others are not."""

    def __init__(self, directory):
        self.server, self.neighbour, self.stranger = (
            pair(directory, name) for name in ("party-0", "party-1", "party-7")
        )

    def knock(self, client, pinned=None, seconds=2.0):
        """Whether party 0 accepts a dialler with this key and certificate, and what the dialler was told."""
        return asyncio.run(self._knock(client, pinned or self.server[1], seconds))

    async def _knock(self, client, pinned, seconds):
        address = free_addresses(1)[0]
        came = []

        async def echo(party, stream):
            came.append(party)
            await stream.write(await stream.read())

        acceptor = Acceptor(address, Identity(*self.server, {1: self.neighbour[1]}), OPTIONS, echo)
        await acceptor.listen()
        if client is None:
            channel = grpc.aio.insecure_channel(address)
            dialler = Dialler(address, 0, Identity(*self.neighbour, {0: pinned}), OPTIONS)
            dialler._method = channel.stream_stream("/npga.Link/Edge")
        elif client == "anonymous":
            credentials = grpc.ssl_channel_credentials(pinned)
            channel = grpc.aio.secure_channel(address, credentials, [("grpc.ssl_target_name_override", "party-0.npga")])
            dialler = Dialler(address, 0, Identity(*self.neighbour, {0: pinned}), OPTIONS)
            dialler._method = channel.stream_stream("/npga.Link/Edge")
        else:
            dialler = Dialler(address, 0, Identity(*client, {0: pinned}), OPTIONS)

        told = ""
        try:
            await dialler.connect(lambda: b"hello", "agent 0", seconds)
        except PeerLost as error:
            told = str(error)
        await dialler.close(0.0)
        await acceptor.close(0.0)
        return came == [1], told


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_the_pinned_neighbour_is_accepted(stage):
    assert stage.knock(stage.neighbour, seconds=LONG) == (True, "")


def test_no_certificate(stage):
    accepted, told = stage.knock("anonymous")
    assert not accepted
    assert told


def test_plaintext(stage):
    accepted, told = stage.knock(None)
    assert not accepted
    assert told


def test_foreign_authority(stage, tmp_path):
    authority = pair(tmp_path, "authority")
    accepted, told = stage.knock(minted(*authority, "party-1.npga"))
    assert not accepted
    assert told


def test_a_neighbours_name_on_a_self_signed_certificate(stage, tmp_path):
    (tmp_path / "forged").mkdir()
    accepted, told = stage.knock(pair(tmp_path / "forged", "party-1"))
    assert not accepted
    assert told


def test_a_neighbours_key_cannot_mint_others(stage):
    """The neighbour signs a certificate for a friend: its chain leads to a trusted certificate, which may not sign."""
    key, certificate = minted(*stage.neighbour, "party-1.npga")
    accepted, told = stage.knock((key, certificate + stage.neighbour[1]))
    assert not accepted
    assert told


def test_valid_but_not_a_neighbour(stage):
    accepted, told = stage.knock(stage.stranger)
    assert not accepted
    assert told


def test_the_certificate_itself_is_compared_even_when_the_handshake_trusts_more(tmp_path):
    """Give the listener a root that really may sign: the handshake then passes, and the pinning has to refuse."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    root = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    stage = Stage(tmp_path)
    stage.neighbour = (secret, root.public_bytes(PEM))
    accepted, told = stage.knock(minted(secret, stage.neighbour[1], "party-1.npga"), seconds=LONG)
    assert not accepted
    assert "PERMISSION_DENIED" in told
    assert "not a neighbour's" in told


def test_the_dialler_refuses_a_server_with_another_certificate(stage, tmp_path):
    """Same name, other key: the pinned certificate is the only root, so the handshake cannot be completed."""
    (tmp_path / "real").mkdir()
    _, real = pair(tmp_path / "real", "party-0")
    accepted, told = stage.knock(stage.neighbour, pinned=real)
    assert not accepted
    assert "no connection" in told


def test_a_run_with_an_impostor_does_not_start(tmp_path):
    """Party 1's place is taken by somebody with the right job and a fresh certificate of the same name."""
    path, *_ = make_job(tmp_path, 2, keys=True, max_iters=10, connect=4.0)
    job = read_job(path)
    forged = tmp_path / "forged"
    make_key(forged / "1.key", forged / "1.crt", "party-1.npga")
    other = tmp_path / "impostor.toml"
    other.write_text(
        path.read_text().replace("certificates/1.crt", "forged/1.crt").replace("private/1.key", "forged/1.key")
    )
    assert read_job(other).digest == job.digest
    said = finish([start_party(path, 0, tmp_path / "a"), start_party(other, 1, tmp_path / "b")])
    assert [code for code, _ in said] == [ExitCode.TRY_AGAIN] * 2
    assert "agent 1: it did not connect" in said[0][1]
    assert "agent 0: no connection" in said[1][1]
    assert not list((tmp_path / "a").glob("agent*"))


def dated(directory, name, begins, ends):
    """A key and a self-signed certificate that is valid from and to so many days from now."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now + datetime.timedelta(days=begins))
        .not_valid_after(now + datetime.timedelta(days=ends))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = directory / f"{name}.key"
    path.write_bytes(secret)
    path.chmod(0o600)
    path.with_suffix(".crt").write_bytes(certificate.public_bytes(PEM))
    return path, path.with_suffix(".crt")


def test_certificates_out_of_date_and_keys_that_do_not_fit_are_named(tmp_path):
    mine, past = dated(tmp_path, "mine", -1, 9), dated(tmp_path, "past", -9, -1)
    future, other = dated(tmp_path, "future", 1, 9), dated(tmp_path, "other", -1, 9)
    junk = tmp_path / "junk.crt"
    junk.write_text("-----BEGIN CERTIFICATE-----\n")
    Identity.read(*mine, {1: other[1]})
    for arguments, words in (
        ((*past, {}), r"past.crt ended on"),
        ((*mine, {1: past[1]}), r"past.crt ended on"),
        ((*mine, {1: future[1]}), r"future.crt begins on"),
        ((mine[0], other[1], {}), r"mine.key is not the key of .*other.crt"),
        ((*mine, {1: other[1], 2: other[1]}), r"have the same key"),
        ((*mine, {1: mine[1]}), r"have the same key"),
        ((*mine, {1: junk}), r"junk.crt is not a certificate"),
        ((mine[0], junk, {}), r"junk.crt is not a certificate"),
    ):
        with pytest.raises(InputError, match=words):
            Identity.read(*arguments)
    mine[0].write_text("no key")
    with pytest.raises(InputError, match=r"mine.key is not a private key"):
        Identity.read(*mine, {})


def test_check_says_what_is_wrong_with_a_certificate(tmp_path):
    path, *_ = make_job(tmp_path, 2, keys=True, connect=0.5)
    old = dated(tmp_path, "old", -9, -1)
    (tmp_path / "certificates" / "1.crt").write_bytes(old[1].read_bytes())
    bad = [line.detail for line in check_party(read_job(path), 0) if not line.ok]
    assert any("1.crt ended on" in detail for detail in bad)
