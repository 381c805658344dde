"""The listeners: binding, limits on connections, idle connections, and a graceful end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import structlog

from broker.connection import Connection

if TYPE_CHECKING:
    from broker.config.listeners import Listener
    from broker.node import Node
    from timing.wheel import TimerTask

log = structlog.get_logger(__name__)

BACKLOG = 1024
FINISH_MS = 3000
"""How long a stopping server waits for answers in flight."""


class ListenError(Exception):
    """A listener cannot be bound."""


class Server:
    """All listeners of a node and the connections they accepted (Kafka's ``SocketServer``)."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self.clock = node.clock
        self.max_request_bytes = config.integer("socket.request.max.bytes")
        self.created = 0
        self.closed = 0
        self.connections: set[Connection] = set()
        self.bound: dict[str, int] = {}
        self._node = node
        self._per_ip: Counter[str] = Counter()
        self._max_connections = config.integer("max.connections")
        self._max_per_ip = config.integer("max.connections.per.ip")
        self._max_per_ip_of = config.max_connections_per_ip_overrides
        self._max_idle_ms = config.integer("connections.max.idle.ms")
        self._servers: list[asyncio.Server] = []
        self._idle_timers: dict[Connection, TimerTask] = {}

    async def start(self, listeners: tuple[Listener, ...]) -> None:
        """Binds every listener; ``bound`` then tells each one's port.

        :raises ListenError: An address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        for listener in listeners:
            name = listener.name

            def accept(name: str = name) -> Connection:
                return Connection(self, self._node.dispatcher, name)

            try:
                server = await loop.create_server(
                    accept, listener.host or None, listener.port, backlog=BACKLOG, reuse_address=True
                )
            except OSError as error:
                where = f"{listener.host or '*'}:{listener.port}"
                raise ListenError(f"listener {name} cannot be bound to {where}: {error.strerror or error}") from error
            self._servers.append(server)
            self.bound[name] = server.sockets[0].getsockname()[1]
            log.info("listening", listener=name, host=listener.host or "*", port=self.bound[name])

    # -- connections --

    def admit(self, connection: Connection) -> bool:
        """Counts a new connection; False if a limit refuses it."""
        host = connection.client_host
        per_ip = self._max_per_ip_of.get(host, self._max_per_ip)
        refused = None
        if len(self.connections) >= self._max_connections:
            refused = "max.connections"
        elif self._per_ip[host] >= per_ip:
            refused = "max.connections.per.ip"
        if refused is not None:
            log.warning("connection refused", client=host, limit=refused)
            return False
        self.connections.add(connection)
        self._per_ip[host] += 1
        self.created += 1
        if self._max_idle_ms >= 0:
            self._check_idle_in(self._max_idle_ms, connection)
        return True

    def forget(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        timer = self._idle_timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        self.closed += 1
        self._per_ip[connection.client_host] -= 1
        if not self._per_ip[connection.client_host]:
            del self._per_ip[connection.client_host]

    def _check_idle(self, connection: Connection) -> None:
        idle_ms = self.clock.monotonic_ms() - connection.last_active_ms
        if idle_ms >= self._max_idle_ms and connection.idle:
            log.debug("idle connection closed", client=connection.client_host)
            connection.close()
            return
        self._check_idle_in(max(self._max_idle_ms - idle_ms, 1), connection)

    def _check_idle_in(self, delay_ms: float, connection: Connection) -> None:
        self._idle_timers[connection] = self._node.wheel.add(delay_ms, lambda: self._check_idle(connection))

    # -- the end --

    async def stop(self) -> None:
        """Stops accepting, answers what is in flight, closes every connection."""
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.finish()
        deadline = self.clock.monotonic_ms() + FINISH_MS
        while self.connections and self.clock.monotonic_ms() < deadline:
            await self.clock.sleep(5)
        for connection in tuple(self.connections):
            connection.abort()
