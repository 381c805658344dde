"""`odradek-pipeline audit` finds each planted corruption of a table, says where it is, and finds nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from protocol.records.batch import HEADER_SIZE, read_header, write_crc
from tests.unit.pipeline.audited import ABORTED, MARKER, TOPIC, Row, arrow, audit, changed, faults, fill, rows, write

Harm = Callable[[list[Row]], list[Row]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("audited") / "data"
    fill(root)
    return root


def like(partition: int, offset: int, /, **cells: Any) -> Harm:
    """The rows, and another one like that with other cells."""

    def harm(some: list[Row]) -> list[Row]:
        (row,) = (row for row in some if (row["partition"], row["offset"]) == (partition, offset))
        return [*some, row | cells]

    return harm


def without(wanted: Callable[[Row], bool]) -> Harm:
    return lambda some: [row for row in some if not wanted(row)]


SPOILT = b'{"id": 3, "price": 0.375, "name": "n8"}'
CORRUPTIONS: dict[str, tuple[Harm, dict[tuple[int, str], list[int]]]] = {
    "a row is missing": (without(lambda row: (row["partition"], row["offset"]) == (0, 9)), {(0, "missing"): [9]}),
    "a partition is missing": (without(lambda row: row["partition"] == 1), {(1, "missing"): list(range(40))}),
    "a file is missing": (
        without(lambda row: 10 <= row["offset"] < 20),
        {
            (0, "missing"): list(range(10, 20)),
            (1, "missing"): list(range(10, 20)),
        },
    ),
    "a row is twice": (like(1, 4), {(1, "twice"): [4]}),
    "a row is twice, the second time with another value": (
        like(1, 4, value=b"x"),
        {(1, "twice"): [4], (1, "different"): [4]},
    ),
    "a byte of a value is another": (changed(0, 3, value=SPOILT), {(0, "different"): [3]}),
    "a value is null": (changed(0, 3, value=None), {(0, "different"): [3]}),
    "a tombstone is empty": (changed(1, 32, value=b""), {(1, "different"): [32]}),
    "a key is another": (changed(0, 3, key=b"key 4"), {(0, "different"): [3]}),
    "a time is another": (changed(0, 3, timestamp=5_000), {(0, "different"): [3]}),
    "a header is lost": (changed(0, 3, headers=[]), {(0, "different"): [3]}),
    "a row beyond the topic's end": (like(0, 26, offset=90), {(0, "extra"): [90]}),
    "a row of a partition that is not there": (like(0, 3, partition=4), {(4, "extra"): [3]}),
    "a row with a negative offset": (like(0, 3, offset=-1), {(0, "extra"): [-1]}),
    "an aborted record": (like(0, 4, offset=ABORTED), {(0, "aborted_in_table"): [ABORTED]}),
    "a row of a marker": (like(0, 4, offset=MARKER), {(0, "markers_in_table"): [MARKER]}),
    "a row in another partition": (
        changed(0, 3, partition=1),
        {(0, "missing"): [3], (1, "twice"): [3], (1, "different"): [3]},
    ),
    "two rows have each other's offsets": (
        lambda some: changed(0, 90, offset=3)(changed(0, 3, offset=4)(changed(0, 4, offset=90)(some))),
        {(0, "different"): [3, 4]},
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_of_a_table_is_found(data: Path, tmp_path: Path, name: str) -> None:
    harm, wanted = CORRUPTIONS[name]
    status, result = audit("--topic", TOPIC, "--data", data, "--table", write(tmp_path / "table", harm(rows())))
    assert faults(result) == wanted
    assert (status, result["ok"]) == (1, False)


def test_a_whole_table_is_ok_and_aborted_records_and_markers_are_counted(data: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "table", rows())
    page = tmp_path / "audit.html"
    status, result = audit("--topic", TOPIC, "--data", data, "--table", table, "--html", page, "--up-to", "end")
    assert (status, faults(result), result["damage"]) == (0, {}, [])
    first, second = result["partitions"]
    assert (first["records"], first["rows"], first["aborted"], first["markers"]) == (25, 25, 1, 2)
    assert (second["records"], second["aborted"], second["markers"]) == (40, 0, 0)
    assert result["compared"] == ["key", "value", "headers", "timestamp"]
    text = page.read_text()
    assert "65 records in 2 partitions: the table has each once and as it is" in text
    assert "<svg" in text
    assert not any(mark in text for mark in ("<script", "src=", "<link", "@import", "url(http"))


def test_rows_behind_the_last_one_wait_for_the_next_batch_unless_all_is_asked_for(data: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "table", [row for row in rows() if row["offset"] < 20])
    asked = ("--topic", TOPIC, "--data", data, "--table", table)
    status, result = audit(*asked)
    assert (status, [found["waiting"] for found in result["partitions"]]) == (0, [8, 20])
    status, result = audit(*asked, "--up-to", "end")
    assert status == 1
    assert faults(result) == {(0, "missing"): list(range(20, 27)), (1, "missing"): list(range(20, 40))}


VALUE = pa.struct([("id", pa.int64()), ("price", pa.float64()), ("name", pa.string())])


def parsed(some: list[Row]) -> list[Row]:
    """The rows with their JSON as structs."""
    return [row | {"value": None if row["value"] is None else json.loads(row["value"])} for row in some]


def test_a_table_of_parsed_values_is_compared_by_value_and_its_dead_letters_by_bytes(
    data: Path, tmp_path: Path
) -> None:
    good, bad = rows()[5:], rows()[:5]
    tables = write(tmp_path / "table", parsed(good), VALUE), write(tmp_path / "bad", bad)
    asked = ("--topic", TOPIC, "--data", data, "--table", tables[0])
    status, result = audit(*asked, "--dead-letters", tables[1])
    assert (status, faults(result)) == (0, {})
    assert [found["not_compared"] for found in result["partitions"]] == [0, 0]
    status, result = audit(*asked)
    assert faults(result) == {(0, "missing"): list(range(5))}


def test_what_a_registrys_schema_has_read_is_told_as_not_compared(data: Path, tmp_path: Path) -> None:
    """Its bytes have the schema's id in front, which the audit does not read."""
    table = arrow(rows())
    keys = pa.StructArray.from_arrays([table["key"].combine_chunks()], ["k"])
    path = tmp_path / "table.parquet"
    pq.write_table(table.set_column(table.schema.get_field_index("key"), "key", keys), path)
    page = tmp_path / "audit.html"
    status, result = audit("--topic", TOPIC, "--data", data, "--table", path, "--html", page)
    assert (status, result["compared"]) == (0, ["value", "headers", "timestamp"])
    assert "the table has each once; keys could not be compared, all else is as it is" in page.read_text()


