"""The journal of a node: the last exchanges, connections and warnings, in one order."""

from __future__ import annotations

from itertools import count
from typing import Any

from broker.journal.entries import Client, ConnectionEvent, Entry, Exchange, Mark, Warned
from broker.journal.recorder import Recorder
from broker.logging import WARNINGS
from broker.network.connection import Connection
from broker.network.dispatch import Dispatcher
from broker.network.server import Server
from timing.clock import Clock


class Journal:
    """The journal, which is empty until `begin`.

    Its times are the machine's, as those of connections are: a test that moves the broker's clock, also back, changes
    neither the order of what has happened nor how long ago that was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock.machine
        self._marks = count(1)
        self.recorder = Recorder(_client)

    def begin(self, dispatcher: Dispatcher, server: Server) -> None:
        """Note everything from now on."""
        self.recorder.begin(dispatcher)
        server.on_connection = self._connection
        WARNINGS.listener = self._warned

    def _connection(self, connection: Connection, opened: bool) -> None:
        client = _client(connection) if opened else self.recorder.forget(connection)
        self.recorder.add(ConnectionEvent(self._clock.wall_ms(), client, opened))

    def _warned(self, level: str, event: dict[str, Any]) -> None:
        """Note a line of the log; any thread."""
        text = str(event.pop("event", ""))
        self.recorder.add(Warned(self._clock.wall_ms(), level, text, event))

    # -- reading

    def mark(self) -> int:
        """Put a mark, whose number stands for now."""
        mark = Mark(next(self._marks))
        self.recorder.add(mark)
        return mark.number

    def since(self, mark: int | None) -> list[Entry]:
        """The entries after the mark (None: all) that are still kept, in order."""
        found: list[Entry] = []
        for entry in self.recorder.entries(self._wall_from_monotonic_ms):
            if isinstance(entry, Mark):
                if entry.number == mark:
                    found.clear()
            elif not (isinstance(entry, Exchange) and entry.is_inspection):
                found.append(entry)
        return found

    @property
    def now_ms(self) -> float:
        """Now, in the time in which exchanges began."""
        return self._clock.monotonic_ms()

    def fetches(self) -> list[Exchange]:
        """The last Fetch of each open connection."""
        return self.recorder.fetches(self._wall_from_monotonic_ms)

    @property
    def _wall_from_monotonic_ms(self) -> float:
        return self._clock.wall_ms() - self._clock.monotonic_ms()


def _client(connection: Connection) -> Client:
    return Client(connection.client_host, connection.client_port, connection.listener_name)
