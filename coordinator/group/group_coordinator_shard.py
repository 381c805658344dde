"""The state machine of one partition of `__consumer_offsets`: its groups and their offsets (GroupCoordinatorShard)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.group.config import GroupConfig, GroupCounts
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.replay import REPLAYS
from coordinator.group.directory import GroupDirectory
from coordinator.group.offsets.offsets import OffsetExpiry, Offsets
from coordinator.group.offsets.store import OffsetStore
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import REPLAYS as SHARE_REPLAYS
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.records import REPLAYS as STREAMS_REPLAYS
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import Outcome, Position
from protocol.coordinator_records.consumer_group_records import CONSUMER_GROUP_METADATA
from protocol.coordinator_records.group_records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.coordinator_records.record_schema import GroupKey, RecordSchema
from protocol.coordinator_records.share_records import SHARE_GROUP_METADATA
from protocol.coordinator_records.streams_group_records import STREAMS_GROUP_METADATA

_EXPIRE = "expire-group-metadata"


class GroupCoordinatorShard:
    """`groups` are the groups of every kind, `offsets` the operations on their offsets."""

    def __init__(
        self, context: CoordinatorContext[Any], groups: GroupDirectory, config: GroupConfig, counts: GroupCounts
    ) -> None:
        self.groups = groups
        self._context = context
        self._config = config
        self._store = OffsetStore()
        self.offsets = Offsets(self._store, groups, config, context.clock, counts)
        self._expiry = OffsetExpiry(self._store, groups, config, counts)

    def replay_offset_commit(self, key: OffsetCommitKey, value: OffsetCommitValue | None, position: Position) -> None:
        """Apply a commit, which also makes its group known: without members it is one of simple consumers."""
        if value is not None:
            self.groups.note_simple(key.group)
        self._store.replay(key, value, position)

    def replay_group_metadata(self, key: GroupKey, value: GroupMetadataValue | None, position: Position) -> None:
        self.groups.replay(key, value, position)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self._store.replay_end_marker(producer_id, committed)

    def loaded(self) -> None:
        self.groups.loaded()
        self._schedule_expiry()

    def unloaded(self) -> None:
        self.groups.unloaded()

    def _schedule_expiry(self) -> None:
        interval_ms = self._context.clock.pause_ms(self._config.offsets_retention_check_interval_ms)
        self._context.timers.schedule(_EXPIRE, interval_ms, lambda _: self._expire())

    def _expire(self) -> Outcome[None]:
        tombstones = self._expiry.expire(self._context.clock.wall_ms())
        if self._expiry.is_under_way:
            self._context.timers.schedule(_EXPIRE, 0, lambda _: self._expire())
        else:
            self._schedule_expiry()
        return tombstones


def _consumer_row(schema: RecordSchema[Any, Any], apply: Callable[[ConsumerGroup, Any, Any], None]) -> RecordRow:
    def replay(state: GroupCoordinatorShard, key: Any, value: Any, _: Position) -> None:
        state.groups.replay_consumer(apply, key, value)
        if schema is CONSUMER_GROUP_METADATA and value is None:
            state.groups.replay_consumer_end(key.group)

    return RecordRow(schema, replay)


def _share_row(schema: RecordSchema[Any, Any], apply: Callable[[ShareGroup, Any, Any], None]) -> RecordRow:
    def replay(state: GroupCoordinatorShard, key: Any, value: Any, _: Position) -> None:
        state.groups.replay_share(apply, key, value)
        if schema is SHARE_GROUP_METADATA and value is None:
            state.groups.replay_share_end(key.group)

    return RecordRow(schema, replay)


def _streams_row(schema: RecordSchema[Any, Any], apply: Callable[[StreamsGroup, Any, Any], None]) -> RecordRow:
    def replay(state: GroupCoordinatorShard, key: Any, value: Any, _: Position) -> None:
        state.groups.replay_streams(apply, key, value)
        if schema is STREAMS_GROUP_METADATA and value is None:
            state.groups.replay_streams_end(key.group)

    return RecordRow(schema, replay)


ROWS = rows_by_id(
    (
        RecordRow(OFFSET_COMMIT, GroupCoordinatorShard.replay_offset_commit, last_value_counts=True),
        RecordRow(GROUP_METADATA, GroupCoordinatorShard.replay_group_metadata),
        *(_consumer_row(schema, apply) for schema, apply in REPLAYS),
        *(_share_row(schema, apply) for schema, apply in SHARE_REPLAYS),
        *(_streams_row(schema, apply) for schema, apply in STREAMS_REPLAYS),
    )
)
