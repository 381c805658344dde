"""Several brokers as one cluster, each in a process of its own, started and controlled from here."""

from __future__ import annotations

import asyncio
import base64
import operator
import os
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, SupportsIndex

from odradek import exactly_once
from odradek.cluster.broker import ClusterBroker, folder_of
from odradek.cluster.control import ClusterControl
from odradek.cluster.network import Network
from odradek.cluster.partition_state import Asked, behind, described
from odradek.cluster.settings import CONTROLLER, require_free, settings_of
from odradek.cluster.starting import ReservedPort, start_together
from odradek.control import ControlError, WaitTimeoutError
from odradek.controls import Controls
from odradek.record import Record
from odradek.start_settings import require_profile
from odradek.topic import DEFAULT_TIMEOUT, Topic

MOST_BROKERS = 16
LOOK_S = 0.02


class Cluster(Controls):
    """Brokers on loopback, by default three, which replicate as Kafka's do. A context manager, plain and async.

    `brokers[0]` is the controller too, the only one: while it is down, no leader is elected and no topic is made. The
    number of a broker in `brokers` is its node id. Topics and the internal topics have three replicas, or as many as
    there are brokers. The profile "test" makes failures quick to see: a broker that died is replaced as a leader after
    two seconds, where Kafka takes nine.

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
    ) -> None:
        """Times are seconds. Nothing is started yet.

        `settings` are for all brokers, `racks` one for each. In `data_dir` each broker has a folder of its own; without
        it the data goes with the cluster. `profile` and `python` are as for a `Broker`. Raises ValueError.
        """
        count = _count(brokers)
        require_profile(profile)
        given = dict(settings or {})
        require_free(given)
        if racks is not None and (isinstance(racks, str) or len(racks) != count):
            raise ValueError(f"racks = {racks!r}: expected one for each of {count} brokers")
        self._port = ReservedPort()
        self._network = Network(lambda: self._brokers)
        self._keeps_data = data_dir is not None
        cluster_id = _cluster_id(data_dir)
        self._brokers = [
            ClusterBroker(
                index,
                self._network,
                settings_of(index, count, cluster_id, self._port.number, profile, racks[index] if racks else None)
                | given,
                profile=profile,
                data_dir=folder_of(data_dir, index),
                python=python,
                start_timeout=start_timeout,
                stop_timeout=stop_timeout,
            )
            for index in range(count)
        ]
        self._control = ClusterControl(self._brokers)

    @property
    def brokers(self) -> list[ClusterBroker]:
        """The brokers, by number; also those that do not run."""
        return list(self._brokers)

    @property
    def controller(self) -> ClusterBroker:
        """The broker that decides for all."""
        return self._brokers[CONTROLLER]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, with commas between, as clients take it."""
        return ",".join(broker.bootstrap_servers for broker in self._brokers)

    @property
    def control(self) -> ClusterControl:
        return self._control

    # -- life

    def start(self) -> Self:
        """Start all brokers that do not run, and return once they serve. Raises BrokerStartError; then none runs."""
        down = [broker for broker in self._brokers if not broker.running]
        if not down:
            raise RuntimeError("the cluster is running already")
        start_together(down, self._port)
        return self

    def stop(self) -> None:
        """Stop all brokers that run, each in good order, the controller last."""
        others = [broker for broker in self._brokers[1:] if broker.running]
        for broker in others:
            broker.begin_stop()
        for broker in (*others, self.controller):
            if broker.running:
                broker.stop()

    def kill(self) -> None:
        """Send SIGKILL to all brokers that run."""
        for broker in self._brokers:
            if broker.running:
                broker.kill()

    def restart(self) -> Self:
        """Stop all brokers, and start them again with their data and ports."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End the brokers for good, and remove the temporary folders; with a `data_dir`, stop them in good order."""
        try:
            if self._keeps_data:
                self.stop()
        finally:
            self._port.release()
            for broker in self._brokers:
                if broker.running:
                    broker.kill()
                broker.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.close)
            await asyncio.gather(starting, return_exceptions=True)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

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

        `broker` is a number or one of `brokers`. Raises ControlError if it is not in sync.
        """
        index = self._index("broker", broker)
        self._partition(topic, partition)
        if not self.controller.running:
            raise ControlError("the controller, broker 0, is not running: no leader can be moved", status=503)
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
                why = "" if self.controller.running else "; the controller, broker 0, is not running: none is elected"
                other = "" if former is None else f" other than broker {former}"
                raise WaitTimeoutError(f"no leader{other} within {timeout:g} s: {described(state)}{why}")
            time.sleep(LOOK_S)

    def wait_in_sync(self, topic: str | None = None, timeout: float = 30.0) -> None:
        """Wait until every partition, or those of a topic, has a leader, and all its replicas are in sync.

        Raises WaitTimeoutError, whose text names those that are not, and brokers that are fenced.
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
                raise WaitTimeoutError(f"not in sync within {timeout:g} s: {'; '.join(left)}")
            time.sleep(LOOK_S)

    async def wait_in_sync_async(self, topic: str | None = None, timeout: float = 30.0) -> None:
        """The same as `wait_in_sync`, without stopping the event loop."""
        await asyncio.to_thread(self.wait_in_sync, topic, timeout)

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
        """Cut the network between this broker and all others, until `heal`. Clients reach all of them as before.

        The brokers cut it themselves: their connections end, and no new ones are opened.
        """
        self._network.isolate(self._index("broker", broker))

    def heal(self, broker: SupportsIndex | None = None) -> None:
        """Undo `isolate`, of one broker or of all."""
        self._network.heal(None if broker is None else self._index("broker", broker))

    @property
    def isolated(self) -> list[ClusterBroker]:
        """The brokers that are cut off."""
        return [self._brokers[index] for index in sorted(self._network.isolated)]

    def expire(self, broker: SupportsIndex) -> None:
        """End the session of a broker now, as if it had been silent for so long: its leaders move at once.

        One that lives comes back with its next heartbeat.
        """
        index = self._index("broker", broker)
        if index == CONTROLLER:
            raise ValueError("broker = 0: expected another; the controller has no session with itself")
        self.controller.control.post("/cluster/expire", broker=index)
        self._control.until_known()

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
        identify = exactly_once.identity(key) if isinstance(key, str) else key
        super().assert_exactly_once(source, sink, identify, timeout)

    def report(self, *, since: int | None = None) -> str:
        """How each broker is; `since` counts for the controller alone, as each has a journal of its own."""
        parts = []
        for broker in self._brokers:
            said = (
                broker.report(since=since if broker is self.controller else None) if broker.running else "not running"
            )
            parts.append(f"broker {broker.index}: {said}")
        return "\n\n".join(parts)

    def _has_ended(self) -> bool:
        return not any(broker.running for broker in self._brokers)

    def _expect_end(self) -> None:
        for broker in self._brokers:
            broker.expect_end()

    def __repr__(self) -> str:
        return f"<Cluster: {', '.join(map(repr, self._brokers))}>"


def _count(brokers: object) -> int:
    if isinstance(brokers, bool) or not isinstance(brokers, int) or not 1 <= brokers <= MOST_BROKERS:
        raise ValueError(f"brokers = {brokers!r}: expected a number from 1 to {MOST_BROKERS}")
    return brokers


def _cluster_id(data_dir: str | os.PathLike[str] | None) -> str:
    """That of the data that is there already, or a new one."""
    folder = folder_of(data_dir, CONTROLLER)
    properties = None if folder is None else Path(folder, "meta.properties")
    if properties is not None and properties.exists():
        for line in properties.read_text().splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "cluster.id":
                return value.strip()
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
