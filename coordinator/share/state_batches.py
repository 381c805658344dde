"""State batches of a share partition, merged (Kafka's `PersisterStateBatchCombiner`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from protocol.coordinator_records.share_records import StateBatch


def merge(batches: Sequence[StateBatch], news: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Both together, without what is below the start offset.

    `batches` are in order and do not overlap; so is the result, in which equal neighbours are joined. Where two
    overlap, the one with more deliveries counts; of two with as many, the one with the higher state.
    """
    merged = list(batches)
    for new in news:
        if new.first <= new.last:
            _put(merged, new)
    kept = [batch._replace(first=max(batch.first, start_offset)) for batch in merged if batch.last >= start_offset]
    return tuple(_joined(kept))


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    """Put one more in: only what it overlaps is looked at."""
    begin = bisect_left(batches, new.first, key=lambda batch: batch.last)
    end = bisect_right(batches, new.last, key=lambda batch: batch.first)
    batches[begin:end] = _combined(batches[begin:end], new)


def _combined(overlapped: Sequence[StateBatch], new: StateBatch) -> list[StateBatch]:
    found = []
    first = new.first  # of what is left of the new one
    for old in overlapped:
        if old.first < new.first:
            found.append(old._replace(last=new.first - 1))
        if first < old.first:
            found.append(new._replace(first=first, last=old.first - 1))
        common_first, common_last = max(old.first, new.first), min(old.last, new.last)
        winner = max(old, new, key=lambda batch: (batch.delivery_count, batch.state))
        found.append(winner._replace(first=common_first, last=common_last))
        if old.last > new.last:
            found.append(old._replace(first=new.last + 1))
        first = common_last + 1
    if first <= new.last:
        found.append(new._replace(first=first))
    return _joined(found)


def _joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    joined: list[StateBatch] = []
    for batch in batches:
        if joined and joined[-1].last + 1 == batch.first and joined[-1][2:] == batch[2:]:
            joined[-1] = joined[-1]._replace(last=batch.last)
        else:
            joined.append(batch)
    return joined
