"""Validation of one partition's record set before the leader appends it (in work)."""

from typing import NamedTuple

from protocol.errors import InvalidRecord
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from storage.append_types import AppendOrigin, LogConfig


class Validated(NamedTuple):
    """A batch that may be appended once base offset and leader epoch are written into it."""

    batch: memoryview
    header: BatchHeader
    max_timestamp: int
    log_append_time: int


def validate(
    batch: memoryview, config: LogConfig, origin: AppendOrigin, now_ms: int, topic_partition: str
) -> Validated:
    """Check one partition's record set."""
    if len(batch) < HEADER_SIZE:
        raise InvalidRecord("Record batch has no batches at all")
    header = read_header(batch, 0)
    writable = memoryview(bytearray(batch)) if batch.readonly else batch
    return Validated(writable[: header.size], header, header.max_timestamp, -1)
