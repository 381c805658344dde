"""A partition as its readers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.node import Node
from broker.replicas.partition import Role


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Its offsets, and the producers of its open transactions by first offset.

    `has_leader` is False if its log is offline, or another node should lead it and none does.
    """

    topic: str
    partition: int
    start: int
    stable: int
    end: int
    has_leader: bool
    open_producers: Mapping[int, int]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_held(self) -> bool:
        """Whether an open transaction keeps readers of committed records from its end."""
        return self.stable < self.end


def read_partition(node: Node, topic: str, index: int) -> PartitionView | None:
    """The partition; None if it does not exist."""
    image = node.cluster.cache.topic(topic)
    if image is None or not 0 <= index < image.partition_count:
        return None
    partition = node.replicas.get(topic, index)
    if partition is None or partition.role is not Role.LEADER:
        return PartitionView(topic, index, -1, -1, -1, False, {})
    return PartitionView(
        topic,
        index,
        partition.log_start_offset,
        partition.last_stable_offset,
        partition.high_watermark,
        True,
        dict(partition.log.producers.open_transactions),
    )


def read_topic(node: Node, topic: str) -> list[PartitionView]:
    """The topic's partitions; none if it does not exist."""
    image = node.cluster.cache.topic(topic)
    found = [read_partition(node, topic, index) for index in range(0 if image is None else image.partition_count)]
    return [partition for partition in found if partition is not None]
