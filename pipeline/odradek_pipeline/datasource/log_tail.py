"""Where a log ends, which transactions are open there, and which were aborted.

A broker keeps that in memory. The files have it up to a producer snapshot; after that it has to be taken from the
batches. The rules are those of Kafka's ProducerStateManager.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError
from odradek_pipeline.datasource.indexes import (
    AbortedTxn,
    read_aborted,
    read_offset_index,
    read_open_transactions,
    start_of,
)
from odradek_pipeline.datasource.places import OpenLog, open_log
from odradek_pipeline.datasource.segments import Listing, Segment
from odradek_pipeline.protocol.records.batch import BatchHeader
from odradek_pipeline.protocol.records.build import ControlRecordType, iter_records, read_end_marker

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogTail:
    """The result of walking over everything from `since` to `end`; `advance` goes on, never past `limit`.

    Attributes:
        since: from here on `aborted` is complete; before it, the transaction indexes are.
        end: the offset after the last batch seen.
        open_transactions: producer id -> first offset, for those open at `end`.
        with_transactions: whether they are wanted at all.
        strict: whether damage in the middle is an error.
        torn: the file and position of what is no whole batch at the very end, as a crash or a copy may leave it.
    """

    since: int
    end: int
    with_transactions: bool
    strict: bool
    open_transactions: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTxn] = field(default_factory=list)
    torn: tuple[str, int] | None = None
    _file: tuple[int, tuple[int, int]] | None = None
    _position: int = 0
    _walked: int = 0

    @classmethod
    def begin(cls, listing: Listing, limit: int | None, *, with_transactions: bool, strict: bool) -> LogTail:
        """The tail before the first batch that has to be walked over. Raises as `advance` does."""
        if not with_transactions:
            last = listing.segments[-1] if limit is None else listing.floor(limit) or listing.segments[-1]
            return cls(last.base_offset, last.base_offset, False, strict)
        bare = cls.begin(listing, limit, with_transactions=False, strict=strict)
        bare.advance(listing, limit)  # a snapshot past the end covers batches that were lost, or not copied
        for offset in reversed(listing.snapshots):
            if offset < listing.segments[0].base_offset:
                break
            if offset <= bare.end:
                known = read_open_transactions(listing.folder, offset)
                if known is not None:
                    return cls(offset, offset, True, strict, known)
        first = listing.segments[0].base_offset
        return cls(first, first, True, strict)

    def advance(self, listing: Listing, limit: int | None) -> None:
        """Go on to the end, or to the first batch at or after `limit`.

        Raises OSError, FileNotFoundError for a file removed meanwhile, CorruptLogError for damage in the middle, and
        DataLossError for a log that is shorter than before, or whose last file has been replaced by another.
        """
        segment = listing.floor(self.end)
        while segment is not None:
            following = listing.after(segment)
            with open_log(segment.log) as log:
                position, indexed_to = self._where(segment, log, limit)
                whole_to = indexed_to if following is None else log.size
                self._file = segment.base_offset, log.identity
                self.torn = None
                reached = self._walk(log, position, whole_to, limit)
                while not reached and self._position < log.size:
                    if self._position >= whole_to and self._is_torn(log, segment):
                        self.torn = log.path, self._position
                        break
                    reached = self._walk(log, self._behind_damage(log), whole_to, limit)
                if reached:
                    if following is None and self.end < (limit or 0):  # a high watermark is the end of a batch
                        self._damaged(f"{log.path}: at {self._position} is no batch with offset {self.end}.")
                    self.end = max(self.end, limit or 0)
                    return
            if following is None and self._walked < self.end:
                raise DataLossError(
                    f"{segment.log} ends at offset {self._walked} now: records before offset {self.end} are gone."
                )
            segment = following
            if segment is not None:
                self.end = max(self.end, segment.base_offset)

    def _where(self, segment: Segment, log: OpenLog, limit: int | None) -> tuple[int, int]:
        """Where to go on in a file, and up to where it is known to have been intact.

        After a crash or in a copy, a torn batch may follow the last index entry, so that part is checked closely.
        """
        if self._file == (segment.base_offset, log.identity):
            if log.size < self._position:
                raise DataLossError(f"{segment.log} has become shorter: records before offset {self.end} are gone.")
            return self._position, self._position
        self._walked = segment.base_offset
        index = read_offset_index(segment)
        whole_to = int(index.positions[-1]) if len(index.positions) else 0
        if walk.header_at(log, whole_to, segment.base_offset) is None:
            whole_to = 0
        if not self.with_transactions and self.end == segment.base_offset:
            return whole_to if limit is None else start_of(log, segment, limit - 1), whole_to
        return start_of(log, segment, self.end), whole_to

    def _is_torn(self, log: OpenLog, segment: Segment) -> bool:
        """Whether what is no whole batch is the last thing in the log; damage has whole batches behind it.

        A record's value may itself be a batch. So if a broker has finished the torn batch meanwhile, that is not damage
        either; the next look sees it.
        """
        if walk.next_whole(log, self._position, segment.base_offset) == log.size:
            return True
        with open_log(log.path) as now:
            return now.size > log.size and walk.whole_at(now, self._position, self.end)

    def is_still_torn(self) -> bool:
        """Whether the log's end is torn, also when looked at again. Raises OSError."""
        if self.torn is None:
            return False
        with open_log(self.torn[0]) as log:
            return log.size > self.torn[1] and not walk.whole_at(log, self.torn[1], self.end)

    def _behind_damage(self, log: OpenLog) -> int:
        """Where to go on behind damage. Raises CorruptLogError if strict."""
        found = walk.next_whole(log, self._position + 1, self.end)
        what = walk.left_out(log, self._position, found, self.end)
        self._damaged(f"{log.path}: there is no whole batch at {self._position}, after offset {self.end - 1}: {what}")
        return found

    def _damaged(self, text: str) -> None:
        if self.strict:
            raise CorruptLogError(f"{text} And the log goes on; with failOnCorruption=false so does the read.")
        logger.warning("damage in the middle of a log: %s", text)

    def _walk(self, log: OpenLog, position: int, check_from: int, limit: int | None) -> bool:
        """Whether `limit` was reached."""
        self._position = position
        for at, header in walk.checked_headers(log, position, 0, check_from):
            if limit is not None and header.base_offset >= limit:
                return True
            if header.next_offset > self.end:
                if self.with_transactions and header.has_producer_id:
                    self._note(log, at, header)
                self.end = header.next_offset
            self._position, self._walked = at + header.size, header.next_offset
        return False

    def _note(self, log: OpenLog, position: int, header: BatchHeader) -> None:
        producer = header.producer_id
        if not header.is_control:
            if header.is_transactional:
                self.open_transactions.setdefault(producer, header.base_offset)
            return
        first = self.open_transactions.get(producer)
        try:
            record = next(iter_records(log.read(header.size, position), header), None)
            marker = read_end_marker(record) if record is not None else None
        except ValueError as error:
            raise CorruptLogError(f"{log.path}: the control batch at {header.base_offset}: {error}") from error
        if marker is None or first is None:
            return
        del self.open_transactions[producer]
        if marker.type is ControlRecordType.ABORT:
            self.aborted.append(AbortedTxn(producer, first, header.base_offset))

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction began."""
        return min(self.open_transactions.values(), default=None)

    def aborted_from(self, listing: Listing, start: int) -> list[AbortedTxn]:
        """The aborted transactions with markers at or after `start`. Raises OSError, CorruptLogError."""
        found = [txn for txn in self.aborted if txn.last_offset >= start]
        if start < self.since:
            for segment in listing.overlapping(start, self.since):
                found += [txn for txn in read_aborted(segment) if start <= txn.last_offset < self.since]
        return found

    def forget(self, offset: int) -> None:
        """Forget what is only needed to read records before `offset`."""
        if offset > self.since:
            self.since = offset
            self.aborted = [txn for txn in self.aborted if txn.last_offset >= offset]
