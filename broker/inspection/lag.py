"""How far a group is behind the end of its partitions, as Kafka's tools count it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.inspection.groups import SETTLED, GroupView
from broker.inspection.partitions import PartitionView, read_partitions
from broker.inspection.share_groups import is_share
from broker.inspection.share_offsets import ShareOffset, read_share_offsets
from broker.node import Node
from broker.peers.leaders import PATIENCE_MS
from coordinator.group.group_port import GroupType
from metadata.topics import TopicsImage
from protocol.topic_partition import PartitionKey


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: `end` is its high watermark; `committed` is None if the group has not committed there.

    `shared` is where a share group starts there, which commits nothing. `unknown` says why `start` and `end` are not
    known, and is empty if they are.
    """

    topic: str
    partition: int
    committed: int | None
    start: int
    end: int
    unknown: str = ""
    shared: ShareOffset | None = None

    @property
    def begin(self) -> int | None:
        """What the lag counts from: the committed offset; the start offset of a share group."""
        return self.committed if self.shared is None else self.shared.start

    @property
    def is_begun(self) -> bool:
        """False if a share group has not begun to read what there is, so that its lag is not known."""
        return bool(self.unknown) or self.lag is not None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def lag(self) -> int | None:
        """The records from the committed offset to the end; without a commit, all that there are.

        For a share group, those that are not done yet. None if the leader did not tell the end, and if a share group
        has not begun to read what there is.
        """
        if self.unknown:
            return None
        if self.shared is not None:
            return self.shared.lag(self.start, self.end)
        first = self.start if self.begin is None else self.begin
        return max(self.end - first, 0)


def concerned(group: GroupView, topics: TopicsImage) -> list[PartitionKey]:
    """The partitions that the group has committed to, has assigned, or subscribes to.

    Of what a streams group needs, its tasks read what is assigned; changelogs are no part of its lag.
    """
    keys: dict[PartitionKey, None] = dict.fromkeys((*group.offsets, *group.owners()))
    for name in group.topics if group.protocol != GroupType.STREAMS.value else ():
        topic = topics.get(name)
        keys |= dict.fromkeys((name, index) for index in range(0 if topic is None else topic.partition_count))
    return sorted(keys)


def partition_lags(
    group: GroupView,
    keys: Iterable[PartitionKey],
    partitions: Mapping[PartitionKey, PartitionView],
    starts: Mapping[PartitionKey, ShareOffset],
) -> list[PartitionLag]:
    """The lag in each of these partitions, as far as it exists. `starts` is where a share group starts."""
    found = []
    for key in keys:
        partition = partitions.get(key)
        if partition is not None:
            committed = group.offsets.get(key)
            offset = None if committed is None else committed.value.offset
            shared = starts.get(key, ShareOffset()) if is_share(group) else None
            found.append(PartitionLag(*key, offset, partition.start, partition.end, partition.unknown, shared))
    return found


async def read_lags(
    node: Node, groups: Sequence[GroupView], patience_ms: float = PATIENCE_MS
) -> list[list[PartitionLag]]:
    """The lags of each group, in every existing partition that concerns it."""
    topics = node.cluster.cache.image.topics
    starts = [await read_share_offsets(node, group) for group in groups]
    keys = [sorted({*concerned(group, topics), *of}) for group, of in zip(groups, starts, strict=True)]
    partitions = await read_partitions(node, (key for of_group in keys for key in of_group), patience_ms)
    return [partition_lags(group, of, partitions, start) for group, of, start in zip(groups, keys, starts, strict=True)]


def sum_of(lags: Iterable[PartitionLag]) -> int | None:
    """The sum; None if one of them is not known."""
    found = 0
    for one in lags:
        if one.lag is None:
            return None
        found += one.lag
    return found


def total_lag(group: GroupView, lags: Sequence[PartitionLag]) -> int | None:
    """The sum; None while it says nothing: without partitions, while members wait for theirs, if one is not known."""
    return sum_of(lags) if lags and group.state in SETTLED else None
