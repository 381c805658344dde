"""Asks the brokers' addresses before Spark starts: a wrong one is told at once, and not after ten attempts."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping

import click

TOTAL_S = 8.0
"""How long all addresses together are tried."""

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request with correlation id 1 and no client id, which every broker answers."""


class NotReachable(click.ClickException):
    """No address given with --bootstrap leads to a broker. Exit status 1."""


def require_brokers(bootstrap: str, client: Mapping[str, str]) -> None:
    """Return once one address answers; `client` is the Kafka client's configuration, without prefixes.

    A listener with TLS or SASL is only connected to. Raises NotReachable with what was tried.
    """
    plain = client.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    deadline = time.monotonic() + TOTAL_S
    tried: list[str] = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        problem = _problem(address, plain, deadline)
        if problem is None:
            return
        tried.append(f"{address}: {problem}")
    raise NotReachable(f"no broker answers at --bootstrap {bootstrap}\n  " + "\n  ".join(tried or ["no address given"]))


def _problem(address: str, plain: bool, deadline: float) -> str | None:
    """Why an address leads to no broker; None if it does."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return "expected HOST:PORT"
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, OverflowError) as error:
        return f"the name is not known ({error})"
    problems = []
    for family, kind, protocol, _, place in found:
        left = max(0.2, (deadline - time.monotonic()) / 2)
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.settimeout(left)
                connection.connect(place)
                if not plain or _is_kafka(connection):
                    return None
                problems.append(f"{place[0]} is no Kafka listener without TLS (set security.protocol?)")
        except OSError as error:
            problems.append(f"{place[0]} {error.strerror or error}")
    return ", ".join(problems)


def _is_kafka(connection: socket.socket) -> bool:
    connection.sendall(API_VERSIONS_V0)
    return connection.recv(8, socket.MSG_WAITALL)[4:8] == struct.pack(">i", 1)
