"""Members that leave a consumer group, or are removed (Kafka's `consumerGroupLeave`, `consumerGroupFenceMembers`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.advance import raise_epoch
from coordinator.group.consumer.assignment import NO_PARTITIONS
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import LEFT_FOR_A_WHILE, ConsumerMember
from coordinator.group.consumer.membership import known_static_member
from coordinator.group.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from coordinator.group.consumer.target import topics_of
from coordinator.runtime.outcome import Outcome

if TYPE_CHECKING:
    from coordinator.group.consumer.groups import ConsumerGroups

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
        away = member._replace(epoch=LEFT_FOR_A_WHILE, pending_revocation=NO_PARTITIONS)
        return Outcome((records.current_assignment(group.group_id, away),), answer)
    return remove(groups, group, [member]).outcome(answer)


def remove(groups: ConsumerGroups, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> Change:
    """Remove members; if only members of the classic protocol remain, the group becomes a classic one.

    Raises GroupIdNotFound if it cannot become one.
    """
    change = Change()
    if not members:
        return change
    if groups.migration.may_downgrade(group, members):
        groups.migration.downgrade(group, members, change)
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
    change.after.append(lambda: groups.timeouts.end_all(group_id, gone))
    return change
