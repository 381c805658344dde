"""Clients of other protocols on a listener: what they speak, what they are told, and one log line a minute of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from broker.network.request import CloseConnectionError

logger = structlog.get_logger(__name__)

REPEAT_MS = 60_000
MOST_REMEMBERED = 1_000
"""Clients of which a line was written lately; with more, only the newest count."""

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


class ForeignClients:
    """Logs clients of other protocols, each once a minute: a scanner, or a client that retries, fills no log."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._logged_ms: dict[tuple[str, str, str], float] = {}

    def note(self, foreign: Foreign, listener: str, client: str) -> None:
        key, now_ms = (foreign.event, listener, client), self._monotonic_ms()
        if now_ms - self._logged_ms.get(key, -REPEAT_MS) < REPEAT_MS:
            return
        self._logged_ms.pop(key, None)
        self._logged_ms[key] = now_ms
        if len(self._logged_ms) > MOST_REMEMBERED:
            del self._logged_ms[next(iter(self._logged_ms))]
        logger.warning(foreign.event, listener=listener, client=client, advice=foreign.advice)
