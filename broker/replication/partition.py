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
| any              | the topic is deleted, or the replica moves away         | OFFLINE, and is_deleted |

OFFLINE is final: when the log can be made after all, the replica manager hosts another `Partition` in place of this
one. It refuses requests with the error of its log. A follower refuses what is for leaders with NOT_LEADER_OR_FOLLOWER,
and fetchers append what the leader has (`broker/replication/following`).

The high watermark is the smallest durable end of the logs of the in-sync replicas. It never moves back, unless a
follower drops records below it, after an unclean election. While this node is the only replica, its log's end counts,
or the flushed end if every message is flushed (`flush.messages=1`): acknowledgements and readers only see what is as
durable as configured. `LeaderState` knows how far other replicas are. A follower has the leader's, up to its own end.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING
from uuid import UUID

from broker.replication.bounds import UNREADABLE, Bounds
from broker.replication.leading.leader_state import LeaderState
from protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorage,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from storage.append_types import AppendInfo, AppendOrigin

if TYPE_CHECKING:
    from broker.replication.leading.leader_state import Replication
    from metadata.topics import PartitionRegistration
    from protocol.topic_partition import PartitionKey
    from storage.append_types import LogConfig
    from storage.log.log_segments import LogOffsetMetadata
    from storage.log.read_plan import ReadPlan
    from storage.log.unified_log import UnifiedLog
    from storage.log.validator import Validated
    from storage.segments.txn_index import AbortedTxn

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

NO_LEADER_EPOCH = NO_LEADER = -1

Listener = tuple[Callable[[int], None], Callable[[KafkaError], None]]


def do_nothing() -> None:
    """Wake nobody: the partition has no fetcher."""


class Role(Enum):
    """The role of this node for a partition; see the table above."""

    LEADER = auto()
    FOLLOWER = auto()
    OFFLINE = auto()


LEADER, OFFLINE = Role.LEADER, Role.OFFLINE  # one lookup less, where every request comes


