"""A group as the test kit shows it: the same fields for both protocols, and what a member waits for."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.members import Member, subscribed_topics
from coordinator.group.directory import Group, GroupDirectory
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.kinds import GroupType
from coordinator.group.modern.group import MemberState, ModernGroup
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.topics import TopicsPort
from coordinator.group.offsets.store import CommittedOffset
from coordinator.group.streams.group import StreamsGroup, partitions_of
from protocol.consumer_protocol import SchemaError, deserialize_assignment
from protocol.errors import NotCoordinator
from protocol.topic_partition import PartitionKey

if TYPE_CHECKING:
    from broker.coordinators.group_coordinator import GroupCoordinator

VIEWED_AT_ONCE = 200
"""Groups that are looked at in one go; one takes some 20 microseconds."""

DEAD = "Dead"
"""The state of a group that does not exist, as in DescribeGroups."""

SETTLED = frozenset({"Stable", "Empty"})
"""States in which nobody waits for partitions."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member.

    `topics` are those that it subscribes to, None if they are unknown. `waits_for` is the request of it that waits for
    an answer. `is_late` means that the group waits for it: for a JoinGroup or SyncGroup, or to give up partitions.
    `session_left_ms` is the time to the end of its session if it sends nothing.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    protocol: str
    assignment: Mapping[str, Sequence[int]]
    topics: frozenset[str] | None
    waits_for: str | None = None
    is_late: bool = False
    session_left_ms: float | None = None
    rebalance_timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group. `since_ms` is the wall time at which it entered its state, None if that is not known.

    `generation` is the group epoch in the consumer protocol, None if it is not known. `pending` are member ids that
    were given out with MEMBER_ID_REQUIRED and not used yet. `in_transactions` are partitions whose commit waits for its
    transaction. `coordinator` is the broker that described it, None if it is this node.
    """

    group_id: str
    state: str = DEAD
    protocol: str = ""
    protocol_type: str | None = None
    generation: int | None = 0
    assignor: str | None = None
    leader: str | None = None
    since_ms: int | None = None
    members: Sequence[MemberView] = ()
    pending: Sequence[str] = ()
    committed: Mapping[PartitionKey, CommittedOffset] | None = None
    in_transactions: frozenset[PartitionKey] = frozenset()
    coordinator: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != DEAD

    @property
    def is_share(self) -> bool:
        return self.protocol == GroupType.SHARE.value

    @property
    def is_streams(self) -> bool:
        return self.protocol == GroupType.STREAMS.value

    @property
    def offsets(self) -> Mapping[PartitionKey, CommittedOffset]:
        """The committed offsets by partition."""
        return self.committed or {}

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the members subscribe to, as far as they are known."""
        return frozenset[str]().union(*(member.topics or () for member in self.members))

    def owners(self) -> dict[PartitionKey, MemberView]:
        """Who has which partition."""
        return {
            (topic, index): member
            for member in self.members
            for topic, indexes in member.assignment.items()
            for index in indexes
        }


async def read_group(coordinator: GroupCoordinator, group_id: str) -> GroupView:
    """The group, as far as it is committed. Raises CoordinatorLoadInProgress."""
    try:
        reading: Future[GroupView] = coordinator.read(group_id, partial(_view, group_id=group_id))
        return await reading
    except NotCoordinator:
        if coordinator.topic_exists:
            raise
        return GroupView(group_id)


async def list_groups(coordinator: GroupCoordinator) -> list[GroupView]:
    """All groups, by id; others have the loop after some of them. Raises CoordinatorLoadInProgress."""
    found: list[GroupView] = []
    for context in coordinator.runtime.contexts():
        ids = await context.read(lambda state: [group.group_id for group in state.groups.all()])
        for begin in range(0, len(ids), VIEWED_AT_ONCE):
            found += await context.read(partial(_views, ids[begin : begin + VIEWED_AT_ONCE]))
            await asyncio.sleep(0)
    return sorted(found, key=lambda group: group.group_id)


