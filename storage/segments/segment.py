"""One segment of a log: its batches, its two indexes, and when it is full (Kafka's LogSegment)."""

from __future__ import annotations

from protocol.errors import CorruptMessage
from protocol.primitives import Buffer
from protocol.records.batch import HEADER_SIZE
from storage import damage
from storage.append_types import LogConfig
from storage.files import FileSystem, write_fully
from storage.producers.producer_state import CompletedTxn
from storage.segments.batch_scan import Read, WrongStartError, find_batch, headers, leads_to
from storage.segments.index import MAX_RELATIVE_OFFSET, TimestampOffset
from storage.segments.segment_files import SEGMENT_SUFFIXES, SegmentFiles
from storage.segments.txn_index import TXN_INDEX_SUFFIX, AbortedTxn, TxnIndex

_NO_BATCH = (0, -1, 0, 0)
"""First and last offset, position and size of the last batch, as long as this object has not appended any."""

_INDEX_GROUP = 256
"""Index entries kept in memory before they are written to the files, many with one write."""


class LogSegment(SegmentFiles):
    """Appends at the end, reads anywhere. Offsets are absolute, positions are bytes in the `.log` file.

    Every method may raise OSError, and CorruptIndexError when it reads an index that was never rebuilt.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_first_batch_timestamp",
        "_index_full",
        "_index_interval",
        "_index_is_wrong",
        "_last_batch",
        "_ready",
        "_truncated",
        "_unwritten_entries",
        "created_ms",
        "jitter_ms",
        "max_timestamp",
        "offset_of_max_timestamp",
        "size",
    )

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        jitter_ms: int = 0,
        now_ms: int = 0,
        file_suffix: str = "",
    ) -> None:
        super().__init__(fs, folder, base_offset, config.segment_index_bytes, file_suffix)
        self.jitter_ms = jitter_ms
        self.created_ms = now_ms
        self.size = 0
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self._index_interval = config.index_interval_bytes
        self._bytes_since_index_entry = 0
        self._first_batch_timestamp = -1
        self._last_batch = _NO_BATCH
        self._unwritten_entries = 0
        self._index_full = False
        self._index_is_wrong = False
        self._ready = False
        self._truncated = False

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        jitter_ms: int = 0,
        now_ms: int = 0,
        file_suffix: str = "",
    ) -> LogSegment:
        """A new, empty segment; leftovers of the same name are removed.

        Its log is created last: if an index finds no room or descriptor, nothing is left that counts as a segment.
        """
        segment = cls(fs, folder, base_offset, config, jitter_ms=jitter_ms, now_ms=now_ms, file_suffix=file_suffix)
        for suffix in SEGMENT_SUFFIXES:
            if fs.exists(segment.path(suffix)):
                fs.unlink(segment.path(suffix))
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.file.open(create=True)
        segment._get_ready()
        return segment

    @classmethod
    def open(
        cls, fs: FileSystem, folder: str, base_offset: int, config: LogConfig, *, jitter_ms: int = 0
    ) -> LogSegment:
        """An existing segment. Its indexes are not read yet: call `check_indexes` or `recover_segment` next."""
        segment = cls(fs, folder, base_offset, config, jitter_ms=jitter_ms)
        segment.size = fs.size(segment.file.path)
        segment.created_ms = fs.modified_ms(segment.file.path)
        return segment

    def check_indexes(self) -> None:
        """Check the indexes' ends. On CorruptIndexError, CorruptTxnIndexError or FileNotFoundError, rebuild them."""
        self.offset_index.sanity_check(self.size)
        self.time_index.sanity_check()
        if self._fs.exists(self.path(TXN_INDEX_SUFFIX)):
            self._txn_index = TxnIndex(self._fs, self.folder, self.base_offset)
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry()

    # -- appending

    def should_roll(
        self, config: LogConfig, batch_bytes: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """Whether a batch must go to a new segment (Kafka's LogSegment.shouldRoll)."""
        if self.size > config.segment_bytes - batch_bytes or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not self._ready:
            self._get_ready()
        if self._index_full:
            return True
        if not self.size:
            return False
        first = self._first_batch_timestamp
        waited = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited > config.max_segment_ms - self.jitter_ms

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, base_offset: int) -> None:
        """Write one batch whose header is final. OSError leaves memory as it was; the file may hold a part."""
        if not self._ready:
            self._get_ready()
        if self._unwritten_entries >= _INDEX_GROUP:
            self.write_indexes()
        position = self.size
        size = len(data)
        file = self.file.opened or self.file.open()
        written = file.pwrite(data, position)
        if written != size:
            write_fully(file, memoryview(data)[written:], position + written)
        if not position:
            self._first_batch_timestamp = max_timestamp
        self.note_batch(position, size, last_offset, max_timestamp)
        self._last_batch = (base_offset, last_offset, position, size)

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for a batch that is in the file at `position`: size, largest timestamp, index entries."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_index_entry > self._index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
            self._unwritten_entries += 1
            self._index_full = self.offset_index.is_full() or self.time_index.is_full()
        self._bytes_since_index_entry += size
        self.size = position + size

    def note_aborted(self, completed: CompletedTxn) -> None:
        """Note the transaction that an abort marker in this segment ended."""
        self.txn_index.append(
            AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
            )
        )

    def cut_back(self) -> None:
        """Cut off what a failed append or a truncation left in the file, if it could be opened at all."""
        if self.file.is_open:
            self.file.open().truncate(self.size)

    def _get_ready(self) -> None:
        self._index_full = self.offset_index.is_full() or self.time_index.is_full()
        self.first_batch_timestamp()
        self._ready = True

    def write_indexes(self) -> None:
        """Bring both index files up to date, in the page cache."""
        self.offset_index.write_out()
        self.time_index.write_out()
        if self._txn_index is not None:
            self._txn_index.write_out()
        self._unwritten_entries = 0

    def seal(self) -> None:
        """Add the largest timestamp as last time index entry; called when the segment is rolled or closed."""
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.write_indexes()

    def drop_idle_indexes(self) -> None:
        """Free the memory of indexes not used since the last call; for sealed segments."""
        self.offset_index.drop_if_idle()
        self.time_index.drop_if_idle()

    @property
    def is_touched(self) -> bool:
        """Whether the segment was changed since it was opened."""
        return self._ready or self._truncated

    @property
    def has_changed_indexes(self) -> bool:
        """Whether the index files may have changed since the segment was opened or created, empty."""
        return self._truncated or (self._ready and self.size > 0)

    def seal_if_touched(self) -> None:
        """Do as `seal`, unless nothing was changed."""
        if self.is_touched:
            self.seal()

    # -- reading

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes of the `.log`, which is opened if necessary; may wait for the device."""
        return self.file.open().pread(size, position)

    def locate(self, offset: int, read: Read) -> tuple[int, int] | None:
        """(position, size) of the first batch whose last offset is at least `offset`; None past the end. Any thread."""
        first, last, position, size = self._last_batch  # read at once, as the loop may be appending
        if first <= offset <= last:
            return position, size
        start = self.offset_index.lookup(offset)
        try:
            return find_batch(read, start, self.size, offset, self.base_offset)
        except WrongStartError:
            self._note_wrong_entry(start, offset)
            return find_batch(read, 0, self.size, offset, self.base_offset)

    def scan_start(self, offset: int, read: Read) -> int:
        """Where to begin a scan for `offset`: what the index says, and the first batch if that is wrong. Any thread."""
        start = self.offset_index.lookup(offset)
        if start and not leads_to(read(HEADER_SIZE, start), self.base_offset, offset):
            self._note_wrong_entry(start, offset)
            return 0
        return start

    def _note_wrong_entry(self, start: int, offset: int) -> None:
        """Log it, once; not if the segment was truncated between the look into the index and that into the log."""
        if self._index_is_wrong or self.offset_index.lookup(offset) != start:
            return
        self._index_is_wrong = True
        damage.repaired(
            self.offset_index.path,
            f"position {start} for offset {offset}, where no batch begins that leads to it",
            "the segment is read from its first batch on",
            advice="remove the file while the broker is stopped: the next start makes it anew",
        )

    def next_offset(self) -> int:
        """The offset after the last batch; the base offset if there is none.

        Raises CorruptMessage if the batches do not end where the file does: nobody could read what would be appended.
        """
        result, end = self.base_offset, self.offset_index.last_position()
        for position, header in headers(self.file.open().pread, end, self.size):
            result, end = header.next_offset, position + header.size
        if end != self.size:
            raise CorruptMessage(f"{self.file.path} has no whole batch at position {end}, and {self.size} bytes.")
        return result

    def first_batch_timestamp(self) -> int:
        """Largest timestamp of the first batch in ms; -1 if there is none."""
        if self._first_batch_timestamp < 0 and self.size:
            for _, header in headers(self.file.open().pread, 0, self.size):
                self._first_batch_timestamp = header.max_timestamp
                break
        return self._first_batch_timestamp

    @property
    def largest_timestamp(self) -> int:
        """Largest record timestamp; if there is none, the time when the file was last written. Milliseconds."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._fs.modified_ms(self.file.path)

    # -- recovering

    def reset_indexes(self) -> None:
        """Forget what is known of the batches, for `note_batch` to note them anew."""
        self.offset_index.reset()
        self.time_index.reset()
        if self._fs.exists(self.path(TXN_INDEX_SUFFIX)):
            self._fs.unlink(self.path(TXN_INDEX_SUFFIX))
        self._txn_index = None
        self.size = 0
        self.max_timestamp, self.offset_of_max_timestamp = -1, self.base_offset
        self._bytes_since_index_entry = 0
        self._ready = False

    def finish_recovery(self) -> None:
        """Note that all batches are noted: the next index entry is due an interval from here, as after any load."""
        self._bytes_since_index_entry = 0
        self.seal()

    # -- truncating

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop the batches from the first one that reaches `offset` on; `cut_back` drops them from the file too."""
        found = self.locate(offset, self.file.open().pread)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if found is not None:
            self.size = found[0]
        if not self.size:
            self.created_ms = now_ms
        self._first_batch_timestamp = -1
        self._bytes_since_index_entry = 0
        self._last_batch = _NO_BATCH
        self._ready = False
        self._truncated = True
        if self.max_timestamp >= 0:
            self._reread_largest_timestamp()

    def _reread_largest_timestamp(self) -> None:
        largest = self.time_index.last_entry()
        read = self.file.open().pread
        for _, header in headers(read, self.scan_start(largest.offset, read), self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        self.max_timestamp, self.offset_of_max_timestamp = largest
