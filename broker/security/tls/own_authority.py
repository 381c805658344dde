"""`odradek.tls.folder`: an authority of the broker's own, and certificates by it, for tests and trials.

    ca.pem            the authority's certificate: what clients trust; renewed two years before it expires
    ca.key            its private key, which stays, so that clients with an older ca.pem go on until that expires
    broker.pem        the broker's private key and certificate, made anew in time before it expires
    client-NAME.pem   the same for each name of `odradek.tls.clients`

Private keys are readable by their owner alone. Blocking, any thread.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker.config.listener_settings import AUTHORITY, BROKER, client_file
from broker.security.sources import SecurityError

KEY = "odradek.tls.folder"
_DAY = datetime.timedelta(days=1)
_AUTHORITY_HOLDS, _AUTHORITY_RENEWED_BEFORE = 3650 * _DAY, 730 * _DAY
_CERTIFICATE_HOLDS, _RENEWED_BEFORE = 365 * _DAY, 30 * _DAY
_ALWAYS = ("localhost", "127.0.0.1", "::1")


def make_certificates(folder: str, hosts: Iterable[str], clients: Iterable[str], now_ms: int) -> list[str]:
    """Make what is missing, will soon expire, or lacks one of `hosts`; the names of its files. Raises SecurityError."""
    now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    try:
        with _locked(Path(folder)) as path:
            authority = _Authority.of(path, now)
            authority.require(path / BROKER, "broker", [*_ALWAYS, *filter(_names_a_host, hosts)], now)
            for name in clients:
                authority.require(path / client_file(name), name, [], now)
            return authority.made
    except (OSError, ValueError) as error:
        raise SecurityError(f"{KEY} = {folder!r}: no certificates can be made in it: {error}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """The folder, which other brokers may use too, for as long as this one makes certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Authority:
    """`made` has the names of the files that were written."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    made: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, now: datetime.datetime) -> _Authority:
        """The authority in the folder, with a new certificate if its own will soon expire; or a new authority."""
        key_path, path = folder / "ca.key", folder / AUTHORITY
        if path.exists():
            found = load_pem_private_key(key_path.read_bytes(), None)
            if not isinstance(found, ec.EllipticCurvePrivateKey):
                raise ValueError(f"expected the key of an elliptic curve in {key_path}")
            key, certificate = found, x509.load_pem_x509_certificate(path.read_bytes())
            if certificate.not_valid_after_utc >= now + _AUTHORITY_RENEWED_BEFORE:
                return cls(key, certificate)
            name, made = certificate.subject, []
        else:
            key, name, made = ec.generate_private_key(ec.SECP256R1()), _name("Odradek's own authority"), [key_path.name]
            _write(key_path, _pem_of(key), 0o600)
        certificate = _authority_certificate(key, name, now)
        _write(path, certificate.public_bytes(Encoding.PEM), 0o644)
        return cls(key, certificate, [*made, path.name])

    def require(self, path: Path, name: str, hosts: list[str], now: datetime.datetime) -> None:
        """Make a file with a key and a certificate that holds for a while, of this name and for these hosts."""
        if path.exists() and _serves(x509.load_pem_x509_certificate(path.read_bytes()), self.certificate, hosts, now):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(_name(name), self.certificate.subject, key, now, _CERTIFICATE_HOLDS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        _write(path, _pem_of(key) + certificate.public_bytes(Encoding.PEM), 0o600)
        self.made.append(path.name)


def _authority_certificate(
    key: ec.EllipticCurvePrivateKey, name: x509.Name, now: datetime.datetime
) -> x509.Certificate:
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        _builder(name, name, key, now, _AUTHORITY_HOLDS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return builder.sign(key, hashes.SHA256())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    holds: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + holds)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _serves(
    certificate: x509.Certificate, authority: x509.Certificate, hosts: list[str], now: datetime.datetime
) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
        if hosts and not {*map(_host, hosts)} <= {*_alternative_names(certificate)}:
            return False
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return certificate.not_valid_after_utc >= now + _RENEWED_BEFORE


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _names_a_host(host: str) -> bool:
    """Whether it is a name or an address, and not that of every interface."""
    return host not in ("", "0.0.0.0", "::")


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.partition("%")[0]))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file; there is never a half-written one under its name."""
    new = path.with_name(f"{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.replace(new, path)
