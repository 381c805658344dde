"""Making a log shorter (Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset).

Truncation is for replicas, which drop what their new leader does not have; with one node nothing calls it yet. It
blocks on the device, since it happens once per leader change and what was cut off must not come back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import OffsetOutOfRange
from storage.files import is_transient
from storage.log.recovery import rebuild_producers
from storage.segments.segment import LogSegment
from storage.workers import folder_lane

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog


def increment_start(log: PartitionLog, offset: int) -> bool:
    """Move the log's start up; False if it is there already. Raises OffsetOutOfRange past the log's end."""
    if offset > log.log_end_offset:
        raise OffsetOutOfRange(f"Cannot increment the log start offset of {log.name} to {offset}, past its end.")
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    if log.leader_epochs.truncate_from_start(offset):
        workers = log.services.workers.lane(folder_lane("files", log.folder))
        workers.submit(log.leader_epochs.save, _saved, partial(_not_saved, log))
    return True


def _saved(_: None) -> None:
    """Do nothing: nobody waits for the file, as loading computes the same from what was saved before."""


def _not_saved(log: PartitionLog, error: Exception) -> None:
    if not is_transient(error):
        log.fail(error)


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Drop everything from `offset` on; False if the log ends there or before. Raises OSError."""
    if offset >= log.log_end_offset:
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully(log, offset, offset)
        return True
    _lower_recovery_point(log, offset)
    doomed = [segment for segment in log.segments if segment.base_offset > offset]
    _unlink(log, doomed)
    for segment in doomed:
        log.segments.remove(segment)
    log.segments.active.truncate_to(offset, log.services.clock.wall_ms())
    log.leader_epochs.truncate_from_end(offset)
    _settle(log, offset, min(offset, log.log_start_offset))
    return True


def truncate_fully(log: PartitionLog, offset: int, log_start_offset: int) -> None:
    """Drop everything; the next append gets `offset`. Raises OSError."""
    _lower_recovery_point(log, log.segments.first.base_offset)
    _unlink(log, list(log.segments))
    log.segments.replace_all(log.new_segment(offset, sealed=None))
    log.leader_epochs.clear()
    log.services.fs.fsync_dir(log.folder)
    _settle(log, offset, log_start_offset)


def _lower_recovery_point(log: PartitionLog, offset: int) -> None:
    """Lower the recovery point first, also on disk: else the next load trusts unsynced records appended below it."""
    log.flusher.lower(offset)
    if log.cleaned_to is not None:
        log.cleaned_to = min(log.cleaned_to, offset)
    log.host.checkpoint()


def _settle(log: PartitionLog, end_offset: int, log_start_offset: int) -> None:
    log.log_end_offset = end_offset
    log.log_start_offset = log_start_offset
    log.flusher.note_truncated()
    log.segments.note_truncated()
    rebuild_producers(log.producers, list(log.segments), log_start_offset, end_offset, log.services.clock.wall_ms())


def _unlink(log: PartitionLog, segments: list[LogSegment]) -> None:
    """Remove the files for good, the last segment first, so that no gap can remain; readers keep their descriptors."""
    for segment in reversed(segments):
        for path in segment.existing_files():
            log.services.fs.unlink(path)
        segment.file.close()
    log.services.fs.fsync_dir(log.folder)
