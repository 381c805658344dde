"""Committed offsets, and those that wait for their transaction: durable state, which only replay changes.

How it works: there are two maps. Committed offsets are by group, topic and partition. Pending ones are by producer id
too: a commit in a transaction waits there until the producer's end marker is replayed. A COMMIT marker moves them to
the committed ones, unless a later plain commit is there already; an ABORT marker drops them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from coordinator.runtime.outcome import Position
from protocol.coordinator_records.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey


class CommittedOffset(NamedTuple):
    """A commit and the offset of its record, which decides between commits inside and outside of transactions."""

    value: OffsetCommitValue
    record_offset: int


OfTopics = dict[str, dict[int, CommittedOffset]]
OfGroup = Mapping[str, Mapping[int, CommittedOffset]]
"""A group's offsets by topic and partition."""


class OffsetStore:
    """Kafka's OffsetMetadataManager without its requests.

    Offsets by group, topic and partition; pending ones by producer id first.
    """

    def __init__(self) -> None:
        self._by_group: dict[str, OfTopics] = {}
        self._pending: dict[int, dict[str, OfTopics]] = {}
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
        places = (self.of_group(group), *self._pending_of(group))
        return list(dict.fromkeys((topic, partition) for some in places for topic in some for partition in some[topic]))

    def places_of_topics(self, topics: Set[str]) -> Iterator[tuple[str, str, int]]:
        """(group, topic, partition) of each commit, pending or not."""
        for of_groups in (self._by_group, *self._pending.values()):
            for group, offsets in of_groups.items():
                for topic in sorted(topics & offsets.keys()):
                    yield from ((group, topic, partition) for partition in sorted(offsets[topic]))

    def _pending_of(self, group: str) -> Iterator[OfTopics]:
        for producer_id in self._open_transactions.get(group, ()):
            yield self._pending[producer_id][group]

    # -- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, position: Position) -> None:
        group, topic, partition = key
        if value is None:
            self._remove(group, topic, partition)
        elif position.producer_id == NO_PRODUCER_ID:
            _put(self._by_group, group, topic, partition, CommittedOffset(value, position.offset))
        else:
            pending = self._pending.setdefault(position.producer_id, {})
            _put(pending, group, topic, partition, CommittedOffset(value, position.offset))
            self._open_transactions.setdefault(group, set()).add(position.producer_id)

    def _remove(self, group: str, topic: str, partition: int) -> None:
        """A tombstone removes the pending commits too."""
        offsets = self._by_group.get(group)
        for offsets_by_topic in self._pending_of(group) if offsets is None else (offsets, *self._pending_of(group)):
            of_topic = offsets_by_topic.get(topic)
            if of_topic is not None and of_topic.pop(partition, None) is not None and not of_topic:
                del offsets_by_topic[topic]
        if not offsets:
            self._by_group.pop(group, None)
        for producer_id in list(self._open_transactions.get(group, ())):
            pending = self._pending[producer_id]
            if not pending[group]:
                del pending[group]
                self._has_nothing_pending(producer_id, group)

    def _has_nothing_pending(self, producer_id: int, group: str) -> None:
        transactions = self._open_transactions[group]
        transactions.discard(producer_id)
        if not transactions:
            del self._open_transactions[group]

    def replay_end_marker(self, producer_id: int, committed: bool) -> None:
        """Apply a marker. Of a pending and a plain commit the later record counts: compaction may remove the other."""
        ended = self._pending.pop(producer_id, None)
        for group, pending in () if ended is None else ended.items():
            self._has_nothing_pending(producer_id, group)
            if committed:
                self._take_over(group, pending)

    def _take_over(self, group: str, pending: OfTopics) -> None:
        for topic, partitions in pending.items():
            for partition, offset in partitions.items():
                existing = self.get(group, topic, partition)
                if existing is None or offset.record_offset > existing.record_offset:
                    _put(self._by_group, group, topic, partition, offset)


def _put(offsets: dict[str, OfTopics], group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
    offsets.setdefault(group, {}).setdefault(topic, {})[partition] = offset


_NONE: Mapping[int, CommittedOffset] = {}
_NOTHING: OfGroup = {}
