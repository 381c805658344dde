"""Members that leave a streams group, or are removed (Kafka's `streamsGroupLeave`, `streamsGroupFenceMember`)."""

from __future__ import annotations

import structlog

from coordinator.group.consumer.change import Change
from coordinator.group.consumer.timeouts import Overdue
from coordinator.group.streams import records
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.groups import StreamsGroups
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.membership import leaving_member
from coordinator.group.streams.messages import LEFT_FOR_A_WHILE, StreamsHeartbeat, StreamsHeartbeatAnswer
from coordinator.runtime.outcome import Outcome

logger = structlog.get_logger(__name__)


def leave(groups: StreamsGroups, request: StreamsHeartbeat) -> Outcome[StreamsHeartbeatAnswer]:
    """Handle a heartbeat with epoch -1, or -2 of a static member that will come back. Raises KafkaErrors."""
    group = groups.get(request.group_id)
    member = leaving_member(group, request)
    answer = StreamsHeartbeatAnswer(request.member_id, request.member_epoch)
    for_a_while = request.member_epoch == LEFT_FOR_A_WHILE
    logger.info("member left the streams group", group=group.group_id, member=member.member_id, for_a_while=for_a_while)
    if for_a_while:
        change = Change()
        change.records.append(records.current_assignment(group.group_id, member.away()))
    else:
        change = remove(groups, group, member)
    if request.shuts_down:
        change.after.append(lambda: shut_down(groups, group.group_id, member.member_id))
    return change.outcome(answer)


def shut_down(groups: StreamsGroups, group_id: str, member_id: str) -> None:
    """Note that a member wants all to end; the first one counts, until the group is empty."""
    group = groups.find(group_id)
    if group is not None and group.members and group.shutdown_by is None:
        group.shutdown_by = member_id


def fence(groups: StreamsGroups, overdue: Overdue) -> Outcome[None] | None:
    """Remove a member whose time is over; if that cannot be written, it is tried again."""
    group = groups.find(overdue.group_id)
    member = None if group is None else group.members.get(overdue.member_id)
    if group is None or member is None or overdue.epoch not in (None, member.epoch):
        return None
    logger.info("member fenced from the group", group=group.group_id, member=member.member_id, reason=overdue.reason)
    change = remove(groups, group, member)
    change.otherwise = lambda: groups.timeouts.retry(overdue)
    return change.outcome(None)


def remove(groups: StreamsGroups, group: StreamsGroup, member: StreamsMember) -> Change:
    """The group epoch rises; the target follows with another member's heartbeat, if there is one."""
    group_id = group.group_id
    change = Change()
    change.records += records.member_tombstones(group_id, member.member_id)
    change.epoch = group.epoch + 1
    change.records.append(records.metadata(group_id, group.metadata_value(change.epoch)))
    if len(group.members) == 1:
        change.records.append(records.target_epoch(group_id, change.epoch, 0))
    change.after.append(lambda: groups.timeouts.end_all(group_id, [member.member_id]))
    return change
