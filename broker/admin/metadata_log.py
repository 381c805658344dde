"""`odradek metadata dump`: the batches and records of a metadata log, as rows for people and for programs."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click

from broker.admin.logs import FS, Row, line, print_files
from controller.quorum.survey import FOLDER_NAME, OLD_BOOTSTRAP
from protocol import uuids
from protocol.metadata import serde
from protocol.primitives import DecodeError
from protocol.records.batch import BatchHeader, check_crc
from protocol.records.build import Record, iter_records
from protocol.schema import FieldPlan, field_plans
from storage.files import FileSystem
from storage.log.segment_recovery import whole_batches

NO_OP = "NoOpRecord"
SUFFIXES = (".checkpoint", ".log")


@click.group()
def main() -> None:
    """Look into the metadata log of a node that is stopped or running."""


@main.command("dump")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--skip-noop", is_flag=True, help="Leave out NoOpRecords.")
def dump_command(paths: tuple[str, ...], as_json: bool, skip_noop: bool) -> None:
    """Print the batches and records of metadata logs and their snapshots; nothing is changed.

    PATH is a segment (.log), a snapshot (.checkpoint), the folder of a metadata log, or one of log.dirs that has it.
    Exit status 1: something could not be read.
    """
    files = chain.from_iterable(_files(given.rstrip("/") or "/") for given in paths)
    print_files(files, lambda path: dump(FS, path, skip_no_ops=skip_noop), as_json, _line)


def _files(path: str) -> Iterator[str]:
    """The snapshots and then the segments of a folder, or the file itself."""
    if not FS.is_dir(path):
        yield path
        return
    if FS.is_dir(f"{path}/{FOLDER_NAME}"):
        if FS.exists(f"{path}/{OLD_BOOTSTRAP}"):
            yield f"{path}/{OLD_BOOTSTRAP}"
        path = f"{path}/{FOLDER_NAME}"
    names = sorted(FS.listdir(path))
    found = [f"{path}/{name}" for suffix in SUFFIXES for name in names if name.endswith(suffix)]
    if not found:
        raise click.ClickException(f"{path} has no metadata log")
    yield from found


def _line(row: Row) -> str:
    if "offset" not in row:
        return line(row)
    if "error" in row:
        return f"  {row['offset']} error={json.dumps(row['error'])} value={row.get('value', '')}"
    text = json.dumps(row["record"], ensure_ascii=False, separators=(",", ":"))
    return f"  {row['offset']} {row['type']} v{row['version']} {text}"


# -- the batches and records of a file: a row for each


def dump(fs: FileSystem, path: str, *, skip_no_ops: bool) -> Iterator[Row]:
    """The rows of a segment or a snapshot. Raises OSError.

    A row with `error` says what cannot be read; after one with `no_batch_at` there is nothing more.
    """
    file = fs.open_to_read(path)
    try:
        size, end = file.size(), 0
        for position, header, batch in whole_batches(file, 0, size):
            end = position + len(batch)
            crc_ok = check_crc(batch, 0, header)
            records = list(_records(header, batch)) if crc_ok else []
            shown = [row for row in records if not (skip_no_ops and row.get("type") == NO_OP)]
            if shown or not records:
                yield _batch_row(position, header, crc_ok=crc_ok)
                yield from shown
        if end < size:
            yield {"no_batch_at": end, "size": size - end}
    finally:
        file.close()


def _batch_row(position: int, header: BatchHeader, *, crc_ok: bool) -> Row:
    row: Row = {
        "batch_at": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "epoch": header.leader_epoch,
        "time_ms": header.max_timestamp,
        "time": _time(header.max_timestamp),
        "records": header.record_count,
        "size": header.size,
        "control": header.is_control,
    }
    return row if crc_ok else row | {"error": "the CRC does not match"}


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return "?"


def _records(header: BatchHeader, batch: memoryview) -> Iterator[Row]:
    try:
        for record in iter_records(batch, header):
            row: Row = {"offset": record.offset, "epoch": header.leader_epoch, "time": _time(record.timestamp)}
            yield row | _decoded(record, control=header.is_control)
    except ValueError as error:
        yield {"base_offset": header.base_offset, "error": str(error)}


def _decoded(record: Record, *, control: bool) -> Row:
    try:
        if control:
            entity = serde.decode_control(record.key, record.value)
            if entity is None:
                return {"error": "a control record that no quorum writes"}
            return {"type": entity.__class__.__name__, "version": entity.version, "record": plain(entity)}
        value = record.value or b""
        entity = serde.decode_record(value)
        _, version, _ = serde.read_type(value)
        return {"type": entity.__class__.__name__, "version": version, "record": plain(entity)}
    except DecodeError as error:
        return {"error": str(error), "value": "hex:" + (record.value or b"").hex()}


def plain(entity: Any) -> Row:
    """A record for JSON, by Kafka's names of its fields; tagged fields only if they differ from their defaults."""
    row = {}
    for plan in field_plans(entity.__class__):
        value = getattr(entity, plan.name)
        if plan.tag is None or value != plan.default:
            row[_name(plan.name)] = _value(plan, value)
    return row


def _name(name: str) -> str:
    """`leader_epoch` is Kafka's `leaderEpoch`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _value(plan: FieldPlan, value: Any) -> Any:
    if plan.array:
        return None if value is None else [_single(plan, each) for each in value]
    return _single(plan, value)


def _single(plan: FieldPlan, value: Any) -> Any:
    if plan.entity is not None:
        return plain(value)
    if plan.kind == "uuid":
        return uuids.to_text(uuids.ZERO if value is None else value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value
