"""The network between the nodes of a cluster, which the nodes cut themselves when a test isolates one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.cluster.settings import CONTROLLER

if TYPE_CHECKING:
    from odradek.cluster.broker import ClusterBroker


class Network:
    """Who is cut off from all others. Clients reach every broker all the same."""

    def __init__(self, nodes: Callable[[], Sequence[ClusterBroker]]) -> None:
        self._nodes = nodes
        self._isolated: frozenset[int] = frozenset()

    @property
    def isolated(self) -> frozenset[int]:
        """The ids of the nodes that are cut off."""
        return self._isolated

    def isolate(self, index: int) -> None:
        """Cut a node off from all others."""
        self._change(self._isolated | {index})

    def heal(self, index: int | None = None) -> None:
        """Connect a node again, or all of them."""
        self._change(frozenset() if index is None else self._isolated - {index})

    def cut_anew(self, node: ClusterBroker) -> None:
        """Tell a node that has just been started what is cut."""
        if self._isolated:
            self._tell(node)

    def require_reachable(self, index: int) -> None:
        """Raises RuntimeError if the node could not join its cluster."""
        if index == CONTROLLER:
            return
        for other, title in ((index, f"broker {index}"), (CONTROLLER, "the controller")):
            if other in self._isolated:
                raise RuntimeError(f"{title} is isolated, so broker {index} could not join its cluster: heal first")

    def _change(self, isolated: frozenset[int]) -> None:
        self._isolated = isolated
        for node in self._nodes():
            if node.running:
                self._tell(node)

    def _tell(self, node: ClusterBroker) -> None:
        others = [other for other in self._nodes() if other is not node]
        cut = others if node.index in self._isolated else [each for each in others if each.index in self._isolated]
        node.control.post("/network/cut", addresses=[address for each in cut for address in each.addresses])
