"""The network between the brokers of a cluster, which the brokers cut themselves when a test isolates one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.cluster.settings import CONTROLLER

if TYPE_CHECKING:
    from odradek.cluster.broker import ClusterBroker


class Network:
    """Who is cut off from all others. Clients reach every broker all the same."""

    def __init__(self, brokers: Callable[[], Sequence[ClusterBroker]]) -> None:
        self._brokers = brokers
        self._isolated: frozenset[int] = frozenset()

    @property
    def isolated(self) -> frozenset[int]:
        """The numbers of the brokers that are cut off."""
        return self._isolated

    def isolate(self, index: int) -> None:
        """Cut a broker off from all others."""
        self._change(self._isolated | {index})

    def heal(self, index: int | None = None) -> None:
        """Connect a broker again, or all of them."""
        self._change(frozenset() if index is None else self._isolated - {index})

    def cut_anew(self, broker: ClusterBroker) -> None:
        """Tell a broker that has just been started what is cut."""
        if self._isolated:
            self._tell(broker)

    def require_reachable(self, index: int) -> None:
        """Raises RuntimeError if the broker could not join its cluster."""
        if index == CONTROLLER:
            return
        for other in (index, CONTROLLER):
            if other in self._isolated:
                raise RuntimeError(
                    f"broker {other} is isolated, so broker {index} could not join its cluster: heal first"
                )

    def _change(self, isolated: frozenset[int]) -> None:
        self._isolated = isolated
        for broker in self._brokers():
            if broker.running:
                self._tell(broker)

    def _tell(self, broker: ClusterBroker) -> None:
        others = [other for other in self._brokers() if other is not broker]
        cut = others if broker.index in self._isolated else [each for each in others if each.index in self._isolated]
        broker.control.post("/network/cut", addresses=[address for each in cut for address in each.addresses])
