"""Whether the folders of `log.dirs` are still those that were opened, with the files of the logs in them.

Open files go on working when their names are gone: writes succeed, and all is lost when they are closed. So somebody
has to look at the names: after `rm -rf`, a rename, an unmount, or a restore over a running broker.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping

from protocol.topic_partition import TopicPartition
from storage.files import FileSystem, write_fully
from storage.folders.log_dirs import LogDir
from storage.log.unified_log import UnifiedLog

IDLE_LOGS_AT_ONCE = 200
"""Logs without new records that one check looks at; those with new ones it looks at always."""

PROBE = ".space-check.tmp"
PROBE_BYTES = 4096


class FolderWatch:
    """Looks after one folder. A check may block and runs in any thread, but only one at a time.

    A log whose files seem gone is only reported when the next check finds the same: it may just be deleted or moved.
    """

    def __init__(self, fs: FileSystem, log_dir: LogDir) -> None:
        self.log_dir = log_dir
        self._fs = fs
        self._ends: dict[TopicPartition, int] = {}
        self._suspects: set[str] = set()
        self._next_idle = 0

    def check_folder(self) -> None:
        """Raises OSError, a device failure, if the folder or its lock file is gone or is another."""
        self.log_dir.require_unchanged(self._fs)

    def check_logs(
        self, logs: Mapping[TopicPartition, UnifiedLog], others: Iterable[UnifiedLog] = ()
    ) -> list[tuple[UnifiedLog, OSError]]:
        """The logs of the folder whose files are gone or replaced, as two checks in a row have found.

        `others` are logs of no partition that anybody uses.
        """
        prefix = f"{self.log_dir.path}/"
        named = [*list(logs.items()), *((TopicPartition(log.topic, log.partition), log) for log in others)]
        ours = [(key, log) for key, log in named if log.folder.startswith(prefix) and not log.is_offline]
        found = [(log, self._missing(log)) for log in self._chosen(ours)]
        missing = [(log, error) for log, error in found if error is not None]
        confirmed = [(log, error) for log, error in missing if log.folder in self._suspects]
        self._suspects = {log.folder for log, _ in missing}
        return confirmed

    def _chosen(self, ours: Iterable[tuple[TopicPartition, UnifiedLog]]) -> list[UnifiedLog]:
        """The logs to check now: suspects, logs with new records, and some of the others in turn."""
        chosen: list[UnifiedLog] = []
        idle: list[UnifiedLog] = []
        ends: dict[TopicPartition, int] = {}
        for key, log in ours:
            ends[key] = log.log_end_offset
            is_new = self._ends.get(key) != ends[key] or log.folder in self._suspects
            (chosen if is_new else idle).append(log)
        self._ends = ends
        if self._next_idle >= len(idle):
            self._next_idle = 0
        turn = idle[self._next_idle : self._next_idle + IDLE_LOGS_AT_ONCE]
        self._next_idle += len(turn)
        return chosen + turn

    def _missing(self, log: UnifiedLog) -> OSError | None:
        """Return what is wrong with the file that the log appends to."""
        file = log.segments.active.file
        try:
            if file.is_same_as(self._fs.identity(file.path)):
                return None
        except FileNotFoundError:
            return OSError(errno.ENOENT, f"{file.path} is gone, though the broker is using it")
        except OSError as error:
            return error
        return OSError(errno.ENOENT, f"{file.path} is not the file that the broker opened")

    def has_room(self) -> bool:
        """Whether a small file can be made, written and synced; leaves nothing behind."""
        path = f"{self.log_dir.path}/{PROBE}"
        try:
            file = self._fs.open(path, create=True)
            try:
                write_fully(file, bytes(PROBE_BYTES), 0)
                file.fdatasync()
            finally:
                file.close()
                self._fs.unlink(path)
        except OSError:
            return False
        return True
