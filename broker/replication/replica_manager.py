"""The partitions this node hosts, kept in step with the image (this node's part of Kafka's `ReplicaManager`).

Theory of operation. The image is the truth: this node hosts the partitions of which it is a replica. The logs of new
ones are made in worker threads while the image is still the old one (`prepare`); when it is the new one, they are
hosted (`follow`), so that a visible partition can be used. A partition whose log cannot be made, because there is no
room for it, say, is offline, and tried again from time to time (`retry`). While a folder of `log.dirs` cannot be used,
a partition without a folder may be in there: it is offline, not recreated. While `retry` makes a log, its topic may be
deleted. Each change of a partition tells it its role, and the fetchers whom to follow.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker.replication.batch_checks import LargeBatches
from broker.replication.cluster_access import ALONE, ClusterAccess, ReplicationQuota
from broker.replication.following.fetchers import Fetchers
from broker.replication.following.followed import FetcherContext
from broker.replication.leading.alter_partition import AlterPartition
from broker.replication.leading.leader_state import ConsumerPlace, LeaderState, Replication, preferred_replica
from broker.replication.log_maintenance import LogMaintenance
from broker.replication.log_making import LogMaking, Replica
from broker.replication.log_moves import LogMoves
from broker.replication.partition import Partition, Role
from broker.replication.waits import DelayedProduce
from controller.replica_rules import LOST
from metadata.configs import ResourceType
from protocol.errors import KafkaStorage, NotLeaderOrFollower, UnknownTopicOrPartition
from protocol.metadata.topics import NO_LEADER
from timing.purgatory import Purgatory

if TYPE_CHECKING:
    from broker.membership.metadata_cache import MetadataCache
    from broker.replication.fetch_session_cache import FetchSessionCache
    from broker.replication.waits import Unacknowledged
    from metadata.delta import MetadataDelta
    from metadata.image import MetadataImage
    from metadata.topics import TopicImage
    from protocol.produce_fetch.produce_messages import ProduceResponse
    from protocol.topic_partition import PartitionKey
    from storage.append_types import LogConfig
    from storage.folders.log_manager import LogManager
    from storage.log.unified_log import UnifiedLog
    from timing.wheel import TimingWheel

logger = structlog.get_logger(__name__)


class ReplicaManager:
    """The replicas of this node.

    `log_config` gives the configuration of logs, by the topic's name and what is set for it; `topic_deleted` is called
    with the name of a deleted topic; `cluster` is the way to other nodes.

    Attributes:
        at: the hosted partition of a topic's name and a number, None if there is none; a call less than `get`.
        fetch_purgatory: Fetch requests that wait for records.
        produce_purgatory: Produce requests whose records are not committed yet.
        delete_purgatory: DeleteRecords requests that followers have not heard of yet.
        logs: the logs of all partitions, and the folders they lie in.
        maintenance: periodic work on the logs.
        moves: moves logs between folders.
        large_batches: checks large batches in worker threads.
        replication: what the leaders of this node share.
        fetchers: get what this node follows.
        connect: a new connection to another broker, None if its address is not known.
        leader_quota, follower_quota: throttle replication on either side.
        stopping: no request waits any more.
    """

    def __init__(
        self,
        node_id: int,
        cache: MetadataCache,
        logs: LogManager,
        log_config: Callable[[str, Mapping[str, str]], LogConfig],
        wheel: TimingWheel,
        new_id: Callable[[], UUID],
        topic_deleted: Callable[[str], None],
        cluster: ClusterAccess = ALONE,
    ) -> None:
        self._node_id = node_id
        self._cache = cache
        self.logs = logs
        self._log_config = log_config
        self._topic_deleted = topic_deleted
        self.fetch_purgatory = Purgatory("Fetch", wheel)
        self.produce_purgatory = Purgatory("Produce", wheel)
        self.delete_purgatory = Purgatory("DeleteRecords", wheel)
        self._purgatories: tuple[Purgatory | FetchSessionCache, ...] = (
            self.fetch_purgatory,
            self.produce_purgatory,
            self.delete_purgatory,
        )
        self.large_batches = LargeBatches(logs.services.workers)
        self.maintenance = LogMaintenance(logs, self)
        self.moves = LogMoves(logs, self.maintenance.cleaner.is_busy_with, new_id)
        clock = logs.services.clock
        self.wall_ms = clock.wall_ms
        self._cluster = cluster
        self.connect = cluster.connect
        # The other nodes' time does not move with this one's: an ISR does not shrink as a test moves the clock.
        machine = clock.machine
        self._alter_partition = AlterPartition(node_id, cluster.broker_epoch, cluster.ask_controller, machine)
        self.replication = Replication(
            node_id,
            machine,
            cache,
            self._alter_partition,
            lambda: cluster.settings().lag_time_max_ms,
            self.delete_purgatory.check_and_complete,
        )
        windows = cluster.settings().quota_windows
        self.leader_quota = ReplicationQuota("leader", node_id, cache, clock.monotonic_ms, windows)
        self.follower_quota = ReplicationQuota("follower", node_id, cache, clock.monotonic_ms, windows)
        self.fetchers = Fetchers(FetcherContext(node_id, clock, cluster, self.moves, self.follower_quota))
        self.stopping = False
        self.most = 0
        """The largest number of partitions hosted at once so far."""
        self._by_key: dict[PartitionKey, Partition] = {}
        self.at = self._by_key.get
        self._without_log: dict[PartitionKey, Replica] = {}
        self._making = LogMaking(logs, self._without_log.__contains__)
        self._prepared: dict[PartitionKey, UnifiedLog] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        return self.at((topic, index))

    def find(self, topic: str, index: int) -> Partition:
        """A hosted partition.

        Raises NotLeaderOrFollower if only other nodes have it, UnknownTopicOrPartition if there is none.
        """
        found = self._by_key.get((topic, index))
        if found is not None:
            return found
        known = self._cache.topic(topic)
        raise UnknownTopicOrPartition if known is None or index not in known.partitions else NotLeaderOrFollower

    def online(self, topic: str, index: int) -> Partition | None:
        """A hosted partition, unless its log is offline (Kafka's `ReplicaManager.onlinePartition`)."""
        found = self._by_key.get((topic, index))
        return None if found is None or found.role is Role.OFFLINE else found

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a hosted partition's log is offline."""
        found = self._by_key.get((topic, index))
        return found is not None and found.role is Role.OFFLINE

    def offline_of(self, topic: TopicImage) -> Set[int]:
        """The partitions of a topic whose logs are offline here, while no other node leads them."""
        if not self.logs.failures:
            return frozenset()
        mine = (self._node_id, NO_LEADER)
        return {
            index
            for index, partition in topic.in_order()
            if partition.leader in mine and self.is_offline(topic.name, index)
        }

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    async def start(self) -> None:
        """Host the partitions of which this node is a replica."""
        image = self._cache.image
        missing = []
        for topic in image.topics:
            config = self._config_of(topic.name, image)
            for index, state in topic.in_order():
                if self._node_id not in state.replicas:
                    continue
                replica = Replica(topic.name, index, topic.id, state)
                log = self.logs.get(*replica.key) or self.logs.absent_log(*replica.key, topic.id, config)
                if log is None:
                    missing.append(replica)
                else:
                    self._host(replica, log)
        self._prepared = await self._make(missing, image)
        for replica in missing:
            self._take(replica, image)
        self._follow_quotas(image, image.configs.names(ResourceType.TOPIC))

    def _follow_quotas(self, image: MetadataImage, topics: Collection[str]) -> None:
        for quota in (self.leader_quota, self.follower_quota):
            quota.follow(image, topics)

    async def stop(self) -> None:
        """Follow and lead no more; the logs are still open."""
        await self.fetchers.stop()
        await self._alter_partition.stop()

    def reconfigure(self) -> None:
        """Apply changed broker defaults to every log."""
        image = self._cache.image
        for topic in image.topics:
            self._configure(topic, image)

    @property
    def is_rack_aware(self) -> bool:
        """Whether consumers that name their rack are sent to followers in it."""
        return self._cluster.settings().rack_aware

    def preferred_replica(self, replicas: LeaderState, offset: int, consumer: ConsumerPlace) -> int | None:
        """The follower that a consumer should read from; None for this leader."""
        return preferred_replica(self._cache.image, self._node_id, replicas, offset, consumer)

    async def shrink_in_sync_replicas(self) -> None:
        """Propose to take followers that lag too long out of the ISR; a task for every half of that time."""
        for partition in list(self._by_key.values()):
            if partition.replicas is not None:
                partition.replicas.shrink()

    def say_what_is_tiered(self) -> None:
        """Log the topics that need tiered storage, on a node that has none: their remote records cannot be read."""
        topics = {one.topic for one in self if one.log.config.remote_storage}
        if topics:
            advice = "set remote.log.storage.system.enable=true and the store that they were in"
            logger.error("tiered storage is switched off, but topics need it", topics=sorted(topics), advice=advice)

    # -- following the image

    async def prepare(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make the logs of new partitions, in worker threads: their files take several syncs each."""
        if not delta.touched("topics"):
            return
        async with self._making.turn:
            recreated = {topic.after.name for topic in delta.topics.changed.values()}
            for deleted in delta.topics.deleted.values():
                if deleted.name in recreated:  # its folders' names are needed
                    self._delete(deleted)
            new = [
                replica
                for replica in self._changed(delta)
                if self._is_here(replica) and replica.key not in self._by_key
            ]
            self._prepared = await self._make(new, image)

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Host what was prepared, let go of what was deleted or moved away, take over roles and configurations."""
        if delta.touched("topics"):
            for deleted in delta.topics.deleted.values():
                self._delete(deleted)
            for changed in self._changed(delta):
                if self._is_here(changed):
                    self._take(changed, image)
                elif changed.key in self._by_key:
                    self._by_key[changed.key].follow(changed.state)
                    self._remove(changed.key)
            self.fetchers.end_idle()
        if delta.touched("configs"):
            names = [name for kind, name in delta.configs.changed if kind == ResourceType.TOPIC]
            for topic in filter(None, map(image.topics.get, names)):
                self._configure(topic, image)
            self._follow_quotas(image, names)

    def _changed(self, delta: MetadataDelta) -> Iterator[Replica]:
        """The partitions that are new or have changed."""
        for topic in delta.topics.changed.values():
            for index, state in topic.changed.items():
                yield Replica(topic.after.name, index, topic.after.id, state)

    def _is_here(self, replica: Replica) -> bool:
        return self._node_id in replica.state.replicas

    async def retry(self) -> set[str]:
        """Make the logs that could not be made before; return the topics of those that were made now."""
        async with self._making.turn:
            made = await self._make(list(self._without_log.values()), self._cache.image)
            late = {key: made.pop(key) for key in list(made) if key not in self._without_log}
            for key, log in made.items():
                self._replace_placeholder(self._without_log.pop(key), log)
            await self._making.abandon(late)
        return {topic for topic, _ in made}

    async def _make(self, wanted: Sequence[Replica], image: MetadataImage) -> dict[PartitionKey, UnifiedLog]:
        return await self._making.make(wanted, lambda topic: self._config_of(topic, image), self._node_id)

    # -- waiting requests

    def when_committed(
        self, waiting: Sequence[Unacknowledged], timeout_ms: int, response: ProduceResponse
    ) -> Future[ProduceResponse]:
        """The response, once every append of its request is committed, or the time is up."""
        future: Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        operation = DelayedProduce(waiting, response, future)
        keys = [append.partition.key for append in waiting]
        self.produce_purgatory.try_complete_else_watch(operation, keys, max(timeout_ms, 0))
        return future

    def tell_changes_to(self, sessions: FetchSessionCache) -> None:
        """Let fetch sessions know which partitions change, before those who wait for their records."""
        self._purgatories = (sessions, *self._purgatories)
        sessions.hear(self.fetch_purgatory.check_and_complete)

    def stop_waits(self) -> None:
        """Answer every Fetch that waits; those that follow do not wait."""
        self.stopping = True
        self.fetch_purgatory.complete_all()

    def _advanced(self, partition: Partition) -> None:
        """Note that records became visible, or never will: requests that wait for them may now be answered."""
        key = partition.key
        for purgatory in self._purgatories:
            if key in purgatory.watchers:  # checked first, as it is rarely true and every append comes here
                purgatory.check_and_complete(key)

    # -- hosting

    def _take(self, replica: Replica, image: MetadataImage) -> None:
        """Host a partition whose log was prepared, or take over the role of one that is hosted already."""
        known = self._by_key.get(replica.key)
        if known is not None:
            self._set_role(known, replica)
            if replica.key in self._without_log:
                self._without_log[replica.key] = replica
            return
        log = self._prepared.pop(replica.key, None)
        if log is None:
            self._without_log[replica.key] = replica
            log = self.logs.unmade_log(*replica.key, replica.topic_id, self._config_of(replica.topic, image))
        else:
            self.logs.adopt(log)
        self._host(replica, log)

    def _replace_placeholder(self, replica: Replica, log: UnifiedLog) -> None:
        self._by_key[replica.key].deleted()
        log.config = self._config_of(replica.topic, self._cache.image)  # it may have changed while the log was made
        self.logs.adopt(log)
        self._host(replica, log)
        logger.info("log made at last", partition=f"{replica.topic}-{replica.index}")

    def _set_role(self, partition: Partition, replica: Replica) -> None:
        if replica.state.leader == self._node_id:
            partition.lead(replica.state)
        else:
            partition.follow(replica.state)
        # The cluster takes a replica in a folder without room for lost: see `full_folders`.
        is_lost = replica.state.directory_of(self._node_id) == LOST
        if partition.role is Role.FOLLOWER and replica.state.has_leader and not is_lost:
            self.fetchers.follow(partition)
        else:
            self.fetchers.leave(partition)

    def _host(self, replica: Replica, log: UnifiedLog) -> None:
        partition = Partition(replica.topic, replica.topic_id, replica.index, log, self._advanced, self.replication)
        self._set_role(partition, replica)
        self._by_key[replica.key] = partition
        self.most = max(self.most, len(self._by_key))

    def _config_of(self, topic: str, image: MetadataImage) -> LogConfig:
        return self._log_config(topic, image.configs.of(ResourceType.TOPIC, topic))

    def _configure(self, topic: TopicImage, image: MetadataImage) -> None:
        config = self._config_of(topic.name, image)
        for index in range(topic.partition_count):
            partition = self._by_key.get((topic.name, index))
            if partition is not None:
                partition.configure(config)

    def _delete(self, topic: TopicImage) -> None:
        for index in range(topic.partition_count):
            if (topic.name, index) in self._by_key:
                self._remove((topic.name, index))
        if self._cache.topic(topic.name) is None:
            self._topic_deleted(topic.name)

    def _remove(self, key: PartitionKey) -> None:
        """Let go of a partition, and delete its log."""
        partition = self._by_key.pop(key)
        self.fetchers.leave(partition)
        if self._without_log.pop(key, None) is None:
            try:
                self.logs.delete_log_soon(*key)
            except KafkaStorage as error:  # the next start removes it
                logger.error("partition not removed", partition=partition.log.name, error=error.message)
        partition.deleted()
        self._advanced(partition)
