"""The network between the nodes of a simulated cluster: it delays, and links are cut."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.peers.call import Call, PeerDisconnectedError, PeerTimeoutError, PeerUnreachableError
from tests.doubles.clock import ManualClock

T = TypeVar("T")

Serve = Callable[[bytes], Awaitable[bytes]]
"""Answers a request's frame, without its size."""

MOST_DELAY_MS = 20


class Network:
    """Each node has an address, its id, as long as it is up. A message on a link that is cut is lost."""

    def __init__(self, clock: ManualClock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._servers: dict[int, Serve] = {}
        self._cut: set[frozenset[int]] = set()

    def up(self, node: int, serve: Serve) -> None:
        self._servers[node] = serve

    def down(self, node: int) -> None:
        self._servers.pop(node, None)

    def cut(self, one: int, other: int) -> None:
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        self._cut.clear()

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cut

    async def travel(self) -> None:
        """The time of a message on its way."""
        await self._clock.sleep(self._rng.uniform(0, MOST_DELAY_MS))

    async def ask(self, sender: int, receiver: int, frame: bytes) -> bytes:
        """The answer to a request. Raises PeerError, or never returns if a message is lost."""
        await self.travel()
        serve = self._servers.get(receiver)
        if serve is None:
            raise PeerUnreachableError(f"node {receiver} is down")
        if self.is_cut(sender, receiver):
            await asyncio.get_running_loop().create_future()
        answer = await serve(frame)
        if self._servers.get(receiver) is not serve:
            raise PeerDisconnectedError(f"node {receiver} went down")
        await self.travel()
        if self.is_cut(sender, receiver):
            await asyncio.get_running_loop().create_future()
        return answer


class Link:
    """A connection of one node to another (`broker.replication.cluster_access.Peer`)."""

    def __init__(self, network: Network, clock: ManualClock, sender: int, receiver: int, version_limit: int) -> None:
        self._network = network
        self._clock = clock
        self._ends = sender, receiver
        self._version_limit = version_limit
        self._waiting: dict[asyncio.Future[bytes], None] = {}
        self._closed = False

    async def send(self, call: Call[T], timeout_ms: float | None = None) -> T:
        if self._closed:
            raise PeerDisconnectedError("closed")
        version = min(call.highest, self._version_limit)
        frame = bytes(call.frame(version, 7, b"simulated")[4:])
        asking = asyncio.ensure_future(self._network.ask(*self._ends, frame))
        self._waiting[asking] = None
        timer = self._clock.call_later(timeout_ms or 30_000, asking.cancel)  # type: ignore[arg-type]
        try:
            await asyncio.wait([asking])
            if asking.cancelled():
                raise PeerTimeoutError(f"node {self._ends[1]} has not answered")
            return call.read(asking.result(), version)
        finally:
            timer.cancel()
            asking.cancel()
            del self._waiting[asking]

    def close(self) -> None:
        self._closed = True
        for asking in self._waiting:
            asking.cancel()
