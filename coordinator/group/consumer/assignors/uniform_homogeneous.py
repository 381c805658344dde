"""Even shares for members that all subscribe to the same topics (Kafka's UniformHomogeneousAssignmentBuilder).

Each member's quota is the number of partitions divided by the number of members. If there is a remainder, so many
members get one partition more. Members keep what fits their quota and give up the rest; unowned partitions go to the
members with room, in order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from uuid import UUID

from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.assignors.draft import Draft
from coordinator.group.consumer.assignors.spec import GroupSpec, PartitionAssignorError
from protocol.uuids import to_text


def assign(spec: GroupSpec) -> dict[str, Partitions]:
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
