"""What the journal keeps: a request with its answer, a connection's begin or end, a warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from broker.peers.client import INSPECTION_CLIENT_ID

CLIENT_ID_AT = 8
"""Where the client id begins in a request without its size, with its length."""

_INSPECTION = len(INSPECTION_CLIENT_ID).to_bytes(2, "big") + INSPECTION_CLIENT_ID.encode()


class Outcome(Enum):
    """What became of a request."""

    WAITING = "waiting"
    ANSWERED = "answered"
    NOT_ANSWERED = "not answered"
    """A Produce with acks=0, one whose answer a fault has lost, or one whose client did not wait."""
    CLOSED = "connection closed"


class Client(NamedTuple):
    """A connection's other end."""

    host: str
    port: int
    listener: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. Times are ms: `at_ms` of the wall clock, `began_ms` of the monotonic one.

    `request` is the frame without its size, whole if `size` is its length. `answer` is the frame with its size, None if
    there is none or it was not kept. `took_ms` is None for a request that did not have to wait, or still does.
    """

    at_ms: float
    began_ms: float
    client: Client
    request: bytes
    size: int
    outcome: Outcome
    answer: bytes | None
    answer_size: int
    took_ms: float | None
    error: str | None

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.request[:2], "big")

    @property
    def is_inspection(self) -> bool:
        """Whether it is a question of another broker, for somebody who looks at the cluster."""
        return self.request.startswith(_INSPECTION, CLIENT_ID_AT)

    @property
    def is_whole(self) -> bool:
        return len(self.request) == self.size


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A connection that was opened, or is gone."""

    at_ms: float
    client: Client
    opened: bool


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of the log, of level warning or above."""

    at_ms: float
    level: str
    text: str
    fields: Mapping[str, Any]


class Mark(NamedTuple):
    """Divides the entries: what comes after it is later."""

    number: int


Entry = Exchange | ConnectionEvent | Warned
