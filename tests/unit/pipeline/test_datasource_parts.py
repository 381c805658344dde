"""A stream's offsets, filters, columns and the decoder, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.truncating import truncate_to

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from pyspark.sql.types import StructType

from odradek_pipeline.datasource import DataLossError, DataSourceError
from odradek_pipeline.datasource.columns import COLUMNS, names_of, spark_schema
from odradek_pipeline.datasource.decode import Chunk, ChunkPlace, decode
from odradek_pipeline.datasource.filters import PushdownReader
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.stream import OdradekStreamReader
from odradek_pipeline.protocol.records.batch import HEADER_SIZE, MAX_SEQUENCE, read_header, set_offsets_and_epoch
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.storage.cleaner.cleaning import end_txn, put
from tests.unit.storage.support import NOW, Rig

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(OsFileSystem(), CONFIG, str(tmp_path / "data"))


def fill(rig: Rig, numbers: range, *, topic: str = "t", partition: int = 0, **options: Any) -> None:
    for number in numbers:
        pair = (b"k", str(number).encode().ljust(100))
        put(rig.log(topic, partition), pair, timestamp=NOW + 1000 * number, **options)


# -- streams


@dataclass
class Query:
    """As Spark does it: offsets are kept, and the reader may be replaced at any time."""

    options: dict[str, str]
    at: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.reader = OdradekStreamReader(SourceOptions.parse(self.options), ("value",))
        if self.at is None:
            self.at = self.reader.initialOffset()
        else:
            assert self.reader.partitions(self.at, self.at) == []

    def batch(self) -> list[int]:
        """One micro-batch."""
        assert self.at is not None
        end = self.reader.latestOffset()
        if end == self.at:
            return []
        splits = self.reader.partitions(self.at, end)
        rows = [row for split in splits for one in self.reader.read(split) for row in one.to_pylist()]
        self.reader.commit(end)
        self.at = end
        return [int(row["value"]) for row in rows]


def query(rig: Rig, **options: str) -> Query:
    return Query({"path": rig.root, "startingOffsets": "earliest", **options})


def test_a_stream_reads_every_record_once_over_restarts(rig: Rig) -> None:
    fill(rig, range(7))
    stream = query(rig, splitBytes="150")
    assert stream.batch() == list(range(7))
    assert stream.batch() == []
    fill(rig, range(7, 20))
    stream.restart()
    assert stream.batch() == list(range(7, 20))
    fill(rig, range(20, 21))
    assert stream.batch() == [20]


def test_a_stream_begins_at_the_end_unless_told_otherwise(rig: Rig) -> None:
    fill(rig, range(7))
    stream = query(rig, startingOffsets="latest")
    fill(rig, range(7, 9))
    assert stream.batch() == [7, 8]


def test_what_makes_no_sense_for_a_stream_is_named(rig: Rig) -> None:
    for option in ({"endingOffsets": '{"t":{"0":1}}'}, {"endingTimestamp": "1"}):
        with pytest.raises(DataSourceError, match="A stream has no end"):
            query(rig, **option)
    of_kafkas_connector = {"t": {"0": 5}}
    with pytest.raises(DataSourceError, match="stream from another source"):
        query(rig).reader.partitions(of_kafkas_connector, of_kafkas_connector)


def test_a_partition_that_appears_later_is_read_from_its_start(rig: Rig) -> None:
    fill(rig, range(2))
    stream = query(rig, startingOffsets="latest")
    fill(rig, range(5), topic="u", partition=1)
    assert stream.batch() == list(range(5))


def test_a_micro_batch_is_limited_and_no_partition_waits_for_another(rig: Rig) -> None:
    fill(rig, range(90))
    fill(rig, range(100, 110), partition=1)
    stream = query(rig, maxOffsetsPerTrigger="10")
    found = []
    for _ in range(100):
        stream.restart()
        batch = stream.batch()
        assert len(batch) <= 11
        found += batch
    assert sorted(found) == [*range(90), *range(100, 110)]


def test_a_first_micro_batch_is_limited_though_spark_asks_for_its_end_first(rig: Rig) -> None:
    fill(rig, range(9))
    options = {"path": rig.root, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    reader = OdradekStreamReader(SourceOptions.parse(options), ("value",))
    latest = reader.latestOffset()
    fill(rig, range(9, 12))
    assert (reader.initialOffset()["offsets"], latest["offsets"]) == ({"t": {"0": 0}}, {"t": {"0": 4}})


def test_a_micro_batch_that_is_tried_again_has_the_same_records(rig: Rig) -> None:
    fill(rig, range(5))
    fill(rig, range(5, 6), producer_id=7, transactional=True, sequence=0)
    end_txn(rig.log(), 7, commit=False)
    stream = query(rig)
    end = stream.reader.latestOffset()
    fill(rig, range(6, 30))
    for _ in range(2):
        reader = OdradekStreamReader(SourceOptions.parse(stream.options), ("value",))
        assert stream.at is not None
        splits = reader.partitions(stream.at, end)
        rows = [row for split in splits for one in reader.read(split) for row in one.to_pylist()]
        assert [int(row["value"]) for row in rows] == list(range(5))


def test_an_open_transaction_holds_a_stream_back(rig: Rig) -> None:
    stream = query(rig)
    fill(rig, range(1))
    fill(rig, range(1, 2), producer_id=7, transactional=True, sequence=0)
    fill(rig, range(2, 3), producer_id=8, transactional=True, sequence=0)
    fill(rig, range(3, 4))
    assert stream.batch() == [0]
    end_txn(rig.log(), 7, commit=False)
    assert stream.batch() == []
    end_txn(rig.log(), 8, commit=True)
    stream.restart()
    assert stream.batch() == [2, 3]


def test_what_retention_took_from_a_stream_is_missed_or_left_out(rig: Rig) -> None:
    fill(rig, range(3))
    strict, lenient = query(rig), query(rig, failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == [0, 1, 2]
    fill(rig, range(3, 10))
    rig.log().increment_log_start_offset(5)
    rig.manager.checkpoint_log_start_offsets()
    with pytest.raises(DataLossError, match="Offset 3 of t-0 is asked for, and there are 5 up to 10"):
        strict.batch()
    assert lenient.batch() == list(range(5, 10))


def test_a_topic_that_was_made_anew_is_another_one(rig: Rig) -> None:
    fill(rig, range(3))
    strict, lenient = query(rig), query(rig, failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == [0, 1, 2]
    fill(rig, range(10, 20))
    metadata = Path(rig.log().folder) / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("topic_id: A", "topic_id: B"))
    with pytest.raises(DataLossError, match="Topic t was deleted and recreated"):
        strict.batch()
    assert lenient.batch() == [0, 1, 2, *range(10, 20)]
    assert lenient.batch() == []


def test_retention_that_overtakes_a_stream_is_missed_or_left_out(rig: Rig) -> None:
    """All that the stream has looked at is gone by its next look, so there is no segment to go on in."""
    fill(rig, range(3))
    strict, lenient = query(rig), query(rig, failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == [0, 1, 2]
    for number in range(3, 20):
        fill(rig, range(number, number + 1), producer_id=7, transactional=True, sequence=number - 3)
    end_txn(rig.log(), 7, commit=True)
    fill(rig, range(20, 30))
    logs = sorted(Path(rig.log().folder).glob("*.log"))
    first = next(int(path.stem) for path in logs if int(path.stem) > 10)
    for path in logs:
        if int(path.stem) < first:
            path.unlink()
    with pytest.raises(DataLossError, match=f"Offset 3 of t-0 is asked for, and there are {first} up to 31"):
        strict.batch()
    assert lenient.batch() == [*range(first, 20), *range(20, 30)]
    fill(rig, range(30, 31))
    assert lenient.batch() == [30]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("left", [9, 2])
def test_a_log_that_is_cut_below_a_stream_is_a_loss(rig: Rig, left: int, restarted: bool) -> None:
    """In its last segment or before, under a stream or between its runs: offsets come again, with other records."""
    fill(rig, range(10))
    strict, lenient = query(rig), query(rig, failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == list(range(10))
    truncate_to(rig.log(), left)
    if restarted:
        strict.restart()
        lenient.restart()
    with pytest.raises(DataLossError, match=f"ends at (offset )?{left} now|has become shorter"):
        strict.batch()
    assert lenient.batch() == []
    fill(rig, range(20, 40))
    assert lenient.batch() == list(range(20, 40))


def test_a_checkpoint_behind_a_stream_is_no_loss(rig: Rig) -> None:
    fill(rig, range(10))
    stream = query(rig)
    assert stream.batch() == list(range(10))
    stream.options["highWatermark"] = "checkpointed"
    stream.restart()
    assert stream.batch() == []


# -- filters


@dataclass
class Filter:
    """As PySpark 4.1's filters are: a class for each kind, with an attribute's name in parts and a value."""

    attribute: tuple[str, ...]
    value: Any


def a_filter(kind: str, column: str, value: Any) -> Filter:
    made = type(kind, (Filter,), {"__match_args__": ("attribute", "value")})
    return made((column,), value)  # type: ignore[no-any-return]


def moment(number: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=NOW + 1000 * number)


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ([("EqualTo", "offset", 4)], range(4, 5)),
        ([("In", "offset", (4, 9, 6))], range(4, 10)),
        ([("In", "offset", (4, None, 6))], range(4, 7)),
        ([("In", "offset", (None,))], range(0)),
        ([("GreaterThan", "offset", 4), ("LessThan", "offset", 9)], range(5, 9)),
        ([("GreaterThanOrEqual", "offset", 4), ("LessThanOrEqual", "offset", 9)], range(4, 10)),
        ([("EqualTo", "topic", "u")], range(0)),
        ([("In", "topic", ("u", "t")), ("EqualTo", "partition", 0)], range(17)),
        ([("EqualTo", "partition", 1)], range(0)),
        ([("GreaterThan", "timestamp", moment(11))], range(11, 17)),
        ([("EqualTo", "timestamp", moment(11))], range(11, 17)),
        ([("LessThan", "timestamp", moment(11))], range(17)),
        ([("IsNotNull", "key", None)], range(17)),
        ([], range(17)),
    ],
)
def test_filters_spare_reading_and_stay_spark_s(rig: Rig, filters: list[tuple[str, str, Any]], offsets: range) -> None:
    fill(rig, range(17))
    reader = PushdownReader(SourceOptions.parse({"path": rig.root}), ("offset",))
    given = [a_filter(*one) for one in filters]
    assert list(reader.pushFilters(given)) == given
    found = [row["offset"] for split in reader.partitions() for one in reader.read(split) for row in one.to_pylist()]
    assert found == list(offsets)


# -- columns


def test_a_schema_may_have_a_part_of_the_columns() -> None:
    assert names_of(StructType().add("offset", "long").add("key", "binary")) == ("offset", "key")
    assert names_of(spark_schema(tuple(COLUMNS))) == tuple(COLUMNS)
    with pytest.raises(DataSourceError, match="no column kye"):
        names_of(StructType().add("kye", "binary"))
    with pytest.raises(DataSourceError, match="Column key is binary, not string"):
        names_of(StructType().add("key", "string"))


def decoded(batch: bytes | bytearray, *names: str, start: int = 0, end: int = 1 << 62) -> list[dict[str, Any]]:
    chunk = Chunk()
    chunk.add(read_header(batch), bytes(batch[HEADER_SIZE:]))
    rows: list[dict[str, Any]] = decode(chunk, ChunkPlace("t", 3, start, end), names).to_pylist()
    return rows


def test_every_column_of_a_record() -> None:
    batch = build_batch(
        [Record(0, 5, b"k", None, (("é".encode(), b"v"), (b"", None))), Record(2, 4, None, b"")],
        producer_id=1 << 40,
        producer_epoch=9,
        base_sequence=MAX_SEQUENCE,
        transactional=True,
    )
    set_offsets_and_epoch(batch, read_header(batch), 40, -1)
    first, second = decoded(batch, *COLUMNS)
    assert first == {
        "key": b"k",
        "value": None,
        "headers": [{"key": "é", "value": b"v"}, {"key": "", "value": None}],
        "topic": "t",
        "partition": 3,
        "offset": 40,
        "timestamp": datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC),
        "timestampType": 0,
        "producer_id": 1 << 40,
        "producer_epoch": 9,
        "sequence": MAX_SEQUENCE,
        "is_transactional": True,
    }
    assert (second["key"], second["value"], second["headers"]) == (None, b"", [])
    assert (second["offset"], second["sequence"]) == (42, 1)


def test_a_time_that_the_broker_set_counts_for_all_records() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"v")], log_append_time=NOW)
    expected = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=NOW), 1)
    assert [(row["timestamp"], row["timestampType"]) for row in decoded(batch, "timestamp", "timestampType")] == [
        expected,
        expected,
    ]


def test_a_time_beyond_what_spark_can_tell_is_null() -> None:
    batch = build_batch([Record(0, 1 << 60, b"k", b"v"), Record(1, -1, b"k", b"v"), Record(2, -(1 << 60), b"", b"")])
    times = [row["timestamp"] for row in decoded(batch, "timestamp")]
    assert times == [None, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), None]
    earliest = build_batch([Record(0, -(1 << 63), b"k", b"v")])
    assert decoded(earliest, "timestamp") == [{"timestamp": None}]


def test_only_wanted_offsets_are_decoded() -> None:
    batch = build_batch([Record(n, n, b"k%d" % n, None, ((b"h", b"%d" % n),)) for n in range(10)])
    rows = decoded(batch, "offset", "key", "headers", start=3, end=5)
    assert rows == [
        {"offset": n, "key": b"k%d" % n, "headers": [{"key": "h", "value": b"%d" % n}]} for n in range(3, 5)
    ]


@pytest.mark.parametrize("at", range(27))
def test_a_spoilt_section_is_an_error_or_other_bytes(at: int) -> None:
    """Never anything else: no record is read from beyond the batch."""
    batch = build_batch([Record(0, 1, b"key", b"value", ((b"h", b"v"),)), Record(1, 2, b"k", b"v")])
    section = bytearray(batch[HEADER_SIZE:])
    for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
        section[at] = value
        chunk = Chunk()
        chunk.add(read_header(batch), bytes(section))
        try:
            found = decode(chunk, ChunkPlace("t", 0, -(1 << 62), 1 << 62), tuple(COLUMNS))
        except ValueError:
            continue
        found.validate(full=True)
        assert found.num_rows == 2
