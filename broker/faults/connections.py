"""Faults of connections: refused, cut, slow, or silent ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.faults.spec import Counted, FaultError, Given
from broker.faults.transports import Slowed

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from broker.network.dispatch import Dispatcher
    from broker.network.server import Server
    from timing.clock import Clock


class ConnectionFaultKind(StrEnum):
    """The effect of a fault on a connection."""

    REFUSE = "refuse_connections"
    THROTTLE = "throttle"
    STALL = "stall"


class Direction(StrEnum):
    """The direction that is slow or silent."""

    BOTH = "both"
    REQUESTS = "requests"
    REPLIES = "replies"


@dataclass(eq=False, slots=True, kw_only=True)
class ConnectionFault(Counted):
    """A fault of connections; a selector that is None matches all. A hit is a connection that it struck."""

    kind: ConnectionFaultKind
    client_id: str | None = None
    listener: str | None = None
    bytes_per_second: float = 0
    direction: Direction = Direction.BOTH
    struck: dict[Connection, Slowed] = field(default_factory=dict)

    def matches(self, connection: Connection) -> bool:
        return (self.client_id is None or connection.client_id == self.client_id) and (
            self.listener is None or connection.listener_name == self.listener
        )


class ConnectionFaults:
    """Faults of the connections of one server.

    A connection is known to be a client's once its first request has named that.
    """

    def __init__(
        self,
        server: Server,
        dispatcher: Dispatcher,
        clock: Clock,
        new_id: Callable[[], str],
        listeners: Collection[str],
    ) -> None:
        self._server = server
        self._clock = clock
        self._new_id = new_id
        self._listeners = listeners
        self._by_id: dict[str, ConnectionFault] = {}
        dispatcher.note_clients(self._named)

    def __iter__(self) -> Iterator[ConnectionFault]:
        return iter(list(self._by_id.values()))

    def get(self, fault_id: str) -> ConnectionFault | None:
        return self._by_id.get(fault_id)

    def disconnect(self, given: Given) -> int:
        """Cut the connections of a client, on a listener; return how many."""
        self._check(given)
        chosen = _fault("", ConnectionFaultKind.REFUSE, given)
        cut = [connection for connection in self._server.connections if chosen.matches(connection)]
        for connection in cut:
            connection.reset()
        return len(cut)

    def set(self, kind: ConnectionFaultKind, given: Given) -> ConnectionFault:
        """Set a fault, also for the connections that there are, unless it refuses new ones. Raises FaultError."""
        self._check(given)
        fault = _fault(self._new_id(), kind, given)
        self._by_id[fault.id] = fault
        self._server.door = self._enters
        if kind is not ConnectionFaultKind.REFUSE:
            for connection in list(self._server.connections):
                self._slow(connection)
        return fault

    def remove(self, fault: ConnectionFault) -> None:
        """Remove a fault: what it held up goes on."""
        self._by_id.pop(fault.id, None)
        for slowed in fault.struck.values():
            slowed.lift()
        fault.struck.clear()
        if not self._by_id:
            self._server.door = None

    def _check(self, given: Given) -> None:
        listener = given.get("listener")
        if listener is not None and listener not in self._listeners:
            expected = ", ".join(sorted(self._listeners))
            raise FaultError(f"listener = {listener!r}: expected one of {expected}", "listener")

    # -- connections as they come

    def _enters(self, connection: Connection) -> bool:
        """Whether a new connection is let in."""
        for fault in self:
            if fault.kind is ConnectionFaultKind.REFUSE and fault.matches(connection):
                fault.hit()
                connection.reset()
                return False
        self._slow(connection)
        return True

    def _named(self, connection: Connection) -> None:
        """Note that a connection has a client id now, or another one."""
        if self._by_id:
            self._slow(connection)

    def _slow(self, connection: Connection) -> None:
        for fault in self:
            if (
                fault.kind is not ConnectionFaultKind.REFUSE
                and connection not in fault.struck
                and fault.matches(connection)
            ):
                fault.hit()
                connection.replace_transport(partial(self._slowed, fault, connection))

    def _slowed(self, fault: ConnectionFault, connection: Connection, transport: Any) -> Any:
        rate = fault.bytes_per_second
        both = fault.direction is Direction.BOTH
        slowed = fault.struck[connection] = Slowed(
            transport,
            transport.get_protocol(),
            self._clock,
            rate if both or fault.direction is Direction.REQUESTS else None,
            rate if both or fault.direction is Direction.REPLIES else None,
            lambda: fault.struck.pop(connection, None),
        )
        return slowed


def _fault(fault_id: str, kind: ConnectionFaultKind, given: Given) -> ConnectionFault:
    return ConnectionFault(
        id=fault_id,
        kind=kind,
        client_id=given.get("client_id"),
        listener=given.get("listener"),
        bytes_per_second=given["bytes_per_second"] if kind is ConnectionFaultKind.THROTTLE else 0,
        direction=Direction(given.get("direction", Direction.BOTH)),
    )
