"""The content of a sealed segment that is copied to remote storage: its log, its indexes, and what belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from protocol.remote_storage.store import IndexKind, SegmentData
from protocol.topic_partition import EpochEntry
from storage.checkpoint_file import checkpoint_bytes
from storage.files import read_file
from storage.log.leader_epochs import lines_of
from storage.log.recovery import rebuild_producers
from storage.producers.producer_state import ProducerStateManager
from storage.producers.snapshot_files import CorruptSnapshotError, decode, encode
from storage.segments.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.segments.txn_index import TXN_INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import File, FileSystem
    from storage.log.unified_log import UnifiedLog
    from storage.segments.segment import LogSegment


class Copy(NamedTuple):
    """A segment to copy. `next_offset` is the one after its last; `earlier` are the log's segments up to it."""

    log: UnifiedLog
    segment: LogSegment
    next_offset: int
    epochs: tuple[EpochEntry, ...]
    earlier: Sequence[LogSegment]

    @property
    def own_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the segment, each with its first offset in it."""
        base = self.segment.base_offset
        before = [entry for entry in self.epochs if entry.start_offset <= base]
        within = [entry for entry in self.epochs if base < entry.start_offset < self.next_offset]
        return (*(EpochEntry(entry.epoch, base) for entry in before[-1:]), *within)


def plan_copy(log: UnifiedLog, segment: LogSegment, next_offset: int) -> Copy:
    """Note what the copy of a sealed segment needs of its log; on the loop. Raises OSError."""
    segment.write_indexes()
    epochs = tuple(entry for entry in log.leader_epochs.entries if entry.start_offset < next_offset)
    earlier = [one for one in log.segments if one.base_offset <= segment.base_offset]
    return Copy(log, segment, next_offset, epochs, earlier)


def read_content(copy: Copy, file: File) -> SegmentData:
    """The content of a segment whose log is open as `file`; blocking. Raises OSError.

    The leader epochs are those from the log's start on to the segment's end.
    """
    segment, fs = copy.segment, copy.log.services.fs
    indexes = {
        IndexKind.OFFSET: read_file(fs, segment.path(INDEX_SUFFIX)),
        IndexKind.TIMESTAMP: read_file(fs, segment.path(TIME_INDEX_SUFFIX)),
        IndexKind.PRODUCER_SNAPSHOT: _producer_snapshot(copy),
        IndexKind.LEADER_EPOCH: checkpoint_bytes(lines_of(copy.epochs)),
    }
    transactions = segment.path(TXN_INDEX_SUFFIX)
    if fs.exists(transactions) and fs.size(transactions):
        indexes[IndexKind.TRANSACTION] = read_file(fs, transactions)
    return SegmentData(segment.size, file.pread, indexes)


class _FilesToRead:
    """The files of a log's folder, for who would remove damaged snapshots: they are the log's own business."""

    def __init__(self, fs: FileSystem) -> None:
        self.listdir, self.exists, self.open_to_read = fs.listdir, fs.exists, fs.open_to_read

    def unlink(self, _path: str) -> None:
        """Leave the file alone."""


def _producer_snapshot(copy: Copy) -> bytes:
    """The producers at the segment's end; made anew if the file is missing or damaged."""
    log, offset = copy.log, copy.next_offset
    fs = log.services.fs
    path = log.producers.snapshots.path(offset)
    if fs.exists(path):
        content = read_file(fs, path)
        try:
            decode(content)
        except CorruptSnapshotError:
            pass
        else:
            return content
    files = cast("FileSystem", _FilesToRead(fs))
    producers = ProducerStateManager(files, log.folder, log.name, log.producers.expiration_ms)
    rebuild_producers(producers, list(copy.earlier), log.log_start_offset, offset, log.services.clock.wall_ms())
    return encode(list(producers.rows()))
