"""What an interrupted compaction, deletion or start left in a log's folder; dealt with before the log is opened."""

from __future__ import annotations

import re

import structlog

from storage.files import FileSystem
from storage.log.segment_recovery import whole_batches
from storage.segments.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    file_name,
)

logger = structlog.get_logger(__name__)

_BASE_OFFSET = re.compile(r"[0-9]{20}\.")


def finish_swaps(fs: FileSystem, folder: str) -> None:
    """Undo or finish what an interrupted compaction or deletion left (LogLoader.removeTempFilesAndCollectSwapFiles).

    Blocking; raises OSError.
    """
    names = fs.listdir(folder)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX) and _BASE_OFFSET.match(name)]
    oldest_cleaned = min((int(name[:20]) for name in cleaned), default=None)
    swaps = []
    for name in names:
        is_swap = name.endswith(SWAP_SUFFIX) and _BASE_OFFSET.match(name)
        stale_swap = is_swap and oldest_cleaned is not None and int(name[:20]) >= oldest_cleaned
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")) or stale_swap:
            fs.unlink(f"{folder}/{name}")
        elif is_swap:
            swaps.append(name)
    if not swaps:
        return
    logs = sorted(int(name[:20]) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    if logs:
        end = _swap_end(fs, folder, logs[-1])
        for name in names:
            if _BASE_OFFSET.match(name) and name.endswith(SEGMENT_SUFFIXES) and logs[0] <= int(name[:20]) < end:
                fs.unlink(f"{folder}/{name}")
    # The log first: its new name says that the old segments are gone.
    for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        logger.info("finishing an interrupted swap", folder=folder, file=name)
        fs.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
    fs.fsync_dir(folder)


def _swap_end(fs: FileSystem, folder: str, base_offset: int) -> int:
    """The offset after the last batch of a `.log.swap` file; the one after its base offset if it is empty."""
    path = f"{folder}/{file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
    file = fs.open(path)
    try:
        end = base_offset + 1
        for _, header, _ in whole_batches(file, 0, file.size()):
            end = header.next_offset
        return end
    finally:
        file.close()


def segment_offsets(fs: FileSystem, folder: str) -> list[int]:
    """Base offsets of the segments, ascending; index files without a log are removed."""
    offsets, others = [], []
    for name in fs.listdir(folder):
        if _BASE_OFFSET.match(name):
            if name[20:] == LOG_SUFFIX:
                offsets.append(int(name[:20]))
            elif name[20:] in SEGMENT_SUFFIXES:
                others.append(name)
    present = set(offsets)
    for name in others:
        if int(name[:20]) not in present:
            logger.warning("removing an index without a log", folder=folder, file=name)
            fs.unlink(f"{folder}/{name}")
    return sorted(offsets)
