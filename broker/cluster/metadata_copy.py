"""This node's own copy of the cluster's metadata: snapshots in `__cluster_metadata-0`, so that a restart is quick.

A copy is a snapshot in Kafka's format (KIP-630): one that a controller has sent, or one that is made of the image from
time to time and at a clean stop. Both have committed records only, so nothing in the folder is ever taken back. What
came after the newest one is fetched again. There is no log in the folder: an observer votes on nothing, so nobody
relies on what it has on its disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from controller.quorum import snapshots
from controller.quorum.errors import MetadataLogError
from controller.quorum.opening import MetadataLogConfig
from controller.quorum.snapshots import BOOTSTRAP, SnapshotId, list_snapshots
from controller.quorum.survey import FOLDER_NAME
from metadata.image import EMPTY, MetadataImage
from metadata.loader import ImageLoader
from metadata.snapshot import records_of
from protocol.metadata.brokers import KRaftVersionRecord
from storage.files import write_file_atomically
from storage.log.log_services import LogServices

logger = structlog.get_logger(__name__)

KEPT_SNAPSHOTS = 2


@dataclass(frozen=True, slots=True)
class Copied:
    """An image read from a snapshot, and the control records of the quorum that the snapshot has."""

    image: MetadataImage = EMPTY
    quorum_records: tuple[Any, ...] = ()


class MetadataCopy:
    """The snapshots in a folder of `log.dirs`.

    Attributes:
        before_snapshot: makes durable, off the loop, what a snapshot makes this node forget: that topics were deleted.
    """

    def __init__(self, services: LogServices, root: str, config: MetadataLogConfig | None = None) -> None:
        self.before_snapshot: Callable[[], None] = lambda: None
        self._services = replace(services, workers=services.workers.lane("metadata"))
        self._folder = f"{root}/{FOLDER_NAME}"
        self._config = config or MetadataLogConfig()
        self._bytes_since = 0
        self._snapshot_bytes = 0
        self._saved_end = 0

    async def read(self) -> Copied:
        """The newest image that can be read; an empty one if there is none. Raises OSError."""
        copied = await self._services.workers.call(self._read_newest)
        self._saved_end = copied.image.offset + 1
        return copied

    def _read_newest(self) -> Copied:
        fs = self._services.fs
        if not fs.is_dir(self._folder):
            fs.mkdir(self._folder)
            fs.fsync_dir(self._folder.rpartition("/")[0])
        found, leftovers = list_snapshots(fs, self._folder)
        for name in leftovers:
            fs.unlink(f"{self._folder}/{name}")
        for snapshot in reversed(found):
            if snapshot == BOOTSTRAP:
                continue
            try:
                return self._load(snapshot)
            except MetadataLogError as error:
                logger.warning(
                    "copy of the metadata not read; an older one or none is",
                    error=error.message,
                    advice="none needed: the controllers have the rest",
                )
        return Copied()

    def _load(self, snapshot: SnapshotId) -> Copied:
        """Read a whole snapshot. Blocking; raises MetadataLogError, OSError."""
        fs, path = self._services.fs, f"{self._folder}/{snapshot.file_name}"
        facts = snapshots.check(fs, path)
        loader = ImageLoader()
        for batch in snapshots.read(fs, path, snapshot, facts.snapshot_timestamp):
            loader.load(batch.records)
        loader.publish(snapshot.offset - 1, snapshot.epoch, facts.snapshot_timestamp)
        self._snapshot_bytes = fs.size(path)
        quorum: tuple[Any, ...] = ()
        if facts.kraft_version and facts.voters is not None:
            quorum = KRaftVersionRecord(version=0, k_raft_version=facts.kraft_version), facts.voters
        return Copied(loader.image, quorum)

    async def adopt(self, snapshot: SnapshotId, data: bytes) -> Copied:
        """Keep a snapshot that a controller has sent, and return its image. Raises MetadataLogError, OSError."""
        copied = await self._services.workers.call(partial(self._adopt, snapshot, data))
        self._bytes_since, self._saved_end = 0, snapshot.offset
        return copied

    def _adopt(self, snapshot: SnapshotId, data: bytes) -> Copied:
        self.before_snapshot()
        path = f"{self._folder}/{snapshot.file_name}"
        write_file_atomically(self._services.fs, path, data)
        try:
            copied = self._load(snapshot)
        except MetadataLogError:
            self._services.fs.unlink(path)
            raise
        self._remove_old()
        return copied

    def grown(self, by_bytes: int) -> bool:
        """Note how much was applied since the last snapshot; return whether it is time for another."""
        self._bytes_since += by_bytes
        return self._bytes_since > self._config.bytes_between_snapshots(self._snapshot_bytes)

    async def save(self, image: MetadataImage, quorum_records: Sequence[Any]) -> None:
        """Write a snapshot of an image, if it is newer than the last one. Raises MetadataLogError, OSError."""
        end = image.offset + 1
        self._bytes_since = 0
        if end > self._saved_end:
            self._saved_end = end
            await self._services.workers.call(partial(self._write, image, quorum_records))

    def _write(self, image: MetadataImage, quorum_records: Sequence[Any]) -> None:
        self.before_snapshot()
        self._snapshot_bytes = snapshots.write(
            self._services.fs,
            self._folder,
            SnapshotId(image.offset + 1, image.epoch),
            records_of(image),
            timestamp=image.timestamp_ms,
            quorum=quorum_records,
            now_ms=self._services.clock.wall_ms,
        )
        self._remove_old()

    def _remove_old(self) -> None:
        found, _ = list_snapshots(self._services.fs, self._folder)
        doomed = found[:-KEPT_SNAPSHOTS]
        for snapshot in doomed:
            self._services.fs.unlink(f"{self._folder}/{snapshot.file_name}")
        if doomed:
            self._services.fs.fsync_dir(self._folder)