def test_a_field_of_a_parsed_value_that_is_another_is_found(data: Path, tmp_path: Path) -> None:
    spoilt = changed(1, 12, value={"id": 112, "price": 14.125, "name": "n112"})(parsed(rows()))
    status, result = audit("--topic", TOPIC, "--data", data, "--table", write(tmp_path / "table", spoilt, VALUE))
    assert (status, faults(result)) == (1, {(1, "different"): [12]})
    assert result["partitions"][1]["different"]["columns"] == {"value": 1}


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_of_other_formats_are_known_by_what_lies_there(data: Path, tmp_path: Path, table_format: str) -> None:
    table = tmp_path / "table"
    make = {"delta": delta_table, "iceberg": iceberg_table}[table_format]
    make(table, [arrow(rows()[:30]), arrow(without(lambda row: row["offset"] == 39)(rows()[30:]))])
    asked = ("--topic", TOPIC, "--data", data, "--table", table)
    assert audit(*asked)[0] == 0
    status, result = audit(*asked, "--up-to", "end")
    assert (status, faults(result)) == (1, {(1, "missing"): [39]})


def delta_table(table: Path, parts: list[pa.Table]) -> None:
    import deltalake

    for part in parts:
        deltalake.write_deltalake(str(table), part, mode="append")


def iceberg_table(table: Path, parts: list[pa.Table]) -> None:
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("tests", warehouse=str(table.parent))
    catalog.create_namespace("lake")
    made = catalog.create_table("lake.orders", parts[0].schema, location=str(table))
    for part in parts:
        made.append(part)


