"""Ends transactions that are open in a partition while no coordinator knows them any more (KIP-664).

A power failure may take a transaction from the end of `__transaction_state` and leave its records in a partition. Then
nobody would write their marker, and readers of committed records would wait there for ever. Kafka leaves that to an
admin (`kafka-transactions find-hanging`, `abort`); it has replicas against such losses.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, Task
from dataclasses import dataclass

import structlog

from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.runtime.coordinator_context import CoordinatorState
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.transaction.marker_sender import EndMarker
from coordinator.transaction.rules import end_of_unknown
from coordinator.transaction.transaction_metadata import TransactionMetadata
from protocol.errors import KafkaError
from storage.producers.producer_entry import ProducerStateEntry
from timing.clock import Clock

logger = structlog.get_logger(__name__)

RETRY_MS = 2_000


@dataclass(frozen=True, slots=True)
class _Open:
    """A transaction found open at startup."""

    partition: Partition
    producer_id: int
    first_offset: int

    def entry(self) -> ProducerStateEntry | None:
        """Its producer, unless the transaction has ended, or nothing can be written to the partition."""
        if self.partition.is_deleted or self.partition.log.is_offline:
            return None
        entry = self.partition.log.producers.producers.get(self.producer_id)
        return entry if entry is not None and entry.txn_first_offset == self.first_offset else None


class HangingTransactions:
    """Looks once at what was open when the node started; later transactions are in their coordinator before a log."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        groups: CoordinatorRuntime[GroupCoordinatorShard],
        partitions: ReplicaManager,
        clock: Clock,
    ) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._partitions = partitions
        self._clock = clock
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Note what is open, and end what hangs once the coordinators have loaded. Call it before anyone is served."""
        if not self._coordinator.topic_exists:
            return
        open_ones = [
            _Open(partition, producer_id, first_offset)
            for partition in self._partitions
            for first_offset, producer_id in partition.log.producers.open_transactions.items()
        ]
        if open_ones:
            self._task = asyncio.ensure_future(self._end(open_ones))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _end(self, open_ones: list[_Open]) -> None:
        while True:
            await self._groups.loaded()
            await self._coordinator.runtime.loaded()
            if not _is_complete(self._coordinator):
                return  # a shard that is missing may know them; the next start looks again
            by_producer = _by_producer(self._coordinator)
            # All begun at once: while this waits, a producer may open a transaction where its old one hangs.
            endings = [self._begin(transaction, by_producer.get(transaction.producer_id)) for transaction in open_ones]
            open_ones = [
                transaction
                for transaction, ending in zip(open_ones, endings, strict=True)
                if ending and not await ending.is_over()
            ]
            if not open_ones:
                return
            await self._clock.sleep(RETRY_MS)

    def _begin(self, transaction: _Open, known: TransactionMetadata | None) -> _Ending | None:
        """End it, unless the transaction is its coordinator's or has ended before: then None."""
        entry = transaction.entry()
        if entry is None:
            return None
        partition = transaction.partition
        committed = end_of_unknown(known, transaction.producer_id, entry.producer_epoch, partition.key)
        if committed is None:
            return None
        # An admin's marker has the coordinator epoch of the last one, too.
        marker = EndMarker(transaction.producer_id, entry.producer_epoch, max(entry.coordinator_epoch, 0), committed)
        try:
            written = self._coordinator.markers.marker_writer_here(marker)(*partition.key)
        except KafkaError as error:
            return _Ending(partition, marker, error)
        return _Ending(partition, marker, written)


@dataclass(frozen=True, slots=True)
class _Ending:
    """A marker on its way; `written` is None if it is there, an error if it could not be appended."""

    partition: Partition
    marker: EndMarker
    written: Future[None] | KafkaError | None

    async def is_over(self) -> bool:
        log = logger.bind(
            partition=f"{self.partition.topic}-{self.partition.index}",
            producer_id=self.marker.producer_id,
            producer_epoch=self.marker.producer_epoch,
            committed=self.marker.committed,
        )
        try:
            if isinstance(self.written, KafkaError):
                raise self.written
            if self.written is not None:
                await self.written
        except KafkaError as error:
            log.warning("hanging transaction not ended yet", code=error.code.name)
            return False
        log.warning("hanging transaction ended: its coordinator's log has lost it")
        return True


def _is_complete(coordinator: TransactionCoordinator) -> bool:
    """Whether every transactional id is known, as all of `__transaction_state` has been loaded."""
    contexts = [coordinator.runtime.context(index) for index in range(coordinator.partition_count)]
    return all(context is not None and context.status is CoordinatorState.ACTIVE for context in contexts)


def _by_producer(coordinator: TransactionCoordinator) -> dict[int, TransactionMetadata]:
    known: dict[int, TransactionMetadata] = {}
    for _, metadata in coordinator.metadata():
        known.setdefault(metadata.previous_producer_id, metadata)
        known[metadata.producer_id] = metadata
    return known
