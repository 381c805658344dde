"""Checks of records' keys and timestamps against the topic's configuration (Kafka's LogValidator.validateRecord).

Ordinary batches are judged by what their records have in common; only when that is not enough is each record checked,
to say which one is wrong and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from protocol.errors import InvalidRecord, InvalidTimestamp
from protocol.records.batch import LOG_APPEND_TIME_FLAG, NO_TIMESTAMP, BatchHeader
from protocol.records.walk import UNBOUNDED, RecordShape, TooManyHeadersError, exact_walk, fast_walk
from storage.append_types import LogConfig

_LARGEST_LONG = 2**63 - 1
_ERRORS_SHOWN = 3
MOST_RECORD_ERRORS = 1000
"""Refused records of a batch that are told of: each costs a hundred bytes here and in the answer."""


MOST_HEADERS_AT_ONCE = 4_000
LARGEST_EXACT_AT_ONCE = 4 << 10
"""In bytes: a larger section is not walked record by record on the loop."""


class LargeBatchError(Exception):
    """To check the batch may take more than some 5 ms: that is to be done in a worker thread."""


class CheckedRecords(NamedTuple):
    """The largest timestamp in ms (-1 if no record has a larger one), and whether offset deltas are 0, 1, 2, ..."""

    max_timestamp: int
    sequential: bool


# Without a Python-level call: one per batch produced.
_new_checked: Callable[[tuple[int, bool]], CheckedRecords] = partial(tuple.__new__, CheckedRecords)


def check_records(
    header: BatchHeader,
    section: bytes,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    *,
    partial: bool,
    compressed: bool,
    at_once: bool = False,
) -> CheckedRecords:
    """Walk a decompressed records section and check keys and timestamps; `partial` and `compressed` as in `exact_walk`.

    Raises what `exact_walk` does, and InvalidTimestamp and InvalidRecord with their record errors. With `at_once`, for
    the loop, LargeBatchError for what would take long.
    """
    count = header.record_count
    largest = config.max_decompressed_message_bytes if compressed else UNBOUNDED
    try:
        walk = fast_walk(section, count, MOST_HEADERS_AT_ONCE if at_once else UNBOUNDED)
    except TooManyHeadersError:
        raise LargeBatchError from None
    if walk is not None and len(section) <= largest and not header.attributes & LOG_APPEND_TIME_FLAG:
        lowest, highest, has_null_key, sequential = walk
        lowest += header.base_timestamp
        highest += header.base_timestamp
        in_time = config.message_timestamp_type == "LogAppendTime" or (
            lowest >= now_ms - config.message_timestamp_before_max_ms
            and highest <= now_ms + config.message_timestamp_after_max_ms
        )
        if in_time and highest <= _LARGEST_LONG and not (has_null_key and config.compact):
            return _new_checked((max(highest, NO_TIMESTAMP), sequential))
    if at_once and len(section) > LARGEST_EXACT_AT_ONCE:
        raise LargeBatchError
    return _check_each(
        header,
        exact_walk(section, count, partial=partial, compressed=compressed, largest=largest),
        config,
        now_ms,
        topic_partition,
    )


def as_long(number: int) -> int:
    """The number in 64 bits: whoever adds a time delta to the base timestamp drops what is beyond them."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _timestamp(shape: RecordShape, header: BatchHeader) -> int:
    if header.is_log_append_time:
        return header.max_timestamp
    return as_long(header.base_timestamp + shape.timestamp_delta)


def _check_each(
    header: BatchHeader,
    shapes: Iterator[RecordShape],
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
) -> CheckedRecords:
    errors: list[tuple[int, str | None]] = []
    refused = 0
    bad_time, sequential, largest = False, True, NO_TIMESTAMP
    for index, shape in enumerate(shapes):  # none is kept: a small batch may unpack to millions
        timestamp = _timestamp(shape, header)
        largest = max(largest, timestamp)
        sequential = sequential and shape.offset_delta == index
        if config.compact and shape.key_size < 0:
            text: str | None = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
        elif (text := _time_error(header, shape, timestamp, config, now_ms)) is not None:
            bad_time = True
        if text is not None:
            refused += 1
            if refused <= MOST_RECORD_ERRORS:
                errors.append((index, text))
    if bad_time:
        raise InvalidTimestamp("One or more records have been rejected due to invalid timestamp", tuple(errors))
    if errors:
        raise refused_records(errors, refused)
    return CheckedRecords(largest, sequential)


def refused_records(errors: Sequence[tuple[int, str | None]], refused: int) -> InvalidRecord:
    """What is raised for so many records of a batch, with the first `MOST_RECORD_ERRORS` of them."""
    shown = "; ".join(f"record {index}: {text}" for index, text in errors[:_ERRORS_SHOWN])
    return InvalidRecord(f"{refused} records were refused. {shown}", tuple(errors))


def _time_error(header: BatchHeader, shape: RecordShape, timestamp: int, config: LogConfig, now_ms: int) -> str | None:
    offset = header.base_offset + shape.offset_delta
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if config.message_timestamp_type == "CreateTime" and timestamp != NO_TIMESTAMP:
        if not now_ms - before <= timestamp <= now_ms + after:
            return (
                f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be "
                f"within [{now_ms - before}, {now_ms + after}]"
            )
    elif header.is_log_append_time:
        return "The producer must not set the timestamp type LogAppendTime."
    return None
