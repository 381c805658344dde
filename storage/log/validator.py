"""Validation of one partition's record set before the leader appends it.

The order of the checks and their codes are Kafka 4.4's: ByteBufferLogInputStream, ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator. Messages are Kafka's where it sends them to the client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from protocol.errors import CorruptMessage, InvalidRecord, MessageTooLarge, RecordBatchTooLarge, UnknownServerError
from protocol.java_strings import decode_utf8
from protocol.records.batch import (
    ATTRIBUTES_LOW_AT,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    read_header,
    set_max_timestamp,
)
from protocol.records.build import Record, build_batch, decode_section
from protocol.records.compression import Compression, DecompressionError, DecompressionLimitError, decompress
from protocol.records.walk import decompressed
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import LargeBatchError, as_long, check_records

_SMALLEST_LENGTH = 14  # the body of a record of magic 0
_UP_TO_MAGIC = MAGIC_AT + 1
_UP_TO_PRODUCER_ID = 51
_LENGTH = struct.Struct(">i")
_LENGTH_AND_MAGIC = struct.Struct(">i4xB")
_OFFSET = struct.Struct(">q")

_COMPRESSION_BY_TYPE = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Validated(NamedTuple):
    """A batch that may be appended once base offset and leader epoch are written into it.

    Attributes:
        batch: the bytes, writable: those given, without anything after the batch, or new ones.
        header: as it now is in `batch`.
        max_timestamp: largest timestamp of the records, ms; -1 if none has one.
        log_append_time: ms, or -1 when the topic keeps the producer's timestamps.
    """

    batch: memoryview
    header: BatchHeader
    max_timestamp: int
    log_append_time: int


# Without a Python-level call: one per batch.
_new_validated: Callable[[tuple[memoryview, BatchHeader, int, int]], Validated] = partial(tuple.__new__, Validated)


MOST_RECORDS_AT_ONCE = 4_000
MOST_BYTES_AT_ONCE = 1 << 20
PLAIN_FACTOR = 4
REBUILT_RECORDS_AT_ONCE = 500
REBUILT_BYTES_AT_ONCE = 32 << 10
HIGHEST_ZSTD_AT_ONCE = 9
"""What takes up to about 5 ms: so many records, in so many bytes; four times the bytes if nothing is decompressed.

