"""A few megabytes of tiny array elements are refused before they are read: reading them would stop everybody else."""

from __future__ import annotations

import struct

import pytest

from protocol.api.messages import request_reader
from protocol.primitives import MOST_ELEMENTS, DecodeError, TooManyElementsError
from protocol.produce_fetch import fetch_request, produce_messages

METADATA, OFFSET_COMMIT, PRODUCE = 3, 8, 0
NAME = b"\0\1a"
NO_RECORDS = struct.pack(">ii", 0, -1)


def topics(count: int) -> bytes:
    return struct.pack(">i", count) + NAME * count


def produce(topics: int, partitions: int) -> memoryview:
    topic = b"\0\1t" + struct.pack(">i", partitions) + NO_RECORDS * partitions
    return memoryview(struct.pack(">hhii", -1, 1, 0, topics) + topic * topics)


def test_as_many_as_there_may_be_are_read() -> None:
    request, _ = request_reader(METADATA, 1)(topics(MOST_ELEMENTS), 0)
    assert len(request.topics) == MOST_ELEMENTS
    found = produce_messages.decode_request(7, produce(10, MOST_ELEMENTS // 10 - 1), 0)
    assert len(found.topics) == 10


def test_more_are_refused() -> None:
    with pytest.raises(TooManyElementsError, match=r"MetadataRequest\.topics: more than 50000 elements"):
        request_reader(METADATA, 1)(topics(MOST_ELEMENTS + 1), 0)
    with pytest.raises(DecodeError, match="3 are left"):
        request_reader(METADATA, 1)(struct.pack(">i", MOST_ELEMENTS + 1) + NAME, 0)


@pytest.mark.long
def test_arrays_in_arrays_count_together() -> None:
    partition = struct.pack(">iqih", 0, 0, -1, -1)
    topic = NAME + struct.pack(">i", 100) + partition * 100
    body = NAME + struct.pack(">i", -1) + NAME + struct.pack(">h", -1) + struct.pack(">i", 600) + topic * 600
    with pytest.raises(TooManyElementsError):
        request_reader(OFFSET_COMMIT, 7)(body, 0)
    with pytest.raises(TooManyElementsError):
        produce_messages.decode_request(7, produce(600, 100), 0)


def test_a_fetch_is_judged_by_its_size() -> None:
    with pytest.raises(TooManyElementsError):
        fetch_request.decode_request(12, memoryview(bytes(fetch_request.LARGEST_REQUEST + 1)), 0)
