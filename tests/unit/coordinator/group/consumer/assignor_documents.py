"""Groups to be assigned as JSON documents, which Java and Python both read.

`topics`: id and number of partitions by name; -1 if there is a topic's name and nothing else of it. `members`: each
with `id`, `instance`, `rack`, `topics` (the names that it subscribes to, also of no topic) and `assigned`, a list of
topic ids and partitions, as `departed` is: the partitions of a member that is no more, but whose target still stands.
`homogeneous`, `assignor` and, once Java was asked, its `answer`: a list like `assigned` by member, or an `error`.
`is_only`: Kafka's class has the same one when members and topics have other names, so that nothing in it depends on the
order of hash maps; always so for the range assignor, which goes by the order of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from coordinator.group.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec, PartitionAssignorError
from protocol.coordinator_records.record_schema import Partitions
from protocol.uuids import from_text

Document = dict[str, Any]

SMALLEST_HASH_SET = 16
"""Buckets of a small `HashSet` of Java."""


def our_answer(document: Document) -> dict[str, Partitions] | None:
    """Everybody's partitions by member id, from our assignor; None if it cannot assign the group."""
    try:
        return dict(ASSIGNORS[document["assignor"]](group_spec(document)))
    except PartitionAssignorError:
        return None


def kafkas_answer(document: Document) -> dict[str, Partitions] | None:
    """The same from Kafka's."""
    answer = document["answer"]
    return None if "error" in answer else {member_id: partitions_of(assigned) for member_id, assigned in answer.items()}


def differs(document: Document) -> str | None:
    """What of our answer is not as good as Kafka's; None if nothing is.

    Ours is the same as Kafka's if Kafka has only one, as the range assignor always has, and it does not come from the
    order of a set of partitions. Otherwise it is as even, and at least as many partitions stay where they are.
    """
    ours, kafkas = our_answer(document), kafkas_answer(document)
    if ours is None or kafkas is None or _is_in_order(document):
        return None if ours == kafkas else "another answer, and Kafka has only one"
    before = {member["id"]: partitions_of(member["assigned"]) for member in document["members"]}
    differing = {*each_partition(kafkas)} ^ {*each_partition(ours)}
    if differing:
        return f"Kafka alone assigns, or does not assign, {differing}"
    owned = each_partition(before)
    if len(owned) > len(set(owned)):
        return None  # two members have the same partition, which groups never let happen
    if sizes(ours) != sizes(kafkas):
        return f"shares have {sizes(ours)} partitions, Kafka's {sizes(kafkas)}"
    if kept(before, ours) < kept(before, kafkas):
        return f"{kept(before, ours)} partitions stay where they are, with Kafka {kept(before, kafkas)}"
    return None


def _is_in_order(document: Document) -> bool:
    """Whether no order of hash maps or sets is in Kafka's answer: only small numbers come from a hash set in order."""
    counts = [count for _, count in document["topics"].values()]
    return document["is_only"] and (document["assignor"] == "range" or max(counts, default=0) <= SMALLEST_HASH_SET)


def each_partition(answer: Mapping[str, Partitions]) -> list[tuple[UUID, int]]:
    return sorted((topic, one) for found in answer.values() for topic, indexes in found.items() for one in indexes)


def sizes(answer: Mapping[str, Partitions]) -> list[int]:
    return sorted(sum(map(len, found.values())) for found in answer.values())


def kept(before: Mapping[str, Partitions], answer: Mapping[str, Partitions]) -> int:
    """The number of partitions that stay where they are."""
    nothing = frozenset[int]()
    return sum(
        len(one & before[key].get(topic, nothing)) for key, found in answer.items() for topic, one in found.items()
    )


def group_spec(document: Document) -> GroupSpec:
    by_id = {member["id"]: member for member in document["members"]}
    owners: dict[UUID, dict[int, str]] = {}
    for member_id, assigned in [
        ("departed", document["departed"]),
        *((m["id"], m["assigned"]) for m in by_id.values()),
    ]:
        for topic, partitions in partitions_of(assigned).items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    topics = document["topics"]
    return GroupSpec(
        {member_id: _member(by_id[member_id], topics) for member_id in sorted(by_id)},
        document["homogeneous"],
        owners,
        {from_text(topic): count for topic, count in topics.values() if count >= 0},
    )


def _member(member: Document, topics: Document) -> MemberSpec:
    known = tuple(from_text(topics[name][0]) for name in sorted(member["topics"]) if name in topics)
    return MemberSpec(member["instance"], known, partitions_of(member["assigned"]))


def partitions_of(assigned: list[tuple[str, list[int]]]) -> Partitions:
    return {from_text(topic): frozenset(partitions) for topic, partitions in assigned}
