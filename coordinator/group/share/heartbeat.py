"""ShareGroupHeartbeat (KIP-932; Kafka's `GroupMetadataManager.shareGroupHeartbeat`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

import structlog

from coordinator.group.share import initialization, records
from coordinator.group.share.assignor import assign
from coordinator.group.share.group import NO_PARTITIONS, ShareGroup, ShareMember
from coordinator.group.share.groups import ShareGroups
from coordinator.group.share.messages import JOINING, LEFT, ShareHeartbeat, ShareHeartbeatAnswer
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.coordinator_records.record_schema import Partitions
from protocol.errors import FencedMemberEpoch, GroupIdNotFound, GroupMaxSizeReached, InvalidRequest, KafkaError

logger = structlog.get_logger(__name__)

LONGEST_MEMBER_ID = 36


def check_request(request: ShareHeartbeat) -> None:
    """Raises InvalidRequest if the request is wrong in itself."""
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise InvalidRequest  # without a text, as in Kafka
    if not request.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == JOINING and not request.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in the first request.")
    if request.member_epoch < LEFT:
        raise InvalidRequest(f"MemberEpoch is invalid: {request.member_epoch}.")


def heartbeat(groups: ShareGroups, request: ShareHeartbeat) -> Outcome[ShareHeartbeatAnswer]:
    """Handle a request that passes `check_request`; no group of another kind has its id. Raises KafkaErrors."""
    if request.member_epoch == LEFT:
        return leave(groups, request)
    group = groups.find(request.group_id)
    if group is None:
        if request.member_epoch != JOINING:
            raise GroupIdNotFound(f"Share group {request.group_id} not found.")
        group = ShareGroup(request.group_id)
    before = _member(groups, group, request)
    return _Heartbeat(groups, group, before, _updated(before, request)).outcome(request.topics is not None)


def leave(groups: ShareGroups, request: ShareHeartbeat) -> Outcome[ShareHeartbeatAnswer]:
    """Remove a member that says good-bye. Raises GroupIdNotFound, UnknownMemberId."""
    group = groups.get(request.group_id)
    member = group.member(request.member_id)
    answer = ShareHeartbeatAnswer(member.member_id, LEFT, 0)
    return _removal(groups, group, member)._replace(reply=answer)


def fence(groups: ShareGroups, group_id: str, member_id: str) -> Outcome[None] | None:
    """Remove a member whose session is over."""
    group = groups.find(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return None
    logger.info("member removed from the share group: its session expired", group=group_id, member=member_id)
    return _removal(groups, group, member)


def _removal(groups: ShareGroups, group: ShareGroup, member: ShareMember) -> Outcome[Any]:
    """The group epoch rises; the target follows with another member's heartbeat, if there is one."""
    group_id, member_id = group.group_id, member.member_id
    remaining = [one for one in group.members.values() if one is not member]
    written: list[CoordinatorRecord] = [*records.member_tombstones(group_id, member_id)]
    epoch = group.epoch + 1
    names = _names(group, remaining, groups)
    written.append(records.epoch(group_id, epoch, groups.metadata_hash(names)))
    if not remaining:
        written.append(records.target_epoch(group_id, epoch, groups.context.clock.wall_ms()))

    def effects(error: KafkaError | None) -> None:
        if error is None:
            groups.end_session(group_id, member_id)
        else:
            groups.end_session_later(group_id, member_id)

    return Outcome(written, None, effects)


def _member(groups: ShareGroups, group: ShareGroup, request: ShareHeartbeat) -> ShareMember:
    """The member before the request. Raises GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch."""
    known = group.members.get(request.member_id)
    if request.member_epoch == JOINING:
        if known is None and len(group.members) >= groups.config.max_size:
            raise GroupMaxSizeReached(
                f"The share group has reached its maximum capacity of {groups.config.max_size} members."
            )
        return known or ShareMember(request.member_id)
    member = group.member(request.member_id)
    if request.member_epoch not in (member.epoch, member.previous_epoch):
        raise FencedMemberEpoch(
            f"The member's epoch is {member.epoch}, the request's {request.member_epoch}: the member must abandon its "
            "partitions and rejoin."
        )
    return member


def _updated(member: ShareMember, request: ShareHeartbeat) -> ShareMember:
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if request.topics is None else tuple(sorted(set(request.topics))),
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _names(group: ShareGroup, members: Collection[ShareMember], groups: ShareGroups) -> frozenset[str]:
    """The topics of these members, without those that never existed."""
    return frozenset[str]().union(*group.existing(members, groups.topics).values())


