"""The "range" assignor (Kafka's RangeAssignor): each subscriber of a topic gets a range of its partitions, in order.

Topics with equal numbers of partitions and subscribers are split alike, so a member has the same partitions of each.
Former assignments do not matter: members keep theirs only as long as their place in the order stays the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec, PartitionAssignorError


def assign(spec: GroupSpec) -> dict[str, Partitions]:
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
