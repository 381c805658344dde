"""Request headers of both versions, and what is no header."""

from __future__ import annotations

import io
import random
from struct import pack

import pytest
from kio.schema.request_header.v1 import RequestHeader as KioHeader1
from kio.schema.request_header.v2 import RequestHeader as KioHeader2
from kio.serial import entity_writer

from protocol.api.table import API_BY_NAME
from protocol.headers import DecodeError, RequestHeader, finish_frame, frame_with_header, parse_request_header


@pytest.mark.parametrize("client_id", ["abc", "", "é€", "x" * 300, None])
@pytest.mark.parametrize(("version", "cls"), [(8, KioHeader1), (9, KioHeader2), (30, KioHeader2)])
def test_reads_what_kio_writes(version: int, cls: type, client_id: str | None) -> None:
    buffer = io.BytesIO()
    header = cls(request_api_key=3, request_api_version=version, correlation_id=-7, client_id=client_id)
    entity_writer(cls)(buffer, header)
    frame = memoryview(bytearray(buffer.getvalue() + b"body"))
    assert parse_request_header(frame) == RequestHeader(3, version, -7, client_id, len(frame) - len(b"body"))


def test_tagged_fields_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x85\x01\x00"
    parsed = parse_request_header(pack(">hhih", 3, 9, 1, -1) + tags + b"body")
    assert parsed.client_id is None
    assert parsed.body == 10 + len(tags)


def test_a_client_id_that_is_no_utf8_is_replaced_as_java_does() -> None:
    parsed = parse_request_header(pack(">hhih", 3, 8, 1, 2) + b"a\xff")
    assert parsed.client_id == "a�"


def test_a_client_id_of_any_negative_length_is_null() -> None:
    assert parse_request_header(pack(">hhih", 3, 8, 1, -2)).client_id is None


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "request header needs 10 bytes"),
        (pack(">hhih", 3, 8, 1, -1)[:9], "request header needs 10 bytes"),
        (pack(">hhih", 999, 0, 1, -1), "unknown API key 999"),
        (pack(">hhih", -1, 0, 1, -1), "unknown API key -1"),
        (pack(">hhih", 3, 8, 1, 32767) + b"abc", "client id needs 32767 bytes"),
        (pack(">hhih", 3, 9, 1, -1), "cut short"),
        (pack(">hhih", 3, 9, 1, -1) + b"\x01\x00\xff\xff\xff\xff\x0f", "tagged field 0 needs 4294967295 bytes"),
        (pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\x07", "cut short"),
        (pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\xff\x01", "longer than 5 bytes"),
    ],
)
def test_what_is_no_header_is_told(frame: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        parse_request_header(frame)


def test_random_bytes_are_read_or_refused() -> None:
    rng = random.Random(1)
    refused = 0
    for _ in range(2000):
        start = pack(">hhih", rng.choice([0, 1, 3, 18, 75]), rng.randrange(20), 1, rng.randrange(-2, 12))
        frame = start + rng.randbytes(rng.randrange(20))
        try:
            body = parse_request_header(frame).body
        except DecodeError:
            refused += 1
        else:
            assert body <= len(frame)
    assert 0 < refused < 2000


def test_response_frames_carry_header_1_from_the_first_flexible_version_save_for_api_versions() -> None:
    metadata, api_versions = API_BY_NAME["metadata"], API_BY_NAME["api_versions"]
    assert bytes(finish_frame(frame_with_header(metadata.response_header_version(8), 5))) == pack(">ii", 4, 5)
    assert bytes(finish_frame(frame_with_header(metadata.response_header_version(9), 5))) == pack(">iib", 5, 5, 0)
    assert bytes(finish_frame(frame_with_header(api_versions.response_header_version(4), 5))) == pack(">ii", 4, 5)
    assert bytes(finish_frame(frame_with_header(metadata.response_header_version(8), 5), 100)) == pack(">ii", 104, 5)
