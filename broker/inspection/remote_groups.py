"""Groups as their coordinator on another broker describes them, which may be Apache Kafka's.

Kafka's requests tell less than a coordinator knows: not for how long a group has been in its state, whom it waits for,
or when sessions end. What they do not tell is None, and `GroupView.coordinator` says whose view it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v6 import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest
from kio.schema.offset_fetch.v8 import OffsetFetchRequest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup
from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest
from kio.schema.streams_group_describe.v0 import StreamsGroupDescribeRequest

from broker.inspection.groups import (
    DEAD,
    GroupSummary,
    GroupView,
    MemberView,
    assigned_by,
    host_of,
    topics_subscribed_by,
)
from broker.node import Node
from broker.peers.leaders import NotServedError, ask, check
from coordinator.group.group_port import GroupType
from coordinator.group.offsets.store import CommittedOffset
from metadata.topics import TopicsImage
from protocol.coordinator_records.group_records import OffsetCommitValue
from protocol.schema import Entity
from protocol.topic_partition import PartitionKey

CLASSIC_MEMBER = 0
DESCRIBED_AT_ONCE = 500
"""Groups in a request: of thousands the answer would be large, and its coordinator busy with nothing else."""

NO_SUCH_GROUP = (ErrorCode.group_id_not_found, ErrorCode.unsupported_version)
"""The group does not exist, is of another kind, or the kind is not offered."""

Offsets = dict[PartitionKey, CommittedOffset]


async def list_groups_at(node: Node, broker_id: int) -> list[GroupSummary]:
    """The groups that a broker coordinates, without the number of their members. Raises KafkaError."""
    answer = await ask(node.cluster.peers.reach, broker_id, ListGroupsRequest(), lowest=0)
    check(broker_id, answer.error_code)
    return [GroupSummary(one.group_id, one.group_state, one.group_type.lower(), None) for one in answer.groups]


async def describe_groups_at(node: Node, broker_id: int, group_ids: Sequence[str]) -> list[GroupView]:
    """These groups of a coordinator, in order; some hundreds at a time. Raises KafkaError."""
    found: list[GroupView] = []
    for begin in range(0, len(group_ids), DESCRIBED_AT_ONCE):
        found += await _describe_at_once(node, broker_id, tuple(group_ids[begin : begin + DESCRIBED_AT_ONCE]))
    return found


async def _describe_at_once(node: Node, broker_id: int, ids: tuple[str, ...]) -> list[GroupView]:
    consumer_groups = ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
    share_groups = ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
    streams_groups = StreamsGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
    classic, consumer, share, streams, offsets = await asyncio.gather(
        _described(node, broker_id, DescribeGroupsRequest(groups=ids, include_authorized_operations=False), lowest=4),
        _described(node, broker_id, consumer_groups, lowest=0),
        _described(node, broker_id, share_groups, lowest=1),
        _described(node, broker_id, streams_groups, lowest=0),
        _offsets(node, broker_id, ids),
    )
    topics = node.cluster.cache.image.topics
    views = [
        *(_classic(one) for one in classic if one.group_state != DEAD),
        *(_consumer(one) for one in consumer),
        *(_share(one) for one in share),
        *(_streams(one, topics) for one in streams),
    ]
    by_id = {view.group_id: view for view in views}
    found = []
    for group_id in ids:
        view = by_id.get(group_id, GroupView(group_id))
        committed, pending = offsets.get(group_id, ({}, frozenset()))
        if committed and not view.exists:  # offsets alone, of a kind of group that this node does not know
            view = replace(view, state="Empty")
        found.append(replace(view, coordinator=broker_id, committed=committed, in_transactions=pending))
    return found


async def _described(node: Node, broker_id: int, request: Entity, *, lowest: int) -> list[Any]:
    """See `_existing`; of a broker that does not know the request there are none."""
    try:
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=lowest)
    except NotServedError:
        return []
    return _existing(broker_id, answer)


def _existing(broker_id: int, answer: Any) -> list[Any]:
    """The groups of an answer that exist and are of its kind. Raises the KafkaError of another group."""
    found = [one for one in answer.groups if one.error_code not in NO_SUCH_GROUP]
    for one in found:
        check(broker_id, one.error_code)
    return found


# -- offsets


async def _offsets(
    node: Node, broker_id: int, group_ids: Sequence[str]
) -> dict[str, tuple[Offsets, frozenset[PartitionKey]]]:
    """By group that may have offsets: what is committed, and what waits for its transaction. Raises KafkaError."""
    groups = tuple(OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids)
    committed, stable = await asyncio.gather(
        ask(node.cluster.peers.reach, broker_id, OffsetFetchRequest(groups=groups, require_stable=False), lowest=8),
        ask(node.cluster.peers.reach, broker_id, OffsetFetchRequest(groups=groups, require_stable=True), lowest=8),
    )
    waiting = {group.group_id: frozenset(_unstable(group)) for group in _existing(broker_id, stable)}
    found = _existing(broker_id, committed)
    return {group.group_id: (_committed(group), waiting.get(group.group_id, frozenset())) for group in found}


def _committed(group: Any) -> Offsets:
    return {
        (topic.name, one.partition_index): CommittedOffset(
            OffsetCommitValue(one.committed_offset, one.committed_leader_epoch, one.metadata or "", -1), -1
        )
        for topic in sorted(group.topics, key=lambda topic: topic.name)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        if one.error_code is ErrorCode.none and one.committed_offset >= 0
    }


def _unstable(group: Any) -> Iterable[PartitionKey]:
    for topic in group.topics:
        for one in topic.partitions:
            if one.error_code is ErrorCode.unstable_offset_commit:
                yield topic.name, one.partition_index


# -- the kinds of groups


def _classic(one: Any) -> GroupView:
    consumes = one.protocol_type == "consumer"
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            host_of(member.client_host),
            member.group_instance_id,
            GroupType.CLASSIC.value,
            assigned_by(bytes(member.member_assignment)) if consumes else {},
            topics_subscribed_by(bytes(member.member_metadata)) if consumes else None,
        )
        for member in one.members
    ]
    assignor = one.protocol_data if one.members else None
    return GroupView(
        one.group_id, one.group_state, GroupType.CLASSIC.value, one.protocol_type, None, assignor, None, None, members
    )


def _consumer(one: Any) -> GroupView:
    """What a member's regular expression matches is not told: of that there is what is assigned."""
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            host_of(member.client_host),
            member.instance_id,
            (GroupType.CLASSIC if member.member_type == CLASSIC_MEMBER else GroupType.CONSUMER).value,
            assignment := _assigned(member.assignment),
            frozenset((*member.subscribed_topic_names, *(assignment if member.subscribed_topic_regex else ()))),
            is_late=_is_behind(one, member),
        )
        for member in one.members
    ]
    return _of_kip_848(one, GroupType.CONSUMER, one.assignor_name, members)


