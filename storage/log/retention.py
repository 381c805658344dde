"""Removes segments below the log's start, too old, or beyond the log's size (Kafka's UnifiedLog.deleteOldSegments).

How it works: three limits are applied one after the other: the log start offset, `retention.bytes`, `retention.ms`. For
each, the segments are looked at from the oldest on, up to the first that does not breach the limit, or reaches above
the high watermark. The active segment goes only if all of it breaches, after a new one was rolled. First the log start
offset rises, then files get the suffix `.deleted`, then they go (`segment_removal`).

Of a log that is copied to remote storage, a segment goes once it is there, by `local.retention.bytes` and `.ms`; the
log's start stays. An active segment that breaches is rolled, so that it can be copied, and goes another time.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from protocol.errors import KafkaError
from storage.files import is_transient
from storage.log.unified_log import UnifiedLog
from storage.segments.segment import LogSegment

logger = structlog.get_logger(__name__)

Breaches = Callable[[LogSegment, LogSegment | None], bool]
"""(segment, the one after it) -> whether the segment is removed."""


def apply_retention(log: UnifiedLog, high_watermark: int) -> None:
    """Apply `delete_old_segments` to one log of many; a failure is logged, as the others must not suffer from it."""
    try:
        delete_old_segments(log, high_watermark)
    except KafkaError as error:
        logger.error("retention failed", partition=log.name, error=str(error))
    except Exception:
        logger.exception("retention failed", partition=log.name)


def delete_old_segments(log: UnifiedLog, high_watermark: int) -> int:
    """Remove what `retention.ms`, `retention.bytes` and the log's start demand; return the number of segments removed.

    Segments go from the oldest on, never past the high watermark. The active one goes too if all its records have
    expired, and an empty one takes its place. A log without the `delete` policy loses only what is below its start.
    Raises KafkaStorage.
    """
    if log.is_offline:
        return 0
    removed = _remove(log, high_watermark, lambda _, following: _is_below_start(log, following), "log start offset")
    config = log.config
    if config.copies_to_remote:
        removed += _remove(log, high_watermark, _over_size(log, config.kept_here_bytes), "local.retention.bytes")
        removed += _remove(log, high_watermark, _over_age(log, config.kept_here_ms), "local.retention.ms")
    elif config.delete:
        removed += _remove(log, high_watermark, _over_size(log, config.retention_bytes), "retention.bytes")
        removed += _remove(log, high_watermark, _over_age(log, config.retention_ms), "retention.ms")
    return removed


def _is_below_start(log: UnifiedLog, following: LogSegment | None) -> bool:
    return following is not None and following.base_offset <= log.log_start_offset


def _over_size(log: UnifiedLog, limit: int) -> Breaches:
    excess = log.size - limit if limit >= 0 else -1

    def breaches(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return breaches


def _over_age(log: UnifiedLog, limit: int) -> Breaches:
    now_ms = log.services.clock.wall_ms()
    return lambda segment, _: limit >= 0 and now_ms - segment.largest_timestamp > limit


def _remove(log: UnifiedLog, high_watermark: int, breaches: Breaches, reason: str) -> int:
    try:
        doomed = _doomed(log, high_watermark, breaches)
        if log.config.copies_to_remote:
            doomed = _copied(log, doomed)
        elif doomed and len(doomed) == len(log.segments) and not _rolled(log):
            doomed.pop()
        if not doomed:
            return 0
    except OSError as error:
        raise log.failure(error) from error
    following = log.segments.higher(doomed[-1].base_offset)
    if following is None:
        raise AssertionError("the active segment was rolled")
    if not log.config.copies_to_remote:
        log.increment_log_start_offset(following.base_offset)
    snapshots = [log.producers.snapshots.forget(segment.base_offset) for segment in doomed]
    # First: as long as a crash may bring the segments back, checkpoints must have the log's start.
    log.removal.remove(doomed, [path for path in snapshots if path is not None], log.config.file_delete_delay_ms)
    for segment in doomed:
        log.segments.remove(segment)
    logger.info(
        "removing segments",
        partition=log.name,
        segments=len(doomed),
        log_start_offset=log.log_start_offset,
        reason=reason,
    )
    return len(doomed)


def _copied(log: UnifiedLog, doomed: list[LogSegment]) -> list[LogSegment]:
    """Of segments that breach a limit, those that are in remote storage, or below the log's start. Raises OSError.

    If the active one is among them, it is rolled. The first segment that stays has a snapshot of the producers, or
    those before it stay, too: recovery must know of a transaction that began in what is no longer here.
    """
    gone, safe = [], 0
    for segment in doomed:
        following = log.segments.higher(segment.base_offset)
        if following is None:
            _rolled(log)
            break
        if following.base_offset - 1 > log.tier.highest_offset and following.base_offset > log.log_start_offset:
            break
        gone.append(segment)
        if following.base_offset in log.producers.snapshots.offsets:
            safe = len(gone)
    return gone[:safe]


def _rolled(log: UnifiedLog) -> bool:
    """Roll; return False if there is no room for a new segment: removing the others makes some. Raises OSError."""
    try:
        log.roll()
    except OSError as error:
        if not is_transient(error):
            raise
        log.services.note_shortage(log.folder, error)
        return False
    return True


def _doomed(log: UnifiedLog, high_watermark: int, breaches: Breaches) -> list[LogSegment]:
    """The oldest segments, as long as they breach; never an empty active one (UnifiedLog.deletableSegments)."""
    found = []
    segments = list(log.segments)
    for position, segment in enumerate(segments):
        following = segments[position + 1] if position + 1 < len(segments) else None
        end = log.log_end_offset if following is None else following.base_offset
        if (following is None and not segment.size) or high_watermark < end or not breaches(segment, following):
            break
        found.append(segment)
    return found
