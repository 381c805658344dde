"""A member's partitions while an assignor changes them."""

from __future__ import annotations

from uuid import UUID

from coordinator.group.consumer.assignment import Partitions


class Draft:
    """A copy of a member's partitions that can be changed."""

    __slots__ = ("_indexes",)

    def __init__(self, partitions: Partitions) -> None:
        self._indexes = {topic: set(indexes) for topic, indexes in partitions.items()}

    def add(self, topic: UUID, partition: int) -> None:
        self._indexes.setdefault(topic, set()).add(partition)

    def remove(self, topic: UUID, partition: int) -> None:
        """No effect if the member does not have the partition."""
        indexes = self._indexes.get(topic)
        if indexes is not None:
            indexes.discard(partition)
            if not indexes:
                del self._indexes[topic]

    def remove_topic(self, topic: UUID) -> None:
        del self._indexes[topic]

    def partitions(self) -> Partitions:
        return {topic: frozenset(indexes) for topic, indexes in self._indexes.items()}
