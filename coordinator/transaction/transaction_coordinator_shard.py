"""The state machine of one partition of `__transaction_state` (Kafka's TransactionCoordinator).

How it works: a request finds its transactional id, asks `rules` what it makes of it, and returns an Outcome with the
one record that holds the new state. `replay` puts that state into `_by_id`; nothing else does. The effects then start
what follows: with a PREPARE record the `MarkerSender`. Two timers look at all ids: one aborts transactions that are
open longer than their timeout, by an operation of its own for each, the other writes tombstones for ids that were not
used for `transactional.id.expiration.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import structlog

from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import CoordinatorRecord, Effects, Outcome, Position, ProducerEpoch, new_record
from coordinator.transaction import rules
from coordinator.transaction.marker_sender import MarkerSender
from coordinator.transaction.transaction_metadata import (
    AT_REST,
    PREPARED,
    TV_1,
    TV_2,
    TransactionMetadata,
    TransactionState,
)
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG, TRANSACTION_LOG_0, TransactionLogValue
from protocol.errors import ConcurrentTransactions, InvalidTxnTimeout, KafkaError, UnsupportedVersion
from protocol.topic_partition import PartitionKey

if TYPE_CHECKING:
    from coordinator.runtime.coordinator_context import CoordinatorContext
    from coordinator.transaction.marker_sender import MarkerPort


logger = structlog.get_logger(__name__)

T = TypeVar("T")

_TIMEOUTS = "abort-timed-out-transactions"
_EXPIRY = "expire-transactional-ids"
IDS_IN_A_TURN = 1000
"""Expired ids that are forgotten before the loop serves others."""


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's TransactionStateManagerConfig, with its defaults.

    Times in ms; a check interval is the time between two searches.
    """

    max_timeout_ms: int = 15 * 60 * 1000
    timeout_check_interval_ms: int = 10 * 1000
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    id_expiry_check_interval_ms: int = 3600 * 1000


