"""The state machine of one partition of `__share_group_state` (Kafka's ShareCoordinatorShard).

How it works: a share partition begins with a snapshot, when its group is first assigned its topic. Each write then
appends an update; after `snapshot_every` of them the next write is a snapshot of all that is known. `replay` merges
updates into the state of the last snapshot, when they are written as when they are loaded. Whatever lies below the
oldest of the newest snapshots of all share partitions is not needed any more (`redundant_below`).

Epochs fence old owners: the state epoch grows when a share partition is initialized anew, the leader epoch when
another broker leads the partition and reads the state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from protocol.coordinator_records.share_records import (
    NO_START_OFFSET,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatch,
)
from protocol.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition

if TYPE_CHECKING:
    from coordinator.runtime.coordinator_context import CoordinatorContext


FIRST_LEADER_EPOCH = 0


@dataclass(frozen=True, slots=True)
class ShareWrite:
    """The change that the leader of a partition wants to have remembered.

    The start offset never goes back. The count of records whose delivery is complete goes with it: while the start
    offset stays, it does not get smaller; one of a new start offset is taken as it is, -1 for an unknown one.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = UNKNOWN_COUNT


@dataclass(frozen=True, slots=True)
class _Known:
    """A share partition: its state, the updates since its last snapshot, and where in the log that is.

    `leader_epoch` is the newest that was seen; that of the state is 0 after it began anew.
    """

    value: ShareSnapshotValue
    updates: int
    snapshot_at: int
    leader_epoch: int


