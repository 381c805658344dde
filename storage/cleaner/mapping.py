"""Filling the offset map from the dirty part of a log (Kafka's Cleaner.buildOffsetMap)."""

from collections.abc import Sequence

from protocol.records.batch import BatchHeader
from storage.cleaner.batches import batches_of
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.records import section_of, views
from storage.cleaner.steps import RECORDS_A_STEP, Steps
from storage.cleaner.transactions import CleanedTransactions
from storage.files import Buffer
from storage.segment import LogSegment


def map_keys(
    dirty: Sequence[LogSegment],
    start: int,
    end: int,
    offsets: OffsetMap,
    transactions: CleanedTransactions,
) -> Steps[None]:
    """Reads [start, end), whose segments these are, until the map is full; its `latest_offset` tells how far it came.

    Keys of aborted transactions and of control batches do not count. Raises OSError, ValueError, IndexError.
    """
    following = [segment.base_offset for segment in dirty[1:]] + [end]
    for segment, next_base in zip(dirty, following, strict=True):
        for header, batch in batches_of(segment, segment.offset_index.lookup(start)):
            if header.is_control:
                transactions.on_control_batch(header, batch)
            elif not transactions.on_batch(header) and not (yield from _map_batch(header, batch, start, offsets)):
                return
            if header.last_offset >= start:
                offsets.latest_offset = header.last_offset
            yield len(batch)
        offsets.latest_offset = next_base - 1


def _map_batch(header: BatchHeader, batch: Buffer, start: int, offsets: OffsetMap) -> Steps[bool]:
    base_offset, put = header.base_offset, offsets.put
    pause_at = RECORDS_A_STEP
    for number, (offset_delta, key, *_) in enumerate(views(section_of(batch, header), header.record_count)):
        if number == pause_at:
            pause_at += RECORDS_A_STEP
            yield 0
        offset = base_offset + offset_delta
        if key is not None and offset >= start and not put(key, offset):
            return False
    return True
