"""The Fetch codec is byte for byte kio's, in every version, and copies no large record data."""

from __future__ import annotations

import random
from datetime import timedelta
from struct import pack
from typing import Any
from uuid import UUID

import pytest

from protocol.api.messages import request_class, request_reader, response_class
from protocol.api.table import API_BY_NAME
from protocol.primitives import Buffer, DecodeError, UnreadBytes
from protocol.produce_fetch.fetch_request import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    SnapshotId,
    decode_request,
    encode_response,
)
from protocol.produce_fetch.fetch_response import COPIED_BELOW
from protocol.produce_fetch.parts import LeaderIdAndEpoch, NodeEndpoint
from tests.unit.protocol.mutation import check_mutations

API = API_BY_NAME["fetch"]
ZERO = UUID(int=0)
each_version = pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def key(topic: Any) -> str | UUID:
    return topic.topic if hasattr(topic, "topic") else topic.topic_id or ZERO


def light_request(request: Any) -> FetchRequest:
    """kio's request as the codec's own."""
    state = getattr(request, "replica_state", None)
    return FetchRequest(
        max_wait_ms=milliseconds(request.max_wait),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=getattr(request, "session_id", 0),
        session_epoch=getattr(request, "session_epoch", -1),
        topics=[(key(topic), [light_partition(p) for p in topic.partitions]) for topic in request.topics],
        forgotten_topics=[(key(t), t.partitions) for t in getattr(request, "forgotten_topics_data", ())],
        rack_id=getattr(request, "rack_id", ""),
        replica_id=state.replica_id if state else request.replica_id,
        replica_epoch=state.replica_epoch if state else -1,
        cluster_id=getattr(request, "cluster_id", None),
    )


def light_partition(p: Any) -> FetchPartition:
    return FetchPartition(
        partition=p.partition,
        fetch_offset=p.fetch_offset,
        partition_max_bytes=p.partition_max_bytes,
        log_start_offset=getattr(p, "log_start_offset", -1),
        current_leader_epoch=getattr(p, "current_leader_epoch", -1),
        last_fetched_epoch=getattr(p, "last_fetched_epoch", -1),
        replica_directory_id=getattr(p, "replica_directory_id", None) or ZERO,
        high_watermark=getattr(p, "high_watermark", 2**63 - 1),
    )


def light_response(response: Any) -> FetchResponse:
    return FetchResponse(
        topics=[(key(t), [light_partition_response(p) for p in t.partitions]) for t in response.responses],
        error_code=getattr(response, "error_code", 0),
        session_id=getattr(response, "session_id", 0),
        throttle_time_ms=milliseconds(response.throttle_time),
        node_endpoints=tuple(
            NodeEndpoint(e.node_id, e.host, e.port, e.rack) for e in getattr(response, "node_endpoints", ())
        ),
    )


def light_partition_response(p: Any) -> FetchPartitionResponse:
    aborted = p.aborted_transactions
    partition = FetchPartitionResponse(
        p.partition_index,
        p.error_code,
        p.high_watermark,
        p.last_stable_offset,
        getattr(p, "log_start_offset", -1),
        None if aborted is None else [AbortedTransaction(a.producer_id, a.first_offset) for a in aborted],
        getattr(p, "preferred_read_replica", -1),
        p.records,
    )
    if hasattr(p, "diverging_epoch"):
        partition.diverging_epoch = EpochEndOffset(p.diverging_epoch.epoch, p.diverging_epoch.end_offset)
        partition.current_leader = LeaderIdAndEpoch(p.current_leader.leader_id, p.current_leader.leader_epoch)
        partition.snapshot_id = SnapshotId(p.snapshot_id.end_offset, p.snapshot_id.epoch)
    return partition


@each_version
@pytest.mark.parametrize("buffer", [bytes, lambda data: memoryview(bytearray(data))], ids=["bytes", "memoryview"])
def test_requests_are_read_as_kio_wrote_them(version: int, buffer: Any, generator: Any, kio_bytes: Any) -> None:
    make = generator(version)
    for _ in range(30):
        request = make.entity(request_class(API.key, version))
        frame = buffer(b"head" + kio_bytes(request) + b"trailing")
        assert decode_request(version, frame, 4) == light_request(request)


def whole(parts: list[Buffer | UnreadBytes]) -> bytes:
    """A frame, all of which is in memory."""
    return b"".join(part for part in parts if not isinstance(part, UnreadBytes))


@each_version
def test_responses_are_kios_bytes(version: int, generator: Any, kio_bytes: Any) -> None:
    make = generator(version)
    for _ in range(40):
        response = make.entity(response_class(API.key, version))
        body = pack(">i", 77) + b"\0" * (version >= 12) + kio_bytes(response)
        buffers = encode_response(light_response(response), version, 77)
        assert whole(buffers) == pack(">i", len(body)) + body
        assert all(buffers)


