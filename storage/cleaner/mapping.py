"""Filling the offset map from the dirty part of a log (Kafka's Cleaner.buildOffsetMap)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress
from operator import lt

from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader
from storage.cleaner.batches import batches_of
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.records import keys_of, section_of
from storage.cleaner.steps import RECORDS_A_STEP, Steps
from storage.segments.segment import LogSegment


def map_keys(
    dirty: Sequence[LogSegment],
    start: int,
    end: int,
    offsets: OffsetMap,
    transactions: CleanedTransactions,
) -> Steps[None]:
    """Read [start, end) from these segments until the map is full; its `latest_offset` tells how far that was.

    Keys of aborted transactions and of control batches do not count. Raises OSError, ValueError, IndexError.
    """
    following = [segment.base_offset for segment in dirty[1:]] + [end]
    for segment, next_base in zip(dirty, following, strict=True):
        for header, batch in batches_of(segment, segment.scan_start(start, segment.read)):
            if header.is_control:
                transactions.on_control_batch(header, batch)
            elif transactions.on_batch(header):
                offsets.note_unmapped(header.base_offset, header.last_offset)
            elif not (yield from _map_batch(header, batch, start, offsets)):
                return
            if header.last_offset >= start:
                offsets.latest_offset = header.last_offset
            yield len(batch)
        offsets.latest_offset = next_base - 1


def _map_batch(header: BatchHeader, batch: Buffer, start: int, offsets: OffsetMap) -> Steps[bool]:
    section = section_of(batch, header)
    at, left, before = 0, header.record_count, header.base_offset - 1
    while left > 0:
        count = min(left, RECORDS_A_STEP)
        keys, of_keys, has_tombstone, at = keys_of(section, at, count, header.base_offset)
        if len(keys) < count:
            offsets.note_record_without_key()
        if has_tombstone:
            offsets.note_tombstone(header.base_offset)
        if not _ascend(of_keys, before, header.last_offset):
            offsets.note_disorder()
            wanted = [offset >= start for offset in of_keys]
            keys, of_keys = list(compress(keys, wanted)), list(compress(of_keys, wanted))
        elif of_keys and of_keys[0] < start:
            first = bisect_left(of_keys, start)
            keys, of_keys = keys[first:], of_keys[first:]
        if not offsets.put_all(keys, of_keys):
            return False
        before = of_keys[-1] if of_keys else before
        left -= RECORDS_A_STEP
        if left > 0:
            yield 0
    return True


def _ascend(offsets: Sequence[int], before: int, last: int) -> bool:
    """Whether the offsets rise from one to the next, all of them after `before` and none after `last`.

    In an uncompressed batch nothing else is certain: Kafka stores it whatever offsets its records claim.
    """
    return not offsets or (before < offsets[0] and offsets[-1] <= last and all(map(lt, offsets, offsets[1:])))
