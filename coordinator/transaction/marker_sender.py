"""Writes a decided transaction's markers, for as long as it takes (Kafka's TransactionMarkerChannelManager).

How it works: a PREPARE record is sent on its way by `send_when_durable`, once it is committed: a marker must never be
written for a decision that a crash may take back. The markers of all partitions are written at the same time. A
partition's outcome is

- written, or the partition is gone, or its producer has a newer epoch: the partition needs nothing more;
- refused with a newer coordinator's epoch: this coordinator is out of date, and leaves the transaction alone;
- any other error: the partition is tried again after 100 ms, then twice that, up to two seconds, for ever.

When no partition is left, the COMPLETE record is appended; if only that fails, only that is tried again. After a
restart, the loaded PREPARE records are sent on their way again. A marker that is written twice does no harm.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from coordinator.runtime.outcome import Outcome, ProducerEpoch
from coordinator.transaction.transaction_metadata import NO_PARTITIONS, TransactionMetadata
from protocol.errors import (
    InvalidProducerEpoch,
    KafkaError,
    TransactionCoordinatorFenced,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from protocol.topic_partition import PartitionKey

if TYPE_CHECKING:
    from coordinator.runtime.coordinator_context import CoordinatorContext


logger = structlog.get_logger(__name__)

FIRST_RETRY_MS = 100
LONGEST_RETRY_MS = 2_000
"""Each wait is twice the previous one: a folder with thousands of transactions may be offline for days."""


class EndMarker(NamedTuple):
    """A marker that ends a producer's transaction in a partition (KIP-98).

    `transaction_version` is that of the transaction: from 2 on, the marker has a later epoch than the records that it
    ends (KIP-1228).

    `records_epoch` of a commit: the epoch of the transaction's records. If the partition's open transaction has
    another, a power failure took something from one of the logs, and the decision is not about that one. None if an
    admin sends the marker, and for an abort, which suits any transaction whose end is unknown.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    records_epoch: int | None = None
    transaction_version: int = 0


class Question(NamedTuple):
    """Whether these partitions may be written to in the producer's transaction; `adds`: they are to be added to it."""

    transactional_id: str
    producer: ProducerEpoch
    partitions: tuple[PartitionKey, ...]
    adds: bool


WriteMarker = Callable[[str, int], Future[None] | None]

Complete = Callable[[str, TransactionMetadata, Callable[[KafkaError | None], None]], Outcome[None] | None]


class MarkerPort(Protocol):
    """Writes end markers to the partitions' leaders."""

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """The function that writes the marker to a partition (topic, index): None if it is durable, else a future.

        Both raise KafkaError: UnknownTopicOrPartition if the partition no longer exists, InvalidProducerEpoch and
        TransactionCoordinatorFenced as the partition's log does, and others that are temporary.
        """


