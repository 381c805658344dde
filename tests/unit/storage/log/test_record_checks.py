"""The checks of a batch's records, apart from Kafka's answers (`test_validator_answers`)."""

from __future__ import annotations

import tracemalloc

import pytest

from protocol.errors import InvalidRecord
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import Checked, check_records
from storage.log.validator import validate


def test_many_records_of_a_rare_shape_take_no_memory() -> None:
    """A small compressed batch may unpack to millions of them: kept, they would take twenty times their size."""
    count = 20_000
    many = [Record(number, 0, None, b"") for number in range(count - 1)]
    batch = build_batch([*many, Record(count - 1, 2**40, None, b"")])
    section = bytes(batch[HEADER_SIZE:])
    tracemalloc.start()
    checked = check_records(read_header(batch), section, LogConfig(), 2**40, "t-0", partial=True, compressed=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert checked == Checked(2**40, sequential=True)
    assert most < len(section)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
@pytest.mark.parametrize("kept", ["producer", "uncompressed"])
def test_a_record_may_not_be_larger_than_max_decompressed_message_bytes(codec: Compression, kept: str) -> None:
    """As Kafka 4.4 measured it: 2,000 lets a value of 1,993 pass, whose record has 2,000 bytes, and 1,994 not."""
    config = LogConfig(max_decompressed_message_bytes=2000, compression_type=kept)
    validate(batch(codec, 1993, 1993), config, AppendOrigin.CLIENT, 0, "t-0")
    with pytest.raises(InvalidRecord, match=r"2001 bytes is larger than max\.decompressed\.message\.bytes=2000"):
        validate(batch(codec, 5, 1994), config, AppendOrigin.CLIENT, 0, "t-0")


def test_uncompressed_records_may_be_larger() -> None:
    config = LogConfig(max_decompressed_message_bytes=2000)
    validate(batch(Compression.NONE, 5000), config, AppendOrigin.CLIENT, 0, "t-0")


def batch(codec: Compression, *sizes: int) -> memoryview:
    records = [Record(number, 0, None, bytes(size)) for number, size in enumerate(sizes)]
    return memoryview(build_batch(records, compression=codec))
