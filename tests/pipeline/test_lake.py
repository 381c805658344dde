"""`lake` into Delta: what is in the tables, over several starts."""

from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from odradek import Broker
from tests.pipeline.lakes import Lake, committed, create_topic, delete_records, delete_topic, offsets, produce, transact

deltalake = pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "value", "date"]


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


@pytest.mark.every_spark
def test_committed_records_once_and_aborted_ones_never(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic, 2)
    transact(lake.bootstrap, topic, f"{topic}-a", [([b"1", b"2"], True), ([b"no"], False), ([b"3"], True)])
    produce(lake.bootstrap, topic, [b"4"], headers=[("h", b"x"), ("n", None)], key=b"k", timestamp=86_400_000 * 365)
    assert lake.run(topic) == {}
    assert lake.run(topic) == {}, "a second start finds nothing new"
    table = lake.delta(topic)
    assert table.columns == COLUMNS
    expected = committed(lake.bootstrap, topic, 2)
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in table.collect()) == expected
    assert len(expected) == 4
    [row] = table.where("date = '1971-01-01'").collect()
    assert (row.topic, bytes(row.key), row.timestamp_type) == (topic, b"k", 0)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"x"), ("n", None)]

    transact(lake.bootstrap, topic, f"{topic}-a", [([b"no"], False), ([b"5"], True)])
    assert lake.run(topic) == {}
    other = deltalake.DeltaTable(str(lake.path / topic))
    assert other.metadata().partition_columns == ["date"]
    read = other.to_pyarrow_table().to_pylist()
    assert sorted((row["partition"], row["offset"], row["value"]) for row in read) == committed(
        lake.bootstrap, topic, 2
    )
    assert sum(row["date"] == datetime.date(1971, 1, 1) for row in read) == 1
    assert lake.reporter.topics[topic].records == 5


def test_json_that_fits_is_parsed_and_the_rest_are_dead_letters(lake: Lake, topic: str) -> None:
    good = [{"n": 1, "s": "x", "date": "ours?"}, {"n": 2, "unknown": 7}, None, b" null"]
    bad = {
        b"{bad": "not JSON",
        b"\xff\xfe": "not UTF-8",
        b'[{"n":1},{"n":2}]': "JSON that does not fit the schema",
        b'{"n":"x"}': "JSON that does not fit the schema",
        b'{"n":99999999999}': "JSON that does not fit the schema",
        b"5": "JSON that does not fit the schema",
        b'{"n":1} tail': "not JSON",
        b'{"n":1},{"n":2}': "more than one JSON value",
        b'{"n":1}\n{"n":2}\n': "more than one JSON value",
        b'{"n":1}]}': "not JSON",
        b'{"n":1}]]} tail': "not JSON",
        b'{"n":1}],[{"n":2}': "not JSON",
        b'{"n":1}],null]} tail': "not JSON",
        b'{"n":1}]],"v":[[{"n":2}': "not JSON",
        b"": "empty",
        b'{"s":"x"}': "required field n is missing",
    }
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [*good, *bad], key=b"k")
    schema = f"{topic}=json:n INT NOT NULL, s STRING, date STRING"
    assert lake.run(topic, schemas=[schema]) == {}
    rows = lake.delta(topic).orderBy("offset").collect()
    assert [row.value and tuple(row.value) for row in rows] == [(1, "x", "ours?"), (2, None, None), None, None]
    letters = lake.delta(f"{topic}@dead-letters").orderBy("offset").collect()
    assert [(row.topic, row.partition, row.offset) for row in letters] == [(topic, 0, 4 + n) for n in range(len(bad))]
    assert {bytes(row.value): row.reason for row in letters} == bad
    assert all(row.timestamp is not None and bytes(row.key) == b"k" for row in letters)
    assert (lake.reporter.topics[topic].records, lake.reporter.topics[topic].dead_letters) == (20, 16)
    assert lake.reporter.topics[topic].unknown == 1