class _Sending:
    """One prepared transaction: the partitions without a marker, and those whose marker is on its way.

    `tries` counts the rounds in which all remaining partitions were tried.
    """

    __slots__ = ("in_flight", "left", "prepared", "transactional_id", "tries")

    def __init__(self, transactional_id: str, prepared: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.prepared = prepared
        self.left: set[PartitionKey] = set(prepared.partitions)
        self.in_flight: set[PartitionKey] = set()
        self.tries = 0


class MarkerSender:
    """The prepared transactions of one shard.

    `complete` is `TransactionCoordinatorShard.complete`, `retried` is called for each marker that is tried again.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        complete: Complete,
        retried: Callable[[], None],
        coordinator_epoch: int,
        port: MarkerPort,
    ) -> None:
        self._context = context
        self._complete = complete
        self._retried = retried
        self._coordinator_epoch = coordinator_epoch
        self._port = port
        self._sendings: dict[str, _Sending] = {}
        self._stopped = False

    def left(self, transactional_id: str) -> Collection[PartitionKey]:
        """The partitions whose marker has not been written yet."""
        sending = self._sendings.get(transactional_id)
        return NO_PARTITIONS if sending is None else sending.left

    def stop(self) -> None:
        self._stopped = True

    def send_when_durable(self, transactional_id: str, prepared: TransactionMetadata) -> None:
        """Send the markers once the decision, now in the log, is committed; none may be visible before."""
        sending = self._sendings[transactional_id] = _Sending(transactional_id, prepared)
        if self._context.is_committed:
            self._context.tell(lambda _: self._send(sending))
            return
        self._wait_until_durable(sending)

    def _wait_until_durable(self, sending: _Sending) -> None:
        durable = self._context.waiter()
        durable.answer(None)
        durable.future.add_done_callback(partial(self._durable, sending))

    def _durable(self, sending: _Sending, done: Future[None]) -> None:
        """Send markers if the decision is committed; if it has waited for as long as an answer may, go on waiting."""
        error = done.exception()
        if self._stopped:
            return
        if error is None:
            self._context.tell(lambda _: self._send(sending))
        else:
            self._wait_until_durable(sending)

    def _send(self, sending: _Sending) -> Outcome[None] | None:
        """Write the missing markers, and complete the transaction when none is missing."""
        if self._sendings.get(sending.transactional_id) is not sending:
            return None
        sending.tries += 1
        prepared = sending.prepared
        write = self._port.marker_writer(
            EndMarker(
                prepared.producer_id,
                prepared.producer_epoch,
                self._coordinator_epoch,
                prepared.committed,
                prepared.records_epoch if prepared.committed else None,
                prepared.client_version,
            )
        )
        for partition in sorted(sending.left - sending.in_flight):
            try:
                written = write(*partition)
            except KafkaError as error:
                self._failed(sending, partition, error)
                continue
            except Exception:  # a bug, but the transaction must end
                logger.exception("unexpected error while a transaction marker was written")
                self._failed(sending, partition, UnknownServerError())
                continue
            if written is None:
                sending.left.discard(partition)
            elif written.done():
                self._take_outcome(sending, partition, written)
            else:
                sending.in_flight.add(partition)
                written.add_done_callback(partial(self._marker_ended, sending, partition))
        return self._complete_if_all_written(sending)

    def _marker_ended(self, sending: _Sending, partition: PartitionKey, written: Future[None]) -> None:
        """Handle a marker's outcome; called outside of any message."""
        if self._stopped:
            written.exception()  # the next coordinator to load the log goes on
            return

        def take_outcome(_: object) -> Outcome[None] | None:
            sending.in_flight.discard(partition)
            self._take_outcome(sending, partition, written)
            return self._complete_if_all_written(sending)

        self._context.tell(take_outcome)

    def _take_outcome(self, sending: _Sending, partition: PartitionKey, written: Future[None]) -> None:
        error = written.exception()
        if error is None:
            sending.left.discard(partition)
        elif isinstance(error, KafkaError):
            self._failed(sending, partition, error)
        else:
            logger.error("unexpected error while a transaction marker was written", exc_info=error)
            self._failed(sending, partition, UnknownServerError())

    def _failed(self, sending: _Sending, partition: PartitionKey, error: KafkaError) -> None:
        """Try again, for ever; but a partition that is gone, or where a newer epoch writes, needs no marker.

        Once a newer coordinator has written, this one stops: the next one to load the log goes on.
        """
        topic, index = partition
        log = logger.bind(transactional_id=sending.transactional_id, partition=f"{topic}-{index}", code=error.code.name)
        if isinstance(error, UnknownTopicOrPartition | InvalidProducerEpoch):
            log.warning("transaction marker not needed")
            sending.left.discard(partition)
        elif isinstance(error, TransactionCoordinatorFenced):
            log.error("transaction marker refused: a newer coordinator has written")
        else:
            if sending.tries.bit_count() == 1:  # at powers of two only
                log.warning("transaction marker not written yet", tries=sending.tries)
            self._retried()
            self._try_again(sending)

    def _try_again(self, sending: _Sending) -> None:
        delay_ms = min(FIRST_RETRY_MS << min(sending.tries - 1, 10), LONGEST_RETRY_MS)
        pause_ms = self._context.clock.pause_ms(delay_ms)
        self._context.timers.schedule(("markers", sending.transactional_id), pause_ms, lambda _: self._send(sending))

    def _complete_if_all_written(self, sending: _Sending) -> Outcome[None] | None:
        if sending.left or self._sendings.get(sending.transactional_id) is not sending:
            return None
        completion = self._complete(sending.transactional_id, sending.prepared, partial(self._completed, sending))
        if completion is None:
            del self._sendings[sending.transactional_id]
        return completion

    def _completed(self, sending: _Sending, error: KafkaError | None) -> None:
        """End: all markers are written. If there was no room for the record that says so, only that is retried."""
        if error is None:
            del self._sendings[sending.transactional_id]
        else:
            self._try_again(sending)
