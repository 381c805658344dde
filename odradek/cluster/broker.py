"""One broker of a cluster, and its controller."""

from __future__ import annotations

import operator
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, SupportsIndex

from odradek.cluster.network import Network
from odradek.cluster.settings import CONTROLLER
from odradek.process import Broker


class ClusterBroker(Broker):
    """A broker of a `Cluster`: start, stop and kill it, and do with it what a `Broker` lets you do.

    It stands for its number, which is its node id too: `cluster.isolate(cluster.leader("orders", 0))`, and
    `cluster.leader("orders", 0) == 2`.

    Attributes:
        index: its number in `Cluster.brokers`, and its node id.
    """

    def __init__(self, index: int, network: Network, settings: Mapping[str, object], **options: Any) -> None:
        """`options` are those of `Broker`."""
        super().__init__(settings, **options)
        self.title = f"broker {index}"
        self.index = index
        self._network = network
        self._addresses: list[str] = []

    @property
    def addresses(self) -> list[str]:
        """The `host:port` at which clients and other nodes reach it; the same for each run of it."""
        return list(self._addresses)

    def start(self) -> Self:
        """Start it, and return once it serves. Raises RuntimeError while it, or the controller, is isolated."""
        self._network.require_reachable(self.index)
        super().start()
        self._network.cut_anew(self)
        return self

    def begin_stop(self) -> None:
        """Ask it to stop, and do not wait for that; `stop` does."""
        os.kill(self.pid, signal.SIGTERM)

    def expect_end(self) -> None:
        """Note that the test has asked for the broker's end: then that is no failure of the test."""
        self._expect_end()

    def _served(self, ready: Mapping[str, Any]) -> None:
        super()._served(ready)
        self._addresses = list(self.listeners.values())

    def __index__(self) -> int:
        return self.index

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, int) and other == self.index)

    def __lt__(self, other: SupportsIndex) -> bool:
        return self.index < operator.index(other)

    def __hash__(self) -> int:
        return hash(self.index)

    def __repr__(self) -> str:
        state = f"running, process {self.pid}" if self.running else "not running"
        return f"<{self.title}: {state}>"


class ClusterController(ClusterBroker):
    """The controller of a `Cluster`, to be started, stopped and killed as a broker is. It has no partitions.

    Its address is for brokers alone.
    """

    @property
    def tls_folder(self) -> Path:
        """Where the certificates of the cluster are made, if there are any."""
        return self._workplace / "tls"

    def __init__(self, network: Network, settings: Mapping[str, object], **options: Any) -> None:
        super().__init__(CONTROLLER, network, settings, **options)
        self.title = "the controller"

    def _served(self, ready: Mapping[str, Any]) -> None:
        super()._served({**ready, "listeners": {"CONTROLLER": ready["controllers"][0]}})


def folder_of(data_dir: str | os.PathLike[str] | None, name: str) -> str | None:
    """The folder of a node in that of the cluster; None for a temporary one."""
    return None if data_dir is None else os.path.join(os.path.abspath(data_dir), name)
