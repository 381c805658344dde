"""A partition: its log plus what a leader knows about it. All answers to clients are based on this.

Theory of operation. A partition has one role at a time. The image decides who leads it, and in which leader epoch; the
log decides whether this node can use it at all. Both tell the partition, which tells whoever waits for its records.

| role             | event                                                   | next role               |
| ---------------- | ------------------------------------------------------- | ----------------------- |
| (new)            | there is a log, and the image names this node as leader | LEADER                  |
| (new)            | there is a log, and the image names another node        | FOLLOWER                |
| (new)            | there is no log, as its folder is unusable or full      | OFFLINE                 |
| LEADER           | the image has a new leader epoch of this node           | LEADER, in that epoch   |
| LEADER           | the image names another node                            | FOLLOWER                |
| FOLLOWER         | the image names this node                               | LEADER, in its epoch    |
| LEADER, FOLLOWER | the log fails                                           | OFFLINE                 |
| any              | the topic is deleted                                    | OFFLINE, and is_deleted |

OFFLINE is final: when the log can be made after all, the replica manager hosts another `Partition` in place of this
one. A follower refuses requests with NOT_LEADER_OR_FOLLOWER, and does not fetch from its leader yet. An offline
partition refuses them with the error of its log.

The high watermark is the smallest durable end of the logs of the in-sync replicas, and never moves back. This node is
the only replica: its log's end counts, or the flushed end if every message is flushed (`flush.messages=1`), so that
acknowledgements and readers only see what is as durable as configured.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorage,
    NotLeaderOrFollower,
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
"""The bounds of a partition that this node does not lead."""


class Role(Enum):
    """What this node is to a partition; see the table above."""

    LEADER = auto()
    FOLLOWER = auto()
    OFFLINE = auto()


LEADER = Role.LEADER  # one lookup less, where every request comes


class Partition:
    """Log + role + leader epoch + high watermark + last stable offset (Kafka's `Partition`).

    A new one is a follower, or offline if its log is, until `lead` is called.

    Attributes:
        high_watermark: the offset below which records are readable and acknowledged to acks=all.
        flush_gated: only flushed records count for the high watermark.
    """

    __slots__ = (
        "_listeners",
        "_on_advance",
        "flush_gated",
        "high_watermark",
        "index",
        "is_deleted",
        "key",
        "leader_epoch",
        "log",
        "role",
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
        self.role = Role.OFFLINE if log.is_offline else Role.FOLLOWER
        self.high_watermark = max(self._durable_end, log.log_start_offset)
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
    def last_stable_offset(self) -> int:
        """The high watermark, or the first offset of the oldest open transaction if that is lower."""
        unstable = self.log.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if unstable is None else min(unstable, high_watermark)

    @property
    def bounds(self) -> Bounds:
        """What bounds a reader, in one call, as a consumer of many partitions needs all of it again and again."""
        if self.role is not LEADER:
            return UNREADABLE
        log, high_watermark = self.log, self.high_watermark
        stable = high_watermark if log.producers.first_unstable_offset is None else self.last_stable_offset
        return log.log_start_offset, stable, high_watermark

    def end_offset_for(self, isolation_level: int) -> int:
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to `leader_epoch`, and where it ends; (-1, -1) if none is known (KIP-101)."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Check the leader epoch that a client names, if it names one (KIP-320).

        Raises FencedLeaderEpoch if the client's is older, UnknownLeaderEpoch if it is newer, and what `check_leads`
        does.
        """
        if self.role is not LEADER:
            self.check_leads()
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch

    # -- roles

    def check_leads(self) -> None:
        """Raises KafkaStorage if the log is offline, NotLeaderOrFollower if another node leads the partition."""
        if self.log.is_offline:
            raise self.log.storage_error()
        if self.role is not LEADER:
            raise NotLeaderOrFollower

    def lead(self, leader_epoch: int) -> None:
        """Lead the partition in this epoch from now on, if the log is online."""
        self.leader_epoch = leader_epoch
        if self.role is Role.OFFLINE:
            return
        if self.log.leader_epochs.latest != leader_epoch:
            self.log.begin_epoch(leader_epoch)
        if not self.log.is_offline:
            self.role = LEADER

    def follow(self, leader_epoch: int) -> None:
        """Another node, or none, leads the partition in this epoch from now on."""
        self.leader_epoch = leader_epoch
        if self.role is not Role.OFFLINE:
            self._leave(Role.FOLLOWER, NotLeaderOrFollower())

    def deleted(self) -> None:
        """The partition is deleted: its listeners get UnknownTopicOrPartition."""
        self.is_deleted = True
        self._leave(Role.OFFLINE, UnknownTopicOrPartition())

    def _went_offline(self, _log: UnifiedLog, error: Exception) -> None:
        self._leave(Role.OFFLINE, error if isinstance(error, KafkaError) else KafkaStorage())

    def _leave(self, role: Role, error: KafkaError) -> None:
        """Stop leading. The high watermark will not move again here: its listeners get the error."""
        self.role = role
        self._on_advance(self)
        for _, failed in list(self._listeners):
            failed(error)

    # -- appending

    def append(self, batch: memoryview, origin: AppendOrigin, now_ms: int, *, at_once: bool = False) -> AppendInfo:
        """Append exactly one batch as leader; see `UnifiedLog.append_as_leader` for the errors.

        Raises NotLeaderOrFollower if another node leads the partition. With `at_once`, raises LargeBatchError for a
        batch whose records take long to check: see `validation`.
        """
        if self.role is not LEADER:
            self.check_leads()
        info = self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms, at_once=at_once
        )
        if not info.duplicate and not self.flush_gated:
            self._move_high_watermark(info.last_offset + 1)
        return info

    def validation(self, batch: memoryview, now_ms: int) -> Callable[[], Validated]:
        """The check of a client's batch for the present configuration, for a worker thread."""
        return partial(validate, batch, self.log.config, AppendOrigin.CLIENT, now_ms, self.log.name)

    def append_validated(self, validated: Validated, now_ms: int) -> AppendInfo:
        """Append a client's batch for which `validation` was called with the present configuration.

        Errors are those of `UnifiedLog.append_as_leader`, but for what the validation has found.
        """
        self.check_leads()
        self.log.check_appendable()
        info = self.log.append_validated(
            validated, leader_epoch=self.leader_epoch, origin=AppendOrigin.CLIENT, now_ms=now_ms
        )
        if not info.duplicate and not self.flush_gated:
            self._move_high_watermark(info.last_offset + 1)
        return info

    def delete_records(self, offset: int) -> int:
        """Raise the log's start to `offset` (-1: the high watermark); return the new start (KIP-107).

        Raises PolicyViolation if the topic's records may only be compacted, OffsetOutOfRange if `offset` is above the
        high watermark or below 0, and what `check_leads` does.
        """
        self.check_leads()
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

    # -- the high watermark

    @property
    def _durable_end(self) -> int:
        """The end of what this node's log has as durably as configured."""
        return self.log.flushed.offset if self.flush_gated else self.log.log_end_offset

    def _move_high_watermark(self, durable_end: int) -> None:
        """Move the high watermark to the smallest durable end of the in-sync replicas, unless it is there already.

        This node is the only one of them, and its log is durable up to `durable_end`.
        """
        if durable_end <= self.high_watermark:
            return
        self.high_watermark = durable_end
        self.log.producers.on_high_watermark(durable_end)
        self._on_advance(self)
        for advanced, _ in self._listeners:
            advanced(durable_end)

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
            self._move_high_watermark(self._durable_end)
        elif self.flush_gated and not was_gated:
            self.log.flush()

    def _flushed(self, _flushed: LogOffsetMetadata) -> None:
        if self.flush_gated:
            self._move_high_watermark(self._durable_end)

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
