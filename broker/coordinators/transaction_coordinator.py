"""The transaction coordinator of this node: its shards' state machines, connected to the host.

It has two ways to other brokers, each with a queue for every broker: end markers go to the leaders of partitions
(`TransactionMarkers`), and leaders here ask coordinators there about transactions (`TransactionCoordinator.ask`).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.config.broker_config import BrokerConfig
from broker.coordinators.hosted import Host, HostedCoordinator
from broker.membership.producer_ids import ProducerIds
from broker.peers.client import PeerClient
from broker.peers.queues import BrokerQueues
from broker.replication.partition import Partition
from broker.replication.waits import WRITE_TIMEOUT_MS, until_committed
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.coordinator_log import encode_end_marker
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.transaction.marker_sender import EndMarker, Question, WriteMarker
from coordinator.transaction.transaction_coordinator_shard import (
    ROWS,
    TransactionConfig,
    TransactionCoordinatorShard,
    TransactionCounts,
)
from coordinator.transaction.transaction_metadata import TV_2, TransactionMetadata
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME
from protocol.errors import InvalidProducerEpoch, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from protocol.metadata.topics import NO_LEADER
from protocol.records.batch import NO_SEQUENCE
from protocol.topic_partition import PartitionKey
from storage.append_types import AppendOrigin
from storage.producers.producer_entry import NO_OFFSET

if TYPE_CHECKING:
    from broker.coordinators.remote import Markers, Questions

TRANSACTION_VERSION = "transaction.version"


class TransactionMarkers:
    """Writes end markers wherever the leaders are (`coordinator.transaction.marker_sender`).

    This node's own partitions get theirs directly; `__consumer_offsets` through the coordinator `groups`, for which
    they also decide about offsets. Those of other brokers go in requests, one queue for each broker.
    """

    def __init__(self, host: Host, groups: CoordinatorRuntime[GroupCoordinatorShard]) -> None:
        self._host = host
        self._groups = groups
        self.queues: BrokerQueues[tuple[EndMarker, PartitionKey], None] = BrokerQueues(
            host.brokers.reach, _send_markers
        )

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """See `MarkerPort.marker_writer`. A partition is gone only if it is gone from this node's own image."""
        write_here = self.marker_writer_here(marker)

        def write(topic: str, index: int) -> Future[None] | None:
            known = self._host.cache.image.topics.get(topic)
            partition = None if known is None else known.partitions.get(index)
            if partition is None:
                raise UnknownTopicOrPartition
            if partition.leader == self._host.node_id:
                return write_here(topic, index)
            if not partition.has_leader:
                raise LeaderNotAvailable
            return self.queues.put(partition.leader, marker.producer_id, marker, (marker, (topic, index)))

        return write

    def marker_writer_here(self, marker: EndMarker) -> WriteMarker:
        """As `marker_writer`, for partitions that this node leads."""
        now_ms = self._host.clock.wall_ms()
        producer = ProducerEpoch(marker.producer_id, marker.producer_epoch)
        batch = encode_end_marker(producer, marker.coordinator_epoch, marker.committed, now_ms)
        return partial(self._write, marker, batch, now_ms)

    def _write(self, marker: EndMarker, batch: bytearray, now_ms: int, topic: str, index: int) -> Future[None] | None:
        partition = self._host.replicas.find(topic, index)
        _check_transaction(partition, marker)
        if topic == GROUP_METADATA_TOPIC_NAME:
            return self._groups.end_transaction(
                index,
                ProducerEpoch(marker.producer_id, marker.producer_epoch),
                marker.coordinator_epoch,
                marker.committed,
            )
        own = memoryview(bytearray(batch))  # the log rewrites it as the topic stores it
        end = partition.append(own, AppendOrigin.COORDINATOR, now_ms).last_offset + 1
        return until_committed(partition, end, self._host.wheel)


def _check_transaction(partition: Partition, marker: EndMarker) -> None:
    """Raises InvalidProducerEpoch if the producer's open transaction, if any, is not the one that the marker ends."""
    entry = partition.log.producers.producers.get(marker.producer_id)
    if entry is None or entry.txn_first_offset == NO_OFFSET:
        return
    if marker.records_epoch is not None and entry.producer_epoch != marker.records_epoch:
        raise InvalidProducerEpoch
    if marker.transaction_version >= TV_2 and entry.producer_epoch == marker.producer_epoch:
        raise InvalidProducerEpoch(
            f"The marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, that of its transaction."
        )


