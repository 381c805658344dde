"""Offsets by partition in the text format of Kafka's OffsetCheckpointFile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from protocol.topic_partition import TopicPartition
from storage.checkpoint_file import CorruptCheckpointError, read_checkpoint, write_checkpoint
from storage.files import FileSystem

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
