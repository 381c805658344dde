"""Keystores and truststores, PEM, PKCS12 or JKS, as files or inline (KIP-651, `DefaultSslEngineFactory`).

JKS is Java's own format of before PKCS12 (`sun.security.provider.JavaKeyStore` and `KeyProtector`):

    magic, version (1 or 2), number of entries: 4 bytes each
    a key:          1, alias, date, the protected key, a certificate chain
    a certificate:  2, alias, date, the certificate
    SHA-1 of the password, a salt and all of this

A protected key is an EncryptedPrivateKeyInfo whose octets are a salt, the key XOR a stream, and a digest of password
and key; each 20 bytes of the stream are SHA-1 of the password and the 20 before. That hides a key from nobody who has
the file and time; here what Java opens is to be opened.

Blocking, any thread: files are read, and a password is stretched many thousand times.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from broker.config.listener_settings import ListenerSettings
from broker.config.security_checks import JKS, KEY_FILES, PEM, PKCS12
from broker.security.sources import SecurityError

MAGIC = bytes.fromhex("feedfeed")
_SALT = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY, _CERTIFICATE = 1, 2
_OCTETS = 4
"""The tag of an OCTET STRING (DER)."""


class JksError(ValueError):
    """The store is not whole, or the password is wrong."""


@dataclass(frozen=True, slots=True)
class JksStore:
    """`keys` has each key, still protected, with its chain; certificates are DER."""

    keys: tuple[tuple[bytes, tuple[bytes, ...]], ...] = field(repr=False)
    trusted: tuple[bytes, ...]


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._content):
            raise JksError("the JKS store is cut off")
        part = self._content[self.position : end]
        self.position = end
        return part

    def number(self) -> int:
        (value,) = struct.unpack(">I", self.take(4))
        return int(value)

    def skip_text(self) -> None:
        self.take(int.from_bytes(self.take(2), "big"))

    def sized(self) -> bytes:
        return self.take(self.number())


def read_jks(content: bytes, password: str | None) -> JksStore:
    """Read a store; without a password nobody looks whether it was altered, as in Java. Raises JksError."""
    reader = _Reader(content)
    if reader.take(4) != MAGIC:
        raise JksError("this is no JKS store")
    version = reader.number()
    if version not in (1, 2):
        raise JksError(f"the JKS store has version {version}, expected 1 or 2")
    keys: list[tuple[bytes, tuple[bytes, ...]]] = []
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.skip_text()
        reader.take(8)
        if kind == _KEY:
            protected = reader.sized()
            keys.append((protected, tuple(_certificate(reader, version) for _ in range(reader.number()))))
        elif kind == _CERTIFICATE:
            trusted.append(_certificate(reader, version))
        else:
            raise JksError("the JKS store has an entry of an unknown kind")
    if password is not None:
        covered = content[: reader.position]
        expected = hashlib.sha1(_utf_16(password) + _SALT + covered, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, reader.take(_DIGEST_BYTES)):
            raise JksError("the JKS store cannot be opened")
    return JksStore(tuple(keys), tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:  # the type, which is X.509
        reader.skip_text()
    return reader.sized()


def open_key(protected: bytes, password: str) -> bytes:
    """The private key (PKCS#8, DER). Raises JksError."""
    octets = _octets_of(protected)
    salt, hidden, digest = octets[:_DIGEST_BYTES], octets[_DIGEST_BYTES:-_DIGEST_BYTES], octets[-_DIGEST_BYTES:]
    secret = _utf_16(password)
    stream = bytearray()
    while len(stream) < len(hidden):
        salt = hashlib.sha1(secret + salt, usedforsecurity=False).digest()
        stream += salt
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise JksError("the private key in the JKS store cannot be opened")
    return key


def _octets_of(info: bytes) -> bytes:
    """The octets of `SEQUENCE { algorithm SEQUENCE, octets OCTET STRING }`."""
    reader = _Reader(info)
    _header(reader)
    reader.take(_header(reader)[1])
    tag, length = _header(reader)
    if tag != _OCTETS or length < 2 * _DIGEST_BYTES:
        raise JksError("the private key in the JKS store is protected in an unknown way")
    return reader.take(length)


def _header(reader: _Reader) -> tuple[int, int]:
    """Tag and length of the next DER value."""
    tag, length = reader.take(2)
    return (tag, length) if length < 0x80 else (tag, int.from_bytes(reader.take(length & 0x7F), "big"))


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


_JCEKS_MAGIC = bytes.fromhex("cececece")
_PEM_MARK = b"-----BEGIN "


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key (PEM) and its certificate chain, the broker's own certificate first. The key is never printed."""

    key: bytes = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def chain_pem(self) -> bytes:
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.chain)


