"""How far a group is behind the end of its partitions, as Kafka's tools count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.inspection.groups import SETTLED, GroupView
from broker.replicas.replica_manager import ReplicaManager
from metadata.topics import TopicsImage
from protocol.topic_partition import PartitionKey


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: `end` is its high watermark; `committed` is None if the group has not committed there."""

    topic: str
    partition: int
    committed: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        """The records from the committed offset to the end; without a commit, all that there are."""
        first = self.start if self.committed is None else self.committed
        return max(self.end - first, 0)


def partition_lags(group: GroupView, topics: TopicsImage, replicas: ReplicaManager) -> list[PartitionLag]:
    """The lag in every existing partition that the group has committed to, has assigned, or subscribes to."""
    keys: dict[PartitionKey, None] = dict.fromkeys((*group.offsets, *group.owners()))
    for name in group.topics:
        topic = topics.get(name)
        keys |= dict.fromkeys((name, index) for index in range(0 if topic is None else topic.partition_count))
    found = []
    for topic_name, index in sorted(keys):
        partition = replicas.get(topic_name, index)
        if partition is not None:
            committed = group.offsets.get((topic_name, index))
            offset = None if committed is None else committed.value.offset
            start, end = partition.log_start_offset, partition.high_watermark
            found.append(PartitionLag(topic_name, index, offset, start, end))
    return found


def total_lag(group: GroupView, lags: Sequence[PartitionLag]) -> int | None:
    """The sum; None while it says nothing: without partitions, and while members wait for theirs."""
    return sum(lag.lag for lag in lags) if lags and group.state in SETTLED else None
