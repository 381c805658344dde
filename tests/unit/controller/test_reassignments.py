"""AlterPartitionReassignments as a decision: what is refused, and, with one broker, that a partition can only stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic

from controller.decision import Decision
from controller.reassignments import Reassignments
from protocol.durations import ZERO
from protocol.errors import Timeout
from protocol.metadata.topics import TopicRecord
from tests.unit.controller.images import Schema, after, broker, image_of, partition, topic

IMAGE = image_of(broker(1), *topic("t", 1, [1], [1]))


def decided(*topics: ReassignableTopic, **fields: Any) -> AlterPartitionReassignmentsResponse:
    asked: dict[str, Any] = {"timeout": timedelta(seconds=1)} | fields
    reassignments = Reassignments(AlterPartitionReassignmentsRequest(topics=topics, **asked), Schema())
    assert reassignments.step(IMAGE) == Decision([], False)
    return reassignments.response


def wanted(name: str, *partitions: tuple[int, tuple[int, ...] | None]) -> ReassignableTopic:
    return ReassignableTopic(
        name=name,
        partitions=tuple(ReassignablePartition(partition_index=index, replicas=ids) for index, ids in partitions),
    )


@pytest.mark.parametrize(
    ("name", "index", "replicas", "code"),
    [
        ("t", 0, (1,), "none"),
        ("t", 1, None, "no_reassignment_in_progress"),
        ("t", 0, (2,), "invalid_replica_assignment"),
        ("t", 0, (1, 2), "invalid_replica_assignment"),
        ("t", 0, (), "invalid_replica_assignment"),
        ("t", 0, (1, 1), "invalid_replica_assignment"),
        ("t", 0, (9,), "invalid_replica_assignment"),
        ("t", 2, (1,), "unknown_topic_or_partition"),
        ("t", -1, None, "unknown_topic_or_partition"),
        ("no", 0, (1,), "unknown_topic_or_partition"),
    ],
)
def test_results(name: str, index: int, replicas: tuple[int, ...] | None, code: str) -> None:
    answer = decided(wanted("t", (0, (1,))), wanted(name, (index, replicas)))
    assert [(each.name, [partition.error_code.name for partition in each.partitions]) for each in answer.responses] == [
        ("t", ["none"]),
        (name, [code]),
    ]


def test_a_request_without_topics_needs_no_time() -> None:
    answer = decided(timeout=ZERO)
    assert (answer.error_code.name, answer.responses) == ("none", ())
    with pytest.raises(Timeout):
        decided(wanted("t", (0, (1,))), timeout=ZERO)


@pytest.mark.parametrize("allowed", [True, False])
def test_whether_the_number_of_replicas_may_change_is_given_back(allowed: bool) -> None:
    answer = decided(wanted("t", (0, (1,))), allow_replication_factor_change=allowed)
    assert answer.allow_replication_factor_change is allowed


@pytest.mark.parametrize(
    ("isr", "target", "left"),
    [
        ((1, 3), (1, 2), (1, 2, 3)),  # 2 is not in sync: 3 stays until it is
        ((1, 2), (1, 2), (1, 2)),
        ((1, 3), (1,), (1,)),
        ((1, 2, 3), (1, 2), (1, 2)),
    ],
)
def test_replicas_are_only_taken_away_once_all_that_stay_are_in_sync(
    isr: tuple[int, ...], target: tuple[int, ...], left: tuple[int, ...]
) -> None:
    image = image_of(
        *map(broker, (1, 2, 3)), TopicRecord(name="t", topic_id=UUID(int=1)), partition(1, 0, (1, 2, 3), isr=isr)
    )
    request = AlterPartitionReassignmentsRequest(timeout=timedelta(seconds=1), topics=(wanted("t", (0, target)),))
    known = after(image, Reassignments(request, Schema()).step(image)).topics.get("t")
    assert known is not None
    assert (known.partitions[0].replicas, bool(known.partitions[0].removing_replicas)) == (left, left != target)
