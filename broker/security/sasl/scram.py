"""SCRAM-SHA-256 and SCRAM-SHA-512: the server's side (RFC 5802, RFC 7677, `ScramSaslServer`).

    state   the client's message                     the answer
    FIRST   n,,n=<user>,r=<nonce>[,<extension>=..]   r=<both nonces>,s=<salt>,i=<iterations>; an unknown user is refused
    FINAL   c=..,r=<both nonces>,p=<proof>           v=<the server's proof>, or refused
    DONE    nothing more

The server keeps neither the password nor what could log in elsewhere: a salt, and two keys derived from the salted
password (`controller.scram`). As in Kafka an unknown user is refused at the first message already, the channel
binding is not compared, and extensions do not count. The proof is over the final message with its extensions, as in the
RFC, or without, as Kafka computes it. The password is stretched by the client; here each message costs a few hashes.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

from broker.network.request import USER, CloseConnectionError, Principal
from broker.security.sasl.conversation import AuthenticationError, Challenge, Step, Success, invalid_credentials
from controller.scram import MIN_ITERATIONS, SCRAM_MECHANISMS
from protocol.metadata.credentials import UserScramCredentialRecord

# The quantifiers give nothing back (`++`): no message makes a match take more than its length.
_VALUE = r"[\x01-\x2b\x2d-\x7f]++"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]++"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_EXTENSIONS = rf"((?:,[A-Za-z]++={_VALUE})*+)"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*+(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)((?:m={_VALUE},)?n=({_NAME}),r=({_PRINTABLE}){_EXTENSIONS})")
_FINAL = re.compile(rf"(c={_BASE64},r=({_PRINTABLE})){_EXTENSIONS}")
_PROOF = re.compile(_BASE64)
_NONCE_BYTES = 24


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the server knows of a user or of a delegation token, whose owner then is the principal."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    owner: Principal
    expires_ms: int | None = None


Found = ScramCredential | None
FindCredential = Callable[[str, bool], Found | Awaitable[Found]]
"""The credential of a user, or if the second argument is true of the delegation token with that id."""


class _State(Enum):
    FIRST = auto()
    FINAL = auto()
    DONE = auto()


class ScramConversation:
    """Uses the system's random source, or a test's."""

    def __init__(self, mechanism: str, find: FindCredential, random: Random) -> None:
        self._mechanism = mechanism
        self._digest = SCRAM_MECHANISMS[mechanism].digest
        self._find = find
        self._random = random
        self._state = _State.FIRST
        self._credential: ScramCredential
        self._nonce = ""
        self._auth_message = ""

    def evaluate(self, token: bytes) -> Step | Awaitable[Step]:
        text = token.decode("utf-8", "replace")
        match self._state:
            case _State.FIRST:
                return self._first(text)
            case _State.FINAL:
                return self._final(text)
        raise CloseConnectionError(f"a message after the end of {self._mechanism}")

    def _first(self, text: str) -> Step | Awaitable[Step]:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise invalid_credentials(self._mechanism)
        found = self._find(_unescaped(match[4]), _is_token_auth(match[6]))
        if found is None or isinstance(found, ScramCredential):
            return self._challenge(match, found)
        return self._challenge_later(match, found)

    async def _challenge_later(self, match: re.Match[str], found: Awaitable[Found]) -> Step:
        return self._challenge(match, await found)

    def _challenge(self, match: re.Match[str], credential: Found) -> Challenge:
        _, on_behalf_of, bare, name, nonce, _ = match.groups()
        if credential is None or credential.iterations < MIN_ITERATIONS:
            raise invalid_credentials(self._mechanism)
        if on_behalf_of and _unescaped(on_behalf_of) != _unescaped(name):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._credential = credential
        self._nonce = nonce + self._random.randbytes(_NONCE_BYTES).hex()
        salt = b64encode(credential.salt).decode()
        reply = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._auth_message = f"{bare},{reply}"
        self._state = _State.FINAL
        return Challenge(reply.encode())

    def _final(self, text: str) -> Success:
        without_proof, _, proof = text.rpartition(",p=")
        match = _FINAL.fullmatch(without_proof)
        if match is None or _PROOF.fullmatch(proof) is None:
            raise invalid_credentials(self._mechanism)
        without_extensions, nonce, _ = match.groups()
        messages = (f"{self._auth_message},{proved}".encode() for proved in {without_proof, without_extensions})
        message = next((message for message in messages if self._is_proof(message, _decoded(proof))), None)
        if message is None or nonce != self._nonce:
            raise invalid_credentials(self._mechanism)
        self._state = _State.DONE
        verifier = b64encode(hmac.digest(self._credential.server_key, message, self._digest))
        return Success(b"v=" + verifier, self._credential.owner, self._credential.expires_ms)

    def _is_proof(self, message: bytes, proof: bytes) -> bool:
        """Whether the client has proved with `message` that it knows the password."""
        signature = hmac.digest(self._credential.stored_key, message, self._digest)
        client_key = _xor(signature, proof)
        if client_key is None:
            raise CloseConnectionError("a proof of the wrong length")
        return hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), self._credential.stored_key)


def user_credential(record: UserScramCredentialRecord) -> ScramCredential:
    """The credential of a user, as the metadata has it."""
    owner = Principal(USER, record.name)
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations, owner)


def _is_token_auth(extensions: str) -> bool:
    """Whether the client shows a delegation token (KIP-48); the value's case does not count."""
    pairs = dict(part.split("=", 1) for part in extensions.split(",") if part)
    return pairs.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:  # the pattern lets none through
        return b""


def _xor(left: bytes, right: bytes) -> bytes | None:
    if len(left) != len(right):
        return None
    return bytes(byte ^ other for byte, other in zip(left, right, strict=True))
