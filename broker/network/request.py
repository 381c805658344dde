"""Who a client is, once its connection has shown it (Kafka's `KafkaPrincipal`).

A request and its connection, as seen below the handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

USER = "User"
"""The type of every principal that a broker makes of a certificate, a password or a token."""


class UnknownClientError(Exception):
    """The certificate of a client does not say who it is."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal. `token_authenticated`: it came with a delegation token, and so may not make further ones; as in
    Kafka it is the same principal nevertheless.
    """

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client of a plaintext listener, or of a TLS listener that asks for no certificate."""


class CloseConnectionError(Exception):
    """Closes the request's connection without an answer; the text is for the log."""


class Peer(Protocol):
    """The connection as handlers see it. `client_address` is its `client_host` as Java shows it.

    `client_id` is that of its ApiVersions, or of its last request where faults may be set.
    `principal` is the client's; it changes when the client authenticates.
    `is_forwarded`: the request came in an Envelope, and the connection to its client is another node's.
    `permissions` is a place for what the authorizer has decided for its client, None until it is asked.
    """

    listener_name: str
    client_host: str
    client_address: str
    client_port: int
    client_id: str | None
    principal: Principal
    permissions: Any
    is_forwarded: bool
    client_software: tuple[str, str]

    def spent_ms(self) -> float:
        """Milliseconds since the last call, or since the last data arrived or wait ended, whichever is later."""
        ...

    def throttle(self, throttle_ms: int) -> None:
        """Handle no further request for `throttle_ms` (KIP-219)."""
        ...


class Request(Protocol):
    """A request as the network and the quotas see it; handlers get `broker.request_context.RequestContext`.

    `version` is the requested API version, `body` the request as it came, without its header (empty for the hot-path
    APIs), `size` the number of bytes received, set only where a quota is set. A pipelined API sets `begun` to False if
    it could not do its part in the order of requests at once: then the next request has to wait.
    """

    connection: Peer
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: bytes
    begun: bool
    size: int


NewRequest = Callable[[Peer, int, int, int, "str | None"], Any]
"""Makes a `Request` of its connection, API key, version, correlation id and client id, for the handlers."""