def load_key(settings: ListenerSettings) -> KeyMaterial | None:
    """The listener's key and certificates; None if no keystore is set. Raises SecurityError."""
    password = settings.text("ssl.key.password")
    inline = settings.text("ssl.keystore.key")
    if inline is not None:
        chain = settings.text("ssl.keystore.certificate.chain") or ""
        return _pem_key(settings.name_of("ssl.keystore.key"), inline.encode(), chain.encode(), password)
    location = settings.text("ssl.keystore.location")
    if location is None:
        return None
    where = settings.name_of("ssl.keystore.location")
    if os.path.isdir(location):
        key, certificates = (_read(where, os.path.join(location, name)) for name in KEY_FILES)
        _require_pem(settings, "ssl.keystore")
        return _pem_key(f"{where} = {location!r}", key, certificates, password)
    content = _read(where, location)
    kind = _kind(settings, "ssl.keystore", location, content)
    if kind == PEM:
        return _pem_key(f"{where} = {location!r}", content, content, password)
    if kind == JKS:
        return _jks_key(settings, f"{where} = {location!r}", content, password)
    return _pkcs12_key(settings, f"{where} = {location!r}", content)


def load_trusted(settings: ListenerSettings) -> tuple[x509.Certificate, ...]:
    """The certificates that others' must lead to; empty if no truststore is set. Raises SecurityError."""
    inline = settings.text("ssl.truststore.certificates")
    if inline is not None:
        return _certificates(settings.name_of("ssl.truststore.certificates"), inline.encode())
    location = settings.text("ssl.truststore.location")
    if location is None:
        return ()
    where = settings.name_of("ssl.truststore.location")
    content = _read(where, location)
    kind = _kind(settings, "ssl.truststore", location, content)
    if kind == PEM:
        return _certificates(f"{where} = {location!r}", content)
    if kind == JKS:
        store = _open_jks(settings, "ssl.truststore", f"{where} = {location!r}", content)
        own = (chain[0] for _, chain in store.keys if chain)
        found = tuple(_of_der(f"{where} = {location!r}", der) for der in (*store.trusted, *own))
    else:
        _, certificate, others = _open_pkcs12(settings, "ssl.truststore", f"{where} = {location!r}", content)
        found = tuple(one for one in (certificate, *others) if one is not None)
    if not found:
        raise SecurityError(f"{where} = {location!r}: expected at least one certificate in it")
    return found


