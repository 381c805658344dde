"""Committed offsets, and those that wait for their transaction: durable state, which only replay changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.runtime.outcome import Position
from protocol.internal.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey


class CommittedOffset(NamedTuple):
    """A commit and the offset of its record, which decides between commits inside and outside of transactions."""

    value: OffsetCommitValue
    record_offset: int


Partitions = dict[int, CommittedOffset]
OfGroup = Mapping[str, Mapping[int, CommittedOffset]]
"""A group's offsets by topic and partition."""


class OffsetStore:
    """Kafka's OffsetMetadataManager without its requests.

    Offsets by group, topic and partition; pending ones by producer id first.
    """

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Partitions]] = {}
        self._pending: dict[int, dict[str, dict[str, Partitions]]] = {}
        self._open_transactions: dict[str, set[int]] = {}

    # -- reading

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.of_group(group).get(topic, _NONE).get(partition)

    def of_group(self, group: str) -> OfGroup:
        return self._by_group.get(group, _NOTHING)

    def count_of_group(self, group: str) -> int:
        return sum(map(len, self.of_group(group).values()))

    def groups(self) -> Mapping[str, OfGroup]:
        return self._by_group

    def __len__(self) -> int:
        """The number of committed offsets of all groups."""
        return sum(map(self.count_of_group, self._by_group))

    def has_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has a commit for the partition."""
        return any(partition in pending.get(topic, _NONE) for pending in self._pending_of(group))

    def has_open_transactions(self, group: str) -> bool:
        return group in self._open_transactions

    def places_of_group(self, group: str) -> list[PartitionKey]:
        """The partitions for which the group, or an open transaction, has a commit, each once."""
        offsets = (self.of_group(group), *self._pending_of(group))
        return list(dict.fromkeys((topic, partition) for one in offsets for topic in one for partition in one[topic]))

    def places_of_topic(self, topic: str) -> list[tuple[str, int]]:
        """Each (group, partition) that has a commit, pending or not, once."""
        found: dict[tuple[str, int], None] = {}
        for group in {**self._by_group, **dict.fromkeys(self._open_transactions)}:
            for one in (self.of_group(group), *self._pending_of(group)):
                found |= dict.fromkeys((group, partition) for partition in one.get(topic, ()))
        return list(found)

    def _pending_of(self, group: str) -> Iterator[dict[str, Partitions]]:
        for producer_id in self._open_transactions.get(group, ()):
            pending = self._pending[producer_id].get(group)
            if pending is not None:
                yield pending

    # -- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, position: Position) -> None:
        group, topic, partition = key
        if value is None:
            self._remove(group, topic, partition)
        elif position.producer_id == NO_PRODUCER_ID:
            self._put(self._by_group.setdefault(group, {}), topic, partition, CommittedOffset(value, position.offset))
        else:
            pending = self._pending.setdefault(position.producer_id, {}).setdefault(group, {})
            self._put(pending, topic, partition, CommittedOffset(value, position.offset))
            self._open_transactions.setdefault(group, set()).add(position.producer_id)

    @staticmethod
    def _put(offsets: dict[str, Partitions], topic: str, partition: int, offset: CommittedOffset) -> None:
        of_topic = offsets.get(topic)
        if of_topic is None:
            of_topic = offsets[topic] = {}
        of_topic[partition] = offset

    def _remove(self, group: str, topic: str, partition: int) -> None:
        """A tombstone removes the pending commits too."""
        offsets = self._by_group.get(group, {})
        for one in (offsets, *self._pending_of(group)):
            of_topic = one.get(topic, {})
            if of_topic.pop(partition, None) is not None and not of_topic:
                del one[topic]
        if not offsets:
            self._by_group.pop(group, None)

    def replay_end_marker(self, producer_id: int, committed: bool) -> None:
        """Apply a marker. Of a pending and a plain commit the later record counts: compaction may remove the other."""
        ended = self._pending.pop(producer_id, {})
        for group, pending in ended.items():
            transactions = self._open_transactions[group]
            transactions.discard(producer_id)
            if not transactions:
                del self._open_transactions[group]
            if committed and pending:
                self._take_over(self._by_group.setdefault(group, {}), pending)

    def _take_over(self, offsets: dict[str, Partitions], pending: OfGroup) -> None:
        for topic, partitions in pending.items():
            for partition, offset in partitions.items():
                existing = offsets.get(topic, _NONE).get(partition)
                if existing is None or offset.record_offset > existing.record_offset:
                    self._put(offsets, topic, partition, offset)


_NONE: Mapping[int, CommittedOffset] = {}
_NOTHING: OfGroup = {}
