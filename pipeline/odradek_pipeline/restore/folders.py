"""Data folders and backups as what is restored from."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from odradek_pipeline.audit.findings import Findings
from odradek_pipeline.audit.log_topic import FoundBatch, Hole, LogTopic
from odradek_pipeline.audit.run import Audit
from odradek_pipeline.audit.sides import AuditError, Extent, Topic
from odradek_pipeline.audit.topic_table import OffsetMap, TopicTable
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import Home, find_homes
from odradek_pipeline.datasource.folders import topic_id as id_in
from odradek_pipeline.datasource.tier_metadata import TOPIC as TIER_METADATA
from odradek_pipeline.protocol.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_header,
    read_header,
    write_crc,
)
from odradek_pipeline.protocol.records.build import pack_batch
from odradek_pipeline.protocol.records.compression import Compression, decompress
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.merged import MadeBatch, MergedLog, empty_batch
from odradek_pipeline.restore.remote import Remote

BACKUP = "snapshot.json"
CLUSTER_METADATA = "__cluster_metadata"
_MOST_DELTA = 2**31 - 1


def data_folders(given: Sequence[str]) -> list[str]:
    """The data folders: those given, and those in a backup (`odradek backup create`), one for each of log.dirs.

    Raises AuditError.
    """
    found: list[str] = []
    for path in given:
        if not os.path.isdir(path):
            raise AuditError(f"There is no folder {path}.")
        if os.path.exists(f"{path}/{BACKUP}"):
            found += sorted(entry.path for entry in os.scandir(path) if entry.is_dir())
        else:
            found.append(path.rstrip("/"))
    return found


class Folders:
    """The partitions in the folders, and in remote storage, and their replicas."""

    def __init__(
        self,
        given: Sequence[str],
        topics: Collection[str],
        tier: Mapping[str, str] | None = None,
        topic_id: str | None = None,
    ) -> None:
        """`tier`: options of the data source that say where remote storage is; `topic_id`: of which of several topics.

        Raises AuditError if a topic is nowhere.
        """
        self.roots = data_folders(given)
        self.name = ", ".join(self.roots)
        self._remote_stays = False
        self._topic_id = topic_id
        self._logs: dict[TopicPartition, MergedLog] = {}
        self._homes: dict[TopicPartition, list[Home]] = {}
        for root in self.roots:
            try:
                for home in find_homes((root,), lambda key: key.topic != CLUSTER_METADATA):
                    self._homes.setdefault(home.partition, []).append(home)
            except DataSourceError as error:
                raise AuditError(str(error)) from error
        self._ids = {home.partition.topic: found for home in self._all_homes() if (found := _id_of(home)) is not None}
        self._remote = Remote(tier)
        if self._remote.tier is not None:
            self.name = ", ".join((*self.roots, str(self._remote.tier)))
        metadata = (self.merged(key) for key in sorted(self._homes) if key.topic == TIER_METADATA)
        self._remote.find(metadata, lambda topic, _: not topics or topic in topics)
        self._partitions = sorted(key for key in self._found() if not topics or key.topic in topics)
        missing = sorted(set(topics) - {key.topic for key in self._partitions})
        if missing or not self._partitions:
            raise AuditError(f"No partition of {', '.join(missing) or 'any topic'} is in {self.name}.")

    def _all_homes(self) -> Iterator[Home]:
        for homes in self._homes.values():
            yield from homes

    def _found(self) -> set[TopicPartition]:
        """All partitions. What says where remote segments are is left out, once they are restored themselves."""
        if self._remote.tier is None:
            return set(self._homes)
        remote = [key for key in self._remote.partitions() if self._known_id(key) in (None, *self._remote.ids(key))]
        return {key for key in (*self._homes, *remote) if key.topic != TIER_METADATA}

    def _known_id(self, partition: TopicPartition) -> str | None:
        return self._ids.get(partition.topic, self._topic_id)

    def as_it_was(self) -> None:
        """A whole broker is restored: without a tier, what is in remote storage stays there, if the broker knows it."""
        self._remote_stays = self._remote.tier is None and any(key.topic == TIER_METADATA for key in self._partitions)

    @property
    def remote_stays(self) -> bool:
        """Whether what is in remote storage is left there, and not restored."""
        return self._remote_stays

    def _topic_id_of(self, partition: TopicPartition) -> str | None:
        """The id that the topic has in the folders; else the one of the remote segments. Raises AuditError."""
        found = self._remote.ids(partition)
        known = self._known_id(partition)
        if known is not None or not found:
            return known
        if len(found) > 1:
            raise AuditError(
                f"{partition} is in {self._remote.tier} more than once, for topics with the ids {', '.join(found)}: "
                "say which with --topic-id."
            )
        return found[0]

    def merged(self, partition: TopicPartition) -> MergedLog:
        """Its log, which is walked over once. Raises AuditError."""
        found = self._logs.get(partition)
        if found is None:
            topic_id = self._topic_id_of(partition)
            remote = None
            if topic_id is not None:
                remote = self._remote.part(partition, topic_id, stays=self._remote_stays)
            self._logs[partition] = found = MergedLog(partition, self._homes.get(partition, ()), remote)
        return found

    def partitions(self) -> list[TopicPartition]:
        return self._partitions

    def log(self, partition: TopicPartition) -> FolderLog:
        """Raises AuditError."""
        return FolderLog(self.merged(partition))

    def audit(self, topic: str, restored: Topic, offsets: OffsetMap | None = None) -> list[Findings]:
        """Whether a restored topic has each record of the source once and as it was; `offsets`, if others there."""
        own = self.topic(topic)
        until = {number: extent.end for number, extent in own.extents().items()}
        return Audit(own, TopicTable(restored, offsets), until=until).run()

    def topic(self, name: str) -> MergedTopic:
        """The topic as the audit reads it. Raises AuditError."""
        return MergedTopic(name, {key.partition: self.merged(key) for key in self._partitions if key.topic == name})


def _id_of(home: Home) -> str | None:
    try:
        return id_in(home)
    except (OSError, UnicodeDecodeError):
        return None


class MergedTopic(LogTopic):
    """The committed records of a topic out of its replicas."""

    def __init__(self, topic: str, logs: Mapping[int, MergedLog]) -> None:
        super().__init__(topic)
        self.logs = logs

    def extents(self) -> Mapping[int, Extent]:
        return {number: Extent(log.start, log.story.end) for number, log in self.logs.items()}

    def batches(self, partition: int, start: int, end: int) -> Iterator[FoundBatch | Hole]:
        log = self.logs[partition]
        for batch in log.batches(start, end):
            yield batch.header, batch.read(), batch.header in log.aborted


class FolderLog:
    """A partition's log as it is written anew: as it was, or its committed records alone (`committed`)."""

    def __init__(self, merged: MergedLog) -> None:
        self.merged = merged
        self.partition = merged.partition
        self.start, self.end = merged.start, merged.story.end
        self.topic_id = merged.topic_id
        self.lost, self.damage = merged.story.lost, merged.story.damage
        self.open_transactions = merged.story.open

    def committed(self, *, keep_epochs: bool, compression: Compression | None) -> Iterator[MadeBatch]:
        """Batches without producers and transactions: these belong to a cluster.

        Leader epochs are 0 unless they are kept.
        """
        return reaching(self._plain(keep_epochs, compression), self.start, self.end)

    def _plain(self, keep_epochs: bool, compression: Compression | None) -> Iterator[MadeBatch]:
        for batch in self.merged.batches():
            header = batch.header
            if header.is_control or not header.record_count or header in self.merged.aborted:
                continue
            plain = header._replace(
                leader_epoch=header.leader_epoch if keep_epochs else 0,
                attributes=header.attributes & ~TRANSACTIONAL_FLAG,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
                base_sequence=NO_SEQUENCE,
            )
            yield rewritten(plain, batch.read(), compression)


