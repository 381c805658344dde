"""Members that leave a consumer group, or are removed (Kafka's `consumerGroupLeave`, `consumerGroupFenceMembers`)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.advance import raise_epoch
from coordinator.group.consumer.assignment import NO_PARTITIONS, epochs_of
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.downgrade import downgrade, may_downgrade
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import LEFT_FOR_A_WHILE, ConsumerMember
from coordinator.group.consumer.membership import known_static_member
from coordinator.group.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from coordinator.group.consumer.target import topics_of
from coordinator.group.consumer.timeouts import Overdue
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)


def leave(groups: ConsumerGroups, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle a heartbeat with epoch -1, or -2 of a static member that will come back. Raises KafkaErrors."""
    group = groups.get(request.group_id)
    answer = ConsumerHeartbeatAnswer(request.member_id, request.member_epoch)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = known_static_member(group, request.member_id, request.instance_id)
    logger.info(
        "member left the consumer group",
        group=group.group_id,
        member=member.member_id,
        group_instance_id=request.instance_id,
        for_a_while=request.member_epoch == LEFT_FOR_A_WHILE,
    )
    if request.instance_id is not None and request.member_epoch == LEFT_FOR_A_WHILE:
        away = member._replace(
            epoch=LEFT_FOR_A_WHILE, pending_revocation=NO_PARTITIONS, epochs=epochs_of(member.assigned, 0)
        )
        return Outcome((records.current_assignment(group.group_id, away),), answer)
    return remove(groups, group, [member]).outcome(answer)


def fence(groups: ConsumerGroups, overdue: Overdue) -> Outcome[None] | None:
    """Remove a member whose time is over; if that cannot be written, it is tried again.

    As in Kafka, one that must not be removed, since the group cannot become a classic one, is not tried again.
    """
    group = groups.find(overdue.group_id)
    member = None if group is None else group.members.get(overdue.member_id)
    if group is None or member is None or overdue.epoch not in (None, member.epoch):
        return None
    logger.info("member fenced from the group", group=group.group_id, member=member.member_id, reason=overdue.reason)
    try:
        change = remove(groups, group, [member])
    except KafkaError as error:
        logger.error("member not removed", group=group.group_id, member=member.member_id, error=str(error))
        return None
    change.after.append(groups.metrics.count_expired_member)
    change.otherwise = lambda: groups.timeouts.retry(overdue)
    return change.outcome(None)


def remove(groups: ConsumerGroups, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> Change:
    """Remove members; if only members of the classic protocol remain, the group becomes a classic one.

    Raises GroupIdNotFound if it cannot become one.
    """
    change = Change()
    if not members:
        return change
    if may_downgrade(groups, group, members):
        downgrade(groups, group, members, change)
        return change
    group_id = group.group_id
    gone = dict.fromkeys(member.member_id for member in members)
    for member_id in gone:
        change.records += records.member_tombstones(group_id, member_id)
    remaining = [member for member in group.members.values() if member.member_id not in gone]
    used = {member.regex for member in remaining}
    unused = dict.fromkeys(member.regex for member in members if member.regex and member.regex not in used)
    change.records += [records.regex(group_id, regex, None) for regex in unused]
    names = topics_of(remaining, group.resolved)
    raise_epoch(group, groups.metadata_hash(names), change)
    if not remaining:  # nothing is left to assign
        change.records.append(records.target_epoch(group_id, change.epoch_of(group), 0))
    change.after.append(lambda: groups.timeouts.end_all(group_id, gone))
    return change
