"""A partition: its log plus what a leader knows about it. All answers to clients are based on this."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorage,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from storage.append_types import AppendInfo, AppendOrigin
from storage.log.validator import Validated, validate

if TYPE_CHECKING:
    from protocol.topic_partition import PartitionKey
    from storage.append_types import LogConfig
    from storage.log.log_offset import LogOffsetMetadata
    from storage.log.read_plan import ReadPlan
    from storage.log.unified_log import UnifiedLog
    from storage.segments.txn_index import AbortedTxn

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

NO_LEADER_EPOCH = -1
TO_HIGH_WATERMARK = -1

Listener = tuple[Callable[[int], None], Callable[[KafkaError], None]]

Bounds = tuple[int, int, int]
"""(log start offset, last stable offset, high watermark)."""

UNREADABLE: Bounds = (-1, -1, -1)
"""The bounds of a partition that is deleted or offline."""


class Partition:
    """Log + leader epoch + high watermark + last stable offset (Kafka's `Partition`).

    On one node the high watermark is the end of the log, and if every message is flushed (`flush.messages=1`) the
    flushed end: acknowledgements and readers only see what is as durable as configured.
    """

    __slots__ = (
        "_listeners",
        "_on_advance",
        "flush_gated",
        "index",
        "is_deleted",
        "key",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        log: UnifiedLog,
        leader_epoch: int,
        on_advance: Callable[[Partition], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key: PartitionKey = (topic, index)
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_deleted = False
        self.flush_gated = log.config.flush_messages == 1
        self._on_advance = on_advance
        self._listeners: list[Listener] = []
        log.producers.on_high_watermark(self.high_watermark)
        log.flusher.on_flush = self._flushed
        log.on_offline = self._went_offline

    # -- offsets

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which records are readable and acknowledged to acks=all."""
        if self.flush_gated:
            return max(self.log.flushed.offset, self.log.log_start_offset)
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, or the first offset of the oldest open transaction if that is lower."""
        unstable = self.log.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if unstable is None else min(unstable, high_watermark)

    @property
    def bounds(self) -> Bounds:
        """What bounds a reader, in one call, as a consumer of many partitions needs all of it again and again."""
        log = self.log
        if self.is_deleted or log.is_offline:
            return UNREADABLE
        high_watermark = self.high_watermark if self.flush_gated else log.log_end_offset
        stable = high_watermark if log.producers.first_unstable_offset is None else self.last_stable_offset
        return log.log_start_offset, stable, high_watermark

    def end_offset_for(self, isolation_level: int) -> int:
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to `leader_epoch`, and where it ends; (-1, -1) if none is known (KIP-101)."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Check the leader epoch that a client names, if it names one (KIP-320).

        Raises FencedLeaderEpoch if the client's is older, UnknownLeaderEpoch if it is newer, KafkaStorage if the log is
        offline.
        """
        if self.log.is_offline:
            raise self.log.storage_error()
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch

    def lead(self, leader_epoch: int) -> None:
        """Lead the partition in this epoch from now on."""
        if self.log.leader_epochs.latest != leader_epoch and not self.log.is_offline:
            self.log.begin_epoch(leader_epoch)
        self.leader_epoch = leader_epoch

    # -- appending

    def append(self, batch: memoryview, origin: AppendOrigin, now_ms: int, *, at_once: bool = False) -> AppendInfo:
        """Append exactly one batch as leader; see `UnifiedLog.append_as_leader` for the errors.

        With `at_once`, raises LargeBatchError for one whose records take long to check: see `validation`.
        """
        info = self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms, at_once=at_once
        )
        if not info.duplicate and not self.flush_gated:
            self._advanced(info.last_offset + 1)
        return info

    def validation(self, batch: memoryview, now_ms: int) -> Callable[[], Validated]:
        """The check of a client's batch for the present configuration, for a worker thread."""
        return partial(validate, batch, self.log.config, AppendOrigin.CLIENT, now_ms, self.log.name)

    def append_validated(self, validated: Validated, now_ms: int) -> AppendInfo:
        """Append a client's batch for which `validation` was called with the present configuration.

        Errors are those of `UnifiedLog.append_as_leader`, but for what the validation has found.
        """
        self.log.check_appendable()
        info = self.log.append_validated(
            validated, leader_epoch=self.leader_epoch, origin=AppendOrigin.CLIENT, now_ms=now_ms
        )
        if not info.duplicate and not self.flush_gated:
            self._advanced(info.last_offset + 1)
        return info

    def delete_records(self, offset: int) -> int:
        """Raise the log's start to `offset` (-1: the high watermark); return the new start (KIP-107).

        Raises PolicyViolation if the topic's records may only be compacted, OffsetOutOfRange if `offset` is above the
        high watermark or below 0, KafkaStorage.
        """
        if self.log.is_offline:
            raise self.log.storage_error()
        config = self.log.config
        if config.compact and not config.delete:
            raise PolicyViolation(f"Records of partition {self.topic}-{self.index} may not be deleted by its policy.")
        high_watermark = self.high_watermark
        if offset == TO_HIGH_WATERMARK:
            offset = high_watermark
        if not 0 <= offset <= high_watermark:
            raise OffsetOutOfRange
        self.log.increment_log_start_offset(offset)
        return self.log_start_offset

    def _advanced(self, high_watermark: int) -> None:
        """The high watermark has moved."""
        self.log.producers.on_high_watermark(high_watermark)
        self._on_advance(self)
        for advanced, _ in self._listeners:
            advanced(high_watermark)

    def _went_offline(self, _log: UnifiedLog, error: Exception) -> None:
        """The log went offline. The high watermark will not move again: its listeners get the error."""
        self._on_advance(self)
        for _, failed in list(self._listeners):
            failed(error if isinstance(error, KafkaError) else KafkaStorage())

    def deleted(self) -> None:
        """The partition is deleted: its listeners get UnknownTopicOrPartition."""
        self.is_deleted = True
        for _, failed in list(self._listeners):
            failed(UnknownTopicOrPartition())

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Callable[[], None]:
        """Call `advanced` with the high watermark whenever it moves, `failed` when it never will.

        Returns the function that ends this. `advanced` must not listen or stop listening.
        """
        listener = (advanced, failed)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def configure(self, config: LogConfig) -> None:
        """Apply a changed topic configuration."""
        was_gated = self.flush_gated
        self.log.config = config
        self.flush_gated = config.flush_messages == 1
        if was_gated and not self.flush_gated:
            self._advanced(self.high_watermark)
        elif self.flush_gated and not was_gated:
            self.log.flush()

    def _flushed(self, _flushed: LogOffsetMetadata) -> None:
        if self.flush_gated:
            self._advanced(self.high_watermark)

    # -- reading

    def plan_read(
        self, start_offset: int, max_bytes: int, end_offset: int, min_one_message: bool, at_once: int
    ) -> ReadPlan:
        """What a Fetch at `start_offset` may read up to `end_offset`, the high watermark or last stable offset.

        Raises OffsetOutOfRange below the log's start or past its end, KafkaStorage.
        """
        return self.log.plan_read(start_offset, max_bytes, self.place(end_offset), min_one_message, at_once)

    def aborted_transactions(self, plan: ReadPlan, size: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the `size` bytes read by `plan` (KIP-98).

        It may list some that lie just behind them, as Kafka's `UnifiedLog.collectAbortedTransactions` does.
        """
        return plan.aborted_transactions(size, self.log.log_end_offset)

    def place(self, offset: int) -> LogOffsetMetadata:
        """The place in the log of an offset where reads end. May read (`UnifiedLog.locate`). Raises KafkaStorage."""
        if offset == self.log.log_end_offset:
            return self.log.end
        if offset == self.log.flushed.offset:
            return self.log.flushed
        return self.log.locate(offset)