class _Heartbeat:
    """What one heartbeat does to a group: a new epoch, a new target, the member's own step, each if it must be."""

    def __init__(self, groups: ShareGroups, group: ShareGroup, before: ShareMember, member: ShareMember) -> None:
        self._groups = groups
        self._group = group
        self._member = member
        self._before = before
        self._members = {**group.members, member.member_id: member}
        self._records: list[CoordinatorRecord] = []
        self._epoch = group.epoch

    def outcome(self, tells_topics: bool) -> Outcome[ShareHeartbeatAnswer]:
        """Whoever tells its topics gets its assignment in any case; others only what has changed."""
        groups, group, member = self._groups, self._group, self._member
        group_id = group.group_id
        is_new = member.member_id not in group.members
        if member != self._before or is_new:
            self._records.append(records.member(group_id, member))
        changed = is_new or member.topics != self._before.topics
        may_lack = changed or not group.is_fresh
        if may_lack:
            self._raise_epoch(changed)
        target = self._target()
        after = member
        if (member.epoch, member.assigned) != target:
            epoch, assigned = target
            previous = member.epoch if member.epoch != epoch else member.previous_epoch
            after = member._replace(epoch=epoch, previous_epoch=previous, assigned=assigned)
            self._records.append(records.current_assignment(group_id, after))
        may_lack = may_lack or bool(group.state.initializing)
        wanted = initialization.missing(groups, group, self._names) if may_lack else {}
        if wanted:
            self._records.append(initialization.begin(group, wanted))
        assigned_now = after.assigned if tells_topics or after.assigned != self._before.assigned else None
        interval_ms = groups.config.heartbeat_interval_of(group_id)
        epoch_now = self._epoch
        seen = groups.topics.version, group.state

        def effects(error: KafkaError | None) -> None:
            if error is not None:
                return
            groups.start_session(group_id, member.member_id)
            known = groups.find(group_id)
            if known is not None and may_lack:
                known.is_fresh = not wanted and seen == (groups.topics.version, known.state)
            if wanted:
                initialization.ask(groups, group_id, wanted, epoch_now)

        answer = ShareHeartbeatAnswer(member.member_id, after.epoch, interval_ms, assigned_now)
        return Outcome(self._records, answer, effects)

    @cached_property
    def _names(self) -> frozenset[str]:
        return _names(self._group, self._members.values(), self._groups)

    def _raise_epoch(self, changed: bool) -> None:
        metadata_hash = self._groups.metadata_hash(self._names)
        if changed or metadata_hash != self._group.metadata_hash or self._is_assignable_new():
            self._epoch += 1
            self._records.append(records.epoch(self._group.group_id, self._epoch, metadata_hash))

    def _is_assignable_new(self) -> bool:
        """Whether the target lacks partitions that may be assigned now, or has some that may not."""
        assignable = {(topic, index) for topic, indexes in self._assignable().items() for index in indexes}
        covered = {
            (topic, index)
            for partitions in self._group.target.values()
            for topic, indexes in partitions.items()
            for index in indexes
        }
        return self._group.epoch == self._group.assignment_epoch and assignable != covered

    def _assignable(self) -> Mapping[UUID, list[int]]:
        """The partitions of subscribed topics that exist and have a state."""
        found = {}
        for topic_id, known in self._group.initialized().items():
            topic = self._groups.topics.by_id(topic_id)
            if topic is not None and topic.name in self._names:
                found[topic_id] = sorted(index for index in known.partitions if index < topic.partition_count)
        return found

    def _target(self) -> tuple[int, Partitions]:
        """The epoch and the partitions that the member has after this; a new target if it is time for one."""
        group, member_id = self._group, self._member.member_id
        now_ms = self._groups.context.clock.wall_ms()
        interval_ms = self._groups.config.assignment_interval_of(group.group_id)
        may = not group.members or not group.assignment_epoch or now_ms - group.assigned_ms >= interval_ms
        if self._epoch == group.assignment_epoch or not may:
            return group.assignment_epoch, group.target.get(member_id, NO_PARTITIONS)
        partitions = self._assignable()
        ids = {self._name(topic_id): topic_id for topic_id in partitions}
        existing = group.existing(self._members.values(), self._groups.topics)
        subscriptions = {key: [ids[name] for name in sorted(names) if name in ids] for key, names in existing.items()}
        own = set(self._member.topics)
        homogeneous = all(
            len(each.topics) == len(own) and own.issuperset(each.topics) for each in self._members.values()
        )
        assigned = assign(subscriptions, partitions, group.target, homogeneous=homogeneous)
        for key, found in assigned.items():
            if found != group.target.get(key):
                self._records.append(records.target(group.group_id, key, found))
        self._records.append(records.target_epoch(group.group_id, self._epoch, now_ms))
        return self._epoch, assigned[member_id]

    def _name(self, topic_id: UUID) -> str:
        topic = self._groups.topics.by_id(topic_id)
        return "" if topic is None else topic.name
