"""`odradek-pipeline restore --from-table`: the rows of raw tables as logs, and what no log can be made of."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

import deltalake

from protocol.records.build import Record, iter_records
from tests.unit.pipeline.audited import TOPIC, Row, arrow, audit, changed, record, rows, write
from tests.unit.pipeline.restored import batches, other_cluster, restore

VALUE = pa.struct([("id", pa.int64()), ("price", pa.float64()), ("name", pa.string())])


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return other_cluster(tmp_path / "other")


def records(folder: Path, partition: int = 0) -> list[Record]:
    """What a reader of the partition's segments finds."""
    return [
        one
        for log, position, header in batches(folder, partition)
        for one in iter_records(log.read_bytes(), header, position)
    ]


def restored(table: Path, into: Path, *more: object) -> tuple[int, dict[str, Any]]:
    return restore("--topic", TOPIC, "--from-table", table, "--into-data", into, *more)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_in_any_order_become_a_log_with_their_offsets_and_gaps(other: Path, tmp_path: Path, kind: str) -> None:
    some = rows()
    random.Random(0).shuffle(some)
    table = tmp_path / "table"
    if kind == "delta":
        deltalake.write_deltalake(str(table), arrow(some))
    else:
        write(table, some)
    status, result = restored(table, other)
    assert (status, [found["end"] for found in result["partitions"]]) == (0, [27, 40])
    expected = [record(offset, number) for number, offset in enumerate([*range(5), *range(7, 27)])]
    assert records(other) == expected
    assert records(other, 1) == [record(offset, 100 + offset) for offset in range(40)]
    assert audit("--topic", TOPIC, "--data", other, "--table", table, "--up-to", "end")[0] == 0


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_batches_are_compressed_if_that_is_asked_for(other: Path, tmp_path: Path, compression: str) -> None:
    assert restored(write(tmp_path / "table", rows()), other, "--compression", compression)[0] == 0
    assert {header.compression for _, _, header in batches(other)} == {{"lz4": 3, "zstd": 4}[compression]}


def test_times_that_the_broker_has_set_stay_its_own(other: Path, tmp_path: Path) -> None:
    table = arrow([row for row in rows() if row["partition"] == 1])
    kinds = [1 if 10 <= offset < 20 else 0 for offset in table.column("offset").to_pylist()]
    (tmp_path / "table").mkdir()
    typed = table.append_column("timestamp_type", pa.array(kinds, pa.int32()))
    pq.write_table(typed, tmp_path / "table/one.parquet")
    assert restored(tmp_path / "table", other)[0] == 0
    assert records(other, 1) == [record(offset, 100 + offset) for offset in range(40)]
    appended = [header.base_offset for _, _, header in batches(other, 1) if header.is_log_append_time]
    assert appended == list(range(10, 20))


def test_a_row_that_is_there_twice_is_one_record_and_two_that_differ_are_refused(other: Path, tmp_path: Path) -> None:
    some = rows()
    status, _ = restored(write(tmp_path / "twice", [*some, *some[:7]]), other)
    assert status == 1  # the audit tells that the table has them twice
    assert [one.offset for one in records(other)] == [*range(5), *range(7, 27)]
    fresh = other_cluster(tmp_path / "fresh")
    status, result = restored(write(tmp_path / "differ", [*some, some[3] | {"value": b"other"}]), fresh)
    assert (status, "two rows of partition 0, offset 3" in result["text"]) == (2, True)


def parsed(some: list[Row]) -> list[Row]:
    return [row | {"value": None if row["value"] is None else json.loads(row["value"])} for row in some]


def test_a_table_of_parsed_values_is_refused_unless_they_may_be_encoded_anew(other: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "table", parsed(rows()), VALUE)
    status, result = restored(table, other)
    assert (status, "--reencode" in result["text"]) == (2, True)
    assert records(other) == []
    assert restored(table, other, "--reencode")[0] == 0
    assert records(other)[3].value == b'{"id":3,"price":0.375,"name":"n3"}'
    assert records(other)[6].value is None


def test_what_is_no_json_comes_from_the_dead_letters(other: Path, tmp_path: Path) -> None:
    some = rows()
    table = write(tmp_path / "table", parsed([row for row in some if row["offset"] != 3]), VALUE)
    bad = write(tmp_path / "bad", changed(0, 3, value=b"{no")([row for row in some if row["offset"] == 3]))
    assert restored(table, other, "--reencode", "--dead-letters", bad)[0] == 0
    assert (records(other)[3].offset, records(other)[3].value) == (3, b"{no")


@pytest.mark.parametrize("column", ["key", "value", "headers", "timestamp"])
def test_a_table_without_one_of_the_columns_is_refused(other: Path, tmp_path: Path, column: str) -> None:
    (tmp_path / "table").mkdir()
    pq.write_table(arrow(rows()).drop_columns([column]), tmp_path / "table/one.parquet")
    status, result = restored(tmp_path / "table", other)
    assert (status, f"has no column {column}" in result["text"]) == (2, True)


def test_columns_may_have_other_names(other: Path, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    table = arrow(rows()).rename_columns(["partition", "at", "timestamp", "key", "headers", "payload"])
    pq.write_table(table, tmp_path / "table/one.parquet")
    assert restored(tmp_path / "table", other, "--column", "offset=at", "--column", "value=payload")[0] == 0
    assert len(records(other)) == 25