def reaching(batches: Iterator[MadeBatch], start: int, end: int) -> Iterator[MadeBatch]:
    """The batches, each made to end where the next one begins, and the last one at the log's end.

    So the end stays where it was, and readers of the log do not take offsets without a record for lost ones.
    """
    held: MadeBatch | None = None
    for made in batches:
        yield from _up_to(held, start, made[0].base_offset)
        held = made
    yield from _up_to(held, start, end)


def _up_to(held: MadeBatch | None, start: int, end: int) -> Iterator[MadeBatch]:
    if held is None:
        if start < end:
            yield empty_batch(end - 1, 0)
        return
    header, data = held
    if end - header.base_offset <= _MOST_DELTA:
        reach = header._replace(last_offset_delta=end - 1 - header.base_offset)
        yield held if reach == header else rewritten(reach, data, None)
        return
    yield held
    yield empty_batch(end - 1, header.leader_epoch)


def rewritten(header: BatchHeader, data: bytes | bytearray, compression: Compression | None) -> MadeBatch:
    """A batch with another header, and its records compressed in another way. Raises AuditError.

    `header` has offsets, times, attributes and producer of the result; None keeps the compression.
    """
    if compression is None or compression == header.compression:
        made = bytearray(data)
        made[:HEADER_SIZE] = pack_header(header)
        write_crc(made, 0, len(made))
        return read_header(made), made
    try:
        section = decompress(Compression(header.compression), memoryview(data)[HEADER_SIZE:])
    except ValueError as error:
        raise AuditError(f"The batch at offset {header.base_offset} cannot be read: {error}") from error
    made = pack_batch(
        section,
        header.record_count,
        last_offset_delta=header.last_offset_delta,
        attributes=header.attributes & ~COMPRESSION_MASK,
        compression=compression,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    packed = read_header(made)._replace(base_offset=header.base_offset, leader_epoch=header.leader_epoch)
    made[:HEADER_SIZE] = pack_header(packed)
    return packed, made


def root_metadata(roots: Sequence[str]) -> Path | None:
    """The first folder with the metadata of its cluster and node."""
    for root in map(Path, roots):
        if (root / "meta.properties").is_file() and (root / f"{CLUSTER_METADATA}-0").is_dir():
            return root
    return None
