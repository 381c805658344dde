"""Who leads when brokers come and go, and the answers to ElectLeaders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.elect_leaders.v2 import ElectLeadersRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions

from controller import elections
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, Timeout
from protocol.metadata.topics import NO_LEADER, PartitionChangeRecord
from tests.unit.controller.images import around, broker, directory, image_of, partition, topic

ALONE = image_of(broker(1), *topic("t", 1, [1], [1]))
THREE = image_of(broker(1), broker(2), broker(3), *topic("t", 1, [1, 2, 3]))
Result = tuple[str, list[tuple[int, str]]]


def first(image: MetadataImage) -> PartitionRegistration:
    return image.topics.by_name["t"].partitions[0]


def resigned(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image_of(*elections.resign(image, broker_id), image=image)


def elected(image: MetadataImage, broker_id: int, log_dir: UUID | None = None) -> MetadataImage:
    return image_of(*elections.elect(image, broker_id, log_dir), image=image)


# -- brokers that come and go


def test_the_only_replica_leaves_no_leader_and_an_eligible_one() -> None:
    assert list(elections.resign(ALONE, 1))[1] == PartitionChangeRecord(
        topic_id=UUID(int=1),
        partition_id=1,
        isr=(),
        leader=NO_LEADER,
        eligible_leader_replicas=(1,),
        last_known_elr=(1,),
    )
    found = first(resigned(ALONE, 1))
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (NO_LEADER, (), (1,), (1,))
    assert found.leader_epoch == first(ALONE).leader_epoch + 1


def test_it_leads_again_when_it_is_back_with_the_next_epoch() -> None:
    found = first(elected(resigned(ALONE, 1), 1))
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (1, (1,), (), ())
    assert found.leader_epoch == first(ALONE).leader_epoch + 2


def test_with_others_in_the_isr_the_next_replica_leads() -> None:
    found = first(resigned(THREE, 1))
    assert (found.leader, found.isr, found.elr) == (2, (2, 3), ())
    found = first(resigned(resigned(THREE, 1), 2))
    assert (found.leader, found.isr) == (3, (3,))


def test_a_follower_that_leaves_changes_the_isr_alone_and_a_stranger_nothing() -> None:
    found = first(resigned(THREE, 3))
    assert (found.leader, found.isr) == (1, (1, 2))
    assert not list(elections.resign(resigned(THREE, 3), 3))
    assert not list(elections.resign(THREE, 4))


def test_who_was_not_in_sync_at_the_end_does_not_lead_but_the_last_one_does() -> None:
    image = THREE
    for broker_id in (1, 2, 3):
        image = resigned(image, broker_id)
    assert not list(elections.elect(image, 1, None))
    found = first(elected(image, 3))
    assert (found.leader, found.isr, found.elr) == (3, (3,), ())


def test_a_partition_that_has_a_leader_is_left_alone() -> None:
    assert not list(elections.elect(resigned(THREE, 1), 1, None))


def test_a_broker_that_is_no_replica_is_never_elected() -> None:
    image = image_of(partition(1, 0, [1], isr=(2,), leader=NO_LEADER), image=ALONE)
    assert not list(elections.elect(image, 2, None))


def test_a_replica_lies_in_the_brokers_only_directory_whatever_was_known() -> None:
    elsewhere = UUID(int=77)
    found = first(elected(resigned(THREE, 1), 1, elsewhere))
    assert found.directories == first(THREE).directories  # it leads already
    image = resigned(ALONE, 1)
    assert first(elected(image, 1, elsewhere)).directories == (elsewhere,)
    for unchanged in (directory(1), None):
        change, _ = elections.elect(image, 1, unchanged)
        assert change.directories is None


# -- ElectLeaders


def decided(
    kind: int, topics: Sequence[tuple[str, tuple[int, ...]]] | None, *, offline: Any = (), **fields: Any
) -> list[Result]:
    wanted = None
    if topics is not None:
        wanted = tuple(TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics)
    asked: dict[str, Any] = {"timeout": timedelta(seconds=1)} | fields
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, **asked)
    decision = elections.decide(ALONE, request, around(offline=offline))
    assert not decision.records
    return [
        (each.topic, [(partition.partition_id, partition.error_code.name) for partition in each.partition_result])
        for each in decision.response.replica_election_results
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
