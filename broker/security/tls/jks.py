"""JKS stores, Java's own format of before PKCS12 (`sun.security.provider.JavaKeyStore` and `KeyProtector`).

    magic, version (1 or 2), number of entries: 4 bytes each
    a key:          1, alias, date, the protected key, a certificate chain
    a certificate:  2, alias, date, the certificate
    SHA-1 of the password, a salt and all of this

A protected key is an EncryptedPrivateKeyInfo whose octets are a salt, the key XOR a stream, and a digest of password
and key; each 20 bytes of the stream are SHA-1 of the password and the 20 before. That hides a key from nobody who has
the file and time; here what Java opens is to be opened.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

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
    """What the store has; without a password nobody looks whether it was altered, as in Java. Raises JksError."""
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
