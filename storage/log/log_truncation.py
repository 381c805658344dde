"""Making a log shorter at its end (Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt).

Truncation is for followers, which drop what their new leader does not have. It blocks on the device, since it happens
once per leader change and what was cut off must not come back.
"""

from __future__ import annotations

from storage.log.recovery import rebuild_producers
from storage.log.unified_log import UnifiedLog
from storage.segments.segment import LogSegment


def truncate_to(log: UnifiedLog, offset: int) -> bool:
    """Drop everything from `offset` on; False if the log ends there or before. Raises KafkaStorage.

    In any case no leader epoch remains that has no records: this node may have led in it and appended nothing, and the
    leader knows nothing of it.
    """
    log.check_online()
    try:
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            return False
        if offset < log.segments.first.base_offset:
            _drop_all(log, offset, offset)
        else:
            _drop_from(log, offset)
    except OSError as error:
        raise log.fail(error) from error
    return True


def truncate_fully_and_start_at(log: UnifiedLog, offset: int, log_start_offset: int | None = None) -> None:
    """Drop everything; the next append gets `offset`. Raises KafkaStorage."""
    log.check_online()
    try:
        _drop_all(log, offset, offset if log_start_offset is None else log_start_offset)
    except OSError as error:
        raise log.fail(error) from error


def _drop_from(log: UnifiedLog, offset: int) -> None:
    _lower_recovery_point(log, offset)
    doomed = [segment for segment in log.segments if segment.base_offset > offset]
    _unlink(log, doomed)
    for segment in doomed:
        log.segments.remove(segment)
    log.segments.active.truncate_to(offset, log.services.clock.wall_ms())
    log.leader_epochs.truncate_from_end(offset)
    _end_at(log, offset, min(offset, log.log_start_offset))


def _drop_all(log: UnifiedLog, offset: int, log_start_offset: int) -> None:
    _lower_recovery_point(log, log.segments.first.base_offset)
    _unlink(log, list(log.segments))
    log.segments.replace_all(log.new_segment(offset, sealed=None))
    log.leader_epochs.clear()
    log.services.fs.fsync_dir(log.folder)
    _end_at(log, offset, log_start_offset)


def _lower_recovery_point(log: UnifiedLog, offset: int) -> None:
    """Lower the recovery point first, also on disk: else the next load trusts unsynced records appended below it."""
    log.flusher.lower(offset)
    if log.cleaned_to is not None:
        log.cleaned_to = min(log.cleaned_to, offset)
    log.host.checkpoint()


def _end_at(log: UnifiedLog, end_offset: int, log_start_offset: int) -> None:
    log.log_end_offset = end_offset
    log.log_start_offset = log_start_offset
    log.flusher.note_truncated()
    log.segments.note_truncated()
    rebuild_producers(log.producers, list(log.segments), log_start_offset, end_offset, log.services.clock.wall_ms())


def _unlink(log: UnifiedLog, segments: list[LogSegment]) -> None:
    """Remove the files for good, the last segment first, so that no gap can remain; readers keep their descriptors."""
    for segment in reversed(segments):
        for path in segment.existing_files():
            log.services.fs.unlink(path)
        segment.file.close()
    log.services.fs.fsync_dir(log.folder)
