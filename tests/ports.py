"""Ports for processes whose address has to be known before they listen."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

CHOSEN_FROM = range(15_000, 32_768)
"""Below the ports that Linux gives to outgoing connections: one of those could take a port before its process does, or
while that is restarted; a client that tries again and again could even connect to itself."""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 on which nothing listens now."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", random.choice(CHOSEN_FROM)))
            except OSError:  # it is taken
                continue
            found.append(probe.getsockname()[1])
    return found


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
