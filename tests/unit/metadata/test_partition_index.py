"""The index of partitions: what concerns one broker, or one topic, costs what these have, not what the cluster has."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import broker_changes
from metadata import topics
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from metadata.topics import LEADERLESS, NOT_PREFERRED, REASSIGNING, TopicsImage, eligible, in_sync
from protocol.metadata.topics import NO_LEADER, PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from tests.unit.controller.images import Schema, broker, image_of, partition, topic

nodes = st.lists(st.integers(1, 4), unique=True, max_size=3).map(tuple)


def expected(image: TopicsImage) -> dict[Any, dict[UUID, set[int]]]:
    """What the index must say, by a look at all partitions."""
    found: dict[Any, dict[UUID, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in image:
        for index, known in each.in_order():
            facts = [in_sync(node) for node in known.isr] + [eligible(node) for node in known.elr]
            facts += [LEADERLESS] if known.leader == NO_LEADER else []
            facts += [NOT_PREFERRED] if known.leader != known.replicas[0] else []
            facts += [REASSIGNING] if known.adding_replicas or known.removing_replicas else []
            for fact in facts:
                found[fact][each.id].add(index)
    return found


@st.composite
def steps(draw: st.DrawFn) -> list[list[Any]]:
    """Records of several deltas; topics are made, changed and removed, also within one delta."""
    alive: dict[int, int] = {}
    deltas = []
    for _ in range(draw(st.integers(1, 4))):
        records: list[Any] = []
        for _ in range(draw(st.integers(1, 6))):
            number = draw(st.integers(1, 3))
            if number not in alive:
                alive[number] = draw(st.integers(1, 70))  # more than a machine word has bits
                records.append(TopicRecord(name=f"t{number}", topic_id=UUID(int=number)))
                records += [partition(number, index, [1, 2, 3]) for index in range(alive[number])]
            elif draw(st.booleans()):
                records.append(
                    PartitionChangeRecord(
                        topic_id=UUID(int=number),
                        partition_id=draw(st.integers(0, alive[number] - 1)),
                        isr=draw(st.none() | nodes),
                        leader=draw(st.sampled_from([-2, NO_LEADER, 1, 2])),
                        eligible_leader_replicas=draw(st.none() | nodes),
                        adding_replicas=draw(st.none() | nodes),
                    )
                )
            elif draw(st.booleans()):
                del alive[number]
                records.append(RemoveTopicRecord(topic_id=UUID(int=number)))
        deltas.append(records)
    return deltas


@pytest.mark.long
@given(steps())
def test_the_index_of_partitions_is_what_a_look_at_all_of_them_finds(deltas: list[list[Any]]) -> None:
    image = EMPTY
    for records in deltas:
        image = image_of(*records, image=image)
        wanted = expected(image.topics)
        assert set(image.topics.index) == set(wanted)
        for fact, by_topic in wanted.items():
            found: dict[UUID, set[int]] = defaultdict(set)
            for each, index in image.topics.where(fact):
                found[each.id].add(index)
            assert found == by_topic
            assert image.topics.count(fact) == sum(map(len, by_topic.values()))


def test_a_delta_that_is_applied_twice_has_the_same_index() -> None:
    delta = MetadataDelta(image_of(*topic("t", 1, [1, 2])))
    delta.replay_all([PartitionChangeRecord(topic_id=UUID(int=1), partition_id=0, isr=(2,), leader=2)])
    assert delta.apply(1, 1, 0) == delta.apply(1, 1, 0)
    assert list(delta.apply(1, 1, 0).topics.index) == [in_sync(2), NOT_PREFERRED]


def many(count: int) -> MetadataImage:
    """A cluster of so many partitions that broker 1 leads, and one that broker 2 leads."""
    others = [record for number in range(2, count + 2) for record in topic(f"t{number}", number, [1])]
    return image_of(broker(1), broker(2), broker(3), *others, *topic("mine", 1, [2, 3]))


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The partitions that the index gives or looks at."""
    seen: list[Any] = []
    where, facts_of = TopicsImage.where, topics.facts_of

    def noted_where(image: TopicsImage, fact: Any) -> Any:
        for place in where(image, fact):
            seen.append(place)
            yield place

    def noted_facts(each: Any) -> Any:
        seen.append(each)
        return facts_of(each)

    monkeypatch.setattr(TopicsImage, "where", noted_where)
    monkeypatch.setattr(topics, "facts_of", noted_facts)
    return seen


def no_look_at_all(_topics: TopicsImage) -> Any:
    raise AssertionError("all topics are looked at")


@pytest.mark.parametrize("count", [3, 300])
def test_partitions_visited_for_one_broker_or_topic_do_not_grow_with_the_cluster(
    count: int, visited: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    image, schema = many(count), Schema()
    visited.clear()
    monkeypatch.setattr(TopicsImage, "sorted", no_look_at_all)
    monkeypatch.setattr(TopicsImage, "__iter__", no_look_at_all)
    changed = [PartitionChangeRecord(topic_id=UUID(int=1), partition_id=0, isr=(2,))]
    image_of(*changed, image=image)
    assert len(visited) == 2  # the partition before and after
    visited.clear()
    fenced = broker_changes.fence(image, schema, 2)
    assert len(fenced) == 2
    broker_changes.unregister(image, schema, 2)
    broker_changes.elect_preferred(image, schema, 10)
    broker_changes.elect_uncleanly(image, schema, 10)
    list(broker_changes.unfence(image, schema, 2))
    assert not broker_changes.leads_something(image, 3)
    assert len(visited) == 3
