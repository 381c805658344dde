"""The checks of a batch's records, apart from Kafka's answers (`test_validator_answers`)."""

from __future__ import annotations

import tracemalloc

import pytest

from protocol.errors import InvalidRecord
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import MOST_RECORD_ERRORS, CheckedRecords, check_records
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
    assert checked == CheckedRecords(2**40, sequential=True)
    assert most < len(section)


def test_only_so_many_refused_records_of_a_batch_are_told_of() -> None:
    many = [Record(number, 0, None, b"") for number in range(MOST_RECORD_ERRORS + 1)]
    batch = memoryview(build_batch(many, compression=Compression.GZIP))
    with pytest.raises(InvalidRecord, match=f"^{MOST_RECORD_ERRORS + 1} records were refused") as refused:
        validate(batch, LogConfig(compact=True), AppendOrigin.CLIENT, 0, "t-0")
    assert [index for index, _ in refused.value.record_errors] == list(range(MOST_RECORD_ERRORS))


def test_a_batch_in_another_compression_is_written_anew_without_keeping_its_records() -> None:
    count = 20_000
    batch = memoryview(build_batch([Record(n, 0, None, b"") for n in range(count)], compression=Compression.ZSTD))
    config = LogConfig(compression_type="gzip")
    tracemalloc.start()
    validated = validate(batch, config, AppendOrigin.CLIENT, 0, "t-0")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert validated.header.record_count == count
    assert most < 2**21
