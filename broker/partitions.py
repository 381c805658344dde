"""The partitions this node hosts, kept in step with the topics that the metadata store names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import structlog

from broker.partition import Partition
from storage.append_types import LogConfig

if TYPE_CHECKING:
    from broker.topics import Topic, Topics
    from storage.log_manager import LogManager

log = structlog.get_logger(__name__)


class Partitions:
    """Opens, creates and deletes the logs that the topics ask for (Kafka's ``ReplicaManager``, for its own part).

    The store is the truth: a folder whose topic is gone is removed, a partition without a folder gets an empty one.
    """

    def __init__(
        self,
        topics: Topics,
        logs: LogManager,
        config_of: Callable[[str], LogConfig],
        on_advance: Callable[[Partition], None],
        on_delete: Callable[[Partition], None],
    ) -> None:
        self._topics = topics
        self._logs = logs
        self._config_of = config_of
        self._on_advance = on_advance
        self._on_delete = on_delete
        self._by_key: dict[tuple[str, int], Partition] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        return self._by_key.get((topic, index))

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    async def start(self) -> None:
        """Brings logs and topics into step, then follows the topics' changes."""
        for topic_partition, found in list(self._logs.logs.items()):
            topic = self._topics.get(topic_partition.topic)
            stray = (
                topic is None
                or topic_partition.partition >= len(topic.partitions)
                or (found.topic_id is not None and found.topic_id != topic.id)
            )
            if stray:
                log.warning("removing a stray partition", partition=str(topic_partition))
                await self._logs.delete_log(topic_partition)
        for topic in self._topics.all():
            self._open(topic)
        self._topics.subscribe(self._changed)

    def is_current(self, partition: Partition) -> bool:
        """Whether it is still hosted here, and not deleted or made anew."""
        return self._by_key.get(partition.key) is partition

    def reconfigure(self) -> None:
        """Applies changed broker defaults to every log."""
        for topic in self._topics.all():
            self._configure(topic)

    def _open(self, topic: Topic) -> None:
        config = self._config_of(topic.name)
        for index, assignment in enumerate(topic.partitions):
            if (topic.name, index) in self._by_key:
                continue
            partition_log = self._logs.get(topic.name, index)
            if partition_log is None:
                partition_log = self._logs.create_log(topic.name, index, topic.id, config)
            if partition_log.leader_epochs.latest != assignment.leader_epoch:
                partition_log.assign_epoch(assignment.leader_epoch, partition_log.log_end_offset)
            self._by_key[topic.name, index] = Partition(
                topic.name, topic.id, index, partition_log, assignment.leader_epoch, self._on_advance
            )

    def _changed(self, old: Topic | None, new: Topic | None) -> None:
        if old is not None and (new is None or new.id != old.id):
            self._delete(old)
        if new is not None:
            self._open(new)
            self._configure(new)

    def _configure(self, topic: Topic) -> None:
        config = self._config_of(topic.name)
        for index in range(len(topic.partitions)):
            self._by_key[topic.name, index].configure(config)

    def _delete(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            partition = self._by_key.pop((topic.name, index), None)
            if partition is not None:
                self._logs.delete_log_soon(topic.name, index)
                self._on_delete(partition)
