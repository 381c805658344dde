"""Gigabytes of a topic as a data folder, and the raw table of it, for the figures in docs/audit.md.

`python -m benchmarks.audit_generate FOLDER --gigabytes 5`: `FOLDER/data` has the topic `orders` in four partitions, as
a broker would have written it (records of 1 KB, batches of 16, uncompressed), `FOLDER/table` its rows in Parquet.
"""

from __future__ import annotations

import random
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.protocol.records.batch import read_header, set_offsets_and_epoch
from odradek_pipeline.protocol.records.build import Record, build_batch
from odradek_pipeline.restore.log_writer import LogWriter

TOPIC = "orders"
PARTITIONS = 4
VALUE_BYTES = 1_000
BATCH = 16
BATCHES_A_GROUP = 1_000
"""Of one row group of the table: 16,000 rows."""
NAMES = ("partition", "offset", "timestamp", "key", "headers", "value")
FIRST_MS = 1_700_000_000_000


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--gigabytes", type=float, default=5.0, show_default=True, help="of values in the topic")
def main(folder: Path, gigabytes: float) -> None:
    """Write a data folder and a table with the same records."""
    each = int(gigabytes * 1e9 / VALUE_BYTES / PARTITIONS / BATCH)
    (folder / "table").mkdir(parents=True)
    (folder / "data").mkdir()
    for partition in range(PARTITIONS):
        write(folder, partition, each)


def write(folder: Path, partition: int, batches: int) -> None:
    """One partition: its log, and its file of the table."""
    rng = random.Random(partition)
    noise = rng.randbytes(4 * VALUE_BYTES)
    schema = pa.schema([(name, COLUMNS[name].arrow) for name in NAMES])
    log = LogWriter(folder / "data" / f"{TOPIC}-{partition}", 0)
    with pq.ParquetWriter(folder / "table" / f"part-{partition}.parquet", schema, compression="zstd") as table:
        for start in range(0, batches, BATCHES_A_GROUP):
            rows: list[Record] = []
            for number in range(start, min(start + BATCHES_A_GROUP, batches)):
                records = [_record(at, number * BATCH + at, noise, rng) for at in range(BATCH)]
                data = build_batch(records)
                set_offsets_and_epoch(data, read_header(data), number * BATCH, 0)
                log.append(read_header(data), data)
                rows += [record._replace(offset=number * BATCH + record.offset) for record in records]
            table.write_batch(_batch(partition, rows, schema))
    log.close(log.end)


def _record(at: int, offset: int, noise: bytes, rng: random.Random) -> Record:
    begin = rng.randrange(len(noise) - VALUE_BYTES)
    value = b"%020d" % offset + noise[begin : begin + VALUE_BYTES - 20]
    return Record(at, FIRST_MS + offset, b"key %d" % rng.randrange(1_000_000), value, ((b"trace", b"%d" % offset),))


def _batch(partition: int, rows: list[Record], schema: pa.Schema) -> pa.RecordBatch:
    columns = {
        "partition": [partition] * len(rows),
        "offset": [row.offset for row in rows],
        "timestamp": [row.timestamp * 1000 for row in rows],
        "key": [row.key for row in rows],
        "headers": [[{"key": key.decode(), "value": value} for key, value in row.headers] for row in rows],
        "value": [row.value for row in rows],
    }
    kinds = [pa.int64() if field.name == "timestamp" else field.type for field in schema]
    arrays = [pa.array(columns[name], kind) for name, kind in zip(NAMES, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


if __name__ == "__main__":
    main()
