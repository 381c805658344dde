"""PLAIN, SCRAM and OAUTHBEARER on the server's side: tokens of the client in, challenges out, at the end a principal.

PLAIN (RFC 4616, `PlainSaslServer`) is a name and a password in one message.

SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, `ScramSaslServer`):

    state   the client's message                     the answer
    FIRST   n,,n=<user>,r=<nonce>[,<extension>=..]   r=<both nonces>,s=<salt>,i=<iterations>; an unknown user is refused
    FINAL   c=..,r=<both nonces>,p=<proof>           v=<the server's proof>, or refused
    DONE    nothing more

The server keeps neither the password nor what could log in elsewhere: a salt, and two keys derived from the salted
password (`controller.scram`). As in Kafka an unknown user is refused at the first message already, the channel
binding is not compared, and extensions do not count. The proof is over the final message with its extensions, as in the
RFC, or without, as Kafka computes it. The password is stretched by the client; here each message costs a few hashes.

OAUTHBEARER (RFC 7628, KIP-255, `OAuthBearerSaslServer`) is a token in one message. A bad one is answered with a JSON
text that says so, and is no failure yet: the client answers with the byte 0x01, and then fails. It may also send a
better token instead.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any, Protocol

from broker.network.request import USER, CloseConnectionError, Principal
from broker.security.sources import FindCredential, Found, ScramCredential
from controller.scram import MIN_ITERATIONS, SCRAM_MECHANISMS


class AuthenticationError(Exception):
    """The client is refused. It is told the text (SASL_AUTHENTICATION_FAILED), which says nothing about any user."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to go on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """The client is known. `expires_ms` is when what it showed ends, in wall-clock time; None for never."""

    data: bytes
    principal: Principal
    expires_ms: int | None = None


Step = Challenge | Success


class Conversation(Protocol):
    """One authentication of one client, by one mechanism."""

    def evaluate(self, token: bytes) -> Step | Awaitable[Step]:
        """The answer to the client's next token.

        Raises AuthenticationError, and CloseConnectionError where Kafka closes without a word.
        """


Begin = Callable[[], Conversation]
"""Begins the conversation of a mechanism."""


def invalid_credentials(mechanism: str) -> AuthenticationError:
    """The error that tells nothing, not even whether the user exists (`SaslServerAuthenticator`)."""
    return AuthenticationError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )


_NOBODY = b"no password is this one, which takes the time of a comparison"


class PlainConversation:
    """`passwords` has the users."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> Success:
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        on_behalf_of, name, password = parts
        if not name:
            raise AuthenticationError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        known = _NOBODY if expected is None else expected.encode()
        same = hmac.compare_digest(known, password.encode("utf-8", "replace"))
        if not same or expected is None:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if on_behalf_of not in ("", name):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Success(b"", Principal(USER, name))


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

    async def _challenge_later(self, match: re.Match[str], credential: Awaitable[Found]) -> Step:
        return self._challenge(match, await credential)

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


OAUTHBEARER = "OAUTHBEARER"
_END = "\x01"
# The quantifiers give nothing back (`++`): no message makes a match take more than its length.
_PAIRS = rf"((?:[A-Za-z]++=[\x21-\x7e \t\r\n]++{_END})*+)"
_TOKEN_MESSAGE = re.compile(rf"n,(?:a=({_NAME}))?,{_END}{_PAIRS}{_END}")
_AUTH = re.compile(r"(\w++) ++([-_~+/.a-zA-Z0-9]++=*+)", re.ASCII)

_ENDLESS_S = 10**15
"""Times of tokens are below, so that they fit in the milliseconds of the protocol."""


class BadTokenError(Exception):
    """A token that is not accepted. `status` is OAuth's word: invalid_token or insufficient_scope."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Token:
    """The content of a good token: whose it is, and when it ends (wall-clock time)."""

    name: str
    expires_ms: int


def seconds_of(claims: Mapping[str, Any], name: str) -> float:
    """A claim that is a time, in seconds since 1970. Raises BadTokenError if it is none."""
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _ENDLESS_S:
        raise BadTokenError(f"{name} is no time")
    return value


Validate = Callable[[str], Awaitable[Token]]
"""The token that a text is. Raises BadTokenError."""


class OAuthBearerConversation:
    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: str | None = None

    async def evaluate(self, token: bytes) -> Step:
        if token == _END.encode() and self._refusal is not None:
            raise AuthenticationError(self._refusal)
        self._refusal = None
        on_behalf_of, text = _first_message(token.decode("utf-8", "replace"))
        try:
            found = await self._validate(text)
        except BadTokenError as error:
            answer = {"status": error.status} | ({"scope": error.scope} if error.scope else {})
            self._refusal = json.dumps(answer, separators=(",", ":"))
            return Challenge(self._refusal.encode())
        if on_behalf_of not in ("", found.name):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        return Success(b"", Principal(USER, found.name), found.expires_ms)


def _first_message(text: str) -> tuple[str, str]:
    """On whose behalf the client comes, and its token."""
    match = _TOKEN_MESSAGE.fullmatch(text)
    if match is None:
        raise invalid_credentials(OAUTHBEARER)
    on_behalf_of, pairs = match.groups()
    values = dict(pair.split("=", 1) for pair in pairs.split(_END) if pair)
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None:
        raise invalid_credentials(OAUTHBEARER)
    scheme, token = auth.groups()
    if scheme.lower() != "bearer":
        raise CloseConnectionError(f"OAUTHBEARER with the scheme {scheme}")
    return on_behalf_of or "", token
