"""The contents of a data folder's files: one mapping for each batch, record, index entry or line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from protocol.coordinator_records.consumer_group_records import CONSUMER_GROUP_SCHEMAS
from protocol.coordinator_records.group_records import GROUP_METADATA, OFFSET_COMMIT
from protocol.coordinator_records.record_schema import RecordSchema, record_id
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG
from protocol.records.batch import check_crc
from protocol.records.build import Record, iter_records
from protocol.records.compression import Compression
from protocol.records.markers import read_end_marker
from storage.files import FileSystem, read_file
from storage.folders import log_names
from storage.log.segment_recovery import whole_batches
from storage.producers import snapshot_files as producer_snapshot
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.txn_index import TxnIndex

Row = dict[str, Any]
INTERNAL: dict[str, tuple[RecordSchema[Any, Any], ...]] = {
    "__consumer_offsets": (OFFSET_COMMIT, GROUP_METADATA, *CONSUMER_GROUP_SCHEMAS),
    "__transaction_state": (TRANSACTION_LOG,),
}
TEXT_FILES = ("-checkpoint", ".properties", "partition.metadata", ".kafka_cleanshutdown")
_ENOUGH = 1 << 40


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
