"""A data folder with a topic of two partitions, and tables of it that no code of the pipeline has written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from odradek_pipeline.commands.audit import command
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.cleaner.cleaning import end_txn
from tests.unit.storage.support import NOW, Rig, append

TOPIC = "orders"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("headers", HEADERS),
        ("value", pa.binary()),
    ]
)
ABORTED, MARKER = 5, 6
"""The first aborted offset of partition 0, and that of its marker."""

Row = dict[str, Any]
Parse = Callable[[bytes | None], Any]


def batch_at(log: UnifiedLog, numbers: range, **options: Any) -> None:
    """Append a batch of orders; each has a key, a header and a JSON value, but for each seventh, a tombstone."""
    records = [record(log.log_end_offset + at, number) for at, number in enumerate(numbers)]
    shifted = [one._replace(offset=at) for at, one in enumerate(records)]
    append(log, memoryview(build_batch(shifted, **options)))


def record(offset: int, number: int) -> Record:
    value = None if number % 7 == 6 else json.dumps({"id": number, "price": number / 8, "name": f"n{number}"}).encode()
    return Record(offset, NOW + number, f"key {number}".encode(), value, ((b"trace", str(number).encode()),))


def fill(root: Path) -> Rig:
    """Partition 0: 5 records, an aborted and its marker, 20 of a transaction and its marker. Partition 1: 40, zstd."""
    rig = Rig(OsFileSystem(), LogConfig(segment_bytes=1500, index_interval_bytes=200), str(root))
    first, second = rig.log(TOPIC, 0), rig.log(TOPIC, 1)
    batch_at(first, range(5))
    batch_at(first, range(900, 901), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end_txn(first, 7, commit=False)
    for number in range(4):
        numbers = range(5 + 5 * number, 10 + 5 * number)
        batch_at(first, numbers, producer_id=7, producer_epoch=0, base_sequence=1 + 5 * number, transactional=True)
    end_txn(first, 7, commit=True)
    for number in range(8):
        batch_at(second, range(100 + 5 * number, 105 + 5 * number), compression=Compression.ZSTD)
    rig.manager.close()
    return rig


def rows() -> list[Row]:
    """The rows that a table of the topic has; the values as bytes."""
    offsets = [*range(5), *range(7, 27)]
    found = [_row(0, offset, number) for offset, number in zip(offsets, range(25), strict=True)]
    return found + [_row(1, offset, 100 + offset) for offset in range(40)]


def _row(partition: int, offset: int, number: int) -> Row:
    made = record(offset, number)
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": made.timestamp * 1000,
        "key": made.key,
        "headers": [{"key": key.decode(), "value": value} for key, value in made.headers],
        "value": made.value,
    }


def arrow(some: list[Row], value: pa.DataType | None = None) -> pa.Table:
    """Rows as a table; `value` is the type of their values."""
    schema = SCHEMA.set(5, pa.field("value", value or pa.binary()))
    plain = schema.set(2, pa.field("timestamp", pa.int64()))
    return pa.Table.from_pylist(some, schema=plain).cast(schema)


def write(folder: Path, some: list[Row], value: pa.DataType | None = None) -> Path:
    """A Parquet table of two files."""
    folder.mkdir()
    half = len(some) // 2
    for number, part in enumerate((some[half:], some[:half])):
        pq.write_table(arrow(part, value), folder / f"part-{number}.parquet", row_group_size=7)
    return folder


def audit(*arguments: object) -> tuple[int, dict[str, Any]]:
    """(exit status, result) of the command."""
    asked = CliRunner().invoke(command, [*map(str, arguments), "--json", "-"], catch_exceptions=False)
    return asked.exit_code, json.loads(asked.stdout) if asked.stdout.startswith("{") else {"text": asked.output}


def faults(result: Mapping[str, Any]) -> dict[tuple[int, str], list[int]]:
    """By partition and kind, the offsets with something wrong."""
    kinds = ("missing", "twice", "extra", "aborted_in_table", "markers_in_table", "different")
    return {
        (found["partition"], kind): [at for first, last in found[kind]["ranges"] for at in range(first, last + 1)]
        for found in result["partitions"]
        for kind in kinds
        if found[kind]["count"]
    }


def changed(partition: int, offset: int, /, **cells: Any) -> Callable[[list[Row]], list[Row]]:
    """The rows with other cells in one of them."""

    def change(some: list[Row]) -> list[Row]:
        return [row | cells if (row["partition"], row["offset"]) == (partition, offset) else row for row in some]

    return change


def moved(rig: Rig, **config: Any) -> Rig:
    """The rig with other settings."""
    rig.config = replace(rig.config, **config)
    return rig
