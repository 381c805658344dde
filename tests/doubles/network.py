"""A network in memory: nodes listen under an address, and connections between them are two transports joined.

What one end writes, the other gets in a later turn of the loop, in order. Nothing takes time but the `delay_ms` that a
test sets, by its clock.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any

from timing.clock import Clock

Address = tuple[str, int]

FIRST_PORT = 50_000
"""From here on the ports are from which clients connect."""


class VirtualNetwork:
    """Where nodes listen, and the connections between them.

    Attributes:
        delay_ms: how long data and closing take from one end to the other.
        connections: all that were opened, the client's end of each.
        dead: hosts that open no connection.
        hangs: addresses where a connection is never answered, as behind a firewall that drops packets.
    """

    def __init__(self, clock: Clock, delay_ms: float = 0) -> None:
        self.clock = clock
        self.delay_ms = delay_ms
        self.connections: list[End] = []
        self.dead: set[str] = set()
        self.hangs: set[Address] = set()
        self._ports = 0
        self._listening: dict[Address, Callable[[], asyncio.BaseProtocol]] = {}

    def listen(self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._listening[host, port] = factory

    def listens(self, host: str, port: int) -> bool:
        return (host, port) in self._listening

    def stop_listening(self, host: str, port: int) -> None:
        """Refuse new connections; those that are open stay."""
        self._listening.pop((host, port), None)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, origin: str = "client.example"
    ) -> tuple[Any, Any]:
        """As `loop.create_connection`, from the host `origin`."""
        await asyncio.sleep(0)
        if (host, port) in self.hangs or origin in self.dead:
            await asyncio.get_running_loop().create_future()
        if (host, port) not in self._listening:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._ports += 1
        client = End(self, factory(), (host, port))
        server = End(self, self._listening[host, port](), (origin, FIRST_PORT + self._ports))
        client.other, server.other = server, client
        self.connections.append(client)
        server.protocol.connection_made(server)
        client.protocol.connection_made(client)
        return client, client.protocol

    def cut(self) -> None:
        """End every connection with an error, at both ends."""
        for end in self.connections:
            end.reset()
        self.connections.clear()

    def kill(self, host: str) -> None:
        """The host is gone: its connections end, and it opens none any more, until it is taken out of `dead`."""
        self.dead.add(host)
        for address in [known for known in self._listening if known[0] == host]:
            del self._listening[address]
        self.cut_host(host)

    def cut_host(self, host: str) -> None:
        """End the connections from and to a host with an error."""
        for end in [each for each in self.connections if host in (each.peer[0], each.other.peer[0])]:
            self.connections.remove(end)
            end.reset()


class End(asyncio.Transport):
    """One end of a connection."""

    other: End

    def __init__(self, network: VirtualNetwork, protocol: asyncio.BaseProtocol, peer: Address) -> None:
        super().__init__({"peername": peer})
        self.protocol = protocol
        self.peer = peer
        self._network = network
        self._closing = False
        self._lost = False
        self._reading = True
        self._arrived = bytearray()

    # -- what the protocol calls

    def write(self, data: Any) -> None:
        if not self._closing:
            copied = bytes(data)
            self._later(lambda: self.other.arrive(copied))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.lose, None)
            self._later(lambda: self.other.lose(None))

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    # -- what the network calls

    def arrive(self, data: bytes) -> None:
        self._arrived += data
        self._deliver()

    def reset(self) -> None:
        """End the connection with an error, at both ends."""
        self.lose(ConnectionResetError())
        self.other.lose(ConnectionResetError())

    def lose(self, error: Exception | None) -> None:
        self._closing = True
        if not self._lost:
            self._lost = True
            self.protocol.connection_lost(error)

    def _later(self, callback: Callable[[], None]) -> None:
        if self._network.delay_ms:
            self._network.clock.call_later(self._network.delay_ms, callback)
        else:
            asyncio.get_running_loop().call_soon(callback)

    def _deliver(self) -> None:
        if self._closing or not self._reading or not self._arrived:
            return
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            while self._arrived and self._reading and not self._closing:
                buffer = memoryview(self.protocol.get_buffer(-1))
                count = min(len(buffer), len(self._arrived))
                buffer[:count] = self._arrived[:count]
                del self._arrived[:count]
                self.protocol.buffer_updated(count)
        else:
            data = bytes(self._arrived)
            self._arrived.clear()
            assert isinstance(self.protocol, asyncio.Protocol)
            self.protocol.data_received(data)
