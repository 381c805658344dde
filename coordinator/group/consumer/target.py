"""The target assignment of a consumer group, as the assignor that most members ask for makes it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import structlog

from coordinator.group.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec, PartitionAssignorError
from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember, preferred_assignor
from coordinator.group.modern.groups import ModernGroups
from protocol.coordinator_records.consumer_group_records import Partitions
from protocol.errors import UnknownServerError

logger = structlog.get_logger(__name__)


def make_target(
    groups: ModernGroups, group: ConsumerGroup, members: Mapping[str, ConsumerMember], epoch: int
) -> Mapping[str, Partitions]:
    """Every member's target by member id. Raises UnknownServerError if the assignor fails."""
    assignor = preferred_assignor(members.values(), groups.consumer_config.assignors)
    try:
        targets = ASSIGNORS[assignor](_spec(groups, group, members))
    except PartitionAssignorError as error:
        logger.error("target assignment failed", group=group.group_id, epoch=epoch, assignor=assignor, error=str(error))
        raise UnknownServerError from error  # clients are not told why
    logger.info("target assignment computed", group=group.group_id, epoch=epoch, assignor=assignor)
    return targets


def _spec(groups: ModernGroups, group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> GroupSpec:
    counts: dict[UUID, int] = {}
    ids: dict[str, UUID] = {}
    for name in group.topics_of(members.values(), groups.topics):
        image = groups.topics.by_name(name)
        if image is not None:
            ids[name] = image.id
            counts[image.id] = image.partition_count
    # Most members have the same subscription, and sorting topics is expensive.
    subscriptions = {(member.topics, member.regex): member for member in members.values()}
    known = {
        key: tuple(ids[name] for name in sorted(group.subscription(member)) if name in ids)
        for key, member in subscriptions.items()
    }
    specs = {
        key: MemberSpec(member.instance_id, known[member.topics, member.regex], group.target_of(member))
        for key, member in sorted(members.items())
    }
    return GroupSpec(specs, len(set(known.values())) == 1, group.owners, counts)
