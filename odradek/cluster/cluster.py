"""Several brokers as one cluster, each in a process of its own, started and controlled from here."""

from __future__ import annotations

import base64
import operator
import os
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex

from odradek.assertions import identity
from odradek.cluster.asking import Asked, behind, described
from odradek.cluster.control import ClusterControl
from odradek.cluster.nodes import (
    CONTROLLER,
    ClusterBroker,
    ClusterController,
    Network,
    ReservedPort,
    broker_settings,
    controller_settings,
    folder_of,
    of_brokers,
    require_free,
    shared_settings,
    start_together,
    with_acls,
)
from odradek.control import ControlError, WaitTimeoutError, in_thread
from odradek.controls import SecuredControls
from odradek.record import Record
from odradek.report import ENTRIES, journal_text
from odradek.security import Security, Users
from odradek.starting import Entered, require_profile
from odradek.topic import DEFAULT_TIMEOUT, Topic

MOST_BROKERS = 16
CONTROLLER_FOLDER = "controller"
LOOK_S = 0.02


class Cluster(SecuredControls, Entered):
    """Brokers on loopback, by default three, which replicate as Kafka's do. A context manager, plain and async.

    The number of a broker in `brokers` is its node id. `controller` is a process of its own, the only controller: while
    it is down, no leader is elected and no topic is made. Topics and the internal topics have three replicas, or as
    many as there are brokers. The profile "test" makes failures quick to see: a broker that died is replaced as a
    leader after two seconds, where Kafka takes nine.

    What a `Broker` can do for a test, a cluster does too (`topic`, `group`, `transaction`, `fault`, `clock`, ...),
    wherever the leader or the coordinator is; faults and the clock are those of all brokers.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        profile: str = "test",
        racks: Sequence[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        python: str | os.PathLike[str] | None = None,
        start_timeout: float = 60.0,
        stop_timeout: float = 30.0,
        security: str | None = None,
        users: Users | None = None,
        acls: Iterable[str] | None = None,
        warm: bool = True,
    ) -> None:
        """Times are seconds. Nothing is started yet.

        `settings` are for all brokers, `racks` one for each. In `data_dir` each broker has a folder of its own; without
        it the data goes with the cluster. The other parameters are as for a `Broker`; the authority and the users are
        those of all brokers. Raises ValueError.
        """
        count = _count(brokers)
        require_profile(profile)
        given = dict(settings or {})
        require_free(given)
        if acls is not None:
            if not users:
                raise ValueError("acls: expected users with them, and security='SASL_SSL' or another that knows users")
            given = with_acls(acls, given)
        if racks is not None and (isinstance(racks, str) or len(racks) != count):
            raise ValueError(f"racks = {racks!r}: expected one for each of {count} brokers")
        self._port = ReservedPort()
        self._network = Network(lambda: self._nodes)
        self._keeps_data = data_dir is not None
        port = self._port.number
        shared = shared_settings(count, _cluster_id(data_dir), profile)
        options: dict[str, Any] = {
            "profile": profile,
            "python": python,
            "start_timeout": start_timeout,
            "stop_timeout": stop_timeout,
            "warm": warm,
        }
        self._controller = ClusterController(
            self._network,
            shared | controller_settings(port) | given,
            data_dir=folder_of(data_dir, CONTROLLER_FOLDER),
            **options,
        )
        self._security = Security.chosen(security, users, given, self._controller.tls_folder)
        protocol = "PLAINTEXT" if self._security is None else self._security.protocol
        self._brokers = [
            ClusterBroker(
                index,
                self._network,
                shared | broker_settings(index, port, racks[index] if racks else None, protocol) | of_brokers(given),
                data_dir=folder_of(data_dir, f"broker-{index}"),
                security=self._security,
                **options,
            )
            for index in range(count)
        ]
        self._nodes: list[ClusterBroker] = [*self._brokers, self._controller]
        self._control = ClusterControl(self._brokers, self._controller)

    @property
    def brokers(self) -> list[ClusterBroker]:
        """The brokers, by number; also those that do not run."""
        return list(self._brokers)

    @property
    def controller(self) -> ClusterController:
        """The node that decides for all brokers, and is none itself."""
        return self._controller

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, with commas between, as clients take it."""
        return ",".join(broker.bootstrap_servers for broker in self._brokers)

    @property
    def control(self) -> ClusterControl:
        return self._control

    # -- life

    def start(self) -> Self:
        """Start the controller and all brokers that do not run, and return once they serve.

        Raises BrokerStartError; then none of these runs.
        """
        down = [node for node in self._nodes if not node.running]
        if not down:
            raise RuntimeError("the cluster is running already")
        start_together(down, self._port)
        return self

    def stop(self) -> None:
        """Stop all brokers that run, each in good order, and the controller last."""
        brokers = [broker for broker in self._brokers if broker.running]
        for broker in brokers:
            broker.begin_stop()
        for node in (*brokers, self._controller):
            if node.running:
                node.stop()

    def kill(self) -> None:
        """Send SIGKILL to all brokers that run, and to the controller."""
        for node in self._nodes:
            if node.running:
                node.kill()

    def restart(self) -> Self:
        """Stop all brokers, and start them again with their data and ports."""
        self.stop()
        return self.start()

    def start_anew(self) -> Self:
        """Start again with nothing in the folders, on the same ports, and with a whole network; kill what runs before.

        Raises RuntimeError for a `data_dir` that was given.
        """
        for node in self._nodes:
            node.empty()
        self._network.heal()
        return self.start()

    def close(self) -> None:
        """End the brokers for good, and remove the temporary folders; with a `data_dir`, stop them in good order."""
        try:
            if self._keeps_data:
                self.stop()
        finally:
            self._port.release()
            for node in self._nodes:
                if node.running:
                    node.kill()
                node.close()

    # -- leaders and replicas

    def leader(self, topic: str, partition: int = 0) -> ClusterBroker | None:
        """The broker that leads a partition, as the controller has decided; None if none does."""
        found = self._partition(topic, partition)["leader"]
        return self._broker(found) if found >= 0 else None

    def replicas(self, topic: str, partition: int = 0) -> list[ClusterBroker]:
        """The brokers that have a replica, the preferred leader first."""
        return [self._broker(index) for index in self._partition(topic, partition)["replicas"]]

    def in_sync(self, topic: str, partition: int = 0) -> list[ClusterBroker]:
        """The brokers whose replicas are in sync, as the leader has told the controller."""
        return [self._broker(index) for index in self._partition(topic, partition)["isr"]]

    def move_leader(self, topic: str, partition: int, broker: SupportsIndex) -> None:
        """Let another replica in sync lead the partition, and return once all brokers know it.

        `broker` is a number or one of `brokers`. Raises ControlError if it is not in sync, does not run or
        is isolated.
        """
        index = self._index("broker", broker)
        self._partition(topic, partition)
        if away := self._away([self._brokers[index]]):
            raise ControlError(f"{away[0]}: it cannot lead {topic}-{partition}", status=409)
        self._require_controller("no leader can be moved")
        self.controller.control.post("/cluster/leader", topic=str(topic), partition=partition, broker=index)
        self._control.until_known()

    def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: SupportsIndex | None = None,
        timeout: float = 15.0,
    ) -> ClusterBroker:
        """Wait until the partition has a leader that runs, and return it; `other_than` this one, if it is given.

        Raises WaitTimeoutError.
        """
        former = None if other_than is None else self._index("other_than", other_than)
        deadline = time.monotonic() + timeout
        while True:
            state = self._partition(topic, partition)
            if state["leader"] not in (-1, former) and self._brokers[state["leader"]].running:
                self._control.until_known()
                return self._brokers[state["leader"]]
            if time.monotonic() > deadline:
                why = "" if self.controller.running else "; the controller is not running: none is elected"
                other = "" if former is None else f" other than broker {former}"
                raise WaitTimeoutError(f"no leader{other} within {timeout:g} s: {described(state)}{why}")
            time.sleep(LOOK_S)

    def wait_in_sync(self, topic: str | None = None, timeout: float = 30.0) -> None:
        """Wait until every partition, or those of a topic, has a leader, and all its replicas are in sync.

        Raises WaitTimeoutError, whose text names those that are not, and nodes that are fenced, isolated or do not run.
        """
        if topic is not None:
            self._control.partitions(str(topic))
        deadline = time.monotonic() + timeout
        while True:
            left = behind(self._control.describe(None if topic is None else str(topic)), self._brokers)
            if not left:
                self._control.until_known()
                return
            if time.monotonic() > deadline:
                raise WaitTimeoutError(f"not in sync within {timeout:g} s: {'; '.join([*left, *self._away()])}")
            time.sleep(LOOK_S)

    wait_in_sync_async = in_thread(wait_in_sync)

    def _broker(self, index: int) -> ClusterBroker:
        if index >= len(self._brokers):
            raise ControlError(
                f"broker {index} has joined the cluster from elsewhere, and is none of its own", status=409
            )
        return self._brokers[index]

    def _partition(self, topic: str, partition: int) -> Asked:
        partitions = self._control.partitions(str(topic))
        if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < len(partitions):
            raise ValueError(f"partition = {partition!r}: expected 0 to {len(partitions) - 1} for topic {topic}")
        return partitions[partition]

    # -- failures

    def isolate(self, broker: SupportsIndex) -> None:
        """Cut the network between this broker and all others, the controller among them, until `heal`.

        Clients reach all of them as before. The brokers cut it themselves: their connections end, and no new ones are
        opened. `isolate(cluster.controller)` cuts the controller off from all brokers.
        """
        self._network.isolate(self._node_index(broker))

    def heal(self, broker: SupportsIndex | None = None) -> None:
        """Undo `isolate`, of one broker or of all."""
        self._network.heal(None if broker is None else self._node_index(broker))

    @property
    def whole(self) -> bool:
        """Whether all brokers and the controller run, and none is isolated."""
        return all(node.running for node in self._nodes) and not self._network.isolated

    @property
    def isolated(self) -> list[ClusterBroker]:
        """The brokers that are cut off; perhaps the controller."""
        return [node for node in self._nodes if node.index in self._network.isolated]

    def expire(self, broker: SupportsIndex) -> None:
        """End the session of a broker now, as if it had been silent for so long: its leaders move at once.

        One that lives comes back with its next heartbeat.
        """
        index = self._index("broker", broker)
        self._require_controller("no session can be ended")
        self.controller.control.post("/cluster/expire", broker=index)
        self._control.until_known()

    def _away(self, nodes: Sequence[ClusterBroker] | None = None) -> list[str]:
        """A sentence for each of these nodes (None: of all) that does not run, or is isolated."""
        among = self._nodes if nodes is None else nodes
        return [
            f"{node.title} {'is isolated' if node.running else 'is not running'}"
            for node in among
            if not node.running or node.index in self._network.isolated
        ]

    def _node_index(self, broker: SupportsIndex) -> int:
        return CONTROLLER if broker is self._controller else self._index("broker", broker)

    def _require_controller(self, so: str) -> None:
        if not self._controller.running:
            raise ControlError(f"the controller is not running: {so}", status=503)

    def _index(self, name: str, broker: SupportsIndex) -> int:
        try:
            index = operator.index(broker)
        except TypeError:
            index = -1
        if isinstance(broker, bool) or not 0 <= index < len(self._brokers):
            raise ValueError(f"{name} = {broker!r}: expected 0 to {len(self._brokers) - 1}, or one of brokers")
        return index

    # -- what a single broker does in another way

    def assert_exactly_once(
        self,
        source: Topic | str,
        sink: Topic | str,
        key: str | Callable[[Record], Hashable] = "key",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        identify = identity(key) if isinstance(key, str) else key
        super().assert_exactly_once(source, sink, identify, timeout)

    def report(self, *, since: int | None = None) -> str:
        """Tell what there is in the cluster, as the first broker that runs sees it; then the journals of all others.

        `since` is a mark of the cluster's journal, which is that of the first broker that runs; each has its own.
        """
        parts = []
        for node in self._nodes:
            said = "not running"
            if node.running and node is self._control.first():
                said = node.report(since=since)
            elif node.running:
                said = journal_text(node.control.get("/journal", limit=ENTRIES))
            parts.append(f"{node.title}: {said}")
        return "\n\n".join(parts)

    def _has_ended(self) -> bool:
        return not any(broker.running for broker in self._brokers)

    def _expect_end(self) -> None:
        for broker in self._brokers:
            broker.expect_end()

    def __repr__(self) -> str:
        return f"<Cluster: {', '.join(map(repr, self._nodes))}>"


def _count(brokers: object) -> int:
    if isinstance(brokers, bool) or not isinstance(brokers, int) or not 1 <= brokers <= MOST_BROKERS:
        raise ValueError(f"brokers = {brokers!r}: expected a number from 1 to {MOST_BROKERS}")
    return brokers


def _cluster_id(data_dir: str | os.PathLike[str] | None) -> str:
    """That of the data that is there already, or a new one."""
    folder = folder_of(data_dir, CONTROLLER_FOLDER)
    properties = None if folder is None else Path(folder, "meta.properties")
    if properties is not None and properties.exists():
        for line in properties.read_text("iso-8859-1").split("\n"):
            name, _, value = line.partition("=")
            if name.strip() == "cluster.id":
                return value.strip()
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue  # Kafka's tools would take it for an option
    return made
