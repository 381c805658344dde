"""Clients of other protocols on a listener: what they speak, and what they are told.

The bytes that a connection received, cut into requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.network.request import CloseConnectionError
from protocol.primitives import INT32

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
_TLS_HANDSHAKE = b"\x16\x03"

_BODY = b"This port speaks the Kafka protocol, not HTTP. Odradek's /metrics and /healthz are on odradek.http.port.\n"
HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A protocol that is not Kafka's. `answer` is sent before the connection is closed."""

    event: str
    advice: str
    answer: bytes = b""


TLS = Foreign(
    "a TLS client spoke to a plaintext listener",
    "set security.protocol=PLAINTEXT in the client, or connect it to a listener with TLS",
)
HTTP = Foreign(
    "an HTTP client spoke to a Kafka listener",
    "/metrics and /healthz are on the port of odradek.http.port",
    HTTP_ANSWER,
)
PLAINTEXT = Foreign(
    "a plaintext client spoke to a TLS listener",
    "set security.protocol=SSL or SASL_SSL in the client, or connect it to a listener without TLS",
)


class ForeignProtocolError(CloseConnectionError):
    """The first bytes of a connection are not Kafka's."""

    def __init__(self, foreign: Foreign) -> None:
        super().__init__(foreign.event)
        self.foreign = foreign


def foreign_protocol(start: bytes) -> Foreign | None:
    """The other protocol that begins with these four bytes, if it is one that is known here."""
    if start.startswith(_TLS_HANDSHAKE):
        return TLS
    return HTTP if start in _HTTP_METHODS else None


def may_begin_tls(start: bytes) -> bool:
    """Whether a connection that begins with these bytes (at least one) may be a TLS client's."""
    return start[:2] == _TLS_HANDSHAKE[: len(start[:2])]


SCRATCH_BYTES = 4 * 1024
LARGEST_SCRATCH_BYTES = 64 * 1024
"""The buffer that a connection's small requests share; it grows once, when a client fills it."""

LARGE_STEP_BYTES = 1024 * 1024
"""The largest initial size of a larger request's own buffer: an announced size alone takes no memory."""

SIZE_BYTES = 4
"""The size (INT32, big-endian) that precedes each frame, and is not part of it."""

KEY_BYTES = 2
"""A frame begins with the API key."""


class FrameBuffer:
    """Frames of 0 to `max_frame_bytes` bytes, returned as views of the memory into which they were received.

    A view is valid until `next` or `reuse` is called.

    Attributes:
        has_more: more bytes have been received than those of the frames that `next` returned.
    """

    __slots__ = (
        "_end",
        "_large",
        "_large_end",
        "_large_size",
        "_scratch",
        "_start",
        "_view",
        "has_more",
        "max_frame_bytes",
    )

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._scratch = bytearray(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = 0  # first byte in the scratch buffer that has not been returned yet
        self._end = 0  # end of what was received into it
        self.has_more = False
        self._large: memoryview | None = None  # a frame too large for the scratch buffer, being received
        self._large_size = 0
        self._large_end = 0

    @property
    def is_waiting(self) -> bool:
        """Whether there are received bytes to look at; those of a large frame that has only begun do not count."""
        return self._large_end == self._large_size if self._large is not None else self._end > self._start

    @property
    def large_bytes(self) -> int:
        """The memory for a frame that is too large for the scratch buffer."""
        return 0 if self._large is None else len(self._large)

    # -- receiving

    def space(self) -> memoryview:
        """Where to put what comes next; empty only while a whole frame too large for the scratch buffer is waiting."""
        if self._large is not None:
            if self._large_end == len(self._large):
                self._grow_large()
            return self._large[self._large_end :]
        if self._end == len(self._scratch):
            self._renew_scratch()
        return self._view[self._end :] if self._end else self._view

    def received(self, count: int) -> bool:
        """Note `count` bytes that were put into `space()`. Returns whether they may have completed a frame."""
        if self._large is None:
            self._end += count
            return True
        self._large_end += count
        return self._large_end == self._large_size

    # -- returning frames

    def next_key(self) -> int | None:
        """The API key of the next frame, None until enough of it has arrived."""
        if self._large is not None:
            key = self._large[:KEY_BYTES]
        else:
            at = self._start + SIZE_BYTES
            if at + KEY_BYTES > self._end:
                return None
            key = self._view[at : at + KEY_BYTES]
        return int.from_bytes(key, "big")

    def next(self) -> memoryview | None:
        """The next whole frame, None until more has arrived. Raises CloseConnectionError for a size out of bounds."""
        if self._large is not None:
            return self._take_large()
        available = self._end - self._start
        if available < SIZE_BYTES:
            if available == 0:
                self._start = self._end = 0
            return None
        (size,) = INT32.unpack_from(self._scratch, self._start)
        if size < 0 or size > self.max_frame_bytes:
            foreign = foreign_protocol(bytes(self._scratch[self._start : self._start + SIZE_BYTES]))
            if foreign is not None:
                raise ForeignProtocolError(foreign)
            raise CloseConnectionError(f"frame of {size} bytes; 0 to {self.max_frame_bytes} are accepted")
        begin = self._start + SIZE_BYTES
        available -= SIZE_BYTES
        if size <= available:
            self.has_more = size < available
            self._start = end = begin + size
            return self._view[begin:end]
        if SIZE_BYTES + size > LARGEST_SCRATCH_BYTES:
            self._begin_large(size, begin)
        elif begin + size > len(self._scratch):
            self._renew_scratch()
        return None

    def reuse(self) -> bool:
        """Make room by reusing the memory of returned frames, if nothing else is there; return whether that is so."""
        if self._start != self._end or self._large is not None:
            return False
        self._start = self._end = 0
        return True

    def _take_large(self) -> memoryview | None:
        if self._large_end < self._large_size:
            return None
        frame, self._large, self.has_more = self._large, None, False
        return frame

    def _begin_large(self, size: int, begin: int) -> None:
        self._large = memoryview(bytearray(min(size, LARGE_STEP_BYTES)))
        self._large_size = size
        self._large_end = self._end - begin
        self._large[: self._large_end] = self._view[begin : self._end]
        self._start = self._end = 0

    def _grow_large(self) -> None:
        assert self._large is not None
        grown = memoryview(bytearray(min(self._large_size, 2 * len(self._large))))
        grown[: self._large_end] = self._large
        self._large = grown

    def _renew_scratch(self) -> None:
        """Go on in new memory: somebody may still be using a frame in the old."""
        scratch = bytearray(LARGEST_SCRATCH_BYTES)
        kept = self._end - self._start
        scratch[:kept] = self._scratch[self._start : self._end]
        self._scratch, self._view = scratch, memoryview(scratch)
        self._start, self._end = 0, kept
