"""The share coordinator of this node: its shards' state machines, connected to the host."""

from __future__ import annotations

from uuid import UUID

import structlog

from broker.coordinators.hosted import Host, HostedCoordinator
from broker.coordinators.remote_states import RemoteStates
from broker.membership.broker_clients import BrokerClients
from broker.observe.group_metrics import EndsElsewhere
from broker.observe.metrics import Metrics
from broker.observe.share_metrics import register_share_metrics
from broker.replication.log_maintenance import delete_records
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.share.share_coordinator_shard import ROWS, ShareCoordinatorShard
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topic_names import SHARE_GROUP_STATE_TOPIC_NAME
from protocol import uuids
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import CoordinatorNotAvailable, KafkaError
from protocol.metadata.topics import NO_LEADER

logger = structlog.get_logger(__name__)


def coordinator_key(key: SharePartitionKey) -> str:
    """What decides which shard a share partition belongs to, as FindCoordinator has it."""
    return f"{key.group_id}:{uuids.to_text(key.topic_id)}:{key.partition}"


class ShareCoordinator(HostedCoordinator[ShareCoordinatorShard]):
    """Routes messages for share partitions, by `coordinator_key`."""

    load_buffer_config = "share.coordinator.load.buffer.size"

    def __init__(self, host: Host) -> None:
        config = host.current.config
        self._snapshot_every = config.integer("share.coordinator.snapshot.update.records.per.snapshot")
        runtime: CoordinatorRuntime[ShareCoordinatorShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=host.clock,
            wheel=host.wheel,
            write_timeout_ms=config.integer("share.coordinator.write.timeout.ms"),
        )
        partitions = config.integer("share.coordinator.state.topic.num.partitions")
        super().__init__(host, SHARE_GROUP_STATE_TOPIC_NAME, partitions, runtime)

    def _new_state(self, context: CoordinatorContext[ShareCoordinatorShard]) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(context, self._has_partition, self._snapshot_every)

    def _has_partition(self, topic_id: UUID, index: int) -> bool:
        topic = self._host.cache.topic_by_id(topic_id)
        return topic is not None and index in topic.partitions

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Besides shards: the state of deleted topics is removed."""
        super().follow(delta, image)
        if delta.touched("topics") and delta.topics.deleted:
            deleted = set(delta.topics.deleted)
            for context in self.runtime.contexts():
                context.tell_once_loaded(lambda state: state.delete_topics(deleted))

    def register_metrics(self, metrics: Metrics, peers: BrokerClients | None) -> None:
        """Register the metrics of share groups for `/metrics`; `peers` are the other brokers of a cluster."""
        host = self._host
        ends = EndsElsewhere(host.node_id, host.cache, peers.reach) if peers is not None else None
        register_share_metrics(metrics, host.replicas, ends, host.cache, self.runtime)

    def elsewhere(self, key: SharePartitionKey) -> RemoteStates | None:
        """The share partition's coordinator on another node; None if it is here. Raises CoordinatorNotAvailable."""
        leader = self.leader_for(self._host.cache.image, coordinator_key(key))
        if leader in (self._host.node_id, NO_LEADER):  # without a leader the shard here answers NOT_COORDINATOR
            return None
        client = self._host.brokers.reach(leader)
        if client is None:
            raise CoordinatorNotAvailable(f"Broker {leader}, which has the share coordinator, is away.")
        return RemoteStates(client)

    async def prune(self) -> None:
        """Delete what the shards no longer need of `__share_group_state` (KIP-932: it is not compacted)."""
        for context in self.runtime.contexts():
            partition = self._host.replicas.get(SHARE_GROUP_STATE_TOPIC_NAME, context.partition)
            if context.state is None or partition is None:
                continue
            offset = min(context.state.redundant_below(), partition.high_watermark)
            if offset <= partition.log_start_offset:
                continue
            try:
                delete_records(partition, offset)
            except KafkaError as error:
                logger.warning("share state not pruned", partition=context.partition, error=str(error))
