"""Records of `__consumer_offsets`, held to bytes that Kafka 4.1 wrote and to its schemas of older versions."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from protocol.coordinator_records.group_records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.coordinator_records.record_schema import GroupKey

MEMBER = MemberMetadata("m-1", "i-1", "client", "/127.0.0.1", 60_000, 10_000, b"sub", b"assigned")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


@pytest.mark.parametrize(
    ("key", "value", "decoded"),
    [
        (
            b"\0\1\0\0\0\4oh-t\0\0\0\0",
            b"\0\4\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff\xff\2x\0\0\1\xa1\xfe\0021\x94\0",
            (OffsetCommitKey("", "oh-t", 0), OffsetCommitValue(-2, -1, "x", 1795262919060)),
        ),
        (
            b"\0\1\0\6oh-grp\0\4oh-t\0\0\0\2",
            b"\0\1\0\0\0\0\0\0\0\5\0\1x\0\0\1\xa1\xfe\0021{\0\0\1\xa2\3(\x8d{",
            (OffsetCommitKey("oh-grp", "oh-t", 2), OffsetCommitValue(5, -1, "x", 1795262919035, 1795349319035)),
        ),
    ],
    ids=["version 4", "version 1, with the client's own retention"],
)
def test_offset_commits_are_read_and_written_as_kafka_writes_them(
    key: bytes, value: bytes, decoded: tuple[OffsetCommitKey, OffsetCommitValue]
) -> None:
    assert (OFFSET_COMMIT.decode_key(key), OFFSET_COMMIT.decode_value(value)) == decoded
    assert (OFFSET_COMMIT.encode_key(decoded[0]), OFFSET_COMMIT.encode_value(decoded[1])) == (key, value)


@pytest.mark.parametrize(
    ("version", "fields", "epoch", "expires"),
    [
        (0, struct.pack(">q", 7) + text("note") + struct.pack(">q", 99), -1, -1),
        (1, struct.pack(">q", 7) + text("note") + struct.pack(">qq", 99, 100), -1, 100),
        (2, struct.pack(">q", 7) + text("note") + struct.pack(">q", 99), -1, -1),
        (3, struct.pack(">qi", 7, 3) + text("note") + struct.pack(">q", 99), 3, -1),
        (4, struct.pack(">qi", 7, 3) + b"\5note" + struct.pack(">q", 99) + b"\0", 3, -1),
        (4, struct.pack(">qi", 7, 3) + b"\5note" + struct.pack(">q", 99) + b"\1\x09\2??", 3, -1),
    ],
    ids=["0", "1", "2", "3", "4", "4 with a tag that is not known"],
)
def test_every_version_of_an_offset_commit_is_read(version: int, fields: bytes, epoch: int, expires: int) -> None:
    value = OFFSET_COMMIT.decode_value(struct.pack(">h", version) + fields)
    assert value == OffsetCommitValue(7, epoch, "note", 99, expires)


def test_a_topic_id_is_a_tagged_field() -> None:
    value = OffsetCommitValue(7, 3, "n" * 200, 99, topic_id=UUID(int=5))
    encoded = OFFSET_COMMIT.encode_value(value)
    assert encoded.endswith(b"\1\0\x10" + bytes(15) + b"\5")
    assert OFFSET_COMMIT.decode_value(encoded) == value


def test_the_oldest_key_of_an_offset_commit_is_read() -> None:
    assert OFFSET_COMMIT.decode_key(b"\0\0\0\1g\0\1t\0\0\0\3") == OffsetCommitKey("g", "t", 3)


def test_group_metadata_is_written_in_version_3_and_read_back() -> None:
    value = GroupMetadataValue("consumer", 4, "range", "m-1", 99, (MEMBER, MEMBER._replace(group_instance_id=None)))
    encoded = GROUP_METADATA.encode_value(value)
    assert encoded[:2] == b"\0\3"
    assert GROUP_METADATA.decode_value(encoded) == value
    empty = GroupMetadataValue("consumer", 5, None, None, 99, ())
    assert GROUP_METADATA.decode_value(GROUP_METADATA.encode_value(empty)) == empty
    assert GROUP_METADATA.decode_key(GROUP_METADATA.encode_key(GroupKey("grüße"))) == ("grüße",)


@pytest.mark.parametrize("version", range(4))
def test_every_older_version_of_group_metadata_is_read(version: int) -> None:
    member = text("m-1")
    if version >= 3:
        member += text("i-1")
    member += text("client") + text("/127.0.0.1")
    if version >= 1:
        member += struct.pack(">i", 60_000)
    member += struct.pack(">ii", 10_000, 3) + b"sub" + struct.pack(">i", 8) + b"assigned"
    encoded = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range") + text("m-1")
    if version >= 2:
        encoded += struct.pack(">q", 99)
    value = GROUP_METADATA.decode_value(encoded + struct.pack(">i", 1) + member)
    expected = MEMBER._replace(
        group_instance_id="i-1" if version >= 3 else None, rebalance_timeout=60_000 if version >= 1 else -1
    )
    timestamp = 99 if version >= 2 else -1
    assert value == GroupMetadataValue("consumer", 4, "range", "m-1", timestamp, (expected,))


def test_flexible_group_metadata_is_read() -> None:
    member = b"\4m-1\0\7client\x0b/127.0.0.1" + struct.pack(">ii", 60_000, 10_000) + b"\4sub\x09assigned\0"
    encoded = (
        b"\0\4\x09consumer" + struct.pack(">i", 4) + b"\6range\4m-1" + struct.pack(">q", 99) + b"\2" + member + b"\0"
    )
    value = GROUP_METADATA.decode_value(encoded)
    assert value.members == (MEMBER._replace(group_instance_id=None),)
    assert (value.generation, value.current_state_timestamp) == (4, 99)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\5",
        b"\0\4\0\0",
        b"\0\3" + struct.pack(">qi", 7, 3) + b"\0\x09note",
        b"\0\4" + struct.pack(">qi", 7, 3) + b"\xff",
    ],
    ids=["empty", "cut in the version", "version", "cut", "text too long", "varint cut"],
)
def test_what_is_no_value_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="OffsetCommit"):
        OFFSET_COMMIT.decode_value(data)


def test_text_that_is_not_utf8_is_read_as_java_does() -> None:
    data = b"\0\3" + struct.pack(">qi", 7, 3) + b"\0\1\xff" + bytes(8)
    assert OFFSET_COMMIT.decode_value(data) == OffsetCommitValue(7, 3, "\ufffd", 0)


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(ValueError, match="GroupMetadata"):
        GROUP_METADATA.decode_key(b"\0\2\0\x09cut")
