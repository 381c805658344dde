"""What the network is given by the parts that lie above it, and what it asks of them.

Each of them imports this package, and the network none of them: it is handed a handler for each API, and the parts that
count, guard, throttle and let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from protocol.api.row import Api
from protocol.errors import KafkaError

if TYPE_CHECKING:
    import asyncio
    import ssl

    from kio.schema.errors import ErrorCode

    from broker.network.client_lines import ClientLines
    from broker.network.outbox import Outbox
    from broker.network.request import Principal, Request
    from timing.clock import Clock
    from timing.wheel import TimingWheel


Handle: TypeAlias = Callable[[Any, Any], Any]
"""`(ctx, request)`: returns the response or an awaitable of it, and raises KafkaError."""


@dataclass(frozen=True, slots=True)
class Handler:
    """How one API is answered.

    Attributes:
        decode: `(version, frame, position)`: reads a request, if its codec is hand-written.
        encode: `(response, version, correlation id)`: writes a response, likewise.
        prepare: turns a request into what `handle` gets, using only the request and its client.
        failed: `(ctx, request, error)`: the response of a failed request, if `protocol.api.failure` has not the same.
        too_new: the answer to a version that is not served (ApiVersions; others end the connection).
        first: what the broker that is asked checks itself, before it sends the request on to a controller.
        forwards: the handler itself sends on what a controller decides, which is not all that is asked.
    """

    handle: Handle
    decode: Callable[[int, memoryview, int], Any] | None = None
    encode: Callable[[Any, int, int], Any] | None = None
    prepare: Handle | None = None
    failed: Callable[[Any, Any, KafkaError], Any] | None = None
    too_new: Callable[[], Any] | None = None
    first: Callable[[Any], None] | None = None
    forwards: bool = False


class FindsHandlers(Protocol):
    """Finds the handler of an API, on a broker's listener or on a controller's, when it is first asked for."""

    def __call__(self, api: Api, *, of_controller: bool) -> Handler: ...


class RequestCounters(Protocol):
    """Counts the requests of one API."""

    def done(self, version: int, total_ms: float) -> None:
        """A request was answered `total_ms` after it was read."""

    def waited(self, total_ms: float, remote_ms: float) -> None:
        """A request that is `done` has spent so much of its time in waiting for something else."""


class RequestMetrics(Protocol):
    """Counts requests and errors; see `broker.observe.metrics.Metrics`."""

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
    """How the clients of one listener are let in; see `broker.security.node_security.ListenerSecurity`.

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
