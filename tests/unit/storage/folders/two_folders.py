"""A node's logs in two folders, one of which may fail."""

from __future__ import annotations

import errno
import random
from uuid import UUID

from protocol.topic_partition import TopicPartition
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.folders.strays import FolderState
from storage.log.log_services import LogServices
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from tests.unit.storage.support import TOPIC_ID, Rig, append


class TwoFolders(Rig):
    """Of four partitions those with an odd number are in /two. `refuse` makes an operation on a path fail."""

    topic_id: UUID | None = TOPIC_ID

    def open(self) -> LogManager:
        self.services = LogServices(
            self.fs, self.clock, self.workers, random.Random(0), Shortages(self.clock.monotonic_ms)
        )
        paths = ["/one", "/two"]
        self.dirs = LogDirs.open(self.fs, paths, node_id=1, new_id=self.new_id, now_ms=self.clock.wall_ms())
        return LogManager.open(
            self.services,
            self.dirs,
            lambda _: self.config,
            new_id=self.new_id,
            topic_id_of=lambda _: self.topic_id,
            folder_state_of=self.folder_state,
        )

    def folder_state(self, _: TopicPartition, topic_id: UUID | None, _closed_in: int) -> FolderState:
        hosted = self.topic_id is not None and topic_id in (self.topic_id, None)
        return FolderState.HOSTED if hosted else FolderState.DELETED

    def fill(self) -> None:
        for index in range(4):
            append(self.log("t", index))
        assert [folder_of(self.log("t", index)) for index in range(4)] == ["/one", "/two"] * 2

    def stop(self) -> None:
        self.manager.close()

    def refuse(self, operation: str, path: str, error: int = errno.EIO) -> None:
        def hook(asked: str, where: str) -> None:
            if asked == operation and where.startswith(path):
                raise OSError(error, "refused")

        self.files.hook = hook

    def heal(self) -> None:
        self.files.hook = None

    def start(self) -> None:
        self.manager = self.open()

    def absent(self, index: int) -> UnifiedLog:
        log = self.manager.absent_log("t", index, TOPIC_ID, self.config)
        assert log is not None
        return log


def folder_of(log: UnifiedLog) -> str:
    return log.folder.rpartition("/")[0]
