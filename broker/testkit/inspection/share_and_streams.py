"""What a share group and a streams group have besides what all groups have.

Of a share group that is where it starts in its partitions, how much after that is done, and what is in flight as far as
this node leads its partitions. The lag is Kafka's (KIP-1226): what follows the start offset, but for the records whose
delivery is complete. Kafka knows no lag before the first state is written; here the share partition that is loaded
tells it, if this node leads it.

Of a streams group it is its topology, what its members are told, and its tasks.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.describe_share_group_offsets.v1 import DescribeShareGroupOffsetsRequest
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup

from broker.node import Node
from broker.peers.leaders import NotServedError, ask, check
from broker.replication.partition import READ_COMMITTED
from broker.share.runs import RecordState
from broker.share.share_partition import SharePartition
from broker.testkit.inspection.groups import GroupView
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup, each_task
from coordinator.group.streams.heartbeat import is_delayed
from coordinator.group.streams.topology import Problem
from protocol.coordinator_records.share_records import (
    NO_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareSnapshotValue,
)
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey

if TYPE_CHECKING:
    from broker.coordinators.group_coordinator import GroupCoordinator


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
    return frozenset((topic.name, index) for topic in group.state.initialized.values() for index in topic.partitions)


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


FIRST_WITH_LAG = 1
NO_LAG = -1


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """All records before `start` are done, and `complete` of those after it; None if it is not known.

    `told` is the lag as the coordinator on another broker tells it, None if this node is the coordinator.
    """

    start: int | None = None
    complete: int | None = None
    told: int | None = None

    def lag(self, first: int, end: int) -> int | None:
        """The records that are not done, of a log with this first offset and this end; None if it is not known."""
        if self.told is not None:
            return self.told
        if self.start is None or self.complete is None:
            return 0 if first == end else None
        return end - self.start - self.complete


async def read_share_offsets(node: Node, group: GroupView) -> dict[PartitionKey, ShareOffset]:
    """By partition that has a state; nothing for a group of another kind. Raises KafkaError."""
    if not group.is_share:
        return {}
    if group.coordinator is not None:
        return await _told(node, group.coordinator, group.group_id)
    topics = node.cluster.cache.image.topics
    by_key = {
        SharePartitionKey(group.group_id, topic.id, index): (name, index)
        for name, index in await initialized(node, group.group_id)
        if (topic := topics.get(name)) is not None
    }
    found = await node.local.share.states.summaries(by_key)
    return {by_key[key]: _offset(node, key, state) for key, state in found.items()}


def _offset(node: Node, key: SharePartitionKey, state: ShareSnapshotValue | KafkaError | None) -> ShareOffset:
    if (
        isinstance(state, ShareSnapshotValue)
        and state.start_offset != NO_START_OFFSET
        and state.complete_count != UNKNOWN_COUNT
    ):
        return ShareOffset(state.start_offset, state.complete_count)
    loaded = node.local.share.get(key)
    return ShareOffset() if loaded is None else ShareOffset(loaded.start_offset, loaded.complete_count)


async def _told(node: Node, broker_id: int, group_id: str) -> dict[PartitionKey, ShareOffset]:
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(wanted,))
    try:
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=FIRST_WITH_LAG)
    except NotServedError:
        return {}
    (group,) = answer.groups
    check(broker_id, group.error_code)
    return {
        (topic.topic_name, one.partition_index): _as_told(one) for topic in group.topics for one in topic.partitions
    }


def _as_told(one: Any) -> ShareOffset:
    start = None if one.start_offset == NO_START_OFFSET else one.start_offset
    return ShareOffset(start, None, None if one.lag == NO_LAG else one.lag)


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of a member. Its state is at `offset` of `end` in its changelogs; None if the member has not said that.

    `role` is active, standby or warm-up.
    """

    name: str
    role: str
    member_id: str
    offset: int | None
    end: int | None

    @property
    def behind(self) -> int | None:
        """The records of its changelogs that are missing in its state; None if the member has not said it."""
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)


@dataclass(frozen=True, slots=True)
class StreamsGroupView:
    """`problem` is why no tasks are assigned. Of members by id: `stale`, the epoch of a topology older than the
    group's; `untagged`, the client tags that they lack.
    """

    topology_epoch: int
    problem: Problem | None
    shutdown_by: str | None
    is_delayed: bool
    stale: Mapping[str, int]
    untagged: Mapping[str, Sequence[str]]
    tasks: Sequence[TaskView]
    acceptable_lag: int


async def read_streams_group(coordinator: GroupCoordinator, group_id: str) -> StreamsGroupView | None:
    """The group; None if it is no streams group any more. Raises CoordinatorLoadInProgress."""
    reading: Future[StreamsGroupView | None] = coordinator.read(group_id, partial(_view, group_id=group_id))
    return await reading


def _view(state: GroupCoordinatorShard, group_id: str) -> StreamsGroupView | None:
    groups = state.groups.modern
    group = groups.find(StreamsGroup, group_id)
    if group is None:
        return None
    epoch = -1 if group.topology is None else group.topology.epoch
    return StreamsGroupView(
        epoch,
        None if group.configured is None else group.configured.problem,
        group.shutdown_by,
        is_delayed(groups, group_id),
        {key: one.topology_epoch for key, one in group.members.items() if one.topology_epoch < epoch},
        _untagged(groups, group),
        [*_tasks(group)],
        groups.services.streams.acceptable_recovery_lag_of(group_id),
    )


def _untagged(groups: ModernGroups, group: StreamsGroup) -> dict[str, Sequence[str]]:
    tags = groups.services.streams.tags_of(group.group_id)
    lacking = {
        key: [tag for tag in tags if tag not in dict(member.client_tags)] for key, member in group.members.items()
    }
    return {key: missing for key, missing in lacking.items() if missing}


def _tasks(group: StreamsGroup) -> Iterator[TaskView]:
    for member in group.members.values():
        offsets = group.offsets.get(member.member_id, {})
        ends = group.end_offsets.get(member.member_id, {})
        for role, tasks in zip(("active", "standby", "warm-up"), member.assigned, strict=True):
            for task in each_task(tasks):
                name = f"{task[0]}_{task[1]}"
                yield TaskView(name, role, member.member_id, offsets.get(task), ends.get(task))