It is less if the batch is compressed anew, at the slowest levels; zstd's take long to set up for any size.
"""


def validate(
    batch: memoryview,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    topic_partition: str,
    *,
    at_once: bool = False,
) -> Validated:
    """Check one partition's record set and make it what the topic stores; `topic_partition` is for messages.

    The bytes are patched in place if they are writable, else copied. Replicated records were checked by their leader:
    only the header and the CRC are checked again.

    Raises CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, and UnknownServerError where Kafka answers
    with that (an unknown compression, or one that does not unpack). With `at_once`, for the loop, LargeBatchError for
    what would take long; the batch is unchanged then. Without, call it in any thread: it only looks at its arguments.
    """
    if origin is AppendOrigin.COORDINATOR and not batch.readonly and (config.keeps_batches or _keeps(config, batch)):
        header = read_header(batch)  # just built by this broker: only the topic's size limit applies
        if len(batch) > config.max_message_bytes:
            raise _too_large(len(batch), config, topic_partition)
        return _new_validated((batch, header, header.max_timestamp, NO_TIMESTAMP))
    if batch.readonly:
        batch = memoryview(bytearray(batch))
    size = single_batch_size(batch)
    header = _check_header(batch, size, config, origin, topic_partition)
    if len(batch) != size:
        batch = batch[:size]
    if origin is AppendOrigin.REPLICATION:
        return Validated(batch, header, header.max_timestamp, NO_TIMESTAMP)
    source = header.attributes & COMPRESSION_MASK
    if source > Compression.ZSTD:
        raise UnknownServerError(f"Unknown compression type id {source} in {topic_partition}.")
    if origin is AppendOrigin.CLIENT:
        _check_client_batch(header, topic_partition)
    target = source
    if config.compression_type != "producer" and not (source == 0 and header.attributes & CONTROL_FLAG):
        target = _COMPRESSION_BY_TYPE[config.compression_type]
    limit = _limit_at_once(header, size, source, target, config) if at_once else None
    if source != Compression.NONE:
        return _validate_compressed(batch, header, source, target, config, now_ms, topic_partition, limit)
    section = b"".join((batch[HEADER_SIZE:],))
    return _validate_section(batch, header, section, source, target, config, now_ms, topic_partition, at_once=at_once)


def _limit_at_once(header: BatchHeader, size: int, source: int, target: int, config: LogConfig) -> int:
    """The bytes that a records section may have for the loop. Raises LargeBatchError."""
    records, limit = MOST_RECORDS_AT_ONCE, MOST_BYTES_AT_ONCE
    if source != target:
        records, limit = REBUILT_RECORDS_AT_ONCE, REBUILT_BYTES_AT_ONCE
    elif source == Compression.NONE:
        limit *= PLAIN_FACTOR
    slow_to_set_up = source != target == Compression.ZSTD and config.compression_zstd_level > HIGHEST_ZSTD_AT_ONCE
    if header.record_count > records or size > limit or slow_to_set_up or config.validates_schemas:
        raise LargeBatchError
    return limit


def _keeps(config: LogConfig, batch: memoryview) -> bool:
    """Whether the topic stores the batch byte for byte, neither recompressed nor with another time."""
    if config.message_timestamp_type != "CreateTime":
        return False
    kept = config.compression_type
    return kept == "producer" or _COMPRESSION_BY_TYPE[kept] == batch[ATTRIBUTES_LOW_AT] & COMPRESSION_MASK


def single_batch_size(buf: memoryview) -> int:
    """Size of the one whole batch of magic 2 at the start; trailing bytes that form no second one do not matter."""
    size = len(buf)
    if size >= HEADER_SIZE and _LENGTH_AND_MAGIC.unpack_from(buf, 8) == (size - LOG_OVERHEAD, MAGIC):
        return size  # the usual case
    size = first_batch_size(buf)
    if size == 0:
        raise InvalidRecord("There is no whole record batch.", in_request=True)
    if buf[MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"The batch has magic {buf[MAGIC_AT]}; Produce takes magic 2 alone.", in_request=True)
    if len(buf) - size >= LOG_OVERHEAD and first_batch_size(buf, size):
        raise InvalidRecord("There is more than one record batch.", in_request=True)
    return size


def first_batch_size(buf: memoryview, pos: int = 0) -> int:
    """Size of the whole batch at `pos`, 0 if there is none (Kafka's ByteBufferLogInputStream.nextBatchSize).

    Raises CorruptMessage for an impossible header.
    """
    remaining = len(buf) - pos
    if remaining < LOG_OVERHEAD:
        return 0
    (length,) = _LENGTH.unpack_from(buf, pos + 8)
    # Kafka checks the first header before it looks at partitions, and sends the text of its finding.
    if length < _SMALLEST_LENGTH:
        raise CorruptMessage(
            f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})", on_wire=pos == 0
        )
    if remaining < _UP_TO_MAGIC:
        return 0
    magic = buf[pos + 16]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        raise CorruptMessage(f"Invalid magic found in record: {signed}", on_wire=pos == 0)
    size: int = length + LOG_OVERHEAD
    return size if size <= remaining else 0


def _check_header(
    batch: memoryview, size: int, config: LogConfig, origin: AppendOrigin, topic_partition: str
) -> BatchHeader:
    if size < _UP_TO_PRODUCER_ID:
        raise UnknownServerError(f"A batch of {size} bytes for {topic_partition} ends before its producer id.")
    (base_offset,) = _OFFSET.unpack_from(batch)
    if base_offset and origin is AppendOrigin.CLIENT:
        raise InvalidRecord(f"The base offset of a batch for {topic_partition} is {base_offset}, not 0.")
    if size > config.max_message_bytes and origin is not AppendOrigin.REPLICATION:
        raise _too_large(size, config, topic_partition)
    if size < HEADER_SIZE:
        raise CorruptMessage(f"A batch of {size} bytes for {topic_partition} is smaller than its header.")
    header = read_header(batch)
    if not check_crc(batch, 0, header):
        raise CorruptMessage(f"The CRC of a batch for {topic_partition} does not match.")
    return header


def _too_large(size: int, config: LogConfig, topic_partition: str) -> MessageTooLarge:
    return MessageTooLarge(
        f"A batch of {size} bytes for {topic_partition} is larger than max.message.bytes={config.max_message_bytes}."
    )


def _check_client_batch(header: BatchHeader, topic_partition: str) -> None:
    count = header.record_count
    if count <= 0 or header.last_offset_delta + 1 != count:
        raise InvalidRecord(
            f"A batch for {topic_partition} counts {count} records, but its last offset delta is "
            f"{header.last_offset_delta}."
        )
    if header.attributes & CONTROL_FLAG:
        raise InvalidRecord(f"A client may not write control records to {topic_partition}.")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(
            f"A batch of producer {header.producer_id} for {topic_partition} has sequence {header.base_sequence}."
        )


def _validate_compressed(
    batch: memoryview,
    header: BatchHeader,
    source: int,
    target: int,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    limit: int | None,
) -> Validated:
    codec = Compression(source)
    try:
        if limit is not None:
            section = decompress(codec, batch[HEADER_SIZE:], limit)
            return _validate_section(
                batch, header, section, source, target, config, now_ms, topic_partition, at_once=True
            )
        with decompressed(codec, batch[HEADER_SIZE:]) as section:
            return _validate_section(
                batch, header, section, source, target, config, now_ms, topic_partition, at_once=False
            )
    except DecompressionLimitError as error:
        if limit is not None:
            raise LargeBatchError from None
        raise MessageTooLarge(f"A {codec.name.lower()} batch for {topic_partition} {error}.") from error
    except DecompressionError as error:
        raise UnknownServerError(f"A batch for {topic_partition} cannot be decompressed: {error}.") from error


def _validate_section(
    batch: memoryview,
    header: BatchHeader,
    section: bytes,
    source: int,
    target: int,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    *,
    at_once: bool,
) -> Validated:
    """Check the records of a decompressed section, and write them in the topic's compression if that is another one."""
    compressed = source != Compression.NONE
    in_place = source == target
    checked = check_records(
        header,
        section,
        config,
        now_ms,
        topic_partition,
        partial=compressed and in_place,
        compressed=compressed,
        at_once=at_once,
    )
    append_time = config.message_timestamp_type == "LogAppendTime"
    if not in_place:
        log_append_time = now_ms if append_time else NO_TIMESTAMP
        return _rebuild(section, header, Compression(target), config, log_append_time, topic_partition)
    if compressed and not checked.sequential:
        raise UnknownServerError(f"The records of a compressed batch for {topic_partition} have wrong offsets.")
    max_timestamp = now_ms if append_time else checked.max_timestamp
    if header.max_timestamp != max_timestamp or append_time != bool(header.attributes & LOG_APPEND_TIME_FLAG):
        header = set_max_timestamp(batch, 0, header, log_append_time=append_time, max_timestamp=max_timestamp)
    return _new_validated((batch, header, max_timestamp, now_ms if append_time else NO_TIMESTAMP))


def _rebuild(
    section: bytes,
    header: BatchHeader,
    target: Compression,
    config: LogConfig,
    log_append_time: int,
    topic_partition: str,
) -> Validated:
    """Rewrite the records in the topic's compression, with offsets 0, 1, 2, ... (Kafka's MemoryRecordsBuilder)."""
    records = (
        Record(index, as_long(record.timestamp), record.key, record.value, _clean_headers(record))
        for index, record in enumerate(decode_section(section, header))
    )
    batch = build_batch(
        _can_rebuild(records, header, topic_partition),
        compression=target,
        level=_level(target, config),
        log_append_time=log_append_time,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    if len(batch) > config.max_message_bytes:
        raise _too_large(len(batch), config, topic_partition)
    rebuilt = read_header(batch)
    return Validated(memoryview(batch), rebuilt, rebuilt.max_timestamp, log_append_time)


def _clean_headers(record: Record) -> tuple[tuple[bytes, bytes | None], ...]:
    """The headers, with keys as a Java string would return them: bytes that are not UTF-8 are replaced."""
    if not record.headers:
        return record.headers
    return tuple((decode_utf8(key).encode(), value) for key, value in record.headers)


def _can_rebuild(records: Iterator[Record], header: BatchHeader, topic_partition: str) -> Iterator[Record]:
    """The records; rejects what Kafka's builder rejects (UNKNOWN_SERVER_ERROR), though Kafka may store it unchanged."""
    if header.producer_id == NO_PRODUCER_ID:
        wrong = header.is_transactional
    else:
        wrong = header.producer_epoch == -1 or header.base_sequence < 0
    for record in records:
        if wrong or record.timestamp < NO_TIMESTAMP:
            raise UnknownServerError(f"A batch for {topic_partition} cannot be written in another compression.")
        yield record


def _level(target: Compression, config: LogConfig) -> int | None:
    match target:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def larger_than_a_segment(partition: str, size: int, segment_bytes: int) -> RecordBatchTooLarge:
    """What is raised for a batch that fits no segment."""
    return RecordBatchTooLarge(
        f"Message batch size is {size} bytes in append to partition {partition}, which exceeds the maximum "
        f"configured segment size of {segment_bytes}."
    )
