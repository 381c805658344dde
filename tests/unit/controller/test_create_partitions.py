"""CreatePartitions as a decision: records of the new partitions, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsAssignment, CreatePartitionsTopic

from controller.create_partitions import decide
from controller.decision import Decision, MutationQuota, NoQuota
from protocol.durations import ZERO
from protocol.errors import ThrottlingQuotaExceeded, Timeout
from protocol.metadata.brokers import UnregisterBrokerRecord
from tests.unit.controller.images import after, broker, image_of, partition, topic

IMAGE = image_of(broker(1), broker(2), broker(3, fenced=True), *topic("t", 1, [1, 2], [2, 1]), *topic("u", 2, [1]))
Assignments = tuple[tuple[int, ...], ...]


def wanted(name: str, count: int, assignments: Assignments | None = None) -> CreatePartitionsTopic:
    given = None if assignments is None else tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in assignments)
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def decided(
    *topics: CreatePartitionsTopic, quota: MutationQuota | None = None, **fields: Any
) -> Decision[CreatePartitionsResponse]:
    asked: dict[str, Any] = {"timeout": timedelta(seconds=1), "validate_only": False} | fields
    return decide(IMAGE, CreatePartitionsRequest(topics=topics, **asked), quota or NoQuota())


def codes(decision: Decision[CreatePartitionsResponse]) -> list[tuple[str, str]]:
    return [(each.name, each.error_code.name) for each in decision.response.results]


def test_new_partitions_are_numbered_on_and_have_as_many_replicas_as_the_others() -> None:
    decision = decided(wanted("t", 4), wanted("u", 2))
    assert codes(decision) == [("t", "none"), ("u", "none")]
    image = after(IMAGE, decision)
    grown = image.topics.by_name["t"]
    assert sorted([found.leader for _, found in grown.in_order()][2:]) == [1, 2]
    assert {frozenset(found.replicas) for _, found in grown.in_order()} == {frozenset({1, 2})}
    assert grown.partitions[0] == IMAGE.topics.by_name["t"].partitions[0]
    assert image.topics.by_name["u"].partition_count == 2


def test_a_new_partition_is_assigned_as_the_request_says() -> None:
    decision = decided(wanted("t", 4, ((2, 1), (3, 1))))
    assert decision.records == [
        partition(1, 2, [2, 1]),
        partition(1, 3, [3, 1], isr=(1,), leader=1),  # broker 3 is fenced
    ]


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (wanted("no", 3), "unknown_topic_or_partition"),
        (wanted("t", 2), "invalid_partitions"),
        (wanted("t", 1), "invalid_partitions"),
        (wanted("t", -1), "invalid_partitions"),
        (wanted("t", 4, ((1, 2),)), "invalid_replica_assignment"),
        (wanted("t", 3, ()), "invalid_replica_assignment"),
        (wanted("t", 3, ((),)), "invalid_replica_assignment"),
        (wanted("t", 3, ((1, 1),)), "invalid_replica_assignment"),
        (wanted("t", 3, ((1, 9),)), "invalid_replica_assignment"),
        (wanted("t", 3, ((1,),)), "invalid_replica_assignment"),
        (wanted("t", 3, ((3,),)), "invalid_replica_assignment"),
        (wanted("t", 20_000, ((1, 2),)), "invalid_replica_assignment"),
    ],
)
def test_a_refused_topic_leaves_the_others(refused: CreatePartitionsTopic, code: str) -> None:
    decision = decided(refused, wanted("u", 2))
    assert codes(decision) == [(refused.name, code), ("u", "none")]
    assert [record.topic_id for record in decision.records] == [UUID(int=2)]


def test_fewer_brokers_than_replicas_are_told() -> None:
    gone = [UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=5) for broker_id in (2, 3)]
    image = image_of(*gone, image=IMAGE)
    request = CreatePartitionsRequest(topics=(wanted("t", 3),), timeout=timedelta(seconds=1), validate_only=False)
    assert codes(decide(image, request, NoQuota())) == [("t", "invalid_replication_factor")]


def test_beyond_what_a_request_may_add_the_topic_and_all_after_it_fail() -> None:
    failed = "policy_violation"
    decision = decided(wanted("t", 9_000), wanted("u", 2_000), wanted("no", 2))
    assert codes(decision) == [("t", "none"), ("u", failed), ("no", "unknown_topic_or_partition")]
    assert codes(decided(wanted("t", 2**31 - 1), wanted("u", 2))) == [("t", failed), ("u", failed)]


def test_a_name_that_is_given_twice_is_refused_first() -> None:
    decision = decided(wanted("u", 2), wanted("t", 3), wanted("t", 4))
    assert codes(decision) == [("t", "invalid_request"), ("u", "none")]


def test_without_time_nothing_is_added_unless_nothing_could_be() -> None:
    with pytest.raises(Timeout):
        decided(wanted("t", 3), timeout=ZERO)
    assert codes(decided(wanted("t", 3), wanted("t", 3), timeout=ZERO)) == [("t", "invalid_request")]


def test_validate_only_answers_and_writes_nothing() -> None:
    decision = decided(wanted("t", 3), validate_only=True)
    assert codes(decision) == [("t", "none")]
    assert not decision.records


class Few:
    """A quota for fewer than ten partitions."""

    throttle_time = timedelta(seconds=3)

    def __init__(self) -> None:
        self.charged: list[tuple[str, int]] = []

    def charge(self, topic: str, partitions: int) -> None:
        if partitions >= 10:
            raise ThrottlingQuotaExceeded
        self.charged.append((topic, partitions))


def test_the_partitions_that_are_added_count_for_the_clients_quota() -> None:
    quota = Few()
    decision = decided(wanted("t", 12), wanted("u", 10), quota=quota)
    assert codes(decision) == [("t", "throttling_quota_exceeded"), ("u", "none")]
    assert quota.charged == [("u", 9)]
    assert decision.response.throttle_time == Few.throttle_time
