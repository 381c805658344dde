"""Sets of partitions, as members own them and assignors assign them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from protocol.java_collections import in_java_order, java_buckets, java_copy_capacity

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; a topic's set is empty only where a classic member's share of it was."""

NO_PARTITIONS: Partitions = {}


def by_topic(partitions: Partitions) -> Iterator[tuple[UUID, frozenset[int]]]:
    """Topics and their indexes in the order of the hash map that Kafka keeps them in."""
    for topic in in_java_order(partitions):
        yield topic, partitions[topic]


def as_stored(indexes: frozenset[int]) -> Sequence[int]:
    """The indexes in the order of the hash set that Kafka makes of a record's partitions."""
    return _in_set_order(sorted(indexes), java_copy_capacity(len(indexes)))


def as_computed(indexes: frozenset[int], before: frozenset[int]) -> Sequence[int]:
    """The indexes in the order of the hash set with which Kafka answers an assignment it has just computed.

    That set is a copy of what the member had `before`, less what it gives up, to which the rest is added.
    """
    kept = indexes & before
    capacity = java_copy_capacity(len(before)) if kept else 16
    return _in_set_order([*sorted(kept), *sorted(indexes - kept)], capacity)


def _in_set_order(indexes: Sequence[int], capacity: int) -> Sequence[int]:
    if not indexes or max(indexes) < java_buckets(max(capacity, len(indexes))):
        return sorted(indexes)  # each has a bucket of its own
    return in_java_order(indexes, capacity)
