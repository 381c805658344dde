"""Connections to other nodes that a test cuts: as if the network between the nodes were gone.

Only the connections that this node opens are cut. To cut two nodes from each other, each is told of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from broker.peers.client import Connect

Address = tuple[str, int]


class Cuts:
    """Opens connections by `connect`, but none to an address that is cut."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._cut: frozenset[Address] = frozenset()
        self._open: dict[Any, Address] = {}

    @property
    def addresses(self) -> frozenset[Address]:
        """Return the addresses that are cut off."""
        return self._cut

    async def connect(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> tuple[Any, Any]:
        """See `broker.peers.client.Connect`. Raises OSError."""
        self._require_whole(host, port)
        transport, protocol = await self._connect(factory, host, port)
        self._forget_closed()
        self._open[transport] = (host, port)
        if (host, port) in self._cut:
            transport.abort()
        self._require_whole(host, port)
        return transport, protocol

    def cut(self, addresses: Iterable[Address]) -> None:
        """Cut these addresses, and no others from now on; open connections to them end."""
        self._cut = frozenset(addresses)
        self._forget_closed()
        for transport, address in self._open.items():
            if address in self._cut:
                transport.abort()

    def _require_whole(self, host: str, port: int) -> None:
        if (host, port) in self._cut:
            raise ConnectionRefusedError(f"the network to {host}:{port} is cut by a test")

    def _forget_closed(self) -> None:
        self._open = {each: address for each, address in self._open.items() if not each.is_closing()}
