"""Things to send to other brokers: one queue for each, and one request at a time (Kafka's `InterBrokerSendThread`).

Theory of operation. What is put into a broker's queue goes out at once if no request is on its way to that broker; else
it waits, and goes with all that came meanwhile in the next request. When a request is not answered, all that was in it
fails with NETWORK_EXCEPTION; whoever put it there decides whether to try again, maybe with another broker. So it does
when the broker is gone: nothing waits for the timeout of a request to a broker that the controller has fenced.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, Task
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from broker.peers.call import PeerError, PeerUnreachableError
from broker.peers.client import PeerClient
from protocol.errors import Network

logger = structlog.get_logger(__name__)

W = TypeVar("W")
R = TypeVar("R")

MOST_A_REQUEST = 2_000

Reach = Callable[[int], "PeerClient | None"]
"""The client of a broker by its id; None while its address is not known, or the broker is fenced."""


@dataclass(frozen=True, slots=True)
class Sent(Generic[W, R]):
    """One thing in a queue, and the answer to it.

    The answer to a request tells things apart by `key`: two with the same one share a request only if `alike` is the
    same too.
    """

    key: Hashable
    alike: Hashable
    what: W
    answer: Future[R]


class BrokerQueues(Generic[W, R]):
    """`exchange` sends one request with all the things that it is given, and sets their answers."""

    def __init__(self, reach: Reach, exchange: Callable[[PeerClient, Sequence[Sent[W, R]]], Awaitable[None]]) -> None:
        self._reach = reach
        self._exchange = exchange
        self._queues: dict[int, deque[Sent[W, R]]] = {}
        self._tasks: dict[int, Task[None]] = {}
        self._on_their_way: dict[int, Task[None]] = {}
        self._closed = False

    def put(self, broker_id: int, key: Hashable, alike: Hashable, what: W) -> Future[R]:
        """The answer of a broker to one thing; it fails with Network if there is none. See `Sent`."""
        answer: Future[R] = asyncio.get_running_loop().create_future()
        if self._closed:
            answer.set_exception(Network())
            return answer
        self._queues.setdefault(broker_id, deque()).append(Sent(key, alike, what, answer))
        if broker_id not in self._tasks:
            self._tasks[broker_id] = asyncio.create_task(self._send_all(broker_id), name=f"queue-{broker_id}")
        return answer

    def __len__(self) -> int:
        """How much waits to be sent."""
        return sum(map(len, self._queues.values()))

    def brokers_changed(self) -> None:
        """Give up the requests to brokers that are gone."""
        for broker_id, request in self._on_their_way.items():
            if self._reach(broker_id) is None:
                request.cancel()

    def close(self) -> None:
        """Send nothing more; what waits fails."""
        self._closed = True
        for request in self._on_their_way.values():
            request.cancel()
        for queue in self._queues.values():
            _fail(queue)
            queue.clear()

    async def _send_all(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        while queue:
            sent = _next(queue)
            request = self._on_their_way[broker_id] = asyncio.create_task(self._send(broker_id, sent))
            await asyncio.wait([request])
            del self._on_their_way[broker_id]
            _fail(sent)  # whatever has no answer
        del self._queues[broker_id], self._tasks[broker_id]  # at once: what comes next needs a new task

    async def _send(self, broker_id: int, sent: Sequence[Sent[W, R]]) -> None:
        try:
            client = self._reach(broker_id)
            if client is None:
                raise PeerUnreachableError(f"broker {broker_id} is not alive, or its address is not known")
            await self._exchange(client, sent)
        except PeerError as error:
            logger.warning("request to another broker not answered", broker=broker_id, error=str(error))
        except Exception:
            logger.exception("unexpected error in a request to another broker", broker=broker_id)


def _next(queue: deque[Sent[W, R]]) -> list[Sent[W, R]]:
    """Take what goes into one request from the front of the queue."""
    alike: dict[Hashable, Hashable] = {}
    taken: list[Sent[W, R]] = []
    left: list[Sent[W, R]] = []
    while queue and len(taken) < MOST_A_REQUEST:
        asked = queue.popleft()
        (taken if alike.setdefault(asked.key, asked.alike) == asked.alike else left).append(asked)
    queue.extendleft(reversed(left))
    return taken


def _fail(sent: Iterable[Sent[W, R]]) -> None:
    for asked in sent:
        if not asked.answer.done():
            asked.answer.set_exception(Network())
