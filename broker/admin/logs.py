"""`odradek log dump|verify|repair` and `odradek backup verify`: look into the files of logs, and repair damaged ones.

A dump is made of rows, each a mapping: of a batch, a record, an index entry or a line. Verifying changes nothing;
a repair keeps all that it removes in a folder of its own.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click
import structlog

from protocol.coordinator_records.consumer_group_records import CONSUMER_GROUP_SCHEMAS
from protocol.coordinator_records.group_records import GROUP_METADATA, OFFSET_COMMIT
from protocol.coordinator_records.record_schema import RecordSchema, record_id
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG
from protocol.records.batch import check_crc
from protocol.records.build import Record, iter_records, read_end_marker
from protocol.records.compression import Compression
from storage.files import FileSystem, OsFileSystem, read_file
from storage.folders import log_names, meta_properties
from storage.folders.log_dirs import LOCK_FILE
from storage.log.segment_recovery import whole_batches
from storage.producers import snapshot_files as producer_snapshot
from storage.segments.index import CorruptIndexError, OffsetIndex, TimeIndex
from storage.segments.txn_index import TxnIndex
from storage.state import manifest as manifests
from storage.state.manifest import SnapshotError
from storage.tools.verification import (
    FileFinding,
    KeepingFileSystem,
    is_partition,
    partitions_in,
    repair_data_folder,
    repair_partition,
    verify_data_folder,
    verify_partition,
)

Row = dict[str, Any]
INTERNAL: dict[str, tuple[RecordSchema[Any, Any], ...]] = {
    "__consumer_offsets": (OFFSET_COMMIT, GROUP_METADATA, *CONSUMER_GROUP_SCHEMAS),
    "__transaction_state": (TRANSACTION_LOG,),
}
TEXT_FILES = ("-checkpoint", ".properties", "partition.metadata", ".kafka_cleanshutdown")
_ENOUGH = 1 << 40
FS = OsFileSystem()
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", *TEXT_FILES)


class LogFolder(click.Path):
    """A folder of log.dirs, or one partition's. In another folder a repair would find what is none of ours."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        folder = str(super().convert(value, param, ctx))
        found = is_partition(FS, folder) or any(is_partition(FS, path) for path in partitions_in(FS, folder))
        if not found and not FS.exists(f"{folder}/{meta_properties.FILE_NAME}"):
            self.fail(
                f"{folder!r} is no folder of log.dirs: it has neither {meta_properties.FILE_NAME} nor partitions",
                param,
                ctx,
            )
        return folder


