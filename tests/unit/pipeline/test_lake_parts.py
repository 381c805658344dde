"""The parts of `lake` that need no Spark session."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    VariantType,
)

from odradek_pipeline.kafka import ClusterAddress
from odradek_pipeline.lake import naming, partitioning, state
from odradek_pipeline.lake.ingest import spread
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.parquet import ParquetIngest
from odradek_pipeline.lake.schemas import (
    SchemaSpec,
    check_evolution,
    check_names,
    check_types,
    parse_specs,
    spec_of,
)
from odradek_pipeline.lake.settings import LakeSettings


def test_specs_are_read_and_the_star_is_for_the_rest() -> None:
    specs = parse_specs(["a=raw", "b=json", "*=json:n INT"])
    assert [spec_of(specs, topic) for topic in "abc"] == [SchemaSpec(), SchemaSpec(True), SchemaSpec(True, "n INT")]
    assert spec_of({}, "a") == SchemaSpec()


@pytest.mark.parametrize(
    "text", ["a", "a=xml", "a=json:", "a=raw:x", "a=avro:", "a=avro:first", "a=avro:message=M", "a=avro:@f:subject=s"]
)
def test_specs_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(LakeError, match="--schema"):
        parse_specs([text])


def test_no_two_topics_share_a_folder_or_a_name() -> None:
    topics = ["a", "A", "_a", ".a", "a.b", "a-b", "a_b", "7", "__consumer_offsets"]
    folders = [name for topic in topics for name in (naming.folder(topic), naming.dead_letters_folder(topic))]
    assert len(set(folders)) == len(folders)
    assert not any(name.startswith(("_", ".")) for name in folders)
    assert [naming.identifier(topic) for topic in ("A.b-C", "_x", "7")] == ["a_b_c", "t_x", "t_7"]
    naming.check_distinct(["a", "b"])
    for pair in (["a.b", "a-b"], ["a", "a__dead_letters"]):
        with pytest.raises(LakeError, match="would share the table"):
            naming.check_distinct(pair)


def test_fields_alike_but_for_case_are_found_at_any_depth() -> None:
    inner = StructType([StructField("a", LongType()), StructField("A", LongType())])
    schema = StructType([StructField("x", ArrayType(inner))])
    with pytest.raises(LakeError, match="differ in case only"):
        check_names("t", schema, "iceberg")
    with pytest.raises(LakeError, match="field 'a' is there twice"):
        check_names("t", StructType([StructField("a", LongType()), StructField("a", LongType())]), "iceberg")


def _struct(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])


@pytest.mark.parametrize(
    ("kind", "refused_by"),
    [
        (MapType(IntegerType(), LongType()), "delta iceberg parquet"),
        (MapType(StringType(), StructType([])), "delta iceberg parquet"),
        (VarcharType(3), "delta iceberg parquet"),
        (ByteType(), "delta iceberg parquet"),
        (CalendarIntervalType(), "delta iceberg parquet"),
        (DayTimeIntervalType(), "delta iceberg"),
        (NullType(), "iceberg parquet"),
        (VariantType(), "iceberg"),
        (StringType("UTF8_LCASE"), "delta"),
        (MapType(StringType(), ArrayType(LongType())), ""),
    ],
    ids=lambda one: one.simpleString() if isinstance(one, DataType) else one,
)
def test_types_that_cannot_be_in_a_table_are_refused_at_any_depth(kind: DataType, refused_by: str) -> None:
    schema = _struct(("x", ArrayType(_struct(("y", kind)))))
    for table_format in ("delta", "iceberg", "parquet"):
        if table_format in refused_by:
            with pytest.raises(LakeError, match=r"topic t: field x\.y cannot be "):
                check_types("t", schema, table_format)
        else:
            check_types("t", schema, table_format)


def test_fields_may_come_and_go_but_keep_their_types() -> None:
    inner = ArrayType(_struct(("x", LongType())))
    before = _struct(("a", LongType()), ("gone", LongType()), ("list", inner))
    check_evolution("t", before, _struct(("A", LongType()), ("new", StringType()), ("list", inner)), "delta")
    with pytest.raises(LakeError, match=r"field a is bigint in the table and cannot become string"):
        check_evolution("t", before, _struct(("a", StringType())), "iceberg")
    with pytest.raises(LakeError, match=r"field list\.x is bigint"):
        check_evolution("t", before, _struct(("list", ArrayType(_struct(("x", StringType()))))), "delta")
    with pytest.raises(LakeError, match=r"field list is array"):
        check_evolution("t", before, _struct(("list", LongType())), "delta")


def test_fields_widen_where_every_reader_of_the_format_can() -> None:
    before = _struct(("list", ArrayType(_struct(("x", IntegerType())))))
    now = _struct(("list", ArrayType(_struct(("x", LongType())))))
    check_evolution("t", before, now, "iceberg")
    for one, other, table_format in ((before, now, "delta"), (now, before, "iceberg")):
        with pytest.raises(LakeError, match=r"field list\.x is \w+ in the table and cannot become"):
            check_evolution("t", one, other, table_format)


def test_a_batch_keeps_the_schema_it_was_planned_with() -> None:
    first = state.new_state("t", "id", "delta", {"v": 1})
    grown = first.with_schema({"v": 2}, 5)
    assert [grown.schema_of(batch) for batch in (0, 4, 5, 9)] == [{"v": 1}, {"v": 1}, {"v": 2}, {"v": 2}]
    again = grown.with_schema({"v": 3}, 5)
    assert [again.schema_of(batch) for batch in (4, 5)] == [{"v": 1}, {"v": 3}]
    assert again.next_generation("other", {"v": 3}).run != again.run
    other = again.next_generation("other", {"v": 3})
    assert [other.with_schema({"v": 4}, 2).schema_of(batch) for batch in (0, 1, 2)] == [{"v": 3}, {"v": 3}, {"v": 4}]
    assert {"v": 1} in [entry.schema for entry in other.schemas], "the table has rows of it"
    assert json.dumps(grown.newest_schema) == '{"v": 2}'


@pytest.mark.parametrize(
    ("sizes", "wanted", "shares"),
    [
        ([100, 100, 100], 30, [10, 10, 10]),
        ([100, 0, 5], 30, [25, 0, 5]),
        ([3, 4], 100, [3, 4]),
        ([100, 100, 100], 1, [1, 0, 0]),
        ([], 10, []),
    ],
)
def test_a_sample_is_spread_over_partitions(sizes: list[int], wanted: int, shares: list[int]) -> None:
    first = {partition: 7 * partition for partition in range(len(sizes))}
    last = {partition: first[partition] + size for partition, size in enumerate(sizes)}
    ends = spread(first, last, wanted)
    assert sorted(ends[one] - first[one] for one in first) == sorted(shares)
    assert sum(ends[one] - first[one] for one in first) == min(wanted, sum(sizes))


class FakeFiles:
    """Spark's checkpoint as paths and texts."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def exists(self, path: str) -> bool:
        return path in self._texts

    def read(self, path: str) -> str:
        return self._texts[path]

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._texts if path.rpartition("/")[0] == folder]