@pytest.mark.every_spark
def test_what_spark_takes_for_json_and_is_none_is_a_dead_letter(lake: Lake, topic: str) -> None:
    """Also in a field that the schema does not name, and whatever follows."""
    lax = ["{'n':1}", '{"n":NaN}', '{"d":NaN}', '{"d":-Infinity}', '{"x":NaN}', "{\"x\":'a'}", "{n:1}", '{"n":01}']
    lax += ['{"x":"\\q"}', '{"x":"a\tb"}', '/*c*/{"n":1}', '{"n":1}//c', '{"n":1,}', '{"n":1};', '{"x":.5}', '{"x":+1}']
    lax += ['{"n":1}#', '{"n":1}\0', '{"x":[1,]}', '{"x":True}', "\ufeff{}", '{"x":INF}', "TRUE", "{\"x\":''}"]
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [{"n": 1, "d": 0.5}, *(text.encode() for text in lax), {"n": 2, "d": 1e300}])
    declared = f"{topic}=json:n INT, d DOUBLE"
    assert lake.run(topic, schemas=[declared]) == {}
    rows = lake.delta(topic).orderBy("offset").collect()
    assert [tuple(row.value) for row in rows] == [(1, 0.5), (2, 1e300)]
    letters = lake.delta(f"{topic}@dead-letters").collect()
    assert {bytes(row.value).decode() for row in letters} == set(lax)
    assert {row.reason for row in letters} == {"not JSON"}

    other = Lake(lake.spark, lake.bootstrap, lake.path / "inferred")
    assert other.run(topic, schemas=[f"{topic}=json"]) == {}
    assert other.delta(topic).schema["value"].dataType.simpleString() == "struct<d:double,n:bigint>"


@pytest.mark.every_spark
def test_a_schema_is_inferred_from_every_partition(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic, 4)
    produce(lake.bootstrap, topic, [{"n": number} for number in range(30)], partition=0)
    transact(lake.bootstrap, topic, f"{topic}-a", [([{"no": 1}] * 9, False)])
    produce(lake.bootstrap, topic, [{"n": 1, "second": 1}] * 9, partition=1)
    produce(lake.bootstrap, topic, [{"deep": {"third": 1}}], partition=3)
    assert lake.run(topic, schemas=[f"{topic}=json"], infer_records=12) == {}
    assert lake.delta(topic).schema["value"].dataType.simpleString() == (
        "struct<deep:struct<third:bigint>,n:bigint,second:bigint>"
    )
    assert lake.delta(topic).count() == 40


@pytest.mark.every_spark
def test_unknown_fields_are_counted_and_named(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    schema = f"{topic}=json:n INT, a STRUCT<x: INT>, l ARRAY<STRUCT<z: INT>>, m MAP<STRING, INT>"
    produce(lake.bootstrap, topic, [{"n": 1, "m": {"any": 1}}, {"n": 1, "N": 2}, {"a": {"x": 1, "y.z": {"w": 1}}}])
    produce(lake.bootstrap, topic, [{"l": [{"z": 1}, {"p": 1}], "N": 1}, None, b"bad", {"n": "misfit", "no": 1}])
    with structlog.testing.capture_logs() as log:
        assert lake.run(topic, schemas=[schema]) == {}
    named = [event["fields"] for event in log if event["event"].startswith("fields that the schema does not name")]
    assert named == [{"N": 2, "a.y.z": 1, "l.p": 1}]
    assert lake.reporter.topics[topic].unknown == 3
    produce(lake.bootstrap, topic, [{"N": 5}, {"N": 5, "q": None}])
    with structlog.testing.capture_logs() as log:
        assert lake.run(topic, schemas=[schema]) == {}
    assert lake.reporter.topics[topic].unknown == 5
    assert lake.delta(topic).count() == 7


def test_a_decimal_with_a_long_exponent_is_a_dead_letter_at_once(lake: Lake, topic: str) -> None:
    """Spark's parser writes out its digits: this would take longer than the test may, or more memory than there is."""
    good = [
        b'{"d": 1.5e2, "s": "7e123456", "l": [1, null], "m": {"7e123456": "2.5"}}',
        b'{"d": 2, "other": "1e99999999", "s": "1e99999999"}',
        b'{"s": "caf\\u00e9, 1e\\u0039999999"}',
    ]
    bad = {
        b'{"d": 1e99999999}': "JSON that does not fit the schema",
        b'{"d": "-1E+9,999,9999"}': "JSON that does not fit the schema",
        b'{"d": "1e\\u0039\\u003999999"}': "JSON that does not fit the schema",
        b'{"l": [1, 1e-99999999]}': "JSON that does not fit the schema",
        b'{"m": {"x": 1e99999999}}': "JSON that does not fit the schema",
        b'{"d": 1e99999999': "not JSON",
    }
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [*good, *bad])
    schema = "d DECIMAL(10,2), s STRING, l ARRAY<DECIMAL(4,1)>, m MAP<STRING, DECIMAL(4,1)>"
    assert lake.run(topic, schemas=[f"{topic}=json:{schema}"]) == {}
    rows = lake.delta(topic).orderBy("offset").collect()
    assert [row.value.d for row in rows] == [150, 2, None]
    assert (rows[0].value.s, rows[0].value.l, rows[0].value.m) == ("7e123456", [1, None], {"7e123456": Decimal("2.5")})
    letters = lake.delta(f"{topic}@dead-letters").collect()
    assert {bytes(row.value): row.reason for row in letters} == bad


