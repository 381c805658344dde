"""The faults that are set on a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.faults.checks import FaultError, Given, fault_spec
from broker.faults.fault import Fault
from broker.faults.injection import Around, Injection
from protocol.api_table import API_BY_NAME

if TYPE_CHECKING:
    from broker.network.dispatch import Dispatcher

__all__ = ["FaultError", "Faults", "Given"]


class Faults:
    """Sets faults and removes them. While an API has none, its requests go straight to its handler."""

    def __init__(self, dispatcher: Dispatcher, around: Around, listeners: Iterable[str]) -> None:
        self._dispatcher = dispatcher
        self._around = around
        self._listeners = frozenset(listeners)
        self._by_id: dict[str, Fault] = {}
        self._injections: dict[str, Injection] = {}

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._by_id.values())

    def set(self, given: Given) -> Fault:
        """Set a fault. Raises FaultError for one that could never match."""
        fault = Fault(self._around.new_id(), fault_spec(given, self._listeners))
        self._by_id[fault.id] = fault
        for api in fault.spec.apis:
            self._injection(api).faults.append(fault)
        return fault

    def get(self, fault_id: str) -> Fault | None:
        return self._by_id.get(fault_id)

    def remove(self, fault: Fault) -> None:
        """Remove a fault; requests that it has struck already are not spared."""
        self._by_id.pop(fault.id, None)
        for api in fault.spec.apis:
            injection = self._injections.get(api)
            if injection is not None and fault in injection.faults:
                injection.faults.remove(fault)
                if not injection.faults:
                    del self._injections[api]
                    self._dispatcher.route(API_BY_NAME[api].key).intercept(None)

    def clear(self) -> int:
        """Remove all faults, and return how many there were."""
        faults = list(self._by_id.values())
        for fault in faults:
            self.remove(fault)
        return len(faults)

    async def wait(self, fault: Fault, hits: int, timeout_ms: float) -> bool:
        """Wait until the fault has struck so often; return False if the time is up before."""
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        fault.when_hit(hits, reached)

        def give_up() -> None:
            if not reached.done():
                reached.set_result(False)

        timer = self._around.clock.call_later(timeout_ms, give_up)
        try:
            return await reached
        finally:
            timer.cancel()

    def _injection(self, api: str) -> Injection:
        found = self._injections.get(api)
        if found is None:
            route = self._dispatcher.route(API_BY_NAME[api].key)
            found = self._injections[api] = Injection(route, route.handle, self._around)
            route.intercept(found.handle)
        return found