@each_version
def test_large_record_data_is_sent_from_where_it_is(version: int) -> None:
    topic: str | UUID = "t" if version < 13 else UUID(int=9)
    large, small = memoryview(bytearray(COPIED_BELOW)), memoryview(bytearray(COPIED_BELOW - 1))
    partitions = [FetchPartitionResponse(n, records=data) for n, data in enumerate([large, small, large, None, b""])]
    buffers = encode_response(FetchResponse([(topic, partitions)]), version, 1)
    assert len(buffers) == 5
    assert buffers[1] is large
    assert buffers[3] is large
    assert len(whole(buffers)) == 4 + int.from_bytes(whole(buffers)[:4], "big")


def test_fields_that_a_version_lacks_are_left_out() -> None:
    full = FetchPartitionResponse(
        0,
        log_start_offset=3,
        preferred_read_replica=2,
        diverging_epoch=EpochEndOffset(1, 2),
        current_leader=LeaderIdAndEpoch(1, 2),
        snapshot_id=SnapshotId(1, 2),
    )
    endpoints = (NodeEndpoint(1, "h", 2),)
    for version in range(4, 12):
        plain = FetchPartitionResponse(
            0,
            log_start_offset=3 if version >= 5 else -1,
            preferred_read_replica=2 if version >= 11 else -1,
        )
        rich = encode_response(FetchResponse([("t", [full])], node_endpoints=endpoints), version, 1)
        assert rich == encode_response(FetchResponse([("t", [plain])]), version, 1)
    for version in range(13, 16):
        with_endpoints = FetchResponse([(ZERO, [full])], node_endpoints=endpoints)
        assert encode_response(with_endpoints, version, 1) == encode_response(
            FetchResponse([(ZERO, [full])]), version, 1
        )


@each_version
def test_mutated_requests_are_read_or_refused(version: int, generator: Any, kio_bytes: Any) -> None:
    make, rng = generator(version), random.Random(version)
    cls = request_class(API.key, version)
    check_mutations(
        lambda: kio_bytes(make.entity(cls)), lambda body: decode_request(version, memoryview(body), 0), rng, 300
    )


@pytest.mark.parametrize(
    ("tags", "first"), [(b"\x01\x00\x10" + bytes(16), 17), (b"\x01\x01\x08" + bytes(8), 18), (b"\x01\x09\x00", 13)]
)
def test_tags_of_a_later_version_are_refused_and_unknown_ones_skipped(tags: bytes, first: int) -> None:
    """As by Kafka's generated classes."""
    fixed = pack(">iiqiqi", 0, -1, 7, -1, -1, 100)
    topics = b"\x02" + bytes(16) + b"\x02" + fixed + tags + b"\0"
    for version in range(13, 19):
        body = (pack(">i", -1) if version < 15 else b"") + START + SESSION + topics + b"\x01\x01\0"
        if version < first:
            with pytest.raises(DecodeError, match="not valid"):
                decode_request(version, body, 0)
        else:
            assert decode_request(version, body, 0).topics[0][1][0].fetch_offset == 7


@pytest.mark.parametrize("version", [12, 13, 14])
def test_the_replicas_state_is_no_tag_of_old_versions(version: int) -> None:
    body = pack(">i", -1) + START + SESSION + b"\x01\x01\x01" + b"\x01\x01\x0d" + pack(">iqB", 5, 9, 0)
    with pytest.raises(DecodeError, match="not valid"):
        decode_request(version, body, 0)


START = pack(">iiib", 500, 1, 2, 0)  # wait, bytes, isolation
SESSION = pack(">ii", 0, -1)


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        (4, b"", "cut short"),
        (18, START, "cut short"),
        (18, START + SESSION + b"\x00", "topics is null"),
        (18, START + SESSION + b"\x02abc", "topic id needs 16 bytes"),
        (18, START + SESSION + b"\xff\xff\xff\xff\x0f", "topics is null"),
        (18, START + SESSION + b"\xff\xff\xff\xff\x07", "topics needs 2147483646 bytes"),
        (11, pack(">i", -1) + START + SESSION + pack(">i", -2), "topics has length -2"),
        (18, START + SESSION + b"\x01\x02" + bytes(16) + b"\x04" + bytes(4), "partition indexes needs 12 bytes"),
        (18, START + SESSION + b"\x01\x01\x00", "rack id is null"),
        (18, START + SESSION + b"\x01\x01\x01\x01\x01\x05\0\0\0\0\0", "cut short"),
        (18, START + SESSION + b"\x01\x01\x01\x01\x07\x7f" + bytes(9), "tagged field 7 needs 127 bytes"),
    ],
)
def test_what_is_wrong_is_told(version: int, body: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_request(version, memoryview(body), 0)


@pytest.mark.parametrize("announced", [0, 12, 13, 100])
def test_how_long_a_known_tagged_field_is_said_to_be_does_not_matter(announced: int) -> None:
    """Kafka's generated classes do not look at it."""
    tags = b"\x02\x01" + bytes([announced]) + pack(">iqB", 5, 9, 0) + b"\x07\x01x"
    body = START + SESSION + b"\x01\x01\x01" + tags
    read = decode_request(18, memoryview(body), 0)
    assert (read.replica_id, read.replica_epoch) == (5, 9)
    generic, end = request_reader(1, 18)(body, 0)
    assert (generic.replica_state.replica_id, generic.replica_state.replica_epoch, end) == (5, 9, len(body))
