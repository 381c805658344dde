"""The connections of an HTTP port: how many there may be, and how long one may hold its place.

Import it late and off the loop, as it loads aiohttp.

Whoever opens many connections, or sends and reads nothing on them, closes only their own: a new one always comes in, so
that health checks and metrics are answered whatever others do. The limits also keep the port from taking
descriptors that Kafka's listeners and the logs need.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from broker.config.broker_config import BrokerConfig
from broker.network.client_lines import ClientLines
from timing.clock import Clock, Timer

logger = structlog.get_logger(__name__)

MOST, MOST_OF_ADDRESS = "odradek.http.max.connections", "odradek.http.max.connections.per.ip"
SHARE_OF_DESCRIPTORS = 8
"""At most one descriptor in so many is for connections of an HTTP port."""

IDLE_MS = 30_000
"""How long a connection may wait for nothing: for the whole head of its next request, and for its client to take more
of an answer."""

LINGER_S = 2.0
"""How long what comes of a body that nobody reads is thrown away, so that the client sees the answer."""

LONGEST_LINE_BYTES = 128 << 10
"""Of a request: a name may have 32,767 bytes in Kafka, each of them three in an address."""

MOST_HEADERS = 64
MOST_WAITING = 2
"""Requests that a client may send before it has the answer of an earlier one: browsers do not, and each is memory."""

FINISH_S = 1.0
"""How long a stopping port waits for responses in flight."""

SERVER = "odradek"
"""Says no version: that is for those who may ask."""


class HttpPort:
    """Serves an app on connections that the loop accepts: an instance is the factory of their protocols."""

    def __init__(self, app: web.Application, name: str, config: BrokerConfig, clock: Clock) -> None:
        app.middlewares.insert(0, _while_answered)
        app.on_response_prepare.append(_before_sent)
        self._runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=FINISH_S, handler_cancellation=True)
        self._name = name
        self._lines = ClientLines(clock.monotonic_ms)
        self.clock = clock
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        share = config.integer(MOST) if descriptors < 0 else max(descriptors // SHARE_OF_DESCRIPTORS, 1)
        self._most = min(config.integer(MOST), share)
        self._most_of_address = config.integer(MOST_OF_ADDRESS)
        self._by_address: dict[str, dict[HttpConnection, None]] = {}  # each one's in order of arrival

    async def begin(self) -> None:
        await self._runner.setup()

    async def stop(self) -> None:
        """Finish the responses in flight, and close every connection."""
        await self._runner.cleanup()

    def __call__(self) -> HttpConnection:
        assert self._runner.server is not None
        return HttpConnection(self, self._runner.server)

    def __len__(self) -> int:
        return sum(map(len, self._by_address.values()))

    def add(self, connection: HttpConnection) -> None:
        """Count a new connection; if there is one too many, another one ends for it."""
        of_address = self._by_address.get(connection.address, {})
        if len(of_address) >= self._most_of_address:
            self.turn_out(_least_needed(of_address), MOST_OF_ADDRESS)
        elif len(self) >= self._most:
            self.turn_out(_least_needed(max(self._by_address.values(), key=len)), MOST)
        self._by_address.setdefault(connection.address, {})[connection] = None

    def discard(self, connection: HttpConnection) -> None:
        of_address = self._by_address.get(connection.address, {})
        of_address.pop(connection, None)
        if not of_address:
            self._by_address.pop(connection.address, None)

    def turn_out(self, connection: HttpConnection, limit: str) -> None:
        self.discard(connection)
        self._lines.warn("http connection closed", self._name, connection.address, limit=limit)
        connection.end()


def _least_needed(connections: dict[HttpConnection, None]) -> HttpConnection:
    """The oldest that waits for no answer, or the oldest."""
    return next((connection for connection in connections if not connection.answering), next(iter(connections)))


class HttpConnection(web.RequestHandler):
    """One connection; `answering` says whether a request of it is being handled."""

    def __init__(self, port: HttpPort, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            lingering_time=LINGER_S,
            max_headers=MOST_HEADERS,
            max_line_size=LONGEST_LINE_BYTES,
        )
        self._port = port
        self._opened: asyncio.Transport | None = None  # the library forgets its own before that is closed
        self._look_timer: Timer | None = None
        self._idle_since_ms = 0.0
        self._unsent = 0
        self.address = ""
        self.answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opened = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else ""
        super().connection_made(transport)
        self._port.add(self)
        self.answered()
        self._look_in(IDLE_MS)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._opened = None
        self._port.discard(self)
        if self._look_timer is not None:
            self._look_timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) > MOST_WAITING:
            self._port.turn_out(self, f"{MOST_WAITING} requests before an answer")

    def answered(self) -> None:
        """Note that the connection waits for its client's next request from now on."""
        self.answering = False
        self._idle_since_ms = self._port.clock.monotonic_ms()

    def end(self) -> None:
        """Close it, although its client may have more to read."""
        if self._opened is not None:
            self._opened.abort()

    def _look_in(self, delay_ms: float) -> None:
        self._look_timer = self._port.clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        """End the connection if nothing has happened on it for `IDLE_MS`."""
        assert self._opened is not None
        before, self._unsent = self._unsent, self._opened.get_write_buffer_size()
        left_ms = self._idle_since_ms + IDLE_MS - self._port.clock.monotonic_ms()
        if self._unsent and self._unsent == before:
            self._port.turn_out(self, f"{IDLE_MS} ms in which its client read nothing")
        elif self._unsent or self.answering:
            self._look_in(IDLE_MS)
        elif left_ms > 0:
            self._look_in(left_ms)
        elif self._request_count:
            self._port.discard(self)
            self.end()  # kept open for a next request, as clients do: nothing to tell
        else:
            self._port.turn_out(self, f"{IDLE_MS} ms without a request")

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        _set_headers(response)
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what is a bug of ours. A client that does not speak HTTP is none, and could fill the log."""
        error = kw.get("exc_info")
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            logger.debug("not HTTP", client=self.address, error=str(error))
        else:
            super().log_exception(*args, **kw)


@web.middleware
async def _while_answered(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    connection.answering = True
    try:
        return await handler(request)
    finally:
        connection.answered()


async def _before_sent(_request: web.Request, response: web.StreamResponse) -> None:
    _set_headers(response)


def _set_headers(response: web.StreamResponse) -> None:
    """Set the headers of every answer: strangers choose what is in records, metrics and the journal's JSON, so no
    browser is to guess HTML or a script in it, or to keep it for who comes next.
    """
    response.headers["Server"] = SERVER
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers.setdefault("Cache-Control", "no-store")
