"""The coordinators of this node: which shards they run, over which partitions, and how they are called."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from broker.coordinators.coordinator_log import PartitionCoordinatorLog
from broker.metadata.internal_topics import ensure_internal_topic
from broker.metadata.topic_planning import PlanningNode
from broker.metadata.topics import Topic
from broker.network.answers import when_all_settled
from broker.partitions.hosted import Partitions
from coordinator.hashing import partition_for
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.runtime.shard import Operation
from coordinator.runtime.state_machine import StateMachine
from protocol.errors import KafkaError, NotCoordinator
from timing.clock import Clock
from timing.wheel import TimingWheel

S = TypeVar("S", bound=StateMachine)
T = TypeVar("T")
R = TypeVar("R")


class HostingNode(PlanningNode, Protocol):
    """The node as its coordinators see it."""

    clock: Clock
    wheel: TimingWheel
    partitions: Partitions


class HostedCoordinator(Generic[S]):
    """One kind of coordinator; its shards follow the partitions of its internal topic that this node hosts.

    `load_buffer_config` names the configuration for the size of reads while a shard loads.
    """

    load_buffer_config: str

    def __init__(self, node: HostingNode, topic: str, default_partitions: int, runtime: CoordinatorRuntime[S]) -> None:
        self._node = node
        self._topic = topic
        self._partitions = default_partitions
        self.runtime = runtime

    def start(self) -> None:
        """Load the shards of partitions hosted here, then follow the topic. Call it once the partitions are open."""
        topic = self._node.topics.get(self._topic)
        if topic is not None:
            self._load(topic)
        self._node.topics.subscribe(self._changed)

    def stop(self) -> None:
        """Unload every shard; waiting requests are answered."""
        self.runtime.unload_all()

    async def ensure_topic(self) -> None:
        """Create the internal topic if it does not exist, and wait until its shards are loaded.

        Raises CoordinatorNotAvailable if it cannot be created.
        """
        if self._node.topics.get(self._topic) is None:
            await ensure_internal_topic(self._node, self._topic)
            await self.runtime.loaded()

    @property
    def topic_exists(self) -> bool:
        return self._node.topics.get(self._topic) is not None

    @property
    def partition_count(self) -> int:
        """The number of partitions of the internal topic over which keys are spread."""
        return self._partitions

    def partition_for(self, key: str) -> int:
        """The partition of the internal topic that a group or transactional id belongs to."""
        return partition_for(key, self._partitions)

    def is_available(self, key: str) -> bool:
        """Whether the partition of a group or transactional id has a leader, that is, whether its log is online."""
        topic = self._node.topics.get(self._topic)
        return topic is not None and partition_for(key, self._partitions) not in self._node.partitions.offline_of(topic)

    def write(self, key: str, operation: Operation[S, T]) -> Future[T]:
        """Run `operation` in the shard that `key` belongs to; see `Shard.write`."""
        return self.runtime.write(partition_for(key, self._partitions), operation)

    def read(self, key: str, operation: Callable[[S], T]) -> Future[T]:
        """See `Shard.read`."""
        return self.runtime.read(partition_for(key, self._partitions), operation)

    def read_all(self, operation: Callable[[S], T], then: Callable[[list[T]], R]) -> R | Awaitable[R]:
        """What `then` makes of the answers of this node's shards, except those that are gone or failed to load.

        Raises whatever else a shard raises, mostly CoordinatorLoadInProgress.
        """
        answers = [shard.read(operation) for shard in self.runtime.shards()]
        return when_all_settled(answers, lambda settled: then(_of_those_here(settled)))

    def _changed(self, old: Topic | None, new: Topic | None) -> None:
        changed = new or old
        if changed is None or changed.name != self._topic:
            return
        if old is not None and (new is None or old.id != new.id):
            self.runtime.unload_all()
        if new is not None:
            self._load(new)

    def _load(self, topic: Topic) -> None:
        """Load the shards. As in Kafka, partitions added later move no keys until the next start."""
        node = self._node
        buffer_bytes = node.config.integer(self.load_buffer_config)
        if not self.runtime.shards():
            self._partitions = len(topic.partitions)
        for index in range(len(topic.partitions)):
            partition = node.partitions.get(topic.name, index)
            if partition is None or partition.log.is_offline:
                continue  # an offline log's content is unknown: no answer is better than an empty one
            if index not in self.runtime:
                self.runtime.load(index, PartitionCoordinatorLog(partition, node.clock, buffer_bytes))


def _of_those_here(answers: Iterable[T | KafkaError]) -> list[T]:
    here: list[T] = []
    for answer in answers:
        if not isinstance(answer, KafkaError):
            here.append(answer)
        elif not isinstance(answer, NotCoordinator):
            raise answer
    return here
