"""The rig for consumer groups: topics that come and go, and what the log says of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.group.directory import Group
from coordinator.group.kinds import ConsumerGroupConfig, GroupType
from protocol.coordinator_records.consumer_group_records import CONSUMER_GROUP_MEMBER_METADATA
from protocol.coordinator_records.group_records import GROUP_METADATA, OFFSET_COMMIT
from protocol.coordinator_records.record_schema import Partitions, record_id
from protocol.records.build import Record, build_batch
from tests.unit.coordinator.group.offsets.rig import OffsetRig
from tests.unit.coordinator.group.rig import GROUP

if TYPE_CHECKING:
    from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient


class ConsumerRig(OffsetRig):
    """`await ConsumerRig.having({"a": 4}, session_timeout_ms=...)`: topics with so many partitions, and settings."""

    @classmethod
    async def having(
        cls, topics: Mapping[str, int], classic: Mapping[str, int] | None = None, **config: Any
    ) -> ConsumerRig:
        rig = cls(initial_rebalance_delay_ms=0, **classic or {})
        rig.consumer_config = ConsumerGroupConfig(**{"assignment_interval": lambda: 0} | config)
        for name, partitions in topics.items():
            rig.topics.create(name, partitions)
        await rig.restart()
        return rig

    # -- topics

    def create(self, name: str, partitions: int) -> None:
        self.topics.create(name, partitions)
        self.shard.groups.modern.topic_changed(name)

    def grow(self, name: str, partitions: int) -> None:
        self.topics.grow(name, partitions)
        self.shard.groups.modern.topic_changed(name)

    def drop(self, name: str) -> None:
        self.topics.delete(name)
        self.shard.groups.modern.topic_changed(name)
        self.topic_deleted(name)

    def of(self, **partitions: Sequence[int]) -> Partitions:
        """Partitions by topic names: `of(a=(0, 1))`."""
        return {self.topic_id(name): frozenset(indexes) for name, indexes in partitions.items() if indexes}

    def topic_id(self, name: str) -> UUID:
        image = self.topics.by_name(name)
        assert image is not None
        return image.id

    # -- the group

    @property
    def any_group(self) -> Group | None:
        return self.shard.groups.find(GROUP)

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups.modern.find(ConsumerGroup, GROUP)
        assert group is not None
        return group

    def group_types(self) -> dict[str, str]:
        return {group.group_id: group.group_type.value for group in self.shard.groups.all()}

    def member(self, client: ConsumerClient | ClassicConsumer) -> ConsumerMember:
        return self.consumers.member(client.member_id)

    @property
    def epochs(self) -> tuple[int, int]:
        """The group's and the target assignment's."""
        return self.consumers.epoch, self.consumers.assignment_epoch

    @property
    def timers(self) -> list[str]:
        """What members are timed in, but for the sessions of classic groups."""
        (context,) = self.runtime.contexts()
        keys = [key for key in context.timers if isinstance(key, tuple) and not key[0].startswith("classic")]
        return sorted(f"{key[0]} of {key[2]}" for key in keys if not self.is_classic_session(key))

    # -- what is in the log

    async def replayed(self, batches: Sequence[bytes] | None = None) -> ConsumerRig:
        """Another coordinator that finds this log; the topics are the same."""
        other = ConsumerRig(**{})
        other.topics = self.topics
        other.log.written = list(self.log.written if batches is None else batches)
        await other.restart()
        return other

    def members_written(self) -> list[str]:
        """The member ids of the log's records about members, as they are there; not of tombstones."""
        return [
            CONSUMER_GROUP_MEMBER_METADATA.decode_key(record.key).member_id
            for record in self.log.records()
            if record.key and record.value and record_id(record.key) in CONSUMER_GROUP_MEMBER_METADATA.ids
        ]

    def members_removed(self) -> list[str]:
        """The member ids of these records' tombstones."""
        return [
            CONSUMER_GROUP_MEMBER_METADATA.decode_key(record.key).member_id
            for record in self.log.records()
            if record.key and record.value is None and record_id(record.key) in CONSUMER_GROUP_MEMBER_METADATA.ids
        ]

    def compacted(self) -> list[bytes]:
        """The log when of each key only the last record is left, and no tombstone."""
        kept = last_records(self.log.records())
        return [bytes(build_batch(kept))] if kept else []

    def kinds_left(self) -> set[GroupType]:
        """Of which kinds of group there are records in the log, once it is compacted."""
        ids = {record_id(record.key) for record in last_records(self.log.records()) if record.key is not None}
        ids -= set(OFFSET_COMMIT.ids)
        return {GroupType.CLASSIC if number in GROUP_METADATA.ids else GroupType.CONSUMER for number in ids}


def last_records(records: Sequence[Record]) -> list[Record]:
    """Of each key; none where that is a tombstone."""
    last = {record.key: record for record in records}
    return sorted((record for record in last.values() if record.value is not None), key=lambda one: one.offset)


def durable(group: ConsumerGroup) -> dict[str, Any]:
    """All that the log must tell of it, field by field: not what is computed."""
    soft = ("is_fresh", "_subscribed", "subscribed_regexes")
    return {name: value for name, value in vars(group).items() if not name.startswith(soft)}


async def log_tells(rig: ConsumerRig) -> bool:
    """Whether whoever reads the log, as it is or compacted, finds the group as it is here; or none, as here.

    Nothing is left in it of what the group was before.
    """
    assert rig.kinds_left() <= ({rig.any_group.group_type} if rig.any_group else set())
    for batches in (rig.log.written, rig.compacted()):
        reader = await rig.replayed(batches)
        assert [group.group_id for group in reader.shard.groups.all()] in ([], [GROUP]), "one group of that name"
        other = reader.shard.groups.modern.find(ConsumerGroup, GROUP)
        here = rig.shard.groups.modern.find(ConsumerGroup, GROUP)
        if (other is None) != (here is None):
            return False
        if other is not None and here is not None:
            assert durable(other) == durable(here)
    return True
