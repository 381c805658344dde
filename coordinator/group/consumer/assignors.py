"""The server-side assignors of KIP-848: which member gets which partitions, keeping as many of its own as possible.

"range" (Kafka's RangeAssignor): each subscriber of a topic gets a range of its partitions, in order. Topics with equal
numbers of partitions and subscribers are split alike, so a member has the same partitions of each. Former assignments
do not matter: members keep theirs only as long as their place in the order stays the same.

"uniform" (Kafka's UniformAssignor): shares differ by one partition, where subscriptions allow it. Here is what it does
for members that all subscribe to the same topics (UniformHomogeneousAssignmentBuilder); for others there is
`uniform_heterogeneous.py`. Each member's quota is the number of partitions divided by the number of members. If there
is a remainder, so many members get one partition more. Members keep what fits their quota and give up the rest; unowned
partitions go to the members with room, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.member import NO_PARTITIONS
from protocol.coordinator_records.consumer_group_records import Partitions
from protocol.uuids import to_text

Assign = Callable[["GroupSpec"], Mapping[str, Partitions]]
"""Every member's partitions by member id. Raises PartitionAssignorError."""


class PartitionAssignorError(Exception):
    """The group cannot be assigned; the text says why (Kafka's PartitionAssignorException)."""


class MemberSpec(NamedTuple):
    """A member: the existing topics that it subscribes to, by name, and its part of the current target assignment."""

    instance_id: str | None
    topics: tuple[UUID, ...]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group.

    `members` are in the order of their ids. `homogeneous`: all subscribe to the same topics. `owners`: by topic id and
    partition index, the member that has it in the current target assignment. `partition_counts`: for every existing
    topic with subscribers.
    """

    members: Mapping[str, MemberSpec]
    homogeneous: bool
    owners: Mapping[UUID, Mapping[int, str]]
    partition_counts: Mapping[UUID, int]


class Draft:
    """A copy of a member's partitions that can be changed."""

    __slots__ = ("_indexes",)

    def __init__(self, partitions: Partitions) -> None:
        self._indexes = {topic: set(indexes) for topic, indexes in partitions.items()}

    def add(self, topic: UUID, partition: int) -> None:
        self._indexes.setdefault(topic, set()).add(partition)

    def remove(self, topic: UUID, partition: int) -> None:
        """No effect if the member does not have the partition."""
        indexes = self._indexes.get(topic)
        if indexes is not None:
            indexes.discard(partition)
            if not indexes:
                del self._indexes[topic]

    def remove_topic(self, topic: UUID) -> None:
        del self._indexes[topic]

    def partitions(self) -> Partitions:
        return {topic: frozenset(indexes) for topic, indexes in self._indexes.items()}


# -- range


def assign_range(spec: GroupSpec) -> dict[str, Partitions]:
    """Every member's partitions by member id. Raises PartitionAssignorError."""
    members = sorted(spec.members.items(), key=_place)
    subscribers = Counter(topic for _, member in members for topic in member.topics)
    rows = {topic: _rows(_partition_count(spec, topic), count) for topic, count in subscribers.items()}
    return {member_id: _next_rows(member, rows) for member_id, member in members}


def _place(named: tuple[str, MemberSpec]) -> tuple[bool, str]:
    """A sort key: static members first, by instance id, then the others by member id."""
    member_id, member = named
    return member.instance_id is None, member_id if member.instance_id is None else member.instance_id


def _partition_count(spec: GroupSpec, topic: UUID) -> int:
    count = spec.partition_counts.get(topic)
    if count is None:
        raise PartitionAssignorError("Member is subscribed to a non-existent topic")
    return count


def _rows(partitions: int, members: int) -> Iterator[frozenset[int]]:
    """One range per member; the first ones have one partition more if the division leaves a remainder."""
    smaller, longer_rows = divmod(partitions, members)
    start = 0
    for member in range(members):
        end = start + smaller + (member < longer_rows)
        yield frozenset(range(start, end))
        start = end


