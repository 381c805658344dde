"""A follower's Fetch: what it writes is read as it was meant, and it reads what any broker answers."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from protocol.api.messages import response_class
from protocol.api.table import API_BY_NAME
from protocol.primitives import UnreadBytes
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest, decode_request
from protocol.produce_fetch.fetch_response import NO_EPOCH
from protocol.produce_fetch.replica_fetch import HIGHEST, LOWEST, decode_response, encode_request
from tests.unit.protocol.mutation import check_mutations

API = API_BY_NAME["fetch"]
VERSIONS = range(LOWEST, HIGHEST + 1)


def some_request(rng: random.Random) -> FetchRequest:
    def index() -> int:
        return rng.randrange(1000)

    return FetchRequest(
        max_wait_ms=index(),
        min_bytes=index(),
        max_bytes=index(),
        session_id=index(),
        session_epoch=rng.randrange(-1, 10),
        topics=[
            (
                UUID(int=rng.getrandbits(128)),
                [
                    FetchPartition(index(), rng.getrandbits(60), index(), index(), index(), index())
                    for _ in range(rng.choice([0, 1, 3, 200]))
                ],
            )
            for _ in range(rng.randrange(4))
        ],
        forgotten_topics=[(UUID(int=index()), tuple(index() for _ in range(rng.randrange(4)))) for _ in range(2)],
        replica_id=index(),
        replica_epoch=rng.getrandbits(60),
    )


def test_brokers_read_the_request_as_it_was_meant() -> None:
    rng = random.Random(1)
    for _ in range(50):
        request, out = some_request(rng), bytearray()
        encode_request(out, request)
        for version in VERSIONS:
            assert decode_request(version, bytes(out), 0) == request


@pytest.mark.parametrize("version", VERSIONS)
def test_what_kio_writes_is_read(version: int, generator: Any, kio_bytes: Any) -> None:
    make = generator(version)
    for _ in range(60):
        response = make.entity(response_class(API.key, version))
        read = decode_response(b"head" + kio_bytes(response), 4)
        assert (read.error_code, read.session_id) == (response.error_code, response.session_id)
        for (topic_id, partitions), topic in zip(read.topics, response.responses, strict=True):
            assert topic_id == (topic.topic_id or UUID(int=0))
            for one, wanted in zip(partitions, topic.partitions, strict=True):
                assert (one.partition_index, one.error_code) == (wanted.partition_index, wanted.error_code)
                assert (one.high_watermark, one.log_start_offset) == (wanted.high_watermark, wanted.log_start_offset)
                assert [*(one.aborted_transactions or ())] == [
                    (each.producer_id, each.first_offset) for each in wanted.aborted_transactions or ()
                ]
                records = one.records or b""
                assert not isinstance(records, UnreadBytes)
                assert bytes(records) == bytes(wanted.records or b"")
                diverging = wanted.diverging_epoch
                assert (one.diverging_epoch != NO_EPOCH) == (
                    (diverging.epoch, diverging.end_offset) != (NO_EPOCH.epoch, NO_EPOCH.end_offset)
                )


def test_no_bytes_make_it_fail_otherwise(generator: Any, kio_bytes: Any) -> None:
    make, rng = generator(HIGHEST), random.Random(2)
    cls = response_class(API.key, HIGHEST)
    check_mutations(lambda: kio_bytes(make.entity(cls)), lambda body: decode_response(body, 0), rng, 400)
