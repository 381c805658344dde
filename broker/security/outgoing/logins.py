"""The client's side of SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

A login is a generator: it yields each message to the server, is sent the answer, and returns when it is content.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random

from controller.scram import MAX_ITERATIONS, SCRAM_MECHANISMS

Login = Generator[bytes, bytes, None]
_NONCE_BYTES = 24


class LoginError(Exception):
    """The server's messages are not those of a server that knows the password. Nothing secret is in the text."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who this node is to others, by which mechanism."""

    mechanism: str
    name: str
    password: str = field(repr=False)

    def login(self, random: Random) -> Login:
        """Begin to log in. Some of its steps take milliseconds."""
        if self.mechanism == "PLAIN":
            return _plain(self.name, self.password)
        return _scram(SCRAM_MECHANISMS[self.mechanism].digest, self.name, self.password, random)


def _plain(name: str, password: str) -> Login:
    yield f"\0{name}\0{password}".encode()


def _scram(digest: str, name: str, password: str, random: Random) -> Login:
    nonce = random.randbytes(_NONCE_BYTES).hex()
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}"
    challenge = (yield f"n,,{bare}".encode()).decode()
    parts = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    both = parts.get("r", "")
    if not both.startswith(nonce) or both == nonce:
        raise LoginError("the server's nonce does not begin with the client's")
    iterations = _number(parts.get("i", ""))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b64decode(parts.get("s", "")), iterations)
    final = f"c=biws,r={both}"
    message = f"{bare},{challenge},{final}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = bytes(byte ^ other for byte, other in zip(client_key, signature, strict=True))
    last = (yield f"{final},p={b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    if not hmac.compare_digest(last.encode(), b"v=" + b64encode(expected)):
        raise LoginError("the server has not shown that it knows the password")


def _number(text: str) -> int:
    """The iterations, which the server says; more than Kafka allows would keep this node busy."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_ITERATIONS:
        raise LoginError(f"the server asks for {text!r} iterations: expected 1 to {MAX_ITERATIONS}")
    return int(text)
