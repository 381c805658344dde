"""The assignor `simple` keeps its contract for any members, topics and earlier assignments."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.share.assignor import assign
from protocol.coordinator_records.consumer_group_values import Partitions

TOPICS = [UUID(int=number) for number in range(1, 4)]
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("abcdefghij"), st.lists(st.sampled_from(TOPICS), unique=True), min_size=1
)
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})


@given(st.lists(SUBSCRIPTIONS, min_size=1, max_size=4), COUNTS)
def test_everyone_has_something_and_everything_has_someone(
    rounds: list[dict[str, list[UUID]]], counts: dict[UUID, int]
) -> None:
    partitions = {topic: range(count) for topic, count in counts.items()}
    assigned: dict[str, dict[UUID, frozenset[int]]] = {}
    for subscriptions in rounds:
        assigned = {member: dict(found) for member, found in assign(subscriptions, partitions, assigned).items()}
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
        assigned = assign({str(number): [topic] for number in range(members)}, {topic: range(count)}, assigned)
        sizes = [sum(map(len, found.values())) for found in assigned.values()]
        owners = Counter(index for found in assigned.values() for index in found[topic])
        assert max(sizes) - min(sizes) <= 1
        assert max(owners.values()) - min(owners.values()) <= 1
        assert sum(sizes) == max(members, count)


def test_a_member_keeps_what_it_has_when_others_come_and_go() -> None:
    topic = TOPICS[0]
    partitions = {topic: range(4)}
    first = assign({"a": [topic], "b": [topic]}, partitions, {})
    second = assign({"a": [topic], "b": [topic], "c": [topic]}, partitions, first)
    assert second["a"][topic] <= first["a"][topic]
    assert second["b"][topic] <= first["b"][topic]
    third = assign({"a": [topic], "c": [topic]}, partitions, second)
    assert third["a"][topic] >= second["a"][topic]
    assert third["c"][topic] >= second["c"][topic]
