"""The faults that are set on a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from broker.faults.connections import ConnectionFault, ConnectionFaults
from broker.faults.injection import Around, Injection
from broker.faults.registry_calls import RegistryFault, RegistryFaults
from broker.faults.spec import Fault, Given, fault_spec
from protocol.api.table import API_BY_NAME

if TYPE_CHECKING:
    from broker.network.dispatch import Dispatcher
    from broker.network.server import Server

MOST_REMOVED = 100
"""How many of the faults that were removed last are kept: a test may look at them at its end."""


AnyFault = Fault | ConnectionFault | RegistryFault


class Faults:
    """Sets faults and removes them. While an API has none, its requests go straight to its handler.

    Attributes:
        around: what faults use of the node.
        connections: faults of connections.
        registry: faults of the schema registry.
    """

    def __init__(self, dispatcher: Dispatcher, server: Server, around: Around, listeners: Collection[str]) -> None:
        self.around = around
        self.connections = ConnectionFaults(server, dispatcher, around.clock, around.new_id, listeners)
        self.registry = RegistryFaults(around.new_id)
        self._dispatcher = dispatcher
        self._listeners = listeners
        self._by_id: dict[str, Fault] = {}
        self._injections: dict[str, Injection] = {}
        self._removed: dict[str, AnyFault] = {}

    def __iter__(self) -> Iterator[AnyFault]:
        yield from list(self._by_id.values())
        yield from self.connections
        yield from self.registry

    def set(self, given: Given) -> Fault:
        """Set a fault of requests. Raises FaultError for one that could never match."""
        fault = Fault(id=self.around.new_id(), spec=fault_spec(given, self._listeners))
        self._by_id[fault.id] = fault
        for api in fault.spec.apis:
            self._injection(api).faults.append(fault)
        return fault

    def get(self, fault_id: str) -> AnyFault | None:
        """A fault that is set, or was removed not long ago."""
        return (
            self._by_id.get(fault_id)
            or self.connections.get(fault_id)
            or self.registry.get(fault_id)
            or self._removed.get(fault_id)
        )

    def remove(self, fault: AnyFault) -> None:
        """Remove a fault; requests that it has struck already are not spared."""
        if fault.removed:
            return
        fault.removed = True
        self._removed[fault.id] = fault
        if len(self._removed) > MOST_REMOVED:
            del self._removed[next(iter(self._removed))]
        if isinstance(fault, ConnectionFault):
            self.connections.remove(fault)
        elif isinstance(fault, RegistryFault):
            self.registry.remove(fault)
        else:
            self._remove(fault)

    def _remove(self, fault: Fault) -> None:
        del self._by_id[fault.id]
        for api in fault.spec.apis:
            injection = self._injections[api]
            injection.faults.remove(fault)
            if not injection.faults:
                del self._injections[api]
                self._dispatcher.route(API_BY_NAME[api].key).intercept(None)

    def clear(self) -> int:
        """Remove all faults, and return how many there were."""
        faults = list(self)
        for fault in faults:
            self.remove(fault)
        return len(faults)

    def _injection(self, api: str) -> Injection:
        found = self._injections.get(api)
        if found is None:
            route = self._dispatcher.route(API_BY_NAME[api].key)
            found = self._injections[api] = Injection(route, self.around)
            route.intercept(found.handle)
        return found
