"""The container's health check: exit status 0 when the broker answers at the address that it says it listens on.

It asks /healthz, or, where HTTP is off, a listener for its API versions. No proxy is in between, whatever `http_proxy`
says.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import sys
from pathlib import Path

TIMEOUT_S = 4.0
EVERY_ADDRESS = ("", "0.0.0.0", "::")
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request with correlation id 1 and no client id."""


def ready_file() -> Path:
    """Where `serve.sh` has the broker write its addresses."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    return Path(folder if os.access(folder, os.W_OK) else "/dev/shm", "odradek-ready.json")


def local(host: str) -> str:
    """The host to connect to for one that is listened on."""
    return "127.0.0.1" if host in EVERY_ADDRESS else host


def ask_http(host: str, port: int) -> str | None:
    """What is wrong; None if /healthz has status 200."""
    connection = http.client.HTTPConnection(local(host), port, timeout=TIMEOUT_S)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    return None if answer.status == http.HTTPStatus.OK else f"/healthz has status {answer.status}"


def ask_kafka(listener: str) -> str | None:
    """What is wrong; None if the listener `NAME://host:port` answers."""
    host, _, port = listener.partition("://")[2].rpartition(":")
    with socket.create_connection((local(host.strip("[]")), int(port)), TIMEOUT_S) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.sendall(API_VERSIONS_V0)
        answer = connection.recv(8)
    return None if answer[4:8] == struct.pack(">i", 1) else f"{listener} gave no answer"


def main() -> str | None:
    """What is wrong with the broker; None if it serves."""
    try:
        told = json.loads(ready_file().read_text())
        if told["http"] is not None:
            return ask_http(told["http_host"], told["http"])
        return ask_kafka(told["bound"].split(",")[0])
    except FileNotFoundError:
        return "the broker has not said yet that it is ready"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from the broker: {error}"


if __name__ == "__main__":
    sys.exit(main())
