"""From a partition's folder to an open log (Kafka's LogLoader).

Segments below the log's start are removed first. After a clean stop only the end of the last segment is scanned. After
any other stop every segment from the recovery point on is read, cut at the first bad batch and reindexed; whatever
follows a cut there, or a gap that only lost writes can explain, is removed. A damaged segment before that costs no
other its records. All that an opened log holds has been synced: its recovery point is its end.

How it works: `load` goes from what is certain to what is not. Leftovers of removals and swaps are removed or finished.
Segments are opened in order; each whose indexes are missing or contradict it gets new ones. From the recovery point on,
batches are read and checked, and the first bad one cuts the log. Leader epochs and producer snapshots past the end are
dropped, and the producers are rebuilt from the newest snapshot and the batches behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from protocol.topic_partition import EpochEntry
from storage import damage
from storage.append_types import LogConfig
from storage.checkpoint_file import CorruptCheckpointError
from storage.files import FileSystem
from storage.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log_segments import LogSegments
from storage.log.segment_recovery import SegmentRecovery, finish_swaps, recover_segment, segment_offsets, whole_batches
from storage.producers.producer_state import ProducerStateManager
from storage.segments.index import CorruptIndexError
from storage.segments.segment import LogSegment
from storage.segments.txn_index import CorruptTxnIndexError

logger = structlog.get_logger(__name__)

UNBOUNDED = 2**63 - 1


@dataclass(slots=True)
class LoadedState:
    """The content found in a folder, for `UnifiedLog` to take over. Offsets are absolute."""

    segments: LogSegments
    producers: ProducerStateManager
    leader_epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """How to open one folder. Times are milliseconds; `jitter_ms` gives each segment's roll jitter.

    `note_recovered` is called for each segment that was scanned, with the bytes that were cut off.
    """

    fs: FileSystem
    folder: str
    name: str
    config: LogConfig
    clean: bool
    recovery_point: int
    log_start_offset: int
    cleaned_to: int | None
    now_ms: int
    jitter_ms: Callable[[], int]
    producers: ProducerStateManager
    note_recovered: Callable[[int], None] = lambda _truncated_bytes: None


def load(request: LoadRequest) -> LoadedState:
    """Open the log in a folder, and recover it if necessary. Blocking; raises OSError."""
    fs, folder = request.fs, request.folder
    finish_swaps(fs, folder)
    if request.config.remote_storage:
        request = _without_half_built(request)
    epochs, request = _leader_epochs(request)
    segments = [
        LogSegment.open(fs, folder, base_offset, request.config, jitter_ms=request.jitter_ms())
        for base_offset in segment_offsets(fs, folder)
    ]
    _remove_below_start(segments, request)
    log_end_offset = _find_end(segments, request, epochs)
    if segments and log_end_offset < request.log_start_offset:
        logger.warning(
            "log ends before its start offset: starting an empty one",
            partition=request.name,
            log_end_offset=log_end_offset,
            log_start_offset=request.log_start_offset,
        )
        _remove(fs, folder, segments)
        segments = []
        log_end_offset = request.log_start_offset
        epochs.clear()
    if not segments:
        segments = [_empty(request, log_end_offset)]
    log_start_offset = request.log_start_offset  # of a tiered log, what comes before its first segment is elsewhere
    if not request.config.remote_storage:
        log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    is_recalled = not request.clean and _recall_epochs(segments, log_start_offset, log_end_offset, epochs)
    if epochs.truncate_from_start(log_start_offset) or is_recalled:
        epochs.save()
    producers = request.producers
    producers.snapshots.delete_strays({segment.base_offset for segment in segments})
    rebuild_producers(producers, segments, log_start_offset, log_end_offset, request.now_ms)
    if not request.clean:
        fs.fsync_dir(folder)
    for segment in segments:
        segment.file.close()  # so that thousands of idle partitions hold no descriptor
    return LoadedState(LogSegments(segments), producers, epochs, log_start_offset, log_end_offset)


def _without_half_built(request: LoadRequest) -> LoadRequest:
    """Drop a log that a kill left between one content and another (`tier_marker`): the replica is an empty one."""
    from storage.log import tier_marker

    fs, folder = request.fs, request.folder
    if tier_marker.is_half_built(fs, folder):
        logger.warning("log dropped that was being built from remote storage", partition=request.name)
        segments = [
            LogSegment.open(fs, folder, base_offset, request.config, jitter_ms=0)
            for base_offset in segment_offsets(fs, folder)
        ]
        _remove(fs, folder, segments)
        for offset in request.producers.snapshots.offsets:
            request.producers.snapshots.delete(offset)
        if fs.exists(path := f"{folder}/{EPOCHS_FILE}"):
            fs.unlink(path)
        request = replace(request, log_start_offset=0, recovery_point=0, cleaned_to=None)
    tier_marker.unmark(fs, folder)
    return request


def _leader_epochs(request: LoadRequest) -> tuple[LeaderEpochs, LoadRequest]:
    """The epochs, and the request to go on with; if their file is damaged, that is for a scan of the whole log."""
    fs, folder = request.fs, request.folder
    try:
        return LeaderEpochs(fs, folder), request
    except CorruptCheckpointError as error:
        damage.repaired(f"{folder}/{EPOCHS_FILE}", error, "made anew from the whole log", partition=request.name)
    fs.unlink(f"{folder}/{EPOCHS_FILE}")
    # A gap below the recovery point does not mean lost writes; after a clean stop nothing is lost at all.
    sure = UNBOUNDED if request.clean else request.recovery_point
    cleaned_to = max(request.cleaned_to or 0, sure)
    return LeaderEpochs(fs, folder), replace(request, clean=False, recovery_point=0, cleaned_to=cleaned_to)


def _remove_below_start(segments: list[LogSegment], request: LoadRequest) -> None:
    """Finish a removal that the stop interrupted.

    Such segments are no longer synced. What a power failure did to them must not cost the segments after them.
    """
    count = sum(following.base_offset <= request.log_start_offset for following in segments[1:])
    if count:
        logger.info("removing segments below the log's start", partition=request.name, segments=count)
        _remove(request.fs, request.folder, segments[:count])
        del segments[:count]


def _find_end(segments: list[LogSegment], request: LoadRequest, epochs: LeaderEpochs) -> int:
    """The log's end after recovering the segments that cannot be trusted; those after a cut leave the list."""
    unflushed = _unflushed(segments, request)
    for position, segment in enumerate(segments[:unflushed]):
        try:
            segment.check_indexes()
        except (CorruptIndexError, CorruptTxnIndexError, FileNotFoundError) as error:
            damage.repaired(segment.file.path, error, "the segment is read, its indexes are made anew")
            _recover(segments, position, request, epochs)
    if unflushed < len(segments):
        return _scan(segments, unflushed, request, epochs)
    return segments[-1].next_offset() if segments else request.log_start_offset


