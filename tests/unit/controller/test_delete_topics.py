"""DeleteTopics as a decision: by name and by id, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicState

from controller.decision import Decision, MutationQuota, NoQuota
from controller.delete_topics import decide
from protocol.durations import ZERO
from protocol.errors import ThrottlingQuotaExceeded, Timeout
from protocol.metadata.topics import RemoveTopicRecord
from tests.unit.controller.images import after, broker, image_of, topic

A, B, C = (UUID(int=number) for number in (1, 2, 3))
IMAGE = image_of(
    broker(1),
    *topic("a", 1, [1], configs={"retention.ms": "5"}),
    *topic("b", 2, [1], [1]),
    *topic("c", 3, [1], [1], [1]),
)
Named = tuple[str | None, UUID | None]


def decided(
    *topics: Named, quota: MutationQuota | None = None, timeout: timedelta = timedelta(seconds=1)
) -> Decision[DeleteTopicsResponse]:
    states = tuple(DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics)
    return decide(IMAGE, DeleteTopicsRequest(topics=states, timeout=timeout), quota or NoQuota())


def told(decision: Decision[DeleteTopicsResponse]) -> list[tuple[str | None, UUID | None, str]]:
    return [(each.name, each.topic_id, each.error_code.name) for each in decision.response.responses]


def test_topics_are_deleted_by_name_and_by_id_and_their_configurations_with_them() -> None:
    decision = decided((None, A), ("b", None))
    assert told(decision) == [("a", A, "none"), ("b", B, "none")]
    assert decision.records == [RemoveTopicRecord(topic_id=A), RemoveTopicRecord(topic_id=B)]
    image = after(IMAGE, decision)
    assert [each.name for each in image.topics] == ["c"]
    assert not image.configs.by_resource


@pytest.mark.parametrize(
    ("topics", "results"),
    [
        ([("a", A)], [("a", A, "invalid_request")]),
        ([(None, None)], [(None, None, "invalid_request")]),
        ([("a", None), (None, A)], [("a", A, "invalid_request")]),
        ([(None, A), (None, A)], [(None, A, "invalid_request")]),
        ([("b", None), ("b", None)], [("b", None, "invalid_request")]),
        ([("no", None)], [("no", None, "unknown_topic_or_partition")]),
        ([(None, UUID(int=77))], [(None, UUID(int=77), "unknown_topic_id")]),
    ],
)
def test_refused_entries_come_first_and_leave_the_others(
    topics: list[Named], results: list[tuple[str | None, UUID | None, str]]
) -> None:
    decision = decided(("c", None), *topics)
    assert told(decision) == [*results, ("c", C, "none")]
    assert decision.records == [RemoveTopicRecord(topic_id=C)]


def test_without_time_nothing_is_deleted_unless_nothing_could_be() -> None:
    with pytest.raises(Timeout):
        decided(("a", None), timeout=ZERO)
    with pytest.raises(Timeout):
        decided((None, A), timeout=ZERO)
    assert told(decided(("a", None), ("a", None), timeout=ZERO)) == [("a", None, "invalid_request")]


class Two:
    """A quota for two partitions."""

    throttle_time = timedelta(seconds=3)

    def charge(self, topic: str, partitions: int) -> None:
        if partitions > 2:
            raise ThrottlingQuotaExceeded


def test_what_exceeds_the_clients_quota_stays() -> None:
    decision = decided(("c", None), ("b", None), quota=Two())
    assert told(decision) == [("c", C, "throttling_quota_exceeded"), ("b", B, "none")]
    assert decision.records == [RemoveTopicRecord(topic_id=B)]
    assert decision.response.throttle_time == Two.throttle_time