def test_an_inferred_schema_is_settled_once_and_a_declared_one_may_grow(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    assert lake.run(topic, schemas=["*=json"]) == {}, "nothing to infer from yet"
    produce(lake.bootstrap, topic, [{"n": 1}, {"n": 2, "s": "x"}])
    assert lake.run(topic, schemas=["*=json"]) == {}
    produce(lake.bootstrap, topic, [{"n": "now a string"}, {"n": 3, "more": True}])
    assert lake.run(topic, schemas=["*=json"]) == {}
    assert lake.delta(topic).select("value.*").columns == ["n", "s"]
    assert offsets(lake.delta(topic)) == [(0, 0), (0, 1), (0, 3)]
    assert offsets(lake.delta(f"{topic}@dead-letters")) == [(0, 2)]

    produce(lake.bootstrap, topic, [{"n": 4, "more": True}])
    assert lake.run(topic, schemas=[f"{topic}=json:n BIGINT, s STRING, more BOOLEAN"]) == {}
    rows = lake.delta(topic).orderBy("offset").collect()
    assert [row.value.more for row in rows] == [None, None, None, True]
    refused = lake.run(topic)
    assert refused == {topic: f"topic {topic}: its table has parsed JSON values and cannot change to raw values"}


def test_a_field_that_is_called_like_sparks_own_is_inferred(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"{", {"_corrupt_record": 1, "n": 2}])
    assert lake.run(topic, schemas=[f"{topic}=json"]) == {}
    assert [tuple(row.value) for row in lake.delta(topic).collect()] == [(1, 2)]


def test_topics_by_pattern_and_names_that_no_table_could_have(lake: Lake, topic: str) -> None:
    names = [f"_{topic}.a-b", f".{topic}.c", f"7.{topic}"]
    for number, name in enumerate(names):
        create_topic(lake.bootstrap, name)
        produce(lake.bootstrap, name, [b"x"] * (number + 1))
    assert lake.run(pattern=rf".*{topic}.*") == {}
    folders = [f"@_{topic}.a-b", f"@.{topic}.c", f"7.{topic}"]
    assert [lake.delta(folder).count() for folder in folders] == [1, 2, 3]
    assert [deltalake.DeltaTable(str(lake.path / folder)).count() for folder in folders] == [1, 2, 3]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"old", b"old"])
    assert lake.run(topic) == {}
    delete_topic(lake.bootstrap, topic)
    assert lake.run(topic) == {topic: f"topic {topic} does not exist"}
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"new", b"new", b"new"])
    assert "deleted and recreated" in lake.run(topic)[topic]
    assert lake.delta(topic).count() == 2
    for _ in range(2):
        assert lake.run(topic, follow_recreated=True) == {}
        assert sorted(bytes(row.value) for row in lake.delta(topic).collect()) == [b"new"] * 3 + [b"old"] * 2


@pytest.mark.every_spark
def test_records_deleted_before_they_were_read_stop_the_run_unless_allowed(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"1", b"2"])
    assert lake.run(topic) == {}
    produce(lake.bootstrap, topic, [b"3", b"4", b"5"])
    delete_records(lake.bootstrap, topic, 4)
    told = lake.run(topic)[topic]
    assert "--allow-data-loss" in told
    assert "partition 0 begins at offset 4, and 2 is the next to read" in told
    assert lake.run(topic, allow_data_loss=True) == {}
    assert offsets(lake.delta(topic)) == [(0, 0), (0, 1), (0, 4)]


def test_a_table_without_its_checkpoint_is_left_alone(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"1"])
    assert lake.run(topic) == {}
    assert "does not know what is in it" in lake.run(topic, checkpoints=str(lake.path / "elsewhere"))[topic]
    (lake.path / topic).rename(lake.path / "away")
    assert "its table is gone" in lake.run(topic)[topic]
    assert "its table is gone" in lake.run(topic, schemas=[f"{topic}=json:n INT"])[topic], "with another schema too"


