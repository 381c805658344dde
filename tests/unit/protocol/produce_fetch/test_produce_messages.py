"""The Produce codec is byte for byte kio's, in every version, and copies no record data."""

from __future__ import annotations

import random
from datetime import timedelta
from struct import pack
from typing import Any
from uuid import UUID

import pytest

from protocol.api.messages import request_class, response_class
from protocol.api.table import API_BY_NAME
from protocol.primitives import DecodeError
from protocol.produce_fetch.produce_messages import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    decode_request,
    encode_response,
)
from tests.unit.protocol.mutation import check_mutations

API = API_BY_NAME["produce"]
ZERO = UUID(int=0)
each_version = pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def key(topic: Any) -> str | UUID:
    return topic.name if hasattr(topic, "name") else topic.topic_id or ZERO


def light(response: Any) -> ProduceResponse:
    """kio's response as the codec's own."""
    topics = [(key(topic), [light_partition(p) for p in topic.partition_responses]) for topic in response.responses]
    endpoints = tuple(NodeEndpoint(e.node_id, e.host, e.port, e.rack) for e in getattr(response, "node_endpoints", ()))
    return ProduceResponse(topics, milliseconds(response.throttle_time), endpoints)


def light_partition(p: Any) -> PartitionProduceResponse:
    partition = PartitionProduceResponse(p.index, p.error_code, p.base_offset)
    if p.log_append_time is not None:
        partition.log_append_time_ms = round(p.log_append_time.timestamp() * 1000)
    partition.log_start_offset = getattr(p, "log_start_offset", -1)
    partition.record_errors = tuple(
        BatchIndexAndErrorMessage(e.batch_index, e.batch_index_error_message) for e in getattr(p, "record_errors", ())
    )
    partition.error_message = getattr(p, "error_message", None)
    if hasattr(p, "current_leader"):
        partition.current_leader = LeaderIdAndEpoch(p.current_leader.leader_id, p.current_leader.leader_epoch)
    return partition


@each_version
def test_requests_are_read_as_kio_wrote_them(version: int, generator: Any, kio_bytes: Any) -> None:
    make = generator(version)
    for _ in range(30):
        request = make.entity(request_class(API.key, version))
        frame = memoryview(bytearray(b"head" + kio_bytes(request) + b"trailing"))
        decoded = decode_request(version, frame, 4)
        assert decoded.transactional_id == request.transactional_id
        assert (decoded.acks, decoded.timeout_ms) == (request.acks, milliseconds(request.timeout))
        assert decoded.topics == [
            (key(topic), [(data.index, data.records) for data in topic.partition_data]) for topic in request.topic_data
        ]


@each_version
def test_record_data_is_a_slice_of_the_frame(version: int, generator: Any, kio_bytes: Any) -> None:
    cls = request_class(API.key, version)
    request = next(
        request
        for request in map(generator(version).entity, [cls] * 100)
        if any(data.records for topic in request.topic_data for data in topic.partition_data)
    )
    frame = bytearray(kio_bytes(request))
    slices = [data for _, partitions in decode_request(version, memoryview(frame), 0).topics for _, data in partitions]
    found = [data for data in slices if data]
    assert found
    for data in found:
        assert data.obj is frame
        assert not data.readonly


@each_version
def test_responses_are_kios_bytes(version: int, generator: Any, kio_bytes: Any) -> None:
    make = generator(version)
    for _ in range(40):
        response = make.entity(response_class(API.key, version))
        body = pack(">i", 77) + b"\0" * (version >= 9) + kio_bytes(response)
        assert bytes(encode_response(light(response), version, 77)) == pack(">i", len(body)) + body


def test_fields_that_a_version_lacks_are_left_out() -> None:
    errors, leader = (BatchIndexAndErrorMessage(3, "bad"),), LeaderIdAndEpoch(1, 2)
    endpoints = (NodeEndpoint(1, "h", 2),)
    full = ProduceResponse([("t", [PartitionProduceResponse(0, 0, 5, -1, 3, errors, "why", leader)])], 0, endpoints)
    for version in range(3, 10):
        plain = PartitionProduceResponse(0, 0, 5)
        if version >= 5:
            plain.log_start_offset = 3
        if version >= 8:
            plain.record_errors, plain.error_message = errors, "why"
        assert encode_response(full, version, 1) == encode_response(ProduceResponse([("t", [plain])]), version, 1)


def test_a_leader_alone_is_not_told_before_version_10() -> None:
    told = ProduceResponse([("t", [PartitionProduceResponse(0, 6, current_leader=LeaderIdAndEpoch(1, 2))])])
    plain = ProduceResponse([("t", [PartitionProduceResponse(0, 6)])])
    assert encode_response(told, 9, 1) == encode_response(plain, 9, 1)
    assert encode_response(told, 10, 1) != encode_response(plain, 10, 1)


@each_version
def test_mutated_requests_are_read_or_refused(version: int, generator: Any, kio_bytes: Any) -> None:
    make, rng = generator(version), random.Random(version)
    cls = request_class(API.key, version)
    check_mutations(
        lambda: kio_bytes(make.entity(cls)), lambda body: decode_request(version, memoryview(body), 0), rng, 300, 60
    )


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        (9, b"", "cut short"),
        (9, b"\x00\xff\xff\0\0\0\x01\x00", "topic data is null"),
        (8, b"\xff\xff\xff\xff\0\0\0\x01\xff\xff\xff\xff", "topic data has length -1"),
        (9, b"\x81\x80\x02" + bytes(32_768), "transactional id has invalid length 32768"),
        (9, b"\x00\xff\xff\0\0\0\x01\x02\x00", "topic name is null"),
        (9, b"\x00\xff\xff\0\0\0\x01\xff\xff\xff\xff\x0f", "topic data is null"),
        (9, b"\x00\xff\xff\0\0\0\x01\x80\x80\x80\x80\x08", "topic data needs 2147483647 bytes"),
        (13, b"\x00\xff\xff\0\0\0\x01\x02\x00", "topic id needs 16 bytes"),
        (9, b"\x00\xff\xff\0\0\0\x01\x02\x02t\x02\0\0\0\0\x80\x80\x80\x80\x08", "record data needs 2147483647 bytes"),
        (8, b"\xff\xff\xff\xff\0\0\0\x01\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\x09abc", "record data needs 9 bytes"),
    ],
)
def test_what_is_wrong_is_told(version: int, body: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_request(version, memoryview(body), 0)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (8, b"\xff\xfe\xff\xff\0\0\0\x01\0\0\0\x01\0\x02\xfft\0\0\0\x01\0\0\0\0\x80\0\0\0"),
        (9, b"\xff\xff\xff\xff\x0f\xff\xff\0\0\0\x01\x02\x03\xfft\x02\0\0\0\0\xff\xff\xff\xff\x0f\0\0\0"),
    ],
)
def test_negative_lengths_are_null_and_what_is_not_utf8_is_replaced(version: int, body: bytes) -> None:
    request = decode_request(version, memoryview(body), 0)
    assert (request.transactional_id, request.topics) == (None, [("\ufffdt", [(0, None)])])
