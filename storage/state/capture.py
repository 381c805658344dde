"""One moment of all logs, without stopping anybody for long: links to the files now, copies of what grows later.

How it works. `capture` runs on the loop, between two requests, so it sees one moment of all partitions and of the
metadata. It links every file of every segment into a folder of its own beside them, and notes the sizes of those that
are still written to, and what only memory has: leader epochs, producers, checkpoints. A segment that is sealed and on
the device never changes, so its link is all that is needed. `finish` runs in a worker thread and replaces the links to
the others by copies of as many bytes as there were. The result looks like the folders after a clean shutdown.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.checkpoint_file import checkpoint_bytes
from storage.files import FileSystem, write_fully
from storage.folders import log_names, meta_properties, partition_metadata
from storage.folders.log_checkpoints import (
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    OffsetOf,
    cleaned_to,
    offset_lines,
    offsets_of,
    start_to_save,
)
from storage.folders.log_dirs import CLEAN_SHUTDOWN_FILE
from storage.folders.log_manager import LogManager
from storage.folders.strays import remove_folder
from storage.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from storage.log.leader_epochs import lines_of
from storage.log.unified_log import UnifiedLog
from storage.producers import snapshot_files as producer_snapshot
from storage.segments.segment import LogSegment
from storage.segments.segment_files import LOG_SUFFIX, SEGMENT_SUFFIXES, file_name

METADATA = TopicPartition("__cluster_metadata", 0)
UNFINISHED = TopicPartition("odradek-snapshot", 0)
"""The name of the folders with links: those of a process that was killed are removed as deleted logs are."""


def _end(log: UnifiedLog) -> int:
    return log.log_end_offset


_OFFSETS: dict[str, OffsetOf] = {
    RECOVERY_POINT: _end,
    LOG_START: start_to_save,
    CLEANER: cleaned_to,
    REPLICATION: _end,
}
"""What the checkpoints say of a log that was closed in good order."""


@dataclass(slots=True)
class FolderCapture:
    """The capture of one folder of `log.dirs`; names of files are relative to it.

    Attributes:
        root: the folder of `log.dirs`.
        staging: the folder in it that has the links.
        links: files that do not change any more.
        grown: files to be copied, with the bytes that they had.
        written: what is not in any file yet.
    """

    root: str
    staging: str
    links: list[str] = field(default_factory=list)
    grown: dict[str, int] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)


def capture(manager: LogManager, metadata_log: UnifiedLog, broker_epoch: int, unique: UUID) -> list[FolderCapture]:
    """Take the moment; on the loop. `discard` what is returned if it is not finished.

    Raises KafkaStorage if a log is offline or is being moved, OSError.
    """
    _require_whole(manager)
    fs = manager.services.fs
    name = log_names.delete_name(UNFINISHED, unique)
    taken = {log_dir.path: FolderCapture(log_dir.path, f"{log_dir.path}/{name}") for log_dir in manager.usable_dirs}
    try:
        for folder in taken.values():
            fs.mkdir(folder.staging)
            _Taking(fs, folder).folder_itself(broker_epoch)
        by_root: dict[str, dict[TopicPartition, UnifiedLog]] = {path: {} for path in taken}
        for key, log in manager.logs.items():
            by_root[manager.placement.folders[key]][key] = log
        for path, logs in by_root.items():
            taking = _Taking(fs, taken[path])
            for log in logs.values():
                taking.log(log)
            taking.checkpoints(logs)
        first = next(iter(taken.values()))
        _Taking(fs, first).metadata(metadata_log)
    except BaseException:
        discard(fs, list(taken.values()))
        raise
    return list(taken.values())


def _require_whole(manager: LogManager) -> None:
    offline = [str(key) for key, log in manager.logs.items() if log.is_offline]
    if offline or manager.failed_folders:
        what = ", ".join(offline[:5] or sorted(manager.failed_folders))
        raise KafkaStorage(f"There is no snapshot of what is offline: {what}")
    if manager.moving:
        raise KafkaStorage(f"There is no snapshot while {next(iter(manager.moving))} moves to another folder")


class _Taking:
    """Takes what belongs to one folder of `log.dirs`."""

    def __init__(self, fs: FileSystem, into: FolderCapture) -> None:
        self._fs = fs
        self._into = into

    def folder_itself(self, broker_epoch: int) -> None:
        self._link(meta_properties.FILE_NAME)
        clean = {"version": 0, "brokerEpoch": broker_epoch}
        self._into.written[CLEAN_SHUTDOWN_FILE] = json.dumps(clean, separators=(",", ":")).encode()

    def log(self, log: UnifiedLog) -> None:
        """Capture a partition's log. The lock keeps the cleaner from renaming its files meanwhile."""
        with log.removal.lock:
            log.segments.active.seal_if_touched()
            folder = log.folder.rpartition("/")[2]
            self._fs.mkdir(f"{self._into.staging}/{folder}")
            flushed = log.flushed.offset
            segments = list(log.segments)
            for at, segment in enumerate(segments):
                sealed = at + 1 < len(segments) and segments[at + 1].base_offset <= flushed
                self._segment(folder, segment, sealed=sealed)
        self._link(f"{folder}/{partition_metadata.FILE_NAME}")
        self._into.written[f"{folder}/{EPOCHS_FILE}"] = checkpoint_bytes(lines_of(log.leader_epochs.entries))
        if log.log_end_offset:
            rows = producer_snapshot.encode(log.producers.rows())
            self._into.written[f"{folder}/{producer_snapshot.file_name(log.log_end_offset)}"] = rows

    def _segment(self, folder: str, segment: LogSegment, *, sealed: bool) -> None:
        for suffix in SEGMENT_SUFFIXES:
            path = segment.path(suffix)  # with `.deleted` at its end, if the cleaner has just replaced it
            name = f"{folder}/{file_name(segment.base_offset, suffix)}"
            try:
                self._fs.link(path, f"{self._into.staging}/{name}")
            except FileNotFoundError:
                if suffix == LOG_SUFFIX:
                    raise
                continue  # no transaction was aborted
            if sealed:
                self._into.links.append(name)
            else:
                self._into.grown[name] = segment.size if suffix == LOG_SUFFIX else self._fs.size(path)

    def metadata(self, log: UnifiedLog) -> None:
        """Capture the metadata log, its snapshots, and the state of its quorum."""
        self.log(log)
        folder = log.folder.rpartition("/")[2]
        for name in self._fs.listdir(log.folder):
            if name.endswith(".checkpoint") or name == "quorum-state":
                with contextlib.suppress(FileNotFoundError):  # an old one, of which a newer one was written
                    self._link(f"{folder}/{name}")

    def checkpoints(self, logs: dict[TopicPartition, UnifiedLog]) -> None:
        for name, offset_of in _OFFSETS.items():
            self._into.written[name] = checkpoint_bytes(offset_lines(offsets_of(logs, offset_of)))

    def _link(self, name: str) -> None:
        self._fs.link(f"{self._into.root}/{name}", f"{self._into.staging}/{name}")
        self._into.links.append(name)


