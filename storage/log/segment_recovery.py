"""What a segment really holds after an unclean stop (Kafka's LogSegment.recover)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from protocol.errors import InvalidRecord
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header
from storage.files import File
from storage.log.leader_epochs import LeaderEpochs
from storage.producers.producer_state import ProducerStateManager
from storage.segments.index import MAX_RELATIVE_OFFSET
from storage.segments.segment import LogSegment

_CHUNK = 1 << 20
_LENGTH_AT = struct.Struct(">8xi")


@dataclass(frozen=True, slots=True)
class SegmentRecovery:
    """The outcome of a scan: the offset where the good batches end, and the number of bytes cut off after them."""

    next_offset: int
    truncated_bytes: int


def whole_batches(file: File, start: int, size: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every whole batch from `start`; stops at the first that is cut off or not a batch.

    The CRC is not checked.
    """
    position = start
    while position + HEADER_SIZE <= size:
        chunk = memoryview(file.pread(min(_CHUNK, size - position), position))
        at = 0
        while at + HEADER_SIZE <= len(chunk):
            batch_bytes = _LENGTH_AT.unpack_from(chunk, at)[0] + LOG_OVERHEAD
            if batch_bytes < HEADER_SIZE or position + at + batch_bytes > size:
                return
            if at + batch_bytes > len(chunk):
                break
            yield position + at, read_header(chunk, at), chunk[at : at + batch_bytes]
            at += batch_bytes
        if at == 0:
            batch_bytes = _LENGTH_AT.unpack_from(chunk, 0)[0] + LOG_OVERHEAD
            whole = memoryview(file.pread(batch_bytes, position))
            if len(whole) < batch_bytes:
                return
            yield position, read_header(whole, 0), whole
            at = batch_bytes
        position += at


def recover_segment(segment: LogSegment, producers: ProducerStateManager, epochs: LeaderEpochs) -> SegmentRecovery:
    """Keep the batches up to the first bad one, rebuild the indexes, replay producer state, and sync everything.

    Blocking; raises OSError.
    """
    file = segment.file.open()
    size = segment.size
    segment.reset_indexes()
    next_offset = segment.base_offset
    for position, header, batch in whole_batches(file, 0, size):
        if not _is_good(header, batch, next_offset, segment.base_offset):
            break
        try:
            completed = producers.replay(header, batch)
        except InvalidRecord:
            break
        segment.note_batch(position, len(batch), header.last_offset, header.max_timestamp)
        if completed is not None and completed.is_aborted:
            segment.note_aborted(completed)
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
        next_offset = header.next_offset
    truncated = size - segment.size
    if truncated:
        file.truncate(segment.size)
    segment.finish_recovery()
    segment.sync()
    return SegmentRecovery(next_offset, truncated)


def _is_good(header: BatchHeader, batch: memoryview, next_offset: int, segment_base: int) -> bool:
    return (
        header.magic == MAGIC
        and header.base_offset >= next_offset
        and header.last_offset_delta >= 0
        and header.last_offset - segment_base <= MAX_RELATIVE_OFFSET
        and check_crc(batch, 0, header)
    )