async def _send_markers(client: PeerClient, sent: Markers) -> None:
    from broker.coordinators.remote import send_markers

    await send_markers(client, sent)


async def _send_questions(client: PeerClient, sent: Questions) -> None:
    from broker.coordinators.remote import send_questions

    await send_questions(client, sent)


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
        self.config = transaction_config(config)
        self.counts = TransactionCounts()
        self.markers = TransactionMarkers(host, groups)
        self._questions: BrokerQueues[Question, frozenset[PartitionKey]] = BrokerQueues(
            host.brokers.reach, _send_questions
        )
        runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=host.clock,
            wheel=host.wheel,
            base_sequence=NO_SEQUENCE,
            write_timeout_ms=WRITE_TIMEOUT_MS,
        )
        partitions = config.integer("transaction.state.log.num.partitions")
        super().__init__(host, TRANSACTION_STATE_TOPIC_NAME, partitions, runtime)

    @property
    def markers_waiting(self) -> int:
        """How many markers wait to be sent to other brokers."""
        return len(self.markers.queues)

    @property
    def questions_waiting(self) -> int:
        """How many questions about transactions wait to be sent to other brokers' coordinators."""
        return len(self._questions)

    def _new_state(self, context: CoordinatorContext[TransactionCoordinatorShard]) -> TransactionCoordinatorShard:
        partition = self._host.replicas.get(TRANSACTION_STATE_TOPIC_NAME, context.partition)
        return TransactionCoordinatorShard(
            context,
            0 if partition is None else partition.leader_epoch,
            self.config,
            self.markers,
            self.counts,
            self._producer_ids.take,
            self._transaction_version,
        )

    def _transaction_version(self) -> int:
        return self._host.cache.feature(TRANSACTION_VERSION)

    def term_of(self, partition: Partition) -> int:
        """See `HostedCoordinator.term_of`: markers carry the leader epoch, so each epoch begins anew, as in Kafka."""
        return partition.leader_epoch

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Besides shards, the queues to other brokers follow: those to brokers that are gone are given up."""
        super().follow(delta, image)
        if delta.touched("cluster"):
            self.markers.queues.brokers_changed()
            self._questions.brokers_changed()

    def stop(self) -> None:
        """See `HostedCoordinator.stop`."""
        super().stop()
        self.markers.queues.close()
        self._questions.close()
        self._host.brokers.close()

    # -- transactions of this node's leaders

    def ask(self, question: Question) -> Future[Any]:
        """The partitions that are in the transaction, by its coordinator, wherever it is; or the coordinator's error.

        NETWORK_EXCEPTION if no coordinator answers.
        """
        transactional_id, producer, partitions, adds = question
        leader = self.leader_for(self._host.cache.image, transactional_id)
        if leader not in (self._host.node_id, NO_LEADER):
            return self._questions.put(leader, transactional_id, question, question)
        if adds:
            return self.write(
                transactional_id, lambda state: state.add_partitions(transactional_id, producer, partitions, TV_2)
            )
        return self.read(
            transactional_id, lambda state: state.verify_partitions(transactional_id, producer, partitions)
        )

    def holds(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]
    ) -> bool | None:
        """Whether the producer's open transaction includes all of the partitions, as of the end of the log.

        None if this node does not coordinate the transactional id, or has not loaded it yet.
        """
        context = self.runtime.context(self.partition_for(transactional_id))
        if context is None or context.state is None:
            return None
        return _holds(context.state, transactional_id, producer, partitions)

    def holds_for_good(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]
    ) -> bool:
        """Whether `holds` is true, and everything it depends on is committed."""
        context = self.runtime.context(self.partition_for(transactional_id))
        return (
            context is not None
            and context.state is not None
            and context.is_committed
            and _holds(context.state, transactional_id, producer, partitions)
        )

    def metadata(self) -> Iterator[tuple[str, TransactionMetadata]]:
        """Every transactional id of the loaded shards, for metrics."""
        for context in self.runtime.contexts():
            if context.state is not None:
                yield from context.state.items()


def _holds(
    state: TransactionCoordinatorShard,
    transactional_id: str,
    producer: ProducerEpoch,
    partitions: Collection[PartitionKey],
) -> bool:
    try:
        return len(state.verify_partitions(transactional_id, producer, partitions)) == len(partitions)
    except KafkaError:
        return False
