"""Between records and the batches of the metadata log (Kafka's `BatchBuilder` and `RecordsIterator`).

All records of a batch have the batch's time. Keys are null, nothing is compressed. Nothing is ever removed from the
middle of this log: offsets follow each other without a gap, which the walk over a file's batches checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.errors import KafkaStorage
from protocol.metadata import serde
from protocol.primitives import DecodeError
from protocol.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
    set_offsets_and_epoch,
)
from protocol.records.build import encode_record, iter_records, pack_batch
from storage.files import File
from storage.log.segment_recovery import whole_batches


class MetadataLogError(KafkaStorage):
    """The metadata log cannot be used as it is found, or cannot be written; the message says why."""


class DamagedError(MetadataLogError):
    """A file does not have what was once written to it."""


class NoRoomError(MetadataLogError):
    """There was no room, or no file descriptor, for records that are refused now; the log takes later ones."""


def good_batches(file: File, start: int, offset: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each batch from position `start`, whose first offset is `offset`.

    Stops at the first that is not whole, does not match its CRC, or has another offset than the one that is due.
    """
    for position, header, batch in whole_batches(file, start, file.size()):
        whole = header.magic == MAGIC and header.record_count > 0 and header.last_offset_delta >= 0
        if not whole or header.base_offset != offset or not check_crc(batch, 0, header):
            return
        yield position, header, batch
        offset = header.next_offset


def has_batch_after(data: bytes, offset: int) -> bool:
    """Whether there is a whole batch somewhere in `data`, of records from `offset` on.

    `data` follows the last good batch. One batch at a time is written, and synced before the next. So if power fails,
    one batch may be torn, the last; but if others follow the bad bytes, these bytes were damaged later.
    """
    longest_match = HEADER_SIZE + len(data)
    prefixes = {first.to_bytes(8)[:5] for first in (offset, offset + longest_match)}
    for prefix in prefixes:
        for match in re.finditer(b"(?=" + re.escape(prefix) + rb".{11}\x02)", data, re.DOTALL):
            at = match.start()
            if at + HEADER_SIZE > len(data):
                continue
            header = read_header(data, at)
            later = offset <= header.base_offset <= offset + longest_match
            if later and HEADER_SIZE <= header.size <= len(data) - at and check_crc(data, at, header):
                return True
    return False


def damaged(path: str, position: int, offset: int) -> DamagedError:
    """The error of a file that has no good batch where one must be."""
    return DamagedError(
        f"{path} is damaged: there is no whole batch at position {position}, where offset {offset} should be, though "
        "what was there has been on disk. Restore the folder from a backup, or give up what follows with "
        "`odradek log repair`."
    )


MAX_BATCH_BYTES = 8 << 20
"""The largest batch that Kafka's readers take (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`)."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Records that take effect together; none if the batch held control records of the quorum alone.

    Attributes:
        last_offset: the offset of the last record; those of a snapshot all have the last one that it covers.
        epoch: the leader's epoch.
        timestamp: when the batch was appended, in ms.
    """

    last_offset: int
    epoch: int
    timestamp: int
    records: tuple[Any, ...]


class OpenBatch:
    """A batch that grows until it is written.

    Attributes:
        base_offset: the first record's offset.
        count: the number of records.
    """

    def __init__(self, base_offset: int, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self.base_offset = base_offset
        self.count = 0
        self._max_bytes = max_bytes
        self._section = bytearray()

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    def add(self, values: Sequence[bytes]) -> bool:
        """Add these values, all or none; False if the batch would be too large."""
        encoded = [encode_record(self.count + at, 0, None, value) for at, value in enumerate(values)]
        size = sum(map(len, encoded))
        if HEADER_SIZE + len(self._section) + size > self._max_bytes:
            return False
        self._section += b"".join(encoded)
        self.count += len(encoded)
        return True

    def close(self, epoch: int, timestamp: int) -> bytearray:
        """The whole batch."""
        return _packed(bytes(self._section), self.count, self.base_offset, epoch, timestamp, attributes=0)


class ControlBatch:
    """A batch of the quorum's own control records, which no other records join."""

    def __init__(self, base_offset: int, records: Sequence[Any]) -> None:
        self.base_offset = base_offset
        self.count = len(records)
        self._records = records

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    def add(self, _values: Sequence[bytes]) -> bool:
        """Nothing can be added."""
        return False

    def close(self, epoch: int, timestamp: int) -> bytearray:
        """The whole batch."""
        return control_batch(self._records, self.base_offset, epoch, timestamp)


def encode_values(records: Iterable[Any]) -> list[bytes]:
    """The records' values, each in the lowest version that has all it says."""
    return [serde.encode_record(record, serde.lowest_version(record)) for record in records]


def control_batch(records: Sequence[Any], base_offset: int, epoch: int, timestamp: int) -> bytearray:
    """A batch of control records."""
    pairs = map(serde.encode_control, records)
    section = b"".join(encode_record(at, 0, key, value) for at, (key, value) in enumerate(pairs))
    return _packed(section, len(records), base_offset, epoch, timestamp, attributes=CONTROL_FLAG)


def _packed(section: bytes, count: int, base_offset: int, epoch: int, timestamp: int, *, attributes: int) -> bytearray:
    batch = pack_batch(
        section,
        count,
        last_offset_delta=count - 1,
        attributes=attributes,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
    )
    set_offsets_and_epoch(batch, read_header(batch), base_offset, epoch)
    return batch


def decode_batch(header: BatchHeader, batch: memoryview, path: str) -> tuple[Any, ...]:
    """The records of a batch of the file at `path`; none of a control batch. Raises MetadataLogError."""
    if header.is_control:
        return ()
    try:
        return tuple(serde.decode_record(record.value or b"") for record in iter_records(batch, header))
    except (DecodeError, ValueError) as error:
        raise MetadataLogError(f"{path}: the records from offset {header.base_offset} on: {error}") from error
