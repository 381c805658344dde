"""What the test kit asks of a group, whatever its state: a rebalance, the end of sessions, its removal.

Nothing else here changes a group by itself: a session ends as when its timer fires, and a rebalance begins as when a
member asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.directory import Group, GroupDirectory
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.kinds import GroupType
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.heartbeat import Change, raise_epoch
from coordinator.group.share.group import ShareGroup
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import GroupIdNotFound, InvalidRequest, KafkaError, RebalanceInProgress, UnknownMemberId

REASON = "asked for through the control interface"


def rebalance(groups: GroupDirectory, group_id: str) -> Outcome[None]:
    """Begin a rebalance, unless one has begun already; the members hear of it with their next heartbeats.

    A modern group gets a new group epoch, so that its target assignment is computed again. Raises GroupIdNotFound, and
    InvalidRequest for a group without members.
    """
    group = _group(groups, group_id)
    if not group.members:
        raise InvalidRequest(f"group {group_id} has no members: there is nothing to rebalance")
    if isinstance(group, ModernGroup):
        change = Change()
        raise_epoch(group, groups.modern.hash_for(group, group.members.values()), change)
        if group.group_type is GroupType.CONSUMER:
            change.after.append(groups.modern.counts.count_consumer_rebalance)
        return change.outcome(None)
    if group.state is GroupState.PREPARING_REBALANCE:
        return Outcome()
    return Outcome(effects=lambda _: groups.classic.rebalances.prepare(group, REASON))


def expire(groups: GroupDirectory, group_id: str, member: str | None) -> Outcome[list[str]]:
    """End the sessions of the members with that member id, client id or instance id (None: of all members).

    The answer has their member ids. Raises GroupIdNotFound, UnknownMemberId, and RebalanceInProgress for a member of a
    classic group that waits for an answer: it counts as alive, whatever its session.
    """
    group = _group(groups, group_id)
    expired = members_named(group, member)
    if not expired:
        there = ", ".join(f"{key} (client {known.client_id})" for key, known in group.members.items()) or "none"
        what = "no members" if member is None else f"no member {member}; its members: {there}"
        raise UnknownMemberId(f"group {group_id} has {what}")
    if isinstance(group, ClassicGroup):
        waiting = [member_id for member_id in expired if group.members[member_id].is_waiting]
        if waiting:
            raise RebalanceInProgress(
                f"{', '.join(waiting)}: waits for the answer to a JoinGroup or SyncGroup, and counts as alive meanwhile"
            )
    context: CoordinatorContext[Any] = groups.classic.context
    waiter = context.waiter()

    def end_session(member_id: str) -> None:
        context.tell(lambda _: groups.timeouts.expire_session(group_id, member_id))

    def effects(_: KafkaError | None) -> None:
        for member_id in expired:
            end_session(member_id)
        # What ends a session is a message, and may send another one, which records an empty group: answer after both.
        _after(context, partial(_after, context, lambda: waiter.answer(expired)))

    return Outcome(reply=waiter, effects=effects)


def members_named(group: Group, member: str | None) -> list[str]:
    """The ids of the members that a member id, a client id or an instance id stands for; of all members for None."""
    if member is None or member in group.members:
        return list(group.members) if member is None else [member]
    by_instance = group.static_ids.get(member)
    if by_instance is not None:
        return [by_instance]
    return [key for key, known in group.members.items() if known.client_id == member]


def _after(context: CoordinatorContext[Any], then: Callable[[], None]) -> None:
    context.tell(lambda _: Outcome(effects=lambda _: then()))


def _group(groups: GroupDirectory, group_id: str) -> Group:
    """Raises GroupIdNotFound."""
    group = groups.modern.by_id.get(group_id) or groups.classic.by_id.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {group_id}")
    return group


def remove_group(state: GroupCoordinatorShard, group_id: str) -> Outcome[bool]:
    """Delete a group with its offsets and members, whose waiting requests are answered UNKNOWN_MEMBER_ID.

    The answer is whether there was one. A member that asks again is unknown, and may found the group anew.
    """
    groups = state.groups
    try:
        group = _group(groups, group_id)
    except GroupIdNotFound:
        return Outcome(reply=False)
    member_ids = list(group.members)
    records = [*state.offsets.all_tombstones(group_id), *groups.deletion(group_id)]

    def effects(error: KafkaError | None) -> None:
        if error is not None:
            return
        if isinstance(group, ClassicGroup):
            for member in list(group.members.values()):
                groups.classic.rebalances.remove(group, member)
            return
        groups.timeouts.end_all(group_id, member_ids)
        if states:
            groups.modern.share_state.delete(group_id, states)

    states = {topic: known.partitions for topic, known in group.states()} if isinstance(group, ShareGroup) else {}
    return Outcome(records, True, effects)
