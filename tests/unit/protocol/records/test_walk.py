"""The fast walk agrees with the exact one wherever it gives an answer, and gives one for what clients send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import InvalidRecord, KafkaError, UnknownServerError
from protocol.records.build import Record, build_batch
from protocol.records.walk import RecordShape, Walk, exact_walk, fast_walk
from tests.unit.protocol.records.strategies import TIME, record_lists


def section_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[61:])


def assert_agree(walk: Walk, shapes: list[RecordShape]) -> None:
    deltas = [shape.timestamp_delta for shape in shapes]
    assert walk.highest_timestamp_delta == max(deltas)
    assert walk.lowest_timestamp_delta == min(0, *deltas)
    assert walk.has_null_key == any(shape.key_size < 0 for shape in shapes)
    assert walk.sequential == all(shape.offset_delta == i for i, shape in enumerate(shapes))


@given(record_lists())
def test_walks_agree_on_what_is_well_formed(records: list[Record]) -> None:
    section = section_of(records)
    shapes = [*exact_walk(section, len(records), partial=False, compressed=False)]
    assert shapes == [*exact_walk(section, len(records), partial=True, compressed=True)]
    assert [shape.key_size for shape in shapes] == [-1 if r.key is None else len(r.key) for r in records]
    walk = fast_walk(section, len(records))
    if all(abs(record.timestamp - records[0].timestamp) < 2**27 for record in records):
        assert walk is not None
    if walk is not None:
        assert_agree(walk, shapes)


@pytest.mark.long
@given(record_lists(), st.data())
@settings(max_examples=200)
def test_the_fast_walk_accepts_nothing_that_the_exact_one_refuses(records: list[Record], data: st.DataObject) -> None:
    section = bytearray(section_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(section), 40) - 1))
        section[at] = data.draw(st.integers(0, 255))
    section = section[: data.draw(st.sampled_from((len(section), len(section) - 1)))]
    count = len(records) + data.draw(st.sampled_from((0, 0, 0, 1)))
    walk = fast_walk(bytes(section), count)
    if walk is not None:
        assert_agree(walk, [*exact_walk(bytes(section), count, partial=False, compressed=False)])


@given(st.binary(max_size=60), st.integers(1, 4), st.booleans(), st.booleans())
@settings(max_examples=200)
def test_garbage_is_refused_with_kafkas_codes(data: bytes, count: int, partial: bool, compressed: bool) -> None:
    try:
        shapes = [*exact_walk(data, count, partial=partial, compressed=compressed)]
    except KafkaError as error:
        assert int(error.code) in (87, -1)
    else:
        assert len(shapes) == count


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 9000])
def test_offsets_of_every_length(count: int) -> None:
    walk = fast_walk(section_of([Record(i, TIME + i, b"k", b"v") for i in range(count)]), count)
    assert walk == Walk(0, count - 1, has_null_key=False, sequential=True)


def test_wrong_offsets_are_told() -> None:
    walk = fast_walk(section_of([Record(0, TIME, b"k", b"v"), Record(2, TIME, b"k", b"v")]), 2)
    assert walk is not None
    assert not walk.sequential


def test_an_absurd_count_ends_at_the_first_missing_record() -> None:
    with pytest.raises(InvalidRecord):
        next(exact_walk(b"", 2**31 - 1, partial=False, compressed=False))
    assert fast_walk(b"", 2**31 - 1) is None


class CountingBytes(bytes):
    """Counts how often one of its bytes is read."""

    reads = 0

    def __getitem__(self, at: Any) -> Any:
        self.reads += 1
        return super().__getitem__(at)


def test_a_varint_that_does_not_end_is_not_read_to_the_end_of_the_batch() -> None:
    """A megabyte of it would take a minute, as the number grows with every byte."""
    section = CountingBytes(b"\xff" * 1000)
    with pytest.raises(UnknownServerError):
        next(exact_walk(section, 1, partial=False, compressed=False))
    assert section.reads < 20
