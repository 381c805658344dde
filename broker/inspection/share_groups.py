"""What a share group has in flight, as far as this node leads its partitions."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass

from broker.inspection.groups import GroupView
from broker.node import Node
from broker.replication.partition import READ_COMMITTED
from broker.share.runs import RecordState
from broker.share.share_partition import SharePartition
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.group_port import GroupType
from coordinator.group.share.group import ShareGroup
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.topic_partition import PartitionKey


@dataclass(frozen=True, slots=True)
class RangeView:
    """Neighbouring records in one state; offsets are inclusive. `lock_left_ms` counts for those that are acquired."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str
    lock_left_ms: float

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def offsets(self) -> str:
        """`offset 3`, `offsets 3 to 5`."""
        return f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class SharePartitionView:
    """A share partition that is loaded. `ranges` begin at `start`; `end` is the log's high watermark."""

    topic: str
    partition: int
    start: int
    end: int
    ranges: Sequence[RangeView]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def in_flight(self) -> int:
        """Offsets from the start offset to the last that was acquired."""
        return self.ranges[-1].last - self.start + 1 if self.ranges else 0

    @property
    def has_more(self) -> bool:
        """Whether there is a record that somebody may acquire, but for the limit of records in flight."""
        free = any(one.state is RecordState.AVAILABLE for one in self.ranges)
        return free or self.start + self.in_flight < self.end


@dataclass(frozen=True, slots=True)
class ShareGroupView:
    """`sessions` are the members with a share session here; `stateless` the subscribed partitions without a state.

    `most_in_flight`, `most_deliveries`, `offset_reset`, `queue` (of dead letters, empty for none) are its settings.
    """

    partitions: Sequence[SharePartitionView]
    sessions: frozenset[str]
    stateless: Sequence[PartitionKey]
    most_in_flight: int
    most_deliveries: int
    offset_reset: str
    queue: str
    reads_committed: bool


def is_share(group: GroupView) -> bool:
    return group.protocol == GroupType.SHARE.value


def sessions_of(node: Node, group_id: str) -> frozenset[str]:
    """The members of the group that have a share session with this node."""
    return node.local.share.sessions.members_of(group_id)


async def read_share_group(node: Node, group: GroupView) -> ShareGroupView:
    """Raises CoordinatorLoadInProgress."""
    shares, group_id = node.local.share, group.group_id
    settings = shares.settings.of(group_id)
    return ShareGroupView(
        in_flight_here(node, group_id),
        sessions_of(node, group_id),
        sorted(_subscribed(node, group) - await initialized(node, group_id)),
        settings.rules.max_locks,
        settings.rules.max_deliveries,
        settings.offset_reset,
        settings.dead_letters,
        settings.isolation_level == READ_COMMITTED,
    )


def in_flight_here(node: Node, group_id: str) -> list[SharePartitionView]:
    """The share partitions of a group that are loaded here, in order."""
    found = [_partition(node, key, share) for key, share in node.local.share.of_group(group_id)]
    return sorted((one for one in found if one is not None), key=lambda one: (one.topic, one.partition))


async def initialized(node: Node, group_id: str) -> frozenset[PartitionKey]:
    """The partitions of which the share coordinator has a state. Raises CoordinatorLoadInProgress."""
    reading: Future[frozenset[PartitionKey]] = node.coordinators.groups.read(
        group_id, lambda state: _initialized(state, group_id)
    )
    return await reading


def _initialized(state: GroupCoordinatorShard, group_id: str) -> frozenset[PartitionKey]:
    group = state.groups.find(group_id)
    if not isinstance(group, ShareGroup):
        return frozenset()
    return frozenset((topic.name, index) for topic in group.initialized().values() for index in topic.partitions)


def _subscribed(node: Node, group: GroupView) -> frozenset[PartitionKey]:
    topics = [(name, node.cluster.cache.topic(name)) for name in group.topics]
    return frozenset(
        (name, index) for name, topic in topics if topic is not None for index in range(topic.partition_count)
    )


def _partition(node: Node, key: SharePartitionKey, share: SharePartition) -> SharePartitionView | None:
    topic = node.cluster.cache.image.topics.by_id(key.topic_id)
    partition = None if topic is None else node.replicas.get(topic.name, key.partition)
    if topic is None or partition is None:
        return None
    now_ms = node.local.clock.monotonic_ms()
    ranges = [
        RangeView(run.first, run.last, run.state, run.delivery_count, run.member_id, run.locked_until_ms - now_ms)
        for run in share.in_flight()
    ]
    return SharePartitionView(topic.name, key.partition, share.start_offset, partition.high_watermark, ranges)
