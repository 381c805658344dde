"""What the journal keeps: a request with its answer, a connection's begin or end, a warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from broker.network.dispatch import Buffers
from protocol.primitives import UnreadBytes

LONGEST_REQUEST = 64 << 10
"""Of a larger request only its first bytes are kept, with the header."""
HEADER_BYTES = 512
LONGEST_ANSWER = 32 << 10
"""Of a larger answer only the size is kept."""


class Outcome(Enum):
    """What became of a request."""

    WAITING = "waiting"
    ANSWERED = "answered"
    NOT_ANSWERED = "not answered"
    """A Produce with acks=0, or one whose answer a fault has lost."""
    CLOSED = "connection closed"


class Client(NamedTuple):
    """A connection's other end."""

    host: str
    port: int
    listener: str


class Exchange:
    """A request and its answer. Times are ms: `at_ms` of the wall clock, `began_ms` of the monotonic one.

    `request` is the frame without its size, whole if `size` is its length. `answer` is the frame with its size, None if
    there is none or it was not kept.
    """

    __slots__ = (
        "answer",
        "answer_size",
        "at_ms",
        "began_ms",
        "client",
        "error",
        "outcome",
        "request",
        "sequence",
        "size",
        "took_ms",
    )

    def __init__(self, sequence: int, at_ms: int, began_ms: float, client: Client, frame: memoryview) -> None:
        self.sequence = sequence
        self.at_ms = at_ms
        self.began_ms = began_ms
        self.client = client
        self.size = len(frame)
        self.request = bytes(frame if self.size <= LONGEST_REQUEST else frame[:HEADER_BYTES])
        self.outcome = Outcome.WAITING
        self.answer: bytes | bytearray | None = None
        self.answer_size = 0
        self.took_ms = 0.0
        self.error: str | None = None

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.request[:2], "big")

    @property
    def is_whole(self) -> bool:
        return len(self.request) == self.size

    @property
    def kept_bytes(self) -> int:
        return len(self.request) + len(self.answer or b"")

    def answered(self, buffers: Buffers | None, now_ms: float) -> None:
        self.took_ms = now_ms - self.began_ms
        if buffers is None:
            self.outcome = Outcome.NOT_ANSWERED
            return
        self.outcome = Outcome.ANSWERED
        if not isinstance(buffers, list):
            self.answer_size = len(buffers)
            self.answer = buffers if self.answer_size <= LONGEST_ANSWER else None
            return
        self.answer_size = sum(map(len, buffers))
        if self.answer_size <= LONGEST_ANSWER and not any(isinstance(part, UnreadBytes) for part in buffers):
            self.answer = b"".join(buffers)

    def closed(self, error: str | None, now_ms: float) -> None:
        self.took_ms = now_ms - self.began_ms
        self.outcome = Outcome.CLOSED
        self.error = error


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A connection that was opened, or is gone."""

    sequence: int
    at_ms: int
    client: Client
    opened: bool


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of the log, of level warning or above."""

    sequence: int
    at_ms: int
    level: str
    text: str
    fields: Mapping[str, Any]


Entry = Exchange | ConnectionEvent | Warned
