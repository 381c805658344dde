"""CreateTopics as a decision: which records make a topic, and which topics are refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig

from controller.create_topics import MOST_PARTITIONS, decide
from controller.decision import MOST_RECORDS, Decision, MutationQuota, NoQuota
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import PolicyViolation, ThrottlingQuotaExceeded, Timeout
from protocol.metadata.topics import TopicRecord
from tests.unit.controller.images import after, around, broker, config, directory, image_of, partition, topic

THREE = image_of(broker(1), broker(2), broker(3))
WITH_T = image_of(*topic("t", 1, [1]), *topic("a.b", 2, [1]), image=THREE)
Assignments = Mapping[int, tuple[int, ...]]
Configs = Mapping[str, str | None]
NONE: Mapping[Any, Any] = {}


def wanted(
    name: str, count: int = 1, factor: int = 1, assignments: Assignments = NONE, configs: Configs = NONE
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=tuple(CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in assignments.items()),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )


def decided(
    image: MetadataImage, *topics: CreatableTopic, quota: MutationQuota | None = None, **fields: Any
) -> Decision[CreateTopicsResponse]:
    asked: dict[str, Any] = {"timeout": timedelta(seconds=1), "validate_only": False} | fields
    return decide(image, CreateTopicsRequest(topics=topics, **asked), around(), quota or NoQuota())


def codes(decision: Decision[CreateTopicsResponse]) -> dict[str, str]:
    return {each.name: each.error_code.name for each in decision.response.topics}


def test_a_topic_is_its_record_then_its_configs_then_its_partitions() -> None:
    decision = decided(THREE, wanted("new", 2, configs={"retention.ms": "5"}))
    (told,) = decision.response.topics
    assert (told.topic_id, told.num_partitions, told.replication_factor) == (UUID(int=100), 2, 1)
    assert [(each.name, each.value) for each in told.configs] == [("retention.ms", "5")]
    leaders = [1, 2]  # the stripes begin where the id says
    assert decision.records == [
        TopicRecord(name="new", topic_id=UUID(int=100)),
        config(ResourceType.TOPIC, "new", "retention.ms", "5"),
        *(partition(100, index, [leader]) for index, leader in enumerate(leaders)),
    ]


def test_without_numbers_of_its_own_a_topic_has_those_of_the_configuration() -> None:
    image = after(THREE, decided(THREE, wanted("new", -1, -1)))
    made = image.topics.by_name["new"]
    assert (made.partition_count, made.replication_factor) == (3, 2)
    assert {found.leader for _, found in made.in_order()} == {1, 2, 3}


def test_replicas_of_a_partition_lie_in_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    image = image_of(*(broker(number, rack=rack) for number, rack in racks.items()))
    made = after(image, decided(image, wanted("new", 8, 2))).topics.by_name["new"]
    for _, found in made.in_order():
        assert {racks[number] for number in found.replicas} == {"a", "b"}


def test_a_partition_is_assigned_as_the_request_says() -> None:
    image = image_of(broker(3, fenced=True), broker(2, log_dirs=(UUID(int=1), UUID(int=2))), image=THREE)
    decision = decided(image, wanted("new", -1, -1, {1: (1, 3), 0: (3, 2)}))
    made = after(image, decision).topics.by_name["new"]
    assert [found.replicas for _, found in made.in_order()] == [(3, 2), (1, 3)]
    first = made.partitions[0]
    assert (first.isr, first.leader) == ((2,), 2)  # broker 3 is fenced
    assert first.directories == (directory(3), UUID(int=1))  # broker 2 has several, and will choose
    assert decision.response.topics[0].replication_factor == 2
    uneven = decided(image, wanted("new", -1, -1, {0: (3, 2), 1: (1,)}))
    assert codes(uneven) == {"new": "invalid_replica_assignment"}


def test_a_fenced_broker_gets_no_replica_unless_it_is_named_or_needed() -> None:
    image = image_of(broker(3, fenced=True), image=THREE)
    made = after(image, decided(image, wanted("new", 6, 2))).topics.by_name["new"]
    assert {number for _, found in made.in_order() for number in found.replicas} == {1, 2}
    (needed,) = after(image, decided(image, wanted("new", 1, 3))).topics.by_name["new"].partitions.values()
    assert (needed.replicas[2], set(needed.isr)) == (3, {1, 2})
    assert codes(decided(image, wanted("new", 1, 4))) == {"new": "invalid_replication_factor"}
    assert codes(decided(image, wanted("new", -1, -1, {0: (3,)}))) == {"new": "invalid_replica_assignment"}


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (wanted("t"), "topic_already_exists"),
        (wanted("a_b"), "invalid_topic_exception"),
        (wanted("bad/"), "invalid_topic_exception"),
        (wanted("__cluster_metadata"), "invalid_request"),
        (wanted("new", 0), "invalid_partitions"),
        (wanted("new", -2), "invalid_partitions"),
        (wanted("new", 1, 0), "invalid_replication_factor"),
        (wanted("new", 1, -2), "invalid_replication_factor"),
        (wanted("new", 1, 4), "invalid_replication_factor"),
        (wanted("new", 1, -1, {0: (1,)}), "invalid_request"),
        (wanted("new", -1, 1, {0: (1,)}), "invalid_request"),
        (wanted("new", -1, -1, {1: (1,)}), "invalid_replica_assignment"),
        (wanted("new", -1, -1, {0: (9,)}), "invalid_replica_assignment"),
        (wanted("new", -1, -1, {0: (1, 1)}), "invalid_replica_assignment"),
        (wanted("new", -1, -1, {0: ()}), "invalid_replica_assignment"),
        (wanted("new", configs={"retention.ms": None}), "invalid_config"),
        (wanted("new", configs={"retention.ms": "x"}), "invalid_config"),
    ],
)
def test_a_refused_topic_leaves_the_others(refused: CreatableTopic, code: str) -> None:
    decision = decided(WITH_T, refused, wanted("good"))
    assert codes(decision) == {refused.name: code, "good": "none"}
    assert [each.name for each in decision.records if isinstance(each, TopicRecord)] == ["good"]


def test_a_name_that_is_given_twice_is_created_by_neither() -> None:
    decision = decided(THREE, wanted("u"), wanted("good"), wanted("u", 2))
    assert codes(decision) == {"good": "none", "u": "invalid_request"}
    assert len(after(THREE, decision).topics) == 1


def test_names_of_one_request_do_not_collide_with_each_other() -> None:
    assert codes(decided(THREE, wanted("c.d"), wanted("c_d"))) == {"c.d": "none", "c_d": "none"}


def test_without_time_nothing_is_created_unless_nothing_could_be() -> None:
    with pytest.raises(Timeout):
        decided(THREE, wanted("u"), timeout=ZERO)
    refused = decided(THREE, wanted("u"), wanted("u"), timeout=ZERO)
    assert codes(refused) == {"u": "invalid_request"}


def test_validate_only_answers_and_writes_nothing() -> None:
    decision = decided(THREE, wanted("u", 2), validate_only=True)
    assert codes(decision) == {"u": "none"}
    assert not decision.records


def test_partitions_of_all_topics_are_limited_together() -> None:
    with pytest.raises(PolicyViolation, match=str(MOST_PARTITIONS)):
        decided(THREE, wanted("u", MOST_PARTITIONS - 2), wanted("v", -1, 1))
    with pytest.raises(PolicyViolation):
        decided(THREE, wanted("u", 2**31 - 1), wanted("v", 2**31 - 1))


def test_records_are_limited() -> None:
    assert len(decided(THREE, wanted("u", MOST_RECORDS - 1)).records) == MOST_RECORDS
    with pytest.raises(PolicyViolation, match=str(MOST_RECORDS)):
        decided(THREE, wanted("u", MOST_RECORDS))


class OneTopic:
    """A quota for the partitions of one topic."""

    throttle_time = timedelta(seconds=3)

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}

    def charge(self, topic: str, partitions: int) -> None:
        if self.charged:
            raise ThrottlingQuotaExceeded
        self.charged[topic] = partitions


def test_throttling_quota_exceeded_and_a_topic_refused_otherwise_costs_nothing() -> None:
    quota = OneTopic()
    decision = decided(WITH_T, wanted("t", 9), wanted("u", 4), wanted("v"), quota=quota)
    assert codes(decision) == {"t": "topic_already_exists", "u": "none", "v": "throttling_quota_exceeded"}
    assert quota.charged == {"u": 4}
    assert decision.response.throttle_time == quota.throttle_time
