"""Batches that this builds are read by aiokafka's and kio's codecs, and theirs by this."""

from __future__ import annotations

import io

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.writers import write_prepared_batch

from protocol.records.batch import (
    MAX_SEQUENCE,
    advance_sequence,
    check_crc,
    read_header,
    set_max_timestamp,
    set_offsets_and_epoch,
)
from protocol.records.build import (
    ControlRecordType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_end_marker,
    iter_records,
    read_end_marker,
)
from protocol.records.compression import Compression
from tests.unit.protocol.records.strategies import record_lists

codecs = st.sampled_from(Compression)


@given(record_lists(), codecs, st.integers(0, 2**40))
def test_what_is_built_is_read_back(records: list[Record], codec: Compression, base_offset: int) -> None:
    batch = build_batch(records, compression=codec)
    set_offsets_and_epoch(batch, read_header(batch), base_offset, 3)
    records = [record._replace(offset=record.offset + base_offset) for record in records]
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(batch, header)) == records


@given(record_lists(), codecs)
def test_aiokafka_reads_it(records: list[Record], codec: Compression) -> None:
    batch = DefaultRecordBatch(bytes(build_batch(records, compression=codec, producer_id=9, producer_epoch=2)))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.compression_type) == (9, 2, codec)
    found = [
        Record(each.offset, each.timestamp, each.key, each.value, tuple((k.encode(), v) for k, v in each.headers))
        for each in batch
    ]
    assert found == records


@given(record_lists(), codecs)
def test_aiokafkas_is_read(records: list[Record], codec: Compression) -> None:
    records = [record._replace(timestamp=max(record.timestamp, 0)) for record in records]  # it drops a first -1
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        batch_size=10**6,
    )
    for record in records:
        names = [(key.decode(), value) for key, value in record.headers]
        builder.append(record.offset, record.timestamp, record.key, record.value, names)
    batch = bytes(builder.build())
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert list(iter_records(batch, header)) == records


@given(record_lists())
def test_kio_reads_and_writes_the_same_bytes(records: list[Record]) -> None:
    # kio's writer takes times as datetimes and is a millisecond off for some of them: whole seconds.
    records = [record._replace(timestamp=max(record.timestamp, 0) // 1000 * 1000) for record in records]
    batch = bytes(build_batch(records))
    parsed, size = read_batch(batch, 0)
    assert size == len(batch)
    assert [(each.key, each.value) for each in parsed.records] == [(each.key, each.value) for each in records]
    out = io.BytesIO()
    write_prepared_batch(out, parsed)
    assert out.getvalue() == batch


def test_offsets_with_gaps_are_kept() -> None:
    batch = build_batch([Record(2, 5, b"a", b"1"), Record(9, 6, b"b", None)])
    set_offsets_and_epoch(batch, read_header(batch), 8, 0)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (8, 17, 18, 2)
    assert list(iter_records(batch, header)) == [Record(10, 5, b"a", b"1"), Record(17, 6, b"b", None)]


def test_offsets_and_epoch_are_outside_the_crc() -> None:
    batch = build_batch([Record(0, 5, b"a", b"1")])
    before = read_header(batch)
    set_offsets_and_epoch(batch, before, 1234, 56)
    assert read_header(batch) == before._replace(base_offset=1234, leader_epoch=56)
    assert check_crc(batch, 0, read_header(batch))


def test_log_append_time_is_every_records_time() -> None:
    batch = build_batch([Record(0, 5, None, b"1"), Record(1, 6, None, b"2")])
    header = set_max_timestamp(batch, 0, read_header(batch), log_append_time=True, max_timestamp=99)
    assert header == read_header(batch)
    assert check_crc(batch, 0, header)
    assert [record.timestamp for record in iter_records(batch, header)] == [99, 99]


def test_a_header_that_stands_is_not_touched() -> None:
    batch = bytes(build_batch([Record(0, 5, None, b"1")]))
    header = read_header(batch)
    assert set_max_timestamp(batch, 0, header, log_append_time=False, max_timestamp=5) is header  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sequence", "by", "expected"),
    [(0, 1, 1), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1), (MAX_SEQUENCE, 0, MAX_SEQUENCE)],
)
def test_sequence_numbers_wrap(sequence: int, by: int, expected: int) -> None:
    assert advance_sequence(sequence, by) == expected
    batch = build_batch([Record(0, 5, None, b"1"), Record(by, 5, None, b"1")], base_sequence=sequence)
    assert read_header(batch).last_sequence == expected


@pytest.mark.parametrize("kind", ControlRecordType)
def test_end_marker(kind: ControlRecordType) -> None:
    marker = EndTransactionMarker(kind, 12)
    batch = build_end_marker(marker, producer_id=5, producer_epoch=6, timestamp=7)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset) == (5, 6, -1, 0)
    assert read_end_marker(next(iter_records(batch, header))) == marker


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_malformed_end_marker(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="control record"):
        read_end_marker(Record(0, 0, key, bytes(6)))


def test_other_control_records_are_no_end_marker() -> None:
    assert read_end_marker(Record(0, 0, b"\0\0\0\x02", b"")) is None
