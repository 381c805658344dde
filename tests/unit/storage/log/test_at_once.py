"""What the loop checks itself: little work, whatever a batch's size and header say; the rest is for a worker thread."""

from __future__ import annotations

import gzip

import pytest

from protocol.records.build import Record, build_batch
from protocol.records.compression import (
    Compression,
    DecompressionLimitError,
    compress,
    decompress,
)
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import LARGEST_EXACT_AT_ONCE, MOST_HEADERS_AT_ONCE, LargeBatchError
from storage.log.validator import (
    MOST_BYTES_AT_ONCE,
    MOST_RECORDS_AT_ONCE,
    PLAIN_FACTOR,
    REBUILT_BYTES_AT_ONCE,
    REBUILT_RECORDS_AT_ONCE,
    validate,
)
from tests.unit.storage.support import NOW

EMPTY_HEADER = (b"", None)
SKIPPABLE = b"\x50\x2a\x4d\x18\0\0\0\0"
ZSTD_FRAME = b"\x28\xb5\x2f\xfd\x00\x58"


def batch(count: int = 1, value: bytes = b"", headers: int = 0, codec: Compression = Compression.NONE) -> bytes:
    records = [Record(i, NOW, None, value, (EMPTY_HEADER,) * headers) for i in range(count)]
    return bytes(build_batch(records, compression=codec))


def check(data: bytes, **config: object) -> None:
    given = LogConfig(**config)  # type: ignore[arg-type]
    validate(memoryview(bytearray(data)), given, AppendOrigin.CLIENT, NOW, "t-0", at_once=True)


@pytest.mark.parametrize(
    ("data", "config"),
    [
        (batch(MOST_RECORDS_AT_ONCE), {}),
        (batch(REBUILT_RECORDS_AT_ONCE), {"compression_type": "gzip"}),
        (batch(MOST_HEADERS_AT_ONCE // 50, headers=50), {}),
        (batch(value=bytes(MOST_BYTES_AT_ONCE - 100), codec=Compression.GZIP), {}),
        (batch(4 * PLAIN_FACTOR, bytes(MOST_BYTES_AT_ONCE // 4 - 100)), {"max_message_bytes": 1 << 30}),
    ],
    ids=["records", "records, rebuilt", "headers", "decompressed", "plain"],
)
def test_up_to_the_limits_a_batch_is_checked_on_the_loop(data: bytes, config: dict[str, object]) -> None:
    check(data, **config)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_few_bytes_of_countless_headers_are_not_walked_on_the_loop(codec: Compression) -> None:
    with pytest.raises(LargeBatchError):
        check(batch(headers=100_000, codec=codec))
    with pytest.raises(LargeBatchError):
        check(batch(MOST_RECORDS_AT_ONCE, headers=10, codec=codec))


def test_records_that_must_be_looked_at_one_by_one_are_not_on_the_loop() -> None:
    keyless = batch(1000, b"value")
    assert len(keyless) > LARGEST_EXACT_AT_ONCE
    with pytest.raises(LargeBatchError):
        check(keyless, compact=True)


def test_little_more_than_a_few_kilobytes_is_compressed_anew_on_the_loop() -> None:
    with pytest.raises(LargeBatchError):
        check(batch(value=bytes(REBUILT_BYTES_AT_ONCE)), compression_type="gzip", compression_gzip_level=9)


def test_compression_that_is_slow_to_set_up_is_not_on_the_loop() -> None:
    with pytest.raises(LargeBatchError):
        check(batch(), compression_type="zstd", compression_zstd_level=22)
    check(batch(), compression_type="zstd", compression_zstd_level=3)


@pytest.mark.parametrize(
    ("codec", "parts"),
    [
        (Compression.GZIP, gzip.compress(b"", mtime=0) * 45_000),
        (Compression.SNAPPY, compress(Compression.SNAPPY, b"") + b"\0\0\0\1\0" * 200_000),
        (Compression.ZSTD, SKIPPABLE * 100_000),
        (Compression.ZSTD, ZSTD_FRAME + bytes(3) * 300_000),
    ],
    ids=["gzip members", "snappy blocks", "zstd skippable frames", "zstd blocks"],
)
def test_countless_empty_parts_are_too_much_however_little_they_hold(codec: Compression, parts: bytes) -> None:
    with pytest.raises(DecompressionLimitError):
        decompress(codec, parts, MOST_BYTES_AT_ONCE)


def test_a_few_parts_are_read_as_ever() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"a") + gzip.compress(b"b"), 2) == b"ab"
    twice = compress(Compression.ZSTD, b"a") + SKIPPABLE + compress(Compression.ZSTD, b"b")
    assert decompress(Compression.ZSTD, twice, 2) == b"ab"
