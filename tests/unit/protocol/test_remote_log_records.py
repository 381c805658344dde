"""The records of `__remote_log_metadata`, against bytes made by Kafka 4.4's own classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol import uuids
from protocol.primitives import DecodeError
from protocol.remote_log_records import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_PARTITION_MARKED,
    RemoteLogRecord,
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
    decode_remote_log_record,
    encode_remote_log_record,
    metadata_partition,
)

TOPIC_ID = uuids.from_text("MWJ6FHTfRYy67jzwZdeqSQ")
PARTITION = TopicIdPartitionEntry(name="topic", id=TOPIC_ID, partition=7)
SEGMENT = RemoteLogSegmentIdEntry(topic_id_partition=PARTITION, id=uuids.from_text("tqimKeZwStOEOwRzT3L5oQ"))
STARTED = RemoteLogSegmentMetadataRecord(
    remote_log_segment_id=SEGMENT,
    start_offset=1234,
    end_offset=1999,
    broker_id=1,
    max_timestamp_ms=1_700_000_000_000,
    event_timestamp_ms=1_700_000_000_001,
    segment_leader_epochs=(
        SegmentLeaderEpochEntry(leader_epoch=0, offset=1234),
        SegmentLeaderEpochEntry(leader_epoch=2, offset=1300),
    ),
    segment_size_in_bytes=1 << 20,
    remote_log_segment_state=COPY_SEGMENT_STARTED,
)
STARTED_BYTES = (
    "01000006746f70696331627a1474df458cbaee3cf065d7aa490000000700b6a8a629e6704ad3843b04734f72f9a1000000000000"
    "0004d200000000000007cf000000010000018bcfe568000000018bcfe56801030000000000000000000004d20000000002000000"
    "00000005140000100000000000"
)
GOLDENS: list[tuple[RemoteLogRecord, str]] = [
    (STARTED, STARTED_BYTES),
    (replace(STARTED, txn_index_empty=True), STARTED_BYTES[:-2] + "01000101"),
    (
        RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=SEGMENT,
            broker_id=1,
            event_timestamp_ms=1_700_000_000_002,
            custom_metadata=b"\x01\x02",
            remote_log_segment_state=COPY_SEGMENT_FINISHED,
        ),
        "01010006746f70696331627a1474df458cbaee3cf065d7aa490000000700b6a8a629e6704ad3843b04734f72f9a10000000001"
        "0000018bcfe568020301020100",
    ),
    (
        RemotePartitionDeleteMetadataRecord(
            topic_id_partition=PARTITION,
            broker_id=1,
            event_timestamp_ms=1_700_000_000_003,
            remote_partition_delete_state=DELETE_PARTITION_MARKED,
        ),
        "01020006746f70696331627a1474df458cbaee3cf065d7aa490000000700000000010000018bcfe568030000",
    ),
]


@pytest.mark.parametrize(("record", "golden"), GOLDENS)
def test_a_remote_log_record_has_kafkas_bytes(record: RemoteLogRecord, golden: str) -> None:
    assert encode_remote_log_record(record).hex() == golden
    assert decode_remote_log_record(bytes.fromhex(golden)) == record


@pytest.mark.parametrize("value", ["", "01", "010300", "010001", STARTED_BYTES[:-4], STARTED_BYTES + "00"])
def test_what_is_no_remote_log_record_is_refused(value: str) -> None:
    with pytest.raises((DecodeError, ValueError)):
        decode_remote_log_record(bytes.fromhex(value))


@pytest.mark.parametrize(("count", "expected"), [(50, [42, 45, 26]), (5, [2, 0, 1])])
def test_the_metadata_partition_is_the_one_that_kafka_chooses(count: int, expected: list[int]) -> None:
    assert [metadata_partition(TOPIC_ID, partition, count) for partition in (0, 1, 7)] == expected
