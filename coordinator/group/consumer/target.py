"""The target assignment, computed for each group epoch (Kafka's TargetAssignmentBuilder)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec, PartitionAssignorError
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.regex import ResolvedRegex
from coordinator.group.consumer.topics_port import TopicsPort
from protocol.errors import UnknownServerError
from protocol.java_collections import in_java_copy_order, in_java_order

logger = structlog.get_logger(__name__)


def make_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    homogeneous: bool,
    topics: TopicsPort,
    assignor: str,
    change: Change,
) -> Mapping[str, Partitions]:
    """Every member's new target by member id; the differences from the current one are added to `change`.

    `members` are the group's, with the changes in `change`; `homogeneous`: all subscribe to the same topics.
    Raises UnknownServerError if the assignor fails.
    """
    spec = _spec(group, members, homogeneous, topics)
    epoch = change.epoch_of(group)
    try:
        assigned = ASSIGNORS[assignor](spec)
    except PartitionAssignorError as error:
        logger.error("target assignment failed", group=group.group_id, epoch=epoch, assignor=assignor, error=str(error))
        raise UnknownServerError from error  # clients are not told why
    logger.info("target assignment computed", group=group.group_id, epoch=epoch, assignor=assignor)
    for member_id in spec.members:
        partitions = assigned.get(member_id, NO_PARTITIONS)
        if partitions != group.target.get(member_id):
            change.records.append(records.target(group.group_id, member_id, partitions))
    change.records.append(records.target_epoch(group.group_id, epoch))
    return assigned


def _spec(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], homogeneous: bool, topics: TopicsPort
) -> GroupSpec:
    counts: dict[UUID, int] = {}
    ids: dict[str, UUID] = {}
    for name in topics_of(members.values(), group.resolved):
        image = topics.by_name(name)
        if image is not None:
            ids[name] = image.id
            counts[image.id] = image.partition_count
    # Most members have the same subscription, and sorting topics is expensive.
    subscriptions = {(member.topics, member.regex): member for member in members.values()}
    topics_in_order = {key: _in_order(member, group.resolved) for key, member in subscriptions.items()}
    specs = {}
    for member_id in in_java_order(_in_kafkas_order(group, members)):
        member = members[member_id]
        names = topics_in_order[member.topics, member.regex]
        known = tuple(ids[name] for name in names if name in ids)
        assigned = _present_target(group, member)
        specs[member_id] = MemberSpec(member.instance_id, member.rack_id, known, assigned, len(names) - len(known))
    return GroupSpec(specs, homogeneous, group.owners, counts)


def _in_kafkas_order(group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> list[str]:
    """The group's members in the order of its map, then one that is not in it yet (`TargetAssignmentBuilder`)."""
    known = [one.member_id for one in group.members_in_order() if one.member_id in members]
    return known + [one for one in members if one not in group.members]


def _in_order(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> list[str]:
    """The names of the member's topics in Kafka's order: those of the larger of its two subscriptions first."""
    by_name = in_java_copy_order(sorted(member.topics))
    found = resolved.get(member.regex) if member.regex else None
    if found is None:
        return by_name
    by_regex = in_java_copy_order(sorted(found.topics))
    larger, smaller = (by_name, by_regex) if len(by_name) > len(by_regex) else (by_regex, by_name)
    return list(dict.fromkeys([*larger, *smaller]))


def _present_target(group: ConsumerGroup, member: ConsumerMember) -> Partitions:
    """The current target: for a static member that replaces another, that one's; for a new one its own, if any.

    `ConsumerGroup.target_of` is for answers: there, as in Kafka, an unknown instance has none.
    """
    owner = group.static_ids.get(member.instance_id, member.member_id) if member.instance_id else member.member_id
    return group.target.get(owner, NO_PARTITIONS)


def topics_of(members: Iterable[ConsumerMember], resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of the topics that any of the members subscribes to."""
    return frozenset[str]().union(*(subscription(member, resolved) for member in members))


def subscription(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The names of the topics that the member subscribes to, by name and by expression."""
    found = resolved.get(member.regex) if member.regex else None
    return member.topics if found is None else member.topics | found.topics
