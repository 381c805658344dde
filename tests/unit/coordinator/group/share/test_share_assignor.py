"""The assignor `simple` keeps its contract for any members, topics and earlier assignments, and is as good as Kafka's.

`python -m tools.recorders.assignor_answers --share` asks Kafka's class anew (assignor_answers.jsonl).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.share.heartbeat import assign
from protocol.coordinator_records.record_schema import Partitions
from tests.unit.coordinator.group.consumer.assignor_documents import Document
from tests.unit.coordinator.group.share.assignor_documents import differs

TOPICS = [UUID(int=number) for number in range(1, 4)]
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("abcdefghij"), st.lists(st.sampled_from(TOPICS), unique=True), min_size=1
)
DOCUMENTS = [json.loads(line) for line in (Path(__file__).parent / "assignor_answers.jsonl").read_text().splitlines()]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})


@given(st.lists(SUBSCRIPTIONS, min_size=1, max_size=4), COUNTS)
def test_everyone_has_something_and_everything_has_someone(
    rounds: list[dict[str, list[UUID]]], counts: dict[UUID, int]
) -> None:
    partitions = {topic: range(count) for topic, count in counts.items()}
    assigned: dict[str, dict[UUID, frozenset[int]]] = {}
    for subscriptions in rounds:
        alike = len({frozenset(topics) for topics in subscriptions.values()}) == 1
        found = assign(subscriptions, partitions, assigned, homogeneous=alike)
        assigned = {member: dict(mine) for member, mine in found.items()}
        assert set(assigned) == set(subscriptions)
        owners = Counter(
            (topic, at) for found in assigned.values() for topic, indexes in found.items() for at in indexes
        )
        for member, topics in subscriptions.items():
            assert set(assigned[member]) <= set(topics)
            if any(counts[topic] for topic in topics):
                assert assigned[member], "a member has nothing"
            for topic in topics:
                assert all(owners[topic, index] for index in partitions[topic]), "a partition has nobody"


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=4))
def test_members_with_one_subscription_share_evenly(rounds: list[tuple[int, int]]) -> None:
    topic = TOPICS[0]
    assigned: dict[str, Partitions] = {}
    for members, count in rounds:
        everybody = {str(number): [topic] for number in range(members)}
        assigned = assign(everybody, {topic: range(count)}, assigned, homogeneous=True)
        sizes = [sum(map(len, found.values())) for found in assigned.values()]
        owners = Counter(index for found in assigned.values() for index in found[topic])
        assert max(sizes) - min(sizes) <= 1
        assert set(owners.values()) == {-(-members // count)}


def test_a_member_keeps_what_it_has_when_others_come_and_go() -> None:
    topic = TOPICS[0]
    partitions = {topic: range(4)}
    first = assign({"a": [topic], "b": [topic]}, partitions, {}, homogeneous=True)
    second = assign({"a": [topic], "b": [topic], "c": [topic]}, partitions, first, homogeneous=True)
    assert second["a"][topic] <= first["a"][topic]
    assert second["b"][topic] <= first["b"][topic]
    third = assign({"a": [topic], "c": [topic]}, partitions, second, homogeneous=True)
    assert third["a"][topic] >= second["a"][topic]
    assert third["c"][topic] >= second["c"][topic]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{len(each['members'])}-members")
def test_the_answer_is_as_good_as_kafkas(document: Document) -> None:
    assert differs(document) is None
