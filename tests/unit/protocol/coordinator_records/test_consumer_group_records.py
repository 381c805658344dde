"""Records of consumer groups (KIP-848), held to all that Kafka 4.1 wrote of a group and to bytes of its serializers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_SCHEMAS,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.coordinator_records.record_schema import GroupKey, MemberKey, RecordSchema, record_id
from protocol.primitives import MOST_ELEMENTS

LINES = (Path(__file__).parent / "data" / "kafka_4_1_consumer_group.txt").read_text().splitlines()
RECORDS = [line.split() for line in LINES if not line.startswith("#")]
SCHEMAS = {number: schema for schema in CONSUMER_GROUP_SCHEMAS for number in schema.ids}

GROUP, A, B = "k848r-fa2b1a-g", "k848r-fa2b1a-a", "k848r-fa2b1a-b"
A_ID, B_ID = UUID("c264c343-a5c0-452c-8410-3611f0a30abe"), UUID("6f13dc86-d772-4ba6-996c-127635f3e21e")
STATIC, SECOND, CLASSIC = "mJzvuBvKQKimY6N19UUlgA", "WApoDO36QB+ARPTy+c4tXw", "cXWVjP3DSFeJ29he9cZtXQ"
REGEX = "(^k848r-fa2b1a.*)"
SUBSCRIPTION = b"\0\3\0\0\0\1\0\x0ek848r-fa2b1a-a" + bytes(8) + b"\xff\xff\xff\xff\0\0"
PLAIN = ConsumerGroupMemberMetadataValue(None, None, "c", "/h", (), None, -1, None)


def decode(key: str, value: str) -> tuple[Any, Any]:
    schema = SCHEMAS[record_id(bytes.fromhex(key))]
    return schema.decode_key(bytes.fromhex(key)), None if value == "-" else schema.decode_value(bytes.fromhex(value))


def test_all_that_kafka_wrote_is_written_the_same() -> None:
    for key, value in RECORDS:
        schema = SCHEMAS[record_id(bytes.fromhex(key))]
        decoded_key, decoded_value = decode(key, value)
        assert schema.encode_key(decoded_key).hex() == key
        assert (schema.encode_value(decoded_value).hex() if decoded_value is not None else "-") == value
    assert {record_id(bytes.fromhex(key)) for key, _ in RECORDS} == {3, 5, 6, 7, 8, 16}


@pytest.mark.parametrize(
    ("number", "key", "value"),
    [
        (
            0,
            MemberKey(GROUP, STATIC),
            ConsumerGroupMemberMetadataValue(
                "inst-1", "rack-1", "c-one", "/127.0.0.1", (A, B), "", 300_000, None, None
            ),
        ),
        (1, GroupKey(GROUP), ConsumerGroupMetadataValue(1, -5209809033812852204)),
        (
            2,
            MemberKey(GROUP, STATIC),
            ConsumerGroupTargetAssignmentMemberValue({B_ID: frozenset({0, 1}), A_ID: frozenset({0, 1, 2})}),
        ),
        (3, GroupKey(GROUP), ConsumerGroupTargetAssignmentMetadataValue(1)),
        (
            5,
            MemberKey(GROUP, SECOND),
            ConsumerGroupMemberMetadataValue(None, None, "c-two", "/127.0.0.1", (), REGEX, 300_000, "range"),
        ),
        (
            7,
            ConsumerGroupRegularExpressionKey(GROUP, REGEX),
            ConsumerGroupRegularExpressionValue((A, B), 579, 1795344226211),
        ),
        (
            12,
            MemberKey(GROUP, STATIC),
            ConsumerGroupCurrentMemberAssignmentValue(
                1,
                1,
                1,
                {B_ID: frozenset({0}), A_ID: frozenset({0, 1})},
                {B_ID: frozenset({1}), A_ID: frozenset({2})},
            ),
        ),
        (
            16,
            MemberKey(GROUP, CLASSIC),
            ConsumerGroupMemberMetadataValue(
                None,
                None,
                "c-three",
                "/127.0.0.1",
                (A,),
                "",
                300_000,
                None,
                ClassicMemberMetadata(20_000, (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))),
            ),
        ),
        (29, MemberKey(GROUP, CLASSIC), None),
        (36, ConsumerGroupRegularExpressionKey(GROUP, REGEX), None),
        (
            38,
            MemberKey(GROUP, STATIC),
            ConsumerGroupCurrentMemberAssignmentValue(-2, 2, 0, {B_ID: frozenset({0}), A_ID: frozenset({0})}, {}),
        ),
    ],
)
def test_what_kafka_wrote_is_read(number: int, key: object, value: object) -> None:
    assert decode(*RECORDS[number]) == (key, value)


@pytest.mark.parametrize(
    ("schema", "encoded", "value"),
    [
        (CONSUMER_GROUP_METADATA, "000000000007 00", ConsumerGroupMetadataValue(7)),
        (CONSUMER_GROUP_METADATA, "000000000007 010008 0000000000000005", ConsumerGroupMetadataValue(7, 5)),
        (CONSUMER_GROUP_MEMBER_METADATA, "0000 0000 0263 032f68 01 00 ffffffff 00 01000100", PLAIN),
        (
            CONSUMER_GROUP_MEMBER_METADATA,
            "0000 0000 0263 032f68 01 00 ffffffff 00 00",
            PLAIN._replace(classic=ClassicMemberMetadata(0, ())),
        ),
        (
            CONSUMER_GROUP_MEMBER_METADATA,
            "0000 0000 0263 032f68 01 00 ffffffff 00 010007 01 00000001 01 00",
            PLAIN._replace(classic=ClassicMemberMetadata(1, ())),
        ),
        (CONSUMER_GROUP_REGULAR_EXPRESSION, "0000 01" + "00" * 17, ConsumerGroupRegularExpressionValue((), 0, 0)),
    ],
    ids=["no hash", "hash", "no classic member", "the default classic member", "a classic member", "expression"],
)
def test_tagged_fields_are_written_as_kafkas_serializers_do(
    schema: RecordSchema[Any, Any], encoded: str, value: object
) -> None:
    assert schema.decode_value(bytes.fromhex(encoded)) == value
    assert schema.encode_value(value) == bytes.fromhex(encoded)


def test_tags_that_are_not_known_are_skipped() -> None:
    assert CONSUMER_GROUP_METADATA.decode_value(bytes.fromhex("000000000007 010902abcd")) == (7, 0)
    topic = A_ID.hex + "02 00000004 010902abcd"
    value = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.decode_value(bytes.fromhex("0000 02" + topic + "010902abcd"))
    assert value.partitions == {A_ID: frozenset({4})}


def test_partition_metadata_of_kafka_4_0_is_kept_as_it_is() -> None:
    encoded = bytes.fromhex("0000 02 00000000000000010000000000000002 0274 00000001 02 00000000 020272 00 00 00")
    value = CONSUMER_GROUP_PARTITION_METADATA.decode_value(encoded)
    assert CONSUMER_GROUP_PARTITION_METADATA.encode_value(value) == encoded
    key = GroupKey("g")
    assert CONSUMER_GROUP_PARTITION_METADATA.encode_key(key) == b"\0\4\0\1g"
    assert CONSUMER_GROUP_PARTITION_METADATA.decode_key(b"\0\4\0\1g") == key


def test_partitions_are_written_in_order() -> None:
    value = ConsumerGroupTargetAssignmentMemberValue({A_ID: frozenset(range(300))})
    encoded = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.encode_value(value)
    assert encoded[19:21] == b"\xad\2"
    assert encoded[21:-2] == b"".join(index.to_bytes(4, "big") for index in range(300))
    assert CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.decode_value(encoded) == value


@pytest.mark.parametrize("schema", CONSUMER_GROUP_SCHEMAS, ids=lambda schema: schema.name)
def test_what_is_none_of_these_is_refused(schema: RecordSchema[Any, Any]) -> None:
    for data in (b"", b"\0", b"\0\1\0\0\0\0\0"):
        with pytest.raises(ValueError, match=schema.name):
            schema.decode_value(data)
    with pytest.raises(ValueError, match=schema.name):
        schema.decode_key(b"\0\3\0\4cut")


def test_values_that_are_cut_short_are_refused() -> None:
    current = bytes.fromhex(RECORDS[12][1])
    for size in range(len(current) - 1):
        with pytest.raises(ValueError, match="CurrentMemberAssignment"):
            CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.decode_value(current[:size])
    with pytest.raises(ValueError, match="MemberMetadata"):
        CONSUMER_GROUP_MEMBER_METADATA.decode_value(bytes.fromhex(RECORDS[16][1])[:-3])


def test_the_epochs_of_partitions_are_a_tag_of_each_topic_as_kafka_44_writes_them() -> None:
    written = (
        "0000 00000002 00000002 01"
        "02 0000000000000000000000000000000a 03 00000002 00000003 01 00 09 03 00000002 00000002"
        "02 0000000000000000000000000000000a 03 00000000 00000001 01 00 09 03 00000002 00000001 00"
    )
    topic = UUID(int=10)
    epochs = {topic: {2: 2, 3: 2, 0: 2, 1: 1}}
    value = ConsumerGroupCurrentMemberAssignmentValue(
        2, 2, 1, {topic: frozenset((2, 3))}, {topic: frozenset((0, 1))}, epochs
    )
    data = bytes.fromhex(written)
    assert CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.encode_value(value) == data
    assert CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.decode_value(data) == value


@pytest.mark.long
def test_a_record_may_have_more_elements_than_a_request() -> None:
    wide = {UUID(int=number): frozenset({1, 2}) for number in range(1, MOST_ELEMENTS + 2)}
    cases: tuple[tuple[RecordSchema[Any, Any], object], ...] = (
        (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, ConsumerGroupTargetAssignmentMemberValue(wide)),
        (
            CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            ConsumerGroupCurrentMemberAssignmentValue(2, 2, 1, {UUID(int=1): frozenset(range(MOST_ELEMENTS + 1))}, {}),
        ),
        (CONSUMER_GROUP_MEMBER_METADATA, PLAIN._replace(subscribed_topic_names=("t",) * (MOST_ELEMENTS + 1))),
    )
    for schema, value in cases:
        assert schema.decode_value(schema.encode_value(value)) == value
