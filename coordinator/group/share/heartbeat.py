"""ShareGroupHeartbeat (KIP-932; Kafka's `GroupMetadataManager.shareGroupHeartbeat`), and who shares which partitions.

A partition may be assigned to several members, so a member goes to its target at once. A topic is assigned once the
share coordinator has made a state for its partitions (`partition_states.py`).

Members that all subscribe to the same topics share their partitions as one list; otherwise each topic is shared by
itself among those that subscribe to it. The contract for such a list: each partition has as many members as any other,
the fewest with which every member has something; the numbers of partitions of two members differ by at most one; and a
member keeps what it has where that allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import structlog

from coordinator.group.modern.group import JOINING, LEFT
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import (
    Change,
    check_epoch,
    check_room,
    check_text,
    joining_member,
    raise_epoch,
    remove,
    target_of,
)
from coordinator.group.share import partition_states
from coordinator.group.share.group import ShareGroup, ShareMember
from coordinator.runtime.outcome import Outcome
from protocol.coordinator_records.record_schema import Partitions
from protocol.errors import GroupIdNotFound, InvalidRequest

logger = structlog.get_logger(__name__)

LONGEST_MEMBER_ID = 36


class ShareHeartbeat(NamedTuple):
    """A request; `topics` is None if the subscription has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    client_id: str
    client_host: str


