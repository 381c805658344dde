"""The ring of the last requests and answers: what is done for each of them, and nothing more.

How it works: the recorder is put around the dispatcher, and so sees each frame before it is handled, and its answer,
now or later. For each request it keeps a `Raw`: the frame, copied as the receive buffer is used again, and the
answer's buffers. It is a microsecond or two of work in all, so whatever can be found out later is: no clock is read, as
a connection knows when its data arrived and when its wait ended, and nothing is numbered. A mark is an entry of its
own.

Each entry is small, and there are only so many: that bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from broker.journal.entries import Client, ConnectionEvent, Entry, Exchange, Mark, Outcome, Warned
from broker.network.dispatch import Buffers, Dispatcher, Pending
from broker.network.request import CloseConnectionError
from protocol.primitives import UnreadBytes

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

OTHERS = (ConnectionEvent, Warned, Mark)
"""Entries that are no requests."""


class Recorder:
    """`client_of` is asked once per connection. Other entries than exchanges may be added by any thread."""

    def __init__(self, client_of: Callable[[Any], Client]) -> None:
        self._client_of = client_of
        self.ring: deque[Any] = deque(maxlen=MOST_ENTRIES)
        self.clients: dict[Any, Client] = {}
        self._fetches: dict[Any, Raw] = {}

    def add(self, entry: ConnectionEvent | Warned | Mark) -> None:
        self.ring.append(entry)

    def forget(self, connection: Any) -> Client:
        """The connection is gone."""
        self._fetches.pop(connection, None)
        client = self.clients.pop(connection, None)
        return self._client_of(connection) if client is None else client

    def _client(self, connection: Any) -> Client:
        client = self.clients.get(connection)
        if client is None:
            client = self.clients[connection] = self._client_of(connection)
        return client

    def begin(self, dispatcher: Dispatcher) -> None:
        """Keep every request from now on."""
        handle, append, clients, fetches = dispatcher.dispatch, self.ring.append, self.clients, self._fetches

        def dispatch(connection: Any, frame: memoryview) -> Buffers | Pending | None:
            size = len(frame)
            request = bytes(frame) if size <= LONGEST else bytes(frame[:HEADER_BYTES])
            try:
                result = handle(connection, frame)
            except CloseConnectionError as error:
                append((connection.last_active_ms, self._client(connection), request, size, str(error), None))
                raise
            if result.__class__ is bytearray and len(result) <= LONGEST and connection in clients:
                append((connection.last_active_ms, clients[connection], request, size, result, None))
                return result
            client = self._client(connection)
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

    # -- reading

    def entries(self, wall_from_monotonic_ms: float) -> list[Entry | Mark]:
        """What is kept, the oldest first."""
        return [
            entry if isinstance(entry, OTHERS) else _exchange(entry, wall_from_monotonic_ms)
            for entry in list(self.ring)
        ]

    def fetches(self, wall_from_monotonic_ms: float) -> list[Exchange]:
        """The last Fetch of each open connection."""
        return [_exchange(raw, wall_from_monotonic_ms) for raw in self._fetches.values()]


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
