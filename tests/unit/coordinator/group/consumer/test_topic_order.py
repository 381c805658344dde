"""The order of an assignment's topics in answers and records; the ids and orders are from answers of a Kafka 4.1."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.handlers import consumer_group_heartbeat as handler
from coordinator.group.consumer.assignment import Partitions, by_topic
from coordinator.group.consumer.embedded import encoded_assignment
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.messages import ConsumerHeartbeatAnswer
from coordinator.group.consumer.reconciliation import reconcile
from protocol.consumer_protocol import deserialize_assignment
from protocol.internal.consumer_group_records import CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
from tests.unit.coordinator.group.rig import subscription
from tests.unit.coordinator.group.topics_in_memory import TopicsInMemory

FROM_KAFKA = [
    (UUID("acaccf98-e994-420a-87ee-7696d0b5b211"), UUID("08b996a9-dc24-429f-a411-399fb9f45d6d")),
    (UUID("2e54b8c2-138d-44bc-9d09-6518ed64f0d6"), UUID("acaccf98-e994-420a-87ee-7696d0b5b211")),
    (UUID("eed42eb9-1d4d-4baf-8725-350cb1191394"), UUID("2a3e2f26-1546-425d-b64c-5a1a8f068efe")),
    (UUID("a5cb6ed1-89e4-4395-8a44-75ad59739c62"), UUID("0cd5a815-c1d6-40ab-b358-348297aa496b")),
]


def either_way(*topics: UUID) -> tuple[Partitions, Partitions]:
    return dict.fromkeys(topics, frozenset({0})), dict.fromkeys(reversed(topics), frozenset({0}))


@pytest.mark.parametrize("topics", FROM_KAFKA)
def test_is_that_of_the_hash_map_whichever_came_first(topics: tuple[UUID, UUID]) -> None:
    for partitions in either_way(*topics):
        assert [topic for topic, _ in by_topic(partitions)] == list(topics)


@pytest.mark.parametrize("topics", FROM_KAFKA)
def test_holds_in_heartbeats_and_in_records(topics: tuple[UUID, UUID]) -> None:
    for partitions in either_way(*topics):
        answer = handler._response(ConsumerHeartbeatAnswer("m1", 1, 5000, partitions))
        assert answer.assignment is not None
        assert [one.topic_id for one in answer.assignment.topic_partitions] == list(topics)
        value = ConsumerMember("m1", assigned=partitions).assignment_value()
        stored = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.encode_value(value)
        assert stored.index(topics[0].bytes) < stored.index(topics[1].bytes)


def test_holds_in_what_a_classic_member_is_told() -> None:
    topics = TopicsInMemory()
    made = {topics.create(name, 1): name for name in "abcd"}
    in_order = [made[topic] for topic, _ in by_topic(dict.fromkeys(made, frozenset({0})))]
    for partitions in either_way(*made):
        told = deserialize_assignment(encoded_assignment(partitions, subscription("a"), topics)).partitions
        assert [name for name, _ in told] == in_order


def test_of_two_new_topics_in_one_bucket_the_targets_last_comes_first() -> None:
    t2, u1 = UUID("d56c954f-cff1-432a-9f77-3f1ca1f88e2c"), UUID("71fa0f5a-561a-453f-851d-0256e627fc5e")
    target = {t2: frozenset({0}), u1: frozenset(range(5))}
    member = reconcile(ConsumerMember("zz"), 2, target, {}, lambda *_: True)
    assert [topic for topic, _ in by_topic(member.assigned)] == [u1, t2]
