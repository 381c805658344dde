"""What may happen to the brokers and controllers of a cluster, one after the other, as a seed has it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

from tests.cluster.client import ask, until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import AnyBroker

SESSION_SECONDS = 4
CONTROLLERS = (f"broker.session.timeout.ms={SESSION_SECONDS * 1000}",)
BROKERS = {
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": SESSION_SECONDS * 1000,
    "replica.lag.time.max.ms": 3000,
    "controlled.shutdown.enable": "true",
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 6,
}
"""Settings with which failures are noticed soon, and nothing depends on one broker."""

EVENTS = ("kill", "freeze", "cut", "disk", "controller", "reassign", "elect", "roll")
REQUEST_MS = 30_000
PREFERRED = 0


class Torture:
    """Each event leaves all brokers up; the replicas may need some time to be in sync again."""

    def __init__(
        self,
        seed: int,
        brokers: Mapping[int, AnyBroker],
        controllers: KafkaControllers,
        topics: Sequence[str],
        partitions: int,
        until_in_sync: Callable[[], None],
    ) -> None:
        self.rng = random.Random(seed)
        self.history: list[str] = []
        self._brokers = brokers
        self._controllers = controllers
        self._topics = topics
        self._partitions = partitions
        self._until_in_sync = until_in_sync
        self._began = time.monotonic()

    def happen(self, event: str) -> None:
        """Let one of EVENTS happen, and all be in sync again."""
        getattr(self, f"_{event}")()
        self._until_in_sync()

    def _note(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self._began:.1f}: {what}")

    def _any(self) -> tuple[int, AnyBroker]:
        node_id = self.rng.choice(list(self._brokers))
        return node_id, self._brokers[node_id]

    def _kill(self) -> None:
        """kill -9; the broker is back before or after its session has ended."""
        node_id, broker = self._any()
        pause = self.rng.choice([0, 1, SESSION_SECONDS + 2])
        self._note(f"{node_id} is killed for {pause} s")
        broker.kill()
        time.sleep(pause)
        broker.start()

    def _freeze(self) -> None:
        node_id, broker = self._any()
        pause = self.rng.choice([1, SESSION_SECONDS + 4])
        self._note(f"{node_id} is frozen for {pause} s")
        broker.freeze()
        try:
            time.sleep(pause)
        finally:
            broker.thaw()

    def _cut(self) -> None:
        """No broker reaches this one; it reaches the others, clients and controllers."""
        node_id, broker = self._any()
        pause = self.rng.choice([1, 5])
        self._note(f"{node_id} is cut off for {pause} s")
        broker.gate.cut()
        try:
            time.sleep(pause)
        finally:
            broker.gate.heal()

    def _disk(self) -> None:
        node_id, broker = self._any()
        self._note(f"{node_id} loses its disks")
        broker.lose_disks()
        time.sleep(self.rng.choice([0, SESSION_SECONDS + 2]))
        broker.start()

    def _controller(self) -> None:
        active = self._controllers.active()
        self._note(f"controller {active} is killed")
        self._controllers.kill(active)
        time.sleep(self.rng.choice([0, 3]))
        self._controllers.start(active)
        until(lambda: self._controllers.active() >= 0, "there is an active controller")

    def _reassign(self) -> None:
        """Take a replica away from each partition, and bring it back: it copies everything."""
        everyone = list(self._brokers)
        self._note("each partition loses a replica and gets it back")
        self._reassign_to([self.rng.sample(everyone, len(everyone) - 1) for _ in range(self._partitions)])
        time.sleep(2)
        self._reassign_to([self.rng.sample(everyone, len(everyone)) for _ in range(self._partitions)])

    def _reassign_to(self, replicas: list[list[int]]) -> None:
        partitions = tuple(
            ReassignablePartition(partition_index=index, replicas=tuple(one)) for index, one in enumerate(replicas)
        )
        wanted = tuple(ReassignableTopic(name=topic, partitions=partitions) for topic in self._topics)
        request = AlterPartitionReassignmentsRequest(
            timeout=timedelta(milliseconds=REQUEST_MS), allow_replication_factor_change=True, topics=wanted
        )
        for topic in self._ask(request).responses:
            for partition in topic.partitions:
                assert partition.error_code.name == "none", partition

    def _elect(self) -> None:
        """Let the preferred leaders lead, others than before."""
        everyone = list(self._brokers)
        self._note("leaders move")
        self._reassign_to([self.rng.sample(everyone, len(everyone)) for _ in range(self._partitions)])
        self._ask(
            ElectLeadersRequest(
                election_type=PREFERRED, topic_partitions=None, timeout=timedelta(milliseconds=REQUEST_MS)
            )
        )

    def _roll(self) -> None:
        """A rolling restart, in good order."""
        self._note("a rolling restart")
        for broker in self._brokers.values():
            broker.end()
            broker.start()
            self._until_in_sync()

    def _ask(self, request: Any) -> Any:
        return ask(self._any()[1].address, request)
