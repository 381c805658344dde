"""The tiered partitions of this node, kept in step with the image, and the rounds of copies and removals.

Theory of operation. A partition is tiered while this node hosts it and its topic has `remote.storage.enable`. Reads
from remote storage wait until what `__remote_log_metadata` says of it is read. Then, and again each
`remote.log.manager.task.interval.ms`, in a round, every partition that is led here copies what is due, and removes what
nobody keeps; one that is followed learns how far it is copied, so that its segments can go from here. Some partitions
do so at once (`Works`); one that has not ended by the next round is left alone in that.

When a topic is deleted, or is not tiered any more, who has led a partition removes all of it from remote storage. What
a kill leaves undone is found by who leads the records about it, as segments of a topic that is not there, or is not
tiered. In a cluster that waits a round: a topic that is new may not be known here yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from broker.config.resource_configs import topic_value
from broker.replication.partition import Role
from broker.tiering.remote_log_metadata import RemoteLogMetadata
from broker.tiering.settings import make_store, metadata_settings, reader_settings
from broker.tiering.tiered_partition import Remote, TieredPartition, delete_segments
from broker.tiering.works import Works
from metadata.configs import ResourceType
from protocol import uuids
from protocol.errors import KafkaError
from protocol.remote_storage.store import ExchangeableStore, RemoteStoreError
from storage.folders.log_dirs import LogDirError
from storage.log.log_services import NO_TIER
from storage.tier.remote_reader import RemoteReader
from timing.rate import Rate, Windows

if TYPE_CHECKING:
    from broker.background import Periodic
    from broker.config.broker_config import CurrentConfig
    from broker.coordinators.hosted import Host
    from broker.replication.partition import Partition
    from metadata.delta import MetadataDelta
    from metadata.image import MetadataImage
    from metadata.topics import TopicImage
    from protocol.remote_storage.segment import TopicIdPartition
    from protocol.remote_storage.store import RemoteStore
    from protocol.topic_partition import PartitionKey

logger = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class TierManager:
    """The tiered partitions of a node.

    Attributes:
        partitions: by topic and number.
        reader: reads from the store for all of them.
        store: where remote segments are.
        checks: threads that look through the store for an operator.
    """

    def __init__(self, host: Host, store: RemoteStore | None = None) -> None:
        current, clock, replicas = host.current, host.clock, host.replicas
        services = replicas.logs.services
        self._current = current
        self._cache = host.cache
        self._replicas = replicas
        self._clock = clock
        self.store = ExchangeableStore(store or make_store(current.config, services.fs))
        lane = services.workers.lane
        self.checks = lane("remote checks")
        self.reader = RemoteReader(self.store, lane("remote reads"), clock, reader_settings(current))
        self.metadata = RemoteLogMetadata(metadata_settings(current.config), host, self._forgotten)
        self._remote = Remote(
            host.node_id,
            self.store,
            lane("remote copies"),
            self.metadata,
            self.reader,
            clock,
            lambda: uuids.random_uuid(host.random),
            _CopyQuota(current, clock.machine.monotonic_ms),
        )
        self.partitions: dict[PartitionKey, TieredPartition] = {}
        self._copies = self._works(TieredPartition.copy, "copier")
        self._removals = self._works(TieredPartition.expire, "expiration")
        self._strays = self._works(self._remove_stray, "expiration")
        self._doomed: set[TopicIdPartition] = set()
        """Partitions that were led here, of which nothing is to stay in remote storage."""
        self._gone: set[TopicIdPartition] = set()
        """Those that were not there, or not tiered, in the last round."""
        self._started = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def _works(self, work: Callable[[K], Awaitable[None]], pool: str) -> Works[K]:
        name = f"remote.log.manager.{pool}.thread.pool.size"
        return Works(work, lambda: self._current.config.integer(name), self._start)

    @property
    def is_loaded(self) -> bool:
        """Whether it is known what is in remote storage."""
        return self._started and self.metadata.is_known

    # -- following the image

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Let partitions be tiered, or be it no longer, as the image says."""
        if delta.touched("topics"):
            if self._started:
                self._follow_metadata()
            for deleted in delta.topics.deleted.values():
                for index in range(deleted.partition_count):
                    self._leave((deleted.name, index), is_gone=True)
                self.reader.counts.forget(deleted.name)
            for changed in delta.topics.changed.values():
                self._take(changed.after)
        if delta.touched("configs"):
            names = [name for kind, name in delta.configs.changed if kind == ResourceType.TOPIC]
            for topic in filter(None, map(image.topics.get, names)):
                self._take(topic)

    def _follow_metadata(self) -> None:
        self.metadata.follow(tiered.id for tiered in self.partitions.values())

    def _take(self, topic: TopicImage) -> None:
        for index in range(topic.partition_count):
            partition = self._replicas.get(topic.name, index)
            known = self.partitions.get((topic.name, index))
            if known is not None and known.partition is not partition:
                self._leave(known.partition.key)
                known = None
            if partition is None:
                continue
            is_tiered = partition.role is not Role.OFFLINE and partition.log.config.remote_storage
            if is_tiered and known is None:
                self._enter(partition)
            elif not is_tiered and known is not None:
                self._leave(partition.key, is_gone=not partition.log.config.remote_storage)
            elif known is not None:
                known.take_role()

    def _find_late(self) -> None:
        """Take over partitions whose logs could only be made after the image had them."""
        for partition in self._replicas:
            known = self.partitions.get(partition.key)
            is_new = known is None or known.partition is not partition
            if is_new and partition.log.config.remote_storage and (topic := self._cache.topic(partition.topic)):
                self._take(topic)

    def _enter(self, partition: Partition) -> None:
        tiered = self.partitions[partition.key] = TieredPartition(partition, self._remote)
        if self._started:
            self._start(self._begin(tiered))

    async def _begin(self, tiered: TieredPartition) -> None:
        if not self.metadata.topic_exists and tiered.leads:
            await self.metadata.ensure_topic()
        await self.metadata.until_known(tiered.id)
        if not tiered.ended:
            tiered.begin()
            self._copies.add([tiered])
            self._removals.add([tiered])

    def _forgotten(self, partition: TopicIdPartition) -> None:
        """Wait again until what is in remote storage is known."""
        tiered = self.partitions.get((partition.topic, partition.index))
        if tiered is not None and tiered.id == partition:
            tiered.wait()
            self._start(self._begin(tiered))

    def _leave(self, key: PartitionKey, *, is_gone: bool = False) -> None:
        """Let a partition be tiered no longer; `is_gone`: nothing of it is to stay in remote storage."""
        tiered = self.partitions.pop(key, None)
        if tiered is None:
            return
        tiered.end()
        tiered.log.tier = NO_TIER
        if is_gone:
            if not tiered.log.is_offline:
                tiered.log.increment_log_start_offset(tiered.log.local_log_start_offset)
            if tiered.leads:
                self._doomed.add(tiered.id)
                self._remove_strays()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self._stopping:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("work on tiered storage failed", exc_info=error)

    # -- the start and the end

    def start(self, periodic: Periodic) -> None:
        """Begin to read what is in remote storage, and the rounds."""
        for topic in self._cache.image.topics:
            self._take(topic)
        self._started = True
        self._follow_metadata()
        for tiered in self.partitions.values():
            self._start(self._begin(tiered))
        pause_ms = self._current.config.integer("remote.log.manager.task.interval.ms")
        periodic.every(pause_ms, "tiered storage", self.round)

    def _remove_strays(self) -> None:
        """Remove segments of topics that are not there any more, or not tiered any more."""
        self._strays.add(filter(self._is_to_be_removed, self.metadata.partitions.values()))

    async def _remove_stray(self, partition: TopicIdPartition) -> None:
        async with self.metadata.turn(partition):  # until a copy that is under way has ended
            segments = list(self.metadata.of(partition)) if self._is_to_be_removed(partition) else []
        try:
            await delete_segments(self._remote, segments)
        except (KafkaError, RemoteStoreError) as error:
            logger.warning("remote segments not removed", partition=partition.topic, error=str(error))
        if self._is_to_be_removed(partition) and not self.metadata.of(partition):  # else it is tiered again, say
            self.metadata.forget(partition)
            self._doomed.discard(partition)
            if self._cache.topic(partition.topic) is None:
                self.reader.counts.forget(partition.topic)

    def _is_to_be_removed(self, partition: TopicIdPartition) -> bool:
        """Whether nothing of a partition is to stay, and it is this node that removes it."""
        if not self._is_gone(partition):
            return False
        is_alone = len(self._cache.image.cluster.brokers) < 2
        is_sure = is_alone or partition in self._gone
        return partition in self._doomed or (is_sure and self.metadata.is_led_here(partition))

    def _is_gone(self, partition: TopicIdPartition) -> bool:
        """Whether a partition's topic is not there, or not tiered."""
        topic = self._cache.topic(partition.topic)
        if topic is None or topic.id != partition.topic_id:
            return True
        configs = self._cache.image.configs.of(ResourceType.TOPIC, partition.topic)
        return not topic_value(configs, "remote.storage.enable")

    async def stop(self) -> None:
        """Begin nothing more; what is under way is given up, and is found at the next start."""
        self._stopping = True
        for tiered in self.partitions.values():
            tiered.end()
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.metadata.stop()
        await self.reader.stop()

    # -- rounds

    async def round(self) -> None:
        """Let each partition copy what is due and remove what is not kept; those that are still at it go on."""
        if self._stopping:
            return
        self._find_late()
        if not self.metadata.topic_exists and any(tiered.leads for tiered in self.partitions.values()):
            await self.metadata.ensure_topic()
        known = [tiered for tiered in self.partitions.values() if tiered.is_known]
        self._copies.add(known)
        self._removals.add(known)
        self._remove_strays()
        self._gone = set(filter(self._is_gone, self.metadata.partitions.values()))
        self.reader.loads.drop_idle()


class _CopyQuota:
    """How long copies wait for `remote.log.manager.copy.max.bytes.per.second`."""

    def __init__(self, current: CurrentConfig, monotonic_ms: Callable[[], float]) -> None:
        config = current.config
        self._current = current
        self._monotonic_ms = monotonic_ms
        windows = config.integer("remote.log.manager.copy.quota.window.num")
        seconds = config.integer("remote.log.manager.copy.quota.window.size.seconds")
        self._rate = Rate(Windows(windows, seconds * 1000))

    def __call__(self, size: int) -> float:
        """The time to wait before `size` bytes are copied; they count from now on."""
        now_ms = int(self._monotonic_ms())
        quota = self._current.config.integer("remote.log.manager.copy.max.bytes.per.second")
        wait_ms = self._rate.throttle_ms(quota, now_ms)
        self._rate.record(size, now_ms)
        return wait_ms


async def open_tier(host: Host) -> TierManager:
    """The tiered storage of a node. Raises LogDirError, for people, if its settings are wrong or its store unusable."""
    manager = TierManager(host)
    try:
        await manager.checks.call(manager.store.check)
    except RemoteStoreError as error:
        raise LogDirError(f"remote storage cannot be used: {error}") from error
    return manager
