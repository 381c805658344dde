"""Shares as even as possible for members with different subscriptions (Kafka's UniformHeterogeneousAssignmentBuilder).

Members keep what they still subscribe to; unowned partitions go, topic by topic, to the subscribers with the fewest
partitions; then, again topic by topic, partitions move from subscribers with many to those with few. `LeastLoaded` and
`MostLoaded` (the halves of Kafka's MemberAssignmentBalancer) say which member gets the next partition of a topic, and
which gives one away. Members are numbers, and `sizes` holds each member's number of partitions; whoever moves a
partition updates it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from coordinator.group.consumer.assignors import Draft, GroupSpec, PartitionAssignorError
from coordinator.group.consumer.member import NO_PARTITIONS
from protocol.coordinator_records.consumer_group_records import Partitions
from protocol.uuids import to_text

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
                partitions = spec.partition_counts.get(topic_id)
                if partitions is None:
                    raise PartitionAssignorError(
                        f"Members are subscribed to topic {to_text(topic_id)} "
                        "which doesn't exist in the topic metadata."
                    )
                topic = topics[topic_id] = _Topic(topic_id, [_NOBODY] * partitions)
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
        least = LeastLoaded(self._by_size(topic), self._sizes)
        for partition, owner in enumerate(topic.owners):
            if owner == _NOBODY:
                self._give(topic, partition, least.next())

    def balance(self, topic: _Topic) -> bool:
        """Move partitions from subscribers with many to those with few; return whether any moved."""
        members = self._by_size(topic)
        if self._sizes[members[-1]] - self._sizes[members[0]] <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(topic.owners):
            owned.setdefault(owner, []).append(partition)
        least, most = LeastLoaded(members, self._sizes), MostLoaded(members, self._sizes)
        moved = False
        while (giver := most.next_owner(owned)) is not None:
            taker = least.next()
            if most.level - least.level <= 1:
                break
            partition = owned[giver].pop()
            self._draft(giver).remove(topic.id, partition)
            self._sizes[giver] -= 1
            self._give(topic, partition, taker)
            moved = True
        return moved

    def partitions(self) -> dict[str, Partitions]:
        return {
            member_id: member.assigned if draft is None else draft.partitions()
            for member_id, member, draft in zip(self._member_ids, self._members, self._drafts, strict=True)
        }

    def _by_size(self, topic: _Topic) -> list[int]:
        return sorted(topic.subscribers, key=self._sizes.__getitem__)

    def _give(self, topic: _Topic, partition: int, number: int) -> None:
        self._draft(number).add(topic.id, partition)
        topic.owners[partition] = number
        self._sizes[number] += 1

    def _draft(self, number: int) -> Draft:
        draft = self._drafts[number]
        if draft is None:
            draft = self._drafts[number] = Draft(self._members[number].assigned)
        return draft


class LeastLoaded:
    """Cycles through the members with the fewest partitions; once each got one, members with as many join them."""

    __slots__ = ("_end", "_members", "_sizes", "_turn", "level")

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        """`members`, at least one, are in ascending order of their number of partitions."""
        self.level = sizes[members[0]] - 1
        """The number of partitions that each member had when this round began."""
        self._members = members
        self._sizes = sizes
        self._end = 0
        self._turn = 0

    def next(self) -> int:
        """The member that gets the next partition."""
        if self._turn == self._end:
            self.level += 1
            while self._end < len(self._members) and self._sizes[self._members[self._end]] == self.level:
                self._end += 1
            self._turn = 0
        self._turn += 1
        return self._members[self._turn - 1]


class MostLoaded:
    """Cycles through the members with the most partitions; once each gave one, members with as many join them."""

    __slots__ = ("_giving", "_others", "_sizes", "_turn", "level")

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        """`members`, at least one, are in ascending order of their number of partitions."""
        self.level = sizes[members[-1]] + 1
        """The number of partitions that each member had when this round began."""
        self._others = list(members)
        self._sizes = sizes
        self._giving: list[int] = []
        self._turn = 0

    def next_owner(self, owned: Mapping[int, Collection[int]]) -> int | None:
        """The member to give the next partition, among those that own any; None if none does."""
        while True:
            if self._turn == len(self._giving):
                self._next_round()
            if not self._giving:
                return None
            member = self._giving[self._turn]
            if owned.get(member):
                self._turn += 1
                return member
            self._exclude()

    def _next_round(self) -> None:
        self.level = self.level - 1 if self._giving or not self._others else self._sizes[self._others[-1]]
        while self._others and self._sizes[self._others[-1]] == self.level:
            self._giving.append(self._others.pop())
        self._turn = 0

    def _exclude(self) -> None:
        """Drop the member whose turn it is; the first of the round takes its place, which affects later rounds."""
        self._giving[self._turn] = self._giving[0]
        del self._giving[0]
