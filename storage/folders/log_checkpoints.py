"""The checkpoint files of every log folder: the offsets that loading starts from, and the high watermarks.

They have offsets by partition in the text format of Kafka's `OffsetCheckpointFile`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from protocol.topic_partition import TopicPartition
from storage import damage
from storage.checkpoint_file import CorruptCheckpointError, read_checkpoint, write_checkpoint
from storage.files import FileSystem
from storage.folders.log_dirs import LogDir, LogDirs
from storage.log.unified_log import UnifiedLog

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"


def offset_lines(offsets: Mapping[TopicPartition, int]) -> list[str]:
    """The lines of a file."""
    return [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]


class OffsetCheckpoint:
    """One checkpoint file: one `topic partition offset` per line.

    `require_folder` raises OSError if the folder is no longer the one that was opened: nothing is written then.
    """

    def __init__(
        self, fs: FileSystem, folder: str, name: str, require_folder: Callable[[], None] = lambda: None
    ) -> None:
        self._fs = fs
        self._require_folder = require_folder
        self._path = f"{folder}/{name}"
        self._lock = threading.Lock()
        self._choosing = threading.Lock()
        self._written: dict[TopicPartition, int] | None = None
        self._possible: Mapping[TopicPartition, int] = {}
        self._coming: dict[TopicPartition, int] = {}

    def read(self) -> dict[TopicPartition, int]:
        """All offsets; none if the file is missing. Raises CorruptCheckpointError, OSError."""
        offsets = self._read()
        self._written = self._possible = dict(offsets)
        return offsets

    def _read(self) -> dict[TopicPartition, int]:
        lines = read_checkpoint(self._fs, self._path) or ()
        offsets = {}
        try:
            for line in lines:
                topic, partition, offset = line.split(" ")
                offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpointError(f"{self._path}: {error}") from error
        return offsets

    def __contains__(self, partition: TopicPartition) -> bool:
        """Whether the file may list the partition: as this object last read or wrote it, or is writing it now."""
        with self._choosing:
            return partition in self._coming or partition in self._possible

    def write(self, offsets: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Replace the file with what `offsets` returns at its turn, so that the last of two writers writes the newest.

        What this object wrote last is not written again, unless that write failed. Raises OSError.
        """
        with self._lock:
            with self._choosing:
                self._coming = entries = dict(offsets())
            if entries == self._written:
                return
            self._require_folder()
            try:
                write_checkpoint(self._fs, self._path, offset_lines(entries))
            except OSError:  # it may be the old file or the new one
                self._written, self._possible = None, {**self._possible, **entries}
                raise
            self._written = self._possible = entries


logger = structlog.get_logger(__name__)

OffsetOf = Callable[[UnifiedLog], int | None]
"""The offset of a log that a checkpoint has; None if it does not list the log."""


class CheckpointError(OSError):
    """Checkpoints of the folders in `failures` could not be written, others were; `errno` is the first failure's."""

    def __init__(self, failures: list[tuple[LogDir, OSError]]) -> None:
        log_dir, first = failures[0]
        super().__init__(first.errno, f"checkpoint of {log_dir.path} not written: {first.strerror or first}")
        self.failures = failures


class LogCheckpoints:
    """`logs` are the open logs, `root` returns each log's folder, `moving` the target folder of a log being moved.

    Failed folders are left alone.
    """

    def __init__(
        self,
        fs: FileSystem,
        dirs: LogDirs,
        logs: dict[TopicPartition, UnifiedLog],
        root: Mapping[TopicPartition, str],
        moving: Mapping[TopicPartition, str],
    ) -> None:
        self._dirs = dirs
        self._logs = logs
        self._root = root
        self._moving = moving
        self._files = {
            (log_dir.path, name): OffsetCheckpoint(fs, log_dir.path, name, partial(log_dir.require_unchanged, fs))
            for log_dir in dirs.dirs
            for name in _OFFSETS
        }

    def read(self, log_dir: LogDir, name: str) -> dict[TopicPartition, int]:
        """All offsets; none from an unreadable file. Raises OSError."""
        try:
            return self._files[log_dir.path, name].read()
        except CorruptCheckpointError as error:
            damage.repaired(f"{log_dir.path}/{name}", error, "left aside: the logs themselves are read instead")
            return {}

    def write_all(self, name: str, *, folder: str | None = None) -> None:
        """Write one kind of checkpoint for every folder, or the one named; blocking, any thread.

        Raises CheckpointError, having tried all.
        """
        failures: list[tuple[LogDir, OSError]] = []
        for log_dir in self._dirs.dirs:
            if not log_dir.failed and folder in (None, log_dir.path):
                try:
                    self._write(log_dir, name, _OFFSETS[name])
                except OSError as error:
                    failures.append((log_dir, error))
        if failures:
            raise CheckpointError(failures)

    def write_truncated(self, log_dir: LogDir) -> None:
        """Write what recovery must know of a log of the folder that is cut or compacted next. Raises OSError."""
        for name in (RECOVERY_POINT, LOG_START, CLEANER):
            self._write(log_dir, name, _OFFSETS[name])

    def write_folder(self, log_dir: LogDir) -> None:
        """Write the checkpoints that loading one folder reads. Raises OSError."""
        for name, offset_of in _OFFSETS.items():
            self._write(log_dir, name, offset_of)

    def forget_predecessor(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Remove a deleted partition of that name from the checkpoints, so that loading never uses its offsets."""
        for name, offset_of in _OFFSETS.items():
            if key in self._files[log_dir.path, name]:
                self._write(log_dir, name, offset_of)

    def _write(self, log_dir: LogDir, name: str, offset_of: OffsetOf) -> None:
        path = log_dir.path

        def offsets() -> dict[TopicPartition, int]:
            logs = self._logs.copy()  # in one step, while the loop goes on
            here = {key: log for key, log in logs.items() if path in (self._root.get(key), self._moving.get(key))}
            return offsets_of(here, offset_of)

        self._files[path, name].write(offsets)


def offsets_of(logs: Mapping[TopicPartition, UnifiedLog], offset_of: OffsetOf) -> dict[TopicPartition, int]:
    """The offsets that a checkpoint of these logs is to have."""
    known = [(key, offset_of(log)) for key, log in logs.items()]
    return {key: offset for key, offset in known if offset is not None}


def _recovery_point(log: UnifiedLog) -> int:
    return log.flushed.offset


def _high_watermark(log: UnifiedLog) -> int:
    return log.high_watermark


def cleaned_to(log: UnifiedLog) -> int | None:
    """How far the log is compacted, or None if it never was."""
    return log.cleaned_to


def start_to_save(log: UnifiedLog) -> int | None:
    """The start, if the first segment's name does not tell (LogManager.checkpointLogStartOffsetsInDir), or None."""
    unsaid = log.removal.unsynced or log.config.remote_storage
    if unsaid or log.log_start_offset > log.segments.first.base_offset:
        return log.log_start_offset
    return None


_OFFSETS: dict[str, OffsetOf] = {
    RECOVERY_POINT: _recovery_point,
    LOG_START: start_to_save,
    CLEANER: cleaned_to,
    REPLICATION: _high_watermark,
}
"""What the checkpoints that a load reads say of a log."""