def _share(one: Any) -> GroupView:
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            host_of(member.client_host),
            None,
            GroupType.SHARE.value,
            _assigned(member.assignment),
            frozenset(member.subscribed_topic_names),
            is_late=_is_behind(one, member),
        )
        for member in one.members
    ]
    return _of_kip_848(one, GroupType.SHARE, one.assignor_name, members)


def _streams(one: Any, topics: TopicsImage) -> GroupView:
    subtopologies = () if one.topology is None else one.topology.subtopologies
    sources = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }
    changelogs = {topic.name for each in subtopologies for topic in each.state_changelog_topics}
    required = frozenset(changelogs.union(*sources.values()))
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            host_of(member.client_host),
            member.instance_id,
            GroupType.STREAMS.value,
            _read_by(member.assignment.active_tasks, sources, topics),
            required,
            is_late=_is_behind(one, member),
        )
        for member in one.members
    ]
    return _of_kip_848(one, GroupType.STREAMS, None, members)


def _of_kip_848(one: Any, kind: GroupType, assignor: str | None, members: list[MemberView]) -> GroupView:
    return GroupView(
        one.group_id, one.group_state, kind.value, kind.value, one.group_epoch, assignor or None, None, None, members
    )


def _is_behind(group: Any, member: Any) -> bool:
    """Whether the group waits for the member to take the assignment of its epoch."""
    return bool(group.group_epoch == group.assignment_epoch and member.member_epoch != group.assignment_epoch)


def _assigned(assignment: Any) -> dict[str, list[int]]:
    return {one.topic_name: sorted(one.partitions) for one in sorted(assignment.topic_partitions, key=_name)}


def _name(one: Any) -> str:
    name: str = one.topic_name
    return name


def _read_by(tasks: Iterable[Any], sources: dict[str, tuple[str, ...]], topics: TopicsImage) -> dict[str, list[int]]:
    """The partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        for name in sources.get(task.subtopology_id, ()):
            topic = topics.get(name)
            count = 0 if topic is None else topic.partition_count
            found.setdefault(name, set()).update(index for index in task.partitions if index < count)
    return {name: sorted(indexes) for name, indexes in sorted(found.items())}
