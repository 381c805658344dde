"""Offsets that have not been used for `offsets.retention.minutes`, and groups with nothing left (KIP-211).

Kafka's GroupCoordinatorShard.cleanupGroupMetadata and OffsetExpirationConditionImpl.
"""

from __future__ import annotations

from coordinator.group.config import GroupConfig
from coordinator.group.counts import OffsetMetrics
from coordinator.group.group_port import Group, Groups, GroupType
from coordinator.group.offsets.offsets import tombstone
from coordinator.group.offsets.store import CommittedOffset, OffsetStore
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import KafkaError
from protocol.records.batch import NO_TIMESTAMP

GROUPS_IN_A_TURN = 500
"""Groups that are looked at before the loop serves others."""


class OffsetExpiry:
    """One shard's search for what has expired."""

    def __init__(self, store: OffsetStore, groups: Groups, config: GroupConfig, metrics: OffsetMetrics) -> None:
        self._store = store
        self._groups = groups
        self._config = config
        self._metrics = metrics
        self._left: list[str] = []

    @property
    def is_under_way(self) -> bool:
        """Whether some groups were not looked at yet."""
        return bool(self._left)

    def expire(self, now_ms: int) -> Outcome[None]:
        """The tombstones for expired offsets, and for empty groups that keep none, of the next groups."""
        if not self._left:
            self._left = [group.group_id for group in self._groups.all()]
        some = self._left[-GROUPS_IN_A_TURN:]
        del self._left[-GROUPS_IN_A_TURN:]
        records: list[CoordinatorRecord] = []
        expired = 0
        for group_id in some:
            group = self._groups.find(group_id)
            if group is None or group.group_type is GroupType.SHARE:  # those commit none, and live until deleted
                continue
            tombstones = self._expired(group, now_ms)
            records += tombstones
            expired += len(tombstones)
            remaining = self._store.count_of_group(group.group_id) - len(tombstones)
            if not remaining and group.is_empty and not self._store.has_open_transactions(group.group_id):
                records += self._groups.deletion(group.group_id)

        def count(error: KafkaError | None) -> None:
            if error is None:
                self._metrics.offset_expirations += expired

        return Outcome(records, effects=count, atomic=False)

    def _expired(self, group: Group, now_ms: int) -> list[CoordinatorRecord]:
        """The tombstones for one group. Offsets of subscribed topics stay, and those a transaction will replace."""
        group_id = group.group_id
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self._store.of_group(group_id).items()
            for partition, offset in partitions.items()
            if self._is_over(group, offset, now_ms)
            and not group.is_subscribed_to_topic(topic)
            and not self._store.has_pending(group_id, topic, partition)
        ]

    def _is_over(self, group: Group, offset: CommittedOffset, now_ms: int) -> bool:
        since = group.offset_expires_from(offset.value.commit_timestamp)
        if since is None:
            return False
        if offset.value.expire_timestamp != NO_TIMESTAMP:  # a retention set by the client, from before KIP-211
            return now_ms >= offset.value.expire_timestamp
        return now_ms - since >= self._config.offsets_retention_ms