def _recall_epochs(
    segments: list[LogSegment], log_start_offset: int, log_end_offset: int, epochs: LeaderEpochs
) -> bool:
    """Read the leader epochs before the first known one from the records; whether there are any.

    Records that were removed by DeleteRecords are back if the stop came before the log's new start was checkpointed;
    the file of epochs may have been truncated by then. Without their epochs followers would not see where they differ.
    """
    known_from = epochs.entries[0].start_offset if epochs.entries else log_end_offset
    if known_from <= log_start_offset:
        return False
    found: list[EpochEntry] = []
    for segment in segments:
        if segment.base_offset >= known_from:
            break
        for _, header, _ in whole_batches(segment.file.open(), 0, segment.size):
            if header.base_offset >= known_from or header.leader_epoch < 0:  # older formats have no epochs
                break
            if not found or header.leader_epoch > found[-1].epoch:
                found.append(EpochEntry(header.leader_epoch, header.base_offset))
    epochs.recall(found)
    return bool(found)


def _empty(request: LoadRequest, base_offset: int) -> LogSegment:
    return LogSegment.create(
        request.fs, request.folder, base_offset, request.config, jitter_ms=request.jitter_ms(), now_ms=request.now_ms
    )


def _unflushed(segments: list[LogSegment], request: LoadRequest) -> int:
    """The list position of the first segment that may not be whole on the device; the list's length if all are."""
    if request.clean:
        return len(segments)
    return max(0, sum(segment.base_offset <= request.recovery_point for segment in segments) - 1)


