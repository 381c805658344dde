"""The transaction coordinator of this node: its shards' state machines, connected to the host."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from broker.cluster.producer_ids import ProducerIds
from broker.config.broker_config import BrokerConfig
from broker.coordinators.hosted import Host, HostedCoordinator
from broker.coordinators.transaction_markers import TransactionMarkers
from broker.monitoring.metrics import Metrics
from broker.monitoring.transaction_metrics import register_transaction_metrics
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.transaction.config import TransactionConfig
from coordinator.transaction.metrics import TransactionMetrics
from coordinator.transaction.transaction_coordinator_shard import ROWS, TransactionCoordinatorShard
from coordinator.transaction.transaction_metadata import TransactionMetadata
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


class TransactionCoordinator(HostedCoordinator[TransactionCoordinatorShard]):
    """Routes messages for transactions, by transactional id. `groups` has the offsets that are part of transactions."""

    load_buffer_config = "transaction.state.log.load.buffer.size"

    def __init__(
        self,
        host: Host,
        groups: CoordinatorRuntime[GroupCoordinatorShard],
        producer_ids: ProducerIds,
    ) -> None:
        config = host.current.config
        self._producer_ids = producer_ids
        self._config = transaction_config(config)
        self.metrics = TransactionMetrics()
        self.markers = TransactionMarkers(host.clock, host.wheel, host.replicas, groups)
        runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=host.clock,
            wheel=host.wheel,
            base_sequence=NO_SEQUENCE,
        )
        partitions = config.integer("transaction.state.log.num.partitions")
        super().__init__(host, TRANSACTION_STATE_TOPIC_NAME, partitions, runtime)

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the metrics of transactions for `/metrics`."""
        host = self._host
        longest_ms = self._config.max_timeout_ms
        register_transaction_metrics(metrics, self.metrics, self.metadata, host.replicas, host.clock, longest_ms)

    def _new_state(self, context: CoordinatorContext[TransactionCoordinatorShard]) -> TransactionCoordinatorShard:
        partition = self._host.replicas.get(TRANSACTION_STATE_TOPIC_NAME, context.partition)
        return TransactionCoordinatorShard(
            context,
            0 if partition is None else partition.leader_epoch,
            self._config,
            self.markers,
            self.metrics,
            self._producer_ids.take,
            self._transaction_version,
        )

    def _transaction_version(self) -> int:
        return self._host.cache.feature(TRANSACTION_VERSION)

    def holds(self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]) -> bool:
        """Whether the producer's open transaction includes all of the partitions, as of the end of the log."""
        context = self.runtime.context(self.partition_for(transactional_id))
        return context is not None and _holds(context.state, transactional_id, producer, partitions)

    def holds_for_good(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]
    ) -> bool:
        """Whether `holds` is true, and everything it depends on is committed."""
        context = self.runtime.context(self.partition_for(transactional_id))
        return (
            context is not None
            and context.is_committed
            and _holds(context.state, transactional_id, producer, partitions)
        )

    def metadata(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """Every transactional id of the loaded shards, for metrics."""
        for context in self.runtime.contexts():
            if context.state is not None:
                yield from context.state.items()


def _holds(
    state: TransactionCoordinatorShard | None,
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
