"""How this node shows who it is to other nodes: TLS and SASL as their client."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

from broker.config.broker_config import CurrentConfig
from broker.config.listener_settings import ListenerSettings, parse_jaas
from broker.config.listeners import Listener
from broker.peers.call import PeerAuthenticationError, entity_call
from broker.peers.client import Connect, PeerNetwork
from broker.peers.connection import PeerConnection
from broker.security.sources import SecurityError
from controller.scram import MAX_ITERATIONS, SCRAM_MECHANISMS
from storage.workers import Workers

Login = Generator[bytes, bytes, None]
_NONCE_BYTES = 24

TIMEOUT_MS = 30_000.0


class LoginError(Exception):
    """The server's messages are not those of a server that knows the password. Nothing secret is in the text."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of this node at others, and the mechanism."""

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


async def authenticate(
    connection: PeerConnection, account: Account, login: Login, workers: Workers, timeout_ms: float
) -> float | None:
    """Log in. Returns for how long that holds in ms, None for ever. Raises PeerError."""
    handshake = entity_call(SaslHandshakeRequest(mechanism=account.mechanism))
    chosen = await connection.send(handshake, handshake.highest, timeout_ms)
    if chosen.error_code is not ErrorCode.none:
        raise PeerAuthenticationError(
            f"{connection.address} does not take {account.mechanism}: it has {', '.join(chosen.mechanisms)}"
        )
    lifetime_ms = 0.0
    token: bytes | None = next(login)
    while token is not None:
        call = entity_call(SaslAuthenticateRequest(auth_bytes=token))
        answer = await connection.send(call, call.highest, timeout_ms)
        if answer.error_code is not ErrorCode.none:
            said = answer.error_message or answer.error_code.name
            raise PeerAuthenticationError(f"{connection.address} refuses {account.name}: {said}")
        lifetime_ms = answer.session_lifetime.total_seconds() * 1000
        try:
            token = await workers.call(partial(_next, login, answer.auth_bytes))
        except (LoginError, ValueError) as error:
            raise PeerAuthenticationError(f"{connection.address} cannot be trusted: {error}") from error
    return lifetime_ms or None


def _next(login: Login, answer: bytes) -> bytes | None:
    """The next message, None at the end. Takes milliseconds where a password is stretched."""
    try:
        return login.send(answer)
    except StopIteration:
        return None


def secured(
    network: PeerNetwork, current: CurrentConfig, listener: Listener, workers: Workers, mechanism_setting: str
) -> PeerNetwork:
    """The same network, with connections to listeners such as `listener`: its name and protocol count."""
    lane = workers.lane("outgoing security")
    if listener.uses_tls:
        network = replace(network, connect=_tls(current, listener, lane))
    if listener.uses_sasl:
        login = partial(_log_in, current, listener, lane, network.random, mechanism_setting)
        network = replace(network, authenticate=login)
    return network


def _tls(current: CurrentConfig, listener: Listener, workers: Workers) -> Connect:
    async def connect(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> tuple[Any, Any]:
        from broker.security.tls.contexts import client_context

        settings = ListenerSettings(current.config, listener.name)
        try:
            context = await workers.call(partial(client_context, settings))
        except SecurityError as error:
            raise ConnectionError(str(error)) from error
        loop = asyncio.get_running_loop()
        return await loop.create_connection(factory, host, port, ssl=context, server_hostname=host)

    return connect


async def _log_in(
    current: CurrentConfig,
    listener: Listener,
    workers: Workers,
    random: Random,
    mechanism_setting: str,
    connection: PeerConnection,
) -> float | None:
    settings = ListenerSettings(current.config, listener.name)
    account = account_of(settings, current.config.string(mechanism_setting))
    return await authenticate(connection, account, account.login(random), workers, TIMEOUT_MS)


def account_of(settings: ListenerSettings, mechanism: str) -> Account:
    """Return the account of this node from its JAAS line. Raises PeerAuthenticationError."""
    line = settings.text("sasl.jaas.config", mechanism)
    options = parse_jaas(line).options if line else {}
    if "username" not in options or "password" not in options:
        key = settings.key("sasl.jaas.config", mechanism)
        raise PeerAuthenticationError(f"{key}: expected a login module with username and password")
    return Account(mechanism, options["username"], options["password"])
