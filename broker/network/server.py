"""The listeners: binding, limits on connections, idle connections, and a graceful end."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from socket import socket
from typing import TYPE_CHECKING

import structlog

from broker.network.client_lines import ClientLines
from broker.network.connection import Connection
from broker.network.outbox import Outbox
from broker.network.secured_connection import SecuredConnection
from broker.network.sockets import size_buffers
from broker.network.strangers import Strangers
from broker.network.tls import TlsLayer
from broker.process import is_kept

if TYPE_CHECKING:
    from broker.config.broker_config import CurrentConfig
    from broker.config.listeners import Listener
    from broker.network.dispatch import Dispatcher
    from broker.network.ports import LimitsConnections, Secures
    from storage.workers import Workers
    from timing.clock import Clock
    from timing.wheel import TimerTask, TimingWheel

logger = structlog.get_logger(__name__)

LEAST_BACKLOG = 1024
"""The listen backlog: after a restart all clients come back at once, before the loop can accept them."""
EVERY_ADDRESS = ("", "0.0.0.0", "::")
"""Hosts that stand for all addresses of this machine, IPv4 and IPv6, as in Java, whose one socket takes both."""
PORT_ATTEMPTS = 10
ACCEPTED_AT_ONCE = 1
"""Connections that asyncio accepts before others get a turn: it takes the backlog for that. With more, a lack of
descriptors would set a timer for each attempt that fails, whose attempts set more, until nothing else is done."""
MOST_TURNED_AWAY = 100
"""Connections over the rate of their address that are kept open for a while, each with a descriptor (Kafka: all)."""
FINISH_MS = 3000
"""How long a stopping server waits for answers in flight."""


class ListenError(Exception):
    """A listener cannot be bound."""


class Server:
    """All listeners of a node and the connections they accepted (Kafka's `SocketServer`).

    `clock` and `wheel` are the machine's; `throttle_wheel` is in the time of quotas, which the test kit may move.
    """

    def __init__(
        self,
        current: CurrentConfig,
        clock: Clock,
        wheel: TimingWheel,
        throttle_wheel: TimingWheel,
        connection_rates: LimitsConnections,
        dispatcher: Dispatcher,
        security: Mapping[str, Secures],
        handshakes: Workers,
    ) -> None:
        config = current.config
        self.clock = clock
        self.max_request_bytes = config.integer("socket.request.max.bytes")
        self.outbox = Outbox(self.clock)
        self.throttle_wheel = throttle_wheel
        self.lines = ClientLines(self.clock.monotonic_ms)
        self.created: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.bound: dict[str, int] = {}
        self.door: Callable[[Connection], bool] | None = None  # lets a new connection in, or ends it
        self.lost: tuple[Callable[[Connection], None], ...] = ()  # called with each connection that was admitted
        self.on_connection: Callable[[Connection, bool], None] | None = None
        """Called with each connection that is admitted (True), and when it is lost (False)."""
        self._current = current
        self.use(connection_rates)
        self._dispatcher = dispatcher
        self._security = security
        self._handshakes = handshakes
        self.strangers = Strangers(current, wheel)
        self._per_ip: Counter[str] = Counter()
        self._turned_away: dict[Connection, None] = {}
        self._waiting: dict[Connection, None] = {}  # waiting for one of `max.connections`, in order of arrival
        self._stopping = False
        self._holding = False
        self._max_idle_ms = config.integer("connections.max.idle.ms")
        self._backlog = max(config.integer("socket.listen.backlog.size"), LEAST_BACKLOG)
        self._send_buffer = config.integer("socket.send.buffer.bytes")
        self._receive_buffer = config.integer("socket.receive.buffer.bytes")
        self._servers: list[tuple[Listener, asyncio.Server]] = []
        self._wheel = wheel
        self._idle_timers: dict[Connection, TimerTask] = {}

    async def start(self, listeners: tuple[Listener, ...]) -> None:
        """Bind every listener; `bound` then has each one's port. No client is served before `serve`.

        Raises ListenError if an address cannot be bound.
        """
        for listener in listeners:
            try:
                server = await (self._bind(listener, listener.port) if listener.port else self._bind_any(listener))
            except OSError as error:
                raise _cannot_listen(listener, error) from error
            self.bound[listener.name] = server.sockets[0].getsockname()[1]
            self._servers.append((listener, server))

    async def _bind_any(self, listener: Listener) -> asyncio.Server:
        """Bind to a port that is free in every address family, each of which at first chooses one of its own."""
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            server = await self._bind(listener, 0)
            if len(server.sockets) == 1:
                break
            port = server.sockets[0].getsockname()[1]
            server.close()
            await server.wait_closed()
            try:
                return await self._bind(listener, port)
            except OSError:
                if not attempts_left:
                    raise
        return server

    async def _bind(self, listener: Listener, port: int) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            partial(self.new_connection, listener.name),
            None if listener.host in EVERY_ADDRESS else listener.host,
            port,
            backlog=ACCEPTED_AT_ONCE,
            reuse_address=True,
            start_serving=False,
        )

    async def serve(self) -> None:
        """Let clients in. Raises ListenError if another process was faster."""
        for listener, server in self._servers:
            try:
                await server.start_serving()
                lengthen_backlog(server, self._backlog)
            except OSError as error:
                raise _cannot_listen(listener, error) from error
            logger.info("listening", listener=listener.name, host=listener.host or "*", port=self.bound[listener.name])

    # -- connections

    def new_connection(self, listener_name: str) -> asyncio.BufferedProtocol:
        """The protocol for the transport of a client that has just connected to the listener."""
        security = self._security.get(listener_name)
        if security is None:
            return Connection(self, self._dispatcher, listener_name)
        gate = security.gate(self._dispatcher)
        connection = SecuredConnection(self, gate or self._dispatcher, listener_name, security.max_frame_bytes)
        if security.tls is None:
            return connection
        return TlsLayer(connection, security, self._handshakes, identifies=gate is None)

    def admit(self, connection: Connection) -> None:
        """Count a new connection. At `max.connections` it has to wait; at other limits it is turned away."""
        if self._stopping:
            connection.abort()
        elif is_kept(connection.descriptor):
            self._refuse(connection, "open files of the process (ulimit -n)")
        elif self.door is not None and not self.door(connection):
            logger.info("connection refused by a fault", client=connection.client_host)
        elif len(self.connections) < self._most_connections and not self._holding:
            self._admit(connection)
        elif len(self._waiting) < self._backlog:
            self._waiting[connection] = None
            connection.hold()
        else:
            self._refuse(connection, "max.connections")

    def limits_changed(self) -> None:
        """`max.connections` may have changed: admits waiting connections, or closes the longest idle ones."""
        excess = len(self.connections) - self._most_connections
        if excess > 0:
            logger.warning("connections closed", count=excess, limit="max.connections")
            for connection in sorted(self.connections, key=lambda one: one.last_active_ms)[:excess]:
                connection.abort()
        self._admit_waiting()

    @property
    def _most_connections(self) -> int:
        return self._current.config.integer("max.connections")

    def _admit_waiting(self) -> None:
        while (
            self._waiting
            and not self._stopping
            and not self._holding
            and len(self.connections) < self._most_connections
        ):
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            self._admit(connection)

    def _admit(self, connection: Connection) -> None:
        host = connection.client_host
        config = self._current.config
        if throttle_ms := self._connection_rates.throttle_ms(host):
            self._turned_away[connection] = None
            connection.turn_away(throttle_ms)
            if len(self._turned_away) > MOST_TURNED_AWAY:
                oldest = next(iter(self._turned_away))
                del self._turned_away[oldest]
                oldest.abort()
            return
        per_ip = config.max_connections_per_ip_overrides.get(host, config.integer("max.connections.per.ip"))
        if self._per_ip[host] >= per_ip:
            self._refuse(connection, "max.connections.per.ip")
            return
        self.connections.add(connection)
        self._per_ip[host] += 1
        self.created[connection.listener_name] += 1
        if connection.listener_name in self._security:
            self.strangers.add(connection)
        if self._max_idle_ms >= 0:
            self._check_idle_in(self._max_idle_ms, connection)
        if self.on_connection is not None:
            self.on_connection(connection, True)
        connection.admitted()

    def authenticated(self, connection: Connection) -> None:
        """The client has shown who it is: the limits on strangers no longer concern it."""
        self.strangers.discard(connection)

    def note_bytes_of_stranger(self, connection: Connection, count: int) -> None:
        """See `Strangers.note_bytes`."""
        self.strangers.note_bytes(connection, count)

    @staticmethod
    def _refuse(connection: Connection, limit: str) -> None:
        connection.warn("connection refused", limit=limit)
        connection.abort()

    def size_buffers(self, transport: asyncio.BaseTransport) -> None:
        """Set the configured sizes of the socket's buffers."""
        size_buffers(transport, self._send_buffer, self._receive_buffer)

    def forget(self, connection: Connection) -> None:
        """Undo what `admit` counted for a lost connection. Harmless for one that waited or was turned away."""
        if connection not in self.connections:
            self._turned_away.pop(connection, None)
            self._waiting.pop(connection, None)
            return
        self.connections.discard(connection)
        self.strangers.discard(connection)
        timer = self._idle_timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        self.closed[connection.listener_name] += 1
        for lost in self.lost:
            lost(connection)
        if self.on_connection is not None:
            self.on_connection(connection, False)
        self._per_ip[connection.client_host] -= 1
        if not self._per_ip[connection.client_host]:
            del self._per_ip[connection.client_host]
        self._admit_waiting()

    def _check_idle(self, connection: Connection) -> None:
        left_ms = connection.last_active_ms + self._max_idle_ms - self.clock.monotonic_ms()
        if left_ms <= 0 and connection.idle:
            logger.debug("idle connection closed", client=connection.client_host)
            connection.abort()  # not even a client that stopped reading may keep it open
            return
        # With a request in flight the whole time has to pass again: it begins anew with the answer.
        self._check_idle_in(left_ms if left_ms > 0 else max(self._max_idle_ms, 1), connection)

    def _check_idle_in(self, delay_ms: float, connection: Connection) -> None:
        self._idle_timers[connection] = self._wheel.add(delay_ms, lambda: self._check_idle(connection))

    # -- a pause

    def hold(self) -> None:
        """Read no further request, and admit nobody, until `resume`; what is in flight is answered."""
        self._holding = True
        for connection in self.connections:
            connection.hold()

    def use(self, connection_rates: LimitsConnections) -> None:
        """Have these limits from now on."""
        self._connection_rates = connection_rates

    def resume(self) -> None:
        """Go on after `hold`. No request is taken for a repetition of one that other parts of the node have handled."""
        self._holding = False
        for connection in tuple(self.connections):
            connection.repeated = None
            connection.admitted()
        self._admit_waiting()

    # -- the end

    async def stop(self) -> None:
        """Stop accepting, answer what is in flight, close every connection."""
        self._stopping = True
        for _, server in self._servers:
            server.close()
        for connection in (*self._turned_away, *self._waiting):
            connection.abort()
        for connection in tuple(self.connections):
            connection.finish()
        deadline = self.clock.monotonic_ms() + FINISH_MS
        while self.connections and self.clock.monotonic_ms() < deadline:
            await self.clock.sleep(5)
        for connection in tuple(self.connections):
            connection.abort()


def lengthen_backlog(server: asyncio.Server, backlog: int) -> None:
    """Let more connections wait than are accepted at once; the server must be serving.

    Raises OSError if another process was faster to serve there.
    """
    try:
        for listening in server.sockets:
            with socket(fileno=os.dup(listening.fileno())) as same:
                same.listen(backlog)
    except OSError as error:
        if error.errno == errno.EBADF:  # uvloop has closed it without a word
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error
        raise


def _cannot_listen(listener: Listener, error: OSError) -> ListenError:
    where = f"{listener.host or '*'}:{listener.port}"
    return ListenError(f"listener {listener.name} cannot be bound to {where}: {error.strerror or error}")
