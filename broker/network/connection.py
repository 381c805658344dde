"""One client connection: frames in, replies out in the order of the requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from broker.network.blocked import LOST, NOT_ADMITTED, OTHERS_TURN, SENDING, THROTTLED, WRITING_PAUSED
from broker.network.dispatch import Buffers, Pending
from broker.network.frames import ForeignProtocolError, FrameBuffer
from broker.network.gradual_reply import GradualReply
from broker.network.reply import Reply
from broker.network.request import ANONYMOUS, CloseConnectionError
from broker.network.sockets import descriptor_of, reset
from protocol.errors import KafkaError
from protocol.java_strings import java_address
from protocol.primitives import UnreadBytes

if TYPE_CHECKING:
    from broker.network.frames import Foreign
    from broker.network.ports import Accepts, Dispatches
    from broker.network.repeated import Repeated
    from timing.wheel import TimerTask

SEND_AT_BYTES = 64 * 1024
"""Replies are gathered up to this size before they are sent."""

TURN_MS = 5.0
"""How long requests that came together are handled before other connections get a turn."""

MAX_OVERLAPPING = 256
"""How many Produce requests of one connection may wait for their acknowledgement at once."""

MAX_OVERLAPPING_BYTES = 32 * 1024 * 1024
"""Once waiting Produce requests hold this many bytes, no further request is handled: their records stay in memory until
they are acknowledged."""


class Connection(asyncio.BufferedProtocol):
    """Reads length-prefixed requests, hands each to the dispatcher, and writes the replies in order.

    As in Kafka's `SocketServer`, one request of a connection is handled at a time. The next one waits in the receive
    buffer (and then in the kernel's, so that memory stays bounded) until the answer is written. Only Produce requests
    may overlap: their append is done before they first wait.
    """

    def __init__(self, server: Accepts, dispatcher: Dispatches, listener_name: str) -> None:
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        self.client_id: str | None = None  # of its ApiVersions; of its last request where faults may be set
        self.permissions: Any = None
        self.is_forwarded = False
        self.dispatcher = dispatcher  # something else while the client has to authenticate
        self.client_host = ""
        self.client_address = ""
        self.client_port = 0
        self.descriptor = -1
        self.last_active_ms = 0.0
        self.client_software = ("unknown", "unknown")
        self.repeated: Repeated | None = None
        self._server = server
        self._outbox = server.outbox
        self._frames = FrameBuffer(server.max_request_bytes)
        self._monotonic_ms = server.clock.monotonic_ms
        self._transport: asyncio.Transport | None = None
        self._replies: deque[Reply] = deque()
        self._out: list[Any] = []  # buffers, and UnreadBytes
        self._out_bytes = 0
        self._sending: GradualReply | None = None  # the last reply, as one whose reply is large is handled alone
        self._overlapping_bytes = 0  # of the requests whose replies are in the queue
        self._waiting: set[Pending] = set()
        self._paused_reading = False
        self._blocked = 0  # a bit for each reason to handle no further request
        self._throttled_until_ms = 0.0
        self._throttle_timer: TimerTask | None = None
        self._closing = False  # no further request is read; closes once everything in flight is answered
        self._got_eof = False
        self._handling = False

    # -- transport events

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.client_host, self.client_port = peer[:2]
            self.client_address = java_address(*peer[::3])  # the fourth part, which IPv6 has, is the scope
        self.last_active_ms = self._monotonic_ms()
        self.descriptor = descriptor_of(transport)
        self._server.size_buffers(transport)
        self._server.admit(self)

    def hold(self) -> None:
        """Read nothing until `admitted` is called."""
        self._blocked |= NOT_ADMITTED
        asyncio.get_running_loop().call_soon(self._adjust_reading)  # uvloop begins to read after `connection_made`

    def admitted(self) -> None:
        """Go on after `hold`; harmless without it."""
        if self._blocked & NOT_ADMITTED:
            self._unblock(NOT_ADMITTED)

    def turn_away(self, delay_ms: int) -> None:
        """Read and answer nothing, and close later, so that the client does not come back at once."""
        self.hold()
        self._throttle_timer = self._server.throttle_wheel.add(delay_ms, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closing = True
        self.repeated = None  # breaks a cycle with the connection that would wait for the garbage collector
        for pending in self._waiting:
            pending.abandon()
        if self._sending is not None:
            self._sending.work.cancel()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._server.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ms = self._monotonic_ms()
        if self._frames.received(nbytes):
            self._handle_received()

    def eof_received(self) -> bool:
        self._got_eof = True
        self.send_gathered()
        # True keeps a half-closed connection open: what is in flight is still answered.
        return bool(self._replies or self._sending)

    def pause_writing(self) -> None:
        self._blocked |= WRITING_PAUSED
        if self._sending is not None:
            self._sending.pause()

    def resume_writing(self) -> None:
        if self._sending is not None:
            self._sending.resume()
        self._unblock(WRITING_PAUSED)

    # -- requests

    def _handle_received(self) -> None:
        """Handle every whole frame received, until one has to wait for something in flight."""
        if self._handling:
            return
        self._handling = True
        frames = self._frames
        emptied = False
        began_ms = self.last_active_ms
        try:
            while not (self._replies or self._closing or self._blocked) or self._may_handle():
                frame = frames.next()
                if frame is None:
                    break
                self._handle(frame)
                if not frames.has_more:  # usually this was the only one
                    emptied = not self._replies and frames.reuse()
                    break
                if self._monotonic_ms() - began_ms > TURN_MS:
                    self._blocked |= OTHERS_TURN
                    asyncio.get_running_loop().call_soon(self._unblock, OTHERS_TURN)
        except ForeignProtocolError as error:
            self.warn_of(error.foreign)
            if error.foreign.answer and not self._replies:
                self._gather(error.foreign.answer)
            self._closing = True
        except CloseConnectionError as error:
            self.warn("connection closed", error=str(error))
            self._closing = True  # as soon as the requests before this one are answered
        finally:
            self._handling = False
        if self._out and not (self._replies or self._closing or self._got_eof):
            self._outbox.put(self)
        else:
            self._flush()
        if not emptied or self._paused_reading or self._closing:
            self._adjust_reading()

    def _unblock(self, reason: int) -> None:
        self._blocked &= ~reason
        self.last_active_ms = self._monotonic_ms()
        self._handle_received()

    def _may_handle(self) -> bool:
        if self._replies and self._replies[0].done:
            self._take_answers()
        if self._closing or self._blocked:
            return False
        if not self._replies:
            return True
        return (
            not self._replies[-1].exclusive
            and len(self._replies) < MAX_OVERLAPPING
            and self._overlapping_bytes < MAX_OVERLAPPING_BYTES
            and self._next_overlaps()
        )

    def _next_overlaps(self) -> bool:
        """Whether the next request may be handled while others wait, if enough has arrived to know its API."""
        key = self._frames.next_key()
        return key is None or key in self.dispatcher.pipelined_keys

    def _handle(self, frame: memoryview) -> None:
        result = self.dispatcher.dispatch(self, frame)
        if result.__class__ is bytearray and not self._replies:  # the case for most small requests
            self._out.append(result)
            self._out_bytes += len(result)
            if self._out_bytes >= SEND_AT_BYTES:
                self.send_gathered()
        elif isinstance(result, Pending):
            reply = Reply(result.exclusive, len(frame))
            self._replies.append(reply)
            self._overlapping_bytes += reply.request_bytes
            self._waiting.add(result)
            result.work.add_done_callback(lambda _: self._answered(reply, result))
        elif result is not None:
            if self._replies:
                reply = Reply(exclusive=False, request_bytes=0)
                reply.done, reply.buffers = True, result
                self._replies.append(reply)
            else:
                self._gather(result)

    def _answered(self, reply: Reply, pending: Pending) -> None:
        self._waiting.discard(pending)
        self.last_active_ms = self._monotonic_ms()
        reply.done = True
        try:
            reply.buffers = pending.finish()
            if pending.work.cancelled() and self._transport is not None:
                raise CloseConnectionError("the work on a request was given up, and answers come in order")
        except CloseConnectionError as error:
            self.warn("connection closed", error=str(error))
            self.close()
            return
        if self._transport is not None:
            self._handle_received()

    def _take_answers(self) -> None:
        """Gather the answered replies that are next in order."""
        replies = self._replies
        while replies and replies[0].done:
            reply = replies.popleft()
            self._overlapping_bytes -= reply.request_bytes
            if reply.buffers is not None:
                self._gather(reply.buffers)

    def _flush(self) -> None:
        if self._replies:
            self._take_answers()
        if not self._replies and (self._closing or self._got_eof) and self._transport is not None:
            self.send_gathered()
            if self._sending is None:
                self._transport.close()
        elif self._out:
            self._outbox.put(self)
        else:
            self._outbox.send_overdue(self.last_active_ms)

    def _gather(self, buffers: Buffers) -> None:
        if isinstance(buffers, list):
            self._out += buffers
            self._out_bytes += sum(map(len, buffers))
        else:
            self._out.append(buffers)
            self._out_bytes += len(buffers)
        if self._out_bytes >= SEND_AT_BYTES:
            self.send_gathered()

    def send_gathered(self) -> None:
        """Hand the gathered replies to the transport: one system call for all that were answered in one go."""
        if self._transport is None or self._transport.is_closing() or not self._out:
            return
        out, self._out = self._out, []
        if len(out) == 1:
            self._transport.write(out[0])
        elif self._out_bytes < SEND_AT_BYTES:
            self._transport.write(b"".join(out))
        elif any(isinstance(part, UnreadBytes) for part in out):
            self._blocked |= SENDING
            self._sending = GradualReply(out, self._transport, self._outbox.turn)
            if self._blocked & WRITING_PAUSED:  # by what was sent before, while the request waited
                self._sending.pause()
            self._sending.work.add_done_callback(self._sent)
        else:
            self._transport.writelines(out)
        self._out_bytes = 0

    def _sent(self, work: asyncio.Future[None]) -> None:
        """The transport has all of a gradual reply, or its records could not be read."""
        self._sending = None
        if work.cancelled():
            return
        error = work.exception()
        if error is None:
            self._unblock(SENDING)
            return
        self.warn("connection closed", error=str(error))
        self.abort()
        if not isinstance(error, KafkaError):
            raise error

    def _adjust_reading(self) -> None:
        """Stop reading while received bytes wait for an earlier answer, so that more wait in the kernel's buffers."""
        if self._transport is None or self._transport.is_closing():
            return
        pause = self._closing or bool(self._blocked & NOT_ADMITTED)
        pause = pause or (self._frames.is_waiting and not self._may_handle())
        if pause != self._paused_reading:
            self._paused_reading = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- log lines

    def warn(self, event: str, **more: object) -> None:
        """Log something about the client, unless much has been logged about it lately."""
        self._server.lines.warn(event, self.listener_name, self.client_host, **more)

    def warn_of(self, foreign: Foreign) -> None:
        """Log that the client speaks another protocol."""
        self._server.lines.warn_once(foreign.event, self.listener_name, self.client_host, advice=foreign.advice)

    # -- quotas

    def spent_ms(self) -> float:
        """See `Peer.spent_ms`."""
        now_ms = self._monotonic_ms()
        spent_ms, self.last_active_ms = now_ms - self.last_active_ms, now_ms
        return spent_ms

    def throttle(self, throttle_ms: int) -> None:
        """Handle no further request for `throttle_ms` (KIP-219); what is in flight is answered."""
        until_ms = self._server.throttle_wheel.now_ms() + throttle_ms
        if self._transport is None or until_ms <= self._throttled_until_ms:
            return
        self._blocked |= THROTTLED
        self._throttled_until_ms = until_ms
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = self._server.throttle_wheel.add(throttle_ms, partial(self._unblock, THROTTLED))

    # -- faults

    def handle_no_more(self) -> None:
        """Handle no further request, and stay open, as if the network lost them."""
        self._blocked |= LOST

    def reset(self) -> None:
        """Drop the connection and its unsent data, so that the client sees a reset and no orderly end."""
        if self._transport is not None:
            reset(self._transport)

    def replace_transport(self, make: Callable[[asyncio.Transport], asyncio.Transport]) -> None:
        """Send replies through another transport from now on."""
        self.send_gathered()
        if self._transport is not None:
            self._transport = make(self._transport)

    # -- closing

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._replies

    def close(self) -> None:
        """Close at once; what has been written is still sent."""
        self._closing = True
        self._replies.clear()
        if self._out:
            self.send_gathered()
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Read no further request, and close once everything in flight is answered."""
        self._closing = True
        self._flush()
        self._adjust_reading()

    def abort(self) -> None:
        """Drop the connection and its unsent data."""
        if self._transport is not None:
            self._transport.abort()
