"""Appending what a leader has appended before (Kafka's `UnifiedLog.appendAsFollower`).

A follower stores the leader's batches byte for byte: with their offsets, leader epochs and times. Only what tells
damaged data from good is checked again: sizes, magic, CRC, and that offsets ascend from this log's end. There may be
gaps, where the leader has compacted.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import CorruptMessage, InvalidRecord
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from storage.append_types import AppendOrigin
from storage.log.unified_log import UnifiedLog
from storage.log.validator import first_batch_size
from storage.producers.producer_state import Duplicate
from storage.segments.index import MAX_RELATIVE_OFFSET

LAST_OFFSET = 2**63 - 2
"""The last offset that a record may have: the end of the log after it is a number of 64 bits, too."""


def append(log: UnifiedLog, records: memoryview, *, leader_epoch: int, now_ms: int, most_batches: int) -> int:
    """Append the whole batches that `records` begins with, `most_batches` at most; return their size in bytes.

    Batches of a later epoch than `leader_epoch` are left out too: they are of another leader than the one followed.
    Raises CorruptMessage and InvalidRecord; the batches before a bad one stay appended. Raises KafkaStorage, and
    NotLeaderOrFollower while the log changes its folder.
    """
    log.check_appendable()
    size = 0
    for count, (batch, header) in enumerate(_batches(records, log.name)):
        if header.leader_epoch > leader_epoch or count == most_batches:
            break
        if header.base_offset < log.log_end_offset:
            raise InvalidRecord(
                f"A batch for {log.name} begins at offset {header.base_offset}, but the log ends at "
                f"{log.log_end_offset}."
            )
        if header.last_offset > LAST_OFFSET:
            raise InvalidRecord(f"A batch for {log.name} ends at offset {header.last_offset}, which no log can reach.")
        _append(log, batch, header, now_ms)
        size += len(batch)
    if log.log_end_offset - log.flusher.flushed.offset >= log.config.flush_messages:
        log.flusher.request()
    return size


def begins_anew(log: UnifiedLog, records: memoryview, leaders_start: int) -> int | None:
    """The base offset of the first batch if this log is to drop all that it has and begin there; else None.

    That is so if it is empty and its start lies within that batch, of which the leader has deleted the first records,
    or if all that it has lies before the leader's start: nobody can say whether the leader ever had the same there.
    """
    size = first_batch_size(records)
    if not size or (header := read_header(records)).last_offset < log.log_end_offset:
        return None
    is_empty = log.log_start_offset == log.log_end_offset
    is_within = header.base_offset < log.log_end_offset
    return header.base_offset if (is_within if is_empty else leaders_start >= log.log_end_offset) else None


def _batches(records: memoryview, name: str) -> Iterator[tuple[memoryview, BatchHeader]]:
    position = 0
    while size := first_batch_size(records, position):
        if size < HEADER_SIZE:
            raise CorruptMessage(f"A batch for {name} of {size} bytes is smaller than its header.")
        batch = records[position : position + size]
        header = read_header(batch)
        if header.magic != MAGIC:
            raise CorruptMessage(f"A batch for {name} has magic {header.magic}; only magic {MAGIC} is stored.")
        if header.last_offset_delta < 0 or not check_crc(batch, 0, header):
            raise CorruptMessage(f"The CRC of a batch for {name} at offset {header.base_offset} does not match.")
        yield batch, header
        position += size


def _append(log: UnifiedLog, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
    last_offset, max_timestamp = header.last_offset, header.max_timestamp
    try:
        if header.leader_epoch != log.leader_epochs.latest and header.leader_epoch >= 0:
            log.leader_epochs.begin(header.leader_epoch, header.base_offset)
        segment = log.segments.active
        if segment.should_roll(log.config, len(batch), max_timestamp, last_offset, now_ms):
            is_far = last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET  # after what the leader has compacted
            segment = log.roll(header.base_offset if is_far else log.log_end_offset)
        update = log.producers.check(batch, header, AppendOrigin.REPLICATION) if header.has_producer_id else None
        if isinstance(update, Duplicate):
            raise AssertionError("replication knows no duplicates")
        segment.append(batch, last_offset, max_timestamp, header.base_offset)
    except OSError as error:
        raise log.failed_append(error) from error
    log.log_end_offset = last_offset + 1
    if update is not None:
        completed = log.producers.publish(update, header.base_offset)
        if completed is not None and completed.is_aborted:
            log.note_aborted(segment, completed)
