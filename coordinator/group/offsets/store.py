"""Committed offsets, and those that wait for their transaction: durable state, which only replay changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple, TypeVar

from coordinator.runtime.outcome import Position
from protocol.internal.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.java_collections import LEAST_SLOTS, in_timeline_order, timeline_slots
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey


class CommittedOffset(NamedTuple):
    """A commit and the offset of its record, which decides between commits inside and outside of transactions."""

    value: OffsetCommitValue
    record_offset: int


Key = TypeVar("Key", str, int)
Value = TypeVar("Value")


class TimelineMap(dict[Key, Value]):
    """A dict that knows how large Kafka's TimelineHashMap has become, which never shrinks and determines its order."""

    __slots__ = ("_size",)

    def __init__(self) -> None:
        super().__init__()
        self._size = LEAST_SLOTS

    def put(self, key: Key, value: Value) -> None:
        """Add or replace; either may enlarge Kafka's map."""
        self._size = timeline_slots(self._size, len(self))
        self[key] = value

    def in_order(self) -> list[Key]:
        return in_timeline_order(list(self), self._size)


Partitions = TimelineMap[int, CommittedOffset]
OfTopics = TimelineMap[str, Partitions]
OfGroup = Mapping[str, Mapping[int, CommittedOffset]]
"""A group's offsets by topic and partition."""


class OffsetStore:
    """Kafka's OffsetMetadataManager without its requests.

    Offsets by group, topic and partition; pending ones by producer id first.
    """

    def __init__(self) -> None:
        self._by_group: TimelineMap[str, OfTopics] = TimelineMap()
        self._pending: TimelineMap[int, TimelineMap[str, OfTopics]] = TimelineMap()
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
        places = (self.in_order(group), *map(_in_order, self._pending_of(group)))
        return list(dict.fromkeys((topic, partition) for some in places for topic, partition, _ in some))

    def in_order(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Topic, partition and offset of all commits of a group, in the order of Kafka's maps."""
        return _in_order(self._by_group.get(group, _NOTHING))

    def places_of_topics(self, topics: Set[str]) -> Iterator[tuple[str, str, int]]:
        """(group, topic, partition) of each commit, pending or not: topics in the order of each group's own map."""
        for of_groups in (self._by_group, *[self._pending[producer_id] for producer_id in self._pending.in_order()]):
            for group in of_groups.in_order():
                offsets = of_groups[group]
                for topic in offsets.in_order() if not topics.isdisjoint(offsets) else ():
                    if topic in topics:
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
            pending = _get_or_put(self._pending, position.producer_id)
            _put(pending, group, topic, partition, CommittedOffset(value, position.offset))
            self._open_transactions.setdefault(group, set()).add(position.producer_id)

    def _remove(self, group: str, topic: str, partition: int) -> None:
        """A tombstone removes the pending commits too."""
        offsets = self._by_group.get(group)
        for one in self._pending_of(group) if offsets is None else (offsets, *self._pending_of(group)):
            of_topic = one.get(topic)
            if of_topic is not None and of_topic.pop(partition, None) is not None and not of_topic:
                del one[topic]
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
        for topic, partition, offset in _in_order(pending):
            existing = self.get(group, topic, partition)
            if existing is None or offset.record_offset > existing.record_offset:
                _put(self._by_group, group, topic, partition, offset)


def _in_order(offsets: OfTopics) -> Iterator[tuple[str, int, CommittedOffset]]:
    for topic in offsets.in_order():
        of_topic = offsets[topic]
        for partition in of_topic.in_order():
            yield topic, partition, of_topic[partition]


def _put(offsets: TimelineMap[str, OfTopics], group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
    _get_or_put(_get_or_put(offsets, group), topic).put(partition, offset)


def _get_or_put(maps: TimelineMap[Key, TimelineMap[Any, Any]], key: Key) -> TimelineMap[Any, Any]:
    found = maps.get(key)
    if found is None:
        found = TimelineMap()
        maps.put(key, found)
    return found


_NONE: Mapping[int, CommittedOffset] = {}
_NOTHING: OfTopics = TimelineMap()
