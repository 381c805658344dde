"""The checkpoint files of every log folder: the offsets that loading starts from, and the high watermarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from protocol.topic_partition import TopicPartition
from storage import damage
from storage.checkpoint_file import CorruptCheckpointError
from storage.files import FileSystem
from storage.folders.checkpoints import (
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    OffsetCheckpoint,
)
from storage.folders.log_dirs import LogDir, LogDirs
from storage.log.unified_log import UnifiedLog

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
        for name in (RECOVERY_POINT, CLEANER):
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
    if log.removal.unsynced or log.log_start_offset > log.segments.first.base_offset:
        return log.log_start_offset
    return None


_OFFSETS: dict[str, OffsetOf] = {
    RECOVERY_POINT: _recovery_point,
    LOG_START: start_to_save,
    CLEANER: cleaned_to,
    REPLICATION: _high_watermark,
}
"""What the checkpoints that a load reads say of a log."""