@click.group()
def main() -> None:
    """Inspect or repair the files of a log; DIR is a folder of log.dirs, or one partition's folder in it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@main.command("dump")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--no-records", is_flag=True, help="Print batches without their records.")
def dump_command(paths: tuple[str, ...], as_json: bool, no_records: bool) -> None:
    """Print segments, indexes, producer snapshots and checkpoints.

    Records of internal topics are decoded. Exit status 1: something could not be read.
    """
    files = chain.from_iterable(_files(given.rstrip("/")) for given in paths)
    print_files(files, lambda path: dump(FS, path, records=not no_records), as_json)


def _files(path: str) -> Iterator[str]:
    if not FS.is_dir(path):
        yield path
        return
    for name in sorted(FS.listdir(path)):
        below = f"{path}/{name}"
        if FS.is_dir(below) or name.endswith(DUMPED):
            yield from _files(below)


def line(row: Row) -> str:
    """Write a row for people: `key=value` of each of its fields."""
    shown = (
        value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
        for value in row.values()
    )
    return " ".join(f"{key}={value}" for key, value in zip(row, shown, strict=True))


def print_files(
    files: Iterable[str],
    rows_of: Callable[[str], Iterable[Row]],
    as_json: bool,
    line_of: Callable[[Row], str] = line,
) -> None:
    """Print the rows of files, and end the program; with status 1 if something could not be read."""
    failed = False
    for path in files:
        if not as_json:
            click.echo(f"# {path}")
        try:
            for row in rows_of(path):
                failed = failed or "error" in row
                click.echo(json.dumps({"file": path} | row, ensure_ascii=False) if as_json else line_of(row))
        except BrokenPipeError:
            raise  # the reader, such as `head`, has enough: no file is at fault, and click ends the program
        except (OSError, ValueError, IndexError, CorruptIndexError) as error:
            click.echo(f"{path}: {error}", err=True)
            failed = True
    sys.exit(failed)


@main.command()
@click.argument("folder", metavar="DIR", type=LogFolder())
def verify(folder: str) -> None:
    """Check everything in DIR and change nothing.

    Exit status 0: no damage; 1: damage was found.
    """
    with _locked(folder):
        found = _verify(folder)
    for finding in found:
        click.echo(f"{'DAMAGE' if finding.serious else 'note'}: {finding.path}: {finding.text}")
    damage = sum(finding.serious for finding in found)
    click.echo(f"{damage} damaged, {len(found) - damage} notes")
    sys.exit(damage > 0)


@main.command()
@click.argument("folder", metavar="DIR", type=LogFolder())
@click.option("--yes", is_flag=True, help="Do it; without this option damage is only reported.")
def repair(folder: str, yes: bool) -> None:
    """Cut damaged logs at their first bad batch.

    Indexes and the other files beside the log are rebuilt. What is removed is kept in DIR.removed-TIME, beside DIR.
    Exit status 0: no damage is left; 1: some is.
    """
    folder = folder.rstrip("/")
    with _locked(folder):
        found = [finding for finding in _verify(folder) if finding.serious]
        for finding in found:
            click.echo(f"DAMAGE: {finding.path}: {finding.text}")
        if not found:
            click.echo("nothing to repair")
            return
        if not yes:
            click.echo("nothing was changed; add --yes to repair")
            sys.exit(1)
        kept = _repair(folder, found)
        left = [finding for finding in _verify(folder) if finding.serious]
    for path in kept:
        click.echo(f"kept: {path}")
    for finding in left:
        click.echo(f"LEFT: {finding.path}: {finding.text}")
    click.echo(f"{len(left)} damaged files are left")
    sys.exit(len(left) > 0)


def _repair(folder: str, findings: list[FileFinding]) -> list[str]:
    aside = f"{folder}.removed-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    fs = KeepingFileSystem(FS, folder, aside)
    if not is_partition(FS, folder):
        repair_data_folder(fs, folder)
    damaged = [path for path in _partitions(folder) if any(finding.path.startswith(f"{path}/") for finding in findings)]
    with click.progressbar(damaged, label="repairing", file=sys.__stderr__) as progress:
        for partition in progress:
            repair_partition(fs, partition, time.time_ns() // 1_000_000)
    return fs.kept


def _verify(folder: str) -> list[FileFinding]:
    folder = folder.rstrip("/")
    found = [] if is_partition(FS, folder) else list(verify_data_folder(FS, folder))
    partitions = _partitions(folder)
    total = sum(FS.size(f"{path}/{name}") for path in partitions for name in FS.listdir(path) if name.endswith(".log"))
    with click.progressbar(length=total, label="verifying", file=sys.__stderr__) as progress:
        for partition in partitions:
            found += verify_partition(FS, partition, progress.update)
    return found


def _partitions(folder: str) -> list[str]:
    return [folder] if is_partition(FS, folder) else partitions_in(FS, folder)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep a broker out of the data folder meanwhile; one that runs already keeps us out."""
    folder = os.path.abspath(folder)
    data_folder = folder.rpartition("/")[0] if is_partition(FS, folder) else folder
    path = f"{data_folder}/{LOCK_FILE}"
    if not FS.exists(path):
        yield
        return
    release = FS.lock(path)
    if release is None:
        raise click.ClickException(f"a broker is using {data_folder}: stop it first")
    try:
        yield
    finally:
        release()


@click.group("backup")
def backup() -> None:
    """Verify a backup."""


@backup.command("verify")
@click.argument("path", type=click.Path(exists=True, file_okay=False))
def verify_backup(path: str) -> None:
    """Compare the files with their list, and check every batch, record and index entry in them. Nothing is changed.

    Exit status 0: it is whole; 1: it is not, or is no backup.
    """
    try:
        manifest = manifests.read(FS, path)
        manifests.verify(FS, path, manifest)
    except (SnapshotError, OSError) as error:
        raise click.ClickException(str(error)) from error
    partitions = sorted(
        {
            (number, name.rpartition("/")[0])
            for number, files in enumerate(manifest.folders)
            for name in files
            if name.endswith(".log")
        }
    )
    damage: list[FileFinding] = []
    for number, partition in partitions:
        folder = f"{path}/{number}/{partition}"
        try:
            more = [name for name in FS.listdir(folder) if f"{partition}/{name}" not in manifest.folders[number]]
            if more:  # not restored; and whatever they are, they are not opened
                damage.append(FileFinding(folder, f"has files that are not in the list of the backup: {more[0]!a}"))
            else:
                damage += [finding for finding in verify_partition(FS, folder, lambda done: None) if finding.serious]
        except OSError as error:
            raise click.ClickException(f"{folder}: {error}") from error
    for finding in damage:
        click.echo(f"DAMAGE: {finding.path}: {finding.text}")
    click.echo(f"{path}: cluster {manifest.cluster_id}, {len(partitions)} partitions, {manifest.size} bytes")
    click.echo(f"{len(damage)} damaged")
    sys.exit(bool(damage))