@dataclass(slots=True)
class TransactionCounts:
    """Counts since the start."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    expired_ids: int = 0
    marker_retries: int = 0


class TransactionCoordinatorShard:
    """Operations on transactional ids; each returns an Outcome or raises KafkaError.

    `coordinator_epoch` is the leader epoch of this partition, `server_version` returns the level of the feature
    transaction.version, and `new_producer_id` returns a never-used id, or raises KafkaError.
    """

    def __init__(
        self,
        context: CoordinatorContext[TransactionCoordinatorShard],
        coordinator_epoch: int,
        config: TransactionConfig,
        markers: MarkerPort,
        counts: TransactionCounts,
        new_producer_id: Callable[[], int],
        server_version: Callable[[], int],
    ) -> None:
        self.context = context
        self.counts = counts
        self._by_id: dict[str, TransactionMetadata] = {}
        self._config = config
        self._new_producer_id = new_producer_id
        self._server_version = server_version
        self._markers = MarkerSender(context, self.complete, self._count_retry, coordinator_epoch, markers)

    # -- reading

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._by_id.get(transactional_id)

    def items(self) -> Iterator[tuple[str, TransactionMetadata]]:
        return iter(self._by_id.items())

    def partitions_left(self, transactional_id: str, metadata: TransactionMetadata) -> Collection[PartitionKey]:
        """The transaction's partitions; once it is prepared, those without a marker."""
        return self._markers.left(transactional_id) if metadata.state in PREPARED else metadata.partitions

    # -- requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerEpoch | None, client: str = ""
    ) -> Outcome[ProducerEpoch | ConcurrentTransactions]:
        """The producer; or ConcurrentTransactions as the answer, after an open transaction was fenced.

        `client` is for the log lines, which say who fenced whom.

        Raises InvalidTxnTimeout and what `rules.init_producer_id` does.
        """
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise InvalidTxnTimeout
        current = self._by_id.get(transactional_id)
        target = rules.init_producer_id(
            current, timeout_ms, expected, self._new_producer_id, self._server_version(), self._now_ms()
        )
        log = logger.bind(transactional_id=transactional_id, by=client)
        if current is not None and current.producer_epoch >= 0:
            log = log.bind(fenced=f"{current.producer_id} epoch {current.producer_epoch}")
        if target.state is TransactionState.EMPTY:
            producer = ProducerEpoch(target.producer_id, target.producer_epoch)
            log.info("producer initialized", **producer._asdict())
            return self._move(transactional_id, target, producer)

        def fenced(error: KafkaError | None) -> None:
            if error is None:
                log.warning("open transaction fenced by a new producer, and aborted")
                self.counts.fenced += 1

        return self._move(transactional_id, target, ConcurrentTransactions(), fenced)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        client_version: int,
    ) -> Outcome[None]:
        """Raises what `rules.add_partitions` does, and UnsupportedVersion."""
        current = self._by_id.get(transactional_id)
        target = rules.add_partitions(current, producer, partitions, client_version, self._now_ms())
        if target is None:
            return Outcome()
        self._check_writable(client_version)
        return self._move(transactional_id, target, None)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Collection[PartitionKey]
    ) -> frozenset[PartitionKey]:
        """The partitions that are in the transaction (KIP-890). Raises what `rules.verified` does."""
        return rules.verified(self._by_id.get(transactional_id), producer, partitions)

    def end_transaction(
        self, transactional_id: str, producer: ProducerEpoch, commit: bool, client_version: int
    ) -> Outcome[ProducerEpoch]:
        """The producer id and epoch from now on. Raises what `rules.end_transaction` does, and UnsupportedVersion."""
        current = self._by_id.get(transactional_id)
        target = rules.end_transaction(current, producer, commit, client_version, self._new_producer_id, self._now_ms())
        if target is None:
            assert current is not None
            return Outcome(reply=ProducerEpoch(current.producer_id, current.producer_epoch))
        self._check_writable(client_version)
        return self._move(transactional_id, target, target.next_producer)

    def _check_writable(self, client_version: int) -> None:
        """Raises UnsupportedVersion if the log's records cannot hold what transactions V2 need (KIP-915)."""
        if client_version >= TV_2 and self._server_version() < TV_1:
            raise UnsupportedVersion

    # -- without a request

    def complete(
        self, transactional_id: str, prepared: TransactionMetadata, then: Callable[[KafkaError | None], None]
    ) -> Outcome[None] | None:
        """Complete the transaction, as every marker is written; None if the id has another one by now.

        `then` gets the outcome of the append.
        """
        if self._by_id.get(transactional_id) is not prepared:
            return None

        def completed(error: KafkaError | None) -> None:
            if error is None:
                if prepared.committed:
                    self.counts.committed += 1
                else:
                    self.counts.aborted += 1
            then(error)

        return self._move(transactional_id, prepared.completed(self._now_ms()), None, completed)

    def _abort_timed_out(self) -> None:
        """Abort what timed out, one message each, so that each gets a batch of its own."""
        self._schedule_timeouts()
        now_ms = self._now_ms()
        for transactional_id, metadata in self._by_id.items():
            if metadata.state is TransactionState.ONGOING and metadata.start_ms + metadata.timeout_ms < now_ms:
                self.context.tell(
                    partial(TransactionCoordinatorShard._time_out, transactional_id=transactional_id, metadata=metadata)
                )

    def _time_out(self, *, transactional_id: str, metadata: TransactionMetadata) -> Outcome[None] | None:
        if self._by_id.get(transactional_id) is not metadata:
            return None

        def timed_out(error: KafkaError | None) -> None:
            if error is None:
                logger.warning(
                    "transaction timed out: its producer is fenced",
                    transactional_id=transactional_id,
                    producer_id=metadata.producer_id,
                    producer_epoch=metadata.producer_epoch,
                    timeout_ms=metadata.timeout_ms,
                )
                self.counts.timed_out += 1

        target = rules.fence(metadata, self._server_version(), self._now_ms())
        return self._move(transactional_id, target, None, timed_out)

    def _expire(self, left: Iterator[str] | None = None) -> Outcome[None]:
        """Forget ids that have expired, some in each turn; `left` are those that are left of an earlier turn."""
        before_ms = self._now_ms() - self._config.id_expiration_ms

        def is_over(metadata: TransactionMetadata | None) -> bool:
            return metadata is not None and metadata.state in AT_REST and metadata.last_update_ms <= before_ms

        if left is None:
            left = iter([known for known, metadata in self._by_id.items() if is_over(metadata)])
        some = list(islice(left, IDS_IN_A_TURN))
        if len(some) == IDS_IN_A_TURN:
            self.context.timers.schedule(_EXPIRY, 0, lambda _: self._expire(left))
        else:
            self._schedule_expiry()
        expired = [known for known in some if is_over(self._by_id.get(known))]

        def forgotten(error: KafkaError | None) -> None:
            if error is None:
                self.counts.expired_ids += len(expired)

        return Outcome(
            [CoordinatorRecord(TRANSACTION_LOG, key, None) for key in expired], effects=forgotten, atomic=False
        )

    def forget(self, transactional_id: str) -> Outcome[bool]:
        """Forget an id whose last transaction has ended; the answer is whether it was at rest, or unknown."""
        metadata = self._by_id.get(transactional_id)
        if metadata is None:
            return Outcome(reply=True)
        if metadata.state not in AT_REST:
            return Outcome(reply=False)
        return Outcome([CoordinatorRecord(TRANSACTION_LOG, transactional_id, None)], True)

    # -- writing

    def _move(
        self, transactional_id: str, target: TransactionMetadata, reply: T, then: Effects | None = None
    ) -> Outcome[T]:
        schema = TRANSACTION_LOG if self._server_version() >= TV_1 else TRANSACTION_LOG_0
        record = new_record((schema, transactional_id, target.to_log()))
        return Outcome((record,), reply, self._after(transactional_id, target, then))

    def _after(self, transactional_id: str, target: TransactionMetadata, then: Effects | None) -> Effects:
        def effects(error: KafkaError | None) -> None:
            if then is not None:
                then(error)
            if error is not None:
                return
            moved = self._by_id[transactional_id]
            if moved.last_producer_epoch != target.last_producer_epoch:
                moved = moved.with_last_epoch(target.last_producer_epoch)
                self._by_id[transactional_id] = moved
            if moved.state in PREPARED:
                self._markers.send_when_durable(transactional_id, moved)

        return effects

    def replay(self, transactional_id: str, value: TransactionLogValue | None, _position: Position) -> None:
        """Apply a record: the only way in which durable state changes."""
        if value is None:
            self._by_id.pop(transactional_id, None)
        else:
            self._by_id[transactional_id] = TransactionMetadata.from_log(value)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Do nothing: this log has no transactions."""

    # -- life

    def loaded(self) -> None:
        """Transactions that were decided go on to their end."""
        for transactional_id, metadata in self._by_id.items():
            if metadata.state in PREPARED:
                self._markers.send_when_durable(transactional_id, metadata)
        self._schedule_timeouts()
        self._schedule_expiry()

    def unloaded(self) -> None:
        self._markers.stop()

    def _schedule_timeouts(self) -> None:
        interval_ms = self.context.clock.pause_ms(self._config.timeout_check_interval_ms)
        self.context.timers.schedule(_TIMEOUTS, interval_ms, lambda _: self._abort_timed_out())

    def _schedule_expiry(self) -> None:
        interval_ms = self.context.clock.pause_ms(self._config.id_expiry_check_interval_ms)
        self.context.timers.schedule(_EXPIRY, interval_ms, lambda _: self._expire())

    def _count_retry(self) -> None:
        self.counts.marker_retries += 1

    def _now_ms(self) -> int:
        return self.context.clock.wall_ms()


ROWS = rows_by_id((RecordRow(TRANSACTION_LOG, TransactionCoordinatorShard.replay, last_value_counts=True),))
