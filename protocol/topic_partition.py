"""The name of a partition, as a class and as a bare tuple; where its leader epochs begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PartitionKey = tuple[str, int]
"""(topic, partition index): a `TopicPartition` or a bare tuple, which takes a fraction of the time to make.

Coordinators and handlers make bare ones, for every partition of every request.
"""


def by_topic(partitions: Iterable[PartitionKey]) -> dict[str, list[int]]:
    """Partition indexes by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for topic, index in partitions:
        grouped.setdefault(topic, []).append(index)
    return grouped


class TopicPartition(NamedTuple):
    """Kafka's TopicPartition; its text `topic-partition` is also the name of the partition's folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class EpochEntry(NamedTuple):
    """A leader epoch of a partition, and the offset of its first record."""

    epoch: int
    start_offset: int
