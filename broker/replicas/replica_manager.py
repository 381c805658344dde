"""The partitions this node hosts, kept in step with the image (this node's part of Kafka's `ReplicaManager`).

Theory of operation. The image is the truth. The logs of new partitions are made in worker threads while the image is
still the old one (`prepare`); when it is the new one, they are hosted (`follow`), so that a visible partition can be
used. A partition whose log cannot be made, because there is no room for it, say, is offline, and tried again from time
to time (`retry`). While a folder of `log.dirs` cannot be used, a partition without a folder may be in there: it is
offline, not recreated. Logs are made by one of these at a time, so no two are ever made for one partition at once; but
while `retry` makes a log, its topic may be deleted.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker.replicas.delayed_produce import DelayedProduce
from broker.replicas.large_batches import LargeBatches
from broker.replicas.log_maintenance import LogMaintenance
from broker.replicas.log_moves import LogMoves
from broker.replicas.partition import Partition, Role
from metadata.configs import ResourceType
from protocol.errors import KafkaStorage
from storage.folders.new_logs import LogsNotMadeError
from timing.purgatory import Purgatory

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache
    from broker.replicas.delayed_produce import Unacknowledged
    from metadata.delta import MetadataDelta
    from metadata.image import MetadataImage
    from metadata.topics import TopicImage
    from protocol.errors import KafkaError
    from protocol.produce_fetch.produce_messages import ProduceResponse
    from protocol.topic_partition import PartitionKey
    from storage.append_types import LogConfig
    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog
    from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)

PREPARING = 3
"""The number of threads that make new logs: they mostly wait for the device, and their syncs share that wait."""

MOST_NAMED = 10
"""The most partitions that one line of the log names."""


@dataclass(frozen=True, slots=True)
class _New:
    """A partition that needs a log."""

    topic: str
    index: int
    topic_id: UUID
    leader: int
    leader_epoch: int

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index


_Plan = tuple["PartitionKey", Callable[[], "UnifiedLog"]]


class ReplicaManager:
    """The replicas of this node.

    `log_config` gives the configuration of a topic's logs, of what is set for the topic; `topic_deleted` is called with
    the name of a deleted topic.

    Attributes:
        fetch_purgatory: Fetch requests that wait for records.
        produce_purgatory: Produce requests whose records are not committed yet.
        logs: the logs of all partitions, and the folders they lie in.
        maintenance: periodic work on the logs.
        moves: moves logs between folders.
        large_batches: checks large batches in worker threads.
        stopping: no request waits any more.
    """

    def __init__(
        self,
        node_id: int,
        cache: MetadataCache,
        logs: LogManager,
        log_config: Callable[[Mapping[str, str]], LogConfig],
        wheel: TimingWheel,
        new_id: Callable[[], UUID],
        topic_deleted: Callable[[str], None],
    ) -> None:
        self._node_id = node_id
        self._cache = cache
        self.logs = logs
        self._log_config = log_config
        self._topic_deleted = topic_deleted
        self.fetch_purgatory = Purgatory("Fetch", wheel)
        self.produce_purgatory = Purgatory("Produce", wheel)
        self._purgatories = (self.fetch_purgatory, self.produce_purgatory)
        self.large_batches = LargeBatches(logs.services.workers)
        self.maintenance = LogMaintenance(logs, self)
        self.moves = LogMoves(logs, self.maintenance.cleaner.is_busy_with, new_id)
        self.wall_ms = logs.services.clock.wall_ms
        self.stopping = False
        self.most = 0
        """The largest number of partitions hosted at once so far."""
        self._by_key: dict[PartitionKey, Partition] = {}
        self._making = asyncio.Lock()
        self._prepared: dict[PartitionKey, UnifiedLog] = {}
        self._without_log: dict[PartitionKey, _New] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        return self._by_key.get((topic, index))

    def online(self, topic: str, index: int) -> Partition | None:
        """A hosted partition, unless its log is offline (Kafka's `ReplicaManager.onlinePartition`)."""
        found = self._by_key.get((topic, index))
        return None if found is None or found.role is Role.OFFLINE else found

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a hosted partition's log is offline."""
        found = self._by_key.get((topic, index))
        return found is not None and found.role is Role.OFFLINE

    def offline_of(self, topic: TopicImage) -> Set[int]:
        """The partitions of a topic whose logs are offline."""
        if not self.logs.any_failed:
            return frozenset()
        return {index for index in range(topic.partition_count) if self.is_offline(topic.name, index)}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    async def start(self) -> None:
        """Host the partitions of all topics."""
        image = self._cache.image
        missing = []
        for topic in image.topics:
            config = self._config_of(topic.name, image)
            for index, partition in topic.in_order():
                new = _New(topic.name, index, topic.id, partition.leader, partition.leader_epoch)
                log = self.logs.get(*new.key) or self.logs.absent_log(*new.key, topic.id, config)
                if log is None:
                    missing.append(new)
                else:
                    self._host(new, log)
        self._prepared = await self._make(missing, image)
        for new in missing:
            self._take(new, image)

    def reconfigure(self) -> None:
        """Apply changed broker defaults to every log."""
        image = self._cache.image
        for topic in image.topics:
            self._configure(topic, image)

    # -- following the image

    async def prepare(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make the logs of new partitions, in worker threads: their files take several syncs each."""
        if not delta.touched("topics"):
            return
        async with self._making:
            recreated = {topic.after.name for topic in delta.topics.changed.values()}
            for deleted in delta.topics.deleted.values():
                if deleted.name in recreated:  # its folders' names are needed
                    self._delete(deleted)
            new = [new for new in _changed_partitions(delta) if new.key not in self._by_key]
            self._prepared = await self._make(new, image)

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Host what was prepared, let go of what was deleted, and take over leader epochs and configurations."""
        if delta.touched("topics"):
            for deleted in delta.topics.deleted.values():
                self._delete(deleted)
            for new in _changed_partitions(delta):
                self._take(new, image)
        if delta.touched("configs"):
            for resource_type, name in delta.configs.changed:
                topic = image.topics.get(name) if resource_type == ResourceType.TOPIC else None
                if topic is not None:
                    self._configure(topic, image)

    async def retry(self) -> set[str]:
        """Make the logs that could not be made before; return the topics of those that were made now."""
        async with self._making:
            made = await self._make(list(self._without_log.values()), self._cache.image)
            late = {key: made.pop(key) for key in list(made) if key not in self._without_log}
            for key, log in made.items():
                self._replace_placeholder(self._without_log.pop(key), log)
            await self._abandon(late)
        return {topic for topic, _ in made}

    async def _make(self, wanted: Collection[_New], image: MetadataImage) -> dict[PartitionKey, UnifiedLog]:
        """Make logs, as far as that is possible. A device failure takes its folder offline, for the next attempt."""
        plans: list[_Plan] = []
        for new in wanted:
            config = self._config_of(new.topic, image)
            try:
                make = self.logs.plan_log(new.topic, new.index, new.topic_id, config, new.leader_epoch)
            except KafkaStorage as refused:
                self._say_not_made([new.key], refused)
            else:
                plans.append((new.key, make))
        shares = [share for start in range(PREPARING) if (share := plans[start::PREPARING])]
        call = self.logs.services.workers.call
        made: dict[PartitionKey, UnifiedLog] = {}
        for logs, errors in await asyncio.gather(*(call(partial(self._make_share, share)) for share in shares)):
            for error in errors.values():
                self.logs.services.shortages.note(error.log_dir.path, error.cause)
                self.logs.fail_if_device(error.log_dir, error.cause)
            if errors:
                self._say_not_made(errors, next(iter(errors.values())))
                await self._abandon({key: logs.pop(key, None) for key in errors})
            made |= logs
        return made

    def _make_share(
        self, share: Sequence[_Plan]
    ) -> tuple[dict[PartitionKey, UnifiedLog], dict[PartitionKey, LogsNotMadeError]]:
        """Make the logs of a share; return them, and why others are not there or not safe. In a worker thread."""
        made: dict[PartitionKey, UnifiedLog] = {}
        errors: dict[PartitionKey, LogsNotMadeError] = {}
        for key, make in share:
            try:
                made[key] = make()
            except LogsNotMadeError as error:
                errors[key] = error
        try:
            self.logs.sync_folders()
        except LogsNotMadeError as error:
            errors |= dict.fromkeys(made, error)
        return made, errors

    def _say_not_made(self, keys: Collection[PartitionKey], error: KafkaError) -> None:
        """An attempt follows the other, so only the first is worth a line."""
        new = [f"{topic}-{index}" for topic, index in keys if (topic, index) not in self._without_log]
        if new:
            logger.error("logs not made", error=error.message, partitions=new[:MOST_NAMED], count=len(new))

    async def _abandon(self, unwanted: Mapping[PartitionKey, UnifiedLog | None]) -> None:
        """Remove logs that are not to be hosted, and what is left of those that were not made."""
        removals = [self.logs.abandon(*key, log) for key, log in unwanted.items()]

        def remove() -> list[OSError]:
            errors = []
            for removal in removals:
                try:
                    removal()
                except OSError as error:
                    errors.append(error)
            return errors

        for failure in await self.logs.services.workers.call(remove):  # the next attempt, or start, removes them
            logger.error("folder of a failed creation not removed", error=str(failure))

    # -- waiting requests

    def when_committed(
        self, waiting: Sequence[Unacknowledged], timeout_ms: int, response: ProduceResponse
    ) -> Future[ProduceResponse]:
        """The response, once every append of its request is committed, or the time is up."""
        future: Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        operation = DelayedProduce(waiting, response, future)
        keys = [one.partition.key for one in waiting]
        self.produce_purgatory.try_complete_else_watch(operation, keys, max(timeout_ms, 0))
        return future

    def stop_waits(self) -> None:
        """Answer every Fetch that waits; those that follow do not wait."""
        self.stopping = True
        self.fetch_purgatory.complete_all()

    def _advanced(self, partition: Partition) -> None:
        """Records became visible, or never will: requests that wait for them may now be answered."""
        key = partition.key
        for purgatory in self._purgatories:
            if key in purgatory.watchers:  # checked first, as it is rarely true and every append comes here
                purgatory.check_and_complete(key)

    # -- hosting

    def _take(self, new: _New, image: MetadataImage) -> None:
        """Host a partition whose log was prepared, or take over the leader epoch of one that is hosted already."""
        known = self._by_key.get(new.key)
        if known is not None:
            self._set_role(known, new)
            if new.key in self._without_log:
                self._without_log[new.key] = new
            return
        log = self._prepared.pop(new.key, None)
        if log is None:
            self._without_log[new.key] = new
            log = self.logs.unmade_log(*new.key, new.topic_id, self._config_of(new.topic, image))
        else:
            self.logs.adopt(log)
        self._host(new, log)

    def _replace_placeholder(self, new: _New, log: UnifiedLog) -> None:
        self._by_key[new.key].deleted()
        log.config = self._config_of(new.topic, self._cache.image)  # it may have changed while the log was made
        self.logs.adopt(log)
        self._host(new, log)
        logger.info("log made at last", partition=f"{new.topic}-{new.index}")

    def _set_role(self, partition: Partition, new: _New) -> None:
        if new.leader == self._node_id:
            partition.lead(new.leader_epoch)
        else:
            partition.follow(new.leader_epoch)

    def _host(self, new: _New, log: UnifiedLog) -> None:
        partition = Partition(new.topic, new.topic_id, new.index, log, new.leader_epoch, self._advanced)
        self._set_role(partition, new)
        self._by_key[new.key] = partition
        self.most = max(self.most, len(self._by_key))

    def _config_of(self, topic: str, image: MetadataImage) -> LogConfig:
        return self._log_config(image.configs.of(ResourceType.TOPIC, topic))

    def _configure(self, topic: TopicImage, image: MetadataImage) -> None:
        config = self._config_of(topic.name, image)
        for index in range(topic.partition_count):
            self._by_key[topic.name, index].configure(config)

    def _delete(self, topic: TopicImage) -> None:
        for index in range(topic.partition_count):
            key = topic.name, index
            partition = self._by_key.pop(key, None)
            if partition is None:
                continue
            if self._without_log.pop(key, None) is None:
                try:
                    self.logs.delete_log_soon(*key)
                except KafkaStorage as error:  # the next start removes it
                    logger.error("partition not removed", partition=f"{topic.name}-{index}", error=error.message)
            partition.deleted()
            self._advanced(partition)
        if self._cache.topic(topic.name) is None:
            self._topic_deleted(topic.name)


def _changed_partitions(delta: MetadataDelta) -> Iterator[_New]:
    """The partitions that are new or have changed."""
    for topic in delta.topics.changed.values():
        for index, partition in topic.changed.items():
            yield _New(topic.after.name, index, topic.after.id, partition.leader, partition.leader_epoch)
