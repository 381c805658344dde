"""Transports that stand between a connection and its socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timing.clock import Clock, Timer

TICK_MS = 20.0
"""How often a slow transport sends a piece, or reads one."""

UNSENT_BYTES = 64 * 1024
"""From so many unsent bytes on, no further request is handled, as with a client that does not read."""


class Relay(asyncio.Transport):
    """A transport that uses another one."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: Any) -> None:
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class Muted(Relay):
    """Sends nothing of what is written, as if the network lost it."""

    def write(self, data: Any) -> None:
        """Lose it."""


class Slowed(Relay, asyncio.BufferedProtocol):
    """A transport and a protocol that stand on both sides of a socket, and let only so many bytes pass in a second.

    `requests` and `replies` are the rates in bytes a second: 0 for nothing at all, None for no limit. `on_lost` is
    called when the connection is gone.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BufferedProtocol,
        clock: Clock,
        requests: float | None,
        replies: float | None,
        on_lost: Callable[[], object],
    ) -> None:
        super().__init__(transport)
        self._protocol = protocol
        self._clock = clock
        self._requests = requests
        self._replies = replies
        self._on_lost = on_lost
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._writing_paused = False
        self._close_when_sent = False
        self._sending: Timer | None = None
        self._resting: Timer | None = None
        self._reading_paused = not transport.is_reading()  # by the connection
        self._held = False  # by this
        transport.set_protocol(self)
        if requests == 0:
            self._hold()

    def lift(self) -> None:
        """Let everything pass from now on, and what was held up first."""
        self._requests = self._replies = None
        for timer in (self._sending, self._resting):
            if timer is not None:
                timer.cancel()
        if not self._transport.is_closing():
            self._send(self._unsent_bytes)
        self._release()

    # -- replies

    def write(self, data: Any) -> None:
        if self._replies is None:
            self._transport.write(data)
            return
        self._unsent.append(memoryview(bytes(data)))
        self._unsent_bytes += len(data)
        if self._unsent_bytes > UNSENT_BYTES and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        if self._replies and self._sending is None:
            self._send_later()

    def is_closing(self) -> bool:
        return self._close_when_sent or self._transport.is_closing()

    def close(self) -> None:
        if self._unsent:
            self._close_when_sent = True
        else:
            self._transport.close()

    def _send_later(self) -> None:
        self._sending = self._clock.call_later(TICK_MS, self._send_some)

    def _send_some(self) -> None:
        self._sending = None
        if self._transport.is_closing():
            return
        self._send(_piece(self._replies or 0))
        if self._unsent:
            self._send_later()

    def _send(self, size: int) -> None:
        while size and self._unsent:
            part = self._unsent.popleft()
            if len(part) > size:
                self._unsent.appendleft(part[size:])
                part = part[:size]
            self._transport.write(bytes(part))
            self._unsent_bytes -= len(part)
            size -= len(part)
        if self._writing_paused and not self._unsent:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._close_when_sent and not self._unsent:
            self._transport.close()

    # -- requests

    def pause_reading(self) -> None:
        self._reading_paused = True
        if not self._held:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._reading_paused = False
        if not self._held:
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> Any:
        buffer = self._protocol.get_buffer(sizehint)
        return memoryview(buffer)[: _piece(self._requests)] if self._requests else buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._requests:
            self._hold()
            self._resting = self._clock.call_later(nbytes * 1000 / self._requests, self._release)
        self._protocol.buffer_updated(nbytes)

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            if not self._reading_paused and not self._transport.is_closing():
                self._transport.pause_reading()

    def _release(self) -> None:
        if self._held:
            self._held = False
            if not self._reading_paused and not self._transport.is_closing():
                self._transport.resume_reading()

    # -- the rest of the protocol

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._sending, self._resting):
            if timer is not None:
                timer.cancel()
        self._on_lost()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if not self._writing_paused:
            self._protocol.resume_writing()


def _piece(rate: float) -> int:
    """How many bytes may pass in a tick."""
    return max(1, int(rate * TICK_MS / 1000))