def finish(fs: FileSystem, captures: list[FolderCapture]) -> None:
    """Make the copies, and write what only memory had; blocking. Raises OSError."""
    for folder in captures:
        for name, size in folder.grown.items():
            path = f"{folder.staging}/{name}"
            fs.copy_file(path, f"{path}.copy", size)
            fs.rename(f"{path}.copy", path)
        for name, content in folder.written.items():
            write_new(fs, f"{folder.staging}/{name}", content)


def discard(fs: FileSystem, captures: list[FolderCapture]) -> None:
    """Remove what was taken; blocking. Raises OSError."""
    for folder in captures:
        if fs.exists(folder.staging):
            remove_folder(fs, folder.staging)


def write_new(fs: FileSystem, path: str, content: bytes) -> None:
    """Write a file that is not there yet, or was linked: never into what somebody else has. Raises OSError."""
    if fs.exists(path):
        fs.unlink(path)
    file = fs.open(path, create=True)
    try:
        write_fully(file, content, 0)
    finally:
        file.close()


def files_below(fs: FileSystem, path: str, prefix: str = "") -> Iterator[str]:
    """The names of all files below a folder, relative to it. Raises OSError."""
    for name in sorted(fs.listdir(f"{path}/{prefix}" if prefix else path)):
        below = f"{prefix}/{name}" if prefix else name
        if fs.is_dir(f"{path}/{below}"):
            yield from files_below(fs, path, below)
        else:
            yield below
