"""The target assignment, computed for each group epoch (Kafka's TargetAssignmentBuilder)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

logger = structlog.get_logger(__name__)


def preferred_assignor(members: Iterable[ConsumerMember], assignors: Sequence[str]) -> str:
    """The one of `assignors` that most of the members ask for; in a tie, or if nobody asks for one, the first."""
    votes = Counter(member.assignor for member in members)
    return max(assignors, key=lambda name: votes[name])


def make_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    topics: TopicsPort,
    assignor: str,
    now_ms: int,
    change: Change,
) -> Mapping[str, Partitions]:
    """Every member's new target by member id; the differences from the current one are added to `change`.

    `members` are the group's, with the changes in `change`. Raises UnknownServerError if the assignor fails.
    """
    spec = _spec(group, members, topics)
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
    change.records.append(records.target_epoch(group.group_id, epoch, now_ms))
    return assigned


def _spec(group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: TopicsPort) -> GroupSpec:
    counts: dict[UUID, int] = {}
    ids: dict[str, UUID] = {}
    for name in topics_of(members.values(), group.resolved):
        image = topics.by_name(name)
        if image is not None:
            ids[name] = image.id
            counts[image.id] = image.partition_count
    # Most members have the same subscription, and sorting topics is expensive.
    subscriptions = {(member.topics, member.regex): member for member in members.values()}
    known = {
        key: tuple(ids[name] for name in sorted(subscription(member, group.resolved)) if name in ids)
        for key, member in subscriptions.items()
    }
    specs = {
        key: MemberSpec(member.instance_id, known[member.topics, member.regex], _present_target(group, member))
        for key, member in sorted(members.items())
    }
    return GroupSpec(specs, len(set(known.values())) == 1, group.owners, counts)


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