def _next_rows(member: MemberSpec, rows: dict[UUID, Iterator[frozenset[int]]]) -> Partitions:
    return {topic: row for topic in member.topics if (row := next(rows[topic]))}


# -- uniform, for members with the same subscription


def assign_homogeneous(spec: GroupSpec) -> dict[str, Partitions]:
    """Every member's partitions by member id. Raises PartitionAssignorError."""
    topics = _topics(spec)
    if not topics:
        return dict.fromkeys(spec.members, NO_PARTITIONS)
    free = [(topic, partition) for topic in topics for partition in _unowned(spec, topic)]
    drafts, unfilled = _revoke(spec, topics, free)
    _hand_out(spec, free, unfilled, drafts)
    return {
        member_id: drafts[member_id].partitions() if member_id in drafts else member.assigned
        for member_id, member in spec.members.items()
    }


def _topics(spec: GroupSpec) -> Sequence[UUID]:
    """The topics that members subscribe to. Raises PartitionAssignorError if one does not exist."""
    topics = next(iter(spec.members.values())).topics
    for topic in topics:
        if topic not in spec.partition_counts:
            raise PartitionAssignorError(
                f"Members are subscribed to topic {to_text(topic)} which doesn't exist in the topic metadata."
            )
    return topics


def _unowned(spec: GroupSpec, topic: UUID) -> list[int]:
    owners = spec.owners.get(topic, {})
    return [partition for partition in range(spec.partition_counts[topic]) if partition not in owners]


def _revoke(
    spec: GroupSpec, topics: Collection[UUID], free: list[tuple[UUID, int]]
) -> tuple[dict[str, Draft], dict[str, int]]:
    """Take from members what they may not keep and add it to `free`.

    Returns the changed members' drafts, and the room of each member that is below its quota. One place above the
    smaller quota is offered to each member in turn as long as such places are left; a member that does not need it
    leaves it to those after it, unless there are too few of them to take all places.
    """
    smaller, extra = divmod(sum(spec.partition_counts[topic] for topic in topics), len(spec.members))
    subscribed = frozenset(topics)
    drafts: dict[str, Draft] = {}
    unfilled: dict[str, int] = {}
    members_left = len(spec.members)
    for member_id, member in spec.members.items():
        offered = extra > 0
        room, lost = _keep(member.assigned, subscribed, smaller + offered)
        if lost:
            drafts[member_id] = _without(member.assigned, lost, subscribed)
            free += [(topic, partition) for topic in lost if topic in subscribed for partition in lost[topic]]
        if room > 0 and offered and members_left > extra:
            room -= 1
            offered = False
        if room > 0:
            unfilled[member_id] = room
        extra -= offered
        members_left -= 1
    return drafts, unfilled


def _keep(assigned: Partitions, subscribed: Collection[UUID], quota: int) -> tuple[int, dict[UUID, Collection[int]]]:
    """Keep what fits; return what is left of the quota, and the partitions by topic that the member loses."""
    lost: dict[UUID, Collection[int]] = {}
    for topic, partitions in assigned.items():
        if topic not in subscribed:
            lost[topic] = partitions
        elif len(partitions) <= quota:
            quota -= len(partitions)
        else:
            lost[topic] = sorted(partitions)[quota:]
            quota = 0
    return quota, lost


def _without(assigned: Partitions, lost: dict[UUID, Collection[int]], subscribed: Collection[UUID]) -> Draft:
    draft = Draft(assigned)
    for topic, partitions in lost.items():
        if topic not in subscribed:
            draft.remove_topic(topic)
            continue
        for partition in partitions:
            draft.remove(topic, partition)
    return draft


def _hand_out(
    spec: GroupSpec, free: list[tuple[UUID, int]], unfilled: dict[str, int], drafts: dict[str, Draft]
) -> None:
    left = iter(free)
    for member_id, room in unfilled.items():
        if member_id not in drafts:
            drafts[member_id] = Draft(spec.members[member_id].assigned)
        for topic, partition in islice(left, room):
            drafts[member_id].add(topic, partition)
    if next(left, None) is not None:
        raise PartitionAssignorError("Partitions were left unassigned")
