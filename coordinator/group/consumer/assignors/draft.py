"""A member's partitions while an assignor changes them."""

from __future__ import annotations

from uuid import UUID

from coordinator.group.consumer.assignment import Partitions
from protocol.java_collections import in_buckets, in_java_order, java_buckets


class Draft:
    """The copy of a member's partitions that Kafka makes to change it (`AssignorHelpers.deepCopyAssignment`).

    The order of topics in the result is that of Java's hash table; it determines the order in the record, and so what
    the next assignment starts from. Hence this keeps the size of the table, which starts as small as the copied topics
    allow and never shrinks; and it imitates `computeIfAbsent`, by which topics are added: it puts them first in their
    bucket, and grows the table only at its next call.
    """

    __slots__ = ("_added", "_buckets", "_copied")

    def __init__(self, partitions: Partitions) -> None:
        self._copied = {topic: set(partitions[topic]) for topic in in_java_order(partitions.keys())}
        self._added: dict[UUID, set[int]] = {}
        self._buckets = java_buckets(len(partitions))
        if self._is_full():
            self._buckets *= 2

    def add(self, topic: UUID, partition: int) -> None:
        if self._is_full():
            self._buckets *= 2
        there = self._get(topic)
        if there is None:
            self._added[topic] = {partition}
        else:
            there.add(partition)

    def remove(self, topic: UUID, partition: int) -> None:
        """No effect if the member does not have the partition."""
        there = self._get(topic)
        if there is not None:
            there.discard(partition)
            if not there:
                self.remove_topic(topic)

    def remove_topic(self, topic: UUID) -> None:
        del (self._copied if topic in self._copied else self._added)[topic]

    def partitions(self) -> Partitions:
        topics = {**dict(reversed(self._added.items())), **self._copied}
        return {topic: frozenset(topics[topic]) for topic in in_buckets(topics, self._buckets)}

    def _get(self, topic: UUID) -> set[int] | None:
        there = self._copied.get(topic)
        return self._added.get(topic) if there is None else there

    def _is_full(self) -> bool:
        return len(self._copied) + len(self._added) > self._buckets * 3 // 4
