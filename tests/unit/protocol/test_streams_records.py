"""The records of streams groups are what they were when read again, and bytes that Kafka would write."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.coordinator_records.record_schema import MemberKey, RecordSchema
from protocol.coordinator_records.streams_group_records import (
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_SCHEMAS,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TOPOLOGY,
    CopartitionGroup,
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
    Subtopology,
    Tasks,
    TopicInfo,
)

ASSIGNED = Tasks({"0": frozenset({0, 2}), "1": frozenset({1})}, {"0": frozenset({1})}, {})
PENDING = Tasks({"1": frozenset({5})}, {}, {"0": frozenset({9})})
EPOCHS = {("0", 0): 3, ("0", 2): 4, ("1", 1): 4, ("1", 5): 2}
TOPIC = TopicInfo("app-store-changelog", 0, 2, (("cleanup.policy", "compact"),))
SUBTOPOLOGY = Subtopology(
    "0", ("a", "b"), (), (TOPIC,), ("app-r",), (TopicInfo("app-q", 4, 0, ()),), (CopartitionGroup((0, 1), (), (0,)),)
)
MEMBER = StreamsGroupMemberMetadataValue(None, "r1", "c", "/h", 300_000, 1, "p", Endpoint("höst", 65535), (("z", "1"),))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STREAMS_GROUP_METADATA, StreamsGroupMetadataValue(4, -7)),
        (STREAMS_GROUP_METADATA, StreamsGroupMetadataValue(4, 7, 2, (("num.standby.replicas", "1"),), 1, 0)),
        (STREAMS_GROUP_MEMBER_METADATA, MEMBER),
        (STREAMS_GROUP_MEMBER_METADATA, MEMBER._replace(user_endpoint=None, instance_id="i", client_tags=())),
        (STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, StreamsGroupTargetAssignmentMetadataValue(4, 1_700_000_000_000)),
        (STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, StreamsGroupTargetAssignmentMetadataValue(4, 0)),
        (STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, ASSIGNED),
        (
            STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            StreamsGroupCurrentMemberAssignmentValue(4, 3, 1, ASSIGNED, PENDING, EPOCHS),
        ),
        (
            STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            StreamsGroupCurrentMemberAssignmentValue(4, 3, 0, ASSIGNED, Tasks({}, {}, {}), {}),
        ),
        (STREAMS_GROUP_TOPOLOGY, StreamsGroupTopologyValue(1, (SUBTOPOLOGY,))),
    ],
)
def test_round_trip(schema: RecordSchema[Any, Any], value: Any) -> None:
    assert schema.decode_value(schema.encode_value(value)) == value


def test_ids() -> None:
    assert [schema.ids for schema in STREAMS_GROUP_SCHEMAS] == [(17,), (19,), (20,), (21,), (22,), (23,)]
    key = MemberKey("grüppe", "m")
    assert STREAMS_GROUP_MEMBER_METADATA.encode_key(key)[:2] == b"\0\x13"
    assert STREAMS_GROUP_MEMBER_METADATA.decode_key(STREAMS_GROUP_MEMBER_METADATA.encode_key(key)) == key


def test_bytes() -> None:
    """Laid out by hand after Kafka 4.4's schemas."""
    metadata = StreamsGroupMetadataValue(2, 1, 0, (("k", "v"),))
    assert STREAMS_GROUP_METADATA.encode_value(metadata) == (
        b"\0\0" b"\0\0\0\2" b"\0\0\0\0\0\0\0\1" b"\2" b"\0\4\0\0\0\0" b"\1\6\2\2k\2v\0"
    )  # fmt: skip
    value = StreamsGroupCurrentMemberAssignmentValue(
        3, 2, 0, Tasks({"0": frozenset({1})}, {}, {}), Tasks({}, {}, {}), {("0", 1): 3}
    )
    assert STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT.encode_value(value) == (
        b"\0\0" b"\0\0\0\3" b"\0\0\0\2" b"\0" b"\2\x020\2\0\0\0\1\1\0\5\2\0\0\0\3" b"\1\1\1\1\1" b"\0"
    )  # fmt: skip


def test_what_kafka_wrote_is_read() -> None:
    """Of a member of a Kafka 4.4 that has tasks, and must give up others."""
    value = StreamsGroupCurrentMemberAssignmentValue(
        4, 4, 2, Tasks({"0": frozenset({0})}, {}, {}), Tasks({"0": frozenset({1})}, {}, {}), {("0", 0): 4, ("0", 1): 4}
    )
    kept, given_up = (b"\2\x020\2\0\0\0" + index + b"\1\0\5\2\0\0\0\4" for index in (b"\0", b"\1"))
    epochs = b"\0\0\0\4" * 2
    kafkas = b"\0\0" + epochs + b"\2" + kept + b"\1\1" + given_up + b"\1\1" + b"\0"
    assert STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT.decode_value(kafkas) == value
    assert STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT.encode_value(value) == kafkas
