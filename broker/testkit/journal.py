"""The journal: the last requests with their answers, connections and warnings of a node, in one order.

It exists only where the control interface is open. It is put around the dispatcher, and so sees each frame
before it is handled, and its answer, now or later. For each request it keeps a `Raw`: the frame, copied as the receive
buffer is used again, and the answer's buffers. It is a microsecond or two of work in all, so whatever can be found out
later is: no clock is read, as a connection knows when its data arrived and when its wait ended, nothing is numbered (a
mark is an entry of its own), and nothing is decoded before somebody asks.

Each entry is small, and there are only so many: that bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from broker.logging import WARNINGS
from broker.network.connection import Connection
from broker.network.dispatch import Buffers, Dispatcher, Pending
from broker.network.request import CloseConnectionError
from broker.network.server import Server
from broker.node import Node
from broker.peers.client import INSPECTION_CLIENT_ID
from protocol.primitives import UnreadBytes
from timing.clock import Clock

CLIENT_ID_AT = 8
"""Where the client id begins in a request without its size, with its length."""

_INSPECTION = len(INSPECTION_CLIENT_ID).to_bytes(2, "big") + INSPECTION_CLIENT_ID.encode()


class Outcome(Enum):
    """What became of a request."""

    WAITING = "waiting"
    ANSWERED = "answered"
    NOT_ANSWERED = "not answered"
    """A Produce with acks=0, one whose answer a fault has lost, or one whose client did not wait."""
    CLOSED = "connection closed"


class Client(NamedTuple):
    """A connection's other end."""

    host: str
    port: int
    listener: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. Times are ms: `at_ms` of the wall clock, `began_ms` of the monotonic one.

    `request` is the frame without its size, whole if `size` is its length. `answer` is the frame with its size, None if
    there is none or it was not kept. `took_ms` is None for a request that did not have to wait, or still does.
    """

    at_ms: float
    began_ms: float
    client: Client
    request: bytes
    size: int
    outcome: Outcome
    answer: bytes | None
    answer_size: int
    took_ms: float | None
    error: str | None

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.request[:2], "big")

    @property
    def is_inspection(self) -> bool:
        """Whether it is a question of another broker, for somebody who looks at the cluster."""
        return self.request.startswith(_INSPECTION, CLIENT_ID_AT)

    @property
    def is_whole(self) -> bool:
        return len(self.request) == self.size


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A connection that was opened, or is gone."""

    at_ms: float
    client: Client
    opened: bool


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of the log, of level warning or above."""

    at_ms: float
    level: str
    text: str
    fields: Mapping[str, Any]


class Mark(NamedTuple):
    """Divides the entries: what comes after it is later."""

    number: int


Entry = Exchange | ConnectionEvent | Warned


MOST_ENTRIES = 1000
LONGEST = 16 << 10
"""The largest request and answer that are kept: of larger requests the first bytes are, of answers the size."""
LONGEST_FETCHED = 1 << 10
"""The largest Fetch answer that is kept; of larger ones the size is. Records would take most of the memory."""
HEADER_BYTES = 512

FETCH = b"\x00\x01"

Raw = list[Any] | tuple[Any, ...]
"""Arrived ms, client, request's bytes, request's size, answer, ended ms; a list if the answer is still to come. The
answer is Outcome.WAITING, None if there is none, buffers, their size, or, if the connection was closed, why (a str)."""

ANSWER, ENDED = 4, 5


class Journal:
    """The journal, which is empty until `begin`. Any thread may add entries that are no exchanges.

    Its times are the machine's, as those of connections are: a test that moves the broker's clock, also back, changes
    neither the order of what has happened nor how long ago that was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock.machine
        self._marks = count(1)
        self.ring: deque[Any] = deque(maxlen=MOST_ENTRIES)
        self.clients: dict[Any, Client] = {}
        self._fetches: dict[Any, Raw] = {}

    def begin(self, dispatcher: Dispatcher, server: Server) -> None:
        """Note everything from now on."""
        server.on_connection = self._connection
        WARNINGS.listener = self._warned
        handle, append, client_of, fetches = dispatcher.dispatch, self.ring.append, self._client, self._fetches
        clients = self.clients

        def dispatch(connection: Any, frame: memoryview) -> Buffers | Pending | None:
            size = len(frame)
            request = bytes(frame) if size <= LONGEST else bytes(frame[:HEADER_BYTES])
            try:
                result = handle(connection, frame)
            except CloseConnectionError as error:
                append((connection.last_active_ms, client_of(connection), request, size, str(error), None))
                raise
            if result.__class__ is bytearray and len(result) <= LONGEST and connection in clients:
                append((connection.last_active_ms, clients[connection], request, size, result, None))
                return result
            client = client_of(connection)
            if isinstance(result, Pending):
                coming = [connection.last_active_ms, client, request, size, Outcome.WAITING, None]
                result.finish = partial(_finish, coming, connection, result.finish)
                raw: Raw = coming
            else:
                raw = (connection.last_active_ms, client, request, size, _kept(result), None)
            append(raw)
            if request.startswith(FETCH):  # its answer has several parts, or comes later
                fetches[connection] = raw
            return result

        dispatcher.dispatch = dispatch

    def _client(self, connection: Connection) -> Client:
        client = self.clients.get(connection)
        if client is None:
            client = self.clients[connection] = _client(connection)
        return client

    def _connection(self, connection: Connection, opened: bool) -> None:
        client = None
        if not opened:
            self._fetches.pop(connection, None)
            client = self.clients.pop(connection, None)
        self.ring.append(ConnectionEvent(self._clock.wall_ms(), client or _client(connection), opened))

    def _warned(self, level: str, event: dict[str, Any]) -> None:
        """Note a line of the log; any thread."""
        text = str(event.pop("event", ""))
        self.ring.append(Warned(self._clock.wall_ms(), level, text, event))

    # -- reading

    def mark(self) -> int:
        """Put a mark, whose number stands for now."""
        mark = Mark(next(self._marks))
        self.ring.append(mark)
        return mark.number

    def since(self, mark: int | None) -> list[Entry]:
        """The entries after the mark (None: all) that are still kept, in order."""
        entries: list[Entry] = []
        wall_from_monotonic_ms = self._wall_from_monotonic_ms
        for entry in list(self.ring):
            if isinstance(entry, Mark):
                if entry.number == mark:
                    entries.clear()
            elif isinstance(entry, ConnectionEvent | Warned):
                entries.append(entry)
            elif not (exchange := _exchange(entry, wall_from_monotonic_ms)).is_inspection:
                entries.append(exchange)
        return entries

    @property
    def now_ms(self) -> float:
        """Now, in the time in which exchanges began."""
        return self._clock.monotonic_ms()

    def fetches(self) -> list[Exchange]:
        """The last Fetch of each open connection."""
        wall_from_monotonic_ms = self._wall_from_monotonic_ms
        return [_exchange(raw, wall_from_monotonic_ms) for raw in self._fetches.values()]

    @property
    def _wall_from_monotonic_ms(self) -> float:
        return self._clock.wall_ms() - self._clock.monotonic_ms()


