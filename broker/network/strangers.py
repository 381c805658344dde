"""Clients that have not shown yet who they are: how many there may be, for how long, and with how many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.config.broker_config import CurrentConfig
    from broker.network.connection import Connection
    from timing.wheel import TimerTask, TimingWheel

MOST_BYTES = 32 * 1024 * 1024
"""The most bytes of large requests that all strangers together may be sending. A login needs no large request."""


class Strangers:
    """Connections of listeners with TLS or SASL until they are through their handshake and authenticated.

    With one too many the oldest of the address that has most is closed, and not the newest: clients that mean it are
    through within milliseconds, and so come in however many connections others hold open, and however fast they come.
    With too many bytes it is the oldest that sends a large request.
    """

    def __init__(self, current: CurrentConfig, wheel: TimingWheel) -> None:
        self._current = current
        self._wheel = wheel
        self._timers: dict[Connection, TimerTask] = {}
        self._by_host: dict[str, dict[Connection, None]] = {}  # each host's in order of arrival
        self._held: dict[Connection, int] = {}  # bytes of the large request that each is sending
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, connection: Connection) -> None:
        config = self._current.config
        if len(self._timers) >= config.integer("odradek.max.unauthenticated.connections"):
            most = max(self._by_host.values(), key=len)
            self._turn_out(next(iter(most)), "odradek.max.unauthenticated.connections")
        self._by_host.setdefault(connection.client_host, {})[connection] = None
        timeout_ms = config.integer("odradek.authentication.timeout.ms")
        self._timers[connection] = self._wheel.add(
            timeout_ms, lambda: self._turn_out(connection, "odradek.authentication.timeout.ms")
        )

    def note_bytes(self, connection: Connection, count: int) -> None:
        """A stranger has memory for so many bytes of a large request; 0 if it sends none. Harmless for others."""
        if connection not in self._timers:
            return
        self._bytes += count - self._held.pop(connection, 0)
        if count:
            self._held[connection] = count
        while self._bytes > MOST_BYTES:
            self._turn_out(next(iter(self._held)), f"{MOST_BYTES} bytes of requests before authentication")

    def discard(self, connection: Connection) -> None:
        """The client is known, or gone. Harmless for one that was never added."""
        self._bytes -= self._held.pop(connection, 0)
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
            of_host = self._by_host[connection.client_host]
            del of_host[connection]
            if not of_host:
                del self._by_host[connection.client_host]

    def _turn_out(self, connection: Connection, limit: str) -> None:
        self.discard(connection)
        connection.warn("connection closed before it had authenticated", limit=limit)
        connection.abort()
