"""The two passes over a log: filling the offset map, and copying segments without superseded records.

Kafka's are `Cleaner.buildOffsetMap`, `Cleaner.cleanInto` and `MemoryRecords.filterTo`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import lt

from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader, read_header
from storage.cleaner.offset_map import Kept, OffsetMap
from storage.cleaner.records import CleanedTransactions, View, empty, keys_of, rebuild, section_of, views
from storage.cleaner.slices import RECORDS_A_STEP, Steps, batches_of
from storage.files import write_fully
from storage.segments.segment import LogSegment


def map_keys(
    dirty: Sequence[LogSegment],
    start: int,
    end: int,
    offsets: OffsetMap,
    transactions: CleanedTransactions,
) -> Steps[None]:
    """Read [start, end) from these segments until the map is full; its `latest_offset` tells how far that was.

    Keys of aborted transactions and of control batches do not count. Raises OSError, ValueError, IndexError.
    """
    following = [segment.base_offset for segment in dirty[1:]] + [end]
    for segment, next_base in zip(dirty, following, strict=True):
        for header, batch in batches_of(segment, segment.scan_start(start, segment.read)):
            if header.is_control:
                transactions.on_control_batch(header, batch)
            elif transactions.on_batch(header):
                offsets.note_unmapped(header.base_offset, header.last_offset)
            elif not (yield from _map_batch(header, batch, start, offsets)):
                return
            if header.last_offset >= start:
                offsets.latest_offset = header.last_offset
            yield len(batch)
        offsets.latest_offset = next_base - 1


def _map_batch(header: BatchHeader, batch: Buffer, start: int, offsets: OffsetMap) -> Steps[bool]:
    section = section_of(batch, header)
    at, left, before = 0, header.record_count, header.base_offset - 1
    while left > 0:
        count = min(left, RECORDS_A_STEP)
        keys, of_keys, has_tombstone, at = keys_of(section, at, count, header.base_offset)
        if len(keys) < count:
            offsets.note_record_without_key()
        if has_tombstone:
            offsets.note_tombstone(header.base_offset)
        if not _ascend(of_keys, before, header.last_offset):
            offsets.note_disorder()
            wanted = [offset >= start for offset in of_keys]
            keys, of_keys = list(compress(keys, wanted)), list(compress(of_keys, wanted))
        elif of_keys and of_keys[0] < start:
            first = bisect_left(of_keys, start)
            keys, of_keys = keys[first:], of_keys[first:]
        if not offsets.put_all(keys, of_keys):
            return False
        before = of_keys[-1] if of_keys else before
        left -= RECORDS_A_STEP
        if left > 0:
            yield 0
    return True


def _ascend(offsets: Sequence[int], before: int, last: int) -> bool:
    """Whether the offsets rise from one to the next, all of them after `before` and none after `last`.

    In an uncompressed batch nothing else is certain: Kafka stores it whatever offsets its records claim.
    """
    return not offsets or (before < offsets[0] and offsets[-1] <= last and all(map(lt, offsets, offsets[1:])))


_WRITE_BYTES = 256 << 10
_LAST_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LastRecord:
    """An active producer's last data record: its offset (None: only markers are known) and the producer's epoch."""

    offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class CleanerStats:
    """Counts of a cleaning so far."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0


@dataclass(slots=True)
class CopyRules:
    """The rules of one cleaning of a log; it does not go past the offset `upper_bound`."""

    offsets: OffsetMap
    transactions: CleanedTransactions
    last_records: Mapping[int, LastRecord]
    upper_bound: int
    now_ms: int
    delete_retention_ms: int
    stats: CleanerStats = field(default_factory=CleanerStats)


def copy_segment(source: LogSegment, target: LogSegment, rules: CopyRules) -> Steps[None]:
    """Append what stays of `source` to `target`, indexes included. Raises OSError, ValueError, IndexError."""
    out = target.file.open()
    pending = bytearray()
    for header, batch in batches_of(source):
        kept = yield from _filter(header, batch, rules)
        rules.stats.bytes_read += len(batch)
        if kept is None:
            yield len(batch)
            continue
        data, max_timestamp = kept
        position = target.size
        pending += data
        target.note_batch(position, len(data), header.last_offset, max_timestamp)
        rules.stats.bytes_written += len(data)
        if len(pending) >= _WRITE_BYTES:
            write_fully(out, pending, target.size - len(pending))
            pending = bytearray()
        yield len(batch) + len(data)
    if pending:
        write_fully(out, pending, target.size - len(pending))


