"""Share groups to be assigned, as the documents of consumer groups (group/consumer/assignor_documents.py)."""

from __future__ import annotations

from collections import Counter

from coordinator.group.share.heartbeat import assign
from protocol.coordinator_records.record_schema import Partitions
from tests.unit.coordinator.group.consumer.assignor_documents import (
    Document,
    each_partition,
    group_spec,
    kafkas_answer,
    kept,
    sizes,
)

Answer = dict[str, Partitions]


def our_answer(document: Document) -> Answer:
    spec = group_spec(document)
    subscriptions = {member_id: member.topics for member_id, member in spec.members.items()}
    partitions = {topic: range(count) for topic, count in spec.partition_counts.items()}
    present = {key: member.assigned for key, member in spec.members.items()}
    return assign(subscriptions, partitions, present, homogeneous=spec.homogeneous)


def differs(document: Document) -> str | None:
    """What of our answer is not as good as Kafka's; None if nothing is.

    Each partition has as many members in both, or more in ours: Kafka's assignor may end with too few. Where members
    have the same topics, the numbers of their partitions are the same, and as many partitions stay where they are;
    elsewhere these depend on the order of Kafka's maps.
    """
    found = kafkas_answer(document)
    if found is None:
        return None  # one of the topics has a name and nothing else: our groups leave it out
    ours, kafkas = our_answer(document), _wanted(document, found)
    our_copies, kafkas_copies = Counter(each_partition(ours)), Counter(each_partition(kafkas))
    if kafkas_copies - our_copies:
        return f"less of {kafkas_copies - our_copies}, more of {our_copies - kafkas_copies}"
    if our_copies != kafkas_copies or not document["homogeneous"]:
        return None
    if sizes(ours) != sizes(kafkas):
        if _spread(ours) < _spread(kafkas):
            return None  # Kafka counts with fractions, and may be one off
        return f"members have {sizes(ours)} partitions, Kafka's {sizes(kafkas)}"
    before = {key: member.assigned for key, member in group_spec(document).members.items()}
    if kept(before, ours) < kept(before, kafkas):
        return f"{kept(before, ours)} partitions stay where they are, with Kafka {kept(before, kafkas)}"
    return None


def _spread(answer: Answer) -> int:
    return sizes(answer)[-1] - sizes(answer)[0]


def _wanted(document: Document, answer: Answer) -> Answer:
    """Without what Kafka's assignor leaves to members that no longer subscribe to it."""
    topics = {key: member.topics for key, member in group_spec(document).members.items()}
    return {
        member_id: {topic: indexes for topic, indexes in found.items() if indexes and topic in topics[member_id]}
        for member_id, found in answer.items()
    }