def test_small_files_are_compacted_by_the_format(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    for value in (b"1", b"2"):
        produce(lake.bootstrap, topic, [value])
        assert lake.run(topic, optimize_every=2) == {}
    table = deltalake.DeltaTable(str(lake.path / topic))
    assert (len(table.file_uris()), table.count()) == (1, 2)
    assert table.history(1)[0]["operation"] == "OPTIMIZE"


def test_times_that_no_calendar_has_a_place_for(lake: Lake, topic: str) -> None:
    """Microseconds and nanoseconds where milliseconds belong; the broker takes them only where it is told to."""
    create_topic(lake.bootstrap, topic, message_timestamp_after_max_ms=str(2**63 - 1))
    produce(lake.bootstrap, topic, [b"1"], timestamp=1_700_000_000_000_000)
    produce(lake.bootstrap, topic, [b"2"], timestamp=253_402_300_799_999)
    assert lake.run(topic) == {}
    rows = lake.delta(topic).orderBy("offset").selectExpr("string(date) AS date").collect()
    assert [row.date for row in rows] == [None, "9999-12-31"]
    dates = deltalake.DeltaTable(str(lake.path / topic)).to_pyarrow_table(columns=["offset", "date"]).to_pylist()
    assert {row["offset"]: row["date"] for row in dates} == {0: None, 1: datetime.date(9999, 12, 31)}
    produce(lake.bootstrap, topic, [b"3"], timestamp=1_700_000_000_000_000_000)
    assert lake.run(topic) == {
        topic: f"topic {topic}: gave up after 1 attempts: java.lang.ArithmeticException: long overflow"
    }


def test_a_relative_path_is_compacted_too(lake: Lake, topic: str) -> None:
    here = Lake(lake.spark, lake.bootstrap, Path(os.path.relpath(lake.path)))
    create_topic(lake.bootstrap, topic)
    for value in (b"1", b"2"):
        produce(lake.bootstrap, topic, [value])
        assert here.run(topic, optimize_every=2) == {}
    assert deltalake.DeltaTable(str(lake.path / topic)).history(1)[0]["operation"] == "OPTIMIZE"


@pytest.mark.every_spark
def test_a_batch_tried_twice_is_in_the_tables_once(lake: Lake, topic: str) -> None:
    """As after a kill -9 between the tables' commits and Spark's: the batch is planned, and not known to have ended."""
    create_topic(lake.bootstrap, topic)
    schemas = [f"{topic}=json:n INT"]
    produce(lake.bootstrap, topic, [{"n": 1}, {"n": 2}])
    assert lake.run(topic, schemas=schemas) == {}
    produce(lake.bootstrap, topic, [{"n": 3}, b"bad"])
    assert lake.run(topic, schemas=schemas) == {}
    commits = lake.path / "@checkpoints" / topic / "records" / "0" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    produce(lake.bootstrap, topic, [{"n": 4, "s": "x"}])
    assert lake.run(topic, schemas=[f"{topic}=json:n INT, s STRING"]) == {}
    assert offsets(lake.delta(topic)) == [(0, 0), (0, 1), (0, 2), (0, 4)]
    assert offsets(lake.delta(f"{topic}@dead-letters")) == [(0, 3)]
    assert (lake.reporter.topics[topic].records, lake.reporter.topics[topic].dead_letters) == (7, 2)
    states = sorted((lake.path / "@checkpoints" / topic / "odradek").glob("[0-9]*"))
    newest = json.loads(states[-1].read_text())
    assert [entry["from_batch"] for entry in newest["schemas"]] == [0, 2], "a retried batch keeps its schema"


def test_a_batch_without_bad_records_makes_no_table_of_dead_letters_when_it_is_retried(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    schemas = [f"{topic}=json:n INT"]
    produce(lake.bootstrap, topic, [{"n": 1}])
    assert lake.run(topic, schemas=schemas) == {}
    for name in ("0", ".0.crc"):
        (lake.path / "@checkpoints" / topic / "records" / "0" / "commits" / name).unlink()
    assert lake.run(topic, schemas=schemas) == {}
    assert offsets(lake.delta(topic)) == [(0, 0)]
    assert not (lake.path / f"{topic}@dead-letters").exists()
