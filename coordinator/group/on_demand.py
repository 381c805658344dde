"""A rebalance, or the end of sessions, on demand: what a timer or a member would cause, caused now.

For tests of clients. Nothing here changes a group by itself: a session ends as when its timer fires, and a rebalance
begins as when a member asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.states import GroupState
from coordinator.group.consumer.advance import raise_epoch
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.target import topics_of
from coordinator.group.directory import GroupDirectory
from coordinator.group.share import records as share_records
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams import records as streams_records
from coordinator.group.streams.group import StreamsGroup
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import GroupIdNotFound, InvalidRequest, KafkaError, RebalanceInProgress, UnknownMemberId

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

REASON = "asked for through the control interface"


def rebalance(groups: GroupDirectory, group_id: str) -> Outcome[None]:
    """Begin a rebalance, unless one has begun already; the members hear of it with their next heartbeats.

    A consumer, share or streams group gets a new group epoch, so that its target assignment is computed again. Raises
    GroupIdNotFound, and InvalidRequest for a group without members.
    """
    group = _group(groups, group_id)
    if not group.members:
        raise InvalidRequest(f"group {group_id} has no members: there is nothing to rebalance")
    if isinstance(group, ConsumerGroup):
        change = Change()
        names = topics_of(group.members.values(), group.resolved)
        raise_epoch(group, groups.consumer.metadata_hash(names), change)
        change.after.append(groups.consumer.metrics.count_rebalance)
        return change.outcome(None)
    if isinstance(group, ShareGroup):
        topics = [name for member in group.members.values() for name in member.topics]
        return Outcome([share_records.epoch(group_id, group.epoch + 1, groups.share.metadata_hash(topics))])
    if isinstance(group, StreamsGroup):
        return Outcome([streams_records.metadata(group_id, group.metadata_value(group.epoch + 1))])
    if group.state is GroupState.PREPARING_REBALANCE:
        return Outcome()
    return Outcome(effects=lambda _: groups.classic.rebalances.prepare(group, REASON))


def expire(groups: GroupDirectory, group_id: str, member: str | None) -> Outcome[list[str]]:
    """End the sessions of the members with that member id, client id or instance id (None: of all members).

    The answer has their member ids. Raises GroupIdNotFound, UnknownMemberId, and RebalanceInProgress for a member of a
    classic group that waits for an answer: it counts as alive, whatever its session.
    """
    group = _group(groups, group_id)
    found = members_named(group, member)
    if not found:
        there = ", ".join(f"{key} (client {known.client_id})" for key, known in group.members.items()) or "none"
        what = "no members" if member is None else f"no member {member}; its members: {there}"
        raise UnknownMemberId(f"group {group_id} has {what}")
    if isinstance(group, ClassicGroup):
        waiting = [member_id for member_id in found if group.members[member_id].is_waiting]
        if waiting:
            raise RebalanceInProgress(
                f"{', '.join(waiting)}: waits for the answer to a JoinGroup or SyncGroup, and counts as alive meanwhile"
            )
    context: CoordinatorContext[Any] = groups.classic.context
    waiter = context.waiter()

    def effects(_: KafkaError | None) -> None:
        for member_id in found:
            _end_session(groups, group, member_id)
        # What ends a session is a message, and may send another one, which records an empty group: answer after both.
        _after(context, partial(_after, context, lambda: waiter.answer(found)))

    return Outcome(reply=waiter, effects=effects)


def members_named(group: AnyGroup, member: str | None) -> list[str]:
    """The ids of the members that a member id, a client id or an instance id stands for; of all members for None."""
    if member is None or member in group.members:
        return list(group.members) if member is None else [member]
    by_instance = None if isinstance(group, ShareGroup) else group.static_ids.get(member)
    if by_instance is not None:
        return [by_instance]
    return [key for key, known in group.members.items() if known.client_id == member]


def _end_session(groups: GroupDirectory, group: AnyGroup, member_id: str) -> None:
    if isinstance(group, ConsumerGroup):
        timeouts = groups.consumer.timeouts
        groups.consumer.context.tell(lambda _: timeouts.expire_session(group.group_id, member_id))
    elif isinstance(group, StreamsGroup):
        streams = groups.streams.timeouts
        groups.streams.context.tell(lambda _: streams.expire_session(group.group_id, member_id))
    elif isinstance(group, ShareGroup):
        groups.share.context.tell(lambda _: groups.share.expire_session(group.group_id, member_id))
    else:
        groups.classic.sessions.expire(group, group.members[member_id])


def _after(context: CoordinatorContext[Any], then: Callable[[], None]) -> None:
    context.tell(lambda _: Outcome(effects=lambda _: then()))


def _group(groups: GroupDirectory, group_id: str) -> AnyGroup:
    """Raises GroupIdNotFound."""
    newer = groups.consumer.find(group_id) or groups.share.find(group_id) or groups.streams.find(group_id)
    group = newer or groups.classic.find(group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {group_id}")
    return group
