"""The comparison of `audit`, against a model that keeps everything: any topic, any table, any size of the blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("xxhash")

from odradek_pipeline.audit import digests, run
from odradek_pipeline.audit.findings import FAULTS, Findings, Ranges
from odradek_pipeline.audit.prints import NULL, combined, prints_of
from odradek_pipeline.audit.run import Audit
from odradek_pipeline.audit.sides import Extent, Part

RECORD, ABORTED, MARKER, GAP = range(4)
SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])


@dataclass
class ModelTopic:
    """One partition: what is at each offset from `start` on."""

    start: int
    kinds: list[int]
    values: list[bytes | None]
    name: str = "t"

    @property
    def end(self) -> int:
        return self.start + len(self.kinds)

    def extents(self) -> Mapping[int, Extent]:
        return {0: Extent(self.start, self.end)}

    def damage(self) -> list[str]:
        return []

    def at(self, kind: int) -> dict[int, bytes | None]:
        return {self.start + number: self.values[number] for number, found in enumerate(self.kinds) if found == kind}

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        for first in range(start, end, 3):  # parts of any size are allowed
            wanted = range(first, min(first + 3, end))
            offsets = [offset for offset in wanted if offset in self.at(RECORD)]
            values = [self.at(RECORD)[offset] for offset in offsets]
            records = {"offset": pa.array(offsets, pa.int64()), "value": pa.array(values, pa.binary())}
            aborted, markers = (
                np.array([offset for offset in wanted if offset in self.at(kind)], np.int64)
                for kind in (ABORTED, MARKER)
            )
            yield Part(pa.RecordBatch.from_pydict(records), aborted, markers)


@dataclass
class ModelTable:
    """Rows in any order, the number of the partition among them."""

    rows: list[tuple[int, int, bytes | None]]
    name: str = "table"

    def columns(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in SCHEMA}

    def read(
        self, columns: Sequence[str], partition: int | None = None, start: int | None = None, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        for row in self.rows:
            number, offset, _ = row
            in_place = partition in (None, number) and (start is None or start <= offset)
            if in_place and (end is None or offset < end):
                whole = {field.name: pa.array([cell], field.type) for field, cell in zip(SCHEMA, row, strict=True)}
                yield pa.RecordBatch.from_pydict(whole)


def expected(topic: ModelTopic, rows: list[tuple[int, int, bytes | None]], until: int | None) -> dict[str, set[int]]:
    """By kind, the offsets of partition 0 that the model finds, one by one."""
    own = [(offset, value) for number, offset, value in rows if number == 0]
    times = Counter(offset for offset, _ in own)
    last = max(times, default=-1) + 1
    end = topic.end if until is None and not own else min(topic.end, max(until or 0, last))
    records = {offset: value for offset, value in topic.at(RECORD).items() if offset < end}
    inside = {offset for offset in times if topic.start <= offset < topic.end}
    gone = {offset for offset in times if 0 <= offset < topic.start}
    return {
        "missing": set(records) - set(times),
        "twice": {offset for offset, count in times.items() if count > 1},
        "extra": {offset for offset in times if offset < 0 or offset >= topic.end},
        "aborted_in_table": inside & set(topic.at(ABORTED)),
        "markers_in_table": inside & set(topic.at(MARKER)),
        "different": {offset for offset, value in own if offset in records and records[offset] != value},
        "gone": gone,
        "holes": set(range(topic.start)) - gone if gone else set(),
        "compacted": inside & set(topic.at(GAP)),
    }


def offsets(ranges: Ranges) -> list[int]:
    return [offset for first, last in ranges.ranges for offset in range(first, last + 1)]


topics = st.builds(
    lambda start, cells: ModelTopic(start, [kind for kind, _ in cells], [value for _, value in cells]),
    st.integers(0, 40),
    st.lists(
        st.tuples(st.sampled_from([RECORD] * 6 + [ABORTED, MARKER, GAP]), st.sampled_from([b"a", b"b", None])),
        max_size=40,
    ),
)
harm = st.lists(
    st.tuples(
        st.sampled_from(["drop", "repeat", "alter", "add", "other partition"]),
        st.integers(-2, 90),
        st.sampled_from([b"a", b"c", None]),
    ),
    max_size=6,
)


@given(topics, harm, st.integers(0, 40), st.randoms(use_true_random=False), st.none() | st.integers(0, 90))
def test_whatever_is_done_to_a_table_is_found_and_nothing_else(
    topic: ModelTopic, done: list[tuple[str, int, bytes | None]], kept_from: int, random: Any, until: int | None
) -> None:
    rows = [(0, offset, value) for offset, value in topic.at(RECORD).items()]
    rows += [(0, offset, b"old") for offset in range(kept_from, topic.start)]
    for what, offset, value in done:
        hit = [row for row in rows if row[1] == offset]
        match what:
            case "drop":
                rows = [row for row in rows if row[1] != offset]
            case "repeat":
                rows += hit[:1]
            case "alter":
                rows = [(0, offset, value) if row in hit else row for row in rows]
            case "add":
                rows.append((0, offset, value))
            case _:
                rows.append((7, offset, value))
    random.shuffle(rows)
    with pytest.MonkeyPatch.context() as small:
        for module in (digests, run):
            small.setattr(module, "BLOCK", 5)
        small.setattr(digests, "_CHUNK", 4)
        small.setattr(run, "MOST_BLOCKS", 2)
        known = None if until is None else {0: until}
        results = {found.partition: found for found in Audit(topic, ModelTable(rows), until=known).run()}
    found = results[0]
    model = expected(topic, rows, until)
    for name, wanted in model.items():
        told = getattr(found, name)
        assert offsets(told) == sorted(wanted), name
        assert told.count == len(wanted), name
    assert found.faults == sum(len(model[name]) for name in FAULTS)
    others = {offset for number, offset, _ in rows if number == 7}
    assert sorted(offsets(results[7].extra)) == sorted(others) if others else 7 not in results


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 3)), max_size=60), st.randoms(use_true_random=False))
def test_digests_do_not_depend_on_the_order_of_rows(rows: list[tuple[int, int]], random: Any) -> None:
    one, other = digests.Digests(), digests.Digests()
    one.add(np.array([at for at, _ in rows], np.int64), np.array([cell for _, cell in rows], np.uint64))
    random.shuffle(rows)
    for at, cell in rows:
        other.add(np.array([at], np.int64), np.array([cell], np.uint64))
    assert list(one.differing(other)) == []


@given(st.lists(st.none() | st.binary(max_size=6) | st.just(b""), max_size=30))
def test_cells_have_equal_prints_if_and_only_if_they_are_equal(cells: list[bytes | None]) -> None:
    prints = prints_of(pa.array(cells, pa.binary())).tolist()
    for cell, own in zip(cells, prints, strict=True):
        assert (own == int(NULL)) == (cell is None)
        for other, its in zip(cells, prints, strict=True):
            assert (cell == other) == (own == its)


def test_headers_are_compared_in_their_order_and_none_are_like_null() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    a, b = {"key": "a", "value": b"1"}, {"key": "b", "value": None}
    prints = prints_of(pa.array([[a, b], [b, a], [a], [], None, [a, b], [{"key": "a", "value": None}]], kind)).tolist()
    assert prints[0] == prints[5]
    assert prints[3] == prints[4]
    assert len(set(prints)) == 5


def test_a_row_is_what_all_its_columns_are() -> None:
    one = {"key": np.array([1, 2], np.uint64), "value": np.array([2, 1], np.uint64)}
    swapped = {"key": one["value"], "value": one["key"]}
    assert combined(one, 2).tolist() != combined(swapped, 2).tolist()


def test_times_are_compared_in_milliseconds_whatever_their_unit() -> None:
    millis = pa.array([1, None, -5], pa.int64())
    in_ms, in_us = millis.cast(pa.timestamp("ms", "UTC")), pa.array([1000, None, -5000], pa.int64())
    assert prints_of(in_ms).tolist() == prints_of(in_us.cast(pa.timestamp("us"))).tolist()


def test_ranges_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek_pipeline.audit.findings.MOST_RANGES", 2)
    found = Findings(0)
    found.missing.add(np.array([1, 2, 3, 7, 9, 11, 12], np.int64))
    assert found.missing.to_json() == {"count": 7, "ranges": [[1, 3], [7, 7]], "ranges_cut_at": 2}
