"""The assignor `simple` (KIP-932; Kafka's `SimpleAssignor`): who shares which partitions.

The contract: every partition of a topic has a member if anybody subscribes to the topic; every member has a partition
if its topics have any; the numbers of partitions of members with the same subscription, and the numbers of members of
the partitions, differ by at most one where that is possible; and a member keeps what it has where that allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from protocol.coordinator_records.consumer_group_values import Partitions

TopicPartition = tuple[UUID, int]


def assign(
    subscriptions: Mapping[str, Sequence[UUID]],
    partitions: Mapping[UUID, Sequence[int]],
    present: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """The partitions of each member, by member id.

    `subscriptions` are the topics of each member, `partitions` those that may be assigned, `present` what members have.
    """
    chosen: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    by_topics: dict[tuple[UUID, ...], list[str]] = {}
    for member, topics in sorted(subscriptions.items()):
        by_topics.setdefault(tuple(sorted(topics)), []).append(member)
    owners: dict[TopicPartition, int] = {}
    for topics, members in by_topics.items():
        wanted = [(topic, index) for topic in topics for index in partitions.get(topic, ())]
        _spread(members, wanted, present, chosen, owners)
    return {member: _by_topic(found) for member, found in chosen.items()}


def _spread(
    members: Sequence[str],
    wanted: Sequence[TopicPartition],
    present: Mapping[str, Partitions],
    chosen: Mapping[str, set[TopicPartition]],
    owners: dict[TopicPartition, int],
) -> None:
    """Spread partitions over members with one subscription; `owners` counts the members of each partition so far."""
    if not wanted:
        return
    places = max(len(wanted), len(members))
    most_of_member = -(-len(wanted) // len(members)) if len(wanted) > len(members) else 1
    most_of_partition = -(-places // len(wanted))
    here = dict.fromkeys(wanted, 0)
    for member in members:
        for one in wanted:
            topic, index = one
            keeps = index in present.get(member, {}).get(topic, ())
            if keeps and len(chosen[member]) < most_of_member and here[one] < most_of_partition:
                _give(member, one, chosen, here, owners)
    if len(members) > len(wanted):
        for member in members:
            if not chosen[member]:
                _give(member, min(wanted, key=lambda one: here[one]), chosen, here, owners)
    else:
        for one in sorted(wanted, key=lambda one: owners.get(one, 0)):
            if not here[one]:
                _give(min(members, key=lambda member: len(chosen[member])), one, chosen, here, owners)
    _level(members, wanted, chosen, here, owners)


def _level(
    members: Sequence[str],
    wanted: Sequence[TopicPartition],
    chosen: Mapping[str, set[TopicPartition]],
    here: dict[TopicPartition, int],
    owners: dict[TopicPartition, int],
) -> None:
    """Move partitions from members with more to members with less, until they differ by one at most."""
    while True:
        most = max(members, key=lambda member: len(chosen[member]))
        least = min(members, key=lambda member: len(chosen[member]))
        if len(chosen[most]) - len(chosen[least]) < 2:
            break
        moved = max(chosen[most] - chosen[least], key=lambda one: here.get(one, 0))
        chosen[most].remove(moved)
        chosen[least].add(moved)
    while True:
        busiest, idlest = max(wanted, key=here.__getitem__), min(wanted, key=here.__getitem__)
        if here[busiest] - here[idlest] < 2:
            break
        member = next(one for one in members if busiest in chosen[one] and idlest not in chosen[one])
        chosen[member].remove(busiest)
        here[busiest] -= 1
        owners[busiest] -= 1
        _give(member, idlest, chosen, here, owners)


def _give(
    member: str,
    one: TopicPartition,
    chosen: Mapping[str, set[TopicPartition]],
    here: dict[TopicPartition, int],
    owners: dict[TopicPartition, int],
) -> None:
    chosen[member].add(one)
    here[one] += 1
    owners[one] = owners.get(one, 0) + 1


def _by_topic(chosen: set[TopicPartition]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic, index in sorted(chosen):
        found.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in found.items()}
