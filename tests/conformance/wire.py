"""The smallest Kafka client there can be: one blocking socket, frames out, frames in, every wait bounded."""

from __future__ import annotations

import itertools
import socket
import struct
from dataclasses import dataclass
from typing import Any

from tests.conformance import schema

CLIENT_ID = "judge"


@dataclass(frozen=True, slots=True)
class Closed:
    """The broker closed the connection instead of answering."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing came within the time allowed, and the connection stayed open."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An answer: its bytes after the size prefix."""

    data: bytes


Outcome = Closed | Silent | Frame


class Wire:
    """One connection, maybe from an address of one's choice. `timeout` bounds each wait, in seconds."""

    def __init__(
        self, host: str, port: int, timeout: float = 3.0, client_id: str = CLIENT_ID, source: str | None = None
    ) -> None:
        self._client_id = client_id
        self._correlation = itertools.count(1)
        self._timeout = timeout
        self._sock = socket.create_connection(
            (host, port), timeout=5, source_address=None if source is None else (source, 0)
        )
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._sock.close()

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on reading."""
        self._sock.shutdown(socket.SHUT_WR)

    def send_bytes(self, data: bytes) -> bool:
        """Send as it is; False if the broker has closed already."""
        try:
            self._sock.sendall(data)
        except OSError:
            return False
        return True

    def send_frame(self, payload: bytes) -> bool:
        return self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send(self, request: schema.Request, *, client_id: str | None = CLIENT_ID, flexible: bool | None = None) -> int:
        """Send a request under its proper header (or, with `flexible`, the wrong one); return its correlation id."""
        correlation_id = next(self._correlation)
        if flexible is None:
            flexible = schema.request_header_is_flexible(request.api, request.version)
        key = schema.KEYS[request.api]
        self.send_frame(header(key, request.version, correlation_id, client_id, flexible) + request.body)
        return correlation_id

    def receive(self, timeout: float | None = None) -> Outcome:
        """The next frame, the close, or silence; bytes of a frame that never ends count as silence."""
        self._sock.settimeout(self._timeout if timeout is None else timeout)
        try:
            size = struct.unpack(">i", self._exactly(4))[0]
            return Frame(self._exactly(size))
        except TimeoutError:
            return Silent()
        except (EOFError, OSError):
            return Closed()

    def call(self, api: str, version: int, body: dict[str, Any], timeout: float | None = None) -> Any:
        """A request and its decoded answer, or `Closed` or `Silent`."""
        request = schema.encode_request(api, version, body)
        correlation_id = self.send(request, client_id=self._client_id)
        outcome = self.receive(timeout)
        return decode(outcome, api, version, correlation_id) if isinstance(outcome, Frame) else outcome

    def _exactly(self, n: int) -> bytes:
        out = bytearray()
        while len(out) < n:
            chunk = self._sock.recv(min(n - len(out), 1 << 20))
            if not chunk:
                raise EOFError
            out += chunk
        return bytes(out)


def header(key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool) -> bytes:
    """Request header version 1, or 2 where `flexible`."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", key, version, correlation_id) + name + (b"\x00" if flexible else b"")


def decode(frame: Frame, api: str, version: int, correlation_id: int) -> dict[str, Any]:
    """Check the response header and read the body; an answer that does not parse is told, not raised."""
    try:
        got = struct.unpack_from(">i", frame.data)[0]
        if got != correlation_id:
            return {"wrong_correlation_id": got - correlation_id}
        r = schema.Reader(frame.data[4:])
        if schema.response_header_is_flexible(api, version) and (tags := r.uvarint()):
            return {"header_tags": tags}
        return schema.decode_response(api, version, r.data[r.pos :])
    except (schema.TruncatedError, struct.error, UnicodeDecodeError) as exc:
        return {"unreadable": f"{type(exc).__name__} {exc}", "hex": frame.data[:200].hex()}
