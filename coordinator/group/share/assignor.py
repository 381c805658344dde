"""The assignor `simple` (KIP-932; Kafka's `SimpleAssignor`): who shares which partitions.

Members that all subscribe to the same topics share their partitions as one list; otherwise each topic is shared by
itself among those that subscribe to it. The contract for such a list: each partition has as many members as any other,
the fewest with which every member has something; the numbers of partitions of two members differ by at most one; and a
member keeps what it has where that allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from protocol.coordinator_records.record_schema import Partitions

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