# -- the contents of a file: a row for each batch, record, index entry or line


def dump(fs: FileSystem, path: str, *, records: bool) -> Iterator[Row]:
    """The rows of one file. Raises OSError, ValueError and CorruptIndexError for a file that cannot be read."""
    folder, _, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    base_offset = int(stem) if stem.isdigit() else 0
    match suffix:
        case "log":
            yield from _segment(fs, path, _schemas(folder), records)
        case "index":
            for offset, position in OffsetIndex(fs, path, base_offset, _ENOUGH).entries():
                yield {"offset": offset, "position": position}
        case "timeindex":
            for timestamp, offset in TimeIndex(fs, path, base_offset, _ENOUGH).entries():
                yield {"timestamp": timestamp, "offset": offset}
        case "txnindex":
            for txn in TxnIndex(fs, folder, base_offset).entries:
                yield txn._asdict()
        case "snapshot":
            for entry in producer_snapshot.decode(read_file(fs, path)):
                yield entry._asdict()
        case _:
            if not name.endswith(TEXT_FILES):
                raise ValueError(f"{path} is none of the files of a log")
            for line in read_file(fs, path).decode(errors="replace").splitlines():
                yield {"line": line}


def _schemas(folder: str) -> tuple[RecordSchema[Any, Any], ...]:
    partition = log_names.parse(folder.rpartition("/")[2])
    return INTERNAL.get(partition.topic, ()) if partition is not None else ()


def _segment(fs: FileSystem, path: str, schemas: tuple[RecordSchema[Any, Any], ...], records: bool) -> Iterator[Row]:
    file = fs.open(path)
    try:
        size, end = file.size(), 0
        for position, header, batch in whole_batches(file, 0, size):
            end = position + len(batch)
            yield {
                "batch_at": position,
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "records": header.record_count,
                "size": len(batch),
                "leader_epoch": header.leader_epoch,
                "max_timestamp": header.max_timestamp,
                "compression": Compression(header.compression).name.lower(),
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "transactional": header.is_transactional,
                "control": header.is_control,
                "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
                "crc_ok": check_crc(batch, 0, header),
            }
            if records:
                for record in iter_records(batch, header):
                    yield _marker(record) if header.is_control else _record(record, schemas)
        if end < size:
            yield {"no_batch_at": end, "size": size - end}
    finally:
        file.close()


def _marker(record: Record) -> Row:
    marker = read_end_marker(record)
    row: Row = {"offset": record.offset, "timestamp": record.timestamp}
    if marker is not None:
        row |= {"marker": marker.type.name, "coordinator_epoch": marker.coordinator_epoch}
    return row


def _record(record: Record, schemas: tuple[RecordSchema[Any, Any], ...]) -> Row:
    row: Row = {"offset": record.offset, "timestamp": record.timestamp}
    schema = None
    if record.key is not None and len(record.key) > 1:
        schema = next((known for known in schemas if record_id(record.key) in known.ids), None)
    if schema is not None and record.key is not None:
        value = None if record.value is None else plain(schema.decode_value(record.value))
        return row | {"type": schema.name, "key": plain(schema.decode_key(record.key)), "value": value}
    row |= {"key": plain(record.key), "value": plain(record.value)}
    if record.headers:
        row["headers"] = [[plain(key), plain(value)] for key, value in record.headers]
    return row


def plain(value: object) -> object:
    """A value for JSON: named tuples become mappings, sets sorted lists, bytes text or `hex:` and digits."""
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return f"hex:{value.hex()}"
        return text if text.isprintable() else f"hex:{value.hex()}"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain(part) for key, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if isinstance(value, int | str | bool | None) else str(value)
