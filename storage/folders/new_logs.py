"""Which folder of `log.dirs` a new log lies in (Kafka's `LogManager.nextLogDirs` and `preferredLogDirs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from protocol import uuids
from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.folders.log_dirs import LogDir, LogDirs

MOST_PREFERENCES = 10_000
"""The most partitions whose preferred folder is remembered; beyond that the oldest are forgotten (Kafka keeps all)."""


class LogPlacement:
    """The folders of existing and new logs. `folders`: by partition, the path of the folder of `log.dirs` it is in."""

    def __init__(self, dirs: LogDirs) -> None:
        self.folders: dict[TopicPartition, str] = {}
        self._dirs = dirs
        self._taken = Counter[str]()  # logs by folder
        self._preferred: dict[TopicPartition, LogDir] = {}

    def prefer(self, key: TopicPartition, log_dir: LogDir) -> None:
        """Let a partition that is created later go to `log_dir` (KIP-113)."""
        self._preferred.pop(key, None)
        if len(self._preferred) >= MOST_PREFERENCES:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = log_dir

    def choose(self, key: TopicPartition, assigned: UUID | None = None) -> LogDir:
        """The folder of a new log: the preferred one, else the one whose id the controller has `assigned`.

        If that is none of these folders: the one with the fewest logs that is not cordoned. Raises KafkaStorage.
        """
        usable = [log_dir for log_dir in self._dirs.dirs if not log_dir.failed]
        if not usable:
            raise KafkaStorage("Every log directory has failed.")
        preferred = self._preferred.get(key)
        if preferred is not None and not preferred.failed:
            return preferred
        if assigned is not None:
            directory_id = uuids.to_text(assigned)
            for log_dir in usable:
                if log_dir.directory_id == directory_id:
                    return log_dir
        usable = [log_dir for log_dir in usable if not log_dir.cordoned] or usable
        return min(usable, key=lambda log_dir: self._taken[log_dir.path])

    def created(self, key: TopicPartition) -> None:
        """Forget what was preferred for a log that exists now: it has been followed, or came too late."""
        self._preferred.pop(key, None)

    def place(self, key: TopicPartition, path: str) -> None:
        """Note that the log lies in that folder."""
        self.folders[key] = path
        self._taken[path] += 1

    def leave(self, key: TopicPartition) -> str:
        """Note that the log is gone from its folder; return the folder."""
        path = self.folders.pop(key)
        self._taken[path] -= 1
        return path


class LogsNotMadeError(KafkaStorage):
    """New logs cannot be made because of `cause`, an error of `log_dir`."""

    def __init__(self, log_dir: LogDir, cause: OSError) -> None:
        super().__init__(f"Cannot create logs in {log_dir.path}: {cause}")
        self.log_dir = log_dir
        self.cause = cause


@contextmanager
def making(log_dir: LogDir) -> Iterator[None]:
    """Raises LogsNotMadeError for an OSError within."""
    try:
        yield
    except OSError as error:
        raise LogsNotMadeError(log_dir, error) from error
