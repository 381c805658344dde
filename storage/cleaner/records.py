"""The records of a batch as compaction sees them: keys, whether there is a value, and which bytes to keep.

`CleanedTransactions` says which batches belong to aborted transactions, while a log is read from front to back (the
rules of Kafka's `CleanedTransactionMetadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from protocol.primitives import Buffer
from protocol.records import batch as batches
from protocol.records.batch import BatchHeader
from protocol.records.build import (
    INT_BITS,
    LONG_BITS,
    ControlRecordType,
    encode_varint,
    iter_records,
    read_end_marker,
    read_varint,
)
from protocol.records.compression import Compression, compress, decompress
from storage.log.record_checks import as_long
from storage.segments.txn_index import AbortedTxn, TxnIndex

View = tuple[int, bytes | None, bool, int, int, int, int]
"""One record: its offset delta, its key, whether it has a value, and four positions in its section: where it starts,
where its timestamp delta starts, where what follows that starts, and where the record ends."""


def section_of(batch: Buffer, header: BatchHeader) -> bytes:
    """The records section, decompressed. Raises ValueError."""
    return decompress(Compression(header.compression), memoryview(batch)[batches.HEADER_SIZE : header.size])


def views(section: bytes, count: int, at: int = 0) -> Iterator[View]:
    """`count` records from position `at` on. Raises ValueError or IndexError when they are malformed.

    Varints of one or two bytes, which nearly all are, are read in place: cleaning spends its time here.
    """
    limit = len(section)
    for _ in range(count):
        start = at
        byte = section[at]
        if byte < 0x80:
            size, at = byte >> 1, at + 1
        elif (second := section[at + 1]) < 0x80:
            size, at = (second << 7 | byte & 0x7F) >> 1, at + 2
        else:
            size, at = read_varint(section, at, INT_BITS)
        end = at + size
        time_at = at = at + 1  # attributes are unused
        while section[at] >= 0x80:
            at += 1
        at += 1
        rest_at = at
        byte = section[at]
        if not byte & 0x81:  # neither negative nor longer
            offset, at = byte >> 1, at + 1
        elif byte & 0x81 == 0x80 and (second := section[at + 1]) < 0x80:
            offset, at = (second << 7 | byte & 0x7F) >> 1, at + 2
        else:
            offset, at = read_varint(section, at, INT_BITS)
        byte = section[at]
        if byte & 1:  # any negative length means null
            key, at = None, read_varint(section, at, INT_BITS)[1]
        else:
            if byte < 0x80:
                key_size, at = byte >> 1, at + 1
            else:
                key_size, at = read_varint(section, at, INT_BITS)
            key = section[at : at + key_size]
            at += key_size
        if at >= end or end > limit:
            raise ValueError("a record's size is not that of its fields")
        yield offset, key, not section[at] & 1, start, time_at, rest_at, end
        at = end


class Keys(NamedTuple):
    """The keys of some records and their offsets, without the records that have no key; whether one of the records has
    no value; where the next record starts."""

    keys: list[bytes]
    offsets: list[int]
    has_tombstone: bool
    end: int


def keys_of(section: bytes, at: int, count: int, base_offset: int) -> Keys:
    """The keys of `count` records from position `at` on, as `views` reads them."""
    keys: list[bytes] = []
    offsets: list[int] = []
    has_tombstone = False
    for offset, key, has_value, _, _, _, end in views(section, count, at):
        if key is not None:
            keys.append(key)
            offsets.append(base_offset + offset)
        if not has_value:
            has_tombstone = True
        at = end
    return Keys(keys, offsets, has_tombstone, at)


def rebuild(header: BatchHeader, section: bytes, kept: list[View], delete_horizon_ms: int | None) -> bytes:
    """The batch with only these records of its section (Kafka's MemoryRecords.buildRetainedRecordsInto).

    Offsets, sequence numbers, producer and leader epoch stay, and so does the last offset. The base timestamp becomes
    the delete horizon, if there is one (KIP-534), or else the first record's.
    """
    if header.is_log_append_time:
        times = [header.max_timestamp] * len(kept)
        max_timestamp = header.max_timestamp
    else:
        deltas = [read_varint(section, time_at, LONG_BITS)[0] for *_, time_at, _, _ in kept]
        times = [as_long(header.base_timestamp + delta) for delta in deltas]
        max_timestamp = max(times)
    base_timestamp = times[0] if delete_horizon_ms is None else delete_horizon_ms
    parts: list[bytes] = []
    moved = base_timestamp != header.base_timestamp or header.is_log_append_time
    for (*_, start, time_at, rest_at, end), time in zip(kept, times, strict=True):
        if moved or section[time_at - 1]:
            delta = encode_varint(as_long(time - base_timestamp))
            parts += (encode_varint(1 + len(delta) + end - rest_at), b"\x00", delta, section[rest_at:end])
        else:
            parts.append(section[start:end])
    rebuilt = b"".join(parts)
    if header.compression:
        rebuilt = compress(Compression(header.compression), rebuilt)
    attributes = header.attributes & ~batches.DELETE_HORIZON_FLAG
    if delete_horizon_ms is not None:
        attributes |= batches.DELETE_HORIZON_FLAG
    return _with_header(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        rebuilt,
    )


def empty(header: BatchHeader) -> bytes:
    """The batch without records; it keeps offsets and sequence numbers (DefaultRecordBatch.writeEmptyHeader)."""
    kept = batches.LOG_APPEND_TIME_FLAG | batches.TRANSACTIONAL_FLAG | batches.CONTROL_FLAG
    return _with_header(
        header._replace(attributes=header.attributes & kept, base_timestamp=batches.NO_TIMESTAMP, record_count=0),
        b"",
    )


def _with_header(header: BatchHeader, section: bytes) -> bytes:
    length = batches.HEADER_SIZE - batches.LOG_OVERHEAD + len(section)
    out = bytearray(batches.pack_header(header._replace(batch_length=length)))
    out += section
    batches.write_crc(out, 0, len(out))
    return bytes(out)


@dataclass(slots=True)
class _Ongoing:
    txn: AbortedTxn
    has_data: bool = False


class CleanedTransactions:
    """Must be given every batch, in order of offsets.

    Attributes:
        index: collects the aborted transactions whose data was seen, as their markers are read; None for none.
    """

    def __init__(self) -> None:
        self.index: TxnIndex | None = None
        self._announced: list[tuple[int, AbortedTxn]] = []
        self._aborted: dict[int, _Ongoing] = {}
        self._committed: set[int] = set()

    def announce(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take in what the transaction indexes say of the batches to come; repetitions do no harm."""
        for txn in aborted:
            heappush(self._announced, (txn.first_offset, txn))

    def _begin_up_to(self, offset: int) -> None:
        while self._announced and self._announced[0][0] <= offset:
            txn = heappop(self._announced)[1]
            self._aborted.setdefault(txn.producer_id, _Ongoing(txn))

    def on_control_batch(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether the marker may go, because no data of its transaction was seen. Raises ValueError, OSError."""
        self._begin_up_to(header.last_offset)
        record = next(iter_records(batch, header), None)
        if record is None:
            return True  # the marker went in an earlier round
        marker = read_end_marker(record)
        if marker is None:
            return False
        if marker.type is ControlRecordType.COMMIT:
            known = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not known
        ongoing = self._aborted.pop(header.producer_id, None)
        if ongoing is None or not ongoing.has_data:
            return True
        if self.index is not None:
            self.index.append(ongoing.txn)
        return False

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction, so that all of it may go."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.has_data = True
        return True