class ShareCoordinatorShard:
    """Operations on share partitions; each returns an Outcome or raises KafkaError.

    `has_partition` returns whether a topic, by id, has a partition now. `snapshot_every` is
    `share.coordinator.snapshot.update.records.per.snapshot`.
    """

    def __init__(
        self,
        context: CoordinatorContext[ShareCoordinatorShard],
        has_partition: Callable[[UUID, int], bool],
        snapshot_every: int,
    ) -> None:
        self._context = context
        self._has_partition = has_partition
        self._snapshot_every = snapshot_every
        self._by_key: dict[SharePartitionKey, _Known] = {}
        self._written_to = 0

    # -- requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Outcome[None]:
        """Begin anew at a start offset. Raises InvalidRequest, UnknownTopicOrPartition, FencedStateEpoch."""
        _require_epochs(state_epoch)
        self._require_partition(key)
        known = self._by_key.get(key)
        if known is not None and known.value.state_epoch > state_epoch:
            raise FencedStateEpoch
        now_ms = self._context.clock.wall_ms()
        epoch = 0 if known is None else known.value.snapshot_epoch + 1
        complete = UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0
        value = ShareSnapshotValue(epoch, state_epoch, FIRST_LEADER_EPOCH, start_offset, now_ms, now_ms, (), complete)
        return Outcome([CoordinatorRecord(SHARE_SNAPSHOT, key, value)])

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Outcome[None]:
        """Raises InvalidRequest, UnknownTopicOrPartition, FencedLeaderEpoch, FencedStateEpoch."""
        _require_epochs(wanted.state_epoch, wanted.leader_epoch)
        known = self._required(key)
        if known.leader_epoch > wanted.leader_epoch:
            raise FencedLeaderEpoch
        if known.value.state_epoch > wanted.state_epoch:
            raise FencedStateEpoch
        return Outcome([self._record(key, known, wanted, known.value.leader_epoch)])

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Outcome[ShareSnapshotValue]:
        """The state, for a new leader, whose epoch fences older ones from now on.

        Raises InvalidRequest, UnknownTopicOrPartition, FencedLeaderEpoch.
        """
        _require_epochs(leader_epoch)
        known = self._required(key)
        if known.leader_epoch > leader_epoch:
            raise FencedLeaderEpoch
        if known.leader_epoch == leader_epoch:
            return Outcome(reply=known.value)
        same = ShareWrite(
            known.value.state_epoch, leader_epoch, known.value.start_offset, (), known.value.complete_count
        )
        return Outcome([self._record(key, known, same, leader_epoch)], known.value)

    def read_summary(self, key: SharePartitionKey) -> Outcome[ShareSnapshotValue | None]:
        """The state without its batches; None if there is none. Raises UnknownTopicOrPartition."""
        self._require_partition(key)
        known = self._by_key.get(key)
        return Outcome(reply=None if known is None else known.value)

    def delete(self, key: SharePartitionKey) -> Outcome[None]:
        """Raises UnknownTopicOrPartition."""
        self._require_partition(key)
        return Outcome(self._tombstones([key]))

    def delete_topics(self, topic_ids: Collection[UUID]) -> Outcome[None]:
        """The topics are gone: so is the state of their share partitions."""
        return Outcome(self._tombstones([key for key in self._by_key if key.topic_id in topic_ids]), atomic=False)

    def known(self) -> dict[SharePartitionKey, ShareSnapshotValue]:
        """The states of all share partitions, as they are now."""
        return {key: known.value for key, known in self._by_key.items()}

    def redundant_below(self) -> int:
        """The offset of this log below which no record is needed."""
        return min((known.snapshot_at for known in self._by_key.values()), default=self._written_to)

    def _tombstones(self, keys: Collection[SharePartitionKey]) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(SHARE_SNAPSHOT, key, None) for key in keys if key in self._by_key]

    def _require_partition(self, key: SharePartitionKey) -> None:
        if not self._has_partition(key.topic_id, key.partition):
            raise UnknownTopicOrPartition

    def _required(self, key: SharePartitionKey) -> _Known:
        known = self._by_key.get(key)
        if known is None:
            raise InvalidRequest("The share partition is not initialized.")
        self._require_partition(key)
        return known

    def _record(
        self, key: SharePartitionKey, known: _Known, wanted: ShareWrite, leader_epoch: int
    ) -> CoordinatorRecord:
        """An update; a snapshot with all that is known if there were enough updates since the last."""
        start, count = _start_and_count(known.value, wanted)
        if known.updates < self._snapshot_every:
            batches = merge((), wanted.batches, start)
            update = ShareUpdateValue(known.value.snapshot_epoch, leader_epoch, start, batches, count)
            return CoordinatorRecord(SHARE_UPDATE, key, update)
        value = _updated(known.value, leader_epoch, start, wanted.batches, count)
        now_ms = self._context.clock.wall_ms()
        value = value._replace(snapshot_epoch=known.value.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms)
        return CoordinatorRecord(SHARE_SNAPSHOT, key, value)

    # -- replay

    def replay_snapshot(self, key: SharePartitionKey, value: ShareSnapshotValue | None, position: Position) -> None:
        self._written_to = position.offset + 1
        if value is None:
            self._by_key.pop(key, None)
        else:
            before = self._by_key.get(key)
            updates, leader_epoch = (0, 0) if before is None else (before.updates, before.leader_epoch)
            if updates >= self._snapshot_every:  # else it begins anew, and its next snapshot is due as before
                updates = 0
            self._by_key[key] = _Known(value, updates, position.offset, max(leader_epoch, value.leader_epoch))

    def replay_update(self, key: SharePartitionKey, value: ShareUpdateValue | None, position: Position) -> None:
        self._written_to = position.offset + 1
        known = self._by_key.get(key)
        if value is None or known is None:  # its snapshot was deleted
            return
        state = _updated(known.value, value.leader_epoch, value.start_offset, value.batches, value.complete_count)
        leader_epoch = max(known.leader_epoch, value.leader_epoch)
        self._by_key[key] = replace(known, value=state, updates=known.updates + 1, leader_epoch=leader_epoch)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Do nothing: there are no transactions on this topic."""

    def loaded(self) -> None:
        """Do nothing: nothing waits for the end of a load."""

    def unloaded(self) -> None:
        """Do nothing: nothing is held."""


def _start_and_count(known: ShareSnapshotValue, wanted: ShareWrite) -> tuple[int, int]:
    """The start offset, and how many records from it on are complete, once that is written."""
    if wanted.start_offset > known.start_offset:
        return wanted.start_offset, wanted.complete_count
    if wanted.start_offset < known.start_offset:
        return known.start_offset, known.complete_count
    return known.start_offset, max(wanted.complete_count, known.complete_count)


def _updated(
    value: ShareSnapshotValue,
    leader_epoch: int,
    start_offset: int,
    batches: tuple[StateBatch, ...],
    complete_count: int,
) -> ShareSnapshotValue:
    start = max(value.start_offset, start_offset)
    return value._replace(
        leader_epoch=max(value.leader_epoch, leader_epoch),
        start_offset=start,
        batches=merge(value.batches, batches, start),
        complete_count=complete_count,
    )


def _require_epochs(*epochs: int) -> None:
    if min(epochs) < 0:
        raise InvalidRequest(f"The epoch {min(epochs)} is negative.")


# -- state batches, merged (Kafka's `PersisterStateBatchCombiner`)


def merge(batches: Sequence[StateBatch], news: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Both together, without what is below the start offset.

    `batches` are in order and do not overlap; so is the result, in which equal neighbours are joined. Where two
    overlap, the one with more deliveries counts; of two with as many, the one with the higher state.
    """
    merged = list(batches)
    for new in news:
        if new.first <= new.last:
            _put(merged, new)
    kept = [batch._replace(first=max(batch.first, start_offset)) for batch in merged if batch.last >= start_offset]
    return tuple(_joined(kept))


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    """Put one more in: only what it overlaps is looked at."""
    begin = bisect_left(batches, new.first, key=lambda batch: batch.last)
    end = bisect_right(batches, new.last, key=lambda batch: batch.first)
    batches[begin:end] = _combined(batches[begin:end], new)


def _combined(overlapped: Sequence[StateBatch], new: StateBatch) -> list[StateBatch]:
    parts = []
    first = new.first  # of what is left of the new one
    for old in overlapped:
        if old.first < new.first:
            parts.append(old._replace(last=new.first - 1))
        if first < old.first:
            parts.append(new._replace(first=first, last=old.first - 1))
        common_first, common_last = max(old.first, new.first), min(old.last, new.last)
        winner = max(old, new, key=lambda batch: (batch.delivery_count, batch.state))
        parts.append(winner._replace(first=common_first, last=common_last))
        if old.last > new.last:
            parts.append(old._replace(first=new.last + 1))
        first = common_last + 1
    if first <= new.last:
        parts.append(new._replace(first=first))
    return _joined(parts)


def _joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    joined: list[StateBatch] = []
    for batch in batches:
        if joined and joined[-1].last + 1 == batch.first and joined[-1][2:] == batch[2:]:
            joined[-1] = joined[-1]._replace(last=batch.last)
        else:
            joined.append(batch)
    return joined


ROWS = rows_by_id(
    (
        RecordRow(SHARE_SNAPSHOT, ShareCoordinatorShard.replay_snapshot),
        RecordRow(SHARE_UPDATE, ShareCoordinatorShard.replay_update),
    )
)
"""The records of `__share_group_state` and what each changes."""
