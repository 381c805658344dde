"""The server-side assignors of KIP-848: which member gets which partitions, keeping as many of its own as possible.

"range" (Kafka's RangeAssignor): each subscriber of a topic gets a range of its partitions, in order. Topics with equal
numbers of partitions and subscribers are split alike, so a member has the same partitions of each. Former assignments
do not matter: members keep theirs only as long as their place in the order stays the same.

"uniform" (Kafka's UniformAssignor): shares differ by one partition, where subscriptions allow it. Where all members
subscribe to the same topics (UniformHomogeneousAssignmentBuilder), each member's quota is the number of partitions
divided by the number of members. If there is a remainder, so many members get one partition more. Members keep what
fits their quota and give up the rest; unowned partitions go to the members with room, in order. For other members
(UniformHeterogeneousAssignmentBuilder) shares are as even as possible: members keep what they still subscribe to;
unowned partitions go, topic by topic, to the subscribers with the fewest partitions; then, again topic by topic,
partitions move from subscribers with many to those with few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.group import NO_PARTITIONS
from protocol.coordinator_records.record_schema import Partitions
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


def _partition_count(spec: GroupSpec, topic: UUID) -> int:
    count = spec.partition_counts.get(topic)
    if count is None:
        raise PartitionAssignorError(
            f"Members are subscribed to topic {to_text(topic)} which doesn't exist in the topic metadata."
        )
    return count


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
    topics = next(iter(spec.members.values())).topics
    if not topics:
        return dict.fromkeys(spec.members, NO_PARTITIONS)
    free = [(topic, partition) for topic in topics for partition in _unowned(spec, topic)]
    drafts, unfilled = _revoke(spec, topics, free)
    _hand_out(spec, free, unfilled, drafts)
    return {
        member_id: drafts[member_id].partitions() if member_id in drafts else member.assigned
        for member_id, member in spec.members.items()
    }


def _unowned(spec: GroupSpec, topic: UUID) -> list[int]:
    owners = spec.owners.get(topic, {})
    return [partition for partition in range(_partition_count(spec, topic)) if partition not in owners]


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


# -- uniform, for members with different subscriptions

_ROUNDS = 16
"""The most rounds of balancing over all topics; overlapping subscriptions may need many rounds for small gains."""
_NOBODY = -1


def assign_heterogeneous(spec: GroupSpec) -> dict[str, Partitions]:
    """Every member's partitions by member id. Raises PartitionAssignorError."""
    topics = _topics(spec)
    if not topics:
        return dict.fromkeys(spec.members, NO_PARTITIONS)
    work = _Work(spec, topics)
    work.revoke()
    in_order = sorted(topics.values(), key=_Topic.rank)
    for topic in in_order:
        work.hand_out(topic)
    _balance(work, [topic for topic in in_order if len(topic.subscribers) > 1])
    return work.partitions()


@dataclass(frozen=True, slots=True)
class _Topic:
    """`subscribers` are members' numbers in ascending order; `owners` has each partition's owner, or _NOBODY."""

    id: UUID
    owners: list[int]
    subscribers: list[int] = field(default_factory=list)

    def rank(self) -> tuple[float, int, UUID]:
        """Sort key: many partitions per subscriber first, then few subscribers, then by id."""
        return -len(self.owners) / len(self.subscribers), len(self.subscribers), self.id


def _topics(spec: GroupSpec) -> dict[UUID, _Topic]:
    topics: dict[UUID, _Topic] = {}
    for number, member in enumerate(spec.members.values()):
        for topic_id in member.topics:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = _Topic(topic_id, [_NOBODY] * _partition_count(spec, topic_id))
            topic.subscribers.append(number)
    return topics


def _balance(work: _Work, topics: list[_Topic]) -> None:
    """Move partitions until a full round over the topics moves none, or `_ROUNDS` are over."""
    last = None
    for _ in range(_ROUNDS):
        for topic in topics:
            if topic is last:
                return
            if work.balance(topic) or last is None:
                last = topic


class _Work:
    """The assignment while it is being built. Members are numbered in the group's order."""

    def __init__(self, spec: GroupSpec, topics: dict[UUID, _Topic]) -> None:
        self._members = list(spec.members.values())
        self._member_ids = list(spec.members)
        self._topics = topics
        self._sizes = [0] * len(self._members)
        self._drafts: list[Draft | None] = [None] * len(self._members)

    def revoke(self) -> None:
        """Take from members the partitions of topics that they do not subscribe to.

        Raises PartitionAssignorError for a partition that does not exist: a converted classic group may bring one.
        """
        for number, member in enumerate(self._members):
            subscribed = frozenset(member.topics)
            for topic_id, partitions in member.assigned.items():
                if topic_id in subscribed:
                    self._sizes[number] += len(partitions)
                    owners = self._topics[topic_id].owners
                    for partition in partitions:
                        if not 0 <= partition < len(owners):
                            raise PartitionAssignorError(
                                f"Member {self._member_ids[number]} has partition {partition} of topic "
                                f"{to_text(topic_id)}, which does not exist."
                            )
                        owners[partition] = number
                else:
                    self._draft(number).remove_topic(topic_id)

    def hand_out(self, topic: _Topic) -> None:
        """Give unowned partitions to the subscribers with the fewest."""
        takers = self._by_size(topic)
        for partition, owner in enumerate(topic.owners):
            if owner == _NOBODY:
                self._give(topic, partition, takers)

    def balance(self, topic: _Topic) -> bool:
        """Move partitions from subscribers with many to those with few; return whether any moved."""
        takers = self._by_size(topic)
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(topic.owners):
            owned.setdefault(owner, []).append(partition)
        givers = [(-size, -place, number) for size, place, number in takers if number in owned]
        heapify(givers)
        moved = False
        while givers:
            _, place, giver = givers[0]
            if self._sizes[giver] - takers[0][0] <= 1:
                break
            partition = owned[giver].pop()
            self._draft(giver).remove(topic.id, partition)
            self._sizes[giver] -= 1
            if owned[giver]:
                heapreplace(givers, (-self._sizes[giver], place, giver))
            else:
                heappop(givers)
            self._give(topic, partition, takers)
            moved = True
        return moved

    def partitions(self) -> dict[str, Partitions]:
        return {
            member_id: member.assigned if draft is None else draft.partitions()
            for member_id, member, draft in zip(self._member_ids, self._members, self._drafts, strict=True)
        }

    def _by_size(self, topic: _Topic) -> list[tuple[int, int, int]]:
        """The subscribers as a heap: the number of partitions, a place among equals, the member."""
        members = sorted(topic.subscribers, key=self._sizes.__getitem__)
        return [(self._sizes[number], place, number) for place, number in enumerate(members)]

    def _give(self, topic: _Topic, partition: int, takers: list[tuple[int, int, int]]) -> None:
        """Give a partition to the member with the fewest."""
        size, place, number = takers[0]
        heapreplace(takers, (size + 1, place, number))
        self._draft(number).add(topic.id, partition)
        topic.owners[partition] = number
        self._sizes[number] += 1

    def _draft(self, number: int) -> Draft:
        draft = self._drafts[number]
        if draft is None:
            draft = self._drafts[number] = Draft(self._members[number].assigned)
        return draft


def assign_uniform(spec: GroupSpec) -> dict[str, Partitions]:
    """Every member's partitions by member id. Raises PartitionAssignorError."""
    if not spec.members:
        return {}
    return assign_homogeneous(spec) if spec.homogeneous else assign_heterogeneous(spec)


ASSIGNORS: Mapping[str, Assign] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""By the names that members ask for; the first is the default (group.consumer.assignors)."""
