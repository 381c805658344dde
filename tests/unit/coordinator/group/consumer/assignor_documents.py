"""Groups to be assigned as JSON documents, which Java and Python both read.

`topics`: id and number of partitions by name; -1 if there is a topic's name and nothing else of it. `members`: each
with `id`, `instance`, `rack`, `topics` (the names that it subscribes to, also of no topic) and `assigned`, a list of
topic ids and partitions, as `departed` is: the partitions of a member that is no more, but whose target still stands.
`homogeneous`, `assignor` and, once Java was asked, its `answer`: a list like `assigned` by member, or an `error`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec, PartitionAssignorError
from protocol.java_collections import in_java_copy_order, in_java_order
from protocol.uuids import from_text, to_text

Document = dict[str, Any]


def our_answer(document: Document) -> Document:
    """What our assignor makes of the document, as Java's answer is written."""
    spec = group_spec(document)
    try:
        found = ASSIGNORS[document["assignor"]](spec)
    except PartitionAssignorError as failure:
        return {"error": str(failure)}
    return {member_id: _listed(partitions, spec.members[member_id]) for member_id, partitions in found.items()}


def group_spec(document: Document) -> GroupSpec:
    by_id = {member["id"]: member for member in document["members"]}
    owners: dict[UUID, dict[int, str]] = {}
    for member_id, assigned in [
        ("departed", document["departed"]),
        *((m["id"], m["assigned"]) for m in by_id.values()),
    ]:
        for topic, partitions in _partitions(assigned).items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    topics = document["topics"]
    return GroupSpec(
        {member_id: _member(by_id[member_id], topics) for member_id in in_java_order(by_id)},
        document["homogeneous"],
        owners,
        {from_text(topic): count for topic, count in topics.values() if count >= 0},
    )


def _member(member: Document, topics: Document) -> MemberSpec:
    names = in_java_copy_order(member["topics"])
    known = tuple(from_text(topics[name][0]) for name in names if name in topics)
    return MemberSpec(
        member["instance"], member["rack"], known, _partitions(member["assigned"]), len(names) - len(known)
    )


def _partitions(assigned: list[tuple[str, list[int]]]) -> Partitions:
    return {from_text(topic): frozenset(partitions) for topic, partitions in assigned}


def _listed(partitions: Partitions, member: MemberSpec) -> list[list[Any]]:
    """Topics in their order, which is that of the record; none is written, and none is given, if all stays the same."""
    order = in_java_order(partitions.keys()) if partitions is member.assigned else partitions
    return [[to_text(topic), sorted(partitions[topic])] for topic in order]
