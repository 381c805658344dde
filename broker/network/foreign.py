"""Clients of other protocols on a listener: what they speak, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass

from broker.network.request import CloseConnectionError

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
