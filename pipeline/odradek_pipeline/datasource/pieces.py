"""Ranges of a log that are read by themselves: where each begins in the files, found by the offset indexes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.indexes import AbortedTxn, read_offset_index
from odradek_pipeline.datasource.offsets import OffsetRange
from odradek_pipeline.datasource.places import OpenLog, Place, RemoteFileMissing, open_log
from odradek_pipeline.datasource.segments import Segment
from odradek_pipeline.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Hint:
    """Where the first batch of a piece was: a position, valid only in the file with that identity."""

    log: Place
    identity: tuple[int, int]
    position: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets [start, end) of a partition in `folder`; a reader searches for them again if the hint is out of date.

    `aborted` are the transactions whose records are left out, `remote` the segments that were in remote storage.
    """

    partition: TopicPartition
    folder: str
    topic_id: str | None
    start: int
    end: int
    size: int
    hint: Hint
    aborted: tuple[AbortedTxn, ...]
    remote: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cut:
    """A cut: its offset, and the bytes from it to the next cut."""

    offset: int
    hint: Hint
    size: int


def size_of(wanted: OffsetRange) -> int:
    """About how many bytes a range has. Raises as `pieces_of` does."""
    return sum(cut.size for cut in _cuts(wanted, 1 << 62))


def pieces_of(wanted: OffsetRange, target: int) -> list[Piece]:
    """The pieces of a range, of up to about `target` bytes. Raises FileNotFoundError, OSError, CorruptLogError."""
    state = wanted.state
    aborted = state.aborted(wanted.start, wanted.end)
    bounds = np.array([(txn.first_offset, txn.last_offset) for txn in aborted], np.int64).reshape(-1, 2)
    pieces: list[Piece] = []
    cuts = _cuts(wanted, target)
    at = 0
    while at < len(cuts):
        last, size = at, cuts[at].size
        while last + 1 < len(cuts) and size + cuts[last + 1].size <= target:
            last += 1
            size += cuts[last].size
        start = max(cuts[at].offset, wanted.start) if at else wanted.start
        end = cuts[last + 1].offset if last + 1 < len(cuts) else wanted.end
        touching = tuple(aborted[at] for at in np.flatnonzero((bounds[:, 1] >= start) & (bounds[:, 0] < end)))
        home, hint = state.home, cuts[at].hint
        remote = tuple(segment for segment in state.listing.overlapping(start, end) if segment.remote is not None)
        pieces.append(Piece(home.partition, home.folder, state.topic_id, start, end, size, hint, touching, remote))
        at = last + 1
    return pieces


def _cuts(wanted: OffsetRange, target: int) -> list[_Cut]:
    """The places to cut at, the first one at or before the start; two in a segment are at least `target` apart."""
    listing = wanted.state.listing
    cuts = []
    for segment in listing.overlapping(wanted.start, wanted.end):
        following = listing.after(segment)
        inside = wanted.start <= segment.base_offset and following is not None and following.base_offset <= wanted.end
        whole = None if segment.remote is None else _Cut(segment.base_offset, _anywhere(segment), segment.remote.size)
        if whole is not None and inside and whole.size <= target:
            cuts.append(whole)
            continue
        try:
            with open_log(segment.log) as log:
                if inside and log.size <= target:
                    cuts.append(_Cut(segment.base_offset, Hint(segment.log, log.identity, 0), log.size))
                else:
                    cuts += _cuts_in(wanted, target, segment, log)
        except RemoteFileMissing:
            if whole is None:
                raise
            cuts.append(whole)  # who reads it will tell
    return cuts


def _anywhere(segment: Segment) -> Hint:
    """The beginning of a segment in remote storage, which is not looked at for that."""
    return Hint(segment.log, (0, 0), 0)


def _cuts_in(wanted: OffsetRange, target: int, segment: Segment, log: OpenLog) -> list[_Cut]:
    index = read_offset_index(segment)
    places = [_checked(log, index.lookup(wanted.start), segment)]
    end = index.position_after(wanted.end) or log.size
    marks = index.positions
    if not len(marks) and log.size > target:
        marks = np.array([position for position, _ in walk.headers(log, 0)], np.int64)
    at = int(np.searchsorted(marks, places[0][1] + target))
    while at < len(marks) and marks[at] + target // 2 <= end:
        position = int(marks[at])
        header = walk.header_at(log, position, segment.base_offset)
        if header is not None and max(wanted.start, places[-1][0]) < header.base_offset < wanted.end:
            places.append((header.base_offset, position))
            at = int(np.searchsorted(marks, position + target))
        else:
            at += 1
    bounds = [position for _, position in places[1:]] + [max(end, places[-1][1])]
    return [
        _Cut(offset, Hint(segment.log, log.identity, position), following - position)
        for (offset, position), following in zip(places, bounds, strict=True)
    ]


def _checked(log: OpenLog, position: int, segment: Segment) -> tuple[int, int]:
    """(offset, position) of the batch that an index points to; of the first batch if there is none at that position."""
    header = walk.header_at(log, position, segment.base_offset)
    return (segment.base_offset, 0) if header is None or not position else (header.base_offset, position)
