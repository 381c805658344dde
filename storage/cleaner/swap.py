"""Replacing segments by the cleaned one made from them (Kafka's LocalLog.replaceSegments).

At whichever rename the machine stops, `storage.log.recovery` finds either all of the old segments or the whole new one:
the new files are `.cleaned` until they are on the device, and `.swap` until the old ones are out of the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from storage.log.unified_log import UnifiedLog
from storage.segments.segment import LogSegment
from storage.segments.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX


class CleaningAbortedError(Exception):
    """The log was deleted, or the node is stopping."""


def swap_files(
    log: UnifiedLog, cleaned: LogSegment, replaced: Sequence[LogSegment], snapshots: Sequence[str]
) -> tuple[LogSegment, list[str]]:
    """Rename everything; blocking. Returns the segment under its final name, and the files to remove.

    `snapshots` are the paths of the producer snapshots that belong to the old segments. Raises CleaningAbortedError if
    the log was deleted, and OSError, after which a second call goes on where this one stopped.
    """
    fs = log.services.fs
    if cleaned.file_suffix == CLEANED_SUFFIX:
        with undeleted(log):
            cleaned.change_suffix(SWAP_SUFFIX)
    sync_folder(log)
    with undeleted(log):
        doomed = log.removal.mark_deleted(replaced, snapshots)
        cleaned.change_suffix("")
    sync_folder(log)
    with undeleted(log):
        fresh = LogSegment.open(fs, log.folder, cleaned.base_offset, log.config, jitter_ms=cleaned.jitter_ms)
        fresh.check_indexes()
        return fresh, doomed


@contextmanager
def undeleted(log: UnifiedLog) -> Iterator[None]:
    """A context in which the log cannot be deleted, so its files may be touched. Raises CleaningAbortedError."""
    with log.removal.lock:
        if log.removal.is_stopped:
            raise CleaningAbortedError
        yield


def sync_folder(log: UnifiedLog) -> None:
    """Sync the names in the log's folder. Raises OSError, CleaningAbortedError if the folder is gone."""
    try:
        log.services.fs.fsync_dir(log.folder)
    except FileNotFoundError:
        if log.removal.is_stopped:
            raise CleaningAbortedError from None
        raise