def _filter(header: BatchHeader, batch: Buffer, rules: CopyRules) -> Steps[tuple[Buffer, int] | None]:
    """The batch with the records that stay, and its largest timestamp; None if none stays."""
    rules.stats.records_read += header.record_count
    stays_empty = header.next_offset == rules.upper_bound or _is_last_of_producer(header, rules)
    nothing = (empty(header), header.max_timestamp) if stays_empty else None
    if header.is_control:
        may_go = rules.transactions.on_control_batch(header, batch)
        discards = may_go and header.has_delete_horizon and header.base_timestamp <= rules.now_ms
        flags, known = None, Kept.SOME
    else:
        may_go = discards = rules.transactions.on_batch(header)
        flags = rules.offsets.flags_of(header)
        known = Kept.SOME if flags is None else rules.offsets.of_batch(header, flags)
    if discards or known is Kept.NONE:
        return nothing
    section = b"" if known is Kept.ALL else section_of(batch, header)
    if flags is None and not header.is_control and (yield from _keeps_all(header, section, rules.offsets)):
        known = Kept.ALL
    if known is Kept.ALL:
        rules.stats.records_written += header.record_count
        return batch, header.max_timestamp
    kept = yield from _keep(header, section, flags, rules)
    rules.stats.records_written += len(kept)
    if not kept:
        return nothing
    horizon = _delete_horizon(header, kept, may_go, rules)
    if horizon is None and len(kept) == header.record_count:
        return batch, header.max_timestamp
    if horizon is None and header.has_delete_horizon:
        horizon = header.base_timestamp
    data = rebuild(header, section, kept, horizon)
    return data, read_header(data).max_timestamp


def _delete_horizon(header: BatchHeader, kept: list[View], may_go: bool, rules: CopyRules) -> int | None:
    """The delete horizon to set on a batch with tombstones or an unneeded marker; None if it has one, or needs none.

    See KIP-534.
    """
    if header.has_delete_horizon:
        return None
    goes = may_go if header.is_control else not all(has_value for _, _, has_value, *_ in kept)
    return min(rules.now_ms + rules.delete_retention_ms, _LAST_MS) if goes else None


def _keeps_all(header: BatchHeader, section: bytes, offsets: OffsetMap) -> Steps[bool]:
    """Whether every record has a value and is the latest of its key; stops at the first that is not."""
    if header.last_offset > offsets.latest_offset or not header.record_count:
        return False
    at, left = 0, header.record_count
    while left > 0:
        count = min(left, RECORDS_A_STEP)
        keys, of_keys, has_tombstone, at = keys_of(section, at, count, header.base_offset)
        if has_tombstone or len(keys) < count or offsets.supersedes_any(keys, of_keys):
            return False
        left -= count
        if left:
            yield 0
    return True


def _keep(header: BatchHeader, section: bytes, flags: bytes | None, rules: CopyRules) -> Steps[list[View]]:
    """The records that stay: the latest of each key, tombstones until their time comes (Cleaner.shouldRetainRecord)."""
    if header.is_control:
        return list(views(section, header.record_count))
    latest_offset_of, latest_mapped, base_offset = rules.offsets.get, rules.offsets.latest_offset, header.base_offset
    keeps_tombstones = not header.has_delete_horizon or rules.now_ms < header.base_timestamp
    kept = []
    pause_at = RECORDS_A_STEP
    for number, record in enumerate(views(section, header.record_count)):
        if number == pause_at:
            pause_at += RECORDS_A_STEP
            yield 0
        offset_delta, key, has_value, *_ = record
        if flags is not None:
            if flags[offset_delta] and (has_value or keeps_tombstones):
                kept.append(record)
            continue
        offset = base_offset + offset_delta
        if offset > latest_mapped:
            kept.append(record)
        elif key is None:
            rules.stats.records_without_key += 1
        elif offset >= latest_offset_of(key) and (has_value or keeps_tombstones):
            kept.append(record)
    return kept


def _is_last_of_producer(header: BatchHeader, rules: CopyRules) -> bool:
    """Whether the batch holds an active producer's last sequence number, or the marker with its last epoch."""
    last = rules.last_records.get(header.producer_id) if header.has_producer_id else None
    if last is None:
        return False
    if last.offset is not None:
        return header.last_offset == last.offset
    return header.is_control and header.producer_epoch == last.producer_epoch
