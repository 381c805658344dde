"""Which part of a log may be compacted, and how urgently (Kafka's LogCleanerManager)."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from storage.cleaner.slices import Steps
from storage.files import FileSystem
from storage.log.unified_log import UnifiedLog
from storage.segments.index import MAX_RELATIVE_OFFSET
from storage.segments.segment import LogSegment

logger = structlog.get_logger(__name__)

_UNBOUNDED_LAG_MS = 2**62


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log with a dirty part: offsets from `first_dirty` up to `first_uncleanable`, which is a segment's base."""

    log: UnifiedLog
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of the log's bytes; 0 for an empty log."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether to clean it now: dirty enough, or records are older than `max.compaction.lag.ms`."""
        return (self.overdue and self.dirty_bytes > 0) or self.ratio > self.log.config.min_cleanable_dirty_ratio


def examine(log: UnifiedLog, cleaned_to: int | None, last_stable_offset: int, now_ms: int) -> LogToClean:
    """Measure a log that was cleaned up to the offset `cleaned_to` (None: never). Raises OSError."""
    start = log.log_start_offset
    first_dirty = start if cleaned_to is None else cleaned_to
    if not start <= first_dirty <= log.log_end_offset:
        if first_dirty > start or not log.config.delete:
            logger.warning("cleaning starts over", partition=log.name, cleaned_to=first_dirty)
        first_dirty = start
    sealed = _sealed_from(log, first_dirty)
    uncleanable = min(last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = next(
            (segment.base_offset for segment in sealed if segment.largest_timestamp > now_ms - lag_ms), uncleanable
        )
        uncleanable = min(uncleanable, young)
    uncleanable = max(uncleanable, first_dirty)
    first_uncleanable = next(iter(_sealed_from(log, uncleanable)), log.segments.active).base_offset
    dirty_from = min(first_dirty, first_uncleanable)
    return LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        clean_bytes=sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        dirty_bytes=sum(segment.size for segment in segments_between(log, dirty_from, first_uncleanable)),
        overdue=_is_overdue(log, sealed, now_ms),
    )


def _sealed_from(log: UnifiedLog, offset: int) -> list[LogSegment]:
    """The sealed segments from the one that holds `offset` on."""
    active = log.segments.active
    return (
        []
        if active.base_offset < offset
        else [segment for segment in log.segments.from_offset(offset) if segment is not active]
    )


def segments_between(log: UnifiedLog, start: int, end: int) -> list[LogSegment]:
    """The segments with offsets in [start, end), the one that holds `start` first (Kafka's LogSegments.values)."""
    return [] if start == end else [segment for segment in log.segments.from_offset(start) if segment.base_offset < end]


def _is_overdue(log: UnifiedLog, dirty: list[LogSegment], now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= _UNBOUNDED_LAG_MS:
        return False
    times = [time for segment in dirty if (time := segment.first_batch_timestamp()) > 0]
    return bool(times) and min(times) < now_ms - lag_ms


def group_by_size(
    fs: FileSystem, segments: list[LogSegment], max_bytes: int, max_index_bytes: int, end: int
) -> Steps[list[list[LogSegment]]]:
    """Groups of neighbours that fit into one segment (Kafka's Cleaner.groupSegmentsBySize). Raises OSError."""
    groups: list[list[LogSegment]] = []
    sizes = [0, 0, 0]
    for position, segment in enumerate(segments):
        yield 0
        own = [segment.size, fs.size(segment.offset_index.path), fs.size(segment.time_index.path)]
        total = [a + b for a, b in zip(sizes, own, strict=True)]
        following = segments[position + 1].base_offset if position + 1 < len(segments) else end
        fits = (
            bool(groups)
            and total[0] <= max_bytes
            and max(total[1:]) <= max_index_bytes
            and (not segment.size or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if fits:
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = own
    return groups
