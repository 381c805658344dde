"""End markers on their way to partitions that this node leads (`coordinator.transaction.marker_port`)."""

from __future__ import annotations

from asyncio import Future
from functools import partial

from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.replication.waits import until_committed
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.runtime.batches import encode_end_marker
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.transaction.marker_port import EndMarker, WriteMarker
from coordinator.transaction.transaction_metadata import TV_2
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME
from protocol.errors import InvalidProducerEpoch
from storage.append_types import AppendOrigin
from storage.producers.producer_entry import NO_OFFSET
from timing.clock import Clock
from timing.wheel import TimingWheel


class TransactionMarkers:
    """Appends markers; for `__consumer_offsets` through its coordinator, for which they also decide about offsets."""

    def __init__(
        self,
        clock: Clock,
        wheel: TimingWheel,
        partitions: ReplicaManager,
        groups: CoordinatorRuntime[GroupCoordinatorShard],
    ) -> None:
        self._clock = clock
        self._wheel = wheel
        self._partitions = partitions
        self._groups = groups

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """See `MarkerPort.marker_writer`."""
        now_ms = self._clock.wall_ms()
        producer = ProducerEpoch(marker.producer_id, marker.producer_epoch)
        batch = encode_end_marker(producer, marker.coordinator_epoch, marker.committed, now_ms)
        return partial(self._write, marker, batch, now_ms)

    def _write(self, marker: EndMarker, batch: bytearray, now_ms: int, topic: str, index: int) -> Future[None] | None:
        partition = self._partitions.find(topic, index)
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
        return until_committed(partition, end, self._wheel)


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
