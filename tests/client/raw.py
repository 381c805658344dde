"""Requests made by hand and a socket that speaks frames, for clients that no library would be."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 20.0

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


def header(api_key: int, version: int, correlation_id: int, client_id: str = "raw") -> bytes:
    """Request header 1: api key, version, correlation id, nullable client id."""
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id.encode()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def api_versions(correlation_id: int = 1) -> bytes:
    return frame(header(API_VERSIONS, 0, correlation_id))


def fetch(topic: str, correlation_id: int, max_bytes: int) -> bytes:
    """Fetch v4 of partition 0 from offset 0, answered at once."""
    name = topic.encode()
    body = struct.pack(">iiiib", -1, 0, 0, max_bytes, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return frame(header(FETCH, 4, correlation_id) + body)


class RawConnection:
    """A blocking socket with a time limit on every operation."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, correlation_id: int = 1) -> None:
        """An ApiVersions request and its whole answer; fails when the broker gives another one."""
        self.send(api_versions(correlation_id))
        assert self.read_frame()[:6] == struct.pack(">ih", correlation_id, 0)

    def is_closed_by_broker(self) -> bool:
        """True once the broker ends the connection; what it sends before is read and dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)


def resident_bytes(pid: int) -> int:
    """Resident memory now, from /proc."""
    return _status(pid, "VmRSS")


def peak_resident_bytes(pid: int) -> int:
    """The most it ever was."""
    return _status(pid, "VmHWM")


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)
