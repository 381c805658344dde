"""What the network uses of the parts that lie above it: each is given to it, and imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    import ssl

    from kio.schema.errors import ErrorCode

    from broker.network.client_lines import ClientLines
    from broker.network.handler import Handler
    from broker.network.outbox import Outbox
    from broker.network.request import Principal, Request
    from protocol.api.row import Api
    from timing.clock import Clock
    from timing.wheel import TimingWheel


class RequestCounters(Protocol):
    """Counts the requests of one API."""

    def done(self, version: int, total_ms: float) -> None:
        """A request was answered `total_ms` after it was read."""

    def waited(self, total_ms: float, remote_ms: float) -> None:
        """A request that is `done` has spent so much of its time in waiting for something else."""


class RequestMetrics(Protocol):
    """Counts requests and errors; see `broker.monitoring.metrics.Metrics`."""

    @property
    def requests(self) -> Mapping[str, RequestCounters]: ...
    def request_error(self, api: str, error: ErrorCode) -> None: ...


class Guards(Protocol):
    """Checks what clients may do; see `broker.authorization.guard.Guard`."""

    def guarded(self, api: Api, handler: Handler, *, of_controller: bool) -> Callable[[Any, Any], Any]:
        """The function of a handler, with what the API asks of the client before it."""


class Throttles(Protocol):
    """Enforces the quotas of clients; see `broker.quotas.throttling.Throttling`."""

    enabled: bool

    def spent(self, ctx: Request) -> None: ...
    def answer(self, ctx: Request, response: Any) -> Any: ...


class LimitsConnections(Protocol):
    """Limits the rate of new connections; see `broker.quotas.connection_rates.ConnectionRates`."""

    def throttle_ms(self, host: str) -> int: ...


class Dispatches(Protocol):
    """Handles the requests of a connection: `Dispatcher`, or what stands before it until the client is known."""

    pipelined_keys: frozenset[int]

    def dispatch(self, connection: Any, frame: memoryview) -> Any: ...


class Secures(Protocol):
    """How the clients of one listener are let in; see `broker.security.listener_security.ListenerSecurity`.

    Attributes:
        tls: the context for new connections, None if the listener has no TLS.
        max_frame_bytes: the largest request of a client that is not known yet; None if that is no other.
    """

    @property
    def tls(self) -> ssl.SSLContext | None: ...

    @property
    def max_frame_bytes(self) -> int | None: ...

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Who the client with this certificate (DER) is. Any thread. Raises UnknownClientError."""

    def check_certificate(self, certificate: bytes | None) -> None:
        """Refuse a certificate (DER) that is no longer valid. Any thread. Raises UnknownClientError."""

    def gate(self, dispatcher: Any) -> Dispatches | None:
        """What handles the requests of a new connection before its client is known; None if there is no SASL."""


class Accepts(Protocol):
    """The server as a connection sees it, which asks to be admitted, and to be forgotten when it is lost.

    `connection` is the connection itself.
    """

    clock: Clock
    throttle_wheel: TimingWheel
    outbox: Outbox
    lines: ClientLines
    max_request_bytes: int

    def admit(self, connection: Any) -> None: ...
    def forget(self, connection: Any) -> None: ...
    def authenticated(self, connection: Any) -> None: ...
    def note_bytes_of_stranger(self, connection: Any, count: int) -> None: ...
    def size_buffers(self, transport: asyncio.BaseTransport) -> None: ...
