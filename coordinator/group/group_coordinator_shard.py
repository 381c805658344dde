"""The state machine of one partition of `__consumer_offsets`: its groups and their offsets (GroupCoordinatorShard)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.directory import GroupDirectory
from coordinator.group.kinds import GroupConfig, GroupCounts
from coordinator.group.modern.group import ModernGroup
from coordinator.group.offsets.offsets import OffsetExpiry, Offsets
from coordinator.group.offsets.store import OffsetStore
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import Outcome, Position
from protocol.coordinator_records.group_records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.coordinator_records.record_schema import GroupKey, RecordSchema

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


def _modern_row(
    kind: type[ModernGroup[Any, Any]], schema: RecordSchema[Any, Any], apply: Callable[[Any, Any, Any], None]
) -> RecordRow:
    def replay(state: GroupCoordinatorShard, key: Any, value: Any, _: Position) -> None:
        by_id = state.groups.modern.by_id
        group = by_id.get(key.group)
        if type(group) is not kind:
            if value is None:  # of a group that is gone
                return
            group = state.groups.begin(kind, key.group)
        apply(group, key, value)
        if value is None and schema is kind.types.group:
            del by_id[key.group]

    return RecordRow(schema, replay)


ROWS = rows_by_id(
    (
        RecordRow(OFFSET_COMMIT, GroupCoordinatorShard.replay_offset_commit, last_value_counts=True),
        RecordRow(GROUP_METADATA, GroupCoordinatorShard.replay_group_metadata),
        *(
            _modern_row(kind, schema, apply)
            for kind in (ConsumerGroup, ShareGroup, StreamsGroup)
            for schema, apply in kind.replays()
        ),
    )
)
