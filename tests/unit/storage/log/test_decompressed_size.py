"""`max.decompressed.message.bytes`: the body of each record of a compressed batch, before it is compressed anew."""

from __future__ import annotations

import pytest

from protocol.errors import InvalidRecord
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.log.validator import validate

LIMIT = 2000
NOW = 1_700_000_000_000
LARGEST_VALUE = 1993
"""With which a record without a key has a body of 2000 bytes."""


def accepts(sizes: list[int], compression: Compression, target: str = "producer") -> bool:
    records = [Record(index, NOW, None, bytes(size)) for index, size in enumerate(sizes)]
    config = LogConfig(max_decompressed_message_bytes=LIMIT, compression_type=target)
    try:
        validate(memoryview(build_batch(records, compression=compression)), config, AppendOrigin.CLIENT, NOW, "t-0")
    except InvalidRecord as error:
        assert "2000" in error.message
        return False
    return True


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("target", ["producer", "uncompressed"])
def test_each_record_of_a_compressed_batch_is_bounded(compression: Compression, target: str) -> None:
    assert accepts([LARGEST_VALUE] * 3, compression, target)
    assert not accepts([10, LARGEST_VALUE + 1, 10], compression, target)


def test_batches_that_are_not_compressed_are_not_bounded() -> None:
    assert accepts([10 * LIMIT], Compression.NONE)
    assert accepts([10 * LIMIT], Compression.NONE, "zstd")
