"""Records that are cut while they are unpacked: what is kept, what is left out, and what it costs."""

from __future__ import annotations

import tracemalloc

import pytest

from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch, iter_records
from protocol.records.compression import Compression
from protocol.records.cut import NOTHING, RECORD_WORK, CutLimits, LeftOut, cut_records

ALL = CutLimits(1 << 30, 1 << 30, 1 << 30)
RECORDS = [
    Record(0, 1_000, b"k", b"v" * 3_000_000, ((b"h", b"1"), (b"i", None))),
    Record(1, 2_000, None, b"", ()),
    Record(2, 1_500, b"x" * 200, None, tuple((b"n%d" % at, b"c" * 100) for at in range(300))),
    Record(3, 900, b"", b"end", ((b"", b""),)),
]


def cut(
    records: list[Record], most: CutLimits = ALL, first: int = 0, codec: Compression = Compression.ZSTD
) -> tuple[list[tuple[Record, LeftOut]], int]:
    """What is read of a batch, and the work that was told."""
    data = bytes(build_batch(records, compression=codec))
    work: list[int] = []
    return [*cut_records(data, read_header(data, 0), 0, first, most, work.append)], sum(work)


@pytest.mark.parametrize("codec", Compression)
def test_with_room_for_all_the_records_are_those_that_are_read_otherwise(codec: Compression) -> None:
    data = bytes(build_batch(RECORDS, compression=codec))
    found, _ = cut(RECORDS, codec=codec)
    assert [record for record, _ in found] == [*iter_records(data, read_header(data, 0))] == RECORDS
    assert {left_out for _, left_out in found} == {NOTHING}


@pytest.mark.parametrize("codec", Compression)
def test_of_each_record_only_so_much_is_kept(codec: Compression) -> None:
    found, _ = cut(RECORDS, CutLimits(content=10, headers=2, header_content=50), codec=codec)
    assert [left_out for _, left_out in found] == [
        LeftOut(value=2_999_990),
        NOTHING,
        LeftOut(key=190, headers=299, header_content=52),
        NOTHING,
    ]
    assert found[0][0].value == b"v" * 10
    assert found[2][0].headers == ((b"n0", b"c" * 48),)
    assert found[3][0] == RECORDS[3]


def test_headers_that_are_not_kept_cost_nothing() -> None:
    many = [Record(at, 0, None, None, ((b"", None),) * 20_000) for at in range(5)]
    found, work = cut(many, CutLimits(10, 20, 1_000))
    assert [(len(record.headers), left_out.headers) for record, left_out in found] == [(20, 19_980)] * 5
    assert work < 5 * 21 * RECORD_WORK + 300_000


def test_records_before_the_first_are_stepped_over() -> None:
    found, _ = cut(RECORDS, first=2)
    assert [record.offset for record, _ in found] == [2, 3]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_value_takes_no_more_memory_than_what_is_kept_of_it(codec: Compression) -> None:
    data = bytes(build_batch([Record(0, 0, None, bytes(40 << 20))], compression=codec))
    tracemalloc.start()
    try:
        ((record, left_out),) = cut_records(data, read_header(data, 0), 0, 0, CutLimits(500, 1, 1), lambda _work: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(record.value or b"") + left_out.value == 40 << 20
    assert peak < 6 << 20


@pytest.mark.parametrize("at", [61, 65, 67, 69])
def test_what_is_no_record_raises_a_value_error(at: int) -> None:
    data = bytearray(build_batch([Record(0, 0, b"k", b"v")]))
    data[at] = 0x7E
    with pytest.raises(ValueError):
        [*cut_records(data, read_header(data, 0), 0, 0, ALL, lambda _work: None)]
