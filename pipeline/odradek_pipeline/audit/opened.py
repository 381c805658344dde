"""Tables of all formats, read by column with pyarrow: Delta (deltalake), Iceberg (pyiceberg) and plain Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from odradek_pipeline.audit.sides import COMPARED, AuditError

FORMATS = ("delta", "iceberg", "parquet")
SINK_LOG = "_spark_metadata"
BATCH_ROWS = 16 << 10
_SCAN = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False)
"""Parquet's own read-ahead would hold whole files."""
NEEDED = ("partition", "offset")
TIMESTAMP_TYPE = "timestamp_type"
"""A column that `lake` writes: 1 where the broker has set the time."""


def place_of(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it: of a plain path, the local disk. `s3a` is what Hadoop calls S3."""
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    try:
        system, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except (pa.ArrowInvalid, OSError) as error:
        raise AuditError(f"{uri} cannot be opened: {error}") from error
    return system, path


def exists(uri: str) -> bool:
    system, path = place_of(uri)
    return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def format_of(uri: str) -> str:
    """The format of the table in a folder, by what lies there. Raises AuditError if none does."""
    for name, mark in (("delta", "_delta_log"), ("iceberg", "metadata")):
        if exists(f"{uri}/{mark}"):
            return name
    if not exists(uri):
        raise AuditError(f"There is no table at {uri}.")
    return "parquet"


class OpenTable:
    """A table as it was when it was opened. `names` are its columns by Kafka's names for them, if they differ."""

    def __init__(self, uri: str, table_format: str, names: Mapping[str, str], version: int | None = None) -> None:
        """Raises AuditError for a table that cannot be read, or has no partition and offset."""
        self.name = uri
        self.format = table_format
        self._names = {name: names.get(name, name) for name in (*NEEDED, *COMPARED, TIMESTAMP_TYPE)}
        self._scan, schema = _OPENERS[table_format](uri, version)
        missing = [self._names[name] for name in NEEDED if self._names[name] not in schema.names]
        if missing:
            raise AuditError(
                f"{uri} has no column {' and '.join(missing)}: an audit needs partition and offset of each row. "
                "If they have other names there: --column offset=NAME. The table has " + ", ".join(schema.names)
            )
        present = [name for name, its in self._names.items() if its in schema.names]
        self._types = {name: schema.field(self._names[name]).type for name in present}

    def columns(self) -> Mapping[str, pa.DataType]:
        return self._types

    def read(
        self, columns: Sequence[str], partition: int | None = None, start: int | None = None, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = (*NEEDED, *columns)
        bounds = (partition, start, end)
        for batch in self._scan([self._names[name] for name in wanted], self._names, bounds):
            if batch.num_rows:
                taken = [batch.column(self._names[name]) for name in wanted]
                yield pa.RecordBatch.from_arrays(taken, names=list(wanted))


Bounds = tuple[int | None, int | None, int | None]


def _parquet_scan(
    dataset: ds.Dataset, columns: list[str], names: Mapping[str, str], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Row groups whose statistics are outside of the bounds are not read.

    Each row group has a scanner of its own: one for all would hold up to a gigabyte that nobody has taken yet.
    """
    wanted = _expression(ds.field, names, bounds)
    try:
        for file in dataset.get_fragments(filter=wanted):
            for group in file.split_by_row_group(wanted, schema=dataset.schema):
                yield from group.scanner(
                    schema=dataset.schema,
                    columns=columns,
                    filter=wanted,
                    batch_size=BATCH_ROWS,
                    batch_readahead=0,
                    fragment_readahead=0,
                    fragment_scan_options=_SCAN,
                ).to_batches()
    except (pa.ArrowInvalid, OSError) as error:
        raise AuditError(f"The table cannot be read: {error}") from error


def _expression(field: Any, names: Mapping[str, str], bounds: Bounds) -> Any:
    partition, start, end = bounds
    found = None
    for column, least, value in (
        ("partition", None, partition),
        ("offset", True, start),
        ("offset", False, end),
    ):
        if value is None:
            continue
        cell = field(names[column])
        part = cell == value if least is None else cell >= value if least else cell < value
        found = part if found is None else found & part
    return found


def _open_delta(uri: str, version: int | None) -> tuple[Any, pa.Schema]:
    try:
        import deltalake
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise AuditError("Delta tables need the package deltalake: pip install deltalake") from error
    try:
        dataset = deltalake.DeltaTable(uri.replace("s3a://", "s3://", 1), version=version).to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        raise AuditError(f"The Delta table {uri} cannot be read: {error}") from error
    return partial(_parquet_scan, dataset), dataset.schema


def _open_parquet(uri: str, version: int | None) -> tuple[Any, pa.Schema]:
    """The files that Spark's sink log names, where it has one; else all files of the folder."""
    if version is not None:
        raise AuditError("--version is for Delta and Iceberg tables: Parquet files have no versions.")
    system, path = place_of(uri)
    files = _sink_files(system, f"{path}/{SINK_LOG}")
    try:
        dataset = ds.dataset(
            path if files is None else files,
            filesystem=system,
            format="parquet",
            partitioning=ds.partitioning(flavor="hive"),
            partition_base_dir=path,
            exclude_invalid_files=False,
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise AuditError(f"The files of {uri} cannot be read: {error}") from error
    return partial(_parquet_scan, dataset), dataset.schema


def _sink_files(system: fs.FileSystem, log: str) -> list[str] | None:
    """The files that count, as Spark's file sink has noted them; None if it has no log."""
    if system.get_file_info(log).type == fs.FileType.NotFound:
        return None
    entries = {entry.base_name: entry.path for entry in system.get_file_info(fs.FileSelector(log))}
    compacted = [int(name.removesuffix(".compact")) for name in entries if name.endswith(".compact")]
    newest = max(compacted, default=-1)
    later = sorted(int(name) for name in entries if name.isdigit() and int(name) > newest)
    names = [*([f"{newest}.compact"] if compacted else []), *map(str, later)]
    files: dict[str, None] = {}
    for name in names:
        with system.open_input_stream(entries[name]) as stream:
            lines = stream.read().decode().splitlines()
        for line in lines[1:]:
            entry = json.loads(line)
            path = place_of(entry["path"])[1]
            if entry.get("action", "add") == "add":
                files[path] = None
            else:
                files.pop(path, None)
    return list(files)


def _open_iceberg(uri: str, version: int | None) -> tuple[Any, pa.Schema]:
    """By the newest metadata file in a folder (a Hadoop catalog's), or `CATALOG:NAMESPACE.TABLE` of a catalog."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.table import StaticTable, Table
    except ImportError as error:
        raise AuditError("Iceberg tables need the package pyiceberg: pip install pyiceberg") from error
    table: Table
    try:
        if "/" in uri:
            table = StaticTable.from_metadata(_newest_metadata(uri))
        else:
            catalog, _, name = uri.partition(":")
            table = load_catalog(catalog).load_table(name)
    except (NoSuchTableError, ValueError, OSError) as error:
        raise AuditError(f"The Iceberg table {uri} cannot be read: {error}") from error
    return partial(_iceberg_scan, table, version), table.schema().as_arrow()


def _newest_metadata(uri: str) -> str:
    system, path = place_of(uri)
    entries = system.get_file_info(fs.FileSelector(f"{path}/metadata"))
    names = [entry.base_name for entry in entries if entry.base_name.endswith(".metadata.json")]
    if not names:
        raise AuditError(f"{uri}/metadata has no file *.metadata.json.")
    newest = max(names, key=lambda name: int("".join(filter(str.isdigit, name.split("-")[0].split(".")[0])) or 0))
    scheme = uri.partition("://")[0].replace("s3a", "s3") + "://" if "://" in uri else ""
    return f"{scheme}{path}/metadata/{newest}"


def _iceberg_scan(
    table: Any, version: int | None, columns: list[str], names: Mapping[str, str], bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    from pyiceberg import expressions

    build: Any = expressions  # its classes take positional arguments, which their types deny
    partition, start, end = bounds
    condition = build.AlwaysTrue()
    for compared, column, value in (
        (build.EqualTo, "partition", partition),
        (build.GreaterThanOrEqual, "offset", start),
        (build.LessThan, "offset", end),
    ):
        if value is not None:
            condition = build.And(condition, compared(names[column], value))
    scan = table.scan(row_filter=condition, selected_fields=tuple(columns), snapshot_id=version)
    try:
        yield from scan.to_arrow_batch_reader()
    except (ValueError, OSError) as error:
        raise AuditError(f"The Iceberg table cannot be read: {error}") from error


_OPENERS = {"delta": _open_delta, "iceberg": _open_iceberg, "parquet": _open_parquet}
