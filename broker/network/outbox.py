"""Replies of many connections, sent together."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timing.clock import Clock

LONGEST_WAIT_MS = 2.0
"""A reply held this long is sent right after the request that is being handled."""

QUIET_MS = 0.1
"""After a pause this long a reply is sent at once: no other request is likely to be waiting."""


class Replying(Protocol):
    """A connection with gathered replies."""

    last_active_ms: float

    def send_gathered(self) -> None: ...


class Outbox:
    """Connections whose replies are sent once the loop has handled everything received.

    A write to a socket wakes its reader, which costs the writer about as much as a small request does. Connections
    whose readers share a thread, as a client's mostly do, cost one wakeup for all that is written in one go. The reply
    to a request that came alone is sent immediately.

    Attributes:
        turn: of the connections with a gradual reply, the one that sends its next piece has it.
    """

    def __init__(self, clock: Clock) -> None:
        self.turn = asyncio.Lock()
        self._monotonic_ms = clock.monotonic_ms
        self._waiting: list[Replying] = []
        self._since_ms = 0.0
        self._sent_ms = -math.inf

    def put(self, connection: Replying) -> None:
        """Send the connection's gathered replies, now or soon. It may be put more than once."""
        now_ms = connection.last_active_ms
        if not self._waiting:
            if now_ms - self._sent_ms > QUIET_MS:
                connection.send_gathered()
                self._sent_ms = self._monotonic_ms()
                return
            self._since_ms = now_ms
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append(connection)
        if now_ms - self._since_ms > LONGEST_WAIT_MS:
            self._send()

    def send_overdue(self, now_ms: float) -> None:
        """Send what is overdue, after a request without a reply (yet): earlier replies must not wait for many."""
        if now_ms - self._since_ms > LONGEST_WAIT_MS and self._waiting:
            self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.send_gathered()
        self._sent_ms = self._monotonic_ms()