def test_a_table_under_other_names_is_read(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    pa.parquet.write_table(
        arrow(rows()).rename_columns(["kafka_partition", "kafka_offset", "at", "key", "headers", "payload"]),
        folder / "a.parquet",
    )
    names = ("--column", "partition=kafka_partition", "--column", "offset=kafka_offset", "--column", "value=payload")
    asked = ("--topic", TOPIC, "--data", data, "--table", folder)
    status, result = audit(*asked, *names)
    assert (status, result["compared"]) == (0, ["key", "value", "headers"])
    status, result = audit(*asked)
    assert status == 2
    assert "has no column partition and offset" in result["text"]


def test_what_cannot_be_found_out_has_exit_status_2(data: Path, tmp_path: Path) -> None:
    assert audit("--topic", "nothing", "--data", data, "--table", tmp_path)[0] == 2
    assert audit("--topic", TOPIC, "--data", data, "--table", tmp_path / "nothing")[0] == 2
    assert audit("--topic", TOPIC, "--data", tmp_path / "nothing", "--table", tmp_path)[0] == 2
    assert audit("--topic", TOPIC, "--table", tmp_path)[0] == 2
    assert audit("--topic", TOPIC, "--data", data)[0] == 2


def test_damage_in_the_log_is_told_and_the_rest_is_compared(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    shutil.copytree(data, broken)
    log = sorted((broken / f"{TOPIC}-1").glob("*.log"))[0]
    content = bytearray(log.read_bytes())
    content[80] ^= 1
    log.write_bytes(content)
    status, result = audit("--topic", TOPIC, "--data", broken, "--table", write(tmp_path / "table", rows()))
    assert status == 1
    assert any("checksum is wrong" in text for text in result["damage"])
    assert result["partitions"][1]["damaged"] == {"count": 5, "ranges": [[0, 4]]}
    assert result["partitions"][1]["compacted"]["count"] == 0


def test_rows_of_a_batch_that_cannot_be_unpacked_are_damaged_in_the_topic(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    shutil.copytree(data, broken)
    log = sorted((broken / f"{TOPIC}-1").glob("*.log"))[0]
    content = bytearray(log.read_bytes())
    header = read_header(content)
    content[HEADER_SIZE : header.size] = bytes(header.size - HEADER_SIZE)
    write_crc(content, 0, header.size)  # so that only its content is wrong
    log.write_bytes(content)
    status, result = audit("--topic", TOPIC, "--data", broken, "--table", write(tmp_path / "table", rows()))
    assert (status, result["partitions"][1]["damaged"]["ranges"]) == (1, [[0, 4]])
    assert any("the batch at offset 0 cannot be read" in text for text in result["damage"])


def test_rows_of_a_log_whose_end_was_cut_off_in_the_middle_are_damaged(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    shutil.copytree(data, broken)
    first, second, *_ = sorted((broken / f"{TOPIC}-1").glob("*.log"))
    first.write_bytes(first.read_bytes()[:-40])
    status, result = audit("--topic", TOPIC, "--data", broken, "--table", write(tmp_path / "table", rows()))
    last = int(second.stem) - 1
    assert (status, result["partitions"][1]["damaged"]["ranges"]) == (1, [[last - 4, last]])


def test_rows_that_retention_took_from_the_topic_are_gone_and_holes_among_them_are_told(
    data: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "data"
    shutil.copytree(data, kept)
    folder = kept / f"{TOPIC}-1"
    logs = sorted(folder.glob("*.log"))
    for path in [*folder.glob(f"{logs[0].stem}.*")]:
        path.unlink()
    start = int(logs[1].stem)
    table = write(tmp_path / "table", without(lambda row: (row["partition"], row["offset"]) == (1, 2))(rows()))
    status, result = audit("--topic", TOPIC, "--data", kept, "--table", table)
    second = result["partitions"][1]
    assert (status, second["start"], second["records"]) == (0, start, 40 - start)
    assert second["gone"] == {"count": start - 1, "ranges": [[0, 1], [3, start - 1]]}
    assert second["holes"] == {"count": 1, "ranges": [[2, 2]]}
