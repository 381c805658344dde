"""The journal: a ring of the last exchanges, connections and warnings.

How it works: it is put around the dispatcher, and so sees each frame before it is handled, and its answer, now or
later. It copies the frame, since the receive buffer is used again, and keeps the answer's buffer. The oldest entries
are dropped when there are too many, or too many bytes. Besides, it keeps the last Fetch of each connection, since who
reads nothing is what tests ask about most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import count
from typing import Any

from broker.journal.entries import Client, ConnectionEvent, Entry, Exchange, Warned
from broker.logging import WARNINGS
from broker.network.connection import Connection
from broker.network.dispatch import Buffers, Dispatcher, Pending
from broker.network.request import CloseConnectionError
from broker.network.server import Server
from timing.clock import Clock

MOST_EXCHANGES = 2000
MOST_BYTES = 8 << 20
MOST_EVENTS = 500
"""Connection events, and warnings: so many of each."""

FETCH = b"\x00\x01"


class Journal:
    """The journal of one node, from `begin` to `end`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sequence = count(1)
        self._last = 0
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0
        self._connections: deque[ConnectionEvent] = deque(maxlen=MOST_EVENTS)
        self._warnings: deque[Warned] = deque(maxlen=MOST_EVENTS)
        self._clients: dict[Any, Client] = {}
        self.fetches: dict[Any, Exchange] = {}
        """The last Fetch of each open connection."""

    # -- writing

    def begin(self, dispatcher: Dispatcher, server: Server) -> None:
        """Note everything from now on."""
        handle = dispatcher.dispatch
        dispatcher.dispatch = lambda connection, frame: self._dispatch(handle, connection, frame)
        server.on_connection = self._connection
        WARNINGS.listener = self._warned

    def _dispatch(self, handle: Any, connection: Any, frame: memoryview) -> Buffers | Pending | None:
        clock = self._clock
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = _client(connection)
        self._last = sequence = next(self._sequence)
        exchange = Exchange(sequence, clock.wall_ms(), clock.monotonic_ms(), client, frame)
        self._exchanges.append(exchange)
        self._bytes += len(exchange.request)
        if exchange.request[:2] == FETCH:
            self.fetches[connection] = exchange
        try:
            result: Buffers | Pending | None = handle(connection, frame)
        except CloseConnectionError as error:
            exchange.closed(str(error), clock.monotonic_ms())
            raise
        if isinstance(result, Pending):
            finish = result.finish
            result.finish = lambda: self._finish(exchange, finish)
        else:
            self._answered(exchange, result)
        return result

    def _finish(self, exchange: Exchange, finish: Any) -> Buffers | None:
        try:
            answer: Buffers | None = finish()
        except CloseConnectionError as error:
            exchange.closed(str(error), self._clock.monotonic_ms())
            raise
        self._answered(exchange, answer)
        return answer

    def _answered(self, exchange: Exchange, answer: Buffers | None) -> None:
        exchange.answered(answer, self._clock.monotonic_ms())
        kept = exchange.answer
        if kept is not None and self._exchanges and exchange.sequence >= self._exchanges[0].sequence:
            self._bytes += len(kept)
        while len(self._exchanges) > MOST_EXCHANGES or self._bytes > MOST_BYTES:
            self._bytes -= self._exchanges.popleft().kept_bytes

    def _connection(self, connection: Connection, opened: bool) -> None:
        if opened:
            client = self._clients[connection] = _client(connection)
        else:
            client = self._clients.pop(connection) if connection in self._clients else _client(connection)
            self.fetches.pop(connection, None)
        self._last = sequence = next(self._sequence)
        self._connections.append(ConnectionEvent(sequence, self._clock.wall_ms(), client, opened))

    def _warned(self, level: str, event: dict[str, Any]) -> None:
        """Note a line of the log; any thread."""
        text = str(event.pop("event", ""))
        self._warnings.append(Warned(next(self._sequence), self._clock.wall_ms(), level, text, event))

    # -- reading

    @property
    def mark(self) -> int:
        """The number of the last entry; `since` it, there is nothing."""
        last = self._warnings[-1].sequence if self._warnings else 0
        return max(self._last, last)

    def since(self, mark: int) -> Iterator[Entry]:
        """The entries after the mark that are still kept, in order."""
        parts: tuple[deque[Any], ...] = (self._exchanges, self._connections, self._warnings)
        for entry in merge(*map(list, parts), key=_sequence):
            if entry.sequence > mark:
                yield entry


def _sequence(entry: Entry) -> int:
    return entry.sequence


def _client(connection: Connection) -> Client:
    return Client(connection.client_host, connection.client_port, connection.listener_name)
