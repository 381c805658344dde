"""The partitions this node hosts, kept in step with the topics that the metadata store names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING

import structlog

from broker.partitions.deleted_topics import DeletedTopics
from broker.partitions.partition import Partition
from protocol.errors import KafkaStorage
from storage.append_types import LogConfig
from storage.folders.new_logs import LogsNotMadeError

if TYPE_CHECKING:
    from broker.metadata.topics import Topic, Topics
    from protocol.topic_partition import PartitionKey
    from storage.folders.log_manager import LogManager
    from storage.log.partition_log import PartitionLog

logger = structlog.get_logger(__name__)

PREPARING = 3
"""The number of threads that make new logs: they mostly wait for the device, and their syncs share that wait."""


class Partitions:
    """Opens, creates and deletes the logs that the topics require (this node's part of Kafka's `ReplicaManager`).

    The store is the truth: a partition without a folder gets an empty one. But while a folder of `log.dirs` cannot be
    used, a partition without a folder may be in there: it is offline, not recreated.
    """

    def __init__(
        self,
        topics: Topics,
        logs: LogManager,
        config_of: Callable[[Topic], LogConfig],
        on_advance: Callable[[Partition], None],
        on_delete: Callable[[Partition], None],
    ) -> None:
        self._topics = topics
        self._logs = logs
        self._config_of = config_of
        self._on_advance = on_advance
        self._on_delete = on_delete
        self.most = 0
        """The largest number of partitions hosted at once so far."""
        self._by_key: dict[PartitionKey, Partition] = {}
        self._prepared: dict[PartitionKey, PartitionLog | None] = {}
        self.deleted_topics = DeletedTopics(topics, logs)

    def get(self, topic: str, index: int) -> Partition | None:
        return self._by_key.get((topic, index))

    def online(self, topic: str, index: int) -> Partition | None:
        """A hosted partition, unless its log is offline (Kafka's `ReplicaManager.onlinePartition`)."""
        found = self._by_key.get((topic, index))
        return None if found is None or found.log.is_offline else found

    def offline_of(self, topic: Topic) -> Set[int]:
        """The partitions of a topic whose logs are offline."""
        if not self._logs.any_failed:
            return frozenset()
        found = ((index, self._by_key.get((topic.name, index))) for index in range(len(topic.partitions)))
        return {index for index, one in found if one is not None and one.log.is_offline}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def start(self) -> None:
        """Host the partitions of all topics, then follow the topics' changes."""
        for topic in self._topics.all():
            self._open(topic)
        self._topics.host_by(self)
        self._topics.subscribe(self._changed)
        self.deleted_topics.start()

    def reconfigure(self) -> None:
        """Apply changed broker defaults to every log."""
        for topic in self._topics.all():
            self._configure(topic)

    async def prepare(self, topics: Iterable[Topic]) -> None:
        """Make the logs that topics will need, in worker threads: their files take several fsyncs each.

        The logs are hosted once the store has the topics; `discard` removes them if that fails. Raises KafkaStorage if
        one cannot be made. A device failure takes its folder offline, so that the next attempt uses another.
        """
        plans: dict[PartitionKey, Callable[[], PartitionLog]] = {}
        for topic in topics:
            config = self._config_of(topic)
            for index, assignment in enumerate(topic.partitions):
                if self._logs.get(topic.name, index) is None:
                    epoch = assignment.leader_epoch
                    plans[topic.name, index] = self._logs.plan_log(topic.name, index, topic.id, config, epoch)
                    self._prepared[topic.name, index] = None

        def make(share: Sequence[PartitionKey]) -> None:
            for key in share:
                self._prepared[key] = plans[key]()
            if share:
                self._logs.sync_folders()

        keys = list(plans)
        work = [partial(make, keys[start::PREPARING]) for start in range(PREPARING)]
        ended = await asyncio.gather(*map(self._logs.services.workers.call, work), return_exceptions=True)
        errors = [error for error in ended if error is not None]  # only after all have ended
        for error in errors:
            if isinstance(error, LogsNotMadeError):
                self._logs.services.shortages.note(error.log_dir.path, error.cause)
                self._logs.fail_if_device(error.log_dir, error.cause)
        if errors:
            raise errors[0]

    async def discard(self) -> None:
        """Remove logs that were prepared but not hosted."""
        removals = [self._logs.abandon(*key, made) for key, made in self._prepared.items()]
        self._prepared.clear()

        def remove() -> list[OSError]:
            errors = []
            for removal in removals:
                try:
                    removal()
                except OSError as error:
                    errors.append(error)
            return errors

        for error in await self._logs.services.workers.call(remove):  # the next start removes them
            logger.error("folder of a failed creation not removed", error=str(error))

    def _open(self, topic: Topic) -> None:
        config = self._config_of(topic)
        for index, assignment in enumerate(topic.partitions):
            key = topic.name, index
            if key in self._by_key:
                continue
            prepared = self._prepared.pop(key, None)
            if prepared is not None:
                self._logs.adopt(prepared)
            partition_log = self._logs.get(*key)
            if partition_log is None:
                partition_log = self._logs.absent_log(topic.name, index, topic.id, config)
            if partition_log is None:
                partition_log = self._logs.create_log(topic.name, index, topic.id, config, assignment.leader_epoch)
            self._host(topic, index, assignment.leader_epoch, partition_log)

    def _host(self, topic: Topic, index: int, leader_epoch: int, partition_log: PartitionLog) -> None:
        if partition_log.leader_epochs.latest != leader_epoch and not partition_log.is_offline:
            partition_log.begin_epoch(leader_epoch)
        self._by_key[topic.name, index] = Partition(
            topic.name, topic.id, index, partition_log, leader_epoch, self._on_advance
        )
        self.most = max(self.most, len(self._by_key))

    def _changed(self, old: Topic | None, new: Topic | None) -> None:
        if old is not None and (new is None or new.id != old.id):
            self._delete(old)
        if new is not None:
            self._open(new)
            self._configure(new)

    def _configure(self, topic: Topic) -> None:
        config = self._config_of(topic)
        for index in range(len(topic.partitions)):
            self._by_key[topic.name, index].configure(config)

    def _delete(self, topic: Topic) -> None:
        renamed = True
        for index in range(len(topic.partitions)):
            partition = self._by_key.pop((topic.name, index), None)
            if partition is None:
                continue
            renamed &= (topic.name, index) not in self._logs.moving  # a move has two folders
            try:
                self._logs.delete_log_soon(topic.name, index)
            except KafkaStorage as error:  # the next start removes it
                renamed = False
                logger.error("partition not removed", partition=f"{topic.name}-{index}", error=error.message)
            partition.deleted()
            self._on_delete(partition)
        if renamed:
            self.deleted_topics.renamed(topic.id)
