"""Shares as even as possible for members with different subscriptions (Kafka's UniformHeterogeneousAssignmentBuilder).

Members keep what they still subscribe to; unowned partitions go, topic by topic, to the subscribers with the fewest
partitions; then, again topic by topic, partitions move from subscribers with many to those with few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
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
