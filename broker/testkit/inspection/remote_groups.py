"""Groups as their coordinator on another broker describes them, which may be Apache Kafka's.

Kafka's requests tell less than a coordinator knows: not for how long a group has been in its state, whom it waits for,
or when sessions end. What they do not tell is None, and `GroupView.coordinator` says whose view it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v6 import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest
from kio.schema.offset_fetch.v8 import OffsetFetchRequest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup
from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest
from kio.schema.streams_group_describe.v0 import StreamsGroupDescribeRequest

from broker.node import Node
from broker.peers.leaders import NotServedError, ask, check
from broker.testkit.inspection.groups import (
    GroupSummary,
    GroupView,
    MemberView,
    assigned_by,
    host_of,
    is_behind,
    topics_subscribed_by,
)
from coordinator.group.kinds import GroupType
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
    offsets, views = await asyncio.gather(_offsets(node, broker_id, ids), _views(node, broker_id, ids))
    found = []
    for group_id in ids:
        view = views.get(group_id, GroupView(group_id))
        committed, pending = offsets.get(group_id, ({}, frozenset()))
        if committed and not view.exists:  # offsets alone, of a kind of group that this node does not know
            view = replace(view, state="Empty")
        found.append(replace(view, coordinator=broker_id, committed=committed, in_transactions=pending))
    return found


async def _views(node: Node, broker_id: int, ids: tuple[str, ...]) -> dict[str, GroupView]:
    """By id, without their offsets: each kind of group has a request of its own."""
    topics = node.cluster.cache.image.topics
    classic = DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
    asked = [_described(node, broker_id, classic, 4, _classic)]
    for kind in KINDS:
        request = kind.request(group_ids=ids, include_authorized_operations=False)
        asked.append(_described(node, broker_id, request, kind.lowest, partial(_of_kind, kind, topics)))
    return {view.group_id: view for several in await asyncio.gather(*asked) for view in several if view.exists}


async def _described(
    node: Node, broker_id: int, request: Entity, lowest: int, view: Callable[[Any], GroupView]
) -> list[GroupView]:
    """Views of the groups of this kind; of a broker that does not know the request there are none."""
    try:
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=lowest)
    except NotServedError:
        return []
    return [view(group) for group in _existing(broker_id, answer)]


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


Reading = Callable[[Any], tuple[dict[str, list[int]], frozenset[str]]]
"""What a member is assigned, and what it subscribes to."""


class _Kind(NamedTuple):
    """A kind of group whose members send heartbeats: how it is asked for, and what its members read."""

    type: GroupType
    request: Callable[..., Entity]
    lowest: int
    reading: Callable[[Any, TopicsImage], Reading]


def _of_kind(kind: _Kind, topics: TopicsImage, group: Any) -> GroupView:
    reading = kind.reading(group, topics)
    members = [
        MemberView(
            member.member_id,
            member.client_id,
            host_of(member.client_host),
            getattr(member, "instance_id", None),
            (GroupType.CLASSIC if getattr(member, "member_type", None) == CLASSIC_MEMBER else kind.type).value,
            *reading(member),
            is_late=is_behind(group.group_epoch, group.assignment_epoch, member.member_epoch),
        )
        for member in group.members
    ]
    assignor, name = getattr(group, "assignor_name", None) or None, kind.type.value
    return GroupView(group.group_id, group.group_state, name, name, group.group_epoch, assignor, None, None, members)


def _by_subscription(_group: Any, _topics: TopicsImage) -> Reading:
    """What a member's regular expression matches is not told: of that there is what is assigned."""

    def read(member: Any) -> tuple[dict[str, list[int]], frozenset[str]]:
        assigned = {one.topic_name: sorted(one.partitions) for one in member.assignment.topic_partitions}
        matched = assigned if getattr(member, "subscribed_topic_regex", None) else ()
        return dict(sorted(assigned.items())), frozenset((*member.subscribed_topic_names, *matched))

    return read


def _by_tasks(group: Any, topics: TopicsImage) -> Reading:
    """All members of a streams group need all of its topics."""
    subtopologies = () if group.topology is None else group.topology.subtopologies
    sources = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }
    changelogs = {topic.name for each in subtopologies for topic in each.state_changelog_topics}
    required = frozenset(changelogs.union(*sources.values()))
    return lambda member: (_read_by(member.assignment.active_tasks, sources, topics), required)


def _read_by(tasks: Iterable[Any], sources: dict[str, tuple[str, ...]], topics: TopicsImage) -> dict[str, list[int]]:
    """The partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        for name in sources.get(task.subtopology_id, ()):
            topic = topics.get(name)
            count = 0 if topic is None else topic.partition_count
            found.setdefault(name, set()).update(index for index in task.partitions if index < count)
    return {name: sorted(indexes) for name, indexes in sorted(found.items())}


KINDS = (
    _Kind(GroupType.CONSUMER, ConsumerGroupDescribeRequest, 0, _by_subscription),
    _Kind(GroupType.SHARE, ShareGroupDescribeRequest, 1, _by_subscription),
    _Kind(GroupType.STREAMS, StreamsGroupDescribeRequest, 0, _by_tasks),
)
