"""The answers to ElectLeaders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.elect_leaders.v2 import ElectLeadersRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions

from controller import elections
from controller.decision import Decision
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, Timeout
from tests.unit.controller.images import around, broker, image_of, topic

ALONE = image_of(broker(1), *topic("t", 1, [1], [1]))
Result = tuple[str, list[tuple[int, str]]]


def decided(
    kind: int, topics: Sequence[tuple[str, tuple[int, ...]]] | None, *, offline: Any = (), **fields: Any
) -> list[Result]:
    wanted = None
    if topics is not None:
        wanted = tuple(TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics)
    asked: dict[str, Any] = {"timeout": timedelta(seconds=1)} | fields
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, **asked)
    run = elections.Elections(request, around(offline=offline))
    assert run.step(ALONE) == Decision([], False)
    return [
        (each.topic, [(partition.partition_id, partition.error_code.name) for partition in each.partition_result])
        for each in run.response.replica_election_results
    ]


def test_no_partition_needs_an_election() -> None:
    unknown = "unknown_topic_or_partition"
    assert decided(0, [("t", (0, 9, -1)), ("no", (0,))]) == [
        ("t", [(0, "election_not_needed"), (9, unknown), (-1, unknown)]),
        ("no", [(0, unknown)]),
    ]


@pytest.mark.parametrize(
    ("kind", "code"), [(0, "preferred_leader_not_available"), (1, "eligible_leaders_not_available")]
)
def test_a_partition_whose_log_is_offline_has_nobody_to_elect(kind: int, code: str) -> None:
    offline = [("t", 1)]
    assert decided(kind, [("t", (0, 1))], offline=offline) == [("t", [(0, "election_not_needed"), (1, code)])]
    assert decided(kind, None, offline=offline) == [("t", [(1, code)])]


def test_of_all_partitions_those_that_need_no_election_are_left_out() -> None:
    assert decided(0, None) == [("t", [])]
    assert decided(0, []) == []


def test_requests_that_cannot_be_answered() -> None:
    with pytest.raises(InvalidRequest):
        decided(2, [("t", (0,))])
    with pytest.raises(Timeout):
        decided(0, [("t", (0,))], timeout=ZERO)
    assert decided(2, [], timeout=ZERO) == []