class ShareHeartbeatAnswer(NamedTuple):
    """An answer; `assigned` is None if it is what the member knows."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Partitions | None = None


def check_request(request: ShareHeartbeat) -> None:
    """Raises InvalidRequest if the request is wrong in itself."""
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise InvalidRequest  # without a text, as in Kafka
    check_text(request.group_id, "GroupId")
    check_text(request.rack_id, "RackId")
    if request.member_epoch == JOINING and not request.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in the first request.")
    if request.member_epoch < LEFT:
        raise InvalidRequest(f"MemberEpoch is invalid: {request.member_epoch}.")


def share_group_heartbeat(groups: ModernGroups, request: ShareHeartbeat) -> Outcome[ShareHeartbeatAnswer]:
    """Handle a request that passes `check_request`. Raises KafkaErrors."""
    if request.member_epoch == LEFT:
        group = groups.get(ShareGroup, request.group_id)
        member = group.member(request.member_id)
        logger.info("member left the share group", group=group.group_id, member=member.member_id)
        return remove(groups, group, [member]).outcome(ShareHeartbeatAnswer(member.member_id, LEFT, 0))
    known = groups.find_only(ShareGroup, request.group_id)
    if known is None and request.member_epoch != JOINING:
        raise GroupIdNotFound(f"Share group {request.group_id} not found.")
    return _advance(groups, known or ShareGroup(request.group_id), request)


def _advance(groups: ModernGroups, group: ShareGroup, request: ShareHeartbeat) -> Outcome[ShareHeartbeatAnswer]:
    """A new group epoch, a new target, the member's own step, each if it must be.

    Whoever tells its topics gets its assignment in any case; others only what has changed.
    """
    change = Change()
    before = _member(groups, group, request, change)
    member = _updated(before, request)
    is_new = member.member_id not in group.members
    if member != before or is_new:
        change.records.append(group.member_record(member))
    members = group.members_with(member)
    has_changed = is_new or member.topics != before.topics
    looks_again = has_changed or not group.is_fresh
    names = frozenset[str]()
    if looks_again or group.state.initializing:
        names = group.topics_of(members.values(), groups.topics)
    if looks_again:
        _raise_epoch(groups, group, names, has_changed, change)
    target_epoch, target = target_of(
        groups, group, member, lambda members: _make_target(groups, group, members), change
    )
    after = member
    if (member.epoch, member.assigned) != (target_epoch, target):
        previous = member.epoch if member.epoch != target_epoch else member.previous_epoch
        after = member._replace(epoch=target_epoch, previous_epoch=previous, assigned=target)
        change.records.append(group.assignment_record(after))
    if looks_again or group.state.initializing:
        partition_states.initialize(groups, group, names, change)
    change.after.append(lambda: groups.start_session(group, after))
    tells = request.topics is not None or after.assigned != before.assigned
    interval_ms = groups.services.share.heartbeat_interval_of(group.group_id)
    answer = ShareHeartbeatAnswer(after.member_id, after.epoch, interval_ms, after.assigned if tells else None)
    return change.outcome(answer)


def _member(groups: ModernGroups, group: ShareGroup, request: ShareHeartbeat, change: Change) -> ShareMember:
    """The member before the request. Raises GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch."""
    if request.member_epoch == JOINING:
        check_room(group, request.member_id, None, groups.services.share.max_size)
        return joining_member(group, request.member_id, None, change)
    member = group.member(request.member_id)
    check_epoch(group, member, request.member_epoch, may_be_late=True)
    return member


def _updated(member: ShareMember, request: ShareHeartbeat) -> ShareMember:
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if request.topics is None else tuple(sorted(set(request.topics))),
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _raise_epoch(
    groups: ModernGroups, group: ShareGroup, names: frozenset[str], has_changed: bool, change: Change
) -> None:
    """Raise the group epoch if subscriptions or topics have changed, or which partitions may be assigned."""
    metadata_hash = groups.metadata_hash(names)
    if has_changed or metadata_hash != group.metadata_hash or _lacks_partitions(groups, group, names):
        raise_epoch(group, metadata_hash, change)


def _lacks_partitions(groups: ModernGroups, group: ShareGroup, names: frozenset[str]) -> bool:
    """Whether the target lacks partitions that may be assigned now, or has some that may not."""
    if group.epoch != group.assignment_epoch:
        return False
    covered: dict[UUID, set[int]] = {}
    for partitions in group.target.values():
        for topic_id, indexes in partitions.items():
            covered.setdefault(topic_id, set()).update(indexes)
    return covered != {
        topic_id: set(indexes) for topic_id, indexes in _assignable(groups, group, names).items() if indexes
    }


def _assignable(groups: ModernGroups, group: ShareGroup, names: frozenset[str]) -> dict[UUID, list[int]]:
    """The partitions of subscribed topics that exist and have a state."""
    assignable = {}
    for topic_id, known in group.state.initialized.items():
        topic = groups.topics.by_id(topic_id)
        if topic is not None and topic.name in names:
            assignable[topic_id] = sorted(index for index in known.partitions if index < topic.partition_count)
    return assignable


def _make_target(
    groups: ModernGroups, group: ShareGroup, members: Mapping[str, ShareMember]
) -> Mapping[str, Partitions]:
    existing = group.existing(members.values(), groups.topics)
    partitions = _assignable(groups, group, frozenset[str]().union(*existing.values()))
    images = [image for image in map(groups.topics.by_id, partitions) if image is not None]
    ids = {image.name: image.id for image in images}
    subscriptions = {key: [ids[name] for name in sorted(names) if name in ids] for key, names in existing.items()}
    own = set(next(iter(members.values())).topics)
    homogeneous = all(len(each.topics) == len(own) and own.issuperset(each.topics) for each in members.values())
    return assign(subscriptions, partitions, group.target, homogeneous=homogeneous)


# -- the assignor `simple` (KIP-932; Kafka's `SimpleAssignor`): who shares which partitions

TopicPartition = tuple[UUID, int]


def assign(
    subscriptions: Mapping[str, Sequence[UUID]],
    partitions: Mapping[UUID, Sequence[int]],
    present: Mapping[str, Partitions],
    *,
    homogeneous: bool,
) -> dict[str, Partitions]:
    """The partitions of each member, by member id.

    `subscriptions` are the topics of each member, `partitions` those that may be assigned, `present` what members have.
    `homogeneous`: all subscribe to the same names, also those of no topic.
    """
    topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
    chosen: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    for shared in [topics] if homogeneous else [[topic] for topic in topics]:
        members = sorted(member for member, wanted in subscriptions.items() if not set(shared).isdisjoint(wanted))
        wanted = [(topic, index) for topic in shared for index in partitions.get(topic, ())]
        if members and wanted:
            for member, found in _Sharing(members, wanted, present).result().items():
                chosen[member] |= found
    return {member: _by_topic(found) for member, found in chosen.items()}


class _Sharing:
    """Some partitions, and the members that share them all: `longer` of them have one more than `least`."""

    def __init__(
        self, members: Sequence[str], wanted: Sequence[TopicPartition], present: Mapping[str, Partitions]
    ) -> None:
        self._copies = -(-len(members) // len(wanted))
        self._chosen = {member: _had(present.get(member, {}), wanted) for member in members}
        self._owners: dict[TopicPartition, set[str]] = {
            partition: {member for member in members if partition in self._chosen[member]} for partition in wanted
        }
        self._least, self._longer = divmod(self._copies * len(wanted), len(members))

    def result(self) -> Mapping[str, set[TopicPartition]]:
        for partition in self._owners:
            self._take_from_owners(partition)
        by_count = sorted(self._chosen, key=self._count, reverse=True)
        for number, member in enumerate(by_count):
            self._take_from_member(member, self._least + (number < self._longer))
        for partition in self._owners:
            while len(self._owners[partition]) < self._copies:
                self._give(partition)
        return self._chosen

    def _take_from_owners(self, partition: TopicPartition) -> None:
        """Take a partition from those that have it beyond its number of members, first from who has too many."""
        owners = sorted(self._owners[partition], key=lambda member: (-self._count(member), member))
        for member in owners[: max(0, len(owners) - self._copies)]:
            self._move(partition, member, None)

    def _take_from_member(self, member: str, most: int) -> None:
        """Take what a member has beyond so many, first what others have too."""
        found = sorted(self._chosen[member], key=lambda partition: (-len(self._owners[partition]), partition))
        for partition in found[: max(0, len(found) - most)]:
            self._move(partition, member, None)

    def _give(self, partition: TopicPartition) -> None:
        """Give a partition to the member that has the least.

        If only those that have this partition may have one more, another member gets it, and one of them something of
        what that member has.
        """
        taker = min((member for member in self._chosen if partition not in self._chosen[member]), key=self._count)
        longer = sum(len(found) > self._least for found in self._chosen.values())
        if self._count(taker) >= self._least + (longer < self._longer):
            shortest = min(self._chosen, key=self._count)
            self._move(min(self._chosen[taker] - self._chosen[shortest]), taker, shortest)
        self._move(partition, None, taker)

    def _count(self, member: str) -> int:
        return len(self._chosen[member])

    def _move(self, partition: TopicPartition, giver: str | None, taker: str | None) -> None:
        if giver is not None:
            self._chosen[giver].remove(partition)
            self._owners[partition].remove(giver)
        if taker is not None:
            self._chosen[taker].add(partition)
            self._owners[partition].add(taker)


def _had(present: Partitions, wanted: Sequence[TopicPartition]) -> set[TopicPartition]:
    return {(topic, index) for topic, index in wanted if index in present.get(topic, ())}


def _by_topic(chosen: set[TopicPartition]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic, index in sorted(chosen):
        found.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in found.items()}
