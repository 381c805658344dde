"""Reading the batches of a piece, whatever a broker does to the files meanwhile.

An open file keeps its content when it is renamed or removed. So only the step from one file to the next needs care: a
segment may have been compacted into another (then that is read), or deleted by retention (then records are gone).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError
from odradek_pipeline.datasource.folders import CLEANER, RECOVERY_POINT, Home, find_homes, read_checkpoint, topic_id
from odradek_pipeline.datasource.indexes import read_offset_index, read_time_index, start_of
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.pieces import Hint, Piece
from odradek_pipeline.datasource.places import OpenLog, RemoteFileMissing, open_log
from odradek_pipeline.datasource.segments import Listing, Segment, base_offset_of, list_segments
from odradek_pipeline.datasource.tier_metadata import TOPIC
from odradek_pipeline.datasource.tier_view import TierView
from odradek_pipeline.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 20
_ATTEMPTS = 100


@dataclass(slots=True)
class PieceScan:
    """Yields (header, bytes) of every batch with offsets in the piece, including control batches and aborted ones.

    `damaged_from` is where damage began that was left out; whoever wants to know takes it, and sets it to None.

    Which segments are in remote storage, the plan knows. It is only asked again about what is not where it was: local
    segments may have gone there since, and remote ones are removed by retention.

    Raises DataLossError, CorruptLogError, DataSourceError, OSError.
    """

    piece: Piece
    options: SourceOptions
    damaged_from: int | None = None
    _cursor: int = field(init=False)
    _done_with: tuple[str, tuple[int, int]] | None = None
    _remote: tuple[Segment, ...] = field(init=False)
    _missing: str | None = None

    def __post_init__(self) -> None:
        self._cursor = self.piece.start
        self._remote = self.piece.remote

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        yield from self._from_hint(self.piece.hint)
        attempts = 0
        while self._cursor < self.piece.end:
            try:
                segment = self._next_segment()
                if segment is None:
                    return
                with open_log(segment.log) as log:
                    attempts = 0
                    yield from self._file(log, start_of(log, segment, self._cursor))
            except RemoteFileMissing as error:
                self._look_again(str(error.filename))
            except FileNotFoundError as error:
                attempts += 1  # the file was renamed or removed between listing and opening
                if attempts == _ATTEMPTS:
                    raise DataSourceError(f"The files of {self.piece.partition} go faster than they open.") from error

    def _look_again(self, missing: str) -> None:
        """Ask what is in remote storage, from where `missing` has gone. Raises DataLossError if it should be there."""
        segment = self._listing(anew=True).floor(self._cursor)
        if missing == self._missing:
            remote = None if segment is None else segment.remote
            end = self.piece.end if remote is None else min(remote.end_offset + 1, self.piece.end)
            self._lost(end, f"{missing} is missing, and {TOPIC} has it")
        self._missing = missing

    def _from_hint(self, hint: Hint) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches from the hint on; none if the file is a different one by now."""
        piece = self.piece
        try:
            with open_log(hint.log) as log:
                first = walk.header_at(log, hint.position, 0)
                known = not hint.position or (first is not None and first.base_offset <= piece.start)
                home = Home(piece.partition, "", piece.folder)
                is_same = not isinstance(hint.log, str) or (  # what is in remote storage never changes
                    log.identity == hint.identity and topic_id(home) == piece.topic_id
                )
                if known and is_same:
                    yield from self._file(log, hint.position)
        except FileNotFoundError:
            return

    # -- from file to file

    def _next_segment(self) -> Segment | None:
        """The segment to go on in, in the folder as it is now; None if the rest of the piece is gone, and may be."""
        listing = self._listing()
        if self.options.tier is not None and self._leaves_out(listing.floor(self._cursor)):
            listing = self._listing(anew=True)
        if not listing.segments:
            self._lost(self.piece.end, "its folder is gone")
            return None
        segment = listing.floor(self._cursor)
        if segment is None:
            first = listing.segments[0].base_offset
            self._lost(min(first, self.piece.end), f"the log starts at offset {first} now")
            return listing.segments[0] if self._cursor < self.piece.end else None
        if not self._leaves_out(segment):
            with open_log(segment.log) as log:
                if (log.path, log.identity) != self._done_with:
                    return segment
                if segment.remote is not None and log.size < segment.remote.size:
                    self._cut(log, segment.remote)
        following = listing.after(segment)
        if following is None:
            self._lost(self.piece.end, f"the log ends at offset {self._cursor} now")
            return None
        if self._cursor < following.base_offset:
            if segment.remote is None:
                self._check_gap(segment, following.base_offset)
            elif segment.remote.end_offset + 1 < following.base_offset:
                self._lost(following.base_offset, "they are not in remote storage")
            self._cursor = following.base_offset
        return following

    def _leaves_out(self, segment: Segment | None) -> bool:
        """Whether a segment, the last one up to the next offset, does not have it."""
        return segment is None or (segment.remote is not None and segment.remote.end_offset < self._cursor)

    def _cut(self, log: OpenLog, remote: RemoteSegment) -> None:
        text = f"{log.path} has {log.size} of {remote.size} bytes, and ends at offset {self._cursor}"
        if self.options.fail_on_corruption:
            raise CorruptLogError(f"{text}. With failOnCorruption=false its end is left out.")
        self._leave_out()
        logger.warning("remote segment was cut: %s", text)

    def _check_gap(self, segment: Segment, base_offset: int) -> None:
        """Check a gap between segments. Compaction leaves some, but only below what a broker has checkpointed.

        Any other gap means an incomplete copy: a segment was not whole yet when the next one was copied. So does an
        index that has entries for what its log has not: compaction writes the indexes anew.
        """
        folder = os.path.dirname(str(segment.log))
        known = [read_checkpoint(os.path.dirname(folder), name) for name in (CLEANER, RECOVERY_POINT)]
        explained = max(explained_by.get(self.piece.partition, 0) for explained_by in known)
        indexed = [*read_offset_index(segment).offsets[-1:], *read_time_index(segment).offsets[-1:]]
        text = f"{folder}: offsets {self._cursor} to {base_offset - 1} are missing before segment {base_offset}"
        if any(self._cursor <= offset < base_offset for offset in indexed):
            problem = f"its indexes know offset {max(indexed)}: the log was cut"
        elif not any(known):
            logger.warning("gap in a log without checkpoints, taken for compaction's: %s", text)
            return
        elif base_offset > explained:
            problem = f"compaction was no further than {explained}. Was it copied while it grew?"
        else:
            return
        if self.options.fail_on_corruption:
            raise CorruptLogError(f"{text}; {problem}")
        self._leave_out()
        logger.warning("gap in a log: %s", text)

    def _listing(self, anew: bool = False) -> Listing:
        """The files of the partition, wherever they are now; `anew`: as the tier has them now, too."""
        piece = self.piece
        listing = Listing(piece.folder, (), ())
        for home in find_homes(self.options.paths, lambda partition: partition == piece.partition):
            if topic_id(home) == piece.topic_id:
                listing = list_segments(home.folder)
        if anew and self.options.tier is not None:
            tier = TierView(self.options, self.options.tier)
            tier.refresh(frozenset((piece.partition,)))
            listing = tier.joined(piece.partition, piece.topic_id, listing, None)
            self._remote = tuple(segment for segment in listing.segments if segment.remote is not None)
            return listing
        first = listing.segments[0].base_offset if listing.segments else piece.end
        remote = tuple(segment for segment in self._remote if segment.base_offset < first)
        return replace(listing, segments=(*remote, *listing.segments))

    def _lost(self, up_to: int, why: str) -> None:
        text = f"Offsets {self._cursor} to {up_to - 1} of {self.piece.partition} cannot be read: {why}."
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{text} With failOnDataLoss=false they are left out.")
        logger.warning("records are gone: %s", text)
        self._cursor = up_to

    # -- within a file

    def _file(self, log: OpenLog, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The wanted batches of one file from a position on."""
        least_offset = base_offset_of(log.path)  # a batch's offset is not in its checksum, but in a file offsets rise
        while self._cursor < self.piece.end and position < log.size:
            block = memoryview(log.read(READ_BYTES, position))
            at = 0
            while self._cursor < self.piece.end:
                header, batch = _batch_in(block, at)
                if header is None and not at:  # it is longer than a block, or no batch at all
                    header, batch = _batch_in(
                        memoryview(log.read(min(_size_at(block), log.size - position), position)), 0
                    )
                    if header is None:
                        at = self._skip_damage(log, position, "there is no whole batch") - position
                        break
                if header is None or batch is None:
                    break
                if header.base_offset < least_offset or self._overtakes(log, position + at, header):
                    at = self._skip_damage(log, position + at, "its offset is out of order") - position
                    break
                if header.base_offset >= self.piece.end:
                    self._cursor = self.piece.end
                    return
                least_offset = header.next_offset
                if not check_crc(batch, 0, header):  # also of one to pass over: it says itself which offsets it has
                    at = self._skip_damage(log, position + at, "its checksum is wrong") - position
                    break
                if header.next_offset > self._cursor:
                    yield header, batch
                    self._cursor = header.next_offset
                at += header.size
            position += at
        self._done_with = log.path, log.identity

    def _overtakes(self, log: OpenLog, position: int, header: BatchHeader) -> bool:
        """Whether a batch leaves a gap before it, and the batch behind it has a lower offset: it is damaged."""
        if header.base_offset <= self._cursor:
            return False
        following = walk.header_at(log, position + header.size, 0)
        if following is not None:
            return following.base_offset < header.next_offset
        listing = self._listing()
        own = base_offset_of(log.path)
        behind = (segment.base_offset for segment in listing.segments if segment.base_offset > own)
        return any(base_offset < header.next_offset for base_offset in behind)

    def _leave_out(self) -> None:
        if self.damaged_from is None:
            self.damaged_from = self._cursor

    def _skip_damage(self, log: OpenLog, position: int, why: str) -> int:
        """Where to go on after a damaged batch: at the next batch with a correct checksum, or the file's end."""
        text = f"{log.path}: the batch at position {position}, after offset {self._cursor - 1}: {why}."
        if self.options.fail_on_corruption:
            raise CorruptLogError(f"{text} With failOnCorruption=false it is left out.")
        self._leave_out()
        found = walk.next_whole(log, position + 1, self._cursor)
        logger.warning("damaged batch left out: %s %s", text, walk.left_out(log, position, found, self._cursor))
        return found


def _size_at(block: memoryview) -> int:
    if len(block) < LOG_OVERHEAD:
        return 0
    return max(0, LOG_OVERHEAD + int.from_bytes(block[8:12], "big", signed=True))


def _batch_in(block: memoryview, at: int) -> tuple[BatchHeader | None, memoryview | None]:
    """The whole batch at a position of a block, if there is one."""
    if at + HEADER_SIZE > len(block):
        return None, None
    header = read_header(block, at)
    if header.magic != MAGIC or header.size < HEADER_SIZE or at + header.size > len(block):
        return None, None
    return header, block[at : at + header.size]
