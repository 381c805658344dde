"""One connection to another node: requests are sent at once, and answered in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from broker.peers.call import Call, PeerDisconnectedError, PeerError, PeerTimeoutError
from protocol.primitives import INT32, DecodeError
from timing.clock import Clock, Timer

T = TypeVar("T")

LARGEST_ANSWER = 1 << 30
"""Bytes. What announces more is no node of a cluster: the first bytes of an HTTP answer are a larger number."""

LAST_CORRELATION_ID = 2**31 - 1


@dataclass(slots=True)
class _InFlight:
    correlation_id: int
    call: Call[Any]
    version: int
    answer: asyncio.Future[Any]
    timer: Timer


class PeerConnection(asyncio.Protocol):
    """An open connection.

    `address` is for messages. `lost` is called once when the connection has ended, whoever ended it.
    """

    def __init__(self, address: str, client_id: str, clock: Clock, lost: Callable[[PeerConnection], None]) -> None:
        self.address = address
        self._client_id = client_id.encode()
        self._clock = clock
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._received: list[bytes] = []
        self._received_bytes = 0
        self._ended: PeerError | None = None
        self._retired = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._ended is None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def send(self, call: Call[T], version: int, timeout_ms: float) -> asyncio.Future[T]:
        """Send a request; the future has its answer, or a PeerError.

        If the caller cancels the future, the answer is dropped when it comes. If no answer comes within `timeout_ms`,
        the connection is closed, and all that is in flight fails. Raises PeerDisconnectedError if it is closed already.
        """
        if self._ended is not None or self._transport is None:
            raise PeerDisconnectedError(f"the connection to {self.address} is closed")
        self._correlation_id = correlation_id = (
            0 if self._correlation_id == LAST_CORRELATION_ID else self._correlation_id + 1
        )
        frame = call.frame(version, correlation_id, self._client_id)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_ms, lambda: self._timed_out(timeout_ms))
        self._in_flight.append(_InFlight(correlation_id, call, version, answer, timer))
        self._transport.write(frame)
        return answer

    def close(self, error: PeerError) -> None:
        """End the connection; what is in flight fails with `error`."""
        if self._ended is None:
            self._ended = error
            if self._transport is not None:
                self._transport.abort()
            self._fail_all(error)

    def retire(self) -> None:
        """End once all that is in flight is answered: another connection has taken its place."""
        self._retired = True
        if not self._in_flight:
            self.close(PeerDisconnectedError(f"the connection to {self.address} was replaced"))

    def _timed_out(self, timeout_ms: float) -> None:
        self.close(PeerTimeoutError(f"{self.address} has not answered within {timeout_ms:.0f} ms"))

    def _fail_all(self, error: PeerError) -> None:
        while self._in_flight:
            waiting = self._in_flight.popleft()
            waiting.timer.cancel()
            if not waiting.answer.done():
                waiting.answer.set_exception(error)

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        if self._ended is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended is None:
            reason = f": {exc}" if exc is not None else ""
            self._ended = PeerDisconnectedError(f"the connection to {self.address} was lost{reason}")
            self._fail_all(self._ended)
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._received_bytes += len(data)
        try:
            while (frame := self._next_frame()) is not None:
                self._answered(frame)
        except DecodeError as error:
            self.close(PeerDisconnectedError(f"{self.address} sent what is no answer: {error}"))

    def _next_frame(self) -> bytes | None:
        """The next whole answer without its size. Many pieces are joined only once all of them are there."""
        if self._ended is not None or self._received_bytes < INT32.size:
            return None
        if len(self._received[0]) < INT32.size:
            self._received = [b"".join(self._received)]
        (size,) = INT32.unpack_from(self._received[0])
        if not 0 <= size <= LARGEST_ANSWER:
            raise DecodeError(f"an answer of {size} bytes")
        end = INT32.size + size
        if self._received_bytes < end:
            return None
        whole = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        rest = whole[end:]
        self._received = [rest] if rest else []
        self._received_bytes = len(rest)
        return whole[INT32.size : end]

    def _answered(self, frame: bytes) -> None:
        if len(frame) < INT32.size:
            raise DecodeError(f"an answer of {len(frame)} bytes has no correlation id")
        (correlation_id,) = INT32.unpack_from(frame)
        if not self._in_flight:
            raise DecodeError(f"an answer with correlation id {correlation_id}, when nothing was asked")
        if self._in_flight[0].correlation_id != correlation_id:
            raise DecodeError(
                f"an answer with correlation id {correlation_id}, when {self._in_flight[0].correlation_id} was due"
            )
        waiting = self._in_flight.popleft()
        waiting.timer.cancel()
        if waiting.answer.done():  # nobody waits for it any more
            return
        try:
            response = waiting.call.read(frame, waiting.version)
        except Exception as error:  # unforeseen ones, too: nothing else would end the wait for this answer
            what = f"{self.address} sent a malformed answer to API {waiting.call.api_key} v{waiting.version}: {error}"
            waiting.answer.set_exception(PeerDisconnectedError(what))
            raise
        waiting.answer.set_result(response)
        if self._retired and not self._in_flight:
            self.retire()