class Partition:
    """Log + role + leader epoch + high watermark + last stable offset (Kafka's `Partition`).

    A new one is a follower, or offline if its log is, until `lead` is called.

    Attributes:
        high_watermark: the offset below which records are readable and acknowledged to acks=all.
        flush_gated: only flushed records count for the high watermark.
        gated: an append alone does not raise it: it waits for a flush, or for followers.
        leader_id: the node that leads; -1 for none.
        led_since: the leader epoch since which this node has led without interruption.
        replicas: what is known of the other replicas; None unless this node leads and there are others.
        wake_fetcher: called after each flush, and when the log fails; the fetcher's, while this node follows.
    """

    __slots__ = (
        "_epoch_start_offset",
        "_listeners",
        "_on_change",
        "_replication",
        "flush_gated",
        "gated",
        "high_watermark",
        "index",
        "is_deleted",
        "key",
        "leader_epoch",
        "leader_id",
        "led_since",
        "log",
        "replicas",
        "role",
        "topic",
        "topic_id",
        "wake_fetcher",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        log: UnifiedLog,
        on_change: Callable[[Partition], None],
        replication: Replication,
    ) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.key: PartitionKey = (topic, index)
        self.log = log
        self.leader_epoch = self.led_since = NO_LEADER_EPOCH
        self.leader_id = NO_LEADER
        self.is_deleted = False
        self.flush_gated = self.gated = log.config.flush_messages == 1
        self.replicas: LeaderState | None = None
        self.wake_fetcher = do_nothing
        self._replication = replication
        self._epoch_start_offset = 0
        self._on_change = on_change
        self._listeners: list[Listener] = []
        self.role = Role.OFFLINE if log.is_offline else Role.FOLLOWER
        self.high_watermark = log.high_watermark = max(min(log.high_watermark, self.durable_end), log.log_start_offset)
        log.producers.on_high_watermark(self.high_watermark)
        log.flusher.on_flush, log.on_offline, log.on_start = self._flushed, self._went_offline, self.changed

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
        """The offsets that bound a reader, in one call: a consumer of many partitions needs them again and again."""
        if self.role is OFFLINE:
            return UNREADABLE
        log, high_watermark = self.log, self.high_watermark
        stable = high_watermark if log.producers.first_unstable_offset is None else self.last_stable_offset
        return log.log_start_offset, stable, high_watermark, log.log_end_offset

    def end_offset_for(self, isolation_level: int) -> int:
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to `leader_epoch`, and where it ends; (-1, -1) if none is known (KIP-101)."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def check_leader_epoch(self, current_leader_epoch: int, only_leader: bool = True) -> None:
        """Check the leader epoch that a client names, if it names one (KIP-320), and that this node leads.

        Without `only_leader` a follower will do. Raises FencedLeaderEpoch if the client's epoch is older,
        UnknownLeaderEpoch if it is newer, and what `check_leads` does.
        """
        if current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch) and not self.log.is_offline:
            raise FencedLeaderEpoch if current_leader_epoch < self.leader_epoch else UnknownLeaderEpoch
        if self.role is not LEADER and (only_leader or self.role is OFFLINE):
            self.check_leads()

    def check_end_is_known(self) -> None:
        """Raises OffsetNotAvailable for a new leader whose high watermark has not reached its epoch yet (KIP-207)."""
        if self.high_watermark < self._epoch_start_offset and self.role is LEADER:
            raise OffsetNotAvailable

    # -- roles

    def check_leads(self) -> None:
        """Raises KafkaStorage if the log is offline, NotLeaderOrFollower if another node leads the partition."""
        if self.log.is_offline:
            raise self.log.storage_error()
        if self.role is not LEADER:
            raise NotLeaderOrFollower

    def lead(self, state: PartitionRegistration) -> None:
        """Lead the partition in the image's leader epoch from now on, if the log is online."""
        is_new_epoch = self._take_epoch(state)
        if self.role is OFFLINE:
            return
        if self.log.leader_epochs.latest != self.leader_epoch:
            self.log.begin_epoch(self.leader_epoch)
        if is_new_epoch or self.role is not LEADER:
            self._epoch_start_offset = self.log_end_offset
        if self.role is not LEADER:
            self.led_since, self.role = self.leader_epoch, LEADER
        self._take_replicas(state)
        self.advance()
        if is_new_epoch:
            self.changed()  # who waits may have named the old epoch

    def _take_replicas(self, state: PartitionRegistration) -> None:
        node_id = self._replication.node_id
        if state.replicas == (node_id,) == state.isr:
            self._drop_replicas()
            return
        if self.replicas is None:
            self.replicas = LeaderState(self._replication, self)
        self.replicas.take(state, self._epoch_start_offset)
        self.gated = True

    def _drop_replicas(self) -> None:
        if self.replicas is not None:
            self.replicas.end()
            self.replicas = None
        self.gated = self.flush_gated

    def follow(self, state: PartitionRegistration) -> None:
        """Follow another node, or none, which leads the partition in the image's leader epoch from now on."""
        is_new_epoch = self._take_epoch(state)
        if self.role is LEADER:
            self._leave(Role.FOLLOWER, NotLeaderOrFollower())
        elif is_new_epoch:
            self.changed()

    def _take_epoch(self, state: PartitionRegistration) -> bool:
        """Take over the leader and its epoch; whether the epoch is new."""
        is_new = state.leader_epoch != self.leader_epoch
        self.leader_id, self.leader_epoch = state.leader, state.leader_epoch
        return is_new

    def deleted(self) -> None:
        """End, as the partition is deleted: its listeners get UnknownTopicOrPartition."""
        self.is_deleted = True
        self._leave(Role.OFFLINE, UnknownTopicOrPartition())

    def _went_offline(self, _log: UnifiedLog, error: Exception) -> None:
        self._leave(Role.OFFLINE, error if isinstance(error, KafkaError) else KafkaStorage())

    def _leave(self, role: Role, error: KafkaError) -> None:
        """Stop leading. The high watermark will not move again here: its listeners get the error."""
        self.role = role
        self._drop_replicas()
        self.wake_fetcher()
        self.changed()
        for _, failed in list(self._listeners):
            failed(error)

    # -- appending

    def append(
        self, batch: memoryview, origin: AppendOrigin, now_ms: int, *, at_once: bool = False, all_replicas: bool = True
    ) -> AppendInfo:
        """Append exactly one batch as leader; see `UnifiedLog.append_as_leader` for the errors.

        Raises NotLeaderOrFollower if another node leads the partition, and NotEnoughReplicas if the batch is for all
        in-sync replicas (acks=all) and there are fewer than `min.insync.replicas`. With `at_once`, raises
        LargeBatchError for a batch whose records take long to check (`large_batches`).
        """
        if self.role is not LEADER:
            self.check_leads()
        if self.replicas is not None and all_replicas:
            self.replicas.check_enough()
        info = self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms, at_once=at_once
        )
        if self.gated:
            self._tell_followers()
        elif not info.duplicate:
            self.raise_high_watermark(info.last_offset + 1)
        return info

    def _tell_followers(self) -> None:
        if self.replicas is not None and not self.advance():
            self.changed()

    def append_validated(self, validated: Validated, now_ms: int, *, all_replicas: bool) -> AppendInfo:
        """Append a client's batch that was validated for the present configuration; else as `append`."""
        self.check_leads()
        if self.replicas is not None and all_replicas:
            self.replicas.check_enough()
        self.log.check_appendable()
        info = self.log.append_validated(
            validated, leader_epoch=self.leader_epoch, origin=AppendOrigin.CLIENT, now_ms=now_ms
        )
        if self.gated:
            self._tell_followers()
        elif not info.duplicate:
            self.raise_high_watermark(info.last_offset + 1)
        return info

    def changed(self) -> None:
        """Tell those who wait that offsets or the role have changed."""
        self._on_change(self)

    # -- the high watermark

    @property
    def durable_end(self) -> int:
        """The end of what this node's log has as durably as configured."""
        return self.log.flushed.offset if self.flush_gated else self.log.log_end_offset

    @property
    def low_watermark(self) -> int:
        """The offset below which no replica that is alive has records (KIP-107)."""
        return self.log_start_offset if self.replicas is None else self.replicas.low_watermark

    def advance(self) -> bool:
        """Let the leader's high watermark follow the in-sync replicas; whether it has moved."""
        end = self.durable_end
        return self.raise_high_watermark(end if self.replicas is None else self.replicas.committed_end(end))

    def lower_high_watermark(self) -> None:
        """Let the high watermark be within the log, which was truncated."""
        self.high_watermark = self.log.high_watermark = max(
            min(self.high_watermark, self.log_end_offset), self.log_start_offset
        )
        self.log.producers.on_high_watermark(self.high_watermark)
        self.changed()

    def raise_high_watermark(self, offset: int) -> bool:
        """Move the high watermark, unless it is there already; whether it has moved."""
        if offset <= self.high_watermark:
            return False
        log = self.log
        self.high_watermark = log.high_watermark = offset
        if log.producers.unreplicated:
            log.producers.on_high_watermark(offset)
        self._on_change(self)
        for advanced, _ in self._listeners:
            advanced(offset)
        return True

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
        self.gated = self.flush_gated or self.replicas is not None
        if self.flush_gated and not was_gated:
            self.log.flush()
        elif self.role is LEADER and not self.advance():
            self.changed()  # acks=1 may have waited for a flush

    def _flushed(self, _flushed: LogOffsetMetadata) -> None:
        self.wake_fetcher()
        if self.flush_gated and self.role is LEADER and not self.advance():
            self.changed()  # acks=1 waits for this flush alone

    # -- reading

    def plan_read(
        self, start_offset: int, max_bytes: int, end_offset: int, min_one_message: bool, at_once: int
    ) -> ReadPlan:
        """Plan the read of a Fetch at `start_offset` up to `end_offset`, the high watermark or last stable offset.

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