def _read(where: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise SecurityError(f"{where} = {location!r}: the file cannot be read: {error.strerror or error}") from error


def _kind(settings: ListenerSettings, store: str, location: str, content: bytes) -> str:
    """PEM, PKCS12 or JKS. Java takes either of the last two for the other, so the content decides between these."""
    kind = (settings.text(f"{store}.type") or JKS).upper()
    where = f"{settings.name_of(f'{store}.location')} = {location!r}"
    type_key = settings.name_of(f"{store}.type")
    if content.startswith(MAGIC):
        return JKS
    if content.startswith(_JCEKS_MAGIC):
        converted = f"{location.removesuffix('.jks')}.p12"
        raise SecurityError(
            f"{where} is a JCEKS store, which only Java reads. Convert it, and set {type_key}=PKCS12: "
            f"keytool -importkeystore -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12"
        )
    is_pem = _PEM_MARK in content
    if kind == PEM and not is_pem:
        raise SecurityError(f"{where}: expected PEM, which begins with -----BEGIN; or set {type_key}=PKCS12")
    if kind != PEM and is_pem:
        raise SecurityError(f"{where} is a PEM file: set {type_key}=PEM")
    return PEM if kind == PEM else PKCS12


def _require_pem(settings: ListenerSettings, store: str) -> None:
    if (settings.text(f"{store}.type") or JKS).upper() != PEM:
        where = f"{settings.name_of(f'{store}.location')} = {settings.text(f'{store}.location')!r}"
        raise SecurityError(f"{where} is a folder with {' and '.join(KEY_FILES)}: set {store}.type=PEM")


def _pem_key(where: str, key: bytes, chain: bytes, password: str | None) -> KeyMaterial:
    try:
        private = load_pem_private_key(_private_part(key), None if password is None else password.encode())
    except TypeError as error:  # a password is missing, or was given for a key that has none
        if password is None:
            raise SecurityError(
                f"{where}: the private key is encrypted, expected ssl.key.password to be set"
            ) from error
        private = _unencrypted(where, key)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SecurityError(
            f"{where}: expected a private key as PEM (PKCS#8), and the right ssl.key.password if it is encrypted"
        ) from error
    certificates = _certificates(where, chain)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _matching(where, KeyMaterial(pem, certificates))


def _unencrypted(where: str, key: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(_private_part(key), None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise SecurityError(f"{where}: expected a private key as PEM (PKCS#8)") from error


def _private_part(content: bytes) -> bytes:
    """The first private key of a PEM text that may hold certificates too."""
    lines = content.splitlines()
    begin = next((at for at, line in enumerate(lines) if b"PRIVATE KEY-----" in line and _PEM_MARK in line), None)
    if begin is None:
        return b""
    end = next((at for at in range(begin, len(lines)) if lines[at].lstrip().startswith(b"-----END")), len(lines) - 1)
    return b"\n".join(line.strip() for line in lines[begin : end + 1]) + b"\n"


def _certificates(where: str, content: bytes) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise SecurityError(
            f"{where}: expected at least one certificate as PEM, which cannot be read: {error}"
        ) from error


def _matching(where: str, material: KeyMaterial) -> KeyMaterial:
    """The key material with the certificate of the key first. Raises SecurityError if there is none."""
    private = load_pem_private_key(material.key, None)
    public = private.public_key()
    with readable(where):
        own = next((certificate for certificate in material.chain if certificate.public_key() == public), None)
    if own is None:
        raise SecurityError(f"{where}: expected the certificate of the private key among the certificates")
    return KeyMaterial(material.key, (own, *(certificate for certificate in material.chain if certificate is not own)))


def _pkcs12_key(settings: ListenerSettings, where: str, content: bytes) -> KeyMaterial:
    private, certificate, others = _open_pkcs12(settings, "ssl.keystore", where, content)
    if private is None or certificate is None:
        raise SecurityError(f"{where}: expected a private key with its certificate in it")
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with readable(where):
        chain = certificate, *_in_order(certificate, others)
    return _matching(where, KeyMaterial(pem, chain))


def _in_order(certificate: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The chain from `certificate` up, of those that are in the store."""
    chain: list[x509.Certificate] = []
    last = certificate
    while last.issuer != last.subject:
        above = next((issuer for issuer in others if issuer.subject == last.issuer and issuer not in chain), None)
        if above is None:
            break
        chain.append(above)
        last = above
    return chain


def _open_pkcs12(
    settings: ListenerSettings, store: str, where: str, content: bytes
) -> tuple[PrivateKeyTypes | None, x509.Certificate | None, list[x509.Certificate]]:
    password = settings.text(f"{store}.password")
    try:
        return pkcs12.load_key_and_certificates(content, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        key = settings.name_of(f"{store}.password")
        hint = f"expected the right {key}" if password else f"expected {key} to be set"
        raise SecurityError(f"{where}: the PKCS12 store cannot be opened: {hint}") from error


def _jks_key(settings: ListenerSettings, where: str, content: bytes, password: str | None) -> KeyMaterial:
    store = _open_jks(settings, "ssl.keystore", where, content)
    if not store.keys or not store.keys[0][1]:
        raise SecurityError(f"{where}: expected a private key with its certificate in it")
    protected, chain = store.keys[0]
    try:
        opened = open_key(protected, password or settings.text("ssl.keystore.password") or "")
        private = load_der_private_key(opened, None)
    except (ValueError, UnsupportedAlgorithm) as error:
        key = settings.name_of("ssl.key.password")
        raise SecurityError(f"{where}: the private key cannot be opened: expected the right {key}") from error
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _matching(where, KeyMaterial(pem, tuple(_of_der(where, certificate) for certificate in chain)))


def _open_jks(settings: ListenerSettings, store: str, where: str, content: bytes) -> JksStore:
    try:
        return read_jks(content, settings.text(f"{store}.password"))
    except JksError as error:
        raise SecurityError(f"{where}: {error}: expected the right {settings.name_of(f'{store}.password')}") from error


def _of_der(where: str, certificate: bytes) -> x509.Certificate:
    with readable(where):
        return x509.load_der_x509_certificate(certificate)


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Raises SecurityError for what a certificate holds that cannot be read: much of it is looked at only when used."""
    try:
        yield
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise SecurityError(f"{where}: a certificate in it cannot be read: {error}") from error
