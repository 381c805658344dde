"""An observer's requests for the metadata log, and its copy of the controllers' answers.

It asks by Fetch and FetchSnapshot of `__cluster_metadata` (KIP-595). A leader also hands out records that the quorum
has not committed: `FetchedLog` keeps them until the high watermark passes them; if another leader says that its log
diverges, those that it does not have are dropped.

`MetadataCopy` is what a restart begins with: a snapshot in Kafka's format (KIP-630) in `__cluster_metadata-0`, one that
a controller has sent, or one that is made of the image from time to time and at a clean stop. Both have committed
records only, so nothing in the folder is ever taken back. What came after the newest one is fetched again. There is no
log in the folder: an observer votes on nothing, so nobody relies on what it has on its disk.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from broker.peers.call import Call, entity_call
from controller.quorum import snapshots
from controller.quorum.metadata_batches import CommittedBatch, MetadataLogError, decode_batch
from controller.quorum.opening import TOPIC, MetadataLogConfig
from controller.quorum.snapshots import BOOTSTRAP, SnapshotId, list_snapshots
from controller.quorum.survey import FOLDER_NAME, TOPIC_ID
from metadata.delta import ImageLoader
from metadata.image import EMPTY, MetadataImage
from metadata.snapshot import records_of
from protocol.durations import MILLISECOND
from protocol.metadata import serde
from protocol.metadata.brokers import KRaftVersionRecord, VotersRecord
from protocol.primitives import DecodeError
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from protocol.records.build import iter_records
from storage.files import write_file_atomically
from storage.log.log_services import LogServices

PARTITION = 0
MOST_BYTES = 1 << 20
"""Bytes of one answer: what is applied in one go. A larger batch still comes."""

LOWEST_FETCH = 13
"""The first Fetch that names topics by id. From 17 on answers say where the leader is, from 18 on they come at once
when only the high watermark has moved."""


@dataclass(frozen=True, slots=True)
class ObserverIdentity:
    """The observer that asks: node and cluster, and the folder of its copy."""

    node_id: int
    cluster_id: str
    directory_id: UUID


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """How far the observer has come: the offset to fetch next, the epoch before it, and what is committed."""

    offset: int
    epoch: int
    log_start: int
    high_watermark: int


def fetch(
    who: ObserverIdentity, leader_epoch: int, at: FetchPosition, max_wait_ms: int, most_bytes: int = MOST_BYTES
) -> Call[Any]:
    """The records from a position on, or where to go on instead."""
    from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState

    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=leader_epoch,
        fetch_offset=at.offset,
        last_fetched_epoch=at.epoch,
        log_start_offset=at.log_start,
        partition_max_bytes=most_bytes,
        replica_directory_id=who.directory_id,
        high_watermark=at.high_watermark,
    )
    request = FetchRequest(
        cluster_id=who.cluster_id,
        replica_state=ReplicaState(replica_id=who.node_id),
        max_wait=max_wait_ms * MILLISECOND,
        min_bytes=0,
        max_bytes=most_bytes,
        topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )
    return entity_call(request, lowest=LOWEST_FETCH)


def fetch_snapshot(who: ObserverIdentity, leader_epoch: int, snapshot: SnapshotId, position: int) -> Call[Any]:
    """The bytes of a snapshot from a position on."""
    from kio.schema.fetch_snapshot.v1 import request as asked

    partition = asked.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=asked.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=who.directory_id,
    )
    request = asked.FetchSnapshotRequest(
        cluster_id=who.cluster_id,
        replica_id=who.node_id,
        max_bytes=MOST_BYTES,
        topics=(asked.TopicSnapshot(name=TOPIC, partitions=(partition,)),),
    )
    return entity_call(request, lowest=0)


SOURCE = "the metadata log of the controllers"


@dataclass(frozen=True, slots=True)
class _Fetched:
    header: BatchHeader
    batch: memoryview


class FetchedLog:
    """Batches in the order of their offsets, of which the committed ones are taken away.

    Attributes:
        committed_end: the offset after the last batch that was taken.
        committed_epoch: the epoch of that batch.
        quorum_records: the newest control records that say who the voters are, if the log has any.
    """

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.committed_end = end_offset
        self.committed_epoch = epoch
        self.quorum_records: dict[str, KRaftVersionRecord | VotersRecord] = {}
        self._pending: deque[_Fetched] = deque()

    @property
    def kraft_version(self) -> int:
        """The finalized level of `kraft.version`."""
        record = self.quorum_records.get(KRaftVersionRecord.__name__)
        return record.k_raft_version if isinstance(record, KRaftVersionRecord) else 0

    @property
    def end_offset(self) -> int:
        """The offset to fetch next."""
        return self._pending[-1].header.next_offset if self._pending else self.committed_end

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch."""
        return self._pending[-1].header.leader_epoch if self._pending else self.committed_epoch

    def append(self, data: bytes) -> None:
        """Take what was fetched at `end_offset`; the last batch may be cut off. Raises MetadataLogError."""
        view, at = memoryview(data), 0
        while at + HEADER_SIZE <= len(data):
            header = read_header(view, at)
            end = at + header.size
            if end > len(data):
                break
            if header.magic != MAGIC or header.size < HEADER_SIZE or not check_crc(view, at, header):
                raise MetadataLogError(f"{SOURCE}: the batch at offset {header.base_offset} was damaged on its way")
            if header.base_offset > self.end_offset:
                raise MetadataLogError(f"{SOURCE}: offset {self.end_offset} is missing before {header.base_offset}")
            if header.last_offset >= self.end_offset:
                self._pending.append(_Fetched(header, view[at:end]))
            at = end

    def truncate(self, epoch: int, end_offset: int) -> None:
        """Drop what the leader's log does not have: all after `end_offset`, and of an epoch after `epoch`.

        Raises MetadataLogError if that takes back what was committed.
        """
        while self._pending:
            last = self._pending[-1].header
            if last.leader_epoch <= epoch and last.next_offset <= end_offset:
                break
            self._pending.pop()
        if not self._pending and (self.committed_end > end_offset or self.committed_epoch > epoch):
            raise MetadataLogError(
                f"{SOURCE} ends at offset {end_offset} of epoch {epoch}, but this node has followed it up to offset "
                f"{self.committed_end} of epoch {self.committed_epoch}: the controllers have lost what was committed"
            )

    def take_committed(self, high_watermark: int) -> Iterator[CommittedBatch]:
        """Take away the batches below the high watermark. Raises MetadataLogError for records that are not known."""
        while self._pending and self._pending[0].header.next_offset <= high_watermark:
            fetched = self._pending.popleft()
            header = fetched.header
            if header.is_control:
                self._note_control(fetched)
            records = decode_batch(header, fetched.batch, SOURCE)
            if header.base_offset < self.committed_end:  # the fetch began within the batch
                records = records[self.committed_end - header.base_offset :]
            self.committed_end, self.committed_epoch = header.next_offset, header.leader_epoch
            yield CommittedBatch(header.last_offset, header.leader_epoch, header.max_timestamp, records)

    def _note_control(self, fetched: _Fetched) -> None:
        try:
            for record in iter_records(fetched.batch, fetched.header):
                control = serde.decode_control(record.key, record.value)
                if isinstance(control, KRaftVersionRecord | VotersRecord):
                    self.quorum_records[control.__class__.__name__] = control
        except (DecodeError, ValueError) as error:
            raise MetadataLogError(
                f"{SOURCE}: the control records from {fetched.header.base_offset} on: {error}"
            ) from error


logger = structlog.get_logger(__name__)

KEPT_SNAPSHOTS = 2
MOST_SNAPSHOT_BYTES = 1 << 30
"""Of a snapshot that a controller sends, which is in memory until it is whole: that of some millions of partitions."""


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

    async def require_room(self, snapshot: SnapshotId, size: int) -> None:
        """Raises OSError for a snapshot that is too large to be fetched, or to be kept beside those that are there."""
        root = self._folder.rpartition("/")[0]
        _, free = await self._services.workers.call(partial(self._services.fs.space, root))
        most = min(MOST_SNAPSHOT_BYTES, free)
        if size > most:
            raise OSError(
                errno.EFBIG if most == MOST_SNAPSHOT_BYTES else errno.ENOSPC,
                f"the snapshot {snapshot.file_name} of a controller has {size} bytes; the most is "
                f"{MOST_SNAPSHOT_BYTES}, and {free} are free in {root}",
            )

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
