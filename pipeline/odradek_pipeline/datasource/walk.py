"""Walking over the batches of a log file that may still grow."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.places import OpenLog
from odradek_pipeline.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_crc,
    read_header,
)

CHUNK = 64 << 10
_SEARCH_BYTES = 1 << 20
_FAR = 1 << 40
_SMALLEST_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_LENGTH = struct.Struct(">8xi4xb")


def header_at(log: OpenLog, position: int, least_offset: int) -> BatchHeader | None:
    """The header of the whole batch at a position; None if there is none, or its offsets lie below `least_offset`.

    Raises DataSourceError for a file in a format from before Kafka 0.11 (magic 0 and 1).
    """
    return _plausible(log, position, log.read(HEADER_SIZE, position), 0, least_offset)


def headers(log: OpenLog, position: int, least_offset: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the whole batches from a position on; ends where none follows. Ignores checksums."""
    chunk = b""
    chunk_at = position
    read_size = CHUNK
    while True:
        at = position - chunk_at
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_at, at = log.read(read_size, position), position, 0
        header = _plausible(log, position, chunk, at, least_offset)
        if header is None:
            return
        yield position, header
        least_offset = header.next_offset
        position += header.size
        read_size = CHUNK if header.size < CHUNK // 4 else HEADER_SIZE


def checked_headers(
    log: OpenLog, position: int, least_offset: int, check_from: int
) -> Iterator[tuple[int, BatchHeader]]:
    """As `headers`, but also ends at a batch with a wrong checksum, if that is at or after `check_from`."""
    for at, header in headers(log, position, least_offset):
        if at >= check_from and not check_crc(log.read(header.size, at), 0, header):
            return
        yield at, header


def whole_at(log: OpenLog, position: int, least_offset: int) -> bool:
    """Whether a batch with a correct checksum is at a position. Raises as `header_at` does."""
    header = header_at(log, position, least_offset)
    return header is not None and check_crc(log.read(header.size, position), 0, header)


def next_whole(log: OpenLog, position: int, least_offset: int) -> int:
    """The first position from here on of a batch with a correct checksum; the file's size if there is none.

    For going on after damage: offsets are at least `least_offset`, and not absurdly higher.
    """
    while (position := log.next_data(position)) + HEADER_SIZE <= log.size:
        block = log.read(_SEARCH_BYTES, position)
        count = len(block) - HEADER_SIZE + 1
        if count <= 0:
            break
        offsets = np.ndarray(count, ">i8", block, strides=(1,))
        magics = np.frombuffer(block, np.int8, count, MAGIC_AT)
        near = (offsets >= least_offset) & (offsets < least_offset + _FAR) & (magics == MAGIC)
        for at in np.flatnonzero(near):
            header = _plausible(log, position + int(at), block, int(at), least_offset)
            if header is not None and check_crc(log.read(header.size, position + int(at)), 0, header):
                return position + int(at)
        position += count
    return log.size


def left_out(log: OpenLog, position: int, resumed: int, next_offset: int) -> str:
    """How much is left out between damage and the batch at which reading is resumed, if there is one."""
    size = f"{resumed - position} bytes"
    header = header_at(log, resumed, 0)
    return (
        f"{size}, up to the file's end, are left out."
        if header is None
        else (f"{size}, {header.base_offset - next_offset} offsets, are left out; resumed at position {resumed}.")
    )


def _plausible(log: OpenLog, position: int, chunk: bytes, at: int, least_offset: int) -> BatchHeader | None:
    if at + HEADER_SIZE > len(chunk):
        return None
    length, magic = _LENGTH.unpack_from(chunk, at)
    if not position and 0 <= magic < MAGIC and 0 < length <= log.size:
        raise DataSourceError(f"{log.path} has messages of format {magic}; Kafka 4 reads format {MAGIC} alone.")
    if magic != MAGIC or not _SMALLEST_LENGTH <= length <= log.size - position - LOG_OVERHEAD:
        return None
    header = read_header(chunk, at)
    if header.base_offset < least_offset or header.last_offset_delta < 0:
        return None
    return header