def _finish(raw: list[Any], connection: Any, finish: Callable[[], Buffers | None]) -> Buffers | None:
    raw[ENDED] = connection.last_active_ms
    try:
        answer = finish()
    except CloseConnectionError as error:
        raw[ANSWER] = str(error)
        raise
    raw[ANSWER] = _kept(answer)
    return answer


def _kept(answer: Buffers | None) -> Any:
    if answer is None:
        return None
    if isinstance(answer, list):
        size, longest = sum(map(len, answer)), LONGEST_FETCHED
    else:
        size, longest = len(answer), LONGEST
    return answer if size <= longest else size


def _exchange(raw: Raw, wall_from_monotonic_ms: float) -> Exchange:
    arrived_ms, client, request, size, answer, ended_ms = raw
    outcome, whole, answer_size, error = Outcome.ANSWERED, None, 0, None
    match answer:
        case Outcome():
            outcome = answer
        case None:
            outcome = Outcome.NOT_ANSWERED
        case str():
            outcome, error = Outcome.CLOSED, answer
        case int():
            answer_size = answer
        case list():
            answer_size, whole = sum(map(len, answer)), _joined(answer)
        case _:
            answer_size, whole = len(answer), bytes(answer)
    return Exchange(
        at_ms=arrived_ms + wall_from_monotonic_ms,
        began_ms=arrived_ms,
        client=client,
        request=request,
        size=size,
        outcome=outcome,
        answer=whole,
        answer_size=answer_size,
        took_ms=None if ended_ms is None else ended_ms - arrived_ms,
        error=error,
    )


def _joined(parts: Iterable[Any]) -> bytes | None:
    """The parts in one piece; None if some are still in a file."""
    parts = list(parts)
    return None if any(isinstance(part, UnreadBytes) for part in parts) else b"".join(parts)


def _client(connection: Connection) -> Client:
    return Client(connection.client_host, connection.client_port, connection.listener_name)


_journals: WeakKeyDictionary[Node, Journal] = WeakKeyDictionary()


def begin_journal(node: Node) -> Journal:
    """Have the node keep a journal from now on."""
    journal = _journals[node] = Journal(node.local.clock)
    journal.begin(node.dispatcher, node.server)
    return journal


def journal_of(node: Node) -> Journal | None:
    """The node's journal; None if it keeps none, as where there is no control interface."""
    return _journals.get(node)