def test_a_checkpoint_tells_what_is_to_be_read_next() -> None:
    begun = state.new_state("t", "id", "delta", None)
    texts: dict[str, str] = {}
    files: Any = FakeFiles(texts)
    checkpoint = state.Checkpoint(files, "/c")
    assert checkpoint.next_offsets(begun, "records") == {}
    texts["/c/records/0/sources/0/0"] = '\0v1\n{"t":{"0":5,"1":0}}'
    assert checkpoint.next_offsets(begun, "records") == {"t": {0: 5, 1: 0}}
    texts["/c/records/0/offsets/0"] = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"t":{"0":9,"1":2}}'
    assert checkpoint.next_offsets(begun, "records") == {"t": {0: 5, 1: 0}}, "planned is not read"
    texts["/c/records/0/commits/0"] = 'v1\n{"nextBatchWatermarkMs":0}'
    assert checkpoint.next_offsets(begun, "records") == {"t": {0: 9, 1: 2}}
    assert checkpoint.first_offsets(begun, "records") == {"t": {0: 5, 1: 0}}


@pytest.mark.parametrize(
    ("first", "last", "lost"),
    [
        ({0: 3, 1: 0}, {0: 9, 1: 0}, None),
        ({0: 9, 1: 0}, {0: 9, 1: 0}, "partition 0 begins at offset 9, and 5 is the next to read"),
        ({0: 0, 1: 0}, {0: 4, 1: 0}, "partition 0 ends at offset 4, and 5 is the next to read"),
        ({0: 5, 1: 2}, {0: 5, 1: 2}, "partition 1 begins at offset 2, and 0 is the next to read"),
    ],
)
def test_data_loss_is_told_by_offsets(first: dict[int, int], last: dict[int, int], lost: str | None) -> None:
    """A partition that the query has not read from yet begins at 0."""
    begun = state.new_state("t", "id", "delta", None)
    files = FakeFiles({"/l/@checkpoints/t/records/0/sources/0/0": '{"t":{"0":5}}'})
    admin = SimpleNamespace(topic_ids=lambda names: {"t": "id"}, offsets=lambda topic: (first, last))
    settings = LakeSettings(ClusterAddress("b:1"), "/l", ("t",))
    around: Any = SimpleNamespace(files=files, admin=admin, settings=settings)
    ingest = ParquetIngest(around, "t")
    ingest._state = begun
    assert ingest.lost() == lost


def test_partition_by_takes_buckets_of_numbers_in_iceberg_alone_and_leaves_a_registrys_columns_for_later() -> None:
    key = StructType([StructField("id", LongType())])
    columns = StructType([StructField("key", key), StructField("value", StringType())])
    by_id, by_key = partitioning.from_text("bucket(4, key.id)"), partitioning.from_text("bucket(4, key)")
    partitioning.check("t", by_id, columns, transforms=True)
    partitioning.check("t", by_id, StructType(), transforms=False, later=("key",))
    for division, transforms, why in (
        (by_id, False, "a field of type bigint cannot divide a table so$"),
        (by_key, True, "cannot divide a table so; a field in it may, such as key.id"),
        (by_id, True, "has no field key.id"),
    ):
        with pytest.raises(LakeError, match=why):
            partitioning.check("t", division, StructType() if why.startswith("has no") else columns, transforms)
