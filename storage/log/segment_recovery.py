"""The remains of an unclean stop: records of a segment (Kafka's `LogSegment.recover`), and files of unfinished work.

An interrupted compaction, deletion or start leaves files in a log's folder; they are dealt with before the log is
opened.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from protocol.errors import InvalidRecord
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header
from storage.files import File, FileSystem
from storage.log.leader_epochs import LeaderEpochs
from storage.producers.producer_state import ProducerStateManager
from storage.segments.index import MAX_RELATIVE_OFFSET
from storage.segments.segment import LogSegment
from storage.segments.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    file_name,
)

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


logger = structlog.get_logger(__name__)

_BASE_OFFSET = re.compile(r"[0-9]{20}\.")


def finish_swaps(fs: FileSystem, folder: str) -> None:
    """Undo or finish what an interrupted compaction or deletion left (LogLoader.removeTempFilesAndCollectSwapFiles).

    Blocking; raises OSError.
    """
    names = fs.listdir(folder)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX) and _BASE_OFFSET.match(name)]
    oldest_cleaned = min((int(name[:20]) for name in cleaned), default=None)
    swaps = []
    for name in names:
        is_swap = name.endswith(SWAP_SUFFIX) and _BASE_OFFSET.match(name)
        stale_swap = is_swap and oldest_cleaned is not None and int(name[:20]) >= oldest_cleaned
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")) or stale_swap:
            fs.unlink(f"{folder}/{name}")
        elif is_swap:
            swaps.append(name)
    if not swaps:
        return
    logs = sorted(int(name[:20]) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    if logs:
        end = _swap_end(fs, folder, logs[-1])
        for name in names:
            if _BASE_OFFSET.match(name) and name.endswith(SEGMENT_SUFFIXES) and logs[0] <= int(name[:20]) < end:
                fs.unlink(f"{folder}/{name}")
    # The log first: its new name says that the old segments are gone.
    for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        logger.info("finishing an interrupted swap", folder=folder, file=name)
        fs.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
    fs.fsync_dir(folder)


def _swap_end(fs: FileSystem, folder: str, base_offset: int) -> int:
    """The offset after the last batch of a `.log.swap` file; the one after its base offset if it is empty."""
    path = f"{folder}/{file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
    file = fs.open(path)
    try:
        end = base_offset + 1
        for _, header, _ in whole_batches(file, 0, file.size()):
            end = header.next_offset
        return end
    finally:
        file.close()


def segment_offsets(fs: FileSystem, folder: str) -> list[int]:
    """Base offsets of the segments, ascending; index files without a log are removed."""
    offsets, others = [], []
    for name in fs.listdir(folder):
        if _BASE_OFFSET.match(name):
            if name[20:] == LOG_SUFFIX:
                offsets.append(int(name[:20]))
            elif name[20:] in SEGMENT_SUFFIXES:
                others.append(name)
    present = set(offsets)
    for name in others:
        if int(name[:20]) not in present:
            logger.warning("removing an index without a log", folder=folder, file=name)
            fs.unlink(f"{folder}/{name}")
    return sorted(offsets)
