"""What is asked of a connection's socket."""

from __future__ import annotations

import asyncio
import struct
from socket import SO_LINGER, SO_RCVBUF, SO_SNDBUF, SOL_SOCKET

NO_LINGER = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a closed socket resets its connection."""
DEFAULT_RECEIVE_BUFFER = 100 << 10


def reset(transport: asyncio.Transport) -> None:
    """Drop the connection and its unsent data, so that the client sees a reset and no orderly end."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(SOL_SOCKET, SO_LINGER, NO_LINGER)
    transport.abort()


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """The socket's descriptor; -1 if there is no socket."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def size_buffers(transport: asyncio.BaseTransport, send: int, receive: int) -> None:
    """Set the configured sizes of the socket's buffers.

    Kafka's small send buffer keeps the data sent within the CPU's cache, a quarter less work for a Fetch. Its small
    receive buffer would make a large Produce a third more work, so that default is not used.
    """
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    if send >= 0:
        sock.setsockopt(SOL_SOCKET, SO_SNDBUF, send)
    if receive not in (-1, DEFAULT_RECEIVE_BUFFER):
        sock.setsockopt(SOL_SOCKET, SO_RCVBUF, receive)
