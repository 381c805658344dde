"""The input of a job: opened, pinned to a version if the format has versions, and distinguishable from any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek_pipeline.files import Files, delta_name, join
from odradek_pipeline.json_text import STRICT
from odradek_pipeline.replay.progress import ReplayRefused

# By default Spark turns what it cannot read into nulls, and takes the columns of a CSV file for those of the schema,
# whatever its header calls them.
OUR_OPTIONS = {"json": {"mode": "FAILFAST"} | STRICT, "csv": {"mode": "FAILFAST", "enforceSchema": "false"}}


@dataclass(frozen=True, slots=True)
class Source:
    """`path` is a folder, file or pattern (Iceberg: also a table's name), `schema` DDL, `options` the reader's."""

    path: str
    format: str
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenSource:
    """`identity` is a plain JSON object: equal as long as the rows are the same."""

    frame: DataFrame
    identity: Mapping[str, Any]


def open_source(spark: SparkSession, source: Source, begun: Mapping[str, Any] | None) -> OpenSource:
    """Open the source. `begun` is its identity when the job began: a table that has changed is read in that version.

    Raises ReplayRefused for files that come, go or change between our listing and Spark's, and for an Iceberg table
    without a version.
    """
    _require_existing(spark, source)
    same = begun if begun is not None and begun.get("path") == source.path else {}
    options = OUR_OPTIONS.get(source.format, {}) | dict(source.options)
    reader = spark.read.format(source.format).options(**options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    match source.format:
        case "delta":
            version = same.get("version", _delta_version(spark, source.path))
            frame = reader.option("versionAsOf", version).load(source.path)
            state: dict[str, Any] = {"table": _delta_id(spark, source.path), "version": version}
        case "iceberg":
            snapshot = same.get("snapshot", _iceberg_snapshot(spark, source.path))
            frame = reader.option("snapshot-id", snapshot).load(source.path)
            state = {"snapshot": snapshot}
        case _:
            state = _files(spark, source.path)
            frame = reader.load(source.path)
            if state != _files(spark, source.path):
                raise ReplayRefused(
                    f"the files of {source.path} changed while they were listed: a job reads what is whole"
                )
    columns = {f"column {name}": kind for name, kind in frame.dtypes}
    read_by = {f"option {name}": value for name, value in options.items()}
    zone = spark.conf.get("spark.sql.session.timeZone")  # times in JSON and text are in this zone
    return OpenSource(
        frame, {"path": source.path, "format": source.format, "time zone": zone, **state, **read_by, **columns}
    )


def _require_existing(spark: SparkSession, source: Source) -> None:
    """Raises ReplayRefused for a path that leads nowhere, and for a folder that is no Delta table."""
    if source.format == "iceberg" and "/" not in source.path:
        return  # a table's name
    files = Files(spark)
    if not files.matches(source.path):
        raise ReplayRefused(f"--source {source.path}: there is no such file or folder ({files.whole(source.path)})")
    if source.format == "delta" and not files.exists(join(source.path, "_delta_log")):
        others = "parquet, json, csv or iceberg"
        raise ReplayRefused(f"--source {source.path} is no Delta table: name its --format, one of {others}")


def _delta_version(spark: SparkSession, path: str) -> int:
    (row,) = spark.sql(f"DESCRIBE HISTORY {delta_name(spark, path)} LIMIT 1").select("version").collect()
    return int(row.version)


def _delta_id(spark: SparkSession, path: str) -> str:
    (row,) = spark.sql(f"DESCRIBE DETAIL {delta_name(spark, path)}").select("id").collect()
    return str(row.id)


def _iceberg_snapshot(spark: SparkSession, path: str) -> int:
    references = spark.read.format("iceberg").load(f"{path}#refs" if "/" in path else f"{path}.refs")
    found = references.where(F.col("name") == "main").select("snapshot_id").collect()
    if not found:
        raise ReplayRefused(f"{path} has no snapshot yet: nothing was ever written to it")
    return int(found[0].snapshot_id)


def _files(spark: SparkSession, path: str) -> dict[str, Any]:
    """The number of files and bytes, and a hash over names, sizes and modification times; Spark only lists them."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    seen = F.xxhash64("path", "length", "modificationTime")
    (row,) = listing.agg(
        F.count("*").alias("files"), F.sum("length").alias("bytes"), F.bit_xor(seen).alias("state")
    ).collect()
    return {"files": row.files, "bytes": row.bytes or 0, "state": f"{(row.state or 0) & (1 << 64) - 1:016x}"}