def _views(ids: Iterable[str], state: GroupCoordinatorShard) -> list[GroupView]:
    """Those of the groups that are still there."""
    return [_view(state, group_id) for group_id in ids if state.groups.find(group_id) is not None]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A line of a list of groups; `members` is None if its coordinator is another broker, which does not tell it."""

    group_id: str
    state: str
    protocol: str
    members: int | None


async def list_summaries(coordinator: GroupCoordinator) -> list[GroupSummary]:
    """All groups, by id, in a fraction of the time of `list_groups`. Raises CoordinatorLoadInProgress."""
    found: list[GroupSummary] = []
    for context in coordinator.runtime.contexts():
        found += await context.read(lambda state: [_summary(group) for group in state.groups.all()])
    return sorted(found, key=lambda group: group.group_id)


def _summary(group: Group) -> GroupSummary:
    return GroupSummary(group.group_id, group.state_name, group.group_type.value, len(group.members))


def _view(state: GroupCoordinatorShard, group_id: str) -> GroupView:
    group = state.groups.find(group_id)
    if group is None:
        return GroupView(group_id)
    store = state.offsets.store
    committed = {
        (topic, index): offset
        for topic, offsets in sorted(store.of_group(group_id).items())
        for index, offset in sorted(offsets.items())
    }
    places = store.places_of_group(group_id) if store.has_open_transactions(group_id) else ()
    own = _classic(state, group) if isinstance(group, ClassicGroup) else _modern(state.groups.modern, group)
    return GroupView(
        group_id,
        group.state_name,
        group.group_type.value,
        group.protocol_type,
        own.generation,
        own.assignor,
        own.leader,
        own.since_ms,
        own.members,
        own.pending,
        committed,
        frozenset(place for place in places if store.has_pending(group_id, *place)),
    )


class _Own(NamedTuple):
    """What a group of each kind has of its own."""

    generation: int
    assignor: str | None
    members: list[MemberView]
    leader: str | None = None
    since_ms: int | None = None
    pending: Sequence[str] = ()


# -- the classic protocol


def _classic(state: GroupCoordinatorShard, group: ClassicGroup) -> _Own:
    return _Own(
        group.generation,
        group.protocol_name if group.members else None,
        [_classic_member(state.groups, group, member) for member in group.members.values()],
        group.leader_id,
        group.state_timestamp_ms,
        list(group.pending),
    )


def _classic_member(groups: GroupDirectory, group: ClassicGroup, member: Member) -> MemberView:
    waits_for = "JoinGroup" if member.awaiting_join is not None else None
    if member.awaiting_sync is not None:
        waits_for = "SyncGroup"
    late = group.state is GroupState.PREPARING_REBALANCE and member.awaiting_join is None
    late |= group.state is not GroupState.PREPARING_REBALANCE and member.member_id in group.pending_sync
    return MemberView(
        member.member_id,
        member.client_id,
        host_of(member.client_host),
        member.group_instance_id,
        GroupType.CLASSIC.value,
        assigned_by(member.assignment) if group.uses_consumer_protocol else {},
        topics_subscribed_by(*(one.metadata for one in member.protocols)) if group.uses_consumer_protocol else None,
        waits_for,
        late,
        None if member.is_waiting else groups.timeouts.left_ms(group.group_id, member.member_id),
        member.rebalance_timeout_ms,
    )


def assigned_by(assignment: bytes) -> dict[str, list[int]]:
    """By topic; nothing if the leader wrote what nobody understands."""
    try:
        partitions = deserialize_assignment(assignment).partitions if assignment else []
    except SchemaError:
        return {}
    found: dict[str, list[int]] = {}
    for topic, indexes in partitions:
        found[topic] = sorted({*found.get(topic, ()), *indexes})
    return dict(sorted(found.items()))


def topics_subscribed_by(*metadata: bytes) -> frozenset[str] | None:
    """The topics that a member subscribes to, by what it says for each assignor; None if nobody understands it."""
    try:
        return frozenset[str]().union(*map(subscribed_topics, metadata))
    except SchemaError:
        return None


# -- modern groups


def _modern(groups: ModernGroups, group: ModernGroup[Any, Any]) -> _Own:
    """What a share group delivers, and what is acknowledged, is with the leaders of its partitions."""
    return _Own(
        group.epoch,
        group.preferred_assignor(groups.config_of(group).assignors),
        [_modern_member(groups, group, member) for member in group.members.values()],
    )


def _modern_member(groups: ModernGroups, group: ModernGroup[Any, Any], member: Any) -> MemberView:
    return MemberView(
        member.member_id,
        member.client_id,
        host_of(member.client_host),
        member.instance_id,
        GroupType.CLASSIC.value if member.is_classic else group.group_type.value,
        _held(groups, group, member),
        group.subscription(member),
        None,
        member.state is MemberState.UNREVOKED or is_behind(group.epoch, group.assignment_epoch, member.epoch),
        groups.timeouts.left_ms(group.group_id, member.member_id),
        member.rebalance_timeout_ms,
    )


def _held(groups: ModernGroups, group: ModernGroup[Any, Any], member: Any) -> dict[str, list[int]]:
    """The partitions that a member has; of a streams group, those that its active tasks read."""
    if isinstance(group, StreamsGroup):
        configured = group.configured
        return {} if configured is None else partitions_of([member.assigned.active], configured, groups.partition_count)
    return _assigned(groups.topics, member.assigned.items())


def is_behind(group_epoch: int, assignment_epoch: int, member_epoch: int) -> bool:
    """Whether the group waits for the member to take the assignment of its epoch."""
    return group_epoch == assignment_epoch != member_epoch


def _assigned(topics: TopicsPort, assigned: Iterable[tuple[UUID, frozenset[int]]]) -> dict[str, list[int]]:
    images = ((topics.by_id(topic), indexes) for topic, indexes in assigned)
    return dict(sorted((image.name, sorted(indexes)) for image, indexes in images if image is not None))


def host_of(client_host: str) -> str:
    """The address, without the slash with which Java writes it."""
    return client_host.removeprefix("/")
