"""Partitions of the whole cluster that an operator should look at. Pure functions of the image, for any thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration


class PartitionStates(NamedTuple):
    total: int
    leaderless: int
    under_replicated: int
    moving: int


class Troubled(NamedTuple):
    """A partition, and what is the matter with it."""

    topic: str
    number: int
    partition: PartitionRegistration
    what: str


def count_partitions(image: MetadataImage) -> PartitionStates:
    total = leaderless = under_replicated = moving = 0
    for topic in image.topics:
        for partition in topic.partitions.values():
            total += 1
            leaderless += not partition.has_leader
            under_replicated += _is_under_replicated(partition)
            moving += _is_moving(partition)
    return PartitionStates(total, leaderless, under_replicated, moving)


def troubled(image: MetadataImage) -> Iterator[Troubled]:
    """The partitions without a leader, those that lack in-sync replicas, and those that move, by name."""
    for topic in image.topics.sorted():
        for index, partition in topic.in_order():
            what = _what(partition)
            if what:
                yield Troubled(topic.name, index, partition, what)


def _what(partition: PartitionRegistration) -> str:
    if not partition.has_leader:
        return "no leader"
    if _is_moving(partition):
        return "moves"
    return "under-replicated" if _is_under_replicated(partition) else ""


def _is_moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _is_under_replicated(partition: PartitionRegistration) -> bool:
    return len(partition.isr) < len(set(partition.replicas) - set(partition.adding_replicas))


def led_by(image: MetadataImage) -> dict[int, tuple[int, int]]:
    """By broker: how many partitions it leads, and of how many it has a replica."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in image.topics:
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
    return {broker: (leaders[broker], replicas[broker]) for broker in replicas}
