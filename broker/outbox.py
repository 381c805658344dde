"""Replies of many connections, sent together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.connection import Connection

LONGEST_WAIT_MS = 1.0
"""A reply waits no longer for those of the requests that are handled after it."""


class Outbox:
    """Connections whose replies go out once the loop has handled all that it found received.

    A write to a socket wakes its reader, which costs the writer about as much as a small request does. Connections
    whose readers share a thread, as a client's mostly do, cost one waking for what is written in one go.
    """

    def __init__(self) -> None:
        self._waiting: list[Connection] = []
        self._since_ms = 0.0

    def put(self, connection: Connection) -> None:
        """Send the connection's gathered replies soon. It may be put more than once."""
        if not self._waiting:
            self._since_ms = connection.last_active_ms
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append(connection)
        if connection.last_active_ms - self._since_ms > LONGEST_WAIT_MS:
            self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.send_gathered()
