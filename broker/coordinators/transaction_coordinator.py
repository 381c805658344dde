"""The transaction coordinator of this node: its shards' state machines, connected to the node."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from broker.cluster.producer_ids import ProducerIds
from broker.config.broker_config import BrokerConfig
from broker.coordinators.hosted import HostedCoordinator, HostingNode
from broker.coordinators.transaction_markers import TransactionMarkers
from broker.monitoring.metrics import Metrics
from broker.monitoring.transaction_metrics import register_transaction_metrics
from coordinator.group.shard import GroupShard
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.runtime.shard import Shard
from coordinator.transaction.config import TransactionConfig
from coordinator.transaction.metadata import TransactionMetadata
from coordinator.transaction.metrics import TransactionMetrics
from coordinator.transaction.shard import ROWS, TransactionShard
from metadata.topic_names import TRANSACTION_STATE_TOPIC_NAME
from protocol.errors import KafkaError
from protocol.records.batch import NO_SEQUENCE
from protocol.topic_partition import PartitionKey

TRANSACTION_VERSION = "transaction.version"


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        timeout_check_interval_ms=config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        id_expiry_check_interval_ms=config.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )


class TransactionCoordinator(HostedCoordinator[TransactionShard]):
    """Routes messages for transactions, by transactional id. `groups` has the offsets that are part of transactions."""

    load_buffer_config = "transaction.state.log.load.buffer.size"

    def __init__(
        self,
        node: HostingNode,
        groups: CoordinatorRuntime[GroupShard],
        producer_ids: ProducerIds,
    ) -> None:
        config = node.config
        self._producer_ids = producer_ids
        self._config = transaction_config(config)
        self.metrics = TransactionMetrics()
        self.markers = TransactionMarkers(node.clock, node.wheel, node.replicas, groups)
        runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=node.clock,
            wheel=node.wheel,
            base_sequence=NO_SEQUENCE,
        )
        partitions = config.integer("transaction.state.log.num.partitions")
        super().__init__(node, TRANSACTION_STATE_TOPIC_NAME, partitions, runtime)

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the metrics of transactions for `/metrics`."""
        node = self._node
        longest_ms = self._config.max_timeout_ms
        register_transaction_metrics(metrics, self.metrics, self.metadata, node.replicas, node.clock, longest_ms)

    def _new_state(self, shard: Shard[TransactionShard]) -> TransactionShard:
        partition = self._node.replicas.get(TRANSACTION_STATE_TOPIC_NAME, shard.partition)
        return TransactionShard(
            shard,
            0 if partition is None else partition.leader_epoch,
            self._config,
            self.markers,
            self.metrics,
            self._producer_ids.take,
            self._transaction_version,
        )

    def _transaction_version(self) -> int:
        return self._node.cache.feature(TRANSACTION_VERSION)

    def holds(self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]) -> bool:
        """Whether the producer's open transaction includes all of the partitions, as of the end of the log."""
        shard = self.runtime.shard(self.partition_for(transactional_id))
        return shard is not None and _holds(shard.state, transactional_id, producer, partitions)

    def holds_for_good(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]
    ) -> bool:
        """Whether `holds` is true, and everything it depends on is committed."""
        shard = self.runtime.shard(self.partition_for(transactional_id))
        return shard is not None and shard.is_settled and _holds(shard.state, transactional_id, producer, partitions)

    def metadata(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """Every transactional id of the loaded shards, for metrics."""
        for shard in self.runtime.shards():
            if shard.state is not None:
                yield from shard.state.items()


def _holds(
    state: TransactionShard | None,
    transactional_id: str,
    producer: ProducerEpoch,
    partitions: Collection[PartitionKey],
) -> bool:
    if state is None:
        return False
    try:
        return len(state.verify_partitions(transactional_id, producer, partitions)) == len(partitions)
    except KafkaError:
        return False
