"""Keys and self-signed certificates: one pair for each party, pinned by the others."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npga.errors import InputError
from npga.extras import load
from npga.runtimes._job import Job

_YEARS = 2


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
    chosen = range(len(job.parties)) if party is None else [party]
    made = []
    for k in chosen:
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
        raise InputError(f"{path} is not a certificate as `npga keygen` makes it ({error})") from None
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
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
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
