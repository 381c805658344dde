"""The facts about record batches that a share fetch must know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.produce_fetch.fetch_request import AbortedTransaction
from protocol.records.batch import BatchHeader, read_header

_HEADER_BYTES = 61


class ReadBatch(NamedTuple):
    """A record batch: its offsets, and where it lies in what was read, in bytes."""

    first: int
    last: int
    begin: int
    end: int
    header: BatchHeader


def batches_of(data: bytes | memoryview, until: int | None = None) -> list[ReadBatch]:
    """The whole record batches, up to the one that has the offset `until`, or all."""
    batches = []
    at = 0
    while at + _HEADER_BYTES <= len(data):
        header = read_header(data, at)
        end = at + header.size
        if end > len(data):
            break
        batches.append(ReadBatch(header.base_offset, header.last_offset, at, end, header))
        at = end
        if until is not None and header.last_offset >= until:
            break
    return batches


def spanning(data: bytes | memoryview, batches: Sequence[ReadBatch], first: int, last: int) -> bytes | memoryview:
    """The bytes of the batches that have any of these offsets, and of those between."""
    within = [batch for batch in batches if batch.last >= first and batch.first <= last]
    return data[within[0].begin : within[-1].end] if within else b""


def aborted_ranges(batches: Sequence[ReadBatch], aborted: Sequence[AbortedTransaction]) -> list[tuple[int, int]]:
    """The offsets of batches that belong to aborted transactions: from their first offset to the producer's marker."""
    left = sorted(aborted, key=lambda transaction: transaction.first_offset)
    open_producers: set[int] = set()
    ranges = []
    for batch in batches:
        header = batch.header
        while left and left[0].first_offset <= batch.last:
            open_producers.add(left.pop(0).producer_id)
        if header.is_control:
            open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            ranges.append((batch.first, batch.last))
    return ranges
