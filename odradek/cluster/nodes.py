"""The nodes of a cluster: their settings, the network between them, and their start together."""

from __future__ import annotations

import contextlib
import operator
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from odradek.process import Broker, BrokerStartError
from odradek.security import acl_settings
from odradek.warm import WARM

if TYPE_CHECKING:
    from concurrent.futures import Future

CONTROLLER = 3000
"""The node id of the controller, above that of any broker."""

_LISTENER = "CONTROLLER"
_BETWEEN_BROKERS = "INTERNAL"
_REPLICAS = 3
"""A partition has so many replicas, where there are as many brokers."""

_QUICK_FAILOVER = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
}
"""A broker that died is replaced after two seconds, where Kafka takes nine; leaders stay where a test has put them."""

OWN = (
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "odradek.cluster.id",
    "process.roles",
)
"""The settings that a cluster makes itself."""


_ACLS_AT_START = "odradek.create.acls"
_SUPER_USERS = "super.users"


def with_acls(acls: Iterable[str], settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a cluster on which these ACLs count; brokers, which log in nowhere, may do everything."""
    others = str(settings.get(_SUPER_USERS, ""))
    every = ";".join(filter(None, ["User:ANONYMOUS", others]))
    return {**acl_settings(acls), **settings, _SUPER_USERS: every}


def of_brokers(settings: Mapping[str, object]) -> dict[str, object]:
    """Leave out of the settings for all what brokers do not get: the first ACLs are the controller's."""
    return {name: value for name, value in settings.items() if name != _ACLS_AT_START}


def require_free(settings: Mapping[str, object]) -> None:
    """Raises ValueError for a setting that the cluster makes itself."""
    for name in settings:
        if name in OWN:
            raise ValueError(f"settings: {name} is set by the cluster itself, for each of its brokers")


def shared_settings(count: int, cluster_id: str, profile: str) -> dict[str, Any]:
    """Make the settings of the controller and of all of `count` brokers besides their profile."""
    return {
        **(_QUICK_FAILOVER if profile == "test" else {}),
        **_replication(count),
        "odradek.cluster.id": cluster_id,
        "controller.listener.names": _LISTENER,
    }


def broker_settings(index: int, controller_port: int, rack: str | None, protocol: str) -> dict[str, Any]:
    """Make the settings of broker `index` besides those; clients speak `protocol` with it."""
    return {
        **({} if protocol == "PLAINTEXT" else _listeners(protocol)),
        "node.id": index,
        "process.roles": "broker",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        **({} if rack is None else {"broker.rack": rack}),
    }


def _listeners(protocol: str) -> dict[str, str]:
    """One listener for clients, and one for other brokers, which speak PLAINTEXT among themselves."""
    return {
        "listeners": f"{protocol}://127.0.0.1:0,{_BETWEEN_BROKERS}://127.0.0.1:0",
        "listener.security.protocol.map": (f"{protocol}:{protocol},{_BETWEEN_BROKERS}:PLAINTEXT,{_LISTENER}:PLAINTEXT"),
        "inter.broker.listener.name": _BETWEEN_BROKERS,
    }


def controller_settings(port: int) -> dict[str, Any]:
    """Make the settings of the controller besides those."""
    return {
        "node.id": CONTROLLER,
        "process.roles": "controller",
        "listeners": f"{_LISTENER}://127.0.0.1:{port}",
    }


def _replication(count: int) -> dict[str, Any]:
    replicas = min(_REPLICAS, count)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(replicas - 1, 1),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(replicas - 1, 1),
    }


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
        """The folder in which the certificates of the cluster are made, if there are any."""
        return self._workplace / "tls"

    def __init__(self, network: Network, settings: Mapping[str, object], **options: Any) -> None:
        super().__init__(CONTROLLER, network, settings, **options)
        self.title = "the controller"

    def _served(self, ready: Mapping[str, Any]) -> None:
        super()._served({**ready, "listeners": {"CONTROLLER": ready["controllers"][0]}})


def folder_of(data_dir: str | os.PathLike[str] | None, name: str) -> str | None:
    """The folder of a node in that of the cluster; None for a temporary one."""
    return None if data_dir is None else os.path.join(os.path.abspath(data_dir), name)


class Network:
    """The network between nodes, some of which are cut off from all others. Clients reach every broker all the same."""

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


END_S = 0.05


class ReservedPort:
    """A port of loopback that nobody else is given, for a listener whose address others have to know before it is open.

    It is bound, without listening: on Linux a listener that says so may take it all the same.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        self._socket.close()


def start_together(brokers: Sequence[ClusterBroker], port: ReservedPort) -> None:
    """Start these nodes, and return once all serve. If one fails, those that were started are killed.

    Raises BrokerStartError, which says which one it was.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait  # only for who starts a cluster

    if len(brokers) > 1:
        WARM.expect_several()
    with ThreadPoolExecutor(len(brokers), "odradek-start") as threads:
        starts = {threads.submit(broker.start): broker for broker in brokers}
        try:
            wait(starts, return_when=FIRST_EXCEPTION)
            for start, broker in starts.items():
                if start.done():
                    _require(start, broker)
        except BaseException:
            _end(starts)
            raise
    port.release()


def _require(start: Future[ClusterBroker], broker: ClusterBroker) -> None:
    try:
        start.result()
    except BrokerStartError as error:
        raise BrokerStartError(f"{broker.title} of the cluster: {error}") from error


def _end(starts: dict[Future[ClusterBroker], ClusterBroker]) -> None:
    """Kill the brokers, also those that are about to be started."""
    from concurrent.futures import wait

    left = set(starts)
    while left:
        for broker in starts.values():
            if broker.running:
                with contextlib.suppress(RuntimeError):  # its start has just failed
                    broker.kill()
        left = wait(left, END_S).not_done
    for broker in starts.values():
        if broker.running:
            broker.kill()