def _recover(segments: list[LogSegment], position: int, request: LoadRequest, epochs: LeaderEpochs) -> None:
    """Recover a segment that was flushed; if it is damaged, only its own records are lost."""
    base_offset = segments[position].base_offset
    rebuild_producers(request.producers, segments[:position], request.log_start_offset, base_offset, request.now_ms)
    found = recover_segment(segments[position], request.producers, epochs)
    if found.truncated_bytes:
        damage.report(
            segments[position].file.path,
            _no_batch_at_the_end(segments[position], found),
            f"cut there: {found.truncated_bytes} bytes are gone",
        )


def _scan(segments: list[LogSegment], first: int, request: LoadRequest, epochs: LeaderEpochs) -> int:
    """Recover the segments from `first` on, and remove those after a cut from the list. Returns the log's end."""
    producers = request.producers
    rebuild_producers(
        producers, segments[:first], request.log_start_offset, segments[first].base_offset, request.now_ms
    )
    log_end_offset = segments[first].base_offset
    for position in range(first, len(segments)):
        segment = segments[position]
        # Compaction leaves gaps too, but no further than the checkpoints say.
        known = max(log_end_offset, request.recovery_point, request.cleaned_to or 0)
        if segment.base_offset > known:
            damage.report(
                segment.file.path,
                f"the segment before it ends at offset {log_end_offset}",
                "removed, with all segments after it",
                partition=request.name,
            )
            _remove(request.fs, request.folder, segments[position:])
            del segments[position:]
            break
        found = recover_segment(segment, producers, epochs)
        log_end_offset = found.next_offset
        producers.take_snapshot(log_end_offset)
        request.note_recovered(found.truncated_bytes)
        logger.debug(
            "segment recovered",
            partition=request.name,
            segment=segment.base_offset,
            log_end_offset=log_end_offset,
            truncated_bytes=found.truncated_bytes,
        )
        if found.truncated_bytes:
            damage.repaired(
                segment.file.path,
                _no_batch_at_the_end(segment, found),
                f"cut there: {found.truncated_bytes} bytes are gone",
                advice="after a power failure that is normal: only what was never flushed is lost",
            )
            _remove(request.fs, request.folder, segments[position + 1 :])
            del segments[position + 1 :]
            break
    return log_end_offset


def _no_batch_at_the_end(segment: LogSegment, recovery: SegmentRecovery) -> str:
    return f"no whole batch at position {segment.size}, where offset {recovery.next_offset} should be"


def rebuild_producers(
    producers: ProducerStateManager, segments: list[LogSegment], log_start_offset: int, end_offset: int, now_ms: int
) -> None:
    """Producer state as of `end_offset`: the latest snapshot plus the batches after it.

    The rule is UnifiedLog.rebuildProducerState's. Blocking; raises OSError.
    """
    start = producers.load(log_start_offset, end_offset, now_ms)
    for position, segment in enumerate(segments):
        following = segments[position + 1].base_offset if position + 1 < len(segments) else end_offset
        if following <= start or segment.base_offset >= end_offset:
            continue
        file = segment.file.open()
        found = segment.locate(start, file.pread) if start > segment.base_offset else (0, 0)
        if found is None:
            continue
        for _, header, batch in whole_batches(file, found[0], segment.size):
            if header.base_offset >= end_offset:
                break
            if header.last_offset >= start:
                producers.replay(header, batch)


def _remove(fs: FileSystem, folder: str, segments: list[LogSegment]) -> None:
    """Remove segments for good: below a start that no checkpoint has any more, no power failure may bring them back."""
    for segment in segments:
        segment.file.close()
        for path in segment.existing_files():
            fs.unlink(path)
    if segments:
        fs.fsync_dir(folder)
